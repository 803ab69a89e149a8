//! `transfix store queue`: lists or clears the queued messages that wait for a logon.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use transfix::{Mask, clock};
use transfix_store::journal::{self, Event};
use transfix_store::{Durability, FileStore, Options, Record, Store, StoreError};

use super::set_next::{author, reason};
use super::{ended, existing, moment, refused, say};
use crate::input::{Failure, Masking, failed, shown};

/// Show the messages that wait for a logon, or clear them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix store queue store/FIX.4.4-VENUE-CLIENT
  transfix store queue store/FIX.4.4-VENUE-CLIENT --clear --reason 'orders of yesterday'

Prints one line for each message, oldest first: its ticket, the start of its wait, its fields. A
queue can be shown while an engine uses the store. Cleared messages are never sent. The journal
records the user, the number of cleared messages and the reason. While an engine has the store open,
the command clears nothing; use the action clear_queued of `transfix admin do` instead.
Exit code: 0 done, 1 a process has the store open, 2 wrong usage or a store that cannot be read.")]
pub(crate) struct Args {
    /// The directory of the store.
    store: PathBuf,
    #[command(flatten)]
    masking: Masking,
    /// Clear the queue.
    #[arg(long)]
    clear: bool,
    /// The reason, which is recorded in the journal.
    #[arg(long, value_name = "TEXT", value_parser = reason, requires = "clear")]
    reason: Option<String>,
}

/// A message in the queue that waits for a logon.
struct Queued {
    ticket: u64,
    time_ns: u64,
    bytes: Vec<u8>,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let dir = match existing(&args.store) {
        Ok(dir) => dir,
        Err(error) => return failed(&error),
    };
    if !args.clear {
        return match read(dir) {
            Ok(all) => ended(list(&all, args.masking.mask().as_ref())),
            Err(error) => failed(&error.to_string()),
        };
    }
    match clear(dir, args) {
        Ok(text) => ended(say(text).map(|()| ExitCode::SUCCESS)),
        Err(error @ StoreError::Locked { .. }) => refused(error),
        Err(error) => failed(&error.to_string()),
    }
}

/// Reads the waiting messages from the journal without opening the store, because an engine may
/// have the store open.
fn read(dir: &Path) -> Result<VecDeque<Queued>, StoreError> {
    let mut all: VecDeque<Queued> = VecDeque::new();
    for entry in journal::read(dir)? {
        let entry = entry?;
        match entry.event {
            Event::Queued { ticket, bytes } => {
                all.push_back(Queued { ticket, time_ns: entry.time_ns, bytes });
            }
            Event::Unqueued(last) => {
                while all.front().is_some_and(|waiting| waiting.ticket <= last) {
                    all.pop_front();
                }
            }
            _ => {}
        }
    }
    Ok(all)
}

fn list(all: &VecDeque<Queued>, mask: Option<&Mask>) -> Result<ExitCode, Failure> {
    for Queued { ticket, time_ns, bytes } in all {
        let bytes = mask.map_or(Cow::Borrowed(&bytes[..]), |mask| mask.message(bytes));
        say(format!("{ticket} {} {}", moment(*time_ns), shown(&bytes)))?;
    }
    say(count(all.len(), "waiting"))?;
    Ok(ExitCode::SUCCESS)
}

fn clear(dir: &Path, args: &Args) -> Result<String, StoreError> {
    let now_ns = clock::now().utc.0.unsigned_abs();
    // The change must be synced to disk, because a power failure must not undo what the operator
    // was told.
    let options = Options { durability: Durability::Power, ..Options::default() };
    let (mut store, _) = FileStore::open(dir, options, now_ns)?;
    let (mut cleared, mut last) = (0, None);
    while let Some(found) = store.queued(last.map_or(0, |last| last + 1))? {
        last = Some(found.seq);
        cleared += 1;
    }
    let said = count(cleared, "cleared");
    if let Some(last) = last {
        let why = args.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        store.put(now_ns, Record::Note(&format!("queue, by {}: {said}{why}", author())))?;
        store.put(now_ns, Record::Unqueued(last))?;
        store.commit()?;
    }
    Ok(said)
}

fn count(messages: usize, what: &str) -> String {
    format!("{} {what}", crate::show::count(messages as u64, "message"))
}
