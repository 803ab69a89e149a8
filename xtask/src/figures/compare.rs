//! The blocks of COMPARE.md: the records by engine, and the figures in which another engine is
//! ahead.

use serde_json::Value;

use super::Records;
use super::scenarios::{NOT_MEASURABLE, measurable, without_place};
use super::tables::{COLUMNS, PEERS, number};

/// Returns the results of a run for the acceptors of other engines.
fn acceptors(run: &Value) -> impl Iterator<Item = &Value> {
    let series = run["series"].as_array().into_iter().flatten();
    series.filter(|series| series["kind"] == "peer-acceptor")
}

fn runs<'a>(records: &[&'a Value]) -> Vec<&'a Value> {
    records.iter().filter_map(|record| record["runs"].as_array()).flatten().collect()
}

/// Returns the list of all recorded figures in which another engine is better than Transfix.
pub(super) fn ahead(records: &Records) -> Option<String> {
    let mut lines = Vec::new();
    for (scenario, record) in [("S4a", &records.echo), ("S5", &records.round_trip)] {
        for run in runs(&[record]) {
            let configuration = run["configuration"].as_str()?;
            let mut spares = Vec::new();
            let ours =
                run["series"].as_array()?.iter().find(|series| series["kind"] == "acceptor")?;
            let cpu = |series: &Value| series["figures"]["cpu_ns_per_message"].as_u64();
            for series in acceptors(run) {
                let name = series["name"].as_str()?;
                for field in ["p50", "p99"] {
                    if series["to_ours"][field].as_f64()? < 1.0 {
                        let high = &series["to_ours"][format!("{field}_between")][1];
                        let said = match measurable(&series["to_ours"], field)? {
                            times if times == NOT_MEASURABLE => format!("is {times}"),
                            times if high.as_f64()? < 1.0 => format!("takes {times} of ours"),
                            times => format!("takes {times} of ours; the run cannot tell"),
                        };
                        lines
                            .push(format!("{scenario} `{configuration}`, {field}: {name} {said}."));
                    }
                }
                // A difference of less than a tenth counts as noise.
                if cpu(series)? * 10 < cpu(ours)? * 9 {
                    let us = cpu(series)? as f64 / 1e3;
                    spares.push(format!("{name} {us:.1}"));
                }
            }
            if !spares.is_empty() {
                let us = cpu(ours)? as f64 / 1e3;
                let spares = spares.join("; ");
                lines.push(format!(
                    "{scenario} `{configuration}`, CPU time of the acceptor a message: ours \
                     {us:.1} \
                     µs; {spares}."
                ));
            }
        }
    }
    lines.extend(latency(&records.latency)?);
    lines.extend(codec("Codec", &records.codec)?);
    lines.extend(codec("Codec, S2b", &records.hftest_codec)?);
    lines.extend(throughput(&records.throughput)?);
    if lines.is_empty() {
        lines.push("In none of the recorded figures.".to_owned());
    }
    Some(lines.iter().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n"))
}

fn latency(record: &Value) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    for run in record["runs"].as_array()? {
        let configuration = run["configuration"].as_str()?;
        for (name, peer) in run["peers"].as_object()? {
            let name = PEERS.iter().find(|(key, ..)| key == name).map_or(&**name, |peer| peer.1);
            for (shown, field) in COLUMNS {
                let (theirs, ours) = (peer[field].as_u64()?, run["engine"][field].as_u64()?);
                if theirs < ours {
                    let [theirs, ours] = [theirs, ours].map(|ns| ns as f64 / 1e3);
                    lines.push(format!(
                        "S1 `{configuration}`, {shown}: {name} {theirs:.1} µs, ours {ours:.1}."
                    ));
                }
            }
        }
    }
    Some(lines)
}

fn codec(name: &str, record: &Value) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    for row in record["rows"].as_array()? {
        for peer in ["quickfix-cpp", "quickfixj", "rustyfix", "ironfix"] {
            if let Some(theirs) = row[peer].as_f64()
                && theirs < row["fixed"].as_f64()?
            {
                let (what, ours) = (row["what"].as_str()?, number(&row["fixed"])?);
                let theirs = number(&row[peer])?;
                lines.push(format!("{name}, {what}: {peer} {theirs} ns, ours {ours}."));
            }
        }
    }
    Some(lines)
}

