//! Computes and writes the figures of a run: percentiles, ratios with confidence intervals, the
//! table, the JSON object, and the files.
//!
//! docs/bench-json.md documents the JSON form, which must stay compatible.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use comfy_table::{CellAlignment, Table};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::contest::Slice;
use super::shared::TABLE;
use super::summary::{Estimate, Spread};

/// Percentiles of one series of round trips, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) n: usize,
    pub(crate) min_ns: u64,
    pub(crate) p50_ns: u64,
    #[serde(default)]
    pub(crate) p90_ns: u64,
    pub(crate) p95_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p999_ns: u64,
    #[serde(default)]
    pub(crate) p9999_ns: u64,
    pub(crate) max_ns: u64,
    pub(crate) mean_ns: u64,
    /// CPU time per round trip in nanoseconds.
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
        // The percentile uses the nearest rank: the smallest value with at least that share of
        // values at or below it.
        let rank = |of_10_000: usize| sorted[(n * of_10_000).div_ceil(10_000).clamp(1, n) - 1];
        Self {
            n,
            min_ns: sorted[0],
            p50_ns: rank(5_000),
            p90_ns: rank(9_000),
            p95_ns: rank(9_500),
            p99_ns: rank(9_900),
            p999_ns: rank(9_990),
            p9999_ns: rank(9_999),
            max_ns: sorted[n - 1],
            mean_ns: sorted.iter().sum::<u64>() / n as u64,
            cpu_ns_per_message: cpu_ns / n as u64,
        }
    }
}

/// Percentiles as multiples of the floor's percentiles: medians over the rounds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ratio {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// 95 % confidence interval of `p50`.
    #[serde(default)]
    pub(crate) p50_between: [f64; 2],
    #[serde(default)]
    pub(crate) p99_between: [f64; 2],
}

impl Ratio {
    /// Returns the ratios of `slices` to `base`, which were measured alternately.
    pub(crate) fn of(slices: &[Slice], base: &[Slice]) -> Self {
        let figures = |slice: &Slice| Figures::of(&slice.ns, 0);
        let pairs: Vec<_> = slices.iter().map(figures).zip(base.iter().map(figures)).collect();
        let estimate = |pick: fn(&Figures) -> u64| {
            let ratios = pairs.iter().map(|(a, b)| pick(a) as f64 / pick(b).max(1) as f64);
            Estimate::of(&ratios.collect::<Vec<_>>())
        };
        let (p50, p99) = (estimate(|f| f.p50_ns), estimate(|f| f.p99_ns));
        Self {
            p50: p50.median,
            p99: p99.median,
            p50_between: [p50.low, p50.high],
            p99_between: [p99.low, p99.high],
        }
    }

    pub(crate) const fn p50(self) -> Estimate {
        let [low, high] = self.p50_between;
        Estimate { median: self.p50, low, high }
    }

    pub(crate) const fn p99(self) -> Estimate {
        let [low, high] = self.p99_between;
        Estimate { median: self.p99, low, high }
    }
}

/// The kind of contestant that a series belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// The same bytes over bare sockets, without an engine.
    Floor,
    /// This engine at both ends.
    Engine,
    /// Another engine at both ends.
    Peer,
    /// This engine's acceptor, measured by the common client.
    Acceptor,
    /// Another engine's acceptor, measured by the common client.
    PeerAcceptor,
}

/// The figures of one contestant: one row of the table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) figures: Figures,
    /// Times from each order's planned sending time. Orders that wait behind a slow order count as
    /// late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from_due: Option<Figures>,
    /// Ratio to the floor; `None` for series of the common client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<Ratio>,
    /// Ratio of another engine to ours, both measured by the common client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) to_ours: Option<Ratio>,
    /// The spread of the slices' medians.
    pub(crate) spread: Spread,
    /// The distribution: times rounded to three digits, and their counts; written only to files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) seen: Vec<(u64, u64)>,
}

