//! Days on which no window opens.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jiff::civil::Date;

use super::ScheduleError;

/// Reads the entries, which are dates or paths of files with dates.
pub(super) fn read(entries: &[PathBuf]) -> Result<BTreeSet<Date>, ScheduleError> {
    let mut all = BTreeSet::new();
    for entry in entries {
        match entry.to_str().map(str::parse::<Date>) {
            Some(Ok(date)) => _ = all.insert(date),
            _ => read_file(entry, &mut all)?,
        }
    }
    Ok(all)
}

/// Reads a file with one date per line; text after `#` is a comment.
fn read_file(path: &Path, all: &mut BTreeSet<Date>) -> Result<(), ScheduleError> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        ScheduleError::new(format!(
            "holidays: `{name}` is neither a date such as 2026-12-25 nor a readable file ({error})"
        ))
    })?;
    for (n, line) in text.lines().enumerate() {
        let date = line.split('#').next().unwrap_or_default().trim();
        if date.is_empty() {
            continue;
        }
        let date = date.parse().map_err(|_| {
            let line = n + 1;
            ScheduleError::new(format!("{name}:{line}: `{date}` is not a date such as 2026-12-25"))
        })?;
        all.insert(date);
    }
    Ok(())
}
