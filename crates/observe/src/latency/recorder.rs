//! Records the times of one session: a count for each stage and bucket.
//!
//! A bucket is selected by the exponent of the time as a float, and the five bits after it. A
//! histogram needs exactly these bits, and the processor computes them with the float.
//!
//! A turn keeps its times in [`Times`], and counts all of them together. Most times belong to a
//! bucket whose count exists and is not full, so the loop over the stages calls no function.
//!
//! Invariants: only the holder of the session's lock counts times. Memory is allocated for each
//! power of two in which a time occurs, and never freed. A reader sees counts that only grow, even
//! while a 16-bit count overflows.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use super::histogram::{NS_MAX, SLOTS, bucket_of};
use super::{Latency, LatencyHistogram, LatencyStage};
use crate::clock::Ticks;

const STAGES: usize = LatencyStage::ALL.len();
/// Powers of two from 1 ns to [`NS_MAX`].
const GROUPS: usize = 40;
/// The number of low bits of a float that do not affect its bucket.
const REST_BITS: u32 = 52 - SLOTS.trailing_zeros();
/// The bits, shifted by `REST_BITS`, of 1.0, whose bucket is the first one.
const FIRST: u64 = 1.0_f64.to_bits() >> REST_BITS;

/// The buckets of all stages between two powers of two.
type Stages<C> = [[C; SLOTS]; STAGES];
/// The groups of counts, each allocated at the first time in its power of two.
type Groups<C> = [OnceLock<Box<Stages<C>>>; GROUPS];

/// The times that a turn has measured but not counted yet: at most one for each stage, in ticks.
#[derive(Debug, Default)]
pub struct Times {
    ticks: [u64; STAGES],
    /// A bit for each stage with a time.
    stages: u32,
}

impl Times {
    /// Returns true if the turn has a time of this stage.
    #[inline]
    #[must_use]
    pub const fn has(&self, stage: LatencyStage) -> bool {
        self.stages & 1 << stage as u32 != 0
    }

    /// Returns true if the turn has no time.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.stages == 0
    }

    /// Records the time between two readings. The counters of two processors may differ by a few
    /// ticks, so a negative time counts as the shortest.
    #[inline]
    pub const fn put(&mut self, stage: LatencyStage, from: u64, to: u64) {
        self.ticks[stage as usize] = to.wrapping_sub(from);
        self.stages |= 1 << stage as u32;
    }

    /// Removes all times, after they were counted.
    #[inline]
    pub const fn clear(&mut self) {
        self.stages = 0;
    }
}

/// The counts of the measured times of one session.
///
/// A group of counts takes 640 bytes. A session usually needs about ten groups; all groups would
/// take 25 KiB.
#[derive(Debug)]
pub struct Recorder {
    groups: Groups<AtomicU16>,
    /// Counts the overflows of 16-bit counts: twice the number of overflows, plus one while the
    /// writer is handling one. Few sessions run long enough to need this memory.
    carried: OnceLock<Box<Groups<AtomicU32>>>,
    /// The longest time of each stage, as the bits of a float; for positive floats, the bits have
    /// the same order as the numbers.
    max: [AtomicU64; STAGES],
}

