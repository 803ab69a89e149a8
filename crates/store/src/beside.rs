//! The numbers of a store, kept in a file beside its directory: if an older copy of the directory
//! is put into its place, that shows when the store is opened.
//!
//! **Invariant:** the file never has higher numbers than the store has committed. It is written
//! when the store is opened, with each new segment, and when the store is closed; so it may be
//! older.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::FileStore;
use crate::compress;
use crate::disk::Disk;
use crate::files::Files;
use crate::owner_only::{for_owner, open_regular};
use crate::record::Numbers;

impl FileStore<Files> {
    /// Keeps the numbers in this file from now on. Returns those that the file had, if the store is
    /// behind them: it is an older copy of the one that was closed, or lost its end with the power.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn keep_numbers_in(&mut self, path: PathBuf) -> io::Result<Option<Numbers>> {
        let had = read(&path)?;
        let own = self.ledger.numbers;
        let is_behind = |had: &Numbers| {
            own.created_ns < had.created_ns
                || (own.created_ns == had.created_ns
                    && (own.next_in < had.next_in || own.next_out < had.next_out))
        };
        write(&path, own)?;
        self.beside = Some(path);
        Ok(had.filter(is_behind))
    }
}

impl<D: Disk> FileStore<D> {
    /// Writes what is committed. What cannot be written is older, which does no harm.
    pub(crate) fn keep_beside(&self) {
        if let Some(path) = &self.beside {
            let _ = write(path, self.ledger.numbers);
        }
    }
}

fn write(path: &Path, numbers: Numbers) -> io::Result<()> {
    let Numbers { created_ns, next_in, next_out, .. } = numbers;
    let unfinished = compress::with(path, "new");
    let mut file = for_owner().write(true).create(true).truncate(true).open(&unfinished)?;
    file.write_all(format!("{created_ns} {next_in} {next_out}\n").as_bytes())?;
    fs::rename(unfinished, path)
}

/// The numbers in the file; nothing if there is none, or it holds something else.
fn read(path: &Path) -> io::Result<Option<Numbers>> {
    let text = match open_regular(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => io::read_to_string(file?)?,
    };
    let mut fields = text.split_whitespace().map(str::parse);
    let mut next = || fields.next()?.ok();
    let (Some(created_ns), Some(next_in), Some(next_out)) = (next(), next(), next()) else {
        return Ok(None);
    };
    Ok(Some(Numbers { next_in, next_out, ..Numbers::fresh(created_ns) }))
}
