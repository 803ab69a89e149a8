//! `report.html`: all runs of a directory on one page that needs no network.

mod others;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Deserialize;

use super::page::{PAGES, Page};
use super::report::{Kind, Machine, Report, Series, us};
use super::summary::Estimate;
use super::svg::{Axis, COLORS, Chart, Line, escaped};

/// The runs on the page.
#[derive(Default)]
pub(super) struct Runs {
    /// Round trips, in the order of the scenarios.
    pub(super) round_trips: Vec<Report>,
    /// `throughput.json`, as printed by that scenario.
    pub(super) throughput: Option<serde_json::Value>,
    /// `router.json`, as printed by that scenario.
    pub(super) router: Option<serde_json::Value>,
    /// The measurements in memory, by scenario number.
    pub(super) micro: BTreeMap<String, serde_json::Value>,
}

impl Runs {
    /// Returns the distinct machines of the runs, with the program's build.
    fn machines(&self) -> BTreeSet<String> {
        let others = self.micro.values().chain(&self.router).chain(&self.throughput);
        let others = others.filter_map(|run| Machine::deserialize(&run["machine"]).ok());
        let round_trips = self.round_trips.iter().map(|run| run.machine.words());
        round_trips.chain(others.map(|machine| machine.words())).collect()
    }
}

const STYLE: &str = include_str!("report.css");

/// Returns the time in readable form: `2026-11-23 18:56`.
fn moment(recorded: &str) -> String {
    let part = |from: usize, to: usize| recorded.get(from..to).unwrap_or("?");
    format!("{}-{}-{} {}", part(0, 4), part(4, 6), part(6, 8), part(9, 14))
}

fn style() -> String {
    let mut style = STYLE.to_owned();
    for n in 0..COLORS {
        let _ = write!(style, ".c{n}{{stroke:var(--c{n})}}.key .c{n}{{border-color:var(--c{n})}}");
    }
    style
}

/// Returns the whole page.
pub(super) fn page(runs: &Runs) -> String {
    let mut body = String::new();
    let by_page = |page: &Page| {
        runs.round_trips.iter().filter(|run| run.scenario == page.scenario).collect::<Vec<_>>()
    };
    let _ = write!(body, "<h1>Transfix: benchmarks</h1>");
    for machine in runs.machines() {
        let _ = write!(body, "<p>{}</p>", escaped(&machine));
    }
    body += "<p class=\"dim\">Engine, floor and other engines took turns in rounds; ratios are \
             medians over the rounds, with the interval in which they lie with 95 % confidence. \
             The floor is the same bytes over a bare socket. Microseconds say something of this \
             machine; ratios can be compared.</p>";
    for page in PAGES {
        let runs = by_page(page);
        if !runs.is_empty() {
            section(&mut body, page, &runs);
        }
    }
    others::sections(&mut body, runs);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>Transfix: benchmarks</title>\
         <style>{}</style></head><body>{body}</body></html>\n",
        style()
    )
}

fn section(body: &mut String, page: &Page, runs: &[&Report]) {
    let _ = write!(body, "<h2>{}</h2>", escaped(page.title));
    let series: Vec<&Series> = runs.iter().flat_map(|run| &run.series).collect();
    figures(body, &series);
    for run in runs {
        let time = escaped(&moment(&run.recorded));
        let _ = write!(body, "<h3>{}</h3>", escaped(&run.configuration));
        let _ = write!(body, "<p class=\"dim\">{time} UTC, transfix {}</p><ul>", run.version);
        for sentence in run.sentences() {
            let _ = write!(body, "<li>{}</li>", escaped(&sentence).replace(" %", "&nbsp;%"));
        }
        for note in &run.notes {
            let _ = write!(body, "<li>{}</li>", escaped(note));
        }
        for missing in &run.not_run {
            let _ = write!(body, "<li>Not run: {}</li>", escaped(missing));
        }
        *body += "</ul>";
    }
    key(body, &series);
    picture(body, &percentiles(&series));
    picture(body, &histograms(&series));
    settings(body, runs);
    published(body, page);
}

fn picture(body: &mut String, chart: &Chart<'_>) {
    let title = escaped(chart.title);
    let _ =
        write!(body, "<h3>{title}</h3><div class=\"wide\" tabindex=\"0\">{}</div>", chart.draw());
}

