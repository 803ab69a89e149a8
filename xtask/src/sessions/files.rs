//! The floor for the start time: one thread creates and then reads as many directories and file
//! bytes as the stores have, and does nothing else.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Content of a store's first segment and of its lock file.
const SEGMENT: &[u8] = &[0; 8 << 10];
const LOCK: &[u8] = &[0; 28];

/// Creates and reads the files of `stores` stores below `dir`. Returns the time for creation and
/// the time for reading.
///
/// # Errors
/// Returns the system's error.
pub(super) fn make_and_read(dir: &Path, stores: usize) -> io::Result<[Duration; 2]> {
    let path = |n: usize| dir.join(format!("FIX.4.4-VENUE-C{n}"));
    let begin = Instant::now();
    for dir in (0..stores).map(path) {
        fs::create_dir_all(&dir)?;
        File::create(dir.join("lock"))?.write_all(LOCK)?;
        File::create(dir.join("00000000.new"))?.write_all(SEGMENT)?;
        fs::rename(dir.join("00000000.new"), dir.join("00000000.seg"))?;
    }
    let made = begin.elapsed();
    let begin = Instant::now();
    for dir in (0..stores).map(path) {
        for entry in fs::read_dir(dir)? {
            fs::read(entry?.path())?;
        }
    }
    Ok([made, begin.elapsed()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_as_long_as_those_of_stores() {
        let dir = std::env::temp_dir().join(format!("transfix-bare-{}", std::process::id()));
        make_and_read(&dir, 2).unwrap();
        let len = |n: usize, file: &str| {
            fs::metadata(dir.join(format!("FIX.4.4-VENUE-C{n}")).join(file)).unwrap().len()
        };
        for n in [0, 1] {
            assert_eq!((len(n, "lock"), len(n, "00000000.seg")), (28, 8192));
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
