//! `transfix store`: shows the stores of sessions, and changes a store when an operator requests
//! it.
//!
//! Invariant: only `set-next` and `queue --clear` change an existing store, and only while no
//! process has the store open.

mod export;
mod health;
mod import;
mod list;
mod print;
mod queue;
mod repair;
mod select;
mod set_next;
mod show;
mod verify;

use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use transfix::Timestamp;
use transfix_quickfix::{Dialect, ForeignStore};

use crate::foreign;
use crate::input::{Failure, ended, holds_store, store_beside};
use crate::show::count;

/// Show, check, repair, import and export the stores of sessions.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix store list store
  transfix store show store/FIX.4.4-VENUE-CLIENT
  transfix store print store/FIX.4.4-VENUE-CLIENT --from 20261121-09:00:00 --direction out

A store is a directory with the `.seg` files of one session. The engine keeps its stores in the
`store_dir` of the settings. `transfix store VERB --help` explains a verb.")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the stores in a directory: numbers, messages, bytes, health.
    List(list::Args),
    /// Show a store: numbers, times, sizes, segments, health.
    Show(show::Args),
    /// Print the records of a store in readable form, by number, time, direction or type.
    Print(print::Args),
    /// Show the messages that wait for a logon, or clear them.
    Queue(queue::Args),
    /// Set the next sequence numbers of a session that is not running, and record the reason in its
    /// journal.
    SetNext(set_next::Args),
    /// Check every byte of stores, and report the losses in damaged stores.
    Verify(verify::Args),
    /// Copy the sound parts of a damaged store to a new store; the damaged store is not changed.
    Repair(repair::Args),
    /// Write the messages of a store as bytes, JSON or a log.
    Export(export::Args),
    /// Convert the store of another engine to a Transfix store.
    Import(import::Args),
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match &args.verb {
        Verb::List(args) => list::run(args),
        Verb::Show(args) => show::run(args),
        Verb::Print(args) => print::run(args),
        Verb::Queue(args) => queue::run(args),
        Verb::SetNext(args) => set_next::run(args),
        Verb::Verify(args) => verify::run(args),
        Verb::Repair(args) => repair::run(args),
        Verb::Export(args) => export::run(args),
        Verb::Import(args) => import::run(args),
    }
}

/// Imports a store of QuickFIX whose location comes from converted settings.
pub(crate) fn import_found(dialect: Dialect, found: &ForeignStore) -> ExitCode {
    import::found(dialect, found)
}

/// Returns the path if it is the directory of a store, otherwise an error.
fn existing(path: &Path) -> Result<&Path, String> {
    if path.is_file() {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = store_beside(path).unwrap_or(dir.unwrap_or(Path::new(".")).to_owned());
        let dir = dir.display();
        return Err(format!(
            "{} is a file; name the directory of the store: {dir}",
            path.display()
        ));
    }
    if !path.is_dir() {
        return Err(format!("{}: no such directory", path.display()));
    }
    if let Some(why) = gone(path) {
        return Err(why);
    }
    if !holds_store(path) {
        let path = path.display();
        return Err(format!("{path} has no .seg file; `transfix store list {path}` finds stores"));
    }
    Ok(path)
}

/// Returns an explanation and the remedy if only the lock file of a store is left. Returns `None`
/// for other directories.
fn gone(dir: &Path) -> Option<String> {
    // The engine writes to the lock file when the first segment is complete, so an empty lock file
    // means that nothing was lost.
    let is_noted = std::fs::metadata(dir.join("lock")).is_ok_and(|found| found.len() > 0);
    (is_noted && !holds_store(dir)).then(|| {
        let dir = dir.display();
        format!(
            "{dir}: only the lock file of this store is left, and its segments are missing, so \
             nothing can be repaired; restore the files from a backup or from the \
             `retention.archive_dir`; without these, move the directory away: the session then \
             begins at 1, and the counterparty must reset its numbers too"
        )
    })
}

/// Creates a new file for the output, or returns standard output if there is no path.
fn output(path: Option<&PathBuf>) -> Result<Box<dyn Write>, String> {
    let Some(path) = path else { return Ok(Box::new(BufWriter::new(io::stdout().lock()))) };
    match std::fs::File::create_new(path) {
        Ok(file) => Ok(Box::new(BufWriter::with_capacity(1 << 20, file))),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// Prints a text to standard output.
fn say(text: impl Display) -> Result<(), Failure> {
    Ok(writeln!(io::stdout(), "{}", foreign::lines(&text.to_string()))?)
}

/// Prints the reason why the command is refused, and returns exit code 1.
fn refused(why: impl Display) -> ExitCode {
    let _ = writeln!(io::stderr(), "transfix: {}", foreign::lines(&why.to_string()));
    ExitCode::FAILURE
}

fn moment(time_ns: u64) -> Timestamp {
    Timestamp(i64::try_from(time_ns).unwrap_or(i64::MAX))
}

/// Formats a number of bytes, such as `17 bytes` or `1.5 MiB`.
fn size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|(_, shift)| bytes >> shift > 0);
    unit.map_or_else(
        || count(bytes, "byte"),
        |(name, shift)| format!("{:.1} {name}", bytes as f64 / f64::from(1 << shift)),
    )
}
