//! `transfix store verify`: checks every byte of stores against checksums.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use transfix_store as store;

use super::health::{health, misnamed, told};
use super::{count, ended, existing, gone, say};
use crate::input::{Failure, failed, store_beside};

/// Check every byte of stores, and report the losses in damaged stores.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix store verify store/FIX.4.4-VENUE-CLIENT
  transfix store verify store/*

Finds missing and truncated files, invalid headers and checksums, numbers out of order, exchanged
files and batches, and files of other stores. An unfinished batch at the end is a normal result of a
crash, not damage.
Exit code: 0 all stores are sound, 1 a store is damaged, 2 wrong usage or a store that cannot be
read.")]
pub(crate) struct Args {
    /// Directories of stores.
    #[arg(required = true)]
    stores: Vec<PathBuf>,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let mut code = 0;
    // A shell pattern such as `store/*` also matches the files beside the stores, which are no
    // errors.
    let is_named = |dir: PathBuf| args.stores.contains(&dir);
    for dir in args.stores.iter().filter(|path| !store_beside(path).is_some_and(is_named)) {
        match verify(dir) {
            Ok(true) => {}
            Ok(false) => code = code.max(1),
            Err(Failure::Read(error)) => {
                failed(&error);
                code = 2;
            }
            Err(error) => return ended(Err(error)),
        }
    }
    ExitCode::from(code)
}

/// Verifies a store and prints the result. Returns true if the store is intact.
fn verify(dir: &Path) -> Result<bool, Failure> {
    if let Some(why) = gone(dir) {
        say(why)?;
        return Ok(false);
    }
    let survey = store::survey(existing(dir).map_err(Failure::Read)?);
    let survey = survey.map_err(|error| Failure::Read(error.to_string()))?;
    let records: u64 = survey.segments.iter().map(|segment| segment.records).sum();
    say(format!(
        "{}: {}, {}",
        dir.display(),
        health(dir, &survey),
        count(records, "sound record")
    ))?;
    if let Some(note) = misnamed(dir, &survey) {
        say(format!("  {note}"))?;
    }
    for fault in &survey.faults {
        say(format!("  {}", told(fault)))?;
    }
    match survey.imitations {
        0 => {}
        1 => say("  a message outside the sound batches looks like a batch; it is not used as a \
                  batch")?,
        n => say(format!(
            "  messages outside the sound batches look like batches, at {n} places; none is used \
             as a batch"
        ))?,
    }
    if survey.old_segments > 0 {
        say(format!(
            "  segments of an older format: {}; their checksums do not cover place and session; \
             `transfix store repair {} --to NEW` converts them to the present format",
            survey.old_segments,
            dir.display(),
        ))?;
    }
    if !survey.faults.is_empty() {
        say(format!("  `transfix store repair {} --to NEW` saves the rest", dir.display()))?;
    }
    Ok(survey.faults.is_empty())
}
