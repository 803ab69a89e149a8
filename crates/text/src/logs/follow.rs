//! Follows growing logs and stores, including rolled logs and new logs.
//!
//! Invariant: a file is identified by its inode, not by its name. A renamed file is not read twice,
//! and a new file with an old name is read from its beginning.

use std::collections::HashSet;
use std::fs::{self, File, Metadata};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use transfix_store::journal;

use super::search::Search;
use super::sources::{Kind, Source, Sources, natural};
use super::{Reader as _, one};
use crate::input::{self, Delimiter, End, Failure, Stream, is_segment};

/// The number of polls of the open logs between two scans of the directories and stores.
///
/// Scans are rare because each scan reads the last segment of each store again.
const LOOKS_PER_SCAN: u32 = 5;

/// The identity of a file, independent of its name: device, inode and creation time.
type Identity = (u64, u64, Option<SystemTime>);

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino(), metadata.created().ok())
}

/// A log that is being followed, with its open file.
struct Open {
    source: Source,
    file: File,
    identity: Identity,
    stream: Stream,
    /// True if the log's name now belongs to another file.
    is_replaced: bool,
}

/// A store that is being followed, with the position up to which it has been read.
struct Followed {
    source: Source,
    segment: PathBuf,
    offset: Option<u64>,
}

struct Follower<'a> {
    paths: &'a [PathBuf],
    delimiter: Option<Delimiter>,
    open: Vec<Open>,
    stores: Vec<Followed>,
    known: HashSet<Identity>,
}

/// Searches the existing messages first, and then each new message.
///
/// Ends when the search has found enough messages, or when `goes_on` returns false. `goes_on` waits
/// between two polls.
pub(super) fn follow<W: Write>(
    paths: &[PathBuf],
    sources: Vec<Source>,
    delimiter: Option<Delimiter>,
    (search, goes_on): (&mut Search<W>, &mut dyn FnMut() -> bool),
) -> Result<(), Failure> {
    let (open, stores, known) = (Vec::new(), Vec::new(), HashSet::new());
    let mut follower = Follower { paths, delimiter, open, stores, known };
    // The user has named a single file. Other files of the same log count as known, so that they
    // are not shown.
    for source in follower.beside() {
        follower.known.extend(fs::metadata(&source.path).ok().map(|found| identity(&found)));
    }
    for source in sources {
        follower.start(source, search)?;
    }
    if follower.open.is_empty() && follower.stores.is_empty() {
        return Ok(());
    }
    for look in 1_u32.. {
        search.show.names()?;
        search.show.out.flush()?;
        if !goes_on() {
            return Ok(());
        }
        let is_replaced = follower.look(search)?;
        let is_due = look.is_multiple_of(LOOKS_PER_SCAN);
        if is_replaced || is_due {
            follower.look_for_new(search)?;
        }
        if is_due {
            follower.look_at_stores(search)?;
        }
    }
    Ok(())
}

