//! How many ExecutionReport(8)s an order has, by the laws of chance: what the count of a run is
//! held against.
//!
//! An order is confirmed with one chance in three, and is then filled by trades of 1 + a random
//! part of what remains. A quantity n takes H(n) = 1 + 1/2 + … + 1/n trades in the mean. Its
//! variance is H(n) less the sum of the squares 1 + 1/4 + … + 1/n².

use super::orders::QUANTITY_MAX;

/// Beyond so many standard deviations a count is wrong: one right run in 500 million is there.
pub(super) const DEVIATIONS_MAX: f64 = 6.0;

/// Reports of one order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

impl Expected {
    /// For quantities that are 1 to [`QUANTITY_MAX`], each as likely as the next.
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

    /// How many standard deviations so many reports are away from what so many orders should have.
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
