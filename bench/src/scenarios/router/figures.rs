//! The results of the router scenario: rows, checks, and table.

use std::collections::BTreeMap;
use std::fmt;

use comfy_table::{CellAlignment, Table};
use serde::{Deserialize, Serialize};

use super::super::report::{Machine, RoundCount};
use super::super::shared::TABLE;
use super::super::summary::{Estimate, median};
use super::client::{Load, Task};
use super::rate::Highest;

/// Medians of the router's own latency points, in nanoseconds; for the floor, the times of its
/// writes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Points {
    pub(super) socket_to_callback_ns: Option<u64>,
    pub(super) put_to_socket_ns: Option<u64>,
}

/// The measurements of one slice with one router.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) load: Load,
    pub(super) points: Points,
    pub(super) cpu_ns: u64,
}

/// All results of scenario S3. docs/bench-json.md documents the JSON form, which must stay
/// compatible.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) scenario: String,
    pub(super) modes: Vec<String>,
    pub(super) rows: Vec<Shown>,
    /// Failed measurements, with their reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) not_run: Vec<String>,
    /// The highest sustained rates, with the sessions of the last row.
    #[serde(flatten)]
    pub(super) highest: Highest,
    pub(super) machine: Machine,
    pub(super) settings: serde_json::Value,
}

/// The results of one row of the table.
#[derive(Serialize)]
pub(super) struct Shown {
    senders: usize,
    rate: u64,
    receivers: usize,
    rounds: RoundCount,
    /// The figures of the floor, followed by those of each mode.
    routers: Vec<Figures>,
}

#[derive(Serialize)]
struct Figures {
    half_trip_p50_ns: u64,
    half_trip_p99_ns: u64,
    /// Half trips in nanoseconds, rounded to three digits, with their counts.
    half_trips: Vec<(u64, u64)>,
    socket_to_callback_p50_ns: Option<u64>,
    /// Median time from the call that sends until the bytes are written, including write(2); for
    /// the floor, only write(2).
    put_to_socket_p50_ns: Option<u64>,
    /// Ratio of the median half trip to the floor's; `None` for the floor.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<Estimate>,
    cpu_ns_per_message: u64,
    /// True if the router kept up without a growing queue in most slices.
    kept_up: bool,
    /// The faults found by the checks; empty if all checks passed.
    faults: Vec<String>,
}

fn all(slices: &[Run]) -> Vec<(u64, u64)> {
    let mut all = BTreeMap::new();
    for (ns, count) in slices.iter().flat_map(|run| &run.load.half_trips) {
        *all.entry(*ns).or_default() += count;
    }
    all.into_iter().collect()
}

/// Returns the `part` quantile of the half trips in nanoseconds.
pub(super) fn quantile(load: &Load, part: f64) -> u64 {
    let total: u64 = load.half_trips.iter().map(|(_, count)| count).sum();
    let mut so_far = 0;
    let found = load.half_trips.iter().find(|(_, count)| {
        so_far += count;
        so_far as f64 >= part * total as f64
    });
    found.map_or(0, |(ns, _)| *ns)
}

impl Shown {
    /// Computes a row from all slices. `runs` has the floor's slices first, then those of each
    /// mode. `in_order` is true for a mode that keeps the order of a sender's messages to a
    /// receiver.
    pub(super) fn of(task: Task, runs: &[Vec<Run>], rounds: RoundCount, in_order: &[bool]) -> Self {
        let floor: Vec<f64> = runs[0].iter().map(|run| quantile(&run.load, 0.5) as f64).collect();
        let figures = |n: usize, slices: &Vec<Run>| {
            let of = |part| -> Vec<f64> {
                slices.iter().map(|run| quantile(&run.load, part) as f64).collect()
            };
            let point = |pick: fn(&Points) -> Option<u64>| {
                let known: Vec<f64> =
                    slices.iter().filter_map(|run| pick(&run.points)).map(|ns| ns as f64).collect();
                (!known.is_empty()).then(|| median(&known) as u64)
            };
            let p50 = of(0.5);
            let ratios: Vec<f64> = p50.iter().zip(&floor).map(|(ns, floor)| ns / floor).collect();
            let received: u64 = slices.iter().map(|run| run.load.received).sum();
            let kept_up = slices.iter().filter(|run| run.load.kept_up).count();
            Figures {
                half_trip_p50_ns: median(&p50) as u64,
                half_trip_p99_ns: median(&of(0.99)) as u64,
                half_trips: all(slices),
                socket_to_callback_p50_ns: point(|points| points.socket_to_callback_ns),
                put_to_socket_p50_ns: point(|points| points.put_to_socket_ns),
                ratio: (n > 0).then(|| Estimate::of(&ratios)),
                cpu_ns_per_message: slices.iter().map(|run| run.cpu_ns).sum::<u64>()
                    / received.max(1),
                kept_up: 2 * kept_up > slices.len(),
                faults: faults(slices, n == 0 || in_order[n - 1]),
            }
        };
        let routers = runs.iter().enumerate().map(|(n, slices)| figures(n, slices)).collect();
        let Task { senders, rate, receivers, .. } = task;
        Self { senders, rate, receivers, rounds, routers }
    }
}

