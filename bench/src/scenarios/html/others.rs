//! The sections other than round trips: in memory, router, many sessions; from the files of those
//! scenarios.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::super::report::{RoundCount, us};
use super::super::summary::Estimate;
use super::super::svg::{Axis, COLORS, Chart, Line, escaped, short};
use super::{Runs, histogram, picture, ratio_cell, table, texts};

/// Scenarios in memory: number, title, fields of a row, published values.
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

/// Writes the sections of all existing runs.
pub(super) fn sections(body: &mut String, runs: &Runs) {
    for (name, title, rows, published) in MICRO {
        if let Some(run) = runs.micro.get(name) {
            micro_section(body, (title, run), rows, published);
        }
    }
    if let Some(router) = &runs.router {
        router_section(body, router);
    }
    if let Some(throughput) = &runs.throughput {
        throughput_section(body, throughput);
    }
}

/// Writes a table of measurements in memory.
fn micro_section(
    body: &mut String,
    (title, run): (&str, &Value),
    fields: &[&str],
    published: &str,
) {
    let _ = write!(body, "<h2>{}</h2>", escaped(title));
    let cell = |row: &Value, field: &str| match &row[field] {
        Value::String(text) => text.clone(),
        Value::Number(number) => {
            let value = number.as_f64().unwrap_or(f64::NAN);
            if value < 100.0 { format!("{value:.3}") } else { format!("{value:.0}") }
        }
        ratio => Estimate::read(ratio).map(ratio_cell).unwrap_or_default(),
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
    if let Some(ratio) = Estimate::read(&run["all"]["orders_ratio"]) {
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

/// Writes the rows of the router's table, and the half round trips with most senders.
fn router_section(body: &mut String, router: &Value) {
    let _ = write!(body, "<h2>Router (S3): many that send, some that receive</h2>");
    let empty = Vec::new();
    let modes = router["modes"].as_array().unwrap_or(&empty);
    let modes = modes.iter().filter_map(Value::as_str);
    let names: Vec<String> = ["floor"].into_iter().chain(modes).map(str::to_owned).collect();
    let rows = router["rows"].as_array().unwrap_or(&empty);
    let number = |value: &Value| value.as_u64().unwrap_or(0);
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

fn router_table(body: &mut String, rows: &[Value], names: &[String]) {
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
            let ratio = Estimate::read(&figures["ratio"]);
            cells.push(vec![
                shape.clone(),
                row["rate"].to_string(),
                name.clone(),
                half_trip("half_trip_p50_ns"),
                half_trip("half_trip_p99_ns"),
                ratio.map(ratio_cell).unwrap_or_default(),
                point("socket_to_callback_p50_ns"),
                point("put_to_socket_p50_ns"),
                if figures["kept_up"] == true { "yes" } else { "no: a queue" }.to_owned(),
            ]);
        }
    }
    table(body, "Half round trips", &texts(&head), &cells);
}

/// Writes the legend; the floor's line is dashed.
fn names_key(body: &mut String, names: &[String]) {
    *body += "<ul class=\"key\">";
    for (n, name) in names.iter().enumerate() {
        let floor = if *name == "floor" { " floor" } else { "" };
        let name = escaped(name);
        let _ = write!(body, "<li><span class=\"c{}{floor}\"></span>{name}</li>", n % COLORS);
    }
    *body += "</ul>";
}

/// Writes the cost by number of sessions.
fn throughput_section(body: &mut String, throughput: &Value) {
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
            let number = |value: &Value| value.as_f64().map_or_else(String::new, short);
            let ratio = Estimate::read_between(&figures["ratio"], "orders")
                .map(ratio_cell)
                .unwrap_or_default();
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
    use super::super::page;
    use super::*;

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
