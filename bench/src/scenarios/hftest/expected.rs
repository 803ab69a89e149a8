//! The expected number of ExecutionReport(8)s per order, against which a run's count is checked.
//!
//! An order is confirmed with probability 1/3, and is then filled by trades of 1 + a random part of
//! the rest. A quantity n takes H(n) = 1 + 1/2 + … + 1/n trades on average. Its variance is H(n)
//! less the sum of the squares 1 + 1/4 + … + 1/n².

use super::orders::QUANTITY_MAX;

/// A count beyond this many standard deviations is wrong. One correct run in 500 million exceeds
/// the limit.
pub(super) const DEVIATIONS_MAX: f64 = 6.0;

/// Expected reports of one order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

impl Expected {
    /// Computes the expectation for quantities from 1 to [`QUANTITY_MAX`], equally likely.
    pub(super) fn of_an_order() -> Self {
        let count = f64::from(QUANTITY_MAX);
        let (mut sum, mut squares) = (0.0, 0.0);
        // The means of the number of trades and of its square.
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

    /// Returns the distance of `reports` from the expectation for `orders`, in standard deviations.
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
        // The count of the published page.
        let of_the_page = expected.deviations(500_000, 1_967_000);
        assert!((0.6..0.8).contains(&of_the_page), "{of_the_page}");
        assert!(expected.deviations(500_000, 1_940_000) < -DEVIATIONS_MAX);
        assert_eq!(expected.deviations(0, 0), 0.0);
    }
}
