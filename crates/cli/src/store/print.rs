//! `transfix store print`: prints the records of a store in readable form.

use std::path::PathBuf;
use std::process::ExitCode;

use transfix_store::journal;

use super::existing;
use super::select::{Bound, Selection, bound};
use crate::input::{self, Choice, failed};
use crate::print::print;

/// Print the records of a store in readable form, by number, time, direction or type.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix store print store/FIX.4.4-VENUE-CLIENT --from 100 --to 120
  transfix store print store/FIX.4.4-VENUE-CLIENT --from 20261121-09:00:00 --to 20261121-09:05:00
  transfix store print store/FIX.4.4-VENUE-CLIENT --direction out --type D,8 --full

Without an option for a number, direction or type, the output includes other records too: changes of
the numbers, resets, notes. A store can be printed while an engine writes it.
Exit code: 0 done, 1 a message was garbled, 2 wrong usage or a store that cannot be read.")]
pub(crate) struct Args {
    /// The directory of the store.
    store: PathBuf,
    #[command(flatten)]
    selection: Selection,
    /// The last record, in the form of `--from`.
    #[arg(long, value_name = "N|TIME", value_parser = bound)]
    to: Option<Bound>,
    /// Print each field in a separate line.
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    dictionary: Choice,
    /// Also prints the number of messages by type at the end.
    #[arg(long)]
    summary: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let entries = match existing(&args.store) {
        Ok(dir) => journal::read(dir).map_err(|error| error.to_string()),
        Err(error) => Err(error),
    };
    let selection = args.dictionary.load().and_then(|mut all| args.selection.resolved(&mut all));
    let (entries, selection) = match (entries, selection) {
        (Ok(entries), Ok(selection)) => (entries, selection),
        (Err(error), _) | (_, Err(error)) => return failed(&error),
    };
    let entries = selection.of(args.to, entries);
    print(&args.dictionary, (!args.full, args.summary), |printer| input::store(entries, printer))
}
