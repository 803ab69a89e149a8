//! Formats records as Markdown tables for the generated blocks.

use serde_json::Value;

/// The other engines in the round-trip benchmark: key, name in the long table, name in the short
/// table.
pub(super) const PEERS: [(&str, &str, &str); 4] = [
    ("quickfix-cpp-polling-validation-on", "QuickFIX C++, polling, validation", "spinning too"),
    ("quickfix-cpp-polling-validation-off", "QuickFIX C++, polling, no validation", ""),
    ("quickfix-cpp-validation-on", "QuickFIX C++, default, validation", "default"),
    ("quickfix-cpp-validation-off", "QuickFIX C++, default, no validation", ""),
];

/// The columns of a latency table, each with the field of the record.
pub(super) const COLUMNS: [(&str, &str); 6] = [
    ("min", "min_ns"),
    ("avg", "mean_ns"),
    ("p50", "p50_ns"),
    ("p95", "p95_ns"),
    ("p99", "p99_ns"),
    ("p99.9", "p999_ns"),
];

/// Returns a sentence with the machine and the day of a record.
pub(super) fn recorded(record: &Value) -> Option<String> {
    let text = |key: &str| record[key].as_str();
    Some(format!("Recorded {}: {}; {}.\n", text("recorded")?, text("machine")?, text("software")?))
}

/// Returns a sentence with the command that repeats a record, and with the load of the machine.
pub(super) fn repeated(record: &Value) -> Option<String> {
    let (command, load) = (record["command"].as_str()?, record["load_before"].as_str()?);
    Some(format!("`{command}`; load of the machine before: {load}.\n"))
}

/// Returns a duration in microseconds with one decimal.
pub(super) fn us(figures: &Value, field: &str) -> Option<String> {
    Some(format!("{:.1}", figures[field].as_u64()? as f64 / 1000.0))
}

fn ratio(figures: &Value, floor: &Value, field: &str) -> Option<f64> {
    Some(figures[field].as_u64()? as f64 / floor[field].as_u64()?.max(1) as f64)
}

/// Formats a ratio as the benchmark does. A ratio below 1 counts as noise, because nothing that
/// uses a socket is faster than the socket.
fn shown_ratio(ratio: f64) -> String {
    if ratio < 1.0 { "noise".to_owned() } else { format!("{ratio:.2}") }
}

fn row(name: &str, figures: &Value, fields: &[&str], ratios: &[String]) -> Option<String> {
    let cells = fields.iter().map(|field| us(figures, field)).collect::<Option<Vec<_>>>()?;
    Some(format!("| {name} | {} | {} |\n", cells.join(" | "), ratios.join(" | ")))
}

/// Returns the runs of a configuration, in ascending order of Transfix's p50.
fn runs_of<'r>(record: &'r Value, configuration: &str) -> Option<Vec<&'r Value>> {
    let mut runs: Vec<&Value> = record["runs"].as_array()?.iter().collect();
    runs.retain(|run| run["configuration"] == configuration);
    runs.sort_by_key(|run| run["engine"]["p50_ns"].as_u64());
    Some(runs)
}

/// Returns the table of the round trip, with the median run for each configuration.
pub(super) fn latency(record: &Value) -> Option<String> {
    let fields = COLUMNS.map(|(_, field)| field);
    let names = COLUMNS.map(|(name, _)| name).join(" | ");
    let mut text = recorded(record)?;
    text += &format!("\n| µs | {names} | p50/floor | p99/floor |\n{}\n", "|---".repeat(9) + "|");
    let mut shown = Vec::new();
    for run in record["runs"].as_array()? {
        let configuration = run["configuration"].as_str()?;
        if shown.contains(&configuration) {
            continue;
        }
        shown.push(configuration);
        let runs = runs_of(record, configuration)?;
        let run = *runs.get(runs.len() / 2)?;
        let floor = &run["floor"];
        let ratios = |figures: &Value| -> Option<Vec<String>> {
            let both = ["p50_ns", "p99_ns"].map(|field| ratio(figures, floor, field));
            both.into_iter().map(|ratio| Some(shown_ratio(ratio?))).collect()
        };
        let name = match runs.len() {
            1 => format!("`{configuration}`"),
            runs => format!("`{configuration}`, the middle of {runs} runs"),
        };
        text += &row(&name, &run["engine"], &fields, &ratios(&run["engine"])?)?;
        text += &row("its floor", floor, &fields, &[String::new(), String::new()])?;
        for (key, name, _) in PEERS {
            if let Some(peer) = run["peers"].get(key) {
                text += &row(name, peer, &fields, &ratios(peer)?)?;
            }
        }
    }
    let range = |key: &str| -> Option<String> {
        let of = |run: &Value| ratio(run["peers"].get(key)?, &run["engine"], "p50_ns");
        let ratios: Vec<f64> = record["runs"].as_array()?.iter().filter_map(of).collect();
        let (least, most) = ratios.iter().fold((f64::MAX, 0.0_f64), |(least, most), ratio| {
            (least.min(*ratio), most.max(*ratio))
        });
        (!ratios.is_empty()).then(|| format!("{least:.1} to {most:.1}"))
    };
    let (usual, polling) =
        (range("quickfix-cpp-validation-on")?, range("quickfix-cpp-polling-validation-on")?);
    text += &format!(
        "\nWith validation in both, ours is {usual} times as fast as QuickFIX by default at p50.\n\
         The same ratio to QuickFIX polling is {polling}."
    );
    Some(text)
}

