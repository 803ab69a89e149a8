//! `report.html`: all runs of a directory on one page that needs no network.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::page::{PAGES, Page};
use super::report::{Kind, Report, RoundCount, Series, us};
use super::summary::Estimate;
use super::svg::{Axis, COLORS, Chart, Line, escaped, short};

/// What the page is made of.
#[derive(Default)]
pub(super) struct Runs {
    /// Round trips, in the order of the scenarios.
    pub(super) round_trips: Vec<Report>,
    /// `throughput.json`, as that scenario prints it.
    pub(super) throughput: Option<serde_json::Value>,
    /// `router.json`, as that scenario prints it.
    pub(super) router: Option<serde_json::Value>,
    /// What is measured in memory, by the number of its scenario.
    pub(super) micro: BTreeMap<String, serde_json::Value>,
}

/// Scenarios in memory: number, title, fields of a row, what the page has published.
const MICRO: [(&str, &str, &[&str], &str); 3] = [
    (
        "S2a",
        "Order codec (S2a): NewOrderSingle(D) to bytes and back",
        &[
            "framework",
            "operation",
            "us_per_message",
            "messages_per_s",
            "throughput_ratio",
            "floor_ratio",
            "ours_ratio",
        ],
        "The page, on another machine: QuickFIX 1.13.3 encodes in 5.29 µs and decodes in 15.27, \
         Fix8 in 1.92 and 9.75.",
    ),
    (
        "S2b",
        "hftest (S2b): preloaded orders, encoding and decoding",
        &["framework", "operation", "ns", "floor_ratio", "engine_ratio"],
        "The page, on another machine: Fix8 encodes in 2.83 µs and decodes in 5.57 inside its \
         engine, CheckSum(10) not verified.",
    ),
    (
        "S4b",
        "Validation (S4b): one message against FIX 4.2 and FIX 4.4",
        &[
            "method",
            "runtime",
            "mean_ns",
            "error_ns",
            "std_dev_ns",
            "median_ns",
            "floor_ratio",
            "ours_ratio",
        ],
        "The page, on another machine: FIX Antenna .NET Core 44.69 µs and 76.72 µs (.NET Core \
         3.1), 55.95 and 92.52 (.NET 4.8).",
    ),
];

const STYLE: &str = include_str!("report.css");

/// The moment, as readers write it: `2026-11-23 18:56`.
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

/// The whole page.
pub(super) fn page(runs: &Runs) -> String {
    let mut body = String::new();
    let by_page = |page: &Page| {
        runs.round_trips.iter().filter(|run| run.scenario == page.scenario).collect::<Vec<_>>()
    };
    let machine = runs.round_trips.first().map(|run| run.machine.words());
    let _ = write!(body, "<h1>Transfix: benchmarks</h1>");
    if let Some(machine) = machine {
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
    for (name, title, rows, published) in MICRO {
        if let Some(run) = runs.micro.get(name) {
            micro_section(&mut body, (title, run), rows, published);
        }
    }
    if let Some(router) = &runs.router {
        router_section(&mut body, router);
    }
    if let Some(throughput) = &runs.throughput {
        throughput_section(&mut body, throughput);
    }
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

/// Latency over percentile, stretched towards the worst.
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

/// Share of the round trips by their time, up to where the slowest hundredth begins.
fn histograms(series: &[&Series]) -> Chart<'static> {
    let all: Vec<_> = series
        .iter()
        .map(|series| (&series.seen[..], series.figures.p99_ns, series.kind == Kind::Floor))
        .collect();
    histogram("How often each latency was seen", &all)
}

/// The values of one series with how often they were seen, the highest that is shown, and whether
/// it is a floor.
type Seen<'s> = (&'s [(u64, u64)], u64, bool);

