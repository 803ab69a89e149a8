//! Summarizes the values of many slices: quantiles, medians, and confidence intervals.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Returns the quantile below which the share `part` of the values lies, with linear interpolation.
pub(crate) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = part.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * place.fract()
}

/// Returns the median of the values.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The median of a ratio over the rounds, with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Estimate {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Number of bootstrap samples.
const DRAWS: usize = 2_000;

impl Estimate {
    /// Computes the median, and its interval by percentile bootstrap: resamples the rounds with
    /// repetition. 95 % of the medians lie between `low` and `high`.
    pub(crate) fn of(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self { median: f64::NAN, low: f64::NAN, high: f64::NAN };
        }
        // The random numbers start from a fixed seed, so the same values always give the same
        // interval.
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            values[(state % values.len() as u64) as usize]
        };
        let medians: Vec<f64> = (0..DRAWS)
            .map(|_| median(&values.iter().map(|_| draw()).collect::<Vec<_>>()))
            .collect();
        let rounded = |value: f64| (value * 1000.0).round() / 1000.0;
        Self {
            median: rounded(median(values)),
            low: rounded(quantile(&medians, 0.025)),
            high: rounded(quantile(&medians, 0.975)),
        }
    }

    /// Reads an estimate from the JSON file of a run.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok()
    }

    /// Reads the ratio `name` and its interval `name_between` from the JSON file of the scenario
    /// throughput.
    pub(crate) fn read_between(ratio: &Value, name: &str) -> Option<Self> {
        let [low, high] = [0, 1].map(|n| ratio[format!("{name}_between")][n].as_f64());
        Some(Self { median: ratio[name].as_f64()?, low: low?, high: high? })
    }

    /// Returns the estimate as text, such as `1.21 × (95 % between 1.18 and 1.25)`.
    pub(crate) fn words(self) -> String {
        format!("{:.2} × (95 % between {:.2} and {:.2})", self.median, self.low, self.high)
    }
}

/// The spread of the slices' medians, in the form that the published pages use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) mean_ns: f64,
    /// Standard deviation.
    pub(crate) deviation_ns: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation_ns = if n > 1.0 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
        Self { mean_ns: mean, deviation_ns }
    }

    /// Returns the spread as text, such as `14.32 ± 0.05 µs, CV 0.3 %`.
    pub(crate) fn words(self) -> String {
        let us = |ns: f64| ns / 1000.0;
        let cv = 100.0 * self.deviation_ns / self.mean_ns;
        format!("{:.2} ± {:.2} µs, CV {cv:.1} %", us(self.mean_ns), us(self.deviation_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_values() {
        let values = [3.0, 1.0, 2.0, 4.0];
        assert_eq!([0.0, 0.5, 1.0].map(|part| quantile(&values, part)), [1.0, 2.5, 4.0]);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn an_estimate_is_as_sure_as_its_values() {
        let sure = Estimate::of(&[1.2; 9]);
        assert_eq!((sure.median, sure.low, sure.high), (1.2, 1.2, 1.2));
        let unsure = Estimate::of(&[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]);
        assert!(unsure.low < 1.3 && unsure.median == 1.3 && unsure.high > 1.3, "{unsure:?}");
        assert!(unsure.low >= 1.0 && unsure.high <= 1.6, "{unsure:?}");
        assert_eq!(unsure, Estimate::of(&[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]));
        assert_eq!(sure.words(), "1.20 × (95 % between 1.20 and 1.20)");
    }

    #[test]
    fn an_estimate_is_read_from_a_file() {
        let is = Estimate { median: 1.5, low: 1.0, high: 2.0 };
        let written = serde_json::to_value(is).unwrap();
        assert_eq!((Estimate::read(&written), Estimate::read(&Value::Null)), (Some(is), None));
        let ratio = serde_json::json!({ "p99": 1.5, "p99_between": [1.0, 2.0], "p50": 1.0 });
        assert_eq!(Estimate::read_between(&ratio, "p99"), Some(is));
        assert_eq!(Estimate::read_between(&ratio, "p50"), None, "no ratio without its interval");
    }

    #[test]
    fn the_spread_is_that_of_the_pages() {
        let spread = Spread::of(&[14_270.0, 14_320.0, 14_370.0]);
        assert_eq!(spread.words(), "14.32 ± 0.05 µs, CV 0.3 %");
    }
}
