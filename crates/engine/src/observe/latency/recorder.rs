//! The times of one session while they are measured: a count for each stage and bucket.
//!
//! Invariants: one writer at a time, who holds the session's lock; memory is taken for the powers
//! of two that times fall into, and never given back, so a reader sees counts that only grow.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::histogram::{GROUPS, NS_MAX, SLOTS, bucket_of};
use super::{Latency, LatencyHistogram, LatencyStage};

const STAGES: usize = LatencyStage::ALL.len();

/// The counts of all stages between two powers of two: 1,280 bytes. The times of one session lie
/// in some ten such groups; all of them would be 46 KiB.
type Group = [[AtomicU32; SLOTS]; STAGES];

/// The times of one session.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Made when a first time falls into it.
    groups: [OnceLock<Box<Group>>; GROUPS],
    /// How often a count has begun again at 0: made when that happens first.
    carried: [OnceLock<Box<Group>>; GROUPS],
    max_ns: [AtomicU64; STAGES],
}

impl Recorder {
    /// Without any memory for counts.
    pub(crate) fn new() -> Self {
        Self {
            groups: std::array::from_fn(|_| OnceLock::new()),
            carried: std::array::from_fn(|_| OnceLock::new()),
            max_ns: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Counts one time.
    #[inline]
    pub(crate) fn record(&self, stage: LatencyStage, ns: u64) {
        let ns = ns.min(NS_MAX);
        let bucket = bucket_of(ns);
        let (n, slot) = (bucket / SLOTS, bucket % SLOTS);
        let group = self.groups[n].get_or_init(Box::default);
        if !add_one(&group[stage as usize][slot]) {
            self.carry(stage, bucket);
        }
        let max_ns = &self.max_ns[stage as usize];
        if ns > max_ns.load(Ordering::Relaxed) {
            max_ns.store(ns, Ordering::Relaxed);
        }
    }

    #[cold]
    fn carry(&self, stage: LatencyStage, bucket: usize) {
        let carried = self.carried[bucket / SLOTS].get_or_init(Box::default);
        add_one(&carried[stage as usize][bucket % SLOTS]);
    }

    /// The times so far. Those measured meanwhile may be in it or not.
    pub(crate) fn now(&self) -> Latency {
        Latency::new(LatencyStage::ALL.map(|stage| self.histogram(stage)))
    }

    fn histogram(&self, stage: LatencyStage) -> LatencyHistogram {
        let counts = (0..GROUPS).filter_map(|n| Some((n, self.groups[n].get()?)));
        let counts = counts.flat_map(|(n, group)| {
            let low = group[stage as usize].iter().enumerate();
            low.map(move |(slot, count)| (n * SLOTS + slot, count.load(Ordering::Relaxed)))
        });
        let counts = counts.map(|(bucket, low)| {
            let carried = self.carried[bucket / SLOTS].get();
            let high = carried.map(|group| &group[stage as usize][bucket % SLOTS]);
            let high = high.map_or(0, |count| count.load(Ordering::Relaxed));
            (bucket as u16, (u64::from(high) << u32::BITS) + u64::from(low))
        });
        let counts = counts.filter(|(_, count)| *count > 0).collect();
        LatencyHistogram::new(counts, self.max_ns[stage as usize].load(Ordering::Relaxed))
    }
}

/// Counts one more; returns `false` if the count has begun again at 0.
#[inline]
fn add_one(count: &AtomicU32) -> bool {
    // Nobody else writes: no instruction that locks the bus is needed.
    let more = count.load(Ordering::Relaxed).wrapping_add(1);
    count.store(more, Ordering::Relaxed);
    more != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_of_every_stage_has_its_place() {
        let recorder = Recorder::new();
        let times = || (0..45).map(|power| 1_u64 << power);
        for (n, stage) in LatencyStage::ALL.into_iter().enumerate() {
            times().for_each(|ns| (0..=n).for_each(|_| recorder.record(stage, ns)));
        }
        let latency = recorder.now();
        for (n, (stage, found)) in latency.stages().enumerate() {
            assert_eq!(found.count(), 45 * (n as u64 + 1), "{stage}");
            assert_eq!((found.min_ns(), found.max_ns()), (1, NS_MAX));
            assert_eq!(found.percentile_ns(0.0), 1);
        }
    }

    #[test]
    fn memory_is_taken_for_what_is_met() {
        let recorder = Recorder::new();
        let made = |groups: &[OnceLock<Box<Group>>]| groups.iter().flat_map(OnceLock::get).count();
        assert_eq!(made(&recorder.groups), 0);
        for stage in LatencyStage::ALL {
            (512..2_048).for_each(|ns| recorder.record(stage, ns));
        }
        assert_eq!((made(&recorder.groups), made(&recorder.carried)), (2, 0));
        assert!(size_of::<Recorder>() <= 1_232, "{} bytes", size_of::<Recorder>());
    }

    #[test]
    fn a_count_goes_on_beyond_its_32_bits() {
        let recorder = Recorder::new();
        recorder.record(LatencyStage::Written, 7);
        let count = &recorder.groups[0].get().unwrap()[LatencyStage::Written as usize][7];
        count.store(u32::MAX, Ordering::Relaxed);
        recorder.record(LatencyStage::Written, 7);
        assert_eq!(recorder.now().stage(LatencyStage::Written).count(), 1 << 32);
        recorder.record(LatencyStage::Written, 7);
        assert_eq!(recorder.now().stage(LatencyStage::Written).count(), (1 << 32) + 1);
    }
}
