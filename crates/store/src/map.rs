//! A segment file in memory: the only unsafe code of the store.
//!
//! **Invariant:** the file keeps its length while it is mapped. The store's lock sees to that among
//! stores; anything else that truncates the file ends this process with SIGBUS.

use std::fs::{self, File};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::MetadataExt as _;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(target_os = "linux")]
use memmap2::Advice;
use memmap2::MmapRaw;

use crate::disk::{Map, Syncer};

/// Smallest page of the machines we run on; touching more often than needed does no harm.
const PAGE: usize = 4096;

/// A whole file, shared with the page cache: what is written survives the process.
#[derive(Debug)]
pub struct FileMap {
    /// The bytes of `file`, which stay where they are.
    start: *mut u8,
    len: usize,
    file: Arc<Mapped>,
}

/// A file that is mapped, and which one.
#[derive(Debug)]
struct Mapped {
    map: MmapRaw,
    id: FileId,
}

// SAFETY: it owns the bytes, as a `Box<[u8]>` does: nobody else reads or writes them by way of
// `file`, which only syncs and ends the mapping, from any thread.
unsafe impl Send for FileMap {}
// SAFETY: as above; through a shared borrow the bytes are only read.
unsafe impl Sync for FileMap {}

/// Says which limit it may be that the system means: it has one word for two.
pub(crate) fn no_mapping(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::OutOfMemory {
        return error;
    }
    let text = "no memory, or no further memory mapping; Linux allows a process as many as \
                vm.max_map_count says";
    io::Error::new(io::ErrorKind::OutOfMemory, text)
}

impl FileMap {
    /// Maps `file`, which must be open for reading and writing.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let map = MmapRaw::map_raw(file).map_err(no_mapping)?;
        let (start, len) = (map.as_mut_ptr(), map.len());
        let id = FileId::of(&file.metadata()?);
        Ok(Self { start, len, file: Arc::new(Mapped { map, id }) })
    }

    pub(crate) fn id(&self) -> FileId {
        self.file.id
    }

    /// Makes every page from `start` on present and writable, so that later writes don't fault.
    pub(crate) fn touch(&mut self, start: usize) {
        // One call for all pages takes a fifth of the time of a fault for each; kernels before 5.14
        // don't know it.
        #[cfg(target_os = "linux")]
        if self.file.map.advise_range(Advice::PopulateWrite, start, self.len - start).is_ok() {
            return;
        }
        for at in (start..self.len).step_by(PAGE) {
            let byte = std::hint::black_box(self[at]);
            self[at] = byte;
        }
    }
}

impl Map for FileMap {
    type Syncer = FileSyncer;

    fn publish(&mut self, at: usize, len: u32) {
        let word: &mut [u8; 4] = self[at..].first_chunk_mut().expect("room for a record");
        let word = word.as_mut_ptr().cast::<u32>();
        assert!(word.is_aligned(), "records are aligned");
        // SAFETY: four bytes which this exclusive borrow of the map covers, aligned as asserted.
        unsafe { AtomicU32::from_ptr(word) }.store(len.to_le(), Ordering::Release);
    }

    /// The map is the file already.
    fn settle(&mut self) {}

    fn syncer(&self) -> FileSyncer {
        FileSyncer(Arc::clone(&self.file))
    }
}

/// Syncs a segment file while it is being written: what is written meanwhile may reach the device
/// with it, or not. The bytes stay mapped until this is gone too.
#[derive(Debug)]
pub struct FileSyncer(Arc<Mapped>);

impl Syncer for FileSyncer {
    fn sync(&self, start: usize, end: usize) -> io::Result<()> {
        self.0.map.flush_range(start, end - start)
    }
}

impl Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `file` keeps these bytes mapped, and only `deref_mut` borrows them to write;
        // nobody truncates the file (see the head of this file), and other processes only read it.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }
}

impl DerefMut for FileMap {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the borrow of this value is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// Which file it is, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(crate) fn of(metadata: &fs::Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_the_system_does_not_name_is_named() {
        // ENOMEM, and another one.
        let told = |number| no_mapping(io::Error::from_raw_os_error(number)).to_string();
        assert!(told(12).contains("vm.max_map_count"), "{}", told(12));
        assert!(told(13).contains("os error 13"), "{}", told(13));
    }
}
