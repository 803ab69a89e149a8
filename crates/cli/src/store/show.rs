//! `transfix store show`: prints all properties of a store except its messages.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::json;
use transfix_store::{self as store, Survey};

use super::health::{health, received, session, told};
use super::{ended, existing, moment, say, size};
use crate::foreign;
use crate::foreign::Foreign;
use crate::input::{Failure, failed};

/// Show a store: numbers, times, sizes, segments, health.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix store show store/FIX.4.4-VENUE-CLIENT
  transfix store show --json store/FIX.4.4-VENUE-CLIENT | jq .next_out

`none kept`: the store has no received message, because the session has no `keep_inbound` or has
received no application message.
Exit code: 0 done, 1 the store is damaged, 2 wrong usage or a store that cannot be read.")]
pub(crate) struct Args {
    /// The directory of the store.
    store: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let survey = match existing(&args.store) {
        Ok(dir) => store::survey(dir).map_err(|error| error.to_string()),
        Err(error) => Err(error),
    };
    match survey {
        Ok(survey) if args.json => ended(show_json(&args.store, &survey)),
        Ok(survey) => ended(show(&args.store, &survey)),
        Err(error) => failed(&error),
    }
}

fn show(dir: &Path, survey: &Survey) -> Result<ExitCode, Failure> {
    let file_bytes: u64 = survey.segments.iter().map(|segment| segment.bytes).sum();
    let used_bytes: u64 = survey.segments.iter().map(|segment| segment.used_bytes).sum();
    let mut table = plain();
    if !survey.session.is_empty() {
        table.add_row(["session", &Foreign(&session(survey)).to_string()]);
    }
    if let Some(numbers) = survey.numbers {
        table.add_row(["next_in", &numbers.next_in.to_string()]);
        table.add_row(["next_out", &numbers.next_out.to_string()]);
        table.add_row(["numbers since", &moment(numbers.created_ns).to_string()]);
    }
    if let Some(time_ns) = survey.last_logon_ns {
        table.add_row(["last logon", &moment(time_ns).to_string()]);
    }
    table.add_row(["messages sent", &survey.outbound.to_string()]);
    table.add_row(["messages received", &received(survey)]);
    table.add_row(["messages waiting", &survey.waiting.to_string()]);
    table.add_row(["other records", &survey.marks.to_string()]);
    if let Some((first, last)) = survey.times_ns {
        table.add_row(["first message", &moment(first).to_string()]);
        table.add_row(["last message", &moment(last).to_string()]);
    }
    if let Some((time_ns, text)) = &survey.last_note {
        table.add_row(["last note", &format!("{} {}", moment(*time_ns), Foreign(text))]);
    }
    let sizes = format!("{}, of which {} used", size(file_bytes), size(used_bytes));
    table.add_row(["size", &sizes]);
    table.add_row(["health", &health(dir, survey)]);
    say(table)?;
    let mut segments = plain();
    segments.set_header(["segment", "bytes", "used", "records"]);
    for column in 1..=3 {
        if let Some(column) = segments.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for segment in &survey.segments {
        let name = segment.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let [bytes, used, records] = [segment.bytes, segment.used_bytes, segment.records];
        segments.add_row([name, bytes.to_string(), used.to_string(), records.to_string()]);
    }
    say(format!("\n{segments}"))?;
    for fault in &survey.faults {
        say(told(fault))?;
    }
    Ok(code_of(survey))
}

fn code_of(survey: &Survey) -> ExitCode {
    if survey.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the values of [`show`] as a JSON object; missing values are null.
fn show_json(dir: &Path, survey: &Survey) -> Result<ExitCode, Failure> {
    let time = |time_ns: u64| moment(time_ns).to_string();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbers = survey.numbers;
    let segments = survey.segments.iter().map(|segment| {
        json!({
            "file": name(&segment.path),
            "bytes": segment.bytes,
            "used_bytes": segment.used_bytes,
            "records": segment.records,
        })
    });
    let faults = survey.faults.iter().map(|fault| {
        json!({
            "file": name(&fault.path),
            "byte": fault.offset,
            "code": fault.reason.as_u16(),
            "said": told(fault),
            "lost_bytes": fault.lost_bytes,
            "lost_sent": fault.lost_outbound.map(|(first, last)| [first, last]),
            "is_all_known": fault.is_all_known,
        })
    });
    let object = json!({
        "store": dir.display().to_string(),
        "session": Some(session(survey)).filter(|session| !session.is_empty()),
        "next_in": numbers.map(|numbers| numbers.next_in),
        "next_out": numbers.map(|numbers| numbers.next_out),
        "last_reset": numbers.map(|numbers| time(numbers.created_ns)),
        "last_logon": survey.last_logon_ns.map(time),
        "sent": survey.outbound,
        "received": survey.inbound,
        "waiting": survey.waiting,
        "other_records": survey.marks,
        "first_message": survey.times_ns.map(|(first, _)| time(first)),
        "last_message": survey.times_ns.map(|(_, last)| time(last)),
        "last_note": survey.last_note.as_ref().map(|(at, text)| {
            json!({ "time": time(*at), "text": text })
        }),
        "health": health(dir, survey),
        "unfinished_bytes": survey.unfinished_bytes,
        "segments": segments.collect::<Vec<_>>(),
        "faults": faults.collect::<Vec<_>>(),
    });
    say(foreign::json_line(&object))?;
    Ok(code_of(survey))
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}
