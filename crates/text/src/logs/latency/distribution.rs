//! Distributions of durations with a fixed precision.
//!
//! Invariants: durations are rounded up to four significant digits, so that the memory does not
//! grow with the number of durations. The maximum is exact.

use std::collections::BTreeMap;

/// Durations below this limit, in nanoseconds, are stored exactly. Longer durations keep four
/// significant digits.
const EXACT_MAX: u64 = 10_000;

/// A distribution of durations in nanoseconds, stored to four significant digits.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    counts: BTreeMap<u64, u64>,
    count: u64,
    max: u64,
}

impl Distribution {
    /// Adds a duration in nanoseconds.
    pub fn record(&mut self, ns: u64) {
        *self.counts.entry(rounded_up(ns)).or_default() += 1;
        self.count += 1;
        self.max = self.max.max(ns);
    }

    /// Adds all durations of another distribution.
    pub fn add(&mut self, other: &Self) {
        for (ns, count) in &other.counts {
            *self.counts.entry(*ns).or_default() += count;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// Returns the number of durations.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the longest duration, in nanoseconds.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Returns the `part`/1000 quantile of the durations in nanoseconds, or `None` if the
    /// distribution is empty.
    #[must_use]
    pub fn per_mille(&self, part: u64) -> Option<u64> {
        let wanted = (u128::from(self.count) * u128::from(part)).div_ceil(1000).max(1);
        let mut seen = 0_u128;
        let found = self.counts.iter().find(|(_, count)| {
            seen += u128::from(**count);
            seen >= wanted
        });
        found.map(|(ns, _)| (*ns).min(self.max))
    }
}

fn rounded_up(ns: u64) -> u64 {
    let mut unit = 1;
    while ns / unit >= EXACT_MAX {
        unit *= 10;
    }
    ns.div_ceil(unit).saturating_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_known_times() {
        let mut all = Distribution::default();
        assert_eq!((all.per_mille(500), all.max), (None, 0));
        (1..=1000).for_each(|ns| all.record(ns));
        for (part, expected) in [(500, 500), (900, 900), (990, 990), (999, 999), (1000, 1000)] {
            assert_eq!(all.per_mille(part), Some(expected), "{part}");
        }
        let mut other = Distribution::default();
        other.record(u64::MAX);
        all.add(&other);
        assert_eq!((all.count, all.max, all.per_mille(1000)), (1001, u64::MAX, Some(u64::MAX)));
    }

    #[test]
    fn a_time_is_never_too_short_and_a_thousandth_too_long_at_most() {
        for ns in [0, 1, 9_999, 10_000, 10_001, 123_456_789, 9_999_999_999, u64::MAX / 2] {
            let rounded = rounded_up(ns);
            assert!(rounded >= ns && rounded - ns <= ns / 1000, "{ns}: {rounded}");
        }
    }
}
