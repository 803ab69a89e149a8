//! Reports application callbacks that do not return, with session and callback.
//!
//! Invariants: a callback costs two atomic stores and no reading of the clock. Each slow callback
//! is reported once, and once more after it has returned.

use crate::event;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use transfix_session::{SessionId, nanos};

const MS: u64 = 1_000_000;
/// Checks of all callbacks within the time after which a callback is reported.
const LOOKS: u64 = 2;

/// A method of `Application`, or an event that `on_event` or `on_notice` receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Callback {
    /// `on_message`.
    OnMessage = 1,
    /// `judge_logon`.
    JudgeLogon,
    /// `fill_logon`.
    FillLogon,
    /// `on_resend`.
    OnResend,
    /// `on_wire`.
    OnWire,
    /// `on_event` with the event `LoggedOn`.
    LoggedOn,
    /// `on_event` with the event `NumbersReset`.
    NumbersReset,
    /// `on_event` with the event `Rejected`.
    Rejected,
    /// `on_notice` with the notice `RolledBack`.
    RolledBack,
    /// `on_notice` with the notice `Unsent`.
    Unsent,
    /// `on_notice` with the notice `Disconnected`.
    Disconnected,
    /// `on_event` with the event `ResendLoop`.
    ResendLoop,
    /// `on_event` with the event `AdminMessage`.
    AdminMessage,
    /// `on_notice` with the notice `StateChanged`.
    StateChanged,
    /// `on_event` with the event `SlowConsumer`.
    SlowConsumer,
    /// `on_event` with the event `CaughtUp`.
    CaughtUp,
}

/// The names of callbacks, indexed by the value of the enum.
const NAMES: [&str; 17] = [
    "none",
    "on_message",
    "judge_logon",
    "fill_logon",
    "on_resend",
    "on_wire",
    "LoggedOn",
    "NumbersReset",
    "Rejected",
    "RolledBack",
    "Unsent",
    "Disconnected",
    "ResendLoop",
    "AdminMessage",
    "StateChanged",
    "SlowConsumer",
    "CaughtUp",
];

impl Callback {
    /// Returns the name of the callback in the log.
    pub const fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// The running callback of a session's application, which has at most one at a time.
#[derive(Debug)]
pub struct CurrentCall {
    id: SessionId,
    /// The number of callbacks begun so far, times 256, plus the value of the running callback; the
    /// latter is 0 if none is running.
    call: AtomicU64,
}

impl CurrentCall {
    fn now(&self) -> u64 {
        self.call.load(Ordering::Relaxed)
    }

    /// Notes that a callback begins. It ends when the returned value is dropped.
    #[inline]
    pub fn begin(&self, callback: Callback) -> Running<'_> {
        let call = (self.now() | 0xff).wrapping_add(1);
        self.call.store(call | callback as u64, Ordering::Relaxed);
        Running { called: self, call }
    }
}

/// A running callback. Dropping the value ends it, also during a panic.
pub struct Running<'a> {
    called: &'a CurrentCall,
    call: u64,
}

impl Drop for Running<'_> {
    #[inline]
    fn drop(&mut self) {
        self.called.call.store(self.call, Ordering::Relaxed);
    }
}

/// A callback that was running at the last check, and the time at which a check first saw it.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    call: u64,
    since_ns: u64,
    is_told: bool,
}

/// The applications of an engine, with the callbacks that were running at the last check.
#[derive(Debug, Default)]
pub struct Watch {
    all: Mutex<Vec<(Weak<CurrentCall>, Seen)>>,
    /// The time in nanoseconds after which a callback is reported; 0 turns off reports.
    slow_ns: u64,
}

/// A slow callback found by a check.
#[derive(Debug, PartialEq, Eq)]
struct Slow {
    id: SessionId,
    callback: &'static str,
    ms: u64,
    has_returned: bool,
}

impl Watch {
    /// Returns a watch that reports callbacks which take longer than `slow_callback`; zero turns
    /// off reports.
    #[must_use]
    pub fn new(slow_callback: Duration) -> Self {
        Self { all: Mutex::default(), slow_ns: nanos(slow_callback) }
    }

    /// Returns the time between two checks; `None` if checks are off.
    pub fn interval_ns(&self) -> Option<u64> {
        (self.slow_ns > 0).then(|| (self.slow_ns / LOOKS).max(MS))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Weak<CurrentCall>, Seen)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the application of a session.
    pub fn add(&self, id: &SessionId) -> Arc<CurrentCall> {
        let called = Arc::new(CurrentCall { id: id.clone(), call: AtomicU64::new(0) });
        if self.slow_ns > 0 {
            self.lock().push((Arc::downgrade(&called), Seen::default()));
        }
        called
    }