/// Returns the faults: messages lost, duplicated, invented or out of order, and receivers with an
/// unequal share of messages.
fn faults(slices: &[Run], in_order: bool) -> Vec<String> {
    let sum = |pick: fn(&Load) -> u64| slices.iter().map(|run| pick(&run.load)).sum::<u64>();
    let mut faults = Vec::new();
    let (sent, received, wrong) = (sum(|l| l.sent), sum(|l| l.received), sum(|l| l.wrong));
    if wrong > 0 || sent != received {
        faults.push(format!("{sent} sent, {received} received, {wrong} of them wrong or missing"));
    }
    let behind = sum(|load| load.out_of_order);
    if in_order && behind > 0 {
        faults.push(format!("{behind} came behind a later one of their sender"));
    }
    let receivers = slices.first().map_or(0, |run| run.load.shares.len());
    let share = |n: usize| slices.iter().map(|run| run.load.shares[n]).sum::<u64>() as f64;
    let shares: Vec<f64> = (0..receivers).map(share).collect();
    let mean = shares.iter().sum::<f64>() / receivers.max(1) as f64;
    let squares: f64 = shares.iter().map(|share| (share - mean).powi(2) / mean.max(1.0)).sum();
    // The mean of the chi-square distribution is its degrees of freedom; the variance is twice the
    // mean.
    let freedom = receivers.saturating_sub(1) as f64;
    if squares > freedom + 6.0 * (2.0 * freedom).sqrt() {
        faults.push(format!("receivers got {shares:?}, which is not by chance"));
    }
    faults
}

/// The page's figures: senders, rate, receivers, then RTT/2, socket to callback, and put to socket,
/// for mode A and then for mode B. A missing figure is 0.
const PUBLISHED: [(usize, u64, usize, [u64; 6]); 12] = [
    (1, 1_000, 10, [4788, 385, 591, 5147, 780, 678]),
    (1, 5_000, 10, [4688, 372, 556, 5210, 0, 0]),
    (1, 10_000, 10, [4644, 391, 574, 5196, 0, 0]),
    (5, 1_000, 10, [5035, 401, 579, 5346, 788, 662]),
    (5, 5_000, 10, [5024, 419, 552, 5508, 0, 0]),
    (5, 10_000, 10, [4935, 410, 558, 5301, 0, 0]),
    (20, 1_000, 20, [5517, 0, 0, 5920, 843, 684]),
    (20, 5_000, 20, [5597, 0, 0, 5865, 0, 0]),
    (20, 10_000, 20, [5504, 0, 0, 5799, 0, 0]),
    (70, 1_000, 20, [6479, 473, 620, 6712, 882, 680]),
    (70, 5_000, 20, [6550, 436, 550, 6835, 0, 0]),
    (70, 10_000, 20, [7213, 0, 0, 7243, 0, 0]),
];

