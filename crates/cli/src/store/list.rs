//! `transfix store list`: lists the stores in a directory.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use comfy_table::{CellAlignment, Table, presets};
use transfix_store as store;

use super::health::{health, misnamed, received};
use super::{ended, gone, moment, say, size};
use crate::input::{Failure, failed};

/// List the stores in a directory: numbers, messages, bytes, health.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix store list store

The command reads each store completely. The numbers of messages include messages before a reset.
`none kept`: the store has no received message, because the session has no `keep_inbound` or has
received no application message.
Exit code: 0 done, 1 a store is damaged, 2 wrong usage or a directory that cannot be read.")]
pub(crate) struct Args {
    /// The directory to search, with up to three levels of subdirectories.
    dir: PathBuf,
}

/// Maximum depth of subdirectories that are searched.
const LEVELS: u32 = 3;

pub(super) fn run(args: &Args) -> ExitCode {
    let mut stores = Vec::new();
    if let Err(error) = find(&args.dir, LEVELS, &mut BTreeSet::new(), &mut stores) {
        return failed(&format!("{}: {error}", args.dir.display()));
    }
    ended(list(args, &stores))
}

/// Finds the stores in a directory and its subdirectories, including symbolic links. `seen`
/// contains visited directories, so that several links to one directory list it once.
fn find(
    dir: &Path,
    levels: u32,
    seen: &mut BTreeSet<PathBuf>,
    stores: &mut Vec<PathBuf>,
) -> io::Result<()> {
    if !seen.insert(fs::canonicalize(dir)?) {
        return Ok(());
    }
    let mut inner = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|end| end == "seg") {
            stores.push(dir.to_path_buf());
            return Ok(());
        }
        if entry.path().is_dir() {
            inner.push((entry.file_type()?.is_symlink(), entry.path()));
        }
    }
    if gone(dir).is_some() {
        stores.push(dir.to_path_buf());
        return Ok(());
    }
    // Directories are visited before symbolic links, so that a store is listed under its real path.
    inner.sort();
    for (_, dir) in inner.iter().filter(|_| levels > 0) {
        // Unreadable subdirectories are skipped without an error.
        let _ = find(dir, levels - 1, seen, stores);
    }
    Ok(())
}

fn list(args: &Args, stores: &[PathBuf]) -> Result<ExitCode, Failure> {
    let mut table = Table::new();
    let header = ["store", "next_in", "next_out", "sent", "received", "size", "last", "health"];
    table.load_style(presets::NOTHING).set_header(header);
    for column in 1..=5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let (mut code, mut notes) = (ExitCode::SUCCESS, Vec::new());
    for dir in stores {
        let name = dir.strip_prefix(&args.dir).unwrap_or(dir);
        let name = if name.as_os_str().is_empty() { dir } else { name };
        let survey = match store::survey(dir) {
            Ok(survey) => survey,
            Err(error) => {
                table.add_row([name.display().to_string(), error.to_string()]);
                code = ExitCode::FAILURE;
                continue;
            }
        };
        if !survey.faults.is_empty() {
            code = ExitCode::FAILURE;
        }
        notes.extend(misnamed(dir, &survey));
        notes.extend(gone(dir));
        let numbers = survey.numbers.map(|numbers| [numbers.next_in, numbers.next_out]);
        let [next_in, next_out] = numbers.unwrap_or([1, 1]).map(|number| number.to_string());
        let last = survey.times_ns.map(|times| moment(times.1).to_string()[..17].to_owned());
        table.add_row([
            name.display().to_string(),
            next_in,
            next_out,
            survey.outbound.to_string(),
            received(&survey),
            size(survey.segments.iter().map(|segment| segment.bytes).sum()),
            last.unwrap_or_else(|| "none".to_owned()),
            health(dir, &survey),
        ]);
    }
    if stores.is_empty() {
        say(format!("no store in {}", args.dir.display()))?;
    } else {
        say(table)?;
    }
    for note in notes {
        say(note)?;
    }
    Ok(code)
}
