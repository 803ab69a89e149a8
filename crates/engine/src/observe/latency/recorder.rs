//! The times of one session while they are measured: a count for each stage and bucket.
//!
//! A bucket is the exponent of a time as a float and the first five bits behind it: what a
//! histogram of this kind asks for, and the processor has it ready.
//!
//! Invariants: one writer at a time, who holds the session's lock; memory is taken for the powers
//! of two that times fall into, and never given back; a reader sees counts that only grow, also
//! while one goes on beyond its 16 bits.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use super::histogram::{NS_MAX, SLOTS, bucket_of};
use super::{Latency, LatencyHistogram, LatencyStage};

const STAGES: usize = LatencyStage::ALL.len();
/// Powers of two from 1 ns to [`NS_MAX`].
const GROUPS: usize = 40;
/// Bits of a float behind those that make its bucket.
const REST_BITS: u32 = 52 - SLOTS.trailing_zeros();
/// The bucket of 1.0, as the bits of the float have it.
const FIRST: u64 = 1.0_f64.to_bits() >> REST_BITS;

/// What all stages have between two powers of two.
type Stages<C> = [[C; SLOTS]; STAGES];
/// Made for a power of two when a first time of it has to be noted.
type Groups<C> = [OnceLock<Box<Stages<C>>>; GROUPS];

/// The times of one session.
///
/// A group of counts has 640 bytes. The times of one session lie in some ten groups; all of them
/// would be 25 KiB.
#[derive(Debug)]
pub(crate) struct Recorder {
    groups: Groups<AtomicU16>,
    /// For counts that have begun again at 0: twice as often as they have, and one more while the
    /// writer is between the two. Few sessions live long enough to need any.
    carried: OnceLock<Box<Groups<AtomicU32>>>,
    /// The longest times, as the bits of floats, whose order is that of the numbers.
    max: [AtomicU64; STAGES],
}

impl Recorder {
    /// Without any memory for counts.
    pub(crate) fn new() -> Self {
        Self {
            groups: groups(),
            carried: OnceLock::new(),
            max: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Counts one time.
    #[inline]
    pub(crate) fn record(&self, stage: LatencyStage, ns: f64) {
        let bits = ns.clamp(1.0, NS_MAX as f64).to_bits();
        let bucket = ((bits >> REST_BITS) - FIRST) as usize;
        let (n, slot) = (bucket / SLOTS, bucket % SLOTS);
        let group = self.groups[n].get().map_or_else(|| self.begin_group(n), |group| &**group);
        let count = &group[stage as usize][slot];
        // Nobody else writes: no instruction that locks the bus is needed.
        match count.load(Ordering::Relaxed).wrapping_add(1) {
            0 => self.carry(stage, bucket, count),
            more => count.store(more, Ordering::Relaxed),
        }
        let max = &self.max[stage as usize];
        if bits > max.load(Ordering::Relaxed) {
            max.store(bits, Ordering::Relaxed);
        }
    }

    /// Makes the counts for a power of two that has had no time yet.
    #[cold]
    fn begin_group(&self, n: usize) -> &Stages<AtomicU16> {
        self.groups[n].get_or_init(Box::default)
    }

    /// The count begins again at 0.
    #[cold]
    fn carry(&self, stage: LatencyStage, bucket: usize, count: &AtomicU16) {
        let carried = self.carried.get_or_init(|| Box::new(groups()));
        let carried = carried[bucket / SLOTS].get_or_init(Box::default);
        let carried = &carried[stage as usize][bucket % SLOTS];
        let before = carried.load(Ordering::Relaxed);
        carried.store(before + 1, Ordering::Relaxed);
        // Whoever sees what is stored behind a fence sees what was stored before it.
        fence(Ordering::Release);
        count.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        carried.store(before + 2, Ordering::Relaxed);
        fence(Ordering::Release);
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
        let (n, stage, slot) = (bucket / SLOTS, stage as usize, bucket % SLOTS);
        let Some(group) = self.groups[n].get() else { return 0 };
        let carried = || {
            let carried = self.carried.get()?[n].get()?;
            Some(carried[stage][slot].load(Ordering::Acquire))
        };
        let mut before = carried().unwrap_or(0);
        loop {
            let low = group[stage][slot].load(Ordering::Acquire);
            // It changes once in 65,536 times: who finds it changed does so once.
            let after = carried().unwrap_or(0);
            if before == after {
                return counted(after, low);
            }
            before = after;
        }
    }
}

/// All times of a bucket.
fn counted(carried: u32, low: u16) -> u64 {
    // In the middle of a carry the count is still the highest one, or 0 already.
    let is_over = carried % 2 == 1 && low == 0;
    (u64::from(carried / 2 + u32::from(is_over)) << u16::BITS) + u64::from(low)
}

fn groups<C>() -> Groups<C> {
    std::array::from_fn(|_| OnceLock::new())
}

/// The least time of a bucket, in whole nanoseconds.
const fn lowest(bucket: usize) -> u64 {
    (((SLOTS + bucket % SLOTS) as u64) << (bucket / SLOTS)) / SLOTS as u64
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
        let made =
            |groups: &[OnceLock<_>]| groups.iter().filter(|group| group.get().is_some()).count();
        assert_eq!(made(&recorder.groups), 0);
        for stage in LatencyStage::ALL {
            (512..2_048).for_each(|ns| recorder.record(stage, ns.into()));
        }
        assert_eq!((made(&recorder.groups), recorder.carried.get().is_none()), (2, true));
        assert!(size_of::<Recorder>() <= 736, "{} bytes", size_of::<Recorder>());
        assert_eq!(size_of::<Stages<AtomicU16>>(), 640);
    }

    #[test]
    fn a_count_goes_on_beyond_its_16_bits() {
        let recorder = Recorder::new();
        for n in 1..=200_000 {
            recorder.record(LatencyStage::Written, 64.0);
            if n % 65_536 < 2 {
                assert_eq!(recorder.count(LatencyStage::Written, 6 * SLOTS), n);
            }
        }
        assert_eq!(recorder.now().stage(LatencyStage::Written).count(), 200_000);
    }

    #[test]
    fn a_carry_that_is_seen_in_the_middle_counts_right() {
        // As many carries, twice; the count; the times so far.
        for (carried, low, times) in [
            (0, 65_535, 65_535),
            (1, 65_535, 65_535),
            (1, 0, 65_536),
            (2, 0, 65_536),
            (3, 0, 131_072),
            (4, 1, 131_073),
        ] {
            assert_eq!(counted(carried, low), times, "{carried} {low}");
        }
    }

    #[test]
    fn a_reader_sees_counts_that_only_grow() {
        const TIMES: u64 = 1_000_000;
        let recorder = Recorder::new();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..TIMES).for_each(|_| recorder.record(LatencyStage::Found, 100.0)));
            let mut last = 0;
            while last < TIMES {
                let now = recorder.now().stage(LatencyStage::Found).count();
                assert!(last <= now && now <= TIMES, "{last}, then {now}");
                last = now;
            }
        });
    }
}
