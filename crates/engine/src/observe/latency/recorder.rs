//! The times of one session while they are measured: a count for each stage and bucket.
//!
//! A bucket is the exponent of a time as a float and the first five bits behind it: what a
//! histogram of this kind asks for, and the processor has it ready.
//!
//! Invariants: one writer at a time, who holds the session's lock; memory is taken for the powers
//! of two that times fall into, and never given back, so a reader sees counts that only grow.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::histogram::{NS_MAX, SLOTS, bucket_of};
use super::{Latency, LatencyHistogram, LatencyStage};

const STAGES: usize = LatencyStage::ALL.len();
/// Powers of two from 1 ns to [`NS_MAX`].
const GROUPS: usize = 40;
/// Bits of a float behind those that make its bucket.
const REST_BITS: u32 = 52 - SLOTS.trailing_zeros();
/// The bucket of 1.0, as the bits of the float have it.
const FIRST: u64 = 1.0_f64.to_bits() >> REST_BITS;

/// The counts of all stages between two powers of two: 1,280 bytes. The times of one session lie
/// in some ten such groups; all of them would be 50 KiB.
type Group = [[AtomicU32; SLOTS]; STAGES];

/// The times of one session.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Made when a first time falls into it.
    groups: [OnceLock<Box<Group>>; GROUPS],
    /// How often a count has begun again at 0: made when that happens first.
    carried: [OnceLock<Box<Group>>; GROUPS],
    /// The longest times, as the bits of floats, whose order is that of the numbers.
    max: [AtomicU64; STAGES],
}

impl Recorder {
    /// Without any memory for counts.
    pub(crate) fn new() -> Self {
        Self {
            groups: std::array::from_fn(|_| OnceLock::new()),
            carried: std::array::from_fn(|_| OnceLock::new()),
            max: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Counts one time.
    #[inline]
    pub(crate) fn record(&self, stage: LatencyStage, ns: f64) {
        let bits = ns.clamp(1.0, NS_MAX as f64).to_bits();
        let bucket = ((bits >> REST_BITS) - FIRST) as usize;
        let (n, slot) = (bucket / SLOTS, bucket % SLOTS);
        let group = self.groups[n].get_or_init(Box::default);
        if !add_one(&group[stage as usize][slot]) {
            self.carry(stage, bucket);
        }
        let max = &self.max[stage as usize];
        if bits > max.load(Ordering::Relaxed) {
            max.store(bits, Ordering::Relaxed);
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
        let mut counts: Vec<(u16, u64)> = Vec::new();
        for bucket in 0..GROUPS * SLOTS {
            let count = self.count(stage, bucket);
            if count == 0 {
                continue;
            }
            // Times below 32 ns have buckets that are less than 1 ns wide.
            let bucket = bucket_of(lowest(bucket)) as u16;
            match counts.last_mut().filter(|last| last.0 == bucket) {
                Some(last) => last.1 += count,
                None => counts.push((bucket, count)),
            }
        }
        let max = f64::from_bits(self.max[stage as usize].load(Ordering::Relaxed));
        LatencyHistogram::new(counts, max as u64)
    }

    fn count(&self, stage: LatencyStage, bucket: usize) -> u64 {
        let count = |groups: &[OnceLock<Box<Group>>; GROUPS]| {
            let group = groups[bucket / SLOTS].get()?;
            Some(group[stage as usize][bucket % SLOTS].load(Ordering::Relaxed).into())
        };
        count(&self.groups)
            .map_or(0, |low: u64| low + (count(&self.carried).unwrap_or(0) << u32::BITS))
    }
}

/// The least time of a bucket, in whole nanoseconds.
const fn lowest(bucket: usize) -> u64 {
    (((SLOTS + bucket % SLOTS) as u64) << (bucket / SLOTS)) / SLOTS as u64
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
        let times = || (0..45).map(|power| (1_u64 << power) as f64);
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
    fn times_keep_their_buckets() {
        for ns in (0..5_000).chain((12..40).flat_map(|power| [(1 << power) - 1, 1 << power])) {
            let recorder = Recorder::new();
            recorder.record(LatencyStage::Found, ns as f64);
            let counts = vec![(bucket_of(ns.max(1)) as u16, 1)];
            let found = recorder.now();
            assert_eq!(*found.stage(LatencyStage::Found), LatencyHistogram::new(counts, ns.max(1)));
        }
    }

    #[test]
    fn memory_is_taken_for_what_is_met() {
        let recorder = Recorder::new();
        let made = |groups: &[OnceLock<Box<Group>>]| groups.iter().flat_map(OnceLock::get).count();
        assert_eq!(made(&recorder.groups), 0);
        for stage in LatencyStage::ALL {
            (512..2_048).for_each(|ns| recorder.record(stage, ns.into()));
        }
        assert_eq!((made(&recorder.groups), made(&recorder.carried)), (2, 0));
        assert!(size_of::<Recorder>() <= 1_360, "{} bytes", size_of::<Recorder>());
    }

    #[test]
    fn a_count_goes_on_beyond_its_32_bits() {
        let recorder = Recorder::new();
        recorder.record(LatencyStage::Written, 64.0);
        let count = &recorder.groups[6].get().unwrap()[LatencyStage::Written as usize][0];
        count.store(u32::MAX, Ordering::Relaxed);
        recorder.record(LatencyStage::Written, 64.0);
        assert_eq!(recorder.now().stage(LatencyStage::Written).count(), 1 << 32);
        recorder.record(LatencyStage::Written, 64.0);
        assert_eq!(recorder.now().stage(LatencyStage::Written).count(), (1 << 32) + 1);
    }
}
