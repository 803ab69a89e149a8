//! Slows down failed logons: after several failures, the next Logon(A) must wait before it is
//! checked. Each failure doubles the wait.
//!
//! The engine counts the failures of one source address at one session or name, and the failures at
//! a session from all sources. It also counts the different names with which one source fails.
//!
//! Invariants: failures of others only delay a counterparty, for a bounded time. At a session that
//! has logged on from a source before, a logon from this source waits only for its own failures.
//! Failures with unknown names delay no existing session. A session that fails repeatedly, as with
//! an old password, delays no other session of its source. The memory is bounded.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transfix_session::{Disconnect, LogonFault};

/// The first wait, in nanoseconds; each further failure doubles the wait.
const FIRST_DELAY_NS: u64 = 250_000_000;
/// The time, in nanoseconds, after which earlier failures are forgotten if no other failure
/// follows.
const FORGET_NS: u64 = 600_000_000_000;
/// The maximum number of sources whose failed names are counted.
const SOURCES_MAX: usize = 10_000;
/// The maximum number of sources whose failures at one session are counted individually.
const SOURCES_OF_SESSION_MAX: usize = 16;

/// The maximum number of sources that are remembered as having logged on to a session.
const KNOWN_MAX: usize = 8;
/// The maximum number of failed names that are remembered for one source.
const NAMES_MAX: usize = 8;
/// The minimum time, in nanoseconds, between two removals of forgotten sources while the table is
/// full.
const SWEEP_NS: u64 = 1_000_000_000;

/// The source of a connection: an IPv4 address, or the /64 network of an IPv6 address. `None` if
/// unknown.
pub(crate) type Source = Option<IpAddr>;

/// Returns true if a connection ended with a failed logon: wrong credentials, or a refusal by the
/// application.
pub(crate) const fn is_failed_logon(why: &Disconnect) -> bool {
    matches!(why, Disconnect::LogonRefused(LogonFault::Credentials) | Disconnect::LogonDenied)
}

/// The number of failures without a wait, and the longest wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The number of failures without a wait; 0 turns off waiting altogether.
    pub(crate) free: u32,
    pub(crate) delay_max_ns: u64,
}

#[derive(Clone, Copy, Default)]
struct Count {
    failures: u32,
    last_ns: u64,
    /// The earliest time at which the next Logon(A) is checked.
    next_ns: u64,
}

impl Count {
    const fn is_forgotten(&self, now_ns: u64) -> bool {
        self.failures == 0 || now_ns.saturating_sub(self.last_ns) >= FORGET_NS
    }

    /// Returns how long the next Logon(A) must wait, in nanoseconds.
    fn delay_ns(&self, now_ns: u64, limits: Limits) -> u64 {
        match self.failures.checked_sub(limits.free) {
            Some(more) if !self.is_forgotten(now_ns) => {
                (FIRST_DELAY_NS << more.min(20)).min(limits.delay_max_ns)
            }
            _ => 0,
        }
    }

    fn fail(&mut self, now_ns: u64, limits: Limits) {
        if self.is_forgotten(now_ns) {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        self.last_ns = now_ns;
        self.take_turn(now_ns, limits);
    }

    /// Records that a Logon(A) is being checked, so that the next one must wait until this one's
    /// result is known or the wait is over.
    fn take_turn(&mut self, now_ns: u64, limits: Limits) {
        self.next_ns = now_ns + self.delay_ns(now_ns, limits);
    }
}

/// The failures of one source, by name.
#[derive(Default)]
struct Tried {
    count: Count,
    /// The names with which the source has failed last, each with its own count. Repeated failures
    /// with one name show a wrong configuration, or a peer that guesses the password.
    names: VecDeque<(u64, Count)>,
}

/// The failures at one session, and the sources that may log on without waiting for others.
#[derive(Default)]
struct Record {
    /// The sources from which the session has logged on, the latest last.
    known: VecDeque<Source>,
    of_all: Count,
    of: Vec<(Source, Count)>,
}

/// The failures at one session, behind a lock.
#[derive(Default)]
pub(crate) struct LogonRecord(Mutex<Record>);

/// The failures with unknown names, by source.
#[derive(Default)]
struct Sources {
    of: HashMap<Source, Tried>,
    /// The monotonic time at which forgotten sources may be removed again.
    sweep_ns: u64,
}

/// The failed logons of an engine. The locks are used even when poisoned, because no panic can
/// interrupt a change.
pub(crate) struct FailedLogons {
    limits: Limits,
    sources: Mutex<Sources>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FailedLogons {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, sources: Mutex::default() }
    }

