//! Files of lines to which a single process appends, such as logs.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Opens and locks a file for appending. A new file gets the permissions `mode`. If a crash has
/// left an incomplete last line, a line break is added. Returns the file and its length in bytes.
///
/// # Errors
/// If the operating system refuses; [`io::ErrorKind::ResourceBusy`] if another process has the
/// file.
pub fn open(path: &Path, mode: u32) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(mode);
    let mut file = options.open(path)?;
    if file.metadata()?.file_type().is_fifo() {
        // Writing to a full pipe would block forever, so pipes are refused.
        let what = "the file is a pipe; remove it";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => {
            io::Error::new(io::ErrorKind::ResourceBusy, "another process has it open")
        }
        TryLockError::Error(error) => error,
    })?;
    let mut bytes = file.metadata()?.len();
    if bytes > 0 {
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            // The last process that wrote the file was killed within a line.
            file.write_all(b"\n")?;
            bytes += 1;
        }
    }
    Ok((file, bytes))
}
