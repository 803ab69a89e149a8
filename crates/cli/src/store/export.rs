//! `transfix store export`: writes the messages of a store as bytes, JSON or a QuickFIX log.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use transfix_store::journal::{self, Entry, Event, Message};

use super::select::{Bound, Selection, bound};
use super::{existing, moment, output};
use crate::convert::ToJson;
use crate::foreign;
use crate::input::{Choice, Dictionaries, Failure, InputMessage, Place, ended, failed, shown};

/// Write the messages of a store as bytes, JSON or a log.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix store export store/FIX.4.4-VENUE-CLIENT --to raw --direction out --output sent.fix
  transfix store export store/FIX.4.4-VENUE-CLIENT --to json | jq 'select(.direction == \"in\")'
  transfix store export store/FIX.4.4-VENUE-CLIENT --to quickfix-log --from 1 --until 99

raw           the bytes of the messages, one after the other
json          one object in each line: time, direction, seq and message; also other records
quickfix-log  `20261121-09:28:25.623118000 : 8=FIX...`, one message a line, as QuickFIX logs have it

Exit code: 0 done, 1 a message was garbled, 2 wrong usage or a store that cannot be read.")]
pub(crate) struct Args {
    /// The directory of the store.
    store: PathBuf,
    /// The output format.
    #[arg(long, value_enum)]
    to: Format,
    #[command(flatten)]
    selection: Selection,
    /// The last record, in the form of `--from`.
    #[arg(long, value_name = "N|TIME", value_parser = bound)]
    until: Option<Bound>,
    /// A new file for the output. Default: standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    dictionary: Choice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// The bytes of the messages.
    Raw,
    /// One JSON object in each line.
    Json,
    /// A message in each line, preceded by its time.
    QuickfixLog,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let dictionaries = match args.dictionary.load() {
        Ok(dictionaries) => dictionaries,
        Err(error) => return failed(&error),
    };
    ended(export(args, dictionaries))
}

fn export(args: &Args, mut dictionaries: Dictionaries) -> Result<ExitCode, Failure> {
    let dir = existing(&args.store).map_err(Failure::Read)?;
    let selection = args.selection.resolved(&mut dictionaries).map_err(Failure::Read)?;
    let entries = journal::read(dir).map_err(|error| Failure::Read(error.to_string()))?;
    let mut out = output(args.output.as_ref()).map_err(Failure::Read)?;
    let mut json = ToJson::new(dictionaries, false, io::sink());
    for entry in selection.of(args.until, entries) {
        let entry = entry.map_err(|error| Failure::Read(error.to_string()))?;
        match args.to {
            Format::Json => write_object(&entry, &mut json, &mut out)?,
            Format::Raw => {
                if let Some(message) = message(&entry) {
                    out.write_all(&message.bytes)?;
                }
            }
            Format::QuickfixLog => {
                if let Some(message) = message(&entry) {
                    write!(out, "{} : ", moment(entry.time_ns))?;
                    out.write_all(&message.bytes)?;
                    out.write_all(b"\n")?;
                }
            }
        }
    }
    out.flush()?;
    Ok(if json.garbled == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

const fn message(entry: &Entry) -> Option<&Message> {
    match &entry.event {
        Event::Outbound(message) | Event::Inbound(message) => Some(message),
        _ => None,
    }
}

fn write_object(
    entry: &Entry,
    json: &mut ToJson<io::Sink>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let time = moment(entry.time_ns);
    let (direction, message) = match &entry.event {
        Event::Outbound(message) => ("out", message),
        Event::Inbound(message) => ("in", message),
        Event::NextIn(seq) => return mark(out, &json!({"time": time.to_string(), "next_in": seq})),
        Event::NextOut(seq) => {
            return mark(out, &json!({"time": time.to_string(), "next_out": seq}));
        }
        Event::Reset => return mark(out, &json!({"time": time.to_string(), "reset": true})),
        Event::Note(text) => return mark(out, &json!({"time": time.to_string(), "note": text})),
        Event::Queued { ticket, bytes } => {
            let fields = shown(bytes);
            let object = json!({"time": time.to_string(), "queued": ticket, "fields": fields});
            return mark(out, &object);
        }
        Event::Unqueued(ticket) => {
            return mark(out, &json!({"time": time.to_string(), "unqueued": ticket}));
        }
    };
    let (bytes, seq) = (&message.bytes[..], message.seq);
    let place = Place::Store { segment: entry.segment, byte: entry.offset };
    json.judge(&InputMessage { bytes, place, head: "", wrong: None })?;
    write!(out, "{{\"time\":\"{time}\",\"direction\":\"{direction}\",\"seq\":{seq},")?;
    match json.objects.text(bytes)? {
        Some(object) => write!(out, "\"message\":{object}")?,
        // Garbled bytes are no text, so they are escaped.
        None => write!(out, "\"garbled\":{}", json!(bytes.escape_ascii().to_string()))?,
    }
    Ok(out.write_all(b"}\n")?)
}

fn mark(out: &mut dyn Write, object: &serde_json::Value) -> Result<(), Failure> {
    Ok(writeln!(out, "{}", foreign::json_line(object))?)
}
