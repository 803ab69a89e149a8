//! Opens and creates the files and directories of a store. Only their owner can read them, because
//! they contain messages. A pipe or device in place of a file is an error, because reading it could
//! block forever.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Returns options for creating a file that only its owner can access.
pub(crate) fn for_owner() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Opens a regular file for reading; fails for a pipe or a device.
///
/// # Errors
/// If the operating system refuses, or the path names no regular file.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    open_regular_with(options.read(true), path)
}

/// Opens a regular file with `options`; never waits for the other end of a pipe.
pub(crate) fn open_regular_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = options.custom_flags(no_wait).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    let what = "a pipe, a device or a directory has the name of the file; remove it";
    Err(io::Error::new(ErrorKind::InvalidInput, what))
}

/// Creates a directory that only its owner can access, and its missing parents.
pub(crate) fn create_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}
