//! Compression of closed files with zstd. Requires the Cargo feature `zstd`.

#[cfg(feature = "zstd")]
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::owner_only::open_regular;

/// True if this build can compress files.
pub const AVAILABLE: bool = cfg!(feature = "zstd");

/// The file name extension of compressed files.
pub const ENDING: &str = "zst";

/// Replaces the file by `FILE.zst`. If the process is killed during the compression, the original
/// file remains unchanged.
///
/// # Errors
/// If the operating system refuses; [`io::ErrorKind::Unsupported`] without the cargo feature.
#[cfg(feature = "zstd")]
pub fn compress(path: &Path) -> io::Result<()> {
    let (unfinished, finished) = (with(path, "new"), with(path, ENDING));
    let mut options = crate::owner_only::for_owner();
    let to = options.write(true).create(true).truncate(true).open(&unfinished)?;
    // Level 0 selects the default level of the library.
    zstd::stream::copy_encode(open_regular(path)?, &to, 0)?;
    to.sync_all()?;
    fs::rename(unfinished, &finished)?;
    // The name of the copy must be durable on the device before the original is removed.
    let dir = finished.parent().filter(|dir| !dir.as_os_str().is_empty());
    fs::File::open(dir.unwrap_or(Path::new(".")))?.sync_all()?;
    fs::remove_file(path)
}

/// Always fails, because the Cargo feature `zstd` is missing.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`].
#[cfg(not(feature = "zstd"))]
pub fn compress(_: &Path) -> io::Result<()> {
    Err(unsupported())
}

/// Reads the whole file, or its compressed form if only `FILE.zst` exists. A `path` that already
/// ends in `.zst` is decompressed too.
///
/// # Errors
/// If the operating system refuses; [`io::ErrorKind::Unsupported`] if the file is compressed and
/// the cargo feature is missing.
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

/// Reads an uncompressed file.
fn read_plain(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the first `len` bytes of the content that [`read`] returns, or all if there are fewer.
pub(crate) fn read_head(path: &Path, len: usize) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(len);
    match open_regular(path) {
        Ok(file) => _ = file.take(len as u64).read_to_end(&mut head)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Compressed files are few, and each of them is read completely soon afterwards.
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

/// Returns the path with an extension appended.
pub(crate) fn with(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}
