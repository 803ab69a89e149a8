//! Extracts the part of a benchmark's output to record, which is exactly the figures that the
//! tables show.

use serde_json::{Map, Value, json};

/// The maximum width of a line in a record's file, in characters.
const COLUMNS: usize = 100;

/// Returns the text of a record. A value that fits into one line is written on one line.
pub(super) fn text(value: &Value, indent: usize) -> String {
    let line = value.to_string();
    if indent + line.len() <= COLUMNS {
        return line;
    }
    let inner = " ".repeat(indent + 1);
    let (open, items, close) = match value {
        Value::Array(items) => {
            let items = items.iter().map(|item| format!("{inner}{}", text(item, indent + 1)));
            ('[', items.collect::<Vec<_>>(), ']')
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| {
                format!("{inner}{}: {}", Value::from(key.as_str()), text(value, indent + 1))
            });
            ('{', fields.collect(), '}')
        }
        _ => return line,
    };
    format!("{open}\n{}\n{}{close}", items.join(",\n"), " ".repeat(indent))
}

/// Returns an object with those of the named fields that `object` has.
fn only(object: &Value, names: &[&str]) -> Value {
    let kept =
        names.iter().filter_map(|name| Some(((*name).to_owned(), object.get(name)?.clone())));
    Value::Object(kept.filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>())
}

/// Returns an array in which `kept` was applied to each element, or `None` if the value is not an
/// array.
fn each(array: &Value, kept: impl Fn(&Value) -> Value) -> Option<Value> {
    Some(array.as_array()?.iter().map(kept).collect())
}

const FIGURES: [&str; 8] =
    ["n", "min_ns", "mean_ns", "p50_ns", "p95_ns", "p99_ns", "p999_ns", "cpu_ns_per_message"];

/// Returns the recorded part of a run of S1, in which each engine runs at both ends. Results with
/// the common client are omitted, because S4a and S5 measure those, and the figures are not
/// comparable.
pub(super) fn latency(report: &Value) -> Option<Value> {
    let mut kept = only(report, &["configuration"]);
    kept["engine"] = only(&report["engine"], &FIGURES);
    kept["floor"] = only(&report["floor"], &FIGURES);
    let series = report["series"].as_array()?.iter();
    let peers = series.filter(|series| series["kind"] == "peer").map(|series| {
        Some((series["name"].as_str()?.to_owned(), only(&series["figures"], &FIGURES)))
    });
    kept["peers"] = Value::Object(peers.collect::<Option<_>>()?);
    report["engine"]["p50_ns"].is_u64().then_some(kept)
}

/// Returns the recorded part of S4a or S5, with one line for each configuration.
pub(super) fn trips(lines: &[Value]) -> Option<Value> {
    lines
        .iter()
        .map(|line| {
            let mut kept = only(line, &["configuration", "rounds", "notes", "not_run"]);
            let settings = ["messages", "rate_per_s", "warm_up", "order_bytes", "report_bytes"];
            kept["settings"] = only(&line["settings"], &settings);
            kept["series"] = each(&line["series"], |series| {
                let mut kept = only(series, &["name", "kind", "ratio", "to_ours"]);
                kept["figures"] = only(&series["figures"], &FIGURES);
                kept
            })?;
            Some(kept)
        })
        .collect()
}

/// Returns the recorded part of S3 as one line.
pub(super) fn router(lines: &[Value]) -> Option<Value> {
    let line = lines.first()?;
    let mut kept = only(line, &["modes", "highest", "highest_ratios", "highest_rounds", "not_run"]);
    let settings = ["slices", "slice_ms", "workers", "has_a_cpu_for_each_thread"];
    kept["settings"] = only(&line["settings"], &settings);
    let figures = [
        "half_trip_p50_ns",
        "half_trip_p99_ns",
        "socket_to_callback_p50_ns",
        "put_to_socket_p50_ns",
        "ratio",
        "cpu_ns_per_message",
        "kept_up",
    ];
    kept["rows"] = each(&line["rows"], |row| {
        let mut kept = only(row, &["senders", "rate", "receivers", "rounds"]);
        kept["routers"] =
            each(&row["routers"], |router| only(router, &figures)).unwrap_or_default();
        kept
    })?;
    Some(kept)
}

/// Returns the recorded part of the runs of S2b.
pub(super) fn hftest(lines: &[Value]) -> Option<Value> {
    let times = ["encode_us", "decode_us", "encode_p50_us", "decode_p50_us"];
    let side = |side: &Value| -> Option<Value> {
        let us = |timing: &Value| {
            let (secs, msgs) = (timing["secs"].as_f64()?, timing["msgs"].as_f64()?);
            Some((secs * 1e9 / msgs).round() / 1e3)
        };
        Some(json!({
            "encode_us": us(&side["encode"])?,
            "decode_us": us(&side["decode"])?,
            "encode_p50_us": rounded(&side["encode_p50_us"])?,
            "decode_p50_us": rounded(&side["decode_p50_us"])?,
            "memory_mib": side["memory_max_kib"].as_u64()? / 1_024,
        }))
    };
    lines
        .iter()
        .map(|line| {
            let mut kept = json!({
                "orders": line["check"]["orders"].as_u64()?,
                "reports": line["check"]["reports"].as_u64()?,
                "secs": rounded(&line["secs"])?,
                "client": side(&line["client"])?,
                "server": side(&line["server"])?,
            });
            for name in times {
                kept[name] = rounded(&line[name])?;
            }
            for name in ["page_encode_us", "page_decode_us", "rounds", "all"] {
                kept[name] = line[name].clone();
            }
            Some(kept)
        })
        .collect()
}

