//! Bytes that the system has mapped, and the checksum of what lies there: the only unsafe code of
//! the store.
//!
//! **Invariant:** a file keeps its length while it is mapped. The store's lock sees to that among
//! stores; anything else that truncates the file ends this process with SIGBUS.

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
    /// The bytes of `map`, which stay where they are.
    start: *mut u8,
    len: usize,
    map: Arc<MmapRaw>,
}

// SAFETY: it owns the bytes, as a `Box<[u8]>` does. Nobody else reads or writes them by way of
// `map`. From any thread, that only syncs them, makes their pages present and ends the mapping.
unsafe impl Send for Mapped {}
// SAFETY: as above; through a shared borrow the bytes are only read.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps `file`, which must be open for reading and writing.
    pub(crate) fn file(file: &File) -> io::Result<Self> {
        Ok(Self::of(MmapRaw::map_raw(file).map_err(no_mapping)?))
    }

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

    /// The part that works on its pages, in any thread.
    pub(crate) fn pages(&self) -> Pages {
        Pages(Arc::clone(&self.map))
    }

    /// Writes a word that makes what is written so far count.
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

/// The pages of mapped bytes, which somebody else may write meanwhile. The bytes stay mapped until
/// this is gone too.
#[derive(Debug)]
pub(crate) struct Pages(Arc<MmapRaw>);

/// The same, which lets the bytes go.
#[derive(Clone, Debug)]
pub(crate) struct PagesIfMapped(Weak<MmapRaw>);

impl PagesIfMapped {
    /// The pages, unless the bytes are gone.
    pub(crate) fn get(&self) -> Option<Pages> {
        self.0.upgrade().map(Pages)
    }
}

impl Pages {
    /// For work that is not worth keeping the bytes for.
    pub(crate) fn if_mapped(&self) -> PagesIfMapped {
        PagesIfMapped(Arc::downgrade(&self.0))
    }

    /// Makes those of this range present and writable, which takes a fifth of the time of a fault
    /// for each. Returns false if the system cannot: kernels before 5.14 and other systems make
    /// each page when it is used.
    pub(crate) fn touch(&self, start: usize, end: usize) -> bool {
        #[cfg(target_os = "linux")]
        return self.0.advise_range(Advice::PopulateWrite, start, end - start).is_ok();
        #[cfg(not(target_os = "linux"))]
        {
            _ = (start, end);
            false
        }
    }

    /// Returns once what was written to this range of a file is on the device.
    pub(crate) fn sync(&self, start: usize, end: usize) -> io::Result<()> {
        self.0.flush_range(start, end - start)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_the_system_does_not_name_is_named() {
        // ENOMEM, and another error.
        let told = |number| no_mapping(io::Error::from_raw_os_error(number)).to_string();
        assert!(told(12).contains("vm.max_map_count"), "{}", told(12));
        assert!(told(13).contains("os error 13"), "{}", told(13));
    }
}
