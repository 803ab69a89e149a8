//! `transfix store set-next`: sets the next sequence numbers of a stopped session.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::process::getuid;
use rustix::system::uname;
use transfix::{MSG_SEQ_NUM_MAX, clock};
use transfix_store::{Durability, FileStore, Numbers, Options, Record, Store, StoreError};

use super::{ended, existing, refused, say};
use crate::input::failed;

/// Set the next sequence numbers of a session that is not running, and record the reason in its
/// journal.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix store set-next store/FIX.4.4-VENUE-CLIENT --in 40 --reason 'agreed with CLIENT by phone'

The journal records the user, the change and the reason; `transfix store print` shows the record. A
number lower than the present number needs `--force`, because it was already used. With a lower
`--out`, new messages reuse old numbers, and the messages sent earlier with these numbers are
hidden. With a lower `--in`, the session requests received messages again. While an engine has the
store open, the command writes nothing; use the action set_numbers of `transfix admin do` instead.
Exit code: 0 done, 1 a process has the store open or a number needs `--force`, 2 wrong usage or a
store that cannot be read.")]
#[command(group(clap::ArgGroup::new("numbers").required(true).multiple(true)))]
pub(crate) struct Args {
    /// The directory of the store.
    store: PathBuf,
    /// MsgSeqNum(34) expected next from the counterparty.
    #[arg(long = "in", value_name = "N", group = "numbers", value_parser = number())]
    next_in: Option<u64>,
    /// MsgSeqNum(34) of the next message sent.
    #[arg(long = "out", value_name = "M", group = "numbers", value_parser = number())]
    next_out: Option<u64>,
    /// The reason, which is recorded in the journal.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: String,
    /// Also accepts a number that is lower than the present number.
    #[arg(long)]
    force: bool,
}

/// Returns the command-line parser for a MsgSeqNum(34).
pub(super) fn number() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=MSG_SEQ_NUM_MAX)
}

pub(super) fn reason(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("write the reason in a few words".to_owned()),
        text => Ok(text.to_owned()),
    }
}

pub(super) fn run(args: &Args) -> ExitCode {
    let dir = match existing(&args.store) {
        Ok(dir) => dir,
        Err(error) => return failed(&error),
    };
    match set(dir, args) {
        Ok(Ok(text)) => ended(say(text).map(|()| ExitCode::SUCCESS)),
        Ok(Err(why)) => refused(why),
        Err(error @ StoreError::Locked { .. }) => refused(error),
        Err(error) => failed(&error.to_string()),
    }
}

/// Sets the numbers, and returns the text for the operator. The inner error is the reason of a
/// refusal.
fn set(dir: &Path, args: &Args) -> Result<Result<String, String>, StoreError> {
    let now_ns = clock::now().utc.0.unsigned_abs();
    // The change must be synced to disk, because a power failure must not undo what the operator
    // was told.
    let options = Options { durability: Durability::Power, ..Options::default() };
    let (mut store, _) = FileStore::open(dir, options, now_ns)?;
    // The numbers file is updated too; otherwise the engine would mistake the store with its lower
    // numbers for an old copy.
    let mut beside = dir.as_os_str().to_owned();
    beside.push(".numbers");
    if Path::new(&beside).exists() {
        let kept = store.keep_numbers_in(beside.into());
        kept.map_err(|source| StoreError::Io { path: dir.to_owned(), source })?;
    }
    let Numbers { next_in, next_out, .. } = store.numbers();
    let lower = [("--in", args.next_in, next_in), ("--out", args.next_out, next_out)];
    let lower = lower.into_iter().find(|(_, next, present)| next.is_some_and(|n| n < *present));
    if let Some((option, Some(next), present)) = lower.filter(|_| !args.force) {
        return Ok(Err(format!(
            "{option} {next} is below the present number {present}, and so was used before; add \
             --force to set it anyway"
        )));
    }
    let mut changes = Vec::new();
    if let Some(next) = args.next_in {
        changes.push(format!("next_in {next_in} to {next}"));
    }
    if let Some(next) = args.next_out {
        changes.push(format!("next_out {next_out} to {next}"));
    }
    let changes = changes.join(", ");
    let note = format!("set by {}: {changes}: {}", author(), args.reason);
    store.put(now_ns, Record::Note(&note))?;
    if let Some(next) = args.next_in {
        store.put(now_ns, Record::NextIn(next))?;
    }
    if let Some(next) = args.next_out {
        store.put(now_ns, Record::NextOut(next))?;
    }
    store.commit()?;
    Ok(Ok(format!("{}: {changes}", dir.display())))
}

/// Returns the user of this program, such as `alice (uid 1000) at host`. The name comes from the
/// environment, the number from the system.
pub(super) fn author() -> String {
    let (uid, system) = (getuid().as_raw(), uname());
    let host = system.nodename().to_string_lossy();
    match ["LOGNAME", "USER"].iter().find_map(|key| env::var(key).ok()) {
        Some(name) => format!("{name} (uid {uid}) at {host}"),
        None => format!("uid {uid} at {host}"),
    }
}