/// Returns the short table of the round trip: the median run that also measured other engines.
pub(super) fn latency_in_short(record: &Value) -> Option<String> {
    let runs = record["runs"].as_array()?;
    let with_peers = |run: &&Value| run["peers"].as_object().is_some_and(|peers| !peers.is_empty());
    let runs = runs_of(record, runs.iter().find(with_peers)?["configuration"].as_str()?)?;
    let run = *runs.get(runs.len() / 2)?;
    let fields = ["min_ns", "mean_ns", "p50_ns", "p95_ns", "p99_ns"];
    let mut text = "| µs | min | avg | p50 | p95 | p99 | p50/floor |\n".to_owned();
    text += &("|---".repeat(7) + "|\n");
    let floor = &run["floor"];
    let ratio_of = |figures: &Value| Some(vec![format!("{:.2}", ratio(figures, floor, "p50_ns")?)]);
    let name = "floor: the same bytes, raw, spinning";
    text += &row(name, floor, &fields, &ratio_of(floor)?)?;
    let name = format!("Transfix, `{}`", run["configuration"].as_str()?);
    text += &row(&name, &run["engine"], &fields, &ratio_of(&run["engine"])?)?;
    for (key, _, name) in PEERS.into_iter().filter(|(_, _, name)| !name.is_empty()) {
        let peer = run["peers"].get(key)?;
        text += &row(&format!("QuickFIX C++, {name}"), peer, &fields, &ratio_of(peer)?)?;
    }
    Some(text + "\n" + recorded(record)?.trim_end())
}

/// Formats a number such as `1,273` or `7.5`.
pub(super) fn number(value: &Value) -> Option<String> {
    let Some(whole) = value.as_u64() else { return Some(format!("{:.1}", value.as_f64()?)) };
    let digits = whole.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    Some(text)
}

/// Returns the time of Transfix as a fraction of the peer's time, such as `1/18.8`.
fn times(ours: &Value, peer: &Value) -> Option<String> {
    let ratio = peer.as_f64()? / ours.as_f64()?;
    Some(if ratio < 20.0 { format!("1/{ratio:.1}") } else { format!("1/{ratio:.0}") })
}

const CODECS: [(&str, &str); 4] = [
    ("quickfix-cpp", "QuickFIX C++"),
    ("quickfixj", "QuickFIX/J"),
    ("rustyfix", "rustyfix"),
    ("ironfix", "ironfix"),
];

/// Returns the table of all codec operations.
pub(super) fn codec(record: &Value) -> Option<String> {
    let rows = record["rows"].as_array()?;
    let named = |name: &str| rows.iter().find(|row| row["operation"] == name);
    let peers = CODECS.map(|(_, name)| name).join(" | ");
    let mut text = recorded(record)?;
    text += "\n| operation | Transfix, fixed / varied | instructions | ";
    text += &format!("{peers} | ratio | asked |\n{}\n", "|---".repeat(9) + "|");
    for row in rows {
        let varied = number(&row["varied"]).map(|varied| format!(" / {varied}"));
        let ours = number(&row["fixed"])? + &varied.unwrap_or_default();
        let counted = number(&row["instructions"]).unwrap_or_default();
        let mut cells = vec![row["what"].as_str()?.to_owned(), ours, counted];
        for (key, _) in CODECS {
            let note = row[format!("{key}-note")].as_str().map(|note| format!(" ({note})"));
            cells.push(match row.get(key) {
                Some(Value::Null) => "–".to_owned(),
                Some(value) => number(value)? + &note.unwrap_or_default(),
                None => String::new(),
            });
        }
        // A variant of an operation is compared with the basic operation of the other engines.
        let base = match row["operation"].as_str()? {
            "decode-avx2" | "decode-sse2" => named("decode")?,
            "typed-encode" => named("build-encode")?,
            _ => row,
        };
        let mut ratio = times(&row["fixed"], &base["quickfix-cpp"]).unwrap_or_default();
        let asked = row["asked"].as_str().unwrap_or_default();
        if asked.ends_with("QuickFIX/J") {
            ratio += &format!(" ({} of QuickFIX/J)", times(&row["fixed"], &base["quickfixj"])?);
        }
        cells.extend([ratio, asked.to_owned()]);
        text += &format!("| {} |\n", cells.join(" | "));
    }
    Some(text.trim_end().to_owned())
}

