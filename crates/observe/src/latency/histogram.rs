//! A snapshot of the times of one stage, in the same buckets as HdrHistogram.
//!
//! Invariant: the width of a bucket is at most a thirty-second of its values, and the buckets cover
//! all times up to [`NS_MAX`] without a gap.

use std::fmt::Write;

/// Number of buckets between two powers of two.
pub(super) const SLOTS: usize = 32;
const SLOT_BITS: u32 = SLOTS.trailing_zeros();
/// The longest time, in nanoseconds, that a histogram distinguishes: about 1,100 s. Longer times
/// count as this one.
pub(super) const NS_MAX: u64 = (1 << 40) - 1;
/// The number of groups of buckets, one per power of two. The first two groups distinguish every
/// nanosecond below 64 ns.
const GROUPS: usize = 36;

/// Returns the index, over all groups, of the bucket for a time of at most [`NS_MAX`].
#[inline]
pub(super) const fn bucket_of(ns: u64) -> usize {
    let power = (ns | SLOTS as u64).ilog2() - SLOT_BITS;
    power as usize * SLOTS + (ns >> power) as usize
}

/// Returns the shortest time, in nanoseconds, that belongs to a bucket.
const fn lowest(bucket: usize) -> u64 {
    let power = (bucket / SLOTS).saturating_sub(1);
    ((bucket - power * SLOTS) as u64) << power
}

/// Returns the longest time, in nanoseconds, that belongs to a bucket.
const fn highest(bucket: usize) -> u64 {
    lowest(bucket + 1) - 1
}

/// A histogram of measured times.
///
/// The resolution is 3 %: times below 64 ns are exact, and longer times have 32 buckets per power
/// of two, as in HdrHistogram. The greatest time is exact. Times above 1,100 s count as 1,100 s,
/// times below 1 ns as 1 ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyHistogram {
    /// The buckets that are not empty with their counts, in ascending order.
    counts: Vec<(u16, u64)>,
    max_ns: u64,
}

impl LatencyHistogram {
    /// Returns a histogram with these counts, for buckets that are not empty, in ascending order.
    pub(super) const fn new(counts: Vec<(u16, u64)>, max_ns: u64) -> Self {
        Self { counts, max_ns }
    }

    /// Returns the number of measured times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    /// Returns the shortest time in nanoseconds, within the resolution; 0 if the histogram is
    /// empty.
    #[must_use]
    pub fn min_ns(&self) -> u64 {
        self.counts.first().map_or(0, |(bucket, _)| lowest((*bucket).into()))
    }

