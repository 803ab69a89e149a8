//! Reads a store as a journal: every record in the order in which it was put, including the records
//! before a reset. Another process may be writing the store at the same time.
//!
//! To read messages by number, time or direction, filter the entries:
//!
//! ```
//! use transfix_store::journal::{self, Direction};
//! # use transfix_store::{FileStore, Kind, Options, Record, Store};
//! # let dir = std::env::temp_dir().join(format!("transfix-journal-{}", std::process::id()));
//! # let (mut store, _) = FileStore::open(&dir, Options::default(), 0)?;
//! # for seq in 1..=3 {
//! #     let bytes = b"8=FIX.4.4...";
//! #     store.put(seq * 10, Record::Outbound { seq, kind: Kind::Application, bytes })?;
//! #     store.commit()?;
//! # }
//!
//! let (from_ns, to_ns) = (15, 30);
//! let mut sent = Vec::new();
//! for entry in journal::read(&dir)? {
//!     let entry = entry?;
//!     if let Some((Direction::Outbound, message)) = entry.message()
//!         && (from_ns..=to_ns).contains(&entry.time_ns)
//!     {
//!         sent.push(message.seq);
//!     }
//! }
//! assert_eq!(sent, [2, 3]);
//! # drop(store);
//! # std::fs::remove_dir_all(&dir).ok();
//! # Ok::<(), transfix_store::StoreError>(())
//! ```
//!
//! **Invariant:** reading a journal writes, locks and maps no file.

use std::path::{Path, PathBuf};

use crate::compress;
use crate::error::{Damage, StoreError};
use crate::files::Files;
use crate::format::{self, Seal};
use crate::header::SegmentHeader;
use crate::newest;
use crate::record::{Kind, Record};
use crate::search::{Tail, tail};
use crate::segment::{self, io_error};

/// A record of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the segment file.
    pub segment: u64,
    /// Offset of the record from the beginning of that file, in bytes.
    pub offset: u64,
    /// The time at which the record was put, in UTC nanoseconds since 1970.
    pub time_ns: u64,
    /// The record that was put.
    pub event: Event,
}

/// The direction of a message: sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
}

impl Entry {
    /// Returns the message, if this entry records a sent or received message.
    #[must_use]
    pub const fn message(&self) -> Option<(Direction, &Message)> {
        match &self.event {
            Event::Inbound(message) => Some((Direction::Inbound, message)),
            Event::Outbound(message) => Some((Direction::Outbound, message)),
            _ => None,
        }
    }
}

/// The record that was put; see [`Record`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message sent.
    Outbound(Message),
    /// A message received.
    Inbound(Message),
    /// The next inbound number was set to this value.
    NextIn(u64),
    /// The next outbound number was set to this value.
    NextOut(u64),
    /// The session was reset.
    Reset,
    /// An event of the session, as text.
    Note(String),
    /// A message was queued to wait until it can be sent.
    Queued {
        /// The ticket of the message in the queue.
        ticket: u64,
        /// The bytes of the message, without the fields that are set when it is sent.
        bytes: Vec<u8>,
    },
    /// The queued messages up to and including this ticket were sent or discarded.
    Unqueued(u64),
}

/// A sent or received message in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// MsgSeqNum(34).
    pub seq: u64,
    /// Its layer.
    pub kind: Kind,
    /// The whole message.
    pub bytes: Vec<u8>,
}

impl Event {
    fn of(record: &Record<'_>) -> Self {
        let message = |seq, kind, bytes: &[u8]| Message { seq, kind, bytes: bytes.to_vec() };
        match *record {
            Record::Outbound { seq, kind, bytes } => Self::Outbound(message(seq, kind, bytes)),
            Record::Inbound { seq, kind, bytes } => Self::Inbound(message(seq, kind, bytes)),
            Record::NextIn(seq) => Self::NextIn(seq),
            Record::NextOut(seq) => Self::NextOut(seq),
            Record::Reset => Self::Reset,
            Record::Note(text) => Self::Note(text.to_owned()),
            Record::Queued { ticket, bytes } => Self::Queued { ticket, bytes: bytes.to_vec() },
            Record::Unqueued(ticket) => Self::Unqueued(ticket),
        }
    }
}

/// Reads the store in `dir` from its first segment to its last valid batch. An unfinished batch at
/// the end is skipped. The reader holds one segment in memory.
///
/// # Errors
/// [`StoreError::Io`] if the directory or the first segment cannot be read, and
/// [`StoreError::Damaged`] if the segment's header is invalid. A later error is the last item.
pub fn read(
    dir: &Path,
) -> Result<impl Iterator<Item = Result<Entry, StoreError>> + use<>, StoreError> {
    let reader = match segment::list(&Files, dir)?.first() {
        Some(&number) => Some(Reader::open(segment::path(dir, number), Follow::Segments)?),
        None => None,
    };
    Ok(reader.into_iter().flatten())
}

/// Returns the paths of the segment files of the store in `dir`, oldest first. To read only the
/// newest segments, pass their paths to [`read_file`]. The retention may remove the oldest files
/// meanwhile.
///
/// # Errors
/// [`StoreError::Io`] if the directory can't be read.
pub fn segments(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let numbers = segment::list(&Files, dir)?;
    Ok(numbers.into_iter().map(|number| segment::path(dir, number)).collect())
}