impl Follower<'_> {
    /// Reads the present content of a source. Keeps the file open if the source is a log.
    fn start<W: Write>(&mut self, source: Source, search: &mut Search<W>) -> Result<(), Failure> {
        if source.kind == Kind::Store {
            self.stores.push(Followed { source, segment: PathBuf::new(), offset: None });
            return self.look_at_stores(search);
        }
        let is_closed = source.kind == Kind::Segment
            || source.is_standard_input()
            || source.path.extension().is_some_and(|ending| ending == "zst");
        if is_closed {
            return one(&source, self.delimiter, search);
        }
        let opened = File::open(&source.path).and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, file) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                search.report.failed(&format!("{}: {error}", source.path.display()));
                return Ok(());
            }
        };
        let identity = identity(&metadata);
        self.known.insert(identity);
        let stream = Stream::new(self.delimiter);
        let mut open = Open { source, file, identity, stream, is_replaced: false };
        open.read(End::Open, self.delimiter, search)?;
        self.open.push(open);
        Ok(())
    }

    /// Reads the new bytes of the open logs. Returns true if the name of a log now belongs to
    /// another file.
    fn look<W: Write>(&mut self, search: &mut Search<W>) -> Result<bool, Failure> {
        let mut has_changed = false;
        for open in &mut self.open {
            let named = fs::metadata(&open.source.path).ok();
            let is_gone = named.is_none_or(|named| identity(&named) != open.identity);
            // A log that has lost its name is read once more after the rename, so that no earlier
            // write is missed.
            let end = if open.is_replaced { End::Final } else { End::Open };
            open.read(end, self.delimiter, search)?;
            has_changed |= is_gone;
            open.is_replaced |= is_gone;
        }
        Ok(has_changed)
    }

    /// Opens new logs, and closes logs whose name belongs to another file.
    fn look_for_new<W: Write>(&mut self, search: &mut Search<W>) -> Result<(), Failure> {
        let found = self.found();
        // The file system may reuse the inode of a deleted file, so inodes that no file has any
        // more are forgotten.
        let present: HashSet<Identity> = found.iter().map(|(_, identity)| *identity).collect();
        let open: HashSet<Identity> = self.open.iter().map(|open| open.identity).collect();
        self.known.retain(|known| present.contains(known) || open.contains(known));
        for open in self.open.iter_mut().filter(|open| open.is_replaced) {
            open.read(End::Final, self.delimiter, search)?;
        }
        self.open.retain(|open| !open.is_replaced);
        for (source, identity) in found {
            let is_compressed = source.path.extension().is_some_and(|ending| ending == "zst");
            if !self.known.contains(&identity) && !is_compressed {
                self.start(source, search)?;
            }
        }
        Ok(())
    }

    /// Returns the logs that exist now, in reading order.
    fn found(&self) -> Vec<(Source, Identity)> {
        let mut sources = Sources::of(self.paths).all;
        sources.retain(|source| source.kind == Kind::Stream && !source.is_standard_input());
        let mut all = self.beside();
        all.append(&mut sources);
        let identities = all.into_iter().filter_map(|source| {
            let metadata = fs::metadata(&source.path).ok()?;
            Some((source, identity(&metadata)))
        });
        identities.collect()
    }

    /// Returns the other files of the logs that the user has named, which rolling has created.
    fn beside(&self) -> Vec<Source> {
        let mut all = Vec::new();
        for path in self.paths.iter().filter(|path| !path.is_dir()) {
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
            let named = Source::new(path);
            let Ok(entries) = fs::read_dir(dir.unwrap_or(Path::new("."))) else { continue };
            let siblings = entries.flatten().map(|entry| path.with_file_name(entry.file_name()));
            let is_other = |other: &PathBuf| other != path && !other.is_dir();
            let siblings = siblings.filter(is_other).map(|other| Source::new(&other));
            all.extend(siblings.filter(|other| other.log == named.log));
        }
        all.sort_by(|a, b| natural(&a.path, &b.path));
        all
    }

    fn look_at_stores<W: Write>(&mut self, search: &mut Search<W>) -> Result<(), Failure> {
        for store in &mut self.stores {
            match store.read(search) {
                Err(Failure::Read(error)) => search.report.failed(&error),
                other => other?,
            }
        }
        Ok(())
    }
}

impl Open {
    fn read<W: Write>(
        &mut self,
        end: End,
        delimiter: Option<Delimiter>,
        search: &mut Search<W>,
    ) -> Result<(), Failure> {
        let unread = |error: io::Error| Failure::Read(error.to_string());
        let length = self.file.metadata().map_err(unread)?.len();
        let position = self.file.stream_position().map_err(unread)?;
        if length < position {
            search.report.note(format!("{}: truncated while it was read", self.source.name));
            self.file.seek(SeekFrom::Start(0)).map_err(unread)?;
            self.stream = Stream::new(delimiter);
        } else if length == position && end == End::Open {
            return Ok(());
        }
        if search.source.path != self.source.path {
            search.begin(&self.source);
        }
        self.stream.read(&mut self.file, end, None, search)
    }
}

impl Followed {
    /// Reads the records that were added to the store since the last call.
    fn read<W: Write>(&mut self, search: &mut Search<W>) -> Result<(), Failure> {
        let unread = |error: String| Failure::Read(format!("{}: {error}", self.source.name));
        let entries = fs::read_dir(&self.source.path).map_err(|error| unread(error.to_string()))?;
        let mut segments: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        segments.retain(|path| is_segment(path) && *path >= self.segment);
        segments.sort();
        for path in segments {
            let entries = journal::read_file(&path).map_err(|error| unread(error.to_string()))?;
            let after = self.offset.filter(|_| path == self.segment);
            if search.source.path != self.source.path {
                search.begin(&self.source);
            }
            self.segment = path;
            let mut last = after;
            let entries = entries.filter(|entry| {
                entry.as_ref().map_or(true, |entry| after.is_none_or(|after| after < entry.offset))
            });
            let entries = entries.inspect(|entry| {
                last = entry.as_ref().ok().map(|entry| entry.offset).or(last);
            });
            let done = input::store(entries, search);
            self.offset = last;
            done?;
        }
        Ok(())
    }
}