impl Series {
    pub(crate) fn of(name: &str, kind: Kind, slices: &[Slice], floor: &[Slice]) -> Self {
        let all = |pick: &dyn Fn(&Slice) -> Vec<u64>| -> Vec<u64> {
            slices.iter().flat_map(pick).collect()
        };
        let values = all(&|slice| slice.ns.clone());
        let due = |slice: &Slice| slice.ns.iter().zip(&slice.late_ns).map(|(a, b)| a + b).collect();
        let from_due = all(&due);
        let medians: Vec<f64> =
            slices.iter().map(|slice| Figures::of(&slice.ns, 0).p50_ns as f64).collect();
        let mut series = Self {
            name: name.to_owned(),
            kind,
            figures: Figures::of(&values, slices.iter().map(|slice| slice.cpu_ns).sum()),
            from_due: (!from_due.is_empty()).then(|| Figures::of(&from_due, 0)),
            // The floor does not run with the common client, so its acceptors have no ratio to the
            // floor.
            ratio: matches!(kind, Kind::Engine | Kind::Peer).then(|| Ratio::of(slices, floor)),
            to_ours: None,
            spread: Spread::of(&medians),
            seen: Vec::new(),
        };
        series.seen = histogram(&values).map_or_else(Vec::new, |histogram| {
            let seen = histogram.iter_recorded();
            seen.map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
        });
        series
    }
}

fn histogram(values: &[u64]) -> Option<Histogram<u64>> {
    // The histogram counts times from 1 ns up to one hour.
    let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).ok()?;
    values.iter().for_each(|value| histogram.saturating_record(*value));
    Some(histogram)
}

/// The machine on which a run was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpus: usize,
    pub(crate) cpu_model: String,
    pub(crate) kernel: String,
    /// The frequency governor of CPU 0.
    #[serde(default)]
    pub(crate) governor: String,
    /// The build of the benchmark program.
    #[serde(default)]
    pub(crate) built: String,
}

impl Machine {
    pub(crate) fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu_info = read("/proc/cpuinfo");
        let model = cpu_info.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split(':').nth(1)).unwrap_or("unknown");
        let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
        Self {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            cpu_model: model.trim().to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            governor: match governor.trim() {
                "" => "unknown".to_owned(),
                governor => governor.to_owned(),
            },
            built: crate::built().to_owned(),
        }
    }

    pub(crate) fn words(&self) -> String {
        let Self { cpus, cpu_model, kernel, governor, built } = self;
        let built = if built.is_empty() { "unknown" } else { built };
        format!("{cpu_model}, {cpus} CPUs, kernel {kernel}, governor {governor}; build: {built}")
    }
}

/// Counts of the rounds of a run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RoundCount {
    pub(crate) kept: usize,
    /// Number of rounds that were repeated because the floor was disturbed.
    pub(crate) repeated: usize,
    /// Number of rounds whose floor is disturbed even after the repetitions.
    #[serde(default)]
    pub(crate) disturbed: usize,
}

impl RoundCount {
    /// Returns the counts as a sentence.
    pub(crate) fn words(self) -> String {
        let Self { kept, repeated, disturbed } = self;
        let again = match repeated {
            0 => "none was repeated".to_owned(),
            1 => "1 was repeated, as its floor was disturbed".to_owned(),
            n => format!("{n} were repeated, as their floors were disturbed"),
        };
        let still = match disturbed {
            0 => String::new(),
            n => format!("; {n} of them with a disturbed floor still"),
        };
        format!("{kept} rounds in which all took turns; {again}{still}.")
    }

    /// Returns the sums of two runs' counts.
    pub(crate) const fn with(self, other: Self) -> Self {
        Self {
            kept: self.kept + other.kept,
            repeated: self.repeated + other.repeated,
            disturbed: self.disturbed + other.disturbed,
        }
    }
}

/// A benchmark run, as `--json` prints it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) scenario: String,
    pub(crate) configuration: String,
    /// Date and time of the run, in UTC.
    #[serde(default)]
    pub(crate) recorded: String,
    /// The version of the benchmark program.
    #[serde(default)]
    pub(crate) version: String,
    pub(crate) engine: Figures,
    pub(crate) floor: Figures,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) peers: BTreeMap<String, Figures>,
    pub(crate) ratio: Ratio,
    #[serde(default)]
    pub(crate) rounds: RoundCount,
    /// All series, the floor first.
    #[serde(default)]
    pub(crate) series: Vec<Series>,
    /// Notes about other engines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
    /// Requested runs that are missing, with their reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) not_run: Vec<String>,
    pub(crate) machine: Machine,
    pub(crate) settings: serde_json::Value,
}

