//! Segment files: their names, and making one off the path of messages.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use crate::error::StoreError;
use crate::map::Map;

/// The file name of the segment with this number.
pub(crate) fn name(number: u64) -> String {
    format!("{number:08}.seg")
}

/// The segment with this number.
pub(crate) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(name(number))
}

/// The same segment while it is made; it counts only under its final name.
pub(crate) fn path_new(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}.new"))
}

/// The numbers of all segments in `dir`, ascending.
pub(crate) fn list(dir: &Path) -> Result<Vec<u64>, StoreError> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).map_err(|source| io_error(dir, source))? {
        let name = entry.map_err(|source| io_error(dir, source))?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".seg"));
        // Only the name which `path` gives; "1.seg" is somebody else's.
        if let Some(number) = number.and_then(|number| number.parse::<u32>().ok())
            && name == *self::name(number.into())
        {
            numbers.push(number.into());
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

pub(crate) fn io_error(path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { path: path.to_path_buf(), source }
}

pub(crate) fn open_writable(path: &Path) -> Result<File, StoreError> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.map_err(|source| io_error(path, source))
}

/// Writes zeros into `file` from `start` up to `end`. A write claims the blocks, so that a full
/// disk is an error here and not a signal later.
pub(crate) fn write_zeros(file: &mut File, start: u64, end: u64) -> io::Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    file.seek(SeekFrom::Start(start))?;
    let mut left = end.saturating_sub(start);
    while left > 0 {
        let chunk = left.min(ZEROS.len() as u64);
        file.write_all(&ZEROS[..chunk as usize])?;
        left -= chunk;
    }
    Ok(())
}

/// Makes a file of `bytes` zeros under the temporary name; on the device if `durable`.
pub(crate) fn make(path: &Path, bytes: usize, durable: bool) -> io::Result<Map> {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).write(true).create(true).truncate(true).open(path)?;
    write_zeros(&mut file, 0, bytes as u64)?;
    if durable {
        file.sync_all()?;
    }
    let mut map = Map::of(&file)?;
    map.touch(0);
    Ok(map)
}

/// A segment that another thread is making.
#[derive(Debug)]
pub(crate) struct Preparation {
    thread: Option<JoinHandle<io::Result<Map>>>,
    path: PathBuf,
}

impl Preparation {
    pub(crate) fn start(path: PathBuf, bytes: usize, durable: bool) -> Self {
        let name = "store-segment".to_owned();
        let target = path.clone();
        let thread = thread::Builder::new().name(name);
        // Without a thread the segment is made when it is needed.
        let thread = thread.spawn(move || make(&target, bytes, durable)).ok();
        Self { thread, path }
    }

    /// The segment, unless it could not be made; waits for it if it is still being made.
    pub(crate) fn finish(&mut self) -> Option<Map> {
        self.thread.take()?.join().ok()?.ok()
    }
}

impl Drop for Preparation {
    /// A thread that outlived the lock could destroy another store's file.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
            // What is left behind is removed when the store is opened.
            drop(fs::remove_file(&self.path));
        }
    }
}
