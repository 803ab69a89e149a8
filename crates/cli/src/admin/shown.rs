//! Formats answers of the engine as tables and lines.

use comfy_table::{Table, presets};
use serde_json::Value;

use crate::foreign::Foreign;

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => Foreign(text).to_string(),
        Value::Bool(is) => if *is { "yes" } else { "no" }.to_owned(),
        other => other.to_string(),
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table
}

/// Formats a time without fractions of a second.
fn second(value: &Value) -> String {
    let text = text(value);
    text.split_once('.').map_or(text.clone(), |(second, _)| format!("{second}Z"))
}

fn rows<'v>(answer: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    answer[name].as_array().into_iter().flatten()
}

pub(super) fn sessions(sessions: &[Value]) -> String {
    let mut table =
        table(&["session", "state", "peer", "problem", "since", "in", "out", "queued", "last end"]);
    for one in sessions {
        let end = &one["last_end"];
        let end = match end["text"].as_str().unwrap_or_default() {
            "" => text(&end["reason"]),
            said => format!("{}: {}", text(&end["reason"]), Foreign(said)),
        };
        let problem = match one["enabled"] == false {
            true => "logged out manually".to_owned(),
            false => text(&one["problem"]),
        };
        table.add_row([
            text(&one["id"]),
            text(&one["state"]),
            text(&one["peer"]),
            problem,
            second(&one["since"]),
            text(&one["next_num_in"]),
            text(&one["next_num_out"]),
            text(&one["queued_bytes"]),
            end,
        ]);
    }
    format!("{table}\n")
}

pub(super) fn session(one: &Value) -> String {
    let mut shown = table(&["", ""]);
    let plain = one.as_object().into_iter().flatten();
    for (name, value) in plain.filter(|(_, value)| !value.is_array() && !value.is_object()) {
        if !value.is_null() {
            shown.add_row([name.clone(), text(value)]);
        }
    }
    for (name, value) in one["counters"].as_object().into_iter().flatten() {
        // Some counters are null over FIX and therefore not shown.
        if !value.is_null() {
            shown.add_row([name.clone(), text(value)]);
        }
    }
    let store = &one["store"];
    if !store.is_null() {
        shown.add_row(["store".to_owned(), text(&store["path"])]);
        shown.add_row(["store_bytes".to_owned(), text(&store["bytes"])]);
        shown.add_row(["store_free_bytes".to_owned(), text(&store["free_bytes"])]);
    }
    let mut all = format!("{shown}\n");
    let end = &one["last_end"];
    if !end.is_null() {
        let (reason, said) = (text(&end["reason"]), text(&end["text"]));
        all += &format!("\nlast end, {}: {reason} {said}\n", second(&end["at"]));
    }
    let mut times = table(&["stage", "count", "p50 µs", "p99 µs", "p99.9 µs", "max µs", ""]);
    let unusual = one["unusual_latency"].as_array();
    let us = |ns: &Value| format!("{:.1}", ns.as_f64().unwrap_or_default() / 1_000.0);
    let mut has_times = false;
    for stage in rows(one, "latency") {
        has_times = true;
        let [p50, p99, p999, max] =
            ["p50_ns", "p99_ns", "p999_ns", "max_ns"].map(|name| us(&stage[name]));
        let is_unusual = unusual.is_some_and(|all| all.contains(&stage["stage"]));
        let note = if is_unusual { "unusual" } else { "" }.to_owned();
        let (name, count) = (text(&stage["stage"]), text(&stage["count"]));
        times.add_row([name, count, p50, p99, p999, max, note]);
    }
    if has_times {
        all += &format!("\n{times}\n");
    }
    for window in rows(one, "windows") {
        let (open, close) = (text(&window["open_local"]), text(&window["close_local"]));
        all += &format!("window: {open} to {close}\n");
    }
    all
}

pub(super) fn messages(answer: &Value) -> String {
    let mut all = String::new();
    for one in rows(answer, "messages") {
        let at = text(&one["at"]);
        match one["note"].as_str() {
            Some(note) => all += &format!("{at}     -- {}\n", Foreign(note)),
            None => {
                let (direction, bytes) = (text(&one["direction"]), text(&one["text"]));
                all += &format!("{at} {direction:>3} {bytes}\n");
            }
        }
    }
    if answer["whole"] == false {
        all += "the search took too long and was stopped: more messages may match\n";
    }
    all
}

pub(super) fn event(event: &Value) -> String {
    let fields = event["fields"].as_object().into_iter().flatten();
    let fields: String = fields.map(|(name, value)| format!(" {name}={}", text(value))).collect();
    let session = match event["session"].as_str() {
        Some(session) => format!(" {}", Foreign(session)),
        None => String::new(),
    };
    let [at, level, code, what] = ["at", "level", "code", "text"].map(|name| text(&event[name]));
    format!("{at} {level:>5} {code:>4}{session} {what}{fields}\n")
}

pub(super) fn audit(answer: &Value) -> String {
    let mut table = table(&["n", "at", "who", "from", "session", "what", "step", "result"]);
    for line in rows(answer, "lines") {
        let result = ["before", "after", "why"].map(|name| text(&line[name])).concat();
        let [n, who, from, session, what, step] =
            ["n", "who", "from", "session", "what", "step"].map(|name| text(&line[name]));
        table.add_row([n, second(&line["at"]), who, from, session, what, step, result]);
    }
    format!("{table}\n")
}

pub(super) fn certificates(answer: &Value) -> String {
    let mut table = table(&["days left", "file", "subject", "shown by"]);
    for one in rows(answer, "certificates") {
        let by: Vec<_> = rows(one, "shown_by").map(text).collect();
        let days = text(&one["days_left"]);
        table.add_row([days, text(&one["file"]), text(&one["subject"]), by.join(", ")]);
    }
    format!("{table}\n")
}