    /// Checks whether a Logon(A) received at `since_ns` may be checked now. If so, counts the
    /// attempt.
    ///
    /// # Errors
    /// The time at which to ask again.
    pub(crate) fn turn(
        &self,
        (now_ns, since_ns): (u64, u64),
        source: Source,
        asked: AskedFor<'_>,
    ) -> Result<(), u64> {
        if self.limits.free == 0 {
            return Ok(());
        }
        let judge = |wait_ns: u64, own: Option<&mut Count>| {
            let own_ns = own.as_ref().map_or(0, |own| own.next_ns);
            let at_ns = (since_ns + wait_ns).max(own_ns);
            if at_ns > now_ns {
                return Err(at_ns);
            }
            if let Some(own) = own {
                own.take_turn(now_ns, self.limits);
            }
            Ok(())
        };
        match asked {
            AskedFor::Session(record) => {
                let mut record = lock(&record.0);
                let wait_ns = match record.known.contains(&source) {
                    true => 0,
                    false => record.of_all.delay_ns(now_ns, self.limits),
                };
                let own = record.of.iter_mut().find(|(of, _)| *of == source);
                judge(wait_ns, own.map(|(_, count)| count))
            }
            AskedFor::Name(name) => {
                let (name, mut sources) = (hashed(name), lock(&self.sources));
                let Some(tried) = sources.of.get_mut(&source) else { return Ok(()) };
                let wait_ns = tried.count.delay_ns(now_ns, self.limits);
                let own = tried.names.iter_mut().find(|(of, _)| *of == name);
                judge(wait_ns, own.map(|(_, count)| count))
            }
        }
    }

    /// Records a failed Logon(A) whose name has no session, or no session that this source may use.
    pub(crate) fn failed_as(&self, now_ns: u64, source: Source, name: impl Hash) {
        let (name, mut sources) = (hashed(name), lock(&self.sources));
        if sources.of.len() >= SOURCES_MAX && !sources.of.contains_key(&source) {
            // Removes forgotten sources only from time to time, because searching all of them takes
            // long.
            if now_ns >= sources.sweep_ns {
                sources.sweep_ns = now_ns + SWEEP_NS;
                sources.of.retain(|_, tried| !tried.count.is_forgotten(now_ns));
            }
            if sources.of.len() >= SOURCES_MAX {
                return;
            }
        }
        let tried = sources.of.entry(source).or_default();
        if let Some((_, count)) = tried.names.iter_mut().find(|(of, _)| *of == name) {
            count.fail(now_ns, self.limits);
            return;
        }
        let mut count = Count::default();
        count.fail(now_ns, self.limits);
        remember(&mut tried.names, (name, count), NAMES_MAX);
        tried.count.fail(now_ns, self.limits);
    }
}

/// The session that a Logon(A) requests.
#[derive(Clone, Copy)]
pub(crate) enum AskedFor<'a> {
    /// An existing session, with its record of failures.
    Session(&'a LogonRecord),
    /// A name without a session, for which a template may make one.
    Name(&'a str),
}

impl AskedFor<'_> {
    /// Returns true if a session is requested that has logged on from `source` before.
    pub(crate) fn is_known(self, source: Source) -> bool {
        matches!(self, Self::Session(record) if lock(&record.0).known.contains(&source))
    }
}

