//! Formats the records of `transfix bench` scenarios as Markdown tables.

use serde_json::Value;

use super::tables::{number, recorded, repeated, us};

/// Returns a ratio with its 95 % confidence interval, such as `1.27 (1.23–1.53)`.
pub(super) fn ratio(ratio: &Value, field: &str) -> Option<String> {
    let between = &ratio[format!("{field}_between")];
    let (low, high) = (between[0].as_f64()?, between[1].as_f64()?);
    Some(interval(ratio[field].as_f64()?, low, high))
}

fn interval(median: f64, low: f64, high: f64) -> String {
    let shown = |times: f64| match times {
        times if times >= 99.5 => format!("{times:.0}"),
        times if times >= 9.95 => format!("{times:.1}"),
        times => format!("{times:.2}"),
    };
    format!("{} ({}–{})", shown(median), shown(low), shown(high))
}

/// The text in place of a ratio whose confidence interval is too wide to be meaningful.
pub(super) const NOT_MEASURABLE: &str = "not measurable here";

/// Returns a ratio with its confidence interval, or `NOT_MEASURABLE` if the interval spans more
/// than a factor of two.
pub(super) fn measurable(to_ours: &Value, field: &str) -> Option<String> {
    let between = &to_ours[format!("{field}_between")];
    match between[1].as_f64()? > 2.0 * between[0].as_f64()? {
        true => Some(NOT_MEASURABLE.to_owned()),
        false => ratio(to_ours, field),
    }
}

/// Returns the engine of a series. For the series `ironfix 0.5.1, file, validation`, the engine is
/// `ironfix 0.5.1`.
pub(super) fn engine(series: &Value) -> Option<&str> {
    series["name"].as_str()?.split(", ").next()
}

/// Returns the tables of S4a or S5, one for each configuration. The rows are the floor, Transfix,
/// and each other engine once, with validation if the engine can validate.
pub(super) fn trips(record: &Value) -> Option<String> {
    let mut text = recorded(record)? + &repeated(record)?;
    for run in record["runs"].as_array()? {
        let (rounds, settings) = (&run["rounds"], &run["settings"]);
        text += &format!(
            "\n`{}`: {} messages, {} rounds, {} repeated for their floor, {} disturbed still.\n\n",
            run["configuration"].as_str()?,
            number(&settings["messages"])?,
            rounds["kept"],
            rounds["repeated"],
            rounds["disturbed"],
        );
        let head = "p50 | p95 | p99 | p99.9 | CPU | of | p50, times | p99, times";
        text += &format!("| µs | {head} |\n{}\n", "|---".repeat(9) + "|");
        let mut engines = Vec::new();
        for series in run["series"].as_array()? {
            // Only the first series of each engine is shown, which is the one with validation.
            let name = engine(series)?;
            if series["kind"] != "peer-acceptor" || !engines.contains(&name) {
                text += &trip(series)?;
            }
            engines.push(name);
        }
    }
    Some(text.trim_end().to_owned())
}

fn trip(series: &Value) -> Option<String> {
    let fields = ["p50_ns", "p95_ns", "p99_ns", "p999_ns", "cpu_ns_per_message"];
    let cells = fields.map(|field| us(&series["figures"], field));
    let mut cells = cells.into_iter().collect::<Option<Vec<_>>>()?;
    let (of, base) = match (series.get("to_ours"), series.get("ratio")) {
        (Some(ours), _) => ("ours", ours),
        (None, Some(floor)) => ("floor", floor),
        (None, None) => ("", &Value::Null),
    };
    cells.push(of.to_owned());
    let times = |field| match measurable(base, field)?.as_str() {
        NOT_MEASURABLE => Some("–".to_owned()),
        times => Some(times.to_owned()),
    };
    cells.extend(["p50", "p99"].map(|field| times(field).unwrap_or_default()));
    let name = series["name"].as_str()?;
    let name = match series["kind"].as_str()? {
        "engine" => format!("**Transfix, `{name}`**"),
        "acceptor" => format!("**Transfix, `{name}`**"),
        _ => name.to_owned(),
    };
    Some(format!("| {name} | {} |\n", cells.join(" | ")))
}

