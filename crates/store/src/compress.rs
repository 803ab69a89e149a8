//! Closed files, compressed with zstd. Only with the cargo feature of that name.

#[cfg(feature = "zstd")]
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::owner_only::open_regular;

/// True if this build can.
pub const AVAILABLE: bool = cfg!(feature = "zstd");

/// The ending of compressed files.
pub const ENDING: &str = "zst";

/// Puts `FILE.zst` in the place of the file. Killed on the way, it leaves the file as it was.
///
/// # Errors
/// If the operating system refuses; [`io::ErrorKind::Unsupported`] without the cargo feature.
#[cfg(feature = "zstd")]
pub fn compress(path: &Path) -> io::Result<()> {
    let (unfinished, finished) = (with(path, "new"), with(path, ENDING));
    let mut options = crate::owner_only::for_owner();
    let to = options.write(true).create(true).truncate(true).open(&unfinished)?;
    // Level 0 stands for the library's default.
    zstd::stream::copy_encode(open_regular(path)?, &to, 0)?;
    to.sync_all()?;
    fs::rename(unfinished, &finished)?;
    // Its name comes before the file goes.
    let dir = finished.parent().filter(|dir| !dir.as_os_str().is_empty());
    fs::File::open(dir.unwrap_or(Path::new(".")))?.sync_all()?;
    fs::remove_file(path)
}

/// Without the cargo feature nothing is compressed.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`].
#[cfg(not(feature = "zstd"))]
pub fn compress(_: &Path) -> io::Result<()> {
    Err(unsupported())
}

/// The whole file, or what its compressed form in the same place holds. A file that has the ending
/// already is decompressed as well.
///
/// # Errors
/// If the operating system refuses; [`io::ErrorKind::Unsupported`] if it is compressed and the
/// cargo feature is missing.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    if path.extension().is_some_and(|ending| ending == ENDING) {
        return decompress(path);
    }
    match read_plain(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let compressed = with(path, ENDING);
            if compressed.exists() { decompress(&compressed) } else { Err(error) }
        }
        read => read,
    }
}

/// Reads a file that is there as such.
fn read_plain(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The first `len` bytes of what [`read`] gives, or all if there are less.
pub(crate) fn read_head(path: &Path, len: usize) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(len);
    match open_regular(path) {
        Ok(file) => _ = file.take(len as u64).read_to_end(&mut head)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Few, and read whole soon.
            head = read(path)?;
            head.truncate(len);
        }
        Err(error) => return Err(error),
    }
    Ok(head)
}

#[cfg(feature = "zstd")]
fn decompress(path: &Path) -> io::Result<Vec<u8>> {
    zstd::stream::decode_all(open_regular(path)?)
}

#[cfg(not(feature = "zstd"))]
fn decompress(_: &Path) -> io::Result<Vec<u8>> {
    Err(unsupported())
}

#[cfg(not(feature = "zstd"))]
fn unsupported() -> io::Error {
    let why = "compressed files need the cargo feature `zstd`; build with it";
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// The path with one more ending.
pub(crate) fn with(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}