    /// Reports slow callbacks, and slow callbacks that have returned. Calls `held_up` for each of
    /// these sessions: with the callback's name, or with `None` after its return.
    pub fn look(&self, now_ns: u64, held_up: impl Fn(&SessionId, Option<&'static str>)) {
        for slow in self.find(now_ns) {
            let Slow { id, callback, ms, has_returned } = slow;
            if has_returned {
                event!(warn, CallbackReturned, session = %id, callback, ms);
                held_up(&id, None);
            } else {
                event!(warn, CallbackHangs, session = %id, callback, ms);
                held_up(&id, Some(callback));
            }
        }
    }

    fn find(&self, now_ns: u64) -> Vec<Slow> {
        let mut found = Vec::new();
        self.lock().retain_mut(|(called, seen)| {
            let Some(called) = called.upgrade() else { return false };
            let call = called.now();
            let ms = now_ns.saturating_sub(seen.since_ns) / MS;
            let slow = |has_returned| {
                let callback = NAMES.get((seen.call & 0xff) as usize).copied().unwrap_or("?");
                Slow { id: called.id.clone(), callback, ms, has_returned }
            };
            if call != seen.call {
                found.extend(seen.is_told.then(|| slow(true)));
                *seen = Seen { call, since_ns: now_ns, is_told: false };
            } else if call & 0xff != 0 && !seen.is_told && ms * MS >= self.slow_ns {
                found.push(slow(false));
                seen.is_told = true;
            }
            true
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfix_session::BeginString;

    fn found(watch: &Watch, now_ms: u64) -> Vec<(&'static str, u64, bool)> {
        let found = watch.find(now_ms * MS);
        found.into_iter().map(|slow| (slow.callback, slow.ms, slow.has_returned)).collect()
    }

    #[test]
    fn tells_of_a_call_once_and_of_its_return() {
        let watch = Watch::new(Duration::from_secs(1));
        let called = watch.add(&SessionId::new(BeginString::Fix44, "US", "THEM"));
        assert_eq!(watch.interval_ns(), Some(500 * MS));
        assert_eq!(found(&watch, 0), []);
        let call = called.begin(Callback::OnWire);
        assert_eq!(found(&watch, 500), [], "seen for the first time");
        assert_eq!(found(&watch, 1_400), []);
        assert_eq!(found(&watch, 1_500), [("on_wire", 1_000, false)]);
        assert_eq!(found(&watch, 9_000), [], "once");
        drop(call);
        let other = called.begin(Callback::OnMessage);
        assert_eq!(found(&watch, 9_500), [("on_wire", 9_000, true)]);
        drop(other);
        let same = called.begin(Callback::OnMessage);
        assert_eq!(found(&watch, 11_000), [], "another call than at the last look");
        drop(same);
        assert_eq!(found(&watch, 12_000), []);
        assert_eq!(found(&watch, 20_000), [], "nothing runs");
        drop(called);
        assert_eq!(found(&watch, 21_000), []);
        assert!(watch.lock().is_empty());
    }

    #[test]
    fn a_panic_ends_a_call() {
        let watch = Watch::new(Duration::from_millis(10));
        let called = watch.add(&SessionId::new(BeginString::Fix44, "US", "THEM"));
        let of_panic = Arc::clone(&called);
        let panicked = std::thread::spawn(move || {
            let _call = of_panic.begin(Callback::LoggedOn);
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(panicked.join().is_err());
        assert_eq!(called.now() & 0xff, 0);
    }

    #[test]
    fn nobody_looks_without_a_time() {
        let watch = Watch::new(Duration::ZERO);
        let _called = watch.add(&SessionId::new(BeginString::Fix44, "US", "THEM"));
        assert_eq!(watch.interval_ns(), None);
        assert!(watch.lock().is_empty());
    }

    #[test]
    fn each_callback_has_its_name() {
        assert_eq!(Callback::OnMessage.name(), "on_message");
        assert_eq!(NAMES[Callback::FillLogon as usize], "fill_logon");
        assert_eq!(Callback::RolledBack.name(), "RolledBack");
        assert_eq!(NAMES.len(), Callback::CaughtUp as usize + 1);
    }
}
