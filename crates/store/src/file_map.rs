//! A segment file that is mapped into memory.

use std::fs::{self, File};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::MetadataExt as _;

use crate::disk::{Map, Syncer};
use crate::map::{Mapped, Pages};

/// The smallest page size of all supported processors, in bytes. Touching memory more often than
/// once a page is harmless.
const PAGE: usize = 4096;

/// A whole mapped file, shared with the page cache of the operating system. Written bytes survive
/// the end of the process.
#[derive(Debug)]
pub struct FileMap {
    mapped: Mapped,
    id: FileId,
}

impl FileMap {
    /// Maps `file`, which must be open for reading and writing.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Ok(Self { mapped: Mapped::file(file)?, id: FileId::of(&file.metadata()?) })
    }

    pub(crate) const fn id(&self) -> FileId {
        self.id
    }

    /// Makes every page from `start` on present and writable, so that later writes do not fault.
    pub(crate) fn touch(&mut self, start: usize) {
        if self.mapped.pages().touch(start, self.len()) {
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
        self.mapped.publish(at, len);
    }

    /// Does nothing, because written bytes are part of the file at once.
    fn settle(&mut self) {}

    fn syncer(&self) -> FileSyncer {
        FileSyncer(self.mapped.pages())
    }
}

/// Syncs a segment file while it is being written. Bytes written during the sync may or may not
/// reach the device. The file stays mapped until this syncer is dropped too.
#[derive(Debug)]
pub struct FileSyncer(Pages);

impl Syncer for FileSyncer {
    fn sync(&self, start: usize, end: usize) -> io::Result<()> {
        self.0.sync(start, end)
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

/// The identity of a file, whatever its name: device and inode.
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