    /// Returns the longest time in nanoseconds; 0 if the histogram is empty.
    #[must_use]
    pub const fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Returns the mean in nanoseconds, where each time counts as the middle of its bucket; 0 if
    /// the histogram is empty.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        let middle = |bucket: usize| (lowest(bucket) + highest(bucket)) as f64 / 2.0;
        let sum: f64 =
            self.counts.iter().map(|(bucket, n)| middle((*bucket).into()) * *n as f64).sum();
        sum / self.count().max(1) as f64
    }

    /// Returns a percentile in nanoseconds, such as the 99.9th; 0 if the histogram is empty. The
    /// result is never too short, and at most 3 % too long.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        let wanted = (percent.clamp(0.0, 100.0) / 100.0 * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        let found = self.counts.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, |(bucket, _)| highest((*bucket).into()).min(self.max_ns))
    }

    /// Returns the buckets that are not empty, in ascending order: the longest time of each bucket
    /// in nanoseconds, and its count.
    ///
    /// A histogram of the crate `hdrhistogram` can record these pairs without a change:
    ///
    /// ```
    /// # use std::error::Error;
    /// # use transfix_observe::latency::LatencyHistogram;
    /// # fn show(times: &LatencyHistogram) -> Result<(), Box<dyn Error>> {
    /// let mut histogram = hdrhistogram::Histogram::<u64>::new(2)?;
    /// for (ns, count) in times.buckets() {
    ///     histogram.record_n(ns, count)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let time = |bucket: usize| highest(bucket).min(self.max_ns);
        self.counts.iter().map(move |(bucket, count)| (time((*bucket).into()), *count))
    }

    /// Returns the histogram in the text format of HdrHistogram and its plotter (`.hgrm`). Values
    /// are in microseconds, with a line for each non-empty bucket.
    #[must_use]
    pub fn to_hgrm(&self) -> String {
        let mut text = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n".to_owned();
        let (count, mut seen, mut squares) = (self.count(), 0, 0.0);
        let (us, mean) = (|ns: u64| ns as f64 / 1_000.0, self.mean_ns());
        for (ns, n) in self.buckets() {
            seen += n;
            squares += (ns as f64 - mean).powi(2) * n as f64;
            let share = seen as f64 / count as f64;
            // An error is ignored, because writing to a `String` cannot fail.
            let _ = write!(text, "{:12.3} {share:2.12} {seen:10}", us(ns));
            let _ = match seen < count {
                true => writeln!(text, " {:14.2}", 1.0 / (1.0 - share)),
                false => writeln!(text),
            };
        }
        let deviation = (squares / count.max(1) as f64).sqrt();
        let (mean, deviation, max) = (mean / 1_000.0, deviation / 1_000.0, us(self.max_ns));
        let _ = writeln!(text, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
        let _ = writeln!(text, "#[Max     = {max:12.3}, Total count    = {count:12}]");
        let _ = writeln!(text, "#[Buckets = {GROUPS:12}, SubBuckets     = {SLOTS:12}]");
        text
    }

    /// Returns the times measured since `earlier`. Their maximum is accurate to 3 %, or exact if it
    /// is the maximum of all times.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let before = |bucket: u16| {
            let found = earlier.counts.binary_search_by_key(&bucket, |(bucket, _)| *bucket);
            found.map_or(0, |at| earlier.counts[at].1)
        };
        let counts = self.counts.iter().map(|(bucket, n)| (*bucket, n - before(*bucket).min(*n)));
        let counts: Vec<_> = counts.filter(|(_, n)| *n > 0).collect();
        let max_ns = counts.last().map_or(0, |(bucket, _)| highest((*bucket).into()));
        Self { counts, max_ns: max_ns.min(self.max_ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(times: &[u64]) -> LatencyHistogram {
        let mut buckets: Vec<_> = times.iter().map(|ns| bucket_of(*ns) as u16).collect();
        buckets.sort_unstable();
        let counts = buckets.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u64));
        LatencyHistogram::new(counts.collect(), times.iter().copied().max().unwrap_or(0))
    }

    #[test]
    fn buckets_follow_each_other_and_are_narrow() {
        assert_eq!((lowest(0), highest(0)), (0, 0));
        for bucket in 0..GROUPS * SLOTS {
            let (low, high) = (lowest(bucket), highest(bucket));
            assert_eq!((bucket_of(low), bucket_of(high)), (bucket, bucket));
            assert!((high - low) * SLOTS as u64 <= low, "{low} to {high}");
            assert_eq!(lowest(bucket + 1), high + 1);
        }
        assert_eq!(highest(GROUPS * SLOTS - 1), NS_MAX);
    }

    #[test]
    fn percentiles_are_those_of_hdrhistogram() {
        let mut times: Vec<u64> = (0..2_000_u64).map(|n| n * n % 77_777 * n).collect();
        times.push(5_000_000_000);
        let ours = histogram(&times);
        let mut theirs = hdrhistogram::Histogram::<u64>::new(4).unwrap();
        times.iter().for_each(|ns| theirs.record(*ns).unwrap());
        assert_eq!((ours.count(), ours.max_ns()), (theirs.len(), 5_000_000_000));
        for percent in [0.0, 1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
            let (found, exact) = (ours.percentile_ns(percent), theirs.value_at_percentile(percent));
            let bucket = bucket_of(exact);
            let range = lowest(bucket)..=highest(bucket);
            assert!(range.contains(&found), "p{percent}: {found}, exactly {exact}");
        }
        let (mean, exact) = (ours.mean_ns(), theirs.mean());
        assert!((mean - exact).abs() < exact * 0.02, "{mean}, exactly {exact}");
        let mut copy = hdrhistogram::Histogram::<u64>::new(2).unwrap();
        ours.buckets().for_each(|(ns, count)| copy.record_n(ns, count).unwrap());
        assert_eq!(copy.len(), ours.count());
    }

    #[test]
    fn nothing_measured_is_zero_everywhere() {
        let none = LatencyHistogram::default();
        assert_eq!((none.count(), none.min_ns(), none.max_ns()), (0, 0, 0));
        assert_eq!((none.percentile_ns(50.0), none.mean_ns()), (0, 0.0));
        assert!(none.to_hgrm().contains("Total count    =            0"));
    }

    #[test]
    fn what_came_since_is_the_difference() {
        let (early, late) = (histogram(&[10, 10, 900_000]), histogram(&[10, 10, 10, 777, 900_000]));
        let since = late.since(&early);
        assert_eq!(since, LatencyHistogram { counts: since.counts.clone(), max_ns: 783 });
        assert_eq!(since.buckets().collect::<Vec<_>>(), [(10, 1), (783, 1)]);
        assert_eq!(late.since(&late), LatencyHistogram::default());
    }

    #[test]
    fn the_text_is_that_of_hdrhistogram() {
        let text = histogram(&[1_000, 1_000, 1_000, 60_000]).to_hgrm();
        assert_eq!(
            text,
            "       Value     Percentile TotalCount 1/(1-Percentile)

       1.007 0.750000000000          3           4.00
      60.000 1.000000000000          4
#[Mean    =       15.726, StdDeviation   =       25.545]
#[Max     =       60.000, Total count    =            4]
#[Buckets =           36, SubBuckets     =           32]
"
        );
    }
}