/// Returns the table of S3.
pub(super) fn router(record: &Value) -> Option<String> {
    let runs = &record["runs"];
    let mut text = recorded(record)? + &repeated(record)?;
    let modes = runs["modes"].as_array()?;
    text += "\n| ns | floor: RTT/2 | write(2) |";
    for mode in modes {
        let mode = mode.as_str()?;
        text += &format!(" {mode}: RTT/2 | p99 | of floor | socket→callback | put→socket |");
    }
    text += &format!("\n{}\n", "|---".repeat(3 + 5 * modes.len()) + "|");
    for row in runs["rows"].as_array()? {
        let (senders, receivers) = (&row["senders"], &row["receivers"]);
        let mut cells = vec![format!("{senders} × {receivers} at {}", number(&row["rate"])?)];
        for (n, router) in row["routers"].as_array()?.iter().enumerate() {
            let ns = |field: &str| number(&router[field]).unwrap_or_else(|| "–".to_owned());
            let queue = if router["kept_up"].as_bool()? { "" } else { " (queue)" };
            cells.push(ns("half_trip_p50_ns") + queue);
            if n > 0 {
                let times = &router["ratio"];
                let [median, low, high] = ["median", "low", "high"].map(|f| times[f].as_f64());
                let times = interval(median?, low?, high?);
                cells.extend([ns("half_trip_p99_ns"), times, ns("socket_to_callback_p50_ns")]);
            }
            cells.push(ns("put_to_socket_p50_ns"));
        }
        text += &format!("| {} |\n", cells.join(" | "));
    }
    let rates =
        runs["highest"].as_array()?.iter().map(|rate| number(&(rate.as_f64()? as u64).into()));
    if let [floor, rates @ ..] = &rates.collect::<Option<Vec<_>>>()?[..] {
        text +=
            &format!("\nHighest rate without a queue that grows, messages a second: floor {floor}");
        for (n, (mode, rate)) in modes.iter().zip(rates).enumerate() {
            text += &format!(", {} {rate}", mode.as_str()?);
            let times = &runs["highest_ratios"][n];
            if let [Some(median), Some(low), Some(high)] =
                ["median", "low", "high"].map(|f| times[f].as_f64())
            {
                text += &format!(", of the floor {}", interval(median, low, high));
            }
        }
        text += if runs["highest_ratios"].is_null() { "; by one search.\n" } else { ".\n" };
    }
    for not_run in runs["not_run"].as_array().into_iter().flatten() {
        text += &format!("\nNot measured: {}.\n", not_run.as_str()?);
    }
    if runs["settings"]["has_a_cpu_for_each_thread"].as_array()?.contains(&false.into()) {
        text += "\nThere were fewer CPUs than a mode has threads, so that none of these spun.\n";
    }
    Some(text.trim_end().to_owned())
}

/// Returns the minimum and the maximum of a figure over all runs.
fn range(
    runs: &[Value],
    figure: impl Fn(&Value) -> Option<f64>,
    decimals: usize,
) -> Option<String> {
    let all = runs.iter().map(figure).collect::<Option<Vec<_>>>()?;
    let (least, most) = all
        .iter()
        .fold((f64::MAX, 0.0_f64), |(least, most), one| (least.min(*one), most.max(*one)));
    Some(match format!("{least:.decimals$}") == format!("{most:.decimals$}") {
        true => format!("{least:.decimals$}"),
        false => format!("{least:.decimals$} to {most:.decimals$}"),
    })
}

/// Returns the tables of S2b.
pub(super) fn hftest(record: &Value) -> Option<String> {
    let runs = record["runs"].as_array()?;
    let first = runs.first()?;
    let mut text = recorded(record)? + &repeated(record)?;
    let (orders, reports) = (number(&first["orders"])?, number(&first["reports"])?);
    let secs = range(runs, |run| run["secs"].as_f64(), 2)?;
    text += &match runs.len() {
        1 => format!("\nThe middle round: {orders} orders and {reports} reports in {secs} s.\n\n"),
        n => format!("\n{n} runs of {orders} orders and {reports} reports, each in {secs} s.\n\n"),
    };
    text += "| | client | server | mean of both | page | times less |\n|---|---|---|---|---|---|\n";
    for what in ["encode", "decode"] {
        let (field, page) = (format!("{what}_us"), format!("page_{what}_us"));
        let of = |pick: fn(&Value) -> &Value| range(runs, |run| pick(run)[&field].as_f64(), 2);
        let times = range(runs, |run| Some(run[&page].as_f64()? / run[&field].as_f64()?), 1)?;
        text += &format!(
            "| {what}, µs a message | {} | {} | {} | {} | {times} |\n",
            of(|run| &run["client"])?,
            of(|run| &run["server"])?,
            of(|run| run)?,
            first[&page]
        );
    }
    for what in ["encode", "decode"] {
        let field = format!("{what}_p50_us");
        let of = |pick: fn(&Value) -> &Value| range(runs, |run| pick(run)[&field].as_f64(), 2);
        let (client, server) = (of(|run| &run["client"])?, of(|run| &run["server"])?);
        let both = of(|run| run)?;
        text += &format!("| {what}, sum of medians, µs | {client} | {server} | {both} | | |\n");
    }
    let memory = |side: &str| range(runs, |run| run[side]["memory_mib"].as_f64(), 0);
    let (client, server) = (memory("client")?, memory("server")?);
    text += &format!("| memory at most, MiB | {client} | {server} | | 16 GB asked for | |");
    // Records of earlier program versions contain no rounds, and are skipped.
    for run in runs.iter().filter(|run| run["all"].is_object()) {
        text += "\n";
        text += &hftest_rounds(run)?;
    }
    Some(text)
}

