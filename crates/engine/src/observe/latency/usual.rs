//! Whether the times of each session are what they usually are.
//!
//! Invariants: of a session that is quiet only the p99s of its last usual windows are kept; a
//! change of a session that is busy is told once; no lock of a session is taken.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use transfix_session::SessionId;

use super::{Latency, LatencyStage};
use crate::observe::published::Published;

/// Windows that say what is usual.
const WINDOWS: usize = 30;
/// Windows that are needed before anything is unusual.
const WINDOWS_LEAST: usize = 10;
/// Times of a stage within a window, below which its p99 says nothing.
const TIMES_LEAST: u64 = 500;
/// What is shorter is never told: nobody can act on it.
const NS_LEAST: u64 = 10_000;
/// Windows without much after which what is known of a session goes.
const QUIET_MAX: u32 = 30;
const SECOND_NS: u64 = 1_000_000_000;

/// Stages of a session whose p99 is unusual now.
#[derive(Debug, Default)]
pub(crate) struct Unusual(AtomicU16);

impl Unusual {
    fn set(&self, stage: LatencyStage, is_unusual: bool) {
        let bit = 1 << stage as u16;
        match is_unusual {
            true => self.0.fetch_or(bit, Ordering::Relaxed),
            false => self.0.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    pub(crate) fn stages(&self) -> impl Iterator<Item = LatencyStage> + use<> {
        let bits = self.0.load(Ordering::Relaxed);
        LatencyStage::ALL.into_iter().filter(move |stage| bits >> *stage as u16 & 1 == 1)
    }
}

/// Compares the p99 of each stage of each session, window by window, with what it was before.
#[derive(Debug, Default)]
pub(crate) struct UsualTimes {
    /// Length of a window; 0 for never.
    window_ns: u64,
    /// How many times the usual p99 is unusual.
    factor: f64,
    /// When the window ends.
    ends_at_ns: AtomicU64,
    sessions: Mutex<HashMap<SessionId, Known>>,
}

/// What is known of a session.
#[derive(Debug, Default)]
struct Known {
    /// The session that it is known of: one that begins anew has the same identity.
    of: Weak<Published>,
    /// Messages in and out at the end of the last window.
    messages: u64,
    quiet: u32,
    /// The times at the end of the last window, if the session is busy.
    times: Option<Box<Latency>>,
    stages: HashMap<LatencyStage, Usual>,
}

/// What is usual for a stage.
#[derive(Debug, Default)]
struct Usual {
    /// The p99 of the last windows that were usual, the oldest first.
    p99_ns: Vec<u64>,
    /// Windows since it is unusual; 0 if it is not.
    unusual: usize,
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The p99 is unusual now.
    Left { usual_ns: u64 },
    /// It is what it was before.
    Returned { usual_ns: u64 },
    /// It has been unusual for so long that it is the usual one now.
    Adopted,
}

impl Usual {
    fn judge(&mut self, p99_ns: u64, factor: f64) -> Option<Change> {
        let mut sorted = self.p99_ns.clone();
        sorted.sort_unstable();
        let usual_ns = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
        let highest = sorted.last().copied().unwrap_or(0).max(NS_LEAST);
        let is_unusual = sorted.len() >= WINDOWS_LEAST
            && p99_ns > highest
            && p99_ns as f64 > usual_ns as f64 * factor;
        if is_unusual {
            self.unusual += 1;
            if self.unusual == WINDOWS {
                *self = Self::default();
                return Some(Change::Adopted);
            }
            return (self.unusual == 1).then_some(Change::Left { usual_ns });
        }
        if self.p99_ns.len() == WINDOWS {
            self.p99_ns.remove(0);
        }
        self.p99_ns.push(p99_ns);
        let was_unusual = std::mem::take(&mut self.unusual) > 0;
        was_unusual.then_some(Change::Returned { usual_ns })
    }
}

impl UsualTimes {
    /// `factor`: in hundredths.
    pub(crate) fn new(window_s: u32, factor_percent: u32, now_ns: u64) -> Self {
        let window_ns = u64::from(window_s) * SECOND_NS;
        Self {
            window_ns,
            factor: f64::from(factor_percent) / 100.0,
            ends_at_ns: AtomicU64::new(now_ns.saturating_add(window_ns)),
            sessions: Mutex::default(),
        }
    }

    /// When somebody is to look next; `None` if nobody is.
    pub(crate) fn looks_at(&self) -> Option<u64> {
        (self.window_ns > 0).then(|| self.ends_at_ns.load(Ordering::Relaxed))
    }

    /// If the window has ended: tells of each stage that has become unusual, and of each that is as
    /// usual again.
    pub(crate) fn look(&self, now_ns: u64, all: impl FnOnce() -> Vec<(SessionId, Arc<Published>)>) {
        if self.looks_at().is_none_or(|at| now_ns < at) {
            return;
        }
        // A machine that has slept has one long window.
        self.ends_at_ns.store(now_ns.saturating_add(self.window_ns), Ordering::Relaxed);
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *sessions);
        for (id, published) in all() {
            let of = Arc::downgrade(&published);
            let known = before.remove(&id).filter(|known| known.of.ptr_eq(&of));
            let mut known = known.unwrap_or_else(|| Known { of, ..Known::default() });
            for (stage, p99_ns, change) in known.window(&published, self.factor) {
                published.unusual.set(stage, matches!(change, Change::Left { .. }));
                tell(&id, stage, p99_ns, change);
            }
            sessions.insert(id, known);
        }
    }
}

impl Known {
    /// The window has ended. Returns what has changed, with the p99 of the window.
    fn window(&mut self, published: &Published, factor: f64) -> Vec<(LatencyStage, u64, Change)> {
        let counters = published.counters.now();
        let messages = counters.messages_in + counters.messages_out;
        let came = messages.saturating_sub(std::mem::replace(&mut self.messages, messages));
        if came < TIMES_LEAST {
            self.quiet += 1;
            if self.quiet == QUIET_MAX {
                // Nothing is unusual about silence.
                for (stage, usual) in &mut self.stages {
                    published.unusual.set(*stage, false);
                    usual.unusual = 0;
                }
            }
            if self.quiet >= QUIET_MAX {
                self.times = None;
            }
            return Vec::new();
        }
        self.quiet = 0;
        let now = published.latency();
        let mut changes = Vec::new();
        if let Some(earlier) = &self.times {
            for (stage, times) in now.since(earlier).stages() {
                if times.count() < TIMES_LEAST {
                    continue;
                }
                let p99_ns = times.percentile_ns(99.0);
                let change = self.stages.entry(stage).or_default().judge(p99_ns, factor);
                changes.extend(change.map(|change| (stage, p99_ns, change)));
            }
        }
        self.times = Some(Box::new(now));
        changes
    }
}

fn tell(id: &SessionId, stage: LatencyStage, p99_ns: u64, change: Change) {
    match change {
        Change::Left { usual_ns } => {
            tracing::warn!(session = %id, %stage, p99_ns, usual_ns, "a latency is unusual");
        }
        Change::Returned { usual_ns } => {
            tracing::info!(session = %id, %stage, p99_ns, usual_ns, "a latency is usual again");
        }
        Change::Adopted => {
            tracing::warn!(session = %id, %stage, p99_ns,
                "an unusual latency is the usual one now");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    fn learnt(p99_ns: u64) -> Usual {
        let mut usual = Usual::default();
        for _ in 0..WINDOWS_LEAST {
            assert_eq!(usual.judge(p99_ns, 3.0), None);
        }
        usual
    }

    #[test]
    fn nothing_is_unusual_before_enough_is_known() {
        let mut usual = Usual::default();
        for n in 0..WINDOWS_LEAST as u64 {
            assert_eq!(usual.judge((20 * US) << n, 3.0), None);
        }
    }

    #[test]
    fn a_change_is_told_once_and_its_end_too() {
        let mut usual = learnt(20 * US);
        assert_eq!(usual.judge(60 * US, 3.0), None, "three times, not more");
        assert_eq!(usual.judge(181 * US, 3.0), Some(Change::Left { usual_ns: 20 * US }));
        assert_eq!(usual.judge(500 * US, 3.0), None, "once");
        assert_eq!(usual.judge(21 * US, 3.0), Some(Change::Returned { usual_ns: 20 * US }));
        assert_eq!(usual.judge(21 * US, 3.0), None);
    }

    #[test]
    fn what_was_seen_before_is_usual() {
        // A p99 that jumps each few windows has a wide range.
        let mut usual = Usual::default();
        for n in 0..40 {
            let p99_ns = if n % 7 == 0 { 900 * US } else { 20 * US };
            assert_eq!(usual.judge(p99_ns, 3.0), None, "window {n}");
        }
        assert!(usual.judge(901 * US, 3.0).is_some());
    }

    #[test]
    fn what_stays_becomes_usual() {
        let mut usual = learnt(20 * US);
        assert!(matches!(usual.judge(300 * US, 3.0), Some(Change::Left { .. })));
        let told: Vec<_> = (0..WINDOWS).filter_map(|_| usual.judge(300 * US, 3.0)).collect();
        assert_eq!(told, [Change::Adopted]);
        (0..WINDOWS).for_each(|_| assert_eq!(usual.judge(300 * US, 3.0), None));
    }

    #[test]
    fn nobody_is_told_of_what_is_short() {
        let mut usual = learnt(100);
        assert_eq!(usual.judge(9 * US, 3.0), None);
        assert!(usual.judge(11 * US, 3.0).is_some());
    }

    #[test]
    fn a_session_that_slows_down_is_told_and_one_that_rests_is_not() {
        let (published, factor) = (Published::default(), 3.0);
        let recorder = published.recorder();
        let mut known = Known::default();
        let mut window = |times: u64, ns: f64| {
            for _ in 0..times {
                recorder.record(LatencyStage::Callback, ns);
                published.counters.messages_in.add(1);
            }
            known.window(&published, factor)
        };
        for _ in 0..=WINDOWS_LEAST {
            assert_eq!(window(1_000, 20_000.0), []);
        }
        assert_eq!(window(TIMES_LEAST - 1, 1e9), [], "too few");
        let found = window(50_000, 90_000.0);
        let [(LatencyStage::Callback, 90_000..=93_000, Change::Left { .. })] = found[..] else {
            panic!("{found:?}")
        };
        published.unusual.set(LatencyStage::Callback, true);
        assert!(published.unusual.stages().eq([LatencyStage::Callback]));
        for _ in 0..QUIET_MAX {
            assert_eq!(window(0, 0.0), []);
        }
        assert!(published.unusual.stages().eq([]));
        assert!(known.times.is_none(), "memory is back");
    }

    #[test]
    fn a_session_that_begins_anew_is_another() {
        let usual = UsualTimes::new(1, 300, 0);
        let id = SessionId::new(transfix_session::BeginString::Fix44, "US", "THEM");
        let [first, second] = [(); 2].map(|()| Arc::new(Published::default()));
        let look = |at_s: u64, published: &Arc<Published>, count: u64| {
            published.counters.messages_in.add(count);
            usual.look(at_s * SECOND_NS, || vec![(id.clone(), Arc::clone(published))]);
            let known = &usual.sessions.lock().unwrap()[&id];
            (known.messages, known.times.is_some())
        };
        assert_eq!(look(2, &first, 700), (700, true));
        assert_eq!(look(4, &first, 700), (1_400, true));
        assert_eq!(look(6, &second, 5), (5, false), "nothing of the one before");
    }

    #[test]
    fn looks_at_the_end_of_each_window() {
        let usual = UsualTimes::new(60, 300, SECOND_NS);
        assert_eq!(usual.looks_at(), Some(61 * SECOND_NS));
        usual.look(60 * SECOND_NS, || panic!("too early"));
        usual.look(200 * SECOND_NS, Vec::new);
        assert_eq!(usual.looks_at(), Some(260 * SECOND_NS));
        assert_eq!(UsualTimes::new(0, 300, 0).looks_at(), None);
    }
}
