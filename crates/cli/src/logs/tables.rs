//! Prints orders, gaps and latencies as tables.

use std::ops::Range;

use comfy_table::{CellAlignment, Table, presets};
use transfix_text::logs::{
    Direction, Distribution, Finding, GapsFound, Latencies, OrderRow, RequestLine, SessionNumbers,
};

use crate::show::count;

const ORDER: [&str; 14] = [
    "time",
    "session",
    "",
    "message",
    "status",
    "exec",
    "qty",
    "price",
    "last",
    "cum",
    "leaves",
    "ClOrdID",
    "OrigClOrdID",
    "OrderID / ExecID",
];

/// Returns the messages of an order as a table below the heading.
pub(super) fn order(heading: Vec<u8>, rows: Vec<OrderRow>) -> Vec<u8> {
    let (mut text, mut table, mut is_table) = (heading, table(&ORDER), false);
    for row in rows {
        match row {
            OrderRow::Cells(cells) => {
                table.add_row(cells);
                is_table = true;
            }
            OrderRow::Text(mut one) => text.append(&mut one),
        }
    }
    if is_table {
        text.extend(drawn(table, 6..11).into_bytes());
    }
    text
}

/// Returns the gaps that were found, and one line for each session.
pub(super) fn gaps(found: &GapsFound) -> String {
    let mut text = String::new();
    if !found.findings.is_empty() {
        let mut table = table(&["time", "session", "", "what"]);
        for Finding { time, session, way, what, .. } in &found.findings {
            let time = time.map(|time| time.to_string()).unwrap_or_default();
            table.add_row([&time, session, word(*way), what]);
        }
        text += &drawn(table, 0..0);
        text.push('\n');
    }
    for SessionNumbers { session, way, messages, range, missing, log, .. } in &found.sessions {
        let way = way.map_or(String::new(), |way| format!(" {}", way.word()));
        let numbers = match range {
            Some((first, last)) => format!("{first}..{last}"),
            None => "none".to_owned(),
        };
        let messages = count(*messages, "message");
        text +=
            &format!("{session}{way}: {messages}, numbers {numbers}, {missing} missing ({log})\n");
    }
    text
}

/// Returns the latencies by type of request, and the requests with the highest latencies.
pub(super) fn latencies(found: &Latencies) -> String {
    if !found.lines.iter().any(RequestLine::is_measured) {
        return String::new();
    }
    let mut lines = table(&LATENCY);
    let mut all = Distribution::default();
    for line in found.lines.iter().filter(|line| line.is_measured()) {
        let RequestLine { session, way, request, log, answered, unanswered, .. } = line;
        all.add(answered);
        let names = [session.clone(), word(*way).to_owned(), request.clone()];
        lines.add_row(
            [&names[..], &figures(answered, *unanswered), std::slice::from_ref(log)].concat(),
        );
    }
    if found.lines.len() > 1 {
        let unanswered = found.lines.iter().map(|line| line.unanswered).sum();
        let names = ["all".to_owned(), String::new(), String::new()];
        lines.add_row([&names[..], &figures(&all, unanswered)].concat());
    }
    let mut text = drawn(lines, 3..10);
    if !found.slowest.is_empty() {
        let mut table = table(&SLOWEST);
        for slow in &found.slowest {
            let RequestLine { session, way, request, .. } = &found.lines[slow.line];
            let (time, ns) = (slow.time.to_string(), micros(slow.ns));
            let (id, answer) = (&slow.id, &slow.answer);
            table.add_row([&time, &ns, session, word(*way), request, id, answer]);
        }
        text.push('\n');
        text += &drawn(table, 1..2);
    }
    text
}

fn word(way: Option<Direction>) -> &'static str {
    way.map_or("", Direction::word)
}

const LATENCY: [&str; 11] = [
    "session",
    "",
    "request",
    "answered",
    "p50 µs",
    "p90 µs",
    "p99 µs",
    "p99.9 µs",
    "max µs",
    "unanswered",
    "log",
];

const SLOWEST: [&str; 7] = ["slowest", "µs", "session", "", "request", "ClOrdID", "answer"];

fn figures(answered: &Distribution, unanswered: u64) -> [String; 7] {
    let part = |part| answered.per_mille(part).map(micros).unwrap_or_default();
    let max = if answered.count() > 0 { micros(answered.max()) } else { String::new() };
    let [p50, p90, p99, p999] = [500, 900, 990, 999].map(part);
    [answered.count().to_string(), p50, p90, p99, p999, max, unanswered.to_string()]
}

/// Formats nanoseconds as microseconds with three decimals.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table
}

/// Returns the text of a table in which the columns `right` are right-aligned.
fn drawn(mut table: Table, right: Range<usize>) -> String {
    for column in right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}