/// Returns the ratios of a run's rounds in S2b, with their confidence intervals.
fn hftest_rounds(run: &Value) -> Option<String> {
    let (all, rounds) = (&run["all"], &run["rounds"]);
    let ratio = |ratio: &Value| {
        let part = |name: &str| Some(format!("{:.2}", ratio[name].as_f64()?));
        Some(format!("{} ({} to {})", part("median")?, part("low")?, part("high")?))
    };
    let rate = |name: &str| number(&Value::from(all[name].as_f64()?.round() as u64));
    let mut text = format!(
        "\nMedians of {} rounds, {} of them repeated, {} with a disturbed floor still, with the \
         interval of 95 %: {} orders a second, {} of the {} over bare sockets. One pass over the \
         bytes of a message: {:.1} ns.\n\n",
        rounds["kept"],
        rounds["repeated"],
        rounds["disturbed"],
        rate("orders_per_s")?,
        ratio(&all["orders_ratio"])?,
        rate("floor_orders_per_s")?,
        all["floor_ns"].as_f64()?,
    );
    text += "| | ns a message | of that pass | of ours in the engine |\n|---|---|---|---|\n";
    for row in all["rows"].as_array()? {
        let name = format!("{}, {}", row["framework"].as_str()?, row["operation"].as_str()?);
        let (ns, floor) = (row["ns"].as_f64()?, ratio(&row["floor_ratio"])?);
        let engine = ratio(&row["engine_ratio"]).unwrap_or_default();
        text += &format!("| {name} | {ns:.0} | {floor} | {engine} |\n");
    }
    for not_run in all["not_run"].as_array().into_iter().flatten() {
        text += &format!("\n{}.\n", not_run.as_str()?);
    }
    Some(text.trim_end().to_owned())
}

/// The compared sides of the throughput benchmark, as key and displayed name.
const SIDES: [(&str, &str); 5] = [
    ("floor", "floor"),
    ("transfix-file", "**Transfix, file store**"),
    ("transfix-memory", "**Transfix, memory store**"),
    ("quickfix-file", "QuickFIX C++, file store"),
    ("quickfix-memory", "QuickFIX C++, memory store"),
];

/// Returns a throughput table with one row per side and one column per number of sessions.
fn by_sessions(
    runs: &[Value],
    what: &str,
    cell: impl Fn(&Value) -> Option<String>,
) -> Option<String> {
    let sessions = runs.iter().map(|run| number(&run["sessions"])).collect::<Option<Vec<_>>>()?;
    let mut text = format!("\n| {what}, by sessions | {} |\n", sessions.join(" | "));
    text += &format!("{}\n", "|---".repeat(1 + runs.len()) + "|");
    for (key, name) in SIDES {
        let cells = runs.iter().map(|run| match run["sides"].get(key) {
            Some(side) => cell(side).unwrap_or_default(),
            None => "not run".to_owned(),
        });
        text += &format!("| {name} | {} |\n", cells.collect::<Vec<_>>().join(" | "));
    }
    Some(text)
}

fn orders_per_s(side: &Value) -> Option<String> {
    number(&Value::from((side["full"]["orders_per_s"].as_f64()? / 1e3).round() as u64 * 1_000))
}