fn throughput(record: &Value) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    for run in record["runs"]["runs"].as_array()? {
        let sessions = number(&run["sessions"])?;
        for store in ["file", "memory"] {
            let side = |engine: &str| &run["sides"][format!("{engine}-{store}")];
            for (load, field, what, more_is_better) in [
                ("full", "orders_per_s", "orders a second", true),
                ("full", "p99_ns", "p99 at full speed, ns", false),
                ("paced", "p50_ns", "p50 at the steady pace, ns", false),
                ("paced", "p99_ns", "p99 at the steady pace, ns", false),
                ("paced", "cpu_ns_per_order", "CPU ns an order at the steady pace", false),
            ] {
                let figure = |engine: &str| side(engine)[load][field].as_f64();
                // An engine that was not measured cannot be ahead.
                let (Some(theirs), Some(ours)) = (figure("quickfix"), figure("transfix")) else {
                    continue;
                };
                if (theirs > ours) == more_is_better && theirs != ours {
                    let [theirs, ours] = [theirs, ours].map(|n| number(&Value::from(n as u64)));
                    lines.push(format!(
                        "Throughput, {sessions} sessions, {store} store, {what}: QuickFIX C++ {}, \
                         ours {}.",
                        theirs?, ours?
                    ));
                }
            }
        }
    }
    Some(lines)
}

/// Returns the reasons why requested runs are missing; repeated reasons are omitted.
pub(super) fn not_run(records: &[&Value]) -> Option<String> {
    let mut lines: Vec<String> = Vec::new();
    let of_trips = runs(&records[..2]);
    let of_throughput = records[2]["runs"]["runs"].as_array()?.iter();
    for run in of_trips.into_iter().chain(of_throughput) {
        let sessions = number(&run["sessions"]).map(|sessions| format!("{sessions} sessions, "));
        for reason in run["not_run"].as_array().into_iter().flatten() {
            let reason = sessions.clone().unwrap_or_default() + without_place(reason.as_str()?);
            if !lines.contains(&reason) {
                lines.push(reason);
            }
        }
    }
    Some(lines.iter().map(|line| format!("- {line}.")).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(p50: f64) -> Value {
        let between = [p50 - 0.1, p50 + 0.1];
        serde_json::json!({
            "recorded": "2026-01-02", "machine": "M", "software": "S",
            "runs": [{
                "configuration": "file",
                "series": [
                    {"name": "file", "kind": "acceptor", "figures": {"cpu_ns_per_message": 9_000}},
                    {
                        "name": "peer 1.0, file, validation", "kind": "peer-acceptor",
                        "figures": {"cpu_ns_per_message": 9_500},
                        "to_ours": {
                            "p50": p50, "p50_between": between,
                            "p99": 2.0, "p99_between": [1.5, 3.0]
                        }
                    }
                ],
                "not_run": ["other: it is not there"]
            }]
        })
    }

    #[test]
    fn who_is_ahead_is_said_and_who_is_not_is_no_line() {
        let mut records = Records::read().unwrap_or_else(|error| panic!("{error}"));
        (records.echo, records.round_trip) = (record(0.8), record(1.2));
        let in_doubt = record(0.95);
        let text = ahead(&records).expect("whole records");
        let expected =
            "- S4a `file`, p50: peer 1.0, file, validation takes 0.80 (0.70–0.90) of ours.";
        assert!(text.contains(expected), "{text}");
        let doubted = Records { echo: in_doubt, ..records };
        let doubted = ahead(&doubted).expect("whole records");
        assert!(doubted.contains("0.95 (0.85–1.05) of ours; the run cannot tell."), "{doubted}");
        assert!(!text.contains("S5") && !text.contains("`file`, CPU"), "{text}");
    }

    #[test]
    fn a_ratio_whose_interval_spans_more_than_a_factor_of_two_is_not_measurable() {
        let of = |low: f64, high: f64| serde_json::json!({"p50": 0.9, "p50_between": [low, high]});
        assert_eq!(measurable(&of(0.75, 1.5), "p50").as_deref(), Some("0.90 (0.75–1.50)"));
        for (low, high) in [(0.75, 1.51), (0.0, 1.0)] {
            assert_eq!(measurable(&of(low, high), "p50").as_deref(), Some(NOT_MEASURABLE));
        }
        assert_eq!(measurable(&Value::Null, "p50"), None);

        let mut records = Records::read().unwrap_or_else(|error| panic!("{error}"));
        let mut echo = record(0.8);
        echo["runs"][0]["series"][1]["to_ours"]["p50_between"] = serde_json::json!([0.1, 9.0]);
        records.echo = echo;
        let text = ahead(&records).expect("whole records");
        let expected = "- S4a `file`, p50: peer 1.0, file, validation is not measurable here.";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn each_reason_has_one_line() {
        let (echo, trip) = (record(0.8), record(1.2));
        let throughput = serde_json::json!({"runs": {"runs": [
            {"sessions": 1_000, "not_run": ["peer: it ended too early; its error is above"]}
        ]}});
        let reasons = not_run(&[&echo, &trip, &throughput]);
        let expected = "- other: it is not there.\n- 1,000 sessions, peer: it ended too early.";
        assert_eq!(reasons.as_deref(), Some(expected));
    }
}
