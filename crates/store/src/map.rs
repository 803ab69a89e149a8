//! Mapped memory, and the checksum of its bytes: the only unsafe code of the store.
//!
//! **Invariant:** a file keeps its length while it is mapped. The store's lock ensures this among
//! stores. If anything else truncates the file, this process ends with SIGBUS.

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

/// Bytes that the system has mapped.
#[derive(Debug)]
pub(crate) struct Mapped {
    /// The bytes of `map`, whose address is fixed.
    start: *mut u8,
    len: usize,
    map: Arc<MmapRaw>,
}

// SAFETY: `Mapped` owns the bytes, as a `Box<[u8]>` does. No other code reads or writes the bytes
// through `map`. Other threads use `map` only to sync the bytes, make their pages present and end
// the mapping.
unsafe impl Send for Mapped {}
// SAFETY: as above; a shared borrow only reads the bytes.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps `file`, which must be open for reading and writing.
    pub(crate) fn file(file: &File) -> io::Result<Self> {
        Ok(Self::of(MmapRaw::map_raw(file).map_err(no_mapping)?))
    }

    /// Returns `bytes` zero bytes, which take no physical memory before they are used.
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

    /// Returns a handle that works on the pages from any thread.
    pub(crate) fn pages(&self) -> Pages {
        Pages(Arc::clone(&self.map))
    }

    /// Writes a length word, which makes all bytes written so far valid.
    pub(crate) fn publish(&mut self, at: usize, len: u32) {
        let word: &mut [u8; 4] = self[at..].first_chunk_mut().expect("room for a record");
        let word = word.as_mut_ptr().cast::<u32>();
        assert!(word.is_aligned(), "records are aligned");
        // SAFETY: four bytes which this exclusive borrow of the map covers, aligned as asserted.
        unsafe { AtomicU32::from_ptr(word) }.store(len.to_le(), Ordering::Release);
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `map` keeps these bytes mapped, and only `deref_mut` borrows them to write.
        // Nobody truncates the file (see the head of this file), and other processes only read it.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }
}

impl DerefMut for Mapped {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the borrow of this value is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start, self.len) }
    }
}

/// The pages of mapped bytes, which other code may write meanwhile. The bytes stay mapped until
/// this handle is dropped too.
#[derive(Debug)]
pub(crate) struct Pages(Arc<MmapRaw>);

/// A weak handle of the pages, which does not keep the bytes mapped.
#[derive(Clone, Debug)]
pub(crate) struct PagesIfMapped(Weak<MmapRaw>);

impl PagesIfMapped {
    /// Returns the pages, unless they are unmapped.
    pub(crate) fn get(&self) -> Option<Pages> {
        self.0.upgrade().map(Pages)
    }
}

impl Pages {
    /// Returns a weak handle, for work that need not keep the bytes mapped.
    pub(crate) fn if_mapped(&self) -> PagesIfMapped {
        PagesIfMapped(Arc::downgrade(&self.0))
    }

    /// Makes the pages of this range present and writable, in a fifth of the time of one fault for
    /// each. Returns false if the system cannot. Kernels before 5.14 and other systems make each
    /// page on first use.
    pub(crate) fn touch(&self, start: usize, end: usize) -> bool {
        #[cfg(target_os = "linux")]
        return self.0.advise_range(Advice::PopulateWrite, start, end - start).is_ok();
        #[cfg(not(target_os = "linux"))]
        {
            _ = (start, end);
            false
        }
    }

    /// Returns once the bytes written to this range of a file are on the device.
    pub(crate) fn sync(&self, start: usize, end: usize) -> io::Result<()> {
        self.0.flush_range(start, end - start)
    }
}

/// Names both limits that the system's one error code may mean.
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
        // 12 is ENOMEM; 13 is another error.
        let told = |number| no_mapping(io::Error::from_raw_os_error(number)).to_string();
        assert!(told(12).contains("vm.max_map_count"), "{}", told(12));
        assert!(told(13).contains("os error 13"), "{}", told(13));
    }
}