fn hashed(name: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// Appends an item, and removes the oldest one if there are more than `max`.
fn remember<T>(all: &mut VecDeque<T>, new: T, max: usize) {
    if all.len() >= max {
        all.pop_front();
    }
    all.push_back(new);
}

/// Records whether a connection's Logon(A) succeeds.
pub(crate) struct LogonWatch {
    pub(crate) source: Source,
    pub(crate) failed: Arc<FailedLogons>,
    pub(crate) record: Arc<LogonRecord>,
}

impl LogonWatch {
    /// Records a failed authentication, or a refusal by the application.
    pub(crate) fn failed(&self, now_ns: u64) {
        let limits = self.failed.limits;
        let mut record = lock(&self.record.0);
        record.of_all.fail(now_ns, limits);
        let known = record.of.iter_mut().find(|(source, _)| *source == self.source);
        if let Some((_, count)) = known {
            count.fail(now_ns, limits);
            return;
        }
        if record.of.len() >= SOURCES_OF_SESSION_MAX {
            let oldest = (0..record.of.len()).min_by_key(|i| record.of[*i].1.last_ns);
            oldest.map(|i| record.of.swap_remove(i));
        }
        let mut count = Count::default();
        count.fail(now_ns, limits);
        record.of.push((self.source, count));
        drop(record);
        self.failed.failed_as(now_ns, self.source, Arc::as_ptr(&self.record));
    }

    /// Records that the session is logged on.
    pub(crate) fn succeeded(&self) {
        let mut record = lock(&self.record.0);
        record.known.retain(|source| *source != self.source);
        remember(&mut record.known, self.source, KNOWN_MAX);
        record.of.retain(|(source, _)| *source != self.source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    const LIMITS: Limits = Limits { free: 3, delay_max_ns: 5 * SECOND_NS };

    struct Rig {
        failed: Arc<FailedLogons>,
        sessions: Vec<Arc<LogonRecord>>,
        now_ns: u64,
    }

    impl Rig {
        fn new() -> Self {
            let failed = Arc::new(FailedLogons::new(LIMITS));
            let sessions = (0..10).map(|_| Arc::default()).collect();
            Self { failed, sessions, now_ns: SECOND_NS }
        }

        fn watch(&self, host: u8, session: usize) -> LogonWatch {
            let (failed, record) = (Arc::clone(&self.failed), Arc::clone(&self.sessions[session]));
            LogonWatch { source: source(host), failed, record }
        }

        /// Returns how long a Logon(A) that arrives now must wait until it is checked, in
        /// milliseconds.
        fn wait_ms(&self, host: u8, session: usize) -> u64 {
            self.wait_ms_for(host, AskedFor::Session(&self.sessions[session]))
        }

        fn wait_ms_as(&self, host: u8, name: &str) -> u64 {
            self.wait_ms_for(host, AskedFor::Name(name))
        }

        fn wait_ms_for(&self, host: u8, asked: AskedFor<'_>) -> u64 {
            let (mut now_ns, since_ns) = (self.now_ns, self.now_ns);
            while let Err(at_ns) = self.failed.turn((now_ns, since_ns), source(host), asked) {
                assert!(at_ns > now_ns);
                now_ns = at_ns;
            }
            (now_ns - since_ns) / 1_000_000
        }

        fn fails(&self, host: u8, session: usize) {
            self.watch(host, session).failed(self.now_ns);
        }
    }

    fn source(host: u8) -> Source {
        Some([192, 0, 2, host].into())
    }

    #[test]
    fn each_failure_makes_the_wait_longer_up_to_the_bound_and_time_forgets_it() {
        let mut rig = Rig::new();
        rig.watch(1, 0).succeeded();
        let mut waits = Vec::new();
        for _ in 0..10 {
            rig.fails(1, 0);
            waits.push(rig.wait_ms(1, 0));
            rig.now_ns += 10 * SECOND_NS;
        }
        assert_eq!(waits, [0, 0, 250, 500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000]);
        rig.now_ns += FORGET_NS;
        rig.fails(1, 0);
        assert_eq!(rig.wait_ms(1, 0), 0);
    }

    #[test]
    fn a_success_forgives_the_source_at_that_session() {
        let rig = Rig::new();
        (0..10).for_each(|_| rig.fails(1, 0));
        rig.watch(1, 0).succeeded();
        assert_eq!(rig.wait_ms(1, 0), 0);
        assert!(rig.wait_ms(2, 0) > 0, "others still wait");
    }

    #[test]
    fn a_session_may_have_several_places_from_which_it_logs_on() {
        let rig = Rig::new();
        [1, 2, 1, 2].into_iter().for_each(|host| rig.watch(host, 0).succeeded());
        (0..10).for_each(|_| rig.fails(3, 0));
        assert_eq!((rig.wait_ms(1, 0), rig.wait_ms(2, 0)), (0, 0));
        // Only the last few addresses are remembered.
        (10..100).for_each(|host| rig.watch(host, 0).succeeded());
        assert!(rig.wait_ms(1, 0) > 0);
        assert_eq!(lock(&rig.sessions[0].0).known.len(), KNOWN_MAX);
    }

    #[test]
    fn what_many_sources_fail_at_a_session_holds_up_strangers_for_a_bounded_time_alone() {
        let rig = Rig::new();
        rig.watch(200, 0).succeeded();
        for host in 0..100 {
            rig.fails(host, 0);
            rig.fails(host, 0);
        }
        assert_eq!(rig.wait_ms(200, 0), 0, "it has logged on from there");
        for _ in 0..100 {
            assert_eq!(rig.wait_ms(201, 0), 5_000, "nobody is before it");
        }
        assert_eq!(rig.wait_ms(201, 1), 0, "the other session has its own");
        assert!(lock(&rig.sessions[0].0).of.len() <= SOURCES_OF_SESSION_MAX);
    }

    #[test]
    fn one_session_that_fails_holds_up_no_other_of_its_source() {
        let rig = Rig::new();
        (0..100).for_each(|_| rig.fails(1, 0));
        (0..100).for_each(|_| rig.failed.failed_as(rig.now_ns, source(1), "a name of nobody"));
        assert_eq!(rig.wait_ms(1, 1), 0);
        assert_eq!(rig.wait_ms(1, 0), 5_000);
    }

    #[test]
    fn a_few_names_by_turns_are_as_many_failures_as_names() {
        let rig = Rig::new();
        let fails = |name: &str| rig.failed.failed_as(rig.now_ns, source(1), name);
        (0..100).for_each(|_| ["one", "other"].into_iter().for_each(fails));
        assert_eq!(rig.wait_ms_as(1, "new"), 0);
        fails("a third");
        assert_eq!(rig.wait_ms_as(1, "new"), 250);
    }

    #[test]
    fn unknown_names_hold_up_unknown_names_of_their_source_and_no_session() {
        let mut rig = Rig::new();
        for name in 0..20 {
            rig.failed.failed_as(rig.now_ns, source(1), name.to_string());
        }
        for _ in 0..10 {
            assert_eq!(rig.wait_ms(1, 0), 0, "it is there, though never logged on");
            assert_eq!(rig.wait_ms_as(1, "new"), 5_000, "whoever else waits");
        }
        assert_eq!(rig.wait_ms_as(2, "new"), 0, "another source");
        rig.now_ns += FORGET_NS;
        assert_eq!(rig.wait_ms_as(1, "new"), 0);
    }

    #[test]
    fn failures_at_one_name_make_that_name_wait() {
        let rig = Rig::new();
        let waits = [0; 8].map(|_| {
            rig.failed.failed_as(rig.now_ns, source(1), "guessed");
            rig.wait_ms_as(1, "guessed")
        });
        assert_eq!(waits, [0, 0, 250, 500, 1_000, 2_000, 4_000, 5_000]);
        assert_eq!(rig.wait_ms_as(1, "guessed"), 10_000, "one after the other");
        assert_eq!(rig.wait_ms_as(1, "other"), 0, "it is one name");
    }

    #[test]
    fn nothing_is_held_up_where_the_settings_say_so() {
        let failed = Arc::new(FailedLogons::new(Limits { free: 0, ..LIMITS }));
        let rig = Rig { failed, ..Rig::new() };
        (0..100).for_each(|_| rig.fails(1, 0));
        assert_eq!(rig.wait_ms(1, 0), 0);
    }

    #[test]
    fn the_memory_is_bounded() {
        let rig = Rig::new();
        for n in 0..2 * u32::try_from(SOURCES_MAX).unwrap() {
            rig.failed.failed_as(rig.now_ns, Some(n.to_be_bytes().into()), "x");
        }
        assert_eq!(lock(&rig.failed.sources).of.len(), SOURCES_MAX);
        let later_ns = rig.now_ns + FORGET_NS;
        rig.failed.failed_as(later_ns, source(1), "x");
        assert_eq!(lock(&rig.failed.sources).of.len(), 1);
    }
}
