//! `transfix settings show`: prints each key with its value and the origin of the value.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use transfix::{Origin, Settings, ShownKey, ShownSettings};

use crate::foreign;
use crate::input::{answered, failed};

const HELP: &str = "\
Examples:
  transfix settings show venue.toml                  all keys, with defaults
  transfix settings show venue.toml --changed        only keys that a file sets
  transfix settings show venue.toml CLIENT7          sessions whose identity contains this text
  transfix settings show venue.toml --json

The output is a settings file with stars instead of passwords. The origin follows each value: a file
and its line, `[defaults]`, or the default of the key.
Exit code: 0 done, 1 the file is wrong or has no such session, 2 wrong usage or a file that cannot
be read.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct Args {
    /// Settings file.
    settings: PathBuf,
    /// Only sessions whose identity has this text, such as `FIX.4.4:VENUE->CLIENT7`.
    session: Option<String>,
    /// Show only keys that a file sets.
    #[arg(long)]
    changed: bool,
    /// Write JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let all = match Settings::shown(&args.settings) {
        Ok(all) => all,
        Err(errors) => {
            if let [error] = &errors[..]
                && error.line().is_none()
            {
                return failed(&error.to_string());
            }
            for error in &errors {
                eprintln!("error: {}", foreign::lines(&error.to_string()));
            }
            return ExitCode::FAILURE;
        }
    };
    let is_wanted = |one: &&ShownSettings| match (&args.session, &one.id) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(wanted), Some(id)) => id.to_string().contains(wanted),
    };
    let wanted: Vec<_> = all.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        let wanted = args.session.as_deref().unwrap_or_default();
        let why = format!("{}: no session has `{wanted}`", args.settings.display());
        eprintln!("transfix: {}", foreign::lines(&why));
        return ExitCode::FAILURE;
    }
    if args.json {
        let all: Vec<_> = wanted.iter().map(|one| of_json(one, args.changed)).collect();
        return answered(&(foreign::json(&Value::Array(all)) + "\n"));
    }
    let mut text = String::new();
    for one in wanted {
        of_toml(&mut text, one, args.changed);
    }
    answered(&text)
}

/// Column in which the comment with the origin begins.
const COLUMN: usize = 44;

fn of_toml(text: &mut String, settings: &ShownSettings, changed: bool) {
    let (heading, place) = (settings.heading, &settings.place);
    let of = settings.id.as_ref().map(|id| format!("{id}, ")).unwrap_or_default();
    let blank = if text.is_empty() { "" } else { "\n" };
    // Writing to a `String` never fails.
    let _ = writeln!(text, "{blank}{heading:COLUMN$} # {of}{place}");
    for key in keys(settings, changed) {
        let from = origin(key);
        let line = match &key.value {
            Some(value) => format!("{} = {value}", name(key)),
            None => format!("# {} is not set", name(key)),
        };
        let _ = writeln!(text, "{line:COLUMN$} # {from}");
    }
}

fn keys(settings: &ShownSettings, changed: bool) -> impl Iterator<Item = &ShownKey> {
    settings.keys.iter().filter(move |key| !changed || key.origin != Origin::Default)
}

fn name(key: &ShownKey) -> String {
    let dot = if key.table.is_empty() { "" } else { "." };
    format!("{}{dot}{}", key.table, key.key)
}

fn origin(key: &ShownKey) -> String {
    let environment = if key.of_environment { ", with the environment" } else { "" };
    match &key.origin {
        Origin::File(place) => format!("{place}{environment}"),
        Origin::Defaults(place) => format!("{place}, [defaults]{environment}"),
        _ => "default".to_owned(),
    }
}

fn of_json(settings: &ShownSettings, changed: bool) -> Value {
    let keys = keys(settings, changed).map(|key| {
        let value = json!({
            "value": key.value,
            "from": origin(key),
        });
        (name(key), value)
    });
    json!({
        "session": settings.id.as_ref().map(ToString::to_string),
        "place": settings.place,
        "keys": Value::Object(keys.collect()),
    })
}
