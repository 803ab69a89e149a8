//! The results of the scenario throughput: medians over the slices, the table, the JSON object, and
//! the chart.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};
use hdrhistogram::Histogram;
use serde::Serialize;

use super::super::plot;
use super::super::report::{Machine, RoundCount, us};
use super::super::summary::Estimate;
use super::side::{Kind, Slice};

/// All runs, as `--json` prints them. docs/bench-json.md documents the JSON form, which must stay
/// compatible.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) scenario: String,
    pub(super) runs: Vec<Run>,
    pub(super) machine: Machine,
    pub(super) settings: serde_json::Value,
}

/// The results of all sides for one number of sessions.
#[derive(Serialize)]
pub(super) struct Run {
    sessions: usize,
    /// Number of unanswered orders in each session at full speed.
    window: usize,
    rounds: RoundCount,
    sides: BTreeMap<Kind, Figures>,
    /// Sides that could not run, with their reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) not_run: Vec<String>,
    #[serde(skip)]
    slices: BTreeMap<Kind, Slices>,
}

/// The two slices of one side in one round: at full speed and at the fixed pace.
pub(super) struct Measured {
    pub(super) kind: Kind,
    pub(super) full: Slice,
    pub(super) paced: Slice,
}

impl Measured {
    /// Returns the 99th percentile of the times at full speed, in nanoseconds.
    pub(super) fn full_p99_ns(&self) -> f64 {
        let total: u64 = self.full.load.times.iter().map(|(_, n)| n).sum();
        let mut so_far = 0;
        let found = self.full.load.times.iter().find(|(_, n)| {
            so_far += n;
            so_far * 100 >= total * 99
        });
        found.map_or(0.0, |(ns, _)| *ns as f64)
    }
}

#[derive(Default)]
struct Slices {
    full: Series,
    paced: Series,
    /// Ratio of orders per second at full speed to the floor's, for each round.
    orders: Vec<f64>,
    p99: Vec<f64>,
}

/// The values of one side at full speed or at the fixed pace, one per slice.
#[derive(Default)]
struct Series {
    orders_per_s: Vec<f64>,
    cpu_ns_per_order: Vec<f64>,
    /// Quantiles of each slice in nanoseconds, in the order of [`QUANTILES`].
    times_ns: [Vec<f64>; QUANTILES.len()],
}

/// The reported quantiles of a slice's times; 1.0 is the maximum.
const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 1.0];

/// A side.
#[derive(Serialize)]
struct Figures {
    /// The figures at full speed, with a fixed number of unanswered orders.
    full: LoadFigures,
    /// The figures at a fixed pace in orders per second.
    paced: LoadFigures,
    /// Ratios of this side to the floor; `None` for the floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<Ratio>,
}

/// Medians over the slices, also of percentiles, because other programs disturb some slices.
/// `max_ns` is the maximum of all slices.
#[derive(Clone, Copy, Serialize)]
struct LoadFigures {
    orders_per_s: f64,
    /// CPU time of the side under test per order, in nanoseconds.
    cpu_ns_per_order: f64,
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
}

/// Ratios to the floor. With an interval, a ratio is a median over the rounds; without an interval,
/// a ratio of medians.
#[derive(Clone, Copy, Serialize)]
struct Ratio {
    /// Orders per second at full speed; higher is better.
    orders: f64,
    /// 95 % confidence interval of `orders`.
    orders_between: [f64; 2],
    /// The 99th percentile of the times from order to report at full speed.
    p99: f64,
    p99_between: [f64; 2],
    /// The 99th percentile of the times from order to report at the fixed pace.
    paced_p99: f64,
    /// CPU time per order at the fixed pace.
    paced_cpu: f64,
}

impl Ratio {
    /// Returns the estimates of `orders` and `p99`, the ratios at full speed.
    const fn estimates(&self) -> [Estimate; 2] {
        let [low, high] = self.orders_between;
        let orders = Estimate { median: self.orders, low, high };
        let [low, high] = self.p99_between;
        [orders, Estimate { median: self.p99, low, high }]
    }
}

impl Run {
    pub(super) fn new(sessions: usize, window: usize) -> Self {
        let (sides, slices) = (BTreeMap::new(), BTreeMap::new());
        let rounds = RoundCount::default();
        Self { sessions, window, rounds, sides, not_run: Vec::new(), slices }
    }

