//! Memory-mapped bytes, and the checksum of bytes: the only unsafe code of the store.
//!
//! **Invariant:** a file keeps its length while it is mapped. The store's lock ensures this for
//! stores. If another program truncates the file, this process ends with SIGBUS.

mod crc;

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

#[cfg(target_os = "linux")]
use memmap2::Advice;
use memmap2::{MmapMut, MmapRaw};

pub(crate) use crc::crc_of;

/// Bytes that the operating system has mapped into memory.
#[derive(Debug)]
pub(crate) struct Mapped {
    /// The first byte of `map`, whose address never changes.
    start: *mut u8,
    len: usize,
    map: Arc<MmapRaw>,
}

// SAFETY: `Mapped` owns the bytes, as a `Box<[u8]>` does. No other code reads or writes the bytes
// through `map`. Other threads use `map` only to sync the bytes, make their pages present and end
// the mapping.
unsafe impl Send for Mapped {}
// SAFETY: `Mapped` owns the bytes, as a `Box<[u8]>` does, and a shared borrow only reads them.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps `file`, which must be open for reading and writing.
    pub(crate) fn file(file: &File) -> io::Result<Self> {
        Ok(Self::of(MmapRaw::map_raw(file).map_err(no_mapping)?))
    }

    /// Returns `bytes` zero bytes, which take no physical memory until they are used.
    ///
    /// # Panics
    /// If the system has no memory.
    pub(crate) fn memory(bytes: usize) -> Self {
        let map = MmapMut::map_anon(bytes).map_err(no_mapping);
        Self::of(map.unwrap_or_else(|error| panic!("{bytes} bytes of memory: {error}")).into())
    }

    fn of(map: MmapRaw) -> Self {
        Self { start: map.as_mut_ptr(), len: map.len(), map: Arc::new(map) }
    }

    /// Returns a handle with which any thread can work on the pages of these bytes.
    pub(crate) fn pages(&self) -> Pages {
        Pages(Arc::clone(&self.map))
    }

    /// Writes a length word, which makes all bytes written so far valid.
    pub(crate) fn publish(&mut self, at: usize, len: u32) {
        let word: &mut [u8; 4] = self[at..].first_chunk_mut().expect("room for a record");
        let word = word.as_mut_ptr().cast::<u32>();
        assert!(word.is_aligned(), "records are aligned");
        // SAFETY: the exclusive borrow of the map covers these four bytes, which are aligned as
        // asserted.
        unsafe { AtomicU32::from_ptr(word) }.store(len.to_le(), Ordering::Release);
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `map` keeps these bytes mapped, and only `deref_mut` borrows them for writing.
        // Nobody truncates the file (see the beginning of this source file), and other processes
        // only read it.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }
}

impl DerefMut for Mapped {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `map` keeps these bytes mapped, and the borrow of this value is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// The pages of mapped bytes, which other code may write at the same time. The bytes stay mapped
/// until this handle is dropped too.
#[derive(Debug)]
pub(crate) struct Pages(Arc<MmapRaw>);

/// A weak handle to the pages of mapped bytes, which does not keep the bytes mapped.
#[derive(Clone, Debug)]
pub(crate) struct PagesIfMapped(Weak<MmapRaw>);

impl PagesIfMapped {
    /// Returns the pages; `None` if they are no longer mapped.
    pub(crate) fn get(&self) -> Option<Pages> {
        self.0.upgrade().map(Pages)
    }
}

impl Pages {
    /// Returns a weak handle, for work after which the bytes need not be mapped any longer.
    pub(crate) fn if_mapped(&self) -> PagesIfMapped {
        PagesIfMapped(Arc::downgrade(&self.0))
    }

    /// Makes the pages of this range present and writable, in a fifth of the time that a page fault
    /// for each would take. Returns false if the operating system does not support this; Linux
    /// before 5.14 and other systems then make each page present on first use.
    pub(crate) fn touch(&self, start: usize, end: usize) -> bool {
        #[cfg(target_os = "linux")]
        return self.0.advise_range(Advice::PopulateWrite, start, end - start).is_ok();
        #[cfg(not(target_os = "linux"))]
        {
            _ = (start, end);
            false
        }
    }

    /// Syncs this range of a file: on return, the bytes written to it are on the device.
    pub(crate) fn sync(&self, start: usize, end: usize) -> io::Result<()> {
        self.0.flush_range(start, end - start)
    }
}

/// Returns an error that names both limits that the operating system's error code may mean.
pub(crate) fn no_mapping(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::OutOfMemory {
        return error;
    }
    let text = "no memory, or no further memory mapping; vm.max_map_count limits the mappings of \
                a process";
    io::Error::new(io::ErrorKind::OutOfMemory, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_the_system_does_not_name_is_named() {
        // Error 12 is ENOMEM; 13 is an unrelated error.
        let told = |number| no_mapping(io::Error::from_raw_os_error(number)).to_string();
        assert!(told(12).contains("vm.max_map_count"), "{}", told(12));
        assert!(told(13).contains("os error 13"), "{}", told(13));
    }
}
