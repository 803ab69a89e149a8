//! Figures of a run: percentiles, the table, the JSON object, the file of raw values.
//!
//! The JSON form is documented in BENCHMARKS.md and stays.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};

/// Percentiles of one series of round trips, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) n: usize,
    pub(crate) min_ns: u64,
    pub(crate) p50_ns: u64,
    pub(crate) p95_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p999_ns: u64,
    pub(crate) max_ns: u64,
    pub(crate) mean_ns: u64,
    /// CPU time of both processes for one round trip.
    pub(crate) cpu_ns_per_message: u64,
}

impl Figures {
    pub(crate) fn of(values: &[u64], cpu_ns: u64) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let n = sorted.len();
        // Nearest rank: the smallest value with at least that share at or below it.
        let rank = |per_mille: usize| sorted[(n * per_mille).div_ceil(1000).clamp(1, n) - 1];
        Self {
            n,
            min_ns: sorted[0],
            p50_ns: rank(500),
            p95_ns: rank(950),
            p99_ns: rank(990),
            p999_ns: rank(999),
            max_ns: sorted[n - 1],
            mean_ns: sorted.iter().sum::<u64>() / n as u64,
            cpu_ns_per_message: cpu_ns / n as u64,
        }
    }
}

/// How many times the floor.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Ratio {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Ratio {
    /// Whether the floor was slower than what stands on it: it met a worse moment of the machine,
    /// and the ratio says nothing.
    pub(crate) fn is_noise(self) -> bool {
        [self.p50, self.p99].into_iter().any(is_noise)
    }

    /// The lower one: of two runs with noise, the one with the higher has less of it.
    pub(crate) const fn least(self) -> f64 {
        self.p50.min(self.p99)
    }

    pub(crate) fn of(figures: &Figures, base: &Figures) -> Self {
        let ratio = |a: u64, b: u64| (a as f64 / b.max(1) as f64 * 1000.0).round() / 1000.0;
        Self { p50: ratio(figures.p50_ns, base.p50_ns), p99: ratio(figures.p99_ns, base.p99_ns) }
    }
}

/// Ratios below are noise: nothing on top of a socket is faster than the socket.
const NOISE_BELOW: f64 = 1.0;

fn is_noise(ratio: f64) -> bool {
    ratio < NOISE_BELOW
}

/// What the table says in place of a ratio that is noise, and why.
const NOISE: &str = "noise";
pub(crate) const NOISE_EXPLAINED: &str = "\
`noise`: here the bare socket was slower than the engine on top of it, which is the machine's doing:
something else ran, or a virtual machine was not scheduled, while the floor was measured. The other
figures of such a run are too high as well. Close what else runs, and measure again.";

/// The machine on which a run took place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpus: usize,
    pub(crate) cpu_model: String,
    pub(crate) kernel: String,
}

impl Machine {
    pub(crate) fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu_info = read("/proc/cpuinfo");
        let model = cpu_info.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split(':').nth(1)).unwrap_or("unknown");
        Self {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            cpu_model: model.trim().to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

/// One benchmark run, as `--json` prints it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) scenario: String,
    pub(crate) configuration: String,
    pub(crate) engine: Figures,
    pub(crate) floor: Figures,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) peers: BTreeMap<String, Figures>,
    pub(crate) ratio: Ratio,
    pub(crate) machine: Machine,
    pub(crate) settings: serde_json::Value,
}

/// Microseconds with one decimal, as the published pages print them.
pub(crate) fn us(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1000.0)
}

/// The table of several series; the ratio is to the floor of the same run.
pub(crate) fn table<'a>(reports: impl IntoIterator<Item = &'a Report>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "round trip, µs",
        "min",
        "max",
        "avg",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "p50/floor",
        "p99/floor",
    ]);
    for report in reports {
        let mut row = |name: String, figures: &Figures, base: Option<&Figures>| {
            let ratio = base.map(|base| Ratio::of(figures, base));
            let shown = |pick: fn(Ratio) -> f64| {
                ratio.map(pick).map(|ratio| match is_noise(ratio) {
                    true => NOISE.to_owned(),
                    false => format!("{ratio:.2}"),
                })
            };
            let mut cells = vec![name];
            let f = figures;
            let values = [f.min_ns, f.max_ns, f.mean_ns, f.p50_ns, f.p95_ns, f.p99_ns, f.p999_ns];
            cells.extend(values.map(us));
            cells.push(shown(|r| r.p50).unwrap_or_default());
            cells.push(shown(|r| r.p99).unwrap_or_default());
            table.add_row(cells);
        };
        row(report.configuration.clone(), &report.engine, Some(&report.floor));
        for (name, figures) in &report.peers {
            row(format!("  peer: {name}"), figures, Some(&report.floor));
        }
        row("  floor: the same bytes, raw".to_owned(), &report.floor, None);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Writes raw values, one round trip a line, in the order of sending: `series,i,ns`.
pub(crate) fn write_csv(path: &Path, series: &[(&str, &[u64])]) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    writeln!(file, "series,i,ns")?;
    for (name, values) in series {
        for (i, ns) in values.iter().enumerate() {
            writeln!(file, "{name},{i},{ns}")?;
        }
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_that_is_slower_is_noise_and_no_ratio() {
        let figures = |ns: u64| Figures { p50_ns: ns, p99_ns: 10 * ns, ..Figures::default() };
        let report = |engine, floor| {
            let (engine, floor) = (figures(engine), figures(floor));
            Report {
                scenario: "S1".to_owned(),
                configuration: "default".to_owned(),
                engine,
                floor,
                peers: BTreeMap::new(),
                ratio: Ratio::of(&engine, &floor),
                machine: Machine::this(),
                settings: serde_json::Value::Null,
            }
        };
        for (engine, floor, expected) in [(100, 80, "1.25"), (99, 100, "noise"), (7, 100, "noise")]
        {
            let report = report(engine, floor);
            let text = table([&report]).to_string();
            assert!(text.contains(expected), "{text}");
            assert_eq!(report.ratio.is_noise(), expected == "noise");
            assert!(!text.contains("0.07"), "{text}");
        }
    }

    #[test]
    fn nearest_rank() {
        let values: Vec<u64> = (1..=1000).rev().collect();
        let figures = Figures::of(&values, 5_000);
        let got = [figures.min_ns, figures.p50_ns, figures.p95_ns, figures.p99_ns, figures.p999_ns];
        assert_eq!(got, [1, 500, 950, 990, 999]);
        assert_eq!((figures.max_ns, figures.mean_ns, figures.cpu_ns_per_message), (1000, 500, 5));
        let one = Figures::of(&[7], 0);
        assert_eq!((one.p50_ns, one.p999_ns), (7, 7));
    }
}