    /// Adds the slices of one round; the floor's slices come first.
    pub(super) fn add(&mut self, round: &[Measured]) -> Result<(), String> {
        let mut floor = None;
        for Measured { kind, full, paced } in round {
            let slices = self.slices.entry(*kind).or_default();
            slices.paced.add(paced)?;
            let [orders, p99] = slices.full.add(full)?;
            let [floor_orders, floor_p99] = *floor.get_or_insert([orders, p99]);
            slices.orders.push(orders / floor_orders.max(f64::MIN_POSITIVE));
            slices.p99.push(p99 / floor_p99.max(1.0));
        }
        Ok(())
    }

    /// Computes the figures of all sides after the last round.
    pub(super) fn end(&mut self, rounds: RoundCount) {
        self.rounds = rounds;
        let floor = self.slices.get(&Kind::Floor).map(|slices| slices.paced.figures());
        for (kind, slices) in &self.slices {
            let (full, paced) = (slices.full.figures(), slices.paced.figures());
            let over = |a: f64, b: f64| (a / b.max(f64::MIN_POSITIVE) * 1_000.0).round() / 1_000.0;
            let (orders, p99) = (Estimate::of(&slices.orders), Estimate::of(&slices.p99));
            let ratio = floor.filter(|_| *kind != Kind::Floor).map(|paced_floor| Ratio {
                orders: orders.median,
                orders_between: [orders.low, orders.high],
                p99: p99.median,
                p99_between: [p99.low, p99.high],
                paced_p99: over(paced.p99_ns as f64, paced_floor.p99_ns as f64),
                paced_cpu: over(paced.cpu_ns_per_order, paced_floor.cpu_ns_per_order),
            });
            self.sides.insert(*kind, Figures { full, paced, ratio });
        }
    }
}

impl Series {
    /// Adds the values of a slice. Returns its orders per second and its 99th percentile in
    /// nanoseconds.
    fn add(&mut self, slice: &Slice) -> Result<[f64; 2], String> {
        let orders = slice.load.orders.max(1) as f64 * 1e9 / slice.load.ns.max(1) as f64;
        self.orders_per_s.push(orders);
        self.cpu_ns_per_order.push(slice.cpu_ns as f64 / slice.load.answered.max(1) as f64);
        let mut times = Histogram::<u64>::new(3).map_err(|error| error.to_string())?;
        for &(ns, n) in &slice.load.times {
            times.record_n(ns, n).map_err(|error| error.to_string())?;
        }
        for (all, quantile) in self.times_ns.iter_mut().zip(QUANTILES) {
            all.push(times.value_at_quantile(quantile) as f64);
        }
        Ok([orders, times.value_at_quantile(0.99) as f64])
    }

