//! Calculates the expected number of ExecutionReport(8)s per order, to check the count of a run.
//!
//! An order is confirmed with probability 1/3. Trades then fill the order; each trade takes a
//! random quantity from 1 to the rest. Filling a quantity n takes H(n) = 1 + 1/2 + … + 1/n trades
//! on average. The variance is H(n) minus the sum of the squares 1 + 1/4 + … + 1/n².

use super::orders::QUANTITY_MAX;

/// A report count farther from its expectation than this many standard deviations is wrong. One
/// correct run in 500 million exceeds the limit.
pub(super) const DEVIATIONS_MAX: f64 = 6.0;

/// Mean and variance of the number of reports for one order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

impl Expected {
    /// Calculates the values for quantities from 1 to [`QUANTITY_MAX`], all equally likely.
    pub(super) fn of_an_order() -> Self {
        let count = f64::from(QUANTITY_MAX);
        let (mut sum, mut squares) = (0.0, 0.0);
        // These variables hold the mean number of trades, and the mean of its square.
        let (mut trades, mut trades_squared) = (0.0, 0.0);
        for n in 1..=QUANTITY_MAX {
            let n = f64::from(n);
            sum += 1.0 / n;
            squares += 1.0 / (n * n);
            trades += sum / count;
            trades_squared += (sum - squares + sum * sum) / count;
        }
        let variance: f64 = trades_squared / 3.0 - (trades / 3.0).powi(2);
        Self { mean: 1.0 + trades / 3.0, deviation: variance.sqrt() }
    }

    /// Returns the difference between `reports` and the expected number for `orders` orders, in
    /// standard deviations.
    pub(super) fn deviations(self, orders: u64, reports: u64) -> f64 {
        if orders == 0 {
            return if reports == 0 { 0.0 } else { f64::INFINITY };
        }
        let orders = orders as f64;
        (reports as f64 - self.mean * orders) / (self.deviation * orders.sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_and_its_deviation_are_those_that_were_computed() {
        let expected = Expected::of_an_order();
        assert_eq!(format!("{:.4}", expected.mean), "3.9295");
        let all = 500_000_f64;
        assert_eq!(format!("{:.0}", expected.mean * all), "1964764");
        assert_eq!(format!("{:.0}", expected.deviation * all.sqrt()), "3152");
        // 500,000 orders and 1,967,000 reports are the counts of the published page.
        let of_the_page = expected.deviations(500_000, 1_967_000);
        assert!((0.6..0.8).contains(&of_the_page), "{of_the_page}");
        assert!(expected.deviations(500_000, 1_940_000) < -DEVIATIONS_MAX);
        assert_eq!(expected.deviations(0, 0), 0.0);
    }
}
