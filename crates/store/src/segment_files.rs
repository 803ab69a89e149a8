//! Identifies the segment in each file of a store by the file's header. File names may have been
//! exchanged, and files of other stores may be present.
//!
//! **Invariant:** nothing is written, and only the header of each file is read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use crate::compress;
use crate::error::{Damage, StoreError};
use crate::files::Files;
use crate::header::{HEADER, Owner, SegmentHeader};
use crate::newest::{self, LOCK, Newest};
use crate::segment::{self, io_error};

/// The files of a store, in the order of their segments.
#[derive(Debug)]
pub(crate) struct SegmentFiles {
    /// For each segment, the number in the name of its file.
    pub(crate) files: BTreeMap<u64, u64>,
    /// Files that contain no segment of this store.
    pub(crate) strays: BTreeMap<u64, Stray>,
    heads: BTreeMap<u64, Result<SegmentHeader, Damage>>,
    /// The note in the lock file; `None` if it is missing or belongs to another store.
    pub(crate) noted: Option<Newest>,
    /// True if the note in the lock file belongs to another store.
    pub(crate) has_stray_note: bool,
    /// The random number of the store; `None` if no file contains it.
    pub(crate) store: Option<u64>,
    /// The session to which the store belongs.
    pub(crate) owner: Owner,
}

/// A file that does not belong to the store: the reason, and the description of its content.
#[derive(Debug)]
pub(crate) struct Stray {
    pub(crate) reason: Damage,
    pub(crate) seen: String,
}

impl SegmentFiles {
    /// Reads the headers of the store in `dir`.
    ///
    /// # Errors
    /// [`StoreError::Io`], and [`StoreError::Damaged`] if a newer version of the format wrote a
    /// file.
    pub(crate) fn of(dir: &Path) -> Result<Self, StoreError> {
        // The note must be read first, because a writer may continue meanwhile.
        let noted = newest::peek(dir);
        let mut heads = BTreeMap::new();
        for number in segment::list(&Files, dir)? {
            heads.insert(number, head(&segment::path(dir, number))?);
        }
        let store = most_frequent(heads.values().flatten().filter_map(SegmentHeader::store))
            .or_else(|| noted?.store);
        let has_stray_note =
            noted.is_some_and(|noted| noted.store.is_some_and(|id| Some(id) != store));
        let noted = noted.filter(|_| !has_stray_note);
        let (files, strays) = (BTreeMap::new(), BTreeMap::new());
        let owner = Owner::NOBODY;
        let mut segment_files = Self { files, strays, heads, noted, has_stray_note, store, owner };
        segment_files.sort_out();
        let last =
            segment_files.files.keys().rev().find_map(|&number| segment_files.header(number));
        segment_files.owner = last.map_or(Owner::NOBODY, SegmentHeader::owner);
        Ok(segment_files)
    }

    /// Assigns each file to a segment. Files whose name and header agree come first, then files
    /// whose header names another segment, then files without a valid header.
    fn sort_out(&mut self) {
        let heads = std::mem::take(&mut self.heads);
        let mut later = Vec::new();
        for (&file, head) in &heads {
            match head {
                Ok(head) if self.is_other_store(head) => {
                    self.strays.insert(file, stray_store(head, self.store));
                }
                Ok(head) if head.number == file => _ = self.files.insert(file, file),
                _ => later.push(file),
            }
        }
        let (named, mute): (Vec<_>, Vec<_>) = later.into_iter().partition(|n| heads[n].is_ok());
        let mut free: Vec<u64> = Vec::new();
        for file in named {
            let number = heads[&file].map_or(file, |head| head.number);
            if let Entry::Vacant(place) = self.files.entry(number) {
                place.insert(file);
                free.push(file);
            } else {
                let seen = format!("the file is a copy of segment {number}");
                self.strays.insert(file, Stray { reason: Damage::Name, seen });
            }
        }
        for file in mute {
            // A file without a valid header gets the number in its own name, or else the number of
            // a file that has taken its place.
            let place = std::iter::once(file).chain(free.iter().copied());
            let place = place.into_iter().find(|number| !self.files.contains_key(number));
            self.files.insert(place.unwrap_or(file), file);
        }
        self.heads = heads;
        self.drop_replaced();
    }

    fn is_other_store(&self, head: &SegmentHeader) -> bool {
        head.store().is_some_and(|store| Some(store) != self.store)
    }

    /// Removes segments that differ from the mark in the next segment or in the note.
    fn drop_replaced(&mut self) {
        let numbers: Vec<u64> = self.files.keys().copied().collect();
        for number in numbers {
            let file = self.files[&number];
            let Some(head) = self.header(number) else { continue };
            let (own, is_keyless) = (head.mark(), head.is_keyless());
            if self.mark(number).is_none_or(|mark| mark == own) {
                continue;
            }
            let seen = match is_keyless {
                true => "the segment belongs to a store of an older version",
                false => {
                    "the segment belongs to another copy of this store, which continued \
                          differently"
                }
            };
            self.files.remove(&number);
            self.strays.insert(file, Stray { reason: Damage::Store, seen: seen.to_owned() });
        }
    }

    /// Returns the header of a segment, if it exists and is valid.
    pub(crate) fn header(&self, number: u64) -> Option<&SegmentHeader> {
        self.heads[self.files.get(&number)?].as_ref().ok()
    }

    /// Returns the mark that identifies a segment, from the next segment or from the note.
    pub(crate) fn mark(&self, number: u64) -> Option<u64> {
        let noted = self.noted.filter(|noted| noted.number == number);
        let behind = || self.header(number + 1)?.identity.ok().map(|identity| identity.before);
        noted.and_then(|noted| noted.mark).or_else(behind)
    }

    /// Returns the path of the lock file.
    pub(crate) fn note_path(dir: &Path) -> PathBuf {
        dir.join(LOCK)
    }
}

/// Returns the header of the file, or the damage if the header is invalid.
fn head(path: &Path) -> Result<Result<SegmentHeader, Damage>, StoreError> {
    let head = compress::read_head(path, HEADER).map_err(|source| io_error(path, source))?;
    match SegmentHeader::decode(&head) {
        Err(Damage::Version) => {
            let (path, reason) = (path.to_path_buf(), Damage::Version);
            Err(StoreError::Damaged { path, offset: 8, reason })
        }
        head => Ok(head),
    }
}

fn stray_store(head: &SegmentHeader, store: Option<u64>) -> Stray {
    let owner = head.owner();
    let seen = match owner.is_nobody() || store.is_none() {
        true => "of another store".to_owned(),
        false => format!("the segment belongs to a store of the session {}", owner.name()),
    };
    Stray { reason: Damage::Store, seen }
}

/// Returns the random number that occurs most often; if several do, the last of them.
fn most_frequent(stores: impl Iterator<Item = u64>) -> Option<u64> {
    let mut counts: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    for (place, store) in stores.enumerate() {
        let count = counts.entry(store).or_default();
        *count = (count.0 + 1, place);
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(store, _)| store)
}
