//! Files of lines that one process appends to, such as logs.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Opens and locks a file to append to. A new file gets `mode`. A line torn by a crash is ended.
/// Returns the number of bytes in the file.
///
/// # Errors
/// If the operating system refuses; [`io::ErrorKind::ResourceBusy`] if another process has the
/// file.
pub fn open(path: &Path, mode: u32) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true).mode(mode);
    let mut file = options.open(path)?;
    if file.metadata()?.file_type().is_fifo() {
        // A write to a full pipe would block forever.
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
            // The last writer was killed within a line.
            file.write_all(b"\n")?;
            bytes += 1;
        }
    }
    Ok((file, bytes))
}