/// Returns the number rounded to three decimals.
fn rounded(number: &Value) -> Option<Value> {
    Some(Value::from((number.as_f64()? * 1e3).round() / 1e3))
}

/// Returns the recorded part of the throughput benchmark, as one line without changes.
pub(super) fn throughput(lines: &[Value]) -> Option<Value> {
    let line = lines.first()?;
    line["runs"].is_array().then(|| only(line, &["runs", "settings"]))
}

/// Adds figures from the output table of the codec benchmark, whose columns are operation, engine,
/// fixed and varied.
pub(super) fn codec(rows: &mut [Value], table: &str) -> Result<(), String> {
    for row in rows {
        let operation = row["operation"].as_str().unwrap_or_default().to_owned();
        // Other engines have no template, so the operation `template` is compared with their
        // encoding of a message that is already built.
        let of_peers = if operation == "template" { "encode" } else { &operation };
        for line in table.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, engine, fixed, ..] = words[..] else { continue };
            let Ok(fixed) = fixed.parse::<f64>() else { continue };
            let shown = |ns: f64| match ns < 10.0 {
                true => Value::from((ns * 10.0).round() / 10.0),
                false => Value::from(ns.round() as u64),
            };
            let engines = ["quickfix-cpp", "quickfixj", "rustyfix", "ironfix"];
            if engine == "transfix" && name == operation {
                row["fixed"] = shown(fixed);
                if let (Some(_), Some(Ok(varied))) =
                    (row.get("varied"), words.get(3).map(|word| word.parse::<f64>()))
                {
                    row["varied"] = shown(varied);
                }
            } else if let Some(key) = engines.iter().find(|key| engine.starts_with(*key))
                && name == of_peers
            {
                row[*key] = shown(fixed);
            }
        }
        if row["fixed"].is_null() {
            return Err(format!("the benchmark has no row {operation}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_what_the_tables_show_and_no_more() {
        let figures = json!({"n": 9, "p50_ns": 5, "p9999_ns": 7});
        let kept = json!({"n": 9, "p50_ns": 5});
        let series = ["floor", "engine", "peer", "peer-acceptor"].map(|kind| {
            json!({"name": kind, "kind": kind, "figures": figures, "seen": [[5, 9]], "ratio": null})
        });
        let line = json!({
            "configuration": "C", "engine": figures, "floor": figures, "series": series,
            "settings": {"messages": 9, "mode": "spin"}
        });
        let expected =
            json!({"configuration": "C", "engine": kept, "floor": kept, "peers": {"peer": kept}});
        assert_eq!(latency(&line), Some(expected), "no acceptor that another client has asked");
        let trip = &trips(std::slice::from_ref(&line)).expect("a whole line")[0];
        assert_eq!(trip["settings"], json!({"messages": 9}));
        let expected = json!({"name": "floor", "kind": "floor", "figures": kept});
        assert_eq!(trip["series"][0], expected);
        assert_eq!(latency(&json!({"series": []})), None, "no record without figures");
    }

    #[test]
    fn a_record_is_read_line_by_line() {
        let value = json!({"a": [{"b": "x".repeat(60)}, {"b": "y".repeat(60)}], "c": 1});
        let written = text(&value, 0);
        assert_eq!(serde_json::from_str::<Value>(&written).ok(), Some(value));
        assert_eq!(written.lines().count(), 7, "{written}");
    }

    #[test]
    fn figures_are_taken_out_of_the_benchmarks_table() {
        let table = "operation        engine                    fixed   varied    v/f   of peer\n\
            floor            transfix                    7.5      7.0   0.93          \n\
            template         transfix                   32.4     40.1   1.24    1/18.5\n\
            encode           quickfix-cpp-1.15.1       600.2    610.0   1.02          \n";
        let mut rows = vec![
            serde_json::json!({"operation": "floor", "fixed": 1, "varied": 1}),
            serde_json::json!({"operation": "template", "fixed": 1, "asked": "1/18"}),
        ];
        codec(&mut rows, table).unwrap_or_else(|error| panic!("{error}"));
        let expected = [
            serde_json::json!({"operation": "floor", "fixed": 7.5, "varied": 7.0}),
            serde_json::json!(
                {"operation": "template", "fixed": 32, "quickfix-cpp": 600, "asked": "1/18"}
            ),
        ];
        assert_eq!(rows, expected);
    }
}