    fn figures(&self) -> LoadFigures {
        let [p50, p99, p999, max] = &self.times_ns;
        LoadFigures {
            orders_per_s: median(&self.orders_per_s).round(),
            cpu_ns_per_order: median(&self.cpu_ns_per_order).round(),
            p50_ns: median(p50) as u64,
            p99_ns: median(p99) as u64,
            p999_ns: median(p999) as u64,
            max_ns: max.iter().copied().fold(0.0, f64::max) as u64,
        }
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Report {
    /// Draws the cost of an order by the number of sessions.
    pub(super) fn draw(&self, path: &Path) -> Result<(), String> {
        let mut lines: BTreeMap<Kind, Vec<(f64, f64)>> = BTreeMap::new();
        for run in &self.runs {
            for (kind, figures) in &run.sides {
                let point = (run.sessions as f64, figures.full.cpu_ns_per_order);
                lines.entry(*kind).or_default().push(point);
            }
        }
        let lines: Vec<_> = lines.iter().map(|(kind, points)| (kind.name(), &points[..])).collect();
        let axes = ["sessions (logarithmic)", "CPU time of an order and its report, ns"];
        plot::lines(path, "Cost of an order at full speed by the number of sessions", axes, &lines)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY);
        let rate = self.settings["rate_per_s"].as_u64().unwrap_or(0);
        table.set_header([
            "times in µs".to_owned(),
            "orders/s".to_owned(),
            "of floor".to_owned(),
            "CPU ns".to_owned(),
            "p50".to_owned(),
            "p99".to_owned(),
            "p99.9".to_owned(),
            "max".to_owned(),
            format!("at {rate}/s: CPU ns"),
            "p50".to_owned(),
            "p99".to_owned(),
            "p99/floor".to_owned(),
        ]);
        for run in &self.runs {
            let (sessions, window) = (run.sessions, run.window);
            let plural = if sessions == 1 { "" } else { "s" };
            table.add_row([format!("{sessions} session{plural}, {window} under way in each")]);
            for (kind, side) in &run.sides {
                let (full, paced) = (&side.full, &side.paced);
                let ratio = |pick: fn(&Ratio) -> f64| {
                    side.ratio.as_ref().map_or_else(String::new, |r| format!("{:.2}", pick(r)))
                };
                table.add_row([
                    format!("  {}", kind.name()),
                    format!("{:.0}", full.orders_per_s),
                    ratio(|r| r.orders),
                    format!("{:.0}", full.cpu_ns_per_order),
                    us(full.p50_ns),
                    us(full.p99_ns),
                    us(full.p999_ns),
                    us(full.max_ns),
                    format!("{:.0}", paced.cpu_ns_per_order),
                    us(paced.p50_ns),
                    us(paced.p99_ns),
                    ratio(|r| r.paced_p99),
                ]);
            }
            let RoundCount { kept, repeated, disturbed } = run.rounds;
            table.add_row([format!("  {kept} rounds, {repeated} repeated, {disturbed} disturbed")]);
            for why in &run.not_run {
                table.add_row([format!("  not run: {why}")]);
            }
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        write!(f, "{table}")?;
        for run in &self.runs {
            let plural = if run.sessions == 1 { "" } else { "s" };
            for (kind, side) in &run.sides {
                let Some(ratio) = &side.ratio else { continue };
                let [orders, p99] = ratio.estimates().map(Estimate::words);
                write!(
                    f,
                    "\n{} session{plural}, {}: {orders} the orders a second of the floor, {p99} \
                     its p99 at full speed",
                    run.sessions,
                    kind.name()
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::Load;
    use super::*;

    fn run() -> Run {
        let mut run = Run::new(32, 64);
        // The second of three slices is disturbed: a tenth of the orders, and a high maximum.
        for (part, worst) in [(1, 9_000), (10, 90_000), (1, 8_000)] {
            let side = |(kind, orders): (Kind, u64)| {
                let slice = || {
                    let (orders, times) =
                        (orders / part, vec![(1_000, 90), (2_000, 9), (worst, 1)]);
                    let load = Load { answered: 2 * orders, orders, ns: 1_000_000_000, times };
                    Slice { load, cpu_ns: 4 * orders }
                };
                Measured { kind, full: slice(), paced: slice() }
            };
            run.add(&[(Kind::Floor, 1_000), (Kind::TransfixFile, 600)].map(side)).unwrap();
        }
        run.not_run.push("QuickFIX C++, file store: too many open files".to_owned());
        run.end(RoundCount { kept: 3, repeated: 1, disturbed: 0 });
        run
    }

    #[test]
    fn figures_are_medians_of_slices_and_ratios_are_to_the_floor() {
        let run = run();
        let json = serde_json::to_value(&run).unwrap();
        let ours = &json["sides"]["transfix-file"];
        assert_eq!(ours["ratio"]["orders"], 0.6);
        assert_eq!(ours["ratio"]["orders_between"], serde_json::json!([0.6, 0.6]));
        assert_eq!(ours["ratio"]["paced_p99"], 1.0);
        let full = &ours["full"];
        assert_eq!(
            (full["orders_per_s"].as_f64(), full["p99_ns"].as_u64()),
            (Some(600.0), Some(2_000))
        );
        let max = full["max_ns"].as_u64().unwrap();
        assert!((90_000..91_000).contains(&max), "{max}");
        assert!(json["sides"]["floor"]["ratio"].is_null());
    }

    #[test]
    fn the_table_and_the_picture_say_what_they_show() {
        let settings = serde_json::json!({ "rate_per_s": 10_000 });
        let (runs, machine) = (vec![run()], Machine::this());
        let report = Report { scenario: "throughput".to_owned(), runs, machine, settings };
        let text = report.to_string();
        for expected in ["32 sessions, 64 under way in each", "at 10000/s", "0.60", "not run: Qui"]
        {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let dir = transfix_testkit::temp::TempDir::new();
        let path = dir.path().join("throughput.svg");
        report.draw(&path).unwrap();
        let picture = std::fs::read_to_string(&path).unwrap();
        for expected in ["sessions (logarithmic)", "transfix, file store: 2", " CPUs, kernel "] {
            assert!(picture.contains(expected), "{expected}");
        }
    }
}
