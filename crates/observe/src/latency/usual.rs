//! Compares the latencies of each session with those that are usual for the session.
//!
//! Invariants: a quiet session keeps only the 99th percentiles of its last usual windows. Each
//! change is reported once, and repeated changes are summarized. A comparison locks no session.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use transfix_session::{SessionId, nanos};

use super::told::{Change, Line, Reported};
use super::{Latency, LatencyStage};
use crate::published::Published;

/// The number of windows from which the usual 99th percentile is computed.
const WINDOWS: usize = 30;
/// The number of windows that must have passed before a 99th percentile can be unusual.
const WINDOWS_LEAST: usize = 10;
/// The number of times that a window must contain for a meaningful 99th percentile.
const TIMES_LEAST: u64 = 500;
/// The shortest 99th percentile, in nanoseconds, that counts as unusual, because shorter ones need
/// no action.
const NS_LEAST: u64 = 10_000;
/// Consecutive windows with too few times after which a stage is no longer unusual.
const RESTS_MAX: u32 = 3;
/// The number of quiet windows after which the last snapshot of a session is dropped.
const QUIET_MAX: u32 = 30;

/// The stages of a session that are unusual now, as a set of bits.
#[derive(Debug, Default)]
pub struct Unusual(AtomicU16);

impl Unusual {
    fn set(&self, stage: LatencyStage, is_unusual: bool) {
        let bit = 1 << stage as u16;
        match is_unusual {
            true => self.0.fetch_or(bit, Ordering::Relaxed),
            false => self.0.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// Returns the stages that are unusual now.
    pub fn stages(&self) -> impl Iterator<Item = LatencyStage> + use<> {
        let bits = self.0.load(Ordering::Relaxed);
        LatencyStage::ALL.into_iter().filter(move |stage| bits >> *stage as u16 & 1 == 1)
    }
}

/// Compares, at the end of each window, the 99th percentile of each stage of each session with
/// earlier windows.
#[derive(Debug, Default)]
pub struct UsualTimes {
    /// The length of a window in nanoseconds; 0 turns comparisons off.
    window_ns: u64,
    /// A 99th percentile is unusual if it exceeds the usual one multiplied by this factor.
    factor: f64,
    /// The monotonic time at which the current window ends.
    ends_at_ns: AtomicU64,
    sessions: Mutex<HashMap<SessionId, Known>>,
}

/// The known latencies of a session.
#[derive(Debug, Default)]
struct Known {
    /// Identifies the session, because a session that was made again has the same identity.
    of: Weak<Published>,
    /// Messages in and out at the end of the last window.
    messages: u64,
    quiet: u32,
    /// The snapshot at the end of the last window, unless the session has been quiet for long.
    times: Option<Box<Latency>>,
    stages: HashMap<LatencyStage, Usual>,
}

/// The usual latency of a stage, and its present state.
#[derive(Debug, Default)]
struct Usual {
    /// The 99th percentiles of the last usual windows in nanoseconds, the oldest first.
    p99_ns: Vec<u64>,
    /// The number of windows since the stage has become unusual; 0 if it is usual.
    unusual: usize,
    /// The number of windows with too few times since the stage has become unusual.
    rests: u32,
    told: Reported,
}

impl Usual {
    /// Compares the 99th percentile of a window that has ended. Returns the change, if any.
    fn judge(&mut self, p99_ns: u64, factor: f64) -> Option<Change> {
        let usual_ns = self.usual_ns();
        let highest = self.p99_ns.iter().copied().max().unwrap_or(0).max(NS_LEAST);
        let is_unusual = self.p99_ns.len() >= WINDOWS_LEAST
            && p99_ns > highest
            && p99_ns as f64 > usual_ns as f64 * factor;
        self.rests = 0;
        if is_unusual {
            self.unusual += 1;
            if self.unusual == WINDOWS {
                (self.p99_ns, self.unusual) = (Vec::new(), 0);
                return Some(Change::Adopted { p99_ns });
            }
            return (self.unusual == 1).then_some(Change::Left { p99_ns, usual_ns });
        }
        if self.p99_ns.len() == WINDOWS {
            self.p99_ns.remove(0);
        }
        self.p99_ns.push(p99_ns);
        let was_unusual = std::mem::take(&mut self.unusual) > 0;
        was_unusual.then_some(Change::Returned { p99_ns, usual_ns })
    }

    /// Notes a window with too few times for a comparison, because silence is not unusual. Returns
    /// the change, if any.
    fn rest(&mut self) -> Option<Change> {
        if self.unusual == 0 {
            return None;
        }
        self.rests += 1;
        if self.rests < RESTS_MAX {
            return None;
        }
        (self.unusual, self.rests) = (0, 0);
        Some(Change::Rests { usual_ns: self.usual_ns() })
    }

    /// Returns the median of the usual windows' 99th percentiles, in nanoseconds.
    fn usual_ns(&self) -> u64 {
        let mut sorted = self.p99_ns.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(0)
    }
}

impl UsualTimes {
    /// Returns comparisons with windows of the length `window`. A 99th percentile is unusual if it
    /// exceeds `factor_percent` percent of the usual one.
    pub fn new(window: Duration, factor_percent: u32, now_ns: u64) -> Self {
        let window_ns = nanos(window);
        Self {
            window_ns,
            factor: f64::from(factor_percent) / 100.0,
            ends_at_ns: AtomicU64::new(now_ns.saturating_add(window_ns)),
            sessions: Mutex::default(),
        }
    }

    /// Returns the time of the next comparison; `None` if comparisons are off.
    pub fn looks_at(&self) -> Option<u64> {
        (self.window_ns > 0).then(|| self.ends_at_ns.load(Ordering::Relaxed))
    }

    /// If the window has ended, compares all sessions and logs each stage that has become unusual,
    /// or usual again.
    pub fn look(&self, now_ns: u64, all: impl FnOnce() -> Vec<(SessionId, Arc<Published>)>) {
        if self.looks_at().is_none_or(|at| now_ns < at) {
            return;
        }
        // The new window begins now, so that a suspended machine has had one long window instead of
        // many.
        self.ends_at_ns.store(now_ns.saturating_add(self.window_ns), Ordering::Relaxed);
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *sessions);
        for (id, published) in all() {
            let of = Arc::downgrade(&published);
            let known = before.remove(&id).filter(|known| known.of.ptr_eq(&of));
            let mut known = known.unwrap_or_else(|| Known { of, ..Known::default() });
            for (stage, line) in known.window(&published, self.factor) {
                line.tell(&id, stage);
            }
            sessions.insert(id, known);
        }
    }
}

impl Known {
    /// Compares a window that has ended. Returns the lines to log.
    fn window(&mut self, published: &Published, factor: f64) -> Vec<(LatencyStage, Line)> {
        let counters = published.counters.now();
        let messages = counters.messages_in + counters.messages_out;
        let came = messages.saturating_sub(std::mem::replace(&mut self.messages, messages));
        let mut p99s_ns = HashMap::new();
        if came < TIMES_LEAST {
            self.quiet += 1;
            if self.quiet >= QUIET_MAX {
                self.times = None;
            }
        } else {
            self.quiet = 0;
            let now = published.latency();
            if let Some(earlier) = &self.times {
                p99s_ns = p99s(&now.since(earlier));
            }
            self.times = Some(Box::new(now));
        }
        self.judge(&p99s_ns, published, factor)
    }