/// Formats nanoseconds as microseconds with one decimal, as the published pages do.
pub(crate) fn us(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1000.0)
}

/// Returns one table for several runs; ratios are to the floor of the same run.
pub(crate) fn table<'a>(reports: impl IntoIterator<Item = &'a Report>) -> Table {
    let mut table = Table::new();
    table.load_style(TABLE);
    table.set_header([
        "round trip, µs",
        "min",
        "max",
        "avg",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "p99.99",
        "CPU µs",
        "p50/floor",
        "p99/floor",
        "p50/ours",
        "p99/ours",
    ]);
    for report in reports {
        for series in &report.series {
            let name = match series.kind {
                Kind::Floor => format!("  {}", series.name),
                _ => series.name.clone(),
            };
            let ratios = [series.ratio, series.to_ours];
            table.add_row(row(name, &series.figures, ratios));
            if let Some(from_due) = &series.from_due {
                let mut row = row("  from when it was due".to_owned(), from_due, [None; 2]);
                row[9].clear();
                table.add_row(row);
            }
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(name: String, figures: &Figures, ratios: [Option<Ratio>; 2]) -> Vec<String> {
    let f = figures;
    let values = [
        f.min_ns,
        f.max_ns,
        f.mean_ns,
        f.p50_ns,
        f.p95_ns,
        f.p99_ns,
        f.p999_ns,
        f.p9999_ns,
        f.cpu_ns_per_message,
    ];
    let mut cells = vec![name];
    cells.extend(values.map(us));
    for ratio in ratios {
        let shown = |pick: fn(Ratio) -> f64| {
            ratio.map_or_else(String::new, |ratio| format!("{:.2}", pick(ratio)))
        };
        cells.extend([shown(|ratio| ratio.p50), shown(|ratio| ratio.p99)]);
    }
    cells
}

impl Report {
    /// Returns the ratios with their confidence intervals, one sentence for each row.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        for series in &self.series {
            let (base, ratio) = match (series.to_ours, series.ratio) {
                (Some(ratio), _) => ("ours", ratio),
                (None, Some(ratio)) => ("the floor", ratio),
                (None, None) => continue,
            };
            let (p50, p99) = (ratio.p50().words(), ratio.p99().words());
            let mut sentence = format!("{}: {p50} {base} at p50, {p99} at p99", series.name);
            if base == "the floor" && (ratio.p50 < 1.0 || ratio.p99 < 1.0) {
                sentence += "; below 1, where the bare socket met worse moments of the machine \
                             than what stands on it";
            }
            sentences.push(format!("{sentence}; medians of its slices {}.", series.spread.words()));
        }
        sentences.push(self.rounds.words());
        sentences
    }

    /// Returns the report for standard output, without the distributions that only files contain.
    pub(crate) fn in_short(&self) -> Self {
        let mut report = self.clone();
        report.series.iter_mut().for_each(|series| series.seen = Vec::new());
        report
    }

    /// Writes the run into a directory: `NAME.json`, and one .hgrm file per series.
    pub(crate) fn save(&self, dir: &Path, name: &str) -> Result<(), String> {
        let write = |file: String, text: String| {
            let path = dir.join(file);
            std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
        };
        for series in &self.series {
            write(format!("{name}-{}.hgrm", file_name(&series.name)), hgrm(&series.seen))?;
        }
        let text = serde_json::to_string(self).map_err(|error| error.to_string())?;
        write(format!("{name}.json"), text + "\n")
    }
}

/// Returns a name that is valid in any file system.
pub(crate) fn file_name(name: &str) -> String {
    let kept = name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' });
    let mut name: String = kept.collect();
    while name.contains("--") {
        name = name.replace("--", "-");
    }
    name.trim_matches('-').to_owned()
}

/// Returns the distribution in the text format of HdrHistogram and its plotter, with values in
/// microseconds.
fn hgrm(seen: &[(u64, u64)]) -> String {
    let total: u64 = seen.iter().map(|(_, count)| count).sum();
    let mut text = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n".to_owned();
    let mut so_far = 0;
    for (value, count) in seen {
        so_far += count;
        let part = so_far as f64 / total as f64;
        text += &format!("{:12.3} {part:14.12} {so_far:10}", *value as f64 / 1000.0);
        text += &if so_far < total {
            format!(" {:14.2}\n", 1.0 / (1.0 - part))
        } else {
            "\n".to_owned()
        };
    }
    let sum: f64 = seen.iter().map(|(value, count)| *value as f64 * *count as f64).sum();
    let mean = sum / total.max(1) as f64;
    let squares: f64 =
        seen.iter().map(|(value, count)| (*value as f64 - mean).powi(2) * *count as f64).sum();
    let deviation = (squares / total.max(1) as f64).sqrt();
    let max = seen.last().map_or(0, |(value, _)| *value);
    text += &format!(
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n#[Max     = {:12.3}, Total count    = \
         {total:12}]\n",
        mean / 1000.0,
        deviation / 1000.0,
        max as f64 / 1000.0
    );
    text
}