/// Reads one segment file, whatever its name. A file whose name ends in `.zst` is decompressed.
///
/// # Errors
/// As [`read`].
pub fn read_file(
    path: &Path,
) -> Result<impl Iterator<Item = Result<Entry, StoreError>> + use<>, StoreError> {
    Reader::open(path.to_path_buf(), Follow::Nothing)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follow {
    Segments,
    Nothing,
}

/// The kinds of content that can follow the last batch read.
enum Next {
    Batch,
    Segment,
    Nothing,
}

struct Reader {
    path: PathBuf,
    number: u64,
    header: SegmentHeader,
    seal: Seal,
    follow: Follow,
    file: Vec<u8>,
    offset: usize,
    batch_end: usize,
    ended: bool,
    /// The next inbound number that was stored with the last record, to be returned as the next
    /// entry.
    behind: Option<Entry>,
}

impl Reader {
    fn open(path: PathBuf, follow: Follow) -> Result<Self, StoreError> {
        let file = compress::read(&path).map_err(|source| io_error(&path, source))?;
        let header = SegmentHeader::decode(&file);
        let header = header.map_err(|reason| damaged(&path, 0, reason))?;
        let number = header.number;
        if follow == Follow::Segments
            && path.file_name() != segment::path(&path, number).file_name()
        {
            return Err(damaged(&path, 0, Damage::Name));
        }
        let (offset, batch_end) = (header.first(), header.first());
        let (seal, ended, behind) = (header.seal(), false, None);
        Ok(Self { path, number, header, seal, follow, file, offset, batch_end, ended, behind })
    }

    fn find_batch(&mut self) -> bool {
        let end = format::batch_end(&self.file, self.offset, self.seal);
        self.batch_end = end.unwrap_or(self.offset);
        end.is_some()
    }

    /// Advances to the next batch or segment, or to the end.
    fn advance(&mut self) -> Result<Next, StoreError> {
        if self.find_batch() {
            return Ok(Next::Batch);
        }
        let dir = self.path.parent().unwrap_or(Path::new(""));
        let next = segment::path(dir, self.number + 1);
        let follows = self.follow == Follow::Segments && segment::exists(&next);
        // The writer may have continued since the file was read. Only a file that is read again
        // after the search for the next segment is known to be complete.
        self.file = compress::read(&self.path).map_err(|source| io_error(&self.path, source))?;
        if self.find_batch() {
            return Ok(Next::Batch);
        }
        if SegmentHeader::decode(&self.file).is_ok_and(|header| header.is_short(self.file.len())) {
            return Err(damaged(&self.path, self.file.len(), Damage::Short));
        }
        match tail(&self.file, self.offset, self.seal) {
            Tail::Clean if follows => {
                let next = Self::open(next, self.follow)?;
                let follows = next.header.check_follows(&self.header);
                follows.map_err(|reason| damaged(&next.path, 0, reason))?;
                *self = next;
                Ok(Next::Segment)
            }
            Tail::Clean => self.check_last(),
            Tail::Torn { .. } if !follows => self.check_last(),
            Tail::Torn { .. } | Tail::Damaged => {
                Err(damaged(&self.path, self.offset, Damage::Record))
            }
        }
    }

    /// Returns an error if a later segment exists or existed, because the next segment is then
    /// lost.
    fn check_last(&self) -> Result<Next, StoreError> {
        let dir = self.path.parent().unwrap_or(Path::new(""));
        let next = segment::path(dir, self.number + 1);
        if self.follow == Follow::Nothing {
            return Ok(Next::Nothing);
        }
        // The number of the newest segment must be read first, because the writer may continue
        // meanwhile.
        let noted = newest::peek(dir).map(|newest| newest.number);
        let newest = noted.max(segment::list(&Files, dir)?.last().copied());
        if newest.is_some_and(|newest| newest > self.number) && !segment::exists(&next) {
            return Err(damaged(&next, 0, Damage::Missing));
        }
        Ok(Next::Nothing)
    }
}

fn damaged(path: &Path, offset: usize, reason: Damage) -> StoreError {
    StoreError::Damaged { path: path.to_path_buf(), offset: offset as u64, reason }
}

impl Iterator for Reader {
    type Item = Result<Entry, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(behind) = self.behind.take() {
            return Some(Ok(behind));
        }
        while !self.ended {
            if let Some(framed) = self.file.get(self.offset..self.batch_end)
                && let Some(framed) = format::read_record(framed)
            {
                let (segment, time_ns, event) =
                    (self.number, framed.time_ns, Event::of(&framed.record));
                let entry = Entry { segment, offset: self.offset as u64, time_ns, event };
                self.offset += framed.size;
                self.behind = framed.next_in.map(|next_in| {
                    let offset = (self.offset - format::NEXT_IN_SIZE) as u64;
                    Entry { segment, offset, time_ns, event: Event::NextIn(next_in) }
                });
                return Some(Ok(entry));
            }
            match self.advance() {
                Ok(Next::Batch | Next::Segment) => {}
                Ok(Next::Nothing) => self.ended = true,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
