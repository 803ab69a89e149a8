//! `transfix store repair`: copies the intact parts of a damaged store to a new store.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use transfix::clock;
use transfix_store::{Durability, FileStore, Options, Record, Repaired, Store, StoreError, Survey};

use super::health::{lost, told};
use super::{count, ended, existing, refused, say, set_next};
use crate::input::{Failure, failed, holds_store};

/// Copy the sound parts of a damaged store to a new store; the damaged store is not changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix store repair store/FIX.4.4-VENUE-CLIENT --to repaired/FIX.4.4-VENUE-CLIENT

Afterwards move the damaged directory away and the new directory into its place. Destroyed messages
are missing in the new store; a resend replaces them by a gap fill. The next numbers are those after
the last sound batch. Compare them with the counterparty's numbers; `transfix store set-next` can
change them. The journal records the user, the repair and the omitted parts. The repair also
converts segments of older formats to the present format, even in a sound store. After a session was
renamed, `--session FIX.4.4-VENUE-NEWNAME` gives the store to the new name.
Exit code: 0 done, 1 a process has the store open, 2 wrong usage or a file that cannot be read or
written.")]
pub(crate) struct Args {
    /// The directory of the damaged store.
    store: PathBuf,
    /// The directory of the new store, which must not yet contain a store.
    #[arg(long, value_name = "NEW")]
    to: PathBuf,
    /// The session of the new store, written as the name of its store directory. Default: the
    /// session of the damaged store.
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

/// Maximum number of faults that the note in the new store lists.
const FAULTS_MAX: usize = 10;

pub(super) fn run(args: &Args) -> ExitCode {
    let dir = match existing(&args.store) {
        Ok(dir) => dir,
        Err(error) => return failed(&error),
    };
    if let Err(why) = free(dir, &args.to) {
        return failed(&why);
    }
    let survey = transfix_store::survey(dir);
    match survey.and_then(|survey| Ok((repair(args, &survey)?, survey))) {
        Ok((repaired, survey)) => ended(report(args, &survey, &repaired)),
        Err(error @ StoreError::Locked { .. }) => refused(error),
        Err(error) => failed(&error.to_string()),
    }
}

/// Returns an error if the destination already contains a store.
fn free(from: &Path, to: &Path) -> Result<(), String> {
    let same = |path: &Path| fs::canonicalize(path).ok();
    let shown = to.display();
    if same(to).is_some_and(|to| same(from).is_some_and(|from| from == to)) {
        return Err(format!("--to {shown} is the store itself; name a new directory"));
    }
    if to.is_dir() && holds_store(to) {
        return Err(format!("--to {shown} already has a store; name a new directory"));
    }
    Ok(())
}

fn repair(args: &Args, survey: &Survey) -> Result<Repaired, StoreError> {
    let repaired = FileStore::repair(&args.store, &args.to, args.session.as_deref())?;
    let now_ns = clock::now().utc.0.unsigned_abs();
    let options = Options { durability: Durability::Power, ..Options::default() };
    let (mut store, _) = FileStore::open(&args.to, options, now_ns)?;
    let (from, author) = (args.store.display(), set_next::author());
    let mut note = format!("repaired by {author} from {from}: {}", lost(&survey.faults));
    for fault in survey.faults.iter().take(FAULTS_MAX) {
        note += &format!("; {}", told(fault));
    }
    if let Some(session) = &args.session {
        note += &format!("; now belongs to the session {session}");
    }
    let more = survey.faults.len().saturating_sub(FAULTS_MAX);
    if more > 0 {
        note += &format!("; and {more} places more");
    }
    store.put(now_ns, Record::Note(&note))?;
    store.commit()?;
    Ok(repaired)
}

fn report(args: &Args, survey: &Survey, repaired: &Repaired) -> Result<ExitCode, Failure> {
    for fault in &survey.faults {
        say(told(fault))?;
    }
    let &Repaired { segments, records, .. } = repaired;
    let to = args.to.display();
    say(format!(
        "{to}: {}, {} changed, {}",
        count(records, "record"),
        count(segments, "segment"),
        lost(&survey.faults)
    ))?;
    if let Some(numbers) = survey.numbers {
        say(format!("next_in {}, next_out {}", numbers.next_in, numbers.next_out))?;
    }
    Ok(ExitCode::SUCCESS)
}