/// Writes each round trip as a line `series,i,ns`, in the order of sending.
pub(crate) fn write_csv(path: &Path, series: &[(&str, &[u64])]) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    writeln!(file, "series,i,ns")?;
    for (name, values) in series {
        let name = match name.contains(',') {
            true => format!("\"{name}\""),
            false => (*name).to_owned(),
        };
        for (i, ns) in values.iter().enumerate() {
            writeln!(file, "{name},{i},{ns}")?;
        }
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(ns: u64) -> Slice {
        Slice { ns: vec![ns; 100], late_ns: vec![5; 100], cpu_ns: 1_000 }
    }

    #[test]
    fn a_ratio_is_never_without_its_sentence() {
        for (engine, expected) in [([120, 126], "1.23 × (95 % between 1.20"), ([50, 50], "below 1")]
        {
            let (floor, engine) = ([slice(100), slice(100)], engine.map(slice));
            let series = vec![
                Series::of("floor", Kind::Floor, &floor, &floor),
                Series::of("default", Kind::Engine, &engine, &floor),
            ];
            let report = Report {
                scenario: "S1".to_owned(),
                configuration: "default".to_owned(),
                recorded: String::new(),
                version: String::new(),
                engine: series[1].figures,
                floor: series[0].figures,
                peers: BTreeMap::new(),
                ratio: series[1].ratio.unwrap(),
                rounds: RoundCount { kept: 2, repeated: 1, disturbed: 0 },
                series,
                notes: Vec::new(),
                not_run: Vec::new(),
                machine: Machine::this(),
                settings: serde_json::Value::Null,
            };
            let sentences = report.sentences();
            assert!(sentences[0].contains(expected), "{sentences:?}");
            assert!(
                sentences[1].starts_with("2 rounds") && sentences[1].contains("1 was repeated")
            );
            let table = table([&report]).to_string();
            assert!(table.contains("from when it was due"), "{table}");
            assert_eq!(report.series[0].seen, [(100, 200)]);
            let due = report.series[1].from_due.unwrap();
            assert_eq!(due.p50_ns, report.engine.p50_ns + 5);
        }
    }

    #[test]
    fn nearest_rank() {
        let values: Vec<u64> = (1..=1000).rev().collect();
        let figures = Figures::of(&values, 5_000);
        let got = [figures.min_ns, figures.p50_ns, figures.p95_ns, figures.p99_ns, figures.p999_ns];
        assert_eq!(got, [1, 500, 950, 990, 999]);
        let rest = [figures.p90_ns, figures.p9999_ns, figures.max_ns, figures.mean_ns];
        assert_eq!((rest, figures.cpu_ns_per_message), ([900, 1000, 1000, 500], 5));
        let one = Figures::of(&[7], 0);
        assert_eq!((one.p50_ns, one.p999_ns), (7, 7));
    }

    #[test]
    fn an_hgrm_has_the_lines_that_its_plotter_reads() {
        let text = hgrm(&[(1_000, 1), (2_000, 2), (60_000, 1)]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].trim_start().starts_with("Value") && lines[1].is_empty());
        assert_eq!(
            lines[3].split_whitespace().collect::<Vec<_>>(),
            ["2.000", "0.750000000000", "3", "4.00"]
        );
        assert_eq!(lines[4].split_whitespace().count(), 3, "no infinity: {text}");
        assert!(text.contains("Total count    =            4"), "{text}");
        assert_eq!(
            file_name("floor of QuickFIX C++, file store"),
            "floor-of-QuickFIX-C-file-store"
        );
    }
}