fn table(body: &mut String, caption: &str, head: &[String], rows: &[Vec<String>]) {
    let cells = |tag: &str, row: &[String]| -> String {
        row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect()
    };
    let _ = write!(
        body,
        "<div class=\"wide\" tabindex=\"0\"><table><caption>{}</caption><thead><tr>{}</tr></thead>\
         <tbody>",
        escaped(caption),
        cells("th", head)
    );
    for row in rows {
        let _ = write!(body, "<tr>{}</tr>", cells("td", row));
    }
    *body += "</tbody></table></div>";
}

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn figures(body: &mut String, series: &[&Series]) {
    let head = [
        "",
        "min",
        "max",
        "avg",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "p99.99",
        "CPU",
        "p50/floor",
        "p99/floor",
        "p50/ours",
        "p99/ours",
    ];
    let rows: Vec<Vec<String>> = series
        .iter()
        .map(|series| {
            let f = &series.figures;
            let times = [
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
            let mut row = vec![series.name.clone()];
            row.extend(times.map(us));
            for ratio in [series.ratio, series.to_ours] {
                let both = ratio.map(|ratio| [ratio.p50(), ratio.p99()]);
                row.extend(match both {
                    Some(both) => {
                        both.map(|of| format!("{:.2} ({:.2}–{:.2})", of.median, of.low, of.high))
                    }
                    None => [String::new(), String::new()],
                });
            }
            row
        })
        .collect();
    table(body, "Round trips and CPU time of each, in µs", &texts(&head), &rows);
}

fn key(body: &mut String, series: &[&Series]) {
    *body += "<ul class=\"key\">";
    for (n, series) in series.iter().enumerate() {
        let floor = if series.kind == Kind::Floor { " floor" } else { "" };
        let name = escaped(&series.name);
        let _ = write!(body, "<li><span class=\"c{}{floor}\"></span>{name}</li>", n % COLORS);
    }
    *body += "</ul>";
}

fn line(n: usize, series: &Series, points: Vec<(f64, f64)>) -> Line {
    Line { points, color: n, dashed: series.kind == Kind::Floor }
}

/// Draws latency over percentile, stretched towards the worst.
fn percentiles(series: &[&Series]) -> Chart<'static> {
    let total = |series: &Series| series.seen.iter().map(|(_, count)| count).sum::<u64>();
    let least = series.iter().map(|series| total(series)).min().unwrap_or(1).max(10) as f64;
    let lines: Vec<Line> = series
        .iter()
        .enumerate()
        .map(|(n, series)| {
            let all = total(series).max(1) as f64;
            let mut so_far = 0;
            let points = series.seen.iter().filter_map(|(value, count)| {
                let slower = 1.0 - so_far as f64 / all;
                so_far += count;
                // At x, one in x is slower.
                let x = 1.0 / slower.max(f64::MIN_POSITIVE);
                (x <= least).then_some((x, *value as f64 / 1000.0))
            });
            line(n, series, points.collect())
        })
        .collect();
    let marks = [
        (1.0, "0 %"),
        (2.0, "50 %"),
        (10.0, "90 %"),
        (100.0, "99 %"),
        (1_000.0, "99.9 %"),
        (10_000.0, "99.99 %"),
        (100_000.0, "99.999 %"),
    ];
    let marks = marks.into_iter().filter(|(x, _)| *x <= least);
    let marks = marks.map(|(x, name)| (x, name.to_owned())).collect();
    let y = Axis::around(lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y));
    Chart {
        title: "Latency by percentile",
        axes: ["percentile", "µs"],
        x: Axis { from: 1.0, to: least, is_logarithmic: true, marks },
        y,
        lines,
    }
}

/// Draws the distribution of round trips, up to the slowest hundredth.
fn histograms(series: &[&Series]) -> Chart<'static> {
    let all: Vec<_> = series
        .iter()
        .map(|series| (&series.seen[..], series.figures.p99_ns, series.kind == Kind::Floor))
        .collect();
    histogram("How often each latency was seen", &all)
}

/// The values of a series with their counts, the highest shown value, and true for a floor.
type Seen<'s> = (&'s [(u64, u64)], u64, bool);

