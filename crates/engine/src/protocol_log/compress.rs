//! Compressing a closed log file. Only with the cargo feature `zstd`.

use std::io;
use std::path::{Path, PathBuf};

/// Whether this build can.
pub(super) const AVAILABLE: bool = cfg!(feature = "zstd");

/// The ending of compressed files.
pub(super) const ENDING: &str = "zst";

/// Puts `FILE.zst` in the place of the file. Killed on the way, it leaves the file as it was.
#[cfg(feature = "zstd")]
pub(super) fn compress(path: &Path) -> io::Result<()> {
    use std::fs::{self, File};

    let (unfinished, finished) = (with(path, "new"), with(path, ENDING));
    let to = File::create(&unfinished)?;
    // Level 0 stands for the library's default.
    zstd::stream::copy_encode(File::open(path)?, &to, 0)?;
    to.sync_all()?;
    fs::rename(unfinished, finished)?;
    fs::remove_file(path)
}

/// The settings are refused before it comes to this.
#[cfg(not(feature = "zstd"))]
pub(super) fn compress(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg_attr(not(feature = "zstd"), expect(dead_code, reason = "nothing is compressed"))]
fn with(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}