    /// Compares a window that has ended. `p99s_ns` are the 99th percentiles of stages with enough
    /// times.
    fn judge(
        &mut self,
        p99s_ns: &HashMap<LatencyStage, u64>,
        published: &Published,
        factor: f64,
    ) -> Vec<(LatencyStage, Line)> {
        for stage in p99s_ns.keys() {
            self.stages.entry(*stage).or_default();
        }
        let mut lines = Vec::new();
        for (stage, usual) in &mut self.stages {
            let change = match p99s_ns.get(stage) {
                Some(p99_ns) => usual.judge(*p99_ns, factor),
                None => usual.rest(),
            };
            let is_unusual = usual.unusual > 0;
            published.unusual.set(*stage, is_unusual);
            lines.extend(usual.told.window(change, is_unusual).map(|line| (*stage, line)));
        }
        lines
    }
}

/// Returns the p99 of each stage with enough times.
fn p99s(window: &Latency) -> HashMap<LatencyStage, u64> {
    let stages = window.stages().filter(|(_, times)| times.count() >= TIMES_LEAST);
    stages.map(|(stage, times)| (stage, times.percentile_ns(99.0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

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
        let left = Change::Left { p99_ns: 181 * US, usual_ns: 20 * US };
        assert_eq!(usual.judge(181 * US, 3.0), Some(left));
        assert_eq!(usual.judge(500 * US, 3.0), None, "once");
        let returned = Change::Returned { p99_ns: 21 * US, usual_ns: 20 * US };
        assert_eq!(usual.judge(21 * US, 3.0), Some(returned));
        assert_eq!(usual.judge(21 * US, 3.0), None);
    }

    #[test]
    fn what_was_seen_before_is_usual() {
        // A 99th percentile that jumps every few windows is usual for this stage.
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
        assert_eq!(told, [Change::Adopted { p99_ns: 300 * US }]);
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
        let mut window = |times: u64, ns: u64| {
            for _ in 0..times {
                recorder.record(LatencyStage::Callback, ns);
                published.counters.messages_in.add(1);
            }
            known.window(&published, factor)
        };
        for _ in 0..=WINDOWS_LEAST {
            assert_eq!(window(1_000, 20_000), []);
        }
        assert_eq!(window(TIMES_LEAST - 1, SECOND_NS), [], "too few");
        let found = window(50_000, 90_000);
        let [(LatencyStage::Callback, Line::Changed(Change::Left { p99_ns, .. }))] = found[..]
        else {
            panic!("{found:?}")
        };
        assert!((90_000..=93_000).contains(&p99_ns), "{p99_ns}");
        assert!(published.unusual.stages().eq([LatencyStage::Callback]));
        // The end is reported after several windows with too few messages.
        for _ in 1..RESTS_MAX {
            assert_eq!(window(TIMES_LEAST - 1, SECOND_NS), []);
            assert!(published.unusual.stages().eq([LatencyStage::Callback]));
        }
        let rests = Line::Changed(Change::Rests { usual_ns: 20_000 });
        assert_eq!(window(0, 0), [(LatencyStage::Callback, rests)]);
        assert!(published.unusual.stages().eq([]));
        for _ in 0..QUIET_MAX {
            assert_eq!(window(0, 0), []);
        }
        assert!(known.times.is_none(), "memory is back");
    }

    #[test]
    fn a_stage_that_rests_while_others_work_is_not_unusual_for_ever() {
        let (published, mut known) = (Published::default(), Known::default());
        let recorder = published.recorder();
        let mut window = |callback_ns: Option<u64>| {
            for _ in 0..1_000 {
                recorder.record(LatencyStage::Written, 20_000);
                callback_ns.into_iter().for_each(|ns| recorder.record(LatencyStage::Callback, ns));
                published.counters.messages_in.add(1);
            }
            known.window(&published, 3.0)
        };
        for _ in 0..=WINDOWS_LEAST {
            assert_eq!(window(Some(20_000)), []);
        }
        assert_eq!(window(Some(900_000)).len(), 1);
        let lines: Vec<_> = (0..RESTS_MAX).flat_map(|_| window(None)).collect();
        assert!(matches!(lines[..], [(_, Line::Changed(Change::Rests { .. }))]), "{lines:?}");
        assert!(published.unusual.stages().eq([]));
    }

    #[test]
    fn a_stage_that_is_slow_each_second_window_is_summed_up() {
        let (published, mut known) = (Published::default(), Known::default());
        let mut window =
            |ns: u64| known.judge(&HashMap::from([(LatencyStage::Callback, ns)]), &published, 3.0);
        (0..WINDOWS_LEAST).for_each(|_| assert_eq!(window(20 * US), []));
        let mut lines = 0;
        for _ in 0..100 {
            lines += window(900 * US).len();
            assert!(published.unusual.stages().eq([LatencyStage::Callback]), "it is all the same");
            lines += window(20 * US).len();
            assert!(published.unusual.stages().eq([]));
        }
        // Without the summaries, there would be two hundred lines.
        assert!((8..=16).contains(&lines), "{lines}");
    }

    #[test]
    fn a_session_that_begins_anew_is_another() {
        let usual = UsualTimes::new(Duration::from_secs(1), 300, 0);
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
        let usual = UsualTimes::new(Duration::from_secs(60), 300, SECOND_NS);
        assert_eq!(usual.looks_at(), Some(61 * SECOND_NS));
        usual.look(60 * SECOND_NS, || panic!("too early"));
        usual.look(200 * SECOND_NS, Vec::new);
        assert_eq!(usual.looks_at(), Some(260 * SECOND_NS));
        assert_eq!(UsualTimes::new(Duration::ZERO, 300, 0).looks_at(), None);
    }
}