/// Returns a recorder that has not allocated memory for counts yet.
impl Default for Recorder {
    fn default() -> Self {
        Self {
            groups: groups(),
            carried: OnceLock::new(),
            max: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Recorder {
    /// Counts the times.
    #[inline]
    pub fn record_all(&self, times: &Times, ticks: Ticks) {
        for (stage, time) in times.ticks.iter().enumerate() {
            let is_measured = times.stages >> stage & 1 == 1;
            if is_measured && !self.count_usual(stage, ticks.ns(*time).to_bits()) {
                return self.record_from(stage, times, ticks);
            }
        }
    }

    /// Counts the times from stage `first` on. Allocates memory and handles overflows if necessary.
    #[cold]
    #[inline(never)]
    fn record_from(&self, first: usize, times: &Times, ticks: Ticks) {
        for stage in (first..STAGES).filter(|stage| times.stages >> stage & 1 == 1) {
            self.count_any(stage, ticks.ns(times.ticks[stage]));
        }
    }

    /// Counts a time, given as the bits of a float, if its bucket has memory and room. Returns true
    /// if the time is counted.
    #[inline(always)]
    fn count_usual(&self, stage: usize, bits: u64) -> bool {
        // A negative time also fails the check below, because its sign is among the bits.
        let bucket = (bits >> REST_BITS).wrapping_sub(FIRST) as usize;
        if bucket >= GROUPS * SLOTS {
            return false;
        }
        let Some(group) = self.groups[bucket / SLOTS].get() else { return false };
        // Stores the maximum before the count, so that a reader sees no percentile above the
        // maximum.
        let max = &self.max[stage];
        if bits > max.load(Ordering::Relaxed) {
            max.store(bits, Ordering::Relaxed);
        }
        let count = &group[stage][bucket % SLOTS];
        // A plain load and store suffices, because there is only one writer.
        let more = count.load(Ordering::Relaxed).wrapping_add(1);
        if more == 0 {
            return false;
        }
        count.store(more, Ordering::Release);
        true
    }

    /// Counts a time. Allocates memory and handles an overflow if necessary.
    fn count_any(&self, stage: usize, ns: f64) {
        let bits = ns.clamp(1.0, NS_MAX as f64).to_bits();
        let bucket = ((bits >> REST_BITS) - FIRST) as usize;
        let group = self.groups[bucket / SLOTS].get_or_init(Box::default);
        if !self.count_usual(stage, bits) {
            self.carry(stage, bucket, &group[stage][bucket % SLOTS]);
        }
    }

    /// Counts one time, for tests.
    #[cfg(test)]
    pub fn record(&self, stage: LatencyStage, ns: u64) {
        let mut times = Times::default();
        times.put(stage, 0, ns);
        self.record_all(&times, Ticks::NANOSECONDS);
    }

    /// Handles an overflow, after which the 16-bit count restarts at 0.
    #[cold]
    fn carry(&self, stage: usize, bucket: usize, count: &AtomicU16) {
        let carried = self.carried.get_or_init(|| Box::new(groups()));
        let carried = carried[bucket / SLOTS].get_or_init(Box::default);
        let carried = &carried[stage][bucket % SLOTS];
        let before = carried.load(Ordering::Relaxed);
        carried.store(before + 1, Ordering::Relaxed);
        // The fences make the three stores visible in this order to other threads.
        fence(Ordering::Release);
        count.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        carried.store(before + 2, Ordering::Relaxed);
        fence(Ordering::Release);
    }

    /// Returns a snapshot of the times. Times measured during the call may or may not be included.
    pub fn now(&self) -> Latency {
        Latency::new(LatencyStage::ALL.map(|stage| self.histogram(stage)))
    }

    fn histogram(&self, stage: LatencyStage) -> LatencyHistogram {
        let mut counts: Vec<(u16, u64)> = Vec::new();
        for bucket in 0..GROUPS * SLOTS {
            let count = self.count(stage, bucket);
            if count == 0 {
                continue;
            }
            // Below 32 ns, several buckets of the recorder belong to one of the histogram, because
            // they are narrower than 1 ns.
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
            // The value changes once in 65,536 times, so the loop repeats at most once.
            let after = carried().unwrap_or(0);
            if before == after {
                return counted(after, low);
            }
            before = after;
        }
    }
}

/// Returns the total count of a bucket, from its overflows and its 16-bit count.
fn counted(carried: u32, low: u16) -> u64 {
    // While an overflow is being handled, the 16-bit count is either at its maximum or already 0.
    let is_over = carried % 2 == 1 && low == 0;
    (u64::from(carried / 2 + u32::from(is_over)) << u16::BITS) + u64::from(low)
}

fn groups<C>() -> Groups<C> {
    std::array::from_fn(|_| OnceLock::new())
}

/// Returns the lowest time of a bucket, in whole nanoseconds.
const fn lowest(bucket: usize) -> u64 {
    (((SLOTS + bucket % SLOTS) as u64) << (bucket / SLOTS)) / SLOTS as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A simple model of a recorder, which counts in maps.
    #[derive(Default)]
    struct Model([(BTreeMap<u16, u64>, u64); STAGES]);

    impl Model {
        fn record(&mut self, stage: LatencyStage, ns: f64) {
            let ns = ns.clamp(1.0, NS_MAX as f64) as u64;
            let (counts, max_ns) = &mut self.0[stage as usize];
            *counts.entry(bucket_of(ns) as u16).or_default() += 1;
            *max_ns = ns.max(*max_ns);
        }

        fn now(&self) -> Latency {
            Latency::new(self.0.clone().map(|(counts, max_ns)| {
                LatencyHistogram::new(counts.into_iter().collect(), max_ns)
            }))
        }
    }

    fn any_measured() -> impl Strategy<Value = (LatencyStage, u64, u64)> {
        let time = prop_oneof![0..100_u64, 0..100_000_u64, any::<u64>().prop_map(|ns| ns >> 8)];
        let times = (0..STAGES, 1..1_000_u64, time, any::<bool>());
        times.prop_map(|(stage, from, time, is_usual)| {
            // The counters of two processors sometimes differ, so some times are negative.
            let (from, to) =
                if is_usual || time > 100 { (from, from + time) } else { (from + time, from) };
            (LatencyStage::ALL[stage], from, to)
        })
    }

    proptest! {
        #[test]
        fn times_that_are_kept_count_as_those_that_are_counted_at_once(
            measured in prop::collection::vec((any_measured(), any::<bool>()), 0..300),
        ) {
            for ticks in [Ticks::NANOSECONDS, Ticks::of_machine()] {
                let (kept, at_once) = (Recorder::default(), Recorder::default());
                let (mut times, mut model) = (Times::default(), Model::default());
                let count = |times: &mut Times| {
                    kept.record_all(times, ticks);
                    times.clear();
                };
                for ((stage, from, to), is_end) in &measured {
                    if times.has(*stage) {
                        count(&mut times);
                    }
                    times.put(*stage, *from, *to);
                    let ns = ticks.ns(to.saturating_sub(*from));
                    at_once.count_any(*stage as usize, ns);
                    model.record(*stage, ns);
                    if *is_end {
                        count(&mut times);
                        prop_assert_eq!(kept.now(), at_once.now());
                    }
                }
                count(&mut times);
                prop_assert!(times.is_empty());
                prop_assert_eq!(kept.now(), at_once.now());
                prop_assert_eq!(kept.now(), model.now());
            }
        }
    }

    #[test]
    fn a_carry_notes_the_longest_time_too() {
        let recorder = Recorder::default();
        (0..65_535).for_each(|_| recorder.record(LatencyStage::Found, 1_000));
        recorder.record(LatencyStage::Found, 1_001);
        let found = recorder.now();
        let found = found.stage(LatencyStage::Found);
        assert_eq!((found.count(), found.max_ns()), (65_536, 1_001));
    }

    #[test]
    fn every_time_of_every_stage_has_its_place() {
        let recorder = Recorder::default();
        let times = || (0..45).map(|power| 1 << power);
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
            let recorder = Recorder::default();
            recorder.record(LatencyStage::Found, ns);
            let counts = vec![(bucket_of(ns.max(1)) as u16, 1)];
            let found = recorder.now();
            assert_eq!(*found.stage(LatencyStage::Found), LatencyHistogram::new(counts, ns.max(1)));
        }
    }

    #[test]
    fn memory_is_taken_for_what_is_met() {
        let recorder = Recorder::default();
        let made =
            |groups: &[OnceLock<_>]| groups.iter().filter(|group| group.get().is_some()).count();
        assert_eq!(made(&recorder.groups), 0);
        for stage in LatencyStage::ALL {
            (512..2_048).for_each(|ns| recorder.record(stage, ns));
        }
        assert_eq!((made(&recorder.groups), recorder.carried.get().is_none()), (2, true));
        assert!(size_of::<Recorder>() <= 736, "{} bytes", size_of::<Recorder>());
        assert_eq!(size_of::<Stages<AtomicU16>>(), 640);
    }

    #[test]
    fn a_count_goes_on_beyond_its_16_bits() {
        let recorder = Recorder::default();
        for n in 1..=200_000 {
            recorder.record(LatencyStage::Written, 64);
            if n % 65_536 < 2 {
                assert_eq!(recorder.count(LatencyStage::Written, 6 * SLOTS), n);
            }
        }
        assert_eq!(recorder.now().stage(LatencyStage::Written).count(), 200_000);
    }

    #[test]
    fn a_carry_that_is_seen_in_the_middle_counts_right() {
        // The cases are: the value of `carried`, the 16-bit count, and the expected total.
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
        let recorder = Recorder::default();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..TIMES).for_each(|_| recorder.record(LatencyStage::Found, 100)));
            let mut last = 0;
            while last < TIMES {
                let now = recorder.now().stage(LatencyStage::Found).count();
                assert!(last <= now && now <= TIMES, "{last}, then {now}");
                last = now;
            }
        });
    }
}