fn histogram<'t>(title: &'t str, all: &[Seen<'_>]) -> Chart<'t> {
    /// Steps of a decade.
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

/// A ratio as files have it.
fn estimate(ratio: &serde_json::Value) -> Option<Estimate> {
    serde_json::from_value(ratio.clone()).ok()
}

/// `1.21 (1.18–1.25)`.
fn ratio_cell(ratio: Estimate) -> String {
    format!("{:.2} ({:.2}–{:.2})", ratio.median, ratio.low, ratio.high)
}

/// A table of what was measured in memory.
fn micro_section(
    body: &mut String,
    (title, run): (&str, &serde_json::Value),
    fields: &[&str],
    published: &str,
) {
    let _ = write!(body, "<h2>{}</h2>", escaped(title));
    let cell = |row: &serde_json::Value, field: &str| match &row[field] {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Number(number) => {
            let value = number.as_f64().unwrap_or(f64::NAN);
            if value < 100.0 { format!("{value:.3}") } else { format!("{value:.0}") }
        }
        ratio => estimate(ratio).map(ratio_cell).unwrap_or_default(),
    };
    let rows = run["rows"].as_array().or_else(|| run["all"]["rows"].as_array());
    let rows = rows.into_iter().flatten();
    let cells: Vec<Vec<String>> =
        rows.map(|row| fields.iter().map(|field| cell(row, field)).collect()).collect();
    let words = |field: &&str| match *field {
        "floor_ratio" => "of floor".to_owned(),
        "ours_ratio" => "of ours".to_owned(),
        "engine_ratio" => "of ours in the engine".to_owned(),
        field => field.replace('_', " "),
    };
    let head: Vec<String> = fields.iter().map(words).collect();
    table(body, "Figures of all rounds; ratios are medians", &head, &cells);
    let mut sentences = Vec::new();
    if let Some(ratio) = estimate(&run["all"]["orders_ratio"]) {
        let rate = |name: &str| short(run["all"][name].as_f64().unwrap_or(0.0));
        let (ours, floor) = (rate("orders_per_s"), rate("floor_orders_per_s"));
        let words = ratio.words();
        sentences.push(format!("Orders a second: {ours}, {words} those of bare sockets ({floor})"));
    }
    let rounds = serde_json::from_value::<RoundCount>(run["rounds"].clone());
    sentences.extend(rounds.map(RoundCount::words));
    for sentence in sentences {
        let _ = write!(body, "<p>{}</p>", escaped(&sentence).replace(" %", "&nbsp;%"));
    }
    let _ = write!(body, "<p class=\"dim\">{}</p>", escaped(published));
}

/// The rows of the router's table, and the half round trips of those with most senders.
fn router_section(body: &mut String, router: &serde_json::Value) {
    let _ = write!(body, "<h2>Router (S3): many that send, some that receive</h2>");
    let empty = Vec::new();
    let modes = router["modes"].as_array().unwrap_or(&empty);
    let modes = modes.iter().filter_map(serde_json::Value::as_str);
    let names: Vec<String> = ["floor"].into_iter().chain(modes).map(str::to_owned).collect();
    let rows = router["rows"].as_array().unwrap_or(&empty);
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
    router_table(body, rows, &names);
    let most = rows.iter().map(|row| number(&row["senders"])).max().unwrap_or(0);
    names_key(body, &names);
    for row in rows.iter().filter(|row| number(&row["senders"]) == most) {
        let routers = row["routers"].as_array().unwrap_or(&empty);
        let seen = routers.iter().map(|figures| figures["half_trips"].clone());
        let seen: Vec<Vec<(u64, u64)>> =
            seen.map(|seen| serde_json::from_value(seen).unwrap_or_default()).collect();
        let highest = routers.iter().map(|figures| number(&figures["half_trip_p99_ns"]));
        let all: Vec<_> = seen
            .iter()
            .zip(highest)
            .enumerate()
            .map(|(n, (seen, highest))| (&seen[..], highest, n == 0))
            .collect();
        let (receivers, rate) = (&row["receivers"], &row["rate"]);
        let title = format!("RTT/2 of {most} × {receivers} at {rate} a second each");
        picture(body, &histogram(&title, &all));
    }
}

fn router_table(body: &mut String, rows: &[serde_json::Value], names: &[String]) {
    let head = [
        "senders × receivers",
        "rate each",
        "router",
        "RTT/2 p50 µs",
        "p99 µs",
        "/ floor",
        "socket→callback ns",
        "put→socket ns",
        "kept up",
    ];
    let mut cells = Vec::new();
    for row in rows {
        let shape = format!("{} × {}", row["senders"], row["receivers"]);
        for (name, figures) in names.iter().zip(row["routers"].as_array().into_iter().flatten()) {
            let half_trip = |key: &str| us(figures[key].as_u64().unwrap_or(0));
            let point = |key: &str| {
                figures[key].as_u64().map_or_else(|| "–".to_owned(), |ns| ns.to_string())
            };
            let ratio = figures["ratio"]["median"].as_f64();
            cells.push(vec![
                shape.clone(),
                row["rate"].to_string(),
                name.clone(),
                half_trip("half_trip_p50_ns"),
                half_trip("half_trip_p99_ns"),
                ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
                point("socket_to_callback_p50_ns"),
                point("put_to_socket_p50_ns"),
                if figures["kept_up"] == true { "yes" } else { "no: a queue" }.to_owned(),
            ]);
        }
    }
    table(body, "Half round trips", &texts(&head), &cells);
}

/// A key of names, the floor's dashed.
fn names_key(body: &mut String, names: &[String]) {
    *body += "<ul class=\"key\">";
    for (n, name) in names.iter().enumerate() {
        let floor = if *name == "floor" { " floor" } else { "" };
        let name = escaped(name);
        let _ = write!(body, "<li><span class=\"c{}{floor}\"></span>{name}</li>", n % COLORS);
    }
    *body += "</ul>";
}

/// The settings of all configurations, a column each.
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

/// How many times the floor's orders a second, or its p99, as the throughput's file has it.
pub(super) fn between(ratio: &serde_json::Value, name: &str) -> Option<Estimate> {
    let [low, high] = [0, 1].map(|n| ratio[format!("{name}_between")][n].as_f64());
    Some(Estimate { median: ratio[name].as_f64()?, low: low?, high: high? })
}

/// Cost by the number of sessions.
fn throughput_section(body: &mut String, throughput: &serde_json::Value) {
    let _ = write!(body, "<h2>Throughput by the number of sessions</h2>");
    let empty = Vec::new();
    let runs = throughput["runs"].as_array().unwrap_or(&empty);
    let mut lines: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    let mut rows = Vec::new();
    for run in runs {
        let sessions = run["sessions"].as_f64().unwrap_or(1.0);
        for (side, figures) in run["sides"].as_object().into_iter().flatten() {
            let full = &figures["full"];
            let cost = full["cpu_ns_per_order"].as_f64().unwrap_or(f64::NAN);
            lines.entry(side).or_default().push((sessions, cost));
            let number = |value: &serde_json::Value| value.as_f64().map_or_else(String::new, short);
            let ratio = between(&figures["ratio"], "orders").map(ratio_cell).unwrap_or_default();
            let times = ["p50_ns", "p99_ns", "p999_ns"];
            let times = times.map(|name| us(full[name].as_f64().unwrap_or(0.0) as u64));
            let mut row = vec![short(sessions), side.clone(), number(&full["orders_per_s"]), ratio];
            row.push(number(&full["cpu_ns_per_order"]));
            row.extend(times);
            rows.push(row);
        }
    }
    let head =
        ["sessions", "side", "orders/s", "of floor", "CPU ns", "p50 µs", "p99 µs", "p99.9 µs"];
    table(body, "As fast as one thread answers", &texts(&head), &rows);
    names_key(body, &lines.keys().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let points = || lines.values().flatten();
    let chart = Chart {
        title: "CPU time of an order by the number of sessions",
        axes: ["sessions", "ns"],
        x: Axis::around(points().map(|(x, _)| *x)),
        y: Axis::around(points().map(|(_, y)| *y)),
        lines: lines
            .iter()
            .enumerate()
            .map(|(n, (name, points))| Line {
                points: points.clone(),
                color: n,
                dashed: *name == "floor",
            })
            .collect(),
    };
    picture(body, &chart);
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
    fn throughput_is_drawn_by_its_sides() {
        let throughput = serde_json::json!({"runs": [
            {"sessions": 1, "sides": {"floor": {"full": {"cpu_ns_per_order": 400.0,
             "orders_per_s": 1_000_000.0, "p50_ns": 9_000}},
             "transfix-file": {"full": {"cpu_ns_per_order": 900.0, "orders_per_s": 600_000.0,
             "p50_ns": 19_000}, "ratio": {"orders": 0.6, "orders_between": [0.55, 0.7]}}}},
        ]});
        let text = page(&Runs { throughput: Some(throughput), ..Runs::default() });
        for expected in ["transfix-file", "600k", "0.60 (0.55–0.70)", "class=\"c0 dashed\"", "19.0"]
        {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        for forbidden in ["http://", "https://", "<script", "NaN"] {
            assert!(!text.contains(forbidden), "{forbidden}");
        }
    }
}
