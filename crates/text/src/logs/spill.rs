//! Copies the standard input to a temporary file, so that it can be read repeatedly.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use super::sources::Source;
use crate::input::Failure;

/// A file that is deleted when this value is dropped.
pub(super) struct Spilled(PathBuf);

impl Drop for Spilled {
    fn drop(&mut self) {
        // The file may have been deleted already.
        let _ = fs::remove_file(&self.0);
    }
}

/// If the standard input is among the sources, replaces it with a temporary copy.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn spill(sources: &mut [Source]) -> Result<Option<Spilled>, Failure> {
    let Some(source) = sources.iter_mut().find(|source| source.is_standard_input()) else {
        return Ok(None);
    };
    let path = std::env::temp_dir().join(format!("transfix-logs-{}", std::process::id()));
    let unwritten = |error: io::Error| Failure::Read(format!("{}: {error}", path.display()));
    let mut options = OpenOptions::new();
    let mut file =
        options.write(true).create_new(true).mode(0o600).open(&path).map_err(unwritten)?;
    let spilled = Spilled(path.clone());
    io::copy(&mut io::stdin().lock(), &mut file).map_err(unwritten)?;
    source.path = path;
    Ok(Some(spilled))
}
