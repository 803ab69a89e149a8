//! Opens message files, compressed or not.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Known compressed formats: the first bytes of a file, the name of the format, and the command
/// that decompresses the file.
const COMPRESSED: &[(&[u8], &str, &str)] = &[
    (b"\x1f\x8b", "gzip", "zcat"),
    (b"\xfd7zXZ\0", "xz", "xzcat"),
    (b"BZh", "bzip2", "bzcat"),
    (b"PK\x03\x04", "zip", "unzip -p"),
];

/// The first bytes of a zstd file.
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// Opens a file for reading. A zstd file is decompressed; other compressed formats are refused with
/// the command to use.
///
/// # Errors
/// If the file cannot be opened, or has another compression.
pub fn open(path: &Path) -> Result<Box<dyn Read>, String> {
    let unreadable = |error: io::Error| format!("{}: {error}", path.display());
    let mut file = File::open(path).map_err(unreadable)?;
    // A pipe is not checked for compression, because it cannot be rewound after its first bytes are
    // read.
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Ok(Box::new(file));
    }
    let mut start = Vec::new();
    file.by_ref().take(8).read_to_end(&mut start).map_err(unreadable)?;
    file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    if let Some((_, by, reader)) = COMPRESSED.iter().find(|(magic, ..)| start.starts_with(magic)) {
        let path = path.display();
        return Err(format!(
            "{path}: compressed with {by}; write `{reader} {path} |` before the command, and `-` \
             in place of the file"
        ));
    }
    match start.starts_with(ZSTD) {
        true => decompressed(file, path),
        false => Ok(Box::new(file)),
    }
}

#[cfg(feature = "zstd")]
fn decompressed(file: File, path: &Path) -> Result<Box<dyn Read>, String> {
    let decoder = zstd::stream::read::Decoder::new(file);
    let decoder = decoder.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Box::new(decoder))
}

#[cfg(not(feature = "zstd"))]
fn decompressed(_: File, path: &Path) -> Result<Box<dyn Read>, String> {
    let path = path.display();
    Err(format!(
        "{path}: compressed with zstd, which this build cannot read; write `zstdcat {path} |` \
         before the command, and `-` in place of the file"
    ))
}