/// Returns all tables of the throughput benchmark.
pub(super) fn throughput(record: &Value) -> Option<String> {
    let runs = record["runs"]["runs"].as_array()?;
    let mut text = recorded(record)? + &repeated(record)?;
    text += &by_sessions(runs, "full speed, orders/s", orders_per_s)?;
    text += &by_sessions(runs, "of the floor's", |side| {
        let times = &side["ratio"];
        let [low, high] = [0, 1].map(|n| times["orders_between"][n].as_f64());
        Some(match (low, high) {
            (Some(low), Some(high)) => interval(times["orders"].as_f64()?, low, high),
            _ => format!("{:.2}", times["orders"].as_f64()?),
        })
    })?;
    text += &by_sessions(runs, "full speed, p50 / p99, ms", |side| {
        let ms = |field: &str| Some(format!("{:.2}", side["full"][field].as_f64()? / 1e6));
        Some(format!("{} / {}", ms("p50_ns")?, ms("p99_ns")?))
    })?;
    text += &by_sessions(runs, "steady pace, CPU µs an order", |side| {
        Some(format!("{:.1}", side["paced"]["cpu_ns_per_order"].as_f64()? / 1e3))
    })?;
    text += &by_sessions(runs, "steady pace, p50 / p99, µs", |side| {
        let us = |field: &str| Some(format!("{:.0}", side["paced"][field].as_f64()? / 1e3));
        Some(format!("{} / {}", us("p50_ns")?, us("p99_ns")?))
    })?;
    for run in runs {
        for not_run in run["not_run"].as_array().into_iter().flatten() {
            let sessions = number(&run["sessions"])?;
            let not_run = without_place(not_run.as_str()?);
            text += &format!("\nNot run with {sessions} sessions: {not_run}.\n");
        }
    }
    Some(text.trim_end().to_owned())
}

