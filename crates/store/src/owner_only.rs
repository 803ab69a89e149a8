//! Files and directories of a store. Their owner alone can read them, since they hold messages. A
//! pipe or a device in the place of a file is an error: reading it could wait for ever.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Options that make such a file.
pub(crate) fn for_owner() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Opens a file to read it.
///
/// # Errors
/// If the operating system refuses, or it is no regular file.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    open_regular_with(options.read(true), path)
}

/// The same with these options. It never waits for the other end of a pipe.
pub(crate) fn open_regular_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = options.custom_flags(no_wait).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    let what = "it is a pipe, a device or a directory, and no file; remove it";
    Err(io::Error::new(ErrorKind::InvalidInput, what))
}

/// Makes such a directory, and those above it that are missing.
pub(crate) fn create_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}