fn histogram<'t>(title: &'t str, all: &[Seen<'_>]) -> Chart<'t> {
    /// Steps per decade.
    const STEPS: f64 = 40.0;
    let lines: Vec<Line> = all
        .iter()
        .enumerate()
        .map(|(color, &(seen, highest, dashed))| {
            let total: u64 = seen.iter().map(|(_, count)| count).sum();
            let mut steps: BTreeMap<i64, u64> = BTreeMap::new();
            for (value, count) in seen.iter().filter(|(value, _)| *value <= highest) {
                let us = (*value).max(1) as f64 / 1000.0;
                *steps.entry((us.log10() * STEPS).floor() as i64).or_default() += count;
            }
            let at = |step: i64| 10_f64.powf((step as f64 + 0.5) / STEPS);
            let share = |step: i64| {
                100.0 * steps.get(&step).copied().unwrap_or(0) as f64 / total.max(1) as f64
            };
            let first = steps.keys().next().copied().unwrap_or(0) - 1;
            let last = steps.keys().last().copied().unwrap_or(0) + 1;
            let points = (first..=last).map(|step| (at(step), share(step))).collect();
            Line { points, color, dashed }
        })
        .collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let x = Axis::around(points().map(|(x, _)| *x));
    let highest = points().map(|(_, y)| *y).fold(1.0, f64::max);
    let step = [1.0, 2.0, 5.0, 10.0, 20.0].into_iter().find(|step| highest / step <= 8.0);
    let step = step.unwrap_or(25.0);
    let marks = (0..=(highest / step) as usize).map(|n| n as f64 * step);
    let marks = marks.map(|mark| (mark, format!("{mark} %"))).collect();
    let y = Axis { from: 0.0, to: highest * 1.05, is_logarithmic: false, marks };
    Chart { title, axes: ["µs", "share"], x, y, lines }
}

/// `1.21 (1.18–1.25)`.
fn ratio_cell(ratio: Estimate) -> String {
    format!("{:.2} ({:.2}–{:.2})", ratio.median, ratio.low, ratio.high)
}

/// Writes the settings of all configurations, one column each.
fn settings(body: &mut String, runs: &[&Report]) {
    let mut names: Vec<String> = Vec::new();
    let columns: Vec<BTreeMap<String, String>> = runs
        .iter()
        .map(|run| {
            let mut flat = BTreeMap::new();
            flatten("", &run.settings, &mut flat);
            for name in
                flat.keys().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>()
            {
                names.push(name);
            }
            flat
        })
        .collect();
    names.sort();
    let mut head = vec!["setting".to_owned()];
    head.extend(runs.iter().map(|run| run.configuration.clone()));
    let rows: Vec<Vec<String>> = names
        .iter()
        .map(|name| {
            let values = columns.iter().map(|flat| flat.get(name).cloned().unwrap_or_default());
            [name.clone()].into_iter().chain(values).collect()
        })
        .collect();
    table(body, "Configurations", &head, &rows);
}

fn flatten(prefix: &str, value: &serde_json::Value, flat: &mut BTreeMap<String, String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                let name =
                    if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                flatten(&name, value, flat);
            }
        }
        serde_json::Value::Null => {
            flat.insert(prefix.to_owned(), "–".to_owned());
        }
        serde_json::Value::String(text) => {
            flat.insert(prefix.to_owned(), text.clone());
        }
        other => {
            flat.insert(prefix.to_owned(), other.to_string());
        }
    }
}

fn published(body: &mut String, page: &Page) {
    let head = texts(&["published, µs", "min", "max", "avg", "p50", "p95", "p99"]);
    let rows: Vec<Vec<String>> = page
        .published
        .iter()
        .map(|row| [row.name].iter().chain(&row.us).map(|cell| (*cell).to_owned()).collect())
        .collect();
    let caption = "What the vendor has published: measured on other machines, mostly two hosts \
                   with kernel-bypass network cards, and not comparable with the figures above";
    table(body, caption, &head, &rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_whole_without_any_run() {
        let none = Runs {
            round_trips: Vec::new(),
            throughput: None,
            router: None,
            micro: BTreeMap::new(),
        };
        let text = page(&none);
        assert!(text.starts_with("<!doctype html>") && text.ends_with("</html>\n"));
    }

    #[test]
    fn each_machine_and_build_is_named_once() {
        let on = |built: &str| {
            let machine = Machine { built: built.to_owned(), ..Machine::this() };
            serde_json::json!({ "machine": machine, "rows": [] })
        };
        let runs = Runs {
            router: Some(on("optimized")),
            throughput: Some(on("another way")),
            micro: [("S2a".to_owned(), on("optimized")), ("S4b".to_owned(), "{}".into())].into(),
            ..Runs::default()
        };
        let machines: Vec<String> = runs.machines().into_iter().collect();
        assert_eq!(machines.len(), 2, "{machines:?}");
        assert!(machines[0].ends_with("another way") && machines[1].ends_with("optimized"));
    }
}
