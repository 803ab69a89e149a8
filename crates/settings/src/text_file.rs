//! Reads files that the settings name.
//!
//! Invariant: memory use is limited, because an endless device or a file that is too long causes an
//! error.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The maximum length of a file: settings, dictionaries, passwords.
const BYTES_MAX: u64 = 64 << 20;

/// Returns the text of a file or pipe.
///
/// # Errors
/// The error of the system; the file is too long, or not UTF-8.
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let bytes = read_bytes(path)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

/// Returns the bytes of a file or pipe.
///
/// # Errors
/// The error of the system, or the file is too long.
pub fn read_bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let (file, mut bytes) = (File::open(path)?, Vec::new());
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        let why = format!(
            "the file is larger than {} MiB; check that the path names the right \
                           file",
            BYTES_MAX >> 20
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(bytes)
}

/// Returns the text of a regular file. A pipe is refused, because opening it could block forever.
///
/// # Errors
/// The path names no regular file, or as [`read`].
pub fn read_plain(path: &Path) -> io::Result<String> {
    let found = std::fs::metadata(path)?;
    if !found.is_file() && !found.is_dir() {
        let why = "the path is not a regular file; copy its content into one";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    read(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_told() {
        let error = read("/dev/zero").unwrap_err().to_string();
        assert_eq!(
            error,
            "the file is larger than 64 MiB; check that the path names the right \
                           file"
        );
        let error = read_plain(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(error, "the path is not a regular file; copy its content into one");
        assert!(read("/nothing/here").is_err() && read("/").is_err());
        assert!(read(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).is_ok());
    }
}
