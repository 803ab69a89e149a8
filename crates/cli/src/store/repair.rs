//! `transfix store repair`: what is sound in a damaged store, as a new one.

use std::path::PathBuf;
use std::process::ExitCode;

use transfix::store::{self, FileStore, Repaired, StoreError, Survey};

use super::health::told;
use super::{ended, existing, refused, say, size};
use crate::input::{Failure, failed};

/// Make a sound store of what is sound in a damaged one, which stays as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix store repair store/FIX.4.4-VENUE-CLIENT --to repaired/FIX.4.4-VENUE-CLIENT

Then move the damaged directory away and the new one into its place. Messages that were destroyed
are not found afterwards: a resend covers them with a gap fill. The numbers are those behind the
last sound batch; compare them with the counterparty's, and see `transfix store set-next`.
Exit code: 0 done, 1 a process has the store open, 2 wrong usage or a file that cannot be read or
written.")]
pub(crate) struct Args {
    /// The directory of the damaged store.
    store: PathBuf,
    /// The directory of the new one, which must not hold a store yet.
    #[arg(long, value_name = "NEW")]
    to: PathBuf,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let dir = match existing(&args.store) {
        Ok(dir) => dir,
        Err(error) => return failed(&error),
    };
    let survey = store::survey(dir);
    match survey.and_then(|survey| Ok((survey, FileStore::repair(dir, &args.to)?))) {
        Ok((survey, repaired)) => ended(report(args, &survey, &repaired)),
        Err(error @ StoreError::Locked { .. }) => refused(error),
        Err(error) => failed(&error.to_string()),
    }
}

fn report(args: &Args, survey: &Survey, repaired: &Repaired) -> Result<ExitCode, Failure> {
    for fault in &survey.faults {
        say(told(fault))?;
    }
    let &Repaired { segments, records, lost_bytes } = repaired;
    let to = args.to.display();
    say(format!("{to}: {records} records, {segments} segments changed, {}", lost(lost_bytes)))?;
    if let Some(numbers) = survey.numbers {
        say(format!("next_in {}, next_out {}", numbers.next_in, numbers.next_out))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn lost(bytes: u64) -> String {
    if bytes == 0 { "nothing left out".to_owned() } else { format!("{} left out", size(bytes)) }
}
