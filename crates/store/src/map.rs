//! A segment file in memory, the memory of a store without files, and the checksum of what lies
//! there: the only unsafe code of the store.
//!
//! **Invariant:** the file keeps its length while it is mapped. The store's lock sees to that among
//! stores; anything else that truncates the file ends this process with SIGBUS.

mod crc;

use std::fs::{self, File};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::MetadataExt as _;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(target_os = "linux")]
use memmap2::Advice;
use memmap2::{MmapMut, MmapRaw};

use crate::disk::{Map, Syncer};

pub(crate) use crc::crc_of;

/// Smallest page of the machines we run on; touching more often than needed does no harm.
const PAGE: usize = 4096;

/// Bytes that the system has mapped.
#[derive(Debug)]
pub(crate) struct Mapped {
    /// The bytes of `map`, which stay where they are.
    start: *mut u8,
    len: usize,
    map: Arc<MmapRaw>,
}

// SAFETY: it owns the bytes, as a `Box<[u8]>` does: nobody else reads or writes them by way of
// `map`, which only syncs them, makes their pages present and ends the mapping, from any thread.
unsafe impl Send for Mapped {}
// SAFETY: as above; through a shared borrow the bytes are only read.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Memory of so many bytes, all zero, which takes none of the machine's before it is used.
    ///
    /// # Panics
    /// If the system has none.
    pub(crate) fn memory(bytes: usize) -> Self {
        let map = MmapMut::map_anon(bytes).map_err(no_mapping);
        Self::of(map.unwrap_or_else(|error| panic!("{bytes} bytes of memory: {error}")).into())
    }

    fn of(map: MmapRaw) -> Self {
        Self { start: map.as_mut_ptr(), len: map.len(), map: Arc::new(map) }
    }

    /// What makes pages present, in any thread.
    pub(crate) fn toucher(&self) -> Toucher {
        Toucher(Arc::clone(&self.map))
    }
}

/// Makes pages present while somebody else may write them. The bytes stay mapped until this is gone
/// too.
#[derive(Debug)]
pub(crate) struct Toucher(Arc<MmapRaw>);

impl Toucher {
    /// Makes the pages of this range present and writable, which takes a fifth of the time of a
    /// fault for each. Returns false if the system cannot: kernels before 5.14 and other systems
    /// make each page when it is used.
    pub(crate) fn touch(&self, start: usize, end: usize) -> bool {
        #[cfg(target_os = "linux")]
        return self.0.advise_range(Advice::PopulateWrite, start, end - start).is_ok();
        #[cfg(not(target_os = "linux"))]
        return false;
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `map` keeps these bytes mapped, and only `deref_mut` borrows them to write;
        // nobody truncates the file (see the head of this file), and other processes only read it.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }
}

impl DerefMut for Mapped {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the borrow of this value is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// A whole file, shared with the page cache: what is written survives the process.
#[derive(Debug)]
pub struct FileMap {
    mapped: Mapped,
    id: FileId,
}

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
        let mapped = Mapped::of(MmapRaw::map_raw(file).map_err(no_mapping)?);
        Ok(Self { mapped, id: FileId::of(&file.metadata()?) })
    }

    pub(crate) const fn id(&self) -> FileId {
        self.id
    }

    /// Makes every page from `start` on present and writable, so that later writes don't fault.
    pub(crate) fn touch(&mut self, start: usize) {
        if self.mapped.toucher().touch(start, self.len()) {
            return;
        }
        for at in (start..self.len()).step_by(PAGE) {
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
        FileSyncer(Arc::clone(&self.mapped.map))
    }
}

/// Syncs a segment file while it is being written: what is written meanwhile may reach the device
/// with it, or not. The bytes stay mapped until this is gone too.
#[derive(Debug)]
pub struct FileSyncer(Arc<MmapRaw>);

impl Syncer for FileSyncer {
    fn sync(&self, start: usize, end: usize) -> io::Result<()> {
        self.0.flush_range(start, end - start)
    }
}

impl Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.mapped
    }
}

impl DerefMut for FileMap {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.mapped
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
