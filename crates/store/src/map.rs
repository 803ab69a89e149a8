//! A segment file in memory: the only unsafe code of the store.
//!
//! **Invariant:** the file keeps its length while it is mapped. The store's lock sees to that among
//! stores; anything else that truncates the file ends this process with SIGBUS.

use std::fs::{self, File};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(target_os = "linux")]
use memmap2::Advice;
use memmap2::MmapMut;

use crate::disk::Map;

/// Smallest page of the machines we run on; touching more often than needed does no harm.
const PAGE: usize = 4096;

/// A whole file, shared with the page cache: what is written survives the process.
#[derive(Debug)]
pub struct FileMap {
    bytes: MmapMut,
    id: FileId,
}

impl FileMap {
    /// Maps `file`, which must be open for reading and writing.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        // SAFETY: nobody truncates the file while it is mapped (see the head of this file), and
        // others only read it.
        let bytes = unsafe { MmapMut::map_mut(file)? };
        Ok(Self { bytes, id: FileId::of(&file.metadata()?) })
    }

    pub(crate) const fn id(&self) -> FileId {
        self.id
    }

    /// Makes every page from `start` on present and writable, so that later writes don't fault.
    pub(crate) fn touch(&mut self, start: usize) {
        // One call for all pages takes a fifth of the time of a fault for each; kernels before 5.14
        // don't know it.
        #[cfg(target_os = "linux")]
        if self.bytes.advise_range(Advice::PopulateWrite, start, self.len() - start).is_ok() {
            return;
        }
        for at in (start..self.bytes.len()).step_by(PAGE) {
            let byte = std::hint::black_box(self.bytes[at]);
            self.bytes[at] = byte;
        }
    }
}

impl Map for FileMap {
    fn publish(&mut self, at: usize, len: u32) {
        let word: &mut [u8; 4] = self.bytes[at..].first_chunk_mut().expect("room for a record");
        let word = word.as_mut_ptr().cast::<u32>();
        assert!(word.is_aligned(), "records are aligned");
        // SAFETY: four bytes which this exclusive borrow of the map covers, aligned as asserted.
        unsafe { AtomicU32::from_ptr(word) }.store(len.to_le(), Ordering::Release);
    }

    /// The map is the file already.
    fn settle(&mut self) {}

    fn sync(&mut self, start: usize, end: usize) -> io::Result<()> {
        self.bytes.flush_range(start, end - start)
    }
}

impl Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for FileMap {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
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