/// Returns a reason without its reference to the output of the run, because the pages do not show
/// that output.
pub(super) fn without_place(reason: &str) -> &str {
    reason.strip_suffix("; its error is above").unwrap_or(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_run_is_said_and_what_was_has_its_interval() {
        let record = serde_json::json!({
            "recorded": "2026-01-02", "machine": "M", "software": "S", "command": "C",
            "load_before": "0.10",
            "runs": {"runs": [{
                "sessions": 1_000,
                "sides": {
                    "floor": {
                        "full": {"orders_per_s": 10_400.0, "p50_ns": 1_000_000, "p99_ns": 0},
                        "paced": {"cpu_ns_per_order": 1_000.0, "p50_ns": 1_000, "p99_ns": 2_000}
                    },
                    "transfix-file": {
                        "full": {"orders_per_s": 5_200.0, "p50_ns": 1_000_000, "p99_ns": 9_000_000},
                        "paced": {"cpu_ns_per_order": 1_000.0, "p50_ns": 1_000, "p99_ns": 2_000},
                        "ratio": {"orders": 0.5, "orders_between": [0.45, 0.6]}
                    },
                },
                "not_run": ["QuickFIX C++, file store: it ended"]
            }]}
        });
        let text = throughput(&record).expect("a whole record");
        for expected in [
            "Recorded 2026-01-02: M; S.",
            "`C`; load of the machine before: 0.10.",
            "| floor | 10,000 |",
            "| **Transfix, file store** | 5,000 |",
            "| **Transfix, file store** | 0.50 (0.45–0.60) |",
            "| QuickFIX C++, file store | not run |",
            "Not run with 1,000 sessions: QuickFIX C++, file store: it ended.",
        ] {
            assert!(text.contains(expected), "{expected}:\n{text}");
        }
        assert_eq!(throughput(&serde_json::json!({"runs": {}})), None, "no table without figures");
    }

    #[test]
    fn an_engine_has_one_row() {
        let figures = serde_json::json!({
            "p50_ns": 1_000, "p95_ns": 1_000, "p99_ns": 1_000, "p999_ns": 1_000,
            "cpu_ns_per_message": 1_000
        });
        let peer = |name: &str, p99: [f64; 2]| {
            let p50 = [0.7, 0.9];
            let to_ours = serde_json::json!({
                "p50": 0.8, "p50_between": p50, "p99": 2.0, "p99_between": p99
            });
            serde_json::json!({
                "name": name, "kind": "peer-acceptor", "figures": figures, "to_ours": to_ours
            })
        };
        let record = serde_json::json!({
            "recorded": "2026-01-02", "machine": "M", "software": "S", "command": "C",
            "load_before": "0.10",
            "runs": [{
                "configuration": "file", "settings": {"messages": 5_000},
                "rounds": {"kept": 5, "repeated": 0, "disturbed": 0},
                "series": [
                    peer("a 1, file, validation", [1.5, 3.0]), peer("a 1, file", [1.5, 3.0]),
                    peer("b 1, file", [1.4, 3.0])
                ]
            }]
        });
        let text = trips(&record).expect("a whole record");
        let rows: Vec<&str> = text.lines().filter(|line| line.contains(" 1, file")).collect();
        assert_eq!(rows.len(), 2, "{text}");
        assert!(rows[0].starts_with("| a 1, file, validation |"), "{text}");
        assert!(rows[0].ends_with("| ours | 0.80 (0.70–0.90) | 2.00 (1.50–3.00) |"), "{text}");
        assert!(rows[1].ends_with("| 0.80 (0.70–0.90) | – |"), "{text}");
    }

    #[test]
    fn the_highest_rate_has_its_interval_where_there_is_one() {
        let mut record = serde_json::json!({
            "recorded": "2026-01-02", "machine": "M", "software": "S", "command": "C",
            "load_before": "0.10",
            "runs": {"modes": ["mode-a", "mode-b"], "rows": [],
                     "highest": [263_480.0, 199_220.5, 99_050.0],
                     "settings": {"has_a_cpu_for_each_thread": [true]}},
        });
        let begin = "\nHighest rate without a queue that grows, messages a second: floor 263,480";
        let text = router(&record).expect("a whole record");
        assert!(text.ends_with(&format!("{begin}, mode-a 199,220, mode-b 99,050; by one search.")));
        record["runs"]["highest_ratios"] =
            serde_json::json!([{"median": 0.75, "low": 0.7, "high": 0.8}, null]);
        let text = router(&record).expect("a whole record");
        let expected = ", mode-a 199,220, of the floor 0.75 (0.70–0.80), mode-b 99,050.";
        assert!(text.ends_with(&format!("{begin}{expected}")), "{text}");
    }

    #[test]
    fn the_rounds_of_hftest_are_shown_where_there_are_some() {
        let side = || {
            serde_json::json!({
                "encode_us": 0.15, "decode_us": 0.3, "encode_p50_us": 0.1, "decode_p50_us": 0.2,
                "memory_mib": 9,
            })
        };
        let mut run = side();
        let of_a_run = serde_json::json!({
            "orders": 500_000, "reports": 1_962_201, "secs": 1.4, "page_encode_us": 2.83,
            "page_decode_us": 5.57, "client": side(), "server": side(),
        });
        for (key, value) in of_a_run.as_object().expect("an object") {
            run[key] = value.clone();
        }
        let record = |run: &Value| {
            let (recorded, load) = ("2026-01-02", "0.10");
            serde_json::json!({
                "recorded": recorded, "machine": "M", "software": "S", "command": "C",
                "load_before": load, "runs": [run],
            })
        };
        let before = hftest(&record(&run)).expect("a whole record");
        assert!(before.ends_with("| memory at most, MiB | 9 | 9 | | 16 GB asked for | |"));
        let ratio = serde_json::json!({"median": 0.5, "low": 0.45, "high": 0.6});
        run["rounds"] = serde_json::json!({"kept": 9, "repeated": 1, "disturbed": 0});
        run["all"] = serde_json::json!({
            "floor_orders_per_s": 700_000.4, "floor_ns": 7.52, "orders_per_s": 350_000.0,
            "orders_ratio": ratio,
            "rows": [
                {"framework": "transfix", "operation": "encode", "ns": 150.2, "floor_ratio": ratio},
                {"framework": "other", "operation": "encode", "ns": 900.0, "floor_ratio": ratio,
                 "engine_ratio": ratio},
            ],
            "not_run": ["not run: one; it is not there"],
        });
        let text = hftest(&record(&run)).expect("a whole record");
        for expected in [
            "350,000 orders a second, 0.50 (0.45 to 0.60) of the 700,000 over bare sockets",
            "\n| transfix, encode | 150 | 0.50 (0.45 to 0.60) |  |\n",
            "\n| other, encode | 900 | 0.50 (0.45 to 0.60) | 0.50 (0.45 to 0.60) |\n",
            "\nnot run: one; it is not there.",
        ] {
            assert!(text.starts_with(&before) && text.contains(expected), "{expected}:\n{text}");
        }
    }

    #[test]
    fn ratios_have_three_digits() {
        let said = serde_json::json!({"p50": 1.234, "p50_between": [0.5, 12.34], "p99": 345.6});
        assert_eq!(ratio(&said, "p50").as_deref(), Some("1.23 (0.50–12.3)"));
        assert_eq!(ratio(&said, "p99"), None, "no ratio without its interval");
    }
}