/// Returns the table of codec operations on the messages of S2b, with the ratio to each other
/// engine.
pub(super) fn hftest_codec(record: &Value) -> Option<String> {
    let peers = CODECS.map(|(_, name)| name).join(" | ");
    let mut text = recorded(record)? + &repeated(record)?;
    text +=
        &format!("\n| ns a message | Transfix | {peers} | asked |\n{}\n", "|---".repeat(7) + "|");
    for row in record["rows"].as_array()? {
        let mut cells = vec![row["what"].as_str()?.to_owned(), number(&row["fixed"])?];
        for (key, _) in CODECS {
            cells.push(match number(&row[key]) {
                Some(ns) => format!("{ns} ({})", times(&row["fixed"], &row[key])?),
                None => "–".to_owned(),
            });
        }
        text += &format!("| {} | {} |\n", cells.join(" | "), row["asked"].as_str()?);
    }
    Some(text.trim_end().to_owned())
}

/// Returns a sentence with the number of instructions of one turn.
pub(super) fn turn(count: u64) -> String {
    let count = number(&Value::from(count)).unwrap_or_default();
    format!("All validation on: {count} instructions (with AVX2, as callgrind has no AVX-512).")
}

/// Returns the table that shows how a turn's instructions are distributed over functions.
pub(super) fn profile(record: &Value) -> Option<String> {
    let rows = record["functions"].as_array()?;
    let lines = record["lines"].as_u64()?;
    let mut text = format!("Each turn walks through {lines} lines of 64 bytes of code.\n\n");
    text += "| function | instructions | of all | reads and writes | misses: code | data |\n";
    text += "|---|---|---|---|---|---|\n";
    let all = rows.last()?["instructions"].as_f64()?;
    for row in rows {
        let instructions = row["instructions"].as_f64()?;
        let misses = |name: &str| Some(format!("{:.2}", row[name].as_f64()?));
        text += &format!(
            "| `{}` | {} | {:.1} % | {} | {} | {} |\n",
            row["name"].as_str()?.replace('|', "\\|"),
            number(&row["instructions"])?,
            100.0 * instructions / all,
            number(&row["data"])?,
            misses("code_misses")?,
            misses("data_misses")?
        );
    }
    Some(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_the_part_of_each() {
        let row = |name: &str, instructions: u64| {
            serde_json::json!({"name": name, "instructions": instructions, "data": 7,
                               "code_misses": 0.0, "data_misses": 0.254})
        };
        let functions = [row("a::b", 1_500), row("all", 6_000)];
        let record = serde_json::json!({"functions": functions, "lines": 533});
        let text = profile(&record).expect("a whole record");
        let line = "| `a::b` | 1,500 | 25.0 % | 7 | 0.00 | 0.25 |";
        assert!(text.starts_with("Each turn walks through 533 lines of 64 bytes"), "{text}");
        assert!(text.contains(line), "{text}");
        assert_eq!(profile(&serde_json::json!({"functions": functions})), None);
    }

    #[test]
    fn numbers_and_ratios() {
        for (value, expected) in [
            (Value::from(7), "7"),
            (Value::from(1_273), "1,273"),
            (Value::from(1_234_567), "1,234,567"),
            (Value::from(7.5), "7.5"),
        ] {
            assert_eq!(number(&value).as_deref(), Some(expected));
        }
        assert_eq!(number(&Value::Null), None);
        assert_eq!(times(&Value::from(32), &Value::from(600)).as_deref(), Some("1/18.8"));
        assert_eq!(times(&Value::from(42), &Value::from(1_273)).as_deref(), Some("1/30"));
    }

    #[test]
    fn each_peer_has_its_ratio_in_the_table_of_s2b() {
        let record = serde_json::json!({
            "recorded": "2026-01-02", "machine": "M", "software": "S",
            "command": "C", "load_before": "0.1",
            "rows": [{
                "what": "decode", "fixed": 50, "quickfix-cpp": 1_500, "ironfix": 400,
                "rustyfix": null, "asked": "1/5"
            }]
        });
        let table = hftest_codec(&record).expect("a whole record");
        let row = "| decode | 50 | 1,500 (1/30) | – | – | 400 (1/8.0) | 1/5 |";
        assert_eq!(table.lines().last(), Some(row));
    }
}