impl Report {
    /// Returns true if all measurements exist, and all checks pass.
    pub(super) fn holds(&self) -> bool {
        self.not_run.is_empty()
            && self
                .rows
                .iter()
                .flat_map(|row| &row.routers)
                .all(|figures| figures.faults.is_empty())
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(TABLE);
        let mut head: Vec<String> =
            ["senders", "rate", "receivers", "total/s", "floor\nRTT/2", "floor\nwrite(2)"]
                .map(str::to_owned)
                .into();
        for mode in &self.modes {
            let names = ["RTT/2", "p99", "/floor", "socket→callback", "put→socket", "CPU"];
            head.extend(names.map(|name| format!("{mode}\n{name}")));
        }
        table.set_header(head);
        for row in &self.rows {
            let ns = |ns: Option<u64>| ns.map_or_else(|| "–".to_owned(), |ns| ns.to_string());
            let mut cells = [row.senders as u64, row.rate, row.receivers as u64]
                .map(|n| n.to_string())
                .to_vec();
            cells.push((row.senders as u64 * row.rate).to_string());
            for (n, router) in row.routers.iter().enumerate() {
                let queued = if router.kept_up { "" } else { " (queue)" };
                cells.push(format!("{}{queued}", router.half_trip_p50_ns));
                if n == 0 {
                    cells.push(ns(router.put_to_socket_p50_ns));
                } else {
                    cells.push(router.half_trip_p99_ns.to_string());
                    let ratio = router.ratio.map(|ratio| format!("{:.2}", ratio.median));
                    cells.push(ratio.unwrap_or_default());
                    cells.push(ns(router.socket_to_callback_p50_ns));
                    cells.push(ns(router.put_to_socket_p50_ns));
                    cells.push(router.cpu_ns_per_message.to_string());
                }
            }
            table.add_row(cells);
        }
        for column in table.column_iter_mut() {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table
    }

    fn published(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for row in &self.rows {
            let is_same = |of: &&(usize, u64, usize, [u64; 6])| {
                (of.0, of.1, of.2) == (row.senders, row.rate, row.receivers)
            };
            if let Some((senders, rate, receivers, [a, b, c, d, e, f])) =
                PUBLISHED.iter().find(is_same)
            {
                let of = |ns: &u64| if *ns == 0 { "–".to_owned() } else { ns.to_string() };
                lines.push(format!(
                    "  {senders} × {receivers} at {rate}: A {a}, {}, {}; B {d}, {}, {}",
                    of(b),
                    of(c),
                    of(e),
                    of(f)
                ));
            }
        }
        lines
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Medians in ns; RTT/2: half of the time from a message's write to its arrival;\n\
             put→socket contains a write(2), as long as the floor's."
        )?;
        writeln!(f, "{}", self.table())?;
        for (n, mode) in self.modes.iter().enumerate() {
            for row in &self.rows {
                let Some(figures) = row.routers.get(n + 1) else { continue };
                let Some(ratio) = figures.ratio else { continue };
                let (senders, receivers) = (row.senders, row.receivers);
                let words = ratio.words();
                writeln!(f, "{mode}, {senders} × {receivers} at {}: {words} the floor", row.rate)?;
            }
        }
        if let [floor, modes @ ..] = &self.highest.rates[..] {
            for ((mode, rate), ratio) in self.modes.iter().zip(modes).zip(&self.highest.ratios) {
                let of_floor = ratio.map_or_else(
                    || "the floor held none".to_owned(),
                    |ratio| format!("{} the floor's {floor:.0}", ratio.words()),
                );
                writeln!(
                    f,
                    "highest rate without a queue that grows: {mode} {rate:.0} messages a second, \
                     {of_floor}"
                )?;
            }
        }
        let count = |pick: fn(&RoundCount) -> usize| -> usize {
            self.rows.iter().map(|row| pick(&row.rounds)).sum()
        };
        writeln!(
            f,
            "{} rounds in which all took turns; {} were repeated for their floor, {} have a \
             disturbed floor still.",
            count(|rounds| rounds.kept),
            count(|rounds| rounds.repeated),
            count(|rounds| rounds.disturbed)
        )?;
        writeln!(f, "of the page, on other machines (RTT/2, socket→callback, put→socket):")?;
        for line in self.published() {
            writeln!(f, "{line}")?;
        }
        for row in &self.rows {
            for (n, figures) in row.routers.iter().enumerate() {
                let who = if n == 0 { "floor" } else { &self.modes[n - 1] };
                for fault in &figures.faults {
                    let (senders, receivers) = (row.senders, row.receivers);
                    writeln!(f, "FAULT: {who}, {senders} × {receivers} at {}: {fault}", row.rate)?;
                }
            }
        }
        for not_run in &self.not_run {
            writeln!(f, "NOT MEASURED: {not_run}")?;
        }
        if self.holds() {
            write!(
                f,
                "Each message arrived once, each receiver got its share, in mode A in order."
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(load: Load) -> Run {
        Run { load, points: Points::default(), cpu_ns: 0 }
    }

    #[test]
    fn each_check_finds_its_fault() {
        let sound = Load {
            sent: 400,
            received: 400,
            shares: vec![103, 97, 110, 90],
            kept_up: true,
            half_trips: vec![(5_000, 300), (9_000, 100)],
            ..Load::default()
        };
        assert_eq!(faults(&[run(sound.clone())], true), [""; 0]);
        let lost = Load { received: 399, wrong: 1, ..sound.clone() };
        let late = Load { out_of_order: 2, ..sound.clone() };
        let uneven = Load { shares: vec![400, 0, 0, 0], ..sound };
        assert!(faults(&[run(lost)], true)[0].contains("399 received"));
        assert!(faults(&[run(late.clone())], true)[0].contains("2 came behind"));
        assert!(faults(&[run(late)], false).is_empty(), "a pool keeps no order");
        assert!(faults(&[run(uneven)], true)[0].contains("not by chance"));
    }
}
