//! A store in files: a journal that consists of segments, written through memory maps.
//!
//! **Invariant:** a batch lies within one segment, and the length word of its first record is
//! written last. A process killed at any time leaves the whole batch or none of it.

mod device;

use std::hint::cold_path;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ahead::{Ahead, Has};
use crate::batch::Batch;
use crate::behind::Behind;
use crate::disk::{Disk, Map};
use crate::error::{Damage, StoreError};
use crate::files::Files;
use crate::format::{self, BEGIN, END, RECORD_HEADER, RECORD_MAX, Seal};
use crate::header::{HEADER, Identity, Owner, SegmentHeader, VERSION};
use crate::last_batch::{self, LastBatch, Mark};
use crate::ledger::{CHUNK, Change, Ledger};
use crate::newest::{self, LOCK};
use crate::opening::{
    hold, install, lock, lock_existing, note_newest, remove_unfinished, sync_dir,
};
use crate::options::Options;
use crate::place::{Place, Segments, change_of, first_needed};
use crate::record::{Kind, Numbers, Record, Stored};
use crate::recover::{self, Recovered, Wanted};
use crate::repair::{self, Repaired};
use crate::retention::Keeper;
use crate::segment::{self, io_error};
use crate::threads::Helpers;
use crate::{Committed, PLACE_BYTES, Store, Wake};

/// Tells whether the retention's limit applies to the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Holds,
    Ends,
}

/// Maximum length of a batch: 256 MiB, far below the range of a 32-bit offset.
const BATCH_MAX: usize = 256 << 20;

/// Interval, in nanoseconds, between checks that the store's files are still in place. Commits into
/// a removed store would be lost.
const LOOK_NS: u64 = 1_000_000_000;

/// The smallest memory page size of any supported system, in bytes.
const PAGE_BYTES: usize = 4096;

/// The assumed size of a record, in bytes, from which the index estimates how many entries to
/// reserve: at most one chunk.
const RECORD_BYTES_USUAL: usize = 160;
/// Minimum number of records for which the index reserves room.
const RESERVED_MIN: usize = 64;

/// A store in a directory of its own, which only one process at a time can open.
///
/// A file system that shares blocks between copies (btrfs, or XFS with reflinks) may report a full
/// disk by a signal. Keep the store on another file system.
///
/// ```
/// use transfix_store::{FileStore, Kind, Options, Record, Store};
///
/// # let dir = std::env::temp_dir().join(format!("transfix-doc-{}", std::process::id()));
/// let (mut store, _) = FileStore::open(&dir, Options::default(), 0)?;
/// store.put(1, Record::Outbound { seq: 1, kind: Kind::Admin, bytes: b"8=FIX.4.4..." })?;
/// store.put(1, Record::NextIn(2))?;
/// store.commit()?;
/// drop(store);
///
/// let (store, recovered) = FileStore::open(&dir, Options::default(), 0)?;
/// assert_eq!((recovered.records, recovered.cut_bytes), (2, 0));
/// assert_eq!((store.numbers().next_in, store.numbers().next_out), (2, 2));
/// # drop(store);
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok::<(), transfix_store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct FileStore<D: Disk = Files> {
    pub(crate) disk: D,
    pub(crate) dir: PathBuf,
    options: Options,
    pub(crate) ledger: Ledger<Place>,
    pub(crate) segments: Segments<D::Map>,
    /// The number of the first segment whose messages can be found. Earlier segments are kept
    /// because they contain messages that wait to be sent.
    pub(crate) border: u64,
    batch: Batch,
    /// The position of the last committed batch.
    last_batch: Option<LastBatch>,
    /// The commits that are not yet on the device; `None` without power durability.
    behind: Option<Behind<D::Map>>,
    pub(crate) ahead: Ahead<D>,
    poisoned: bool,
    /// The time of the last check that the store's files are in place.
    looked_ns: u64,
    /// Buffers for a path and a name, which [`FileStore::check_places`] reuses.
    looked_at: (PathBuf, String),
    /// The path of the state file next to the store, if there is one.
    pub(crate) beside: Option<PathBuf>,
    /// True if the store did not exist before this opening.
    pub(crate) is_new: bool,
    /// The header of the last segment.
    header: SegmentHeader,
    seal: Seal,
    pub(crate) owner: Owner,
    /// A function that receives the errors of the store's other threads.
    pub(crate) report: fn(&StoreError),
    pub(crate) keeper: Option<Keeper>,
    // The lock is the last field, so that it is released after all other fields. `None` after a
    // failed reopening.
    lock: Option<D::Lock>,
}

impl FileStore<Files> {
    /// Opens the store in `dir`; creates it if it is missing. `now_ns` (UTC nanoseconds since 1970)
    /// becomes `created_ns` of a new store. An unfinished batch at the end is removed and reported.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if the store is already open, [`StoreError::Damaged`] if it has
    /// contents that no crash leaves behind, [`StoreError::Io`] if the operating system refuses.
    pub fn open(
        dir: &Path,
        options: Options,
        now_ns: u64,
    ) -> Result<(Self, Recovered), StoreError> {
        Self::open_on(Files, dir, options, now_ns)
    }

    /// Opens the store like [`FileStore::open`], for the named session. A store of another session
    /// is refused. A store without an owner belongs to this session from now on. An empty name
    /// matches any owner.
    ///
    /// # Errors
    /// As [`FileStore::open`], and [`StoreError::Foreign`].
    pub fn open_for(
        session: &str,
        dir: &Path,
        options: Options,
        now_ns: u64,
    ) -> Result<(Self, Recovered), StoreError> {
        Self::open_for_on(Files, session, dir, options, now_ns)
    }

    /// Creates a valid store in `to` from the damaged store in `from`, which is only read. Every
    /// valid batch is copied, in the current format; destroyed messages are lost. The new store
    /// belongs to `session`, or to the owner of the old store if `session` is `None`.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if one of the stores is open, [`StoreError::Io`] if the operating
    /// system refuses or `to` already has a store, [`StoreError::Damaged`] if a newer version wrote
    /// `from`.
    pub fn repair(from: &Path, to: &Path, session: Option<&str>) -> Result<Repaired, StoreError> {
        let _held = hold(from)?;
        let _lock = lock(&Files, to)?;
        if !segment::list(&Files, to)?.is_empty() {
            return Err(io_error(to, io::ErrorKind::AlreadyExists.into()));
        }
        repair::repair(from, to, session.map(Owner::of))
    }

    /// Returns true if the store in `dir` is open for writing. The check creates and changes
    /// nothing. If another process opens the store at the same moment, that opening may be refused.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the operating system refuses.
    pub fn is_open(dir: &Path) -> Result<bool, StoreError> {
        match hold(dir) {
            Ok(_) => Ok(false),
            Err(StoreError::Locked { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

impl<D: Disk> FileStore<D> {
    /// Opens the store like [`FileStore::open`], on the given disk.
    ///
    /// # Errors
    /// As [`FileStore::open`].
    pub fn open_on(
        disk: D,
        dir: &Path,
        options: Options,
        now_ns: u64,
    ) -> Result<(Self, Recovered), StoreError> {
        Self::open_for_on(disk, "", dir, options, now_ns)
    }

    /// Opens the store like [`FileStore::open_for`], on the given disk.
    ///
    /// # Errors
    /// As [`FileStore::open_for`].
    pub fn open_for_on(
        disk: D,
        session: &str,
        dir: &Path,
        options: Options,
        now_ns: u64,
    ) -> Result<(Self, Recovered), StoreError> {
        let (lock, owner) = (lock(&disk, dir)?, Owner::of(session));
        let wanted = Wanted { owner: &owner, store: None };
        remove_unfinished(&disk, dir)?;
        let note_damaged = newest::is_damaged(&disk, dir);
        let there = recover::recover(&disk, dir, wanted, options.durability)?;
        let is_new = there.is_none();
        let (state, found) = match there {
            Some(found) => found,
            None => (begin(&disk, dir, owner, &options, now_ns)?, Recovered::default()),
        };
        note_newest(&disk, dir, &options, &state.header)?;
        let batch = Batch::empty(state.tail);
        let syncs_behind = options.is_durable() && disk.syncs_behind();
        let recover::State { ledger, segments, border, header, last_batch, .. } = state;
        let owner = if owner.is_nobody() { header.owner() } else { owner };
        let mut store = Self {
            disk,
            dir: dir.to_path_buf(),
            options,
            ledger,
            segments,
            border,
            batch,
            last_batch,
            behind: syncs_behind.then(Behind::new),
            ahead: Ahead::new(Arc::default()),
            poisoned: false,
            looked_ns: now_ns,
            looked_at: Default::default(),
            beside: None,
            is_new,
            header,
            seal: header.seal(),
            owner,
            report: |_| (),
            keeper: None,
            lock: Some(lock),
        };
        store.reserve_index();
        if header.is_old() || header.owner() != owner {
            // The last segment has an old format or another owner, so a new segment is begun, which
            // is written only by this store.
            store.roll(0, Limit::Ends)?;
        }
        Ok((store, Recovered { note_damaged, ..found }))
    }

    /// Reports errors of the store's other threads to `report` as they occur, such as a failure to
    /// make the next segment in advance.
    pub const fn report_to(&mut self, report: fn(&StoreError)) {
        self.report = report;
    }

    /// From now on, segments and index chunks are made by the threads of `helpers`, instead of a
    /// thread of the store. Each store keeps threads of its own to sync and to archive; they start
    /// like those of `helpers` ([`Helpers::new`]).
    pub fn help_by(&mut self, helpers: &Arc<Helpers>) {
        self.ledger.help_by(helpers);
        self.ahead.help_by(Arc::clone(helpers));
    }

    /// Recovers from the files after a failure, if they are still the files of this store.
    fn recover_again(&mut self) -> Result<(), StoreError> {
        remove_unfinished(&self.disk, &self.dir)?;
        let wanted = Wanted { owner: &self.owner, store: self.header.store() };
        let (disk, dir, durability) = (&self.disk, &self.dir, self.options.durability);
        let Some((mut state, _)) = recover::recover(disk, dir, wanted, durability)? else {
            return Err(io_error(dir, io::ErrorKind::NotFound.into()));
        };
        let had = self.behind.as_ref().and_then(Behind::safe_mark);
        last_batch::check(
            disk,
            dir,
            had.unwrap_or(Mark::of(self.last_batch, &self.ledger)),
            &state,
        )?;
        if self.options.is_durable() {
            let (map, tail) = (state.segments.last(), state.tail);
            touch(&mut map[..tail]);
            map.sync(0, tail).map_err(|source| io_error(&self.dir, source))?;
        }
        note_newest(&self.disk, &self.dir, &self.options, &state.header)?;
        let recover::State { ledger, segments, border, header, tail, last_batch } = state;
        self.last_batch = last_batch;
        (self.ledger, self.segments, self.border) = (ledger, segments, border);
        self.ledger.help_by(self.ahead.helpers());
        (self.header, self.seal) = (header, header.seal());
        self.batch = Batch::empty(tail);
        if let Some(behind) = &mut self.behind {
            behind.begin_anew();
        }
        self.reserve_index();
        Ok(())
    }

    fn reserve_index(&mut self) {
        let room = self.segments.last().len().saturating_sub(HEADER);
        let records = (room / RECORD_BYTES_USUAL).min(CHUNK);
        if records < RESERVED_MIN {
            // Without this reservation, the index grows in small steps, and not at all in an unused
            // store.
            return;
        }
        self.ledger.outbound.reserve(records);
        self.ledger.inbound.reserve(records);
    }

    /// Begins a new segment with room for the batch and `size` more bytes. A long batch must rarely
    /// be moved again, so the segment has room for twice the batch, unless the retention would then
    /// have to remove a segment that it keeps.
    fn roll(&mut self, size: usize, limit: Limit) -> Result<(), StoreError> {
        self.check_places(0)?;
        self.settle_behind()?;
        let number = self.segments.last_number() + 1;
        let (start, tail) = (self.batch.start, self.batch.tail);
        let (needed, has) = (HEADER + (tail - start) + size, self.has());
        let bytes_max = self.ahead.bytes_max(&self.options, &has);
        let roomy = (needed + (tail - start)).next_multiple_of(format::ALIGN);
        let (border, wanted) = match limit {
            Limit::Holds => match self.first_kept(bytes_max.max(roomy)) {
                Ok(border) if border == self.border => (border, roomy),
                _ => (self.first_kept(bytes_max.max(needed))?, needed),
            },
            Limit::Ends => (self.border, roomy),
        };
        let first = first_needed(&self.ledger, border);
        let place = (&self.disk, self.dir.as_path());
        let made = self.ahead.take(place, &self.options, &has, (needed, wanted))?;
        let numbers = self.ledger.numbers;
        let identity = Identity {
            salt: self.disk.random(),
            store: self.header.store().unwrap_or_else(|| self.disk.random()),
            before: self.header.mark(),
            owner: self.owner,
        };
        let (bytes, identity) = (0, Ok(identity));
        let (version, reset_segment) = (VERSION, first);
        let mut header = SegmentHeader { version, number, reset_segment, numbers, bytes, identity };
        let durable = self.options.is_durable();
        let old = self.segments.last();
        let moved = old[start..tail].to_vec();
        // A finished segment must contain only zeros after its last batch.
        old[start..tail].fill(0);
        old.settle();
        if durable {
            let synced = old.sync(start, tail);
            synced.map_err(|e| io_error(&segment::path(&self.dir, number - 1), e))?;
        }
        let mut map = install(&self.disk, &self.dir, &self.options, &mut header, made)?;
        newest::write(&self.disk, &self.dir, &header)?;
        map[HEADER..HEADER + moved.len()].copy_from_slice(&moved);
        (self.header, self.seal) = (header, header.seal());
        self.segments.push(map, self.seal);
        self.keep_beside();
        self.forget_before(border);
        self.move_batch(start);
        self.reserve_index();
        Ok(())
    }

    /// Moves the batch that began at offset `start` of the previous segment to the beginning of
    /// this segment.
    fn move_batch(&mut self, start: usize) {
        let moved = |at: usize| at - start + HEADER;
        let Batch { first_len, last_len, .. } = self.batch;
        let (tail, last) = (moved(self.batch.tail), moved(self.batch.last));
        self.batch = Batch { start: HEADER, tail, first_len, last, last_len };
        // All records except the last are sealed with their old offsets, and must be sealed again.
        let (file, seal, mut at) = (self.segments.last(), self.seal, HEADER);
        while at < last {
            let len = if at == HEADER { first_len } else { format::u32_at(file, at) };
            let size = format::size_of(&file[at..], len);
            let place = &mut file[at..at + size];
            format::seal_record(place, at, len, format::flags(place), seal);
            at += size;
        }
        let number = self.segments.last_number() as u32;
        for change in &mut self.ledger.staged {
            if let Change::Outbound(_, place)
            | Change::Inbound(_, place)
            | Change::Queued(_, place) = change
            {
                *place = Place { segment: number, offset: moved(place.offset as usize) as u32 };
            }
        }
    }

    /// Fails if the lock file, or a segment from index `from` on, was moved or replaced, because
    /// another process may have created a store there.
    fn check_places(&mut self, from: usize) -> Result<(), StoreError> {
        let held = self.lock.as_ref().ok_or(StoreError::Poisoned)?;
        // A path buffer serves all checks, so that nothing is allocated.
        let (mut path, mut name) = std::mem::take(&mut self.looked_at);
        path.as_mut_os_string().clear();
        path.push(&self.dir);
        path.push(LOCK);
        let mut is_there = self.disk.is_locked_at(held, &path);
        let mut later = (self.segments.first..).zip(&self.segments.maps).skip(from);
        loop {
            match is_there {
                Ok(true) => {}
                Ok(false) => {
                    let (offset, reason) = (0, Damage::Replaced);
                    return Err(StoreError::Damaged { path, offset, reason });
                }
                Err(source) => return Err(io_error(&path, source)),
            }
            let Some((number, map)) = later.next() else { break };
            name.clear();
            segment::write_name(&mut name, number);
            path.set_file_name(&name);
            is_there = self.disk.is_at(map, &path);
        }
        self.looked_at = (path, name);
        Ok(())
    }

    /// Checks the lock file and the last segment, at most once a second, when a record is put. If
    /// the clock was set back, checks at once.
    #[cold]
    fn look_at_place(&mut self, now_ns: u64) -> Result<(), StoreError> {
        self.looked_ns = now_ns;
        let looked = self.check_places(self.segments.maps.len().saturating_sub(1));
        self.poisoned |= looked.is_err();
        looked
    }

    /// Sets the flags and the checksum of the batch's last record; also sets its length, unless it
    /// is the first record.
    fn seal_last(&mut self, end: u8) {
        let Batch { start, tail, last, last_len, .. } = self.batch;
        let (begin, seal) = (if last == start { BEGIN } else { 0 }, self.seal);
        let place = &mut self.segments.last()[last..tail];
        format::seal_record(place, last, last_len, begin | end, seal);
        if last != start {
            format::write_len(place, last_len);
        }
    }

    fn append(&mut self, now_ns: u64, record: &Record<'_>) {
        let len = (RECORD_HEADER + format::message(record).len()) as u32;
        let size = format::record_size(format::message(record).len());
        if self.batch.tail == self.batch.start {
            self.batch.first_len = len;
        } else {
            self.seal_last(0);
        }
        let at = self.batch.tail;
        self.ahead.note(at, now_ns);
        let place = Place { segment: self.segments.last_number() as u32, offset: at as u32 };
        format::write_record(&mut self.segments.last()[at..at + size], now_ns, record);
        self.ledger.staged.push(change_of(record, place, now_ns));
        self.batch.last = at;
        self.batch.last_len = len;
        self.batch.tail = at + size;
    }

    /// Adds the next inbound number to the last record of the batch. A session sets this number
    /// with nearly every message, and thus saves a separate record. Returns false, without any
    /// change, if the number needs a record of its own.
    #[inline]
    fn put_behind(&mut self, now_ns: u64, next_in: u64) -> bool {
        let Batch { start, tail, last, .. } = self.batch;
        let end = tail + format::NEXT_IN_SIZE;
        if tail == start || end - last > RECORD_MAX || end - start > BATCH_MAX {
            return false;
        }
        let place = self.segments.last().get_mut(last..end);
        let is_put = place.is_some_and(|place| format::add_next_in(place, now_ns, next_in));
        if is_put {
            self.ledger.staged.push(Change::NextIn(next_in));
            self.batch.tail = end;
        }
        is_put
    }

    fn prepare_next(&mut self) {
        let (len, is_near) = (self.segments.last().len(), self.is_rotation_near());
        if self.ahead.is_time(len, self.batch.tail, is_near) {
            cold_path();
            let has = self.has();
            let place = (&self.disk, self.dir.as_path());
            self.ahead.prepare(place, &self.options, &has, self.report);
        }
    }

    fn has(&self) -> Has {
        let (number, held) = (self.segments.last_number(), self.segments.bytes());
        Has { number, held, tail: self.batch.tail }
    }

    fn stored(&self, seq: u64, place: Option<Place>) -> Result<Option<Stored<'_>>, StoreError> {
        if self.poisoned {
            return Err(StoreError::Poisoned);
        }
        let Some(place) = place else { return Ok(None) };
        // If messages came out of order, the segment of this message may have been removed already.
        let Some((map, seal)) = self.segments.find(place.segment.into()) else { return Ok(None) };
        // A record may have been changed since it was written, so each read verifies its checksum.
        match format::sound_record(map, place.offset as usize, seal) {
            Some(framed) => Ok(message(seq, framed)),
            None => self.gathered_message(seq, place),
        }
    }

    /// Reads a message whose record has failed the check: it may be the first record of the
    /// gathered batch, whose length word is not yet written. The function is separate, so that the
    /// usual path is shorter.
    #[cold]
    #[inline(never)]
    fn gathered_message(&self, seq: u64, place: Place) -> Result<Option<Stored<'_>>, StoreError> {
        if let Some(framed) = self.gathered(place) {
            return Ok(message(seq, framed));
        }
        // The next opening would mistake damage in the last batch for an unfinished batch. The
        // state file records the numbers of the batch, so that the loss is noticed.
        self.keep_beside();
        let path = segment::path(&self.dir, place.segment.into());
        let (offset, reason) = (place.offset.into(), Damage::Changed);
        Err(StoreError::Damaged { path, offset, reason })
    }
}

/// Returns the message that a record contains.
#[inline(always)]
fn message(seq: u64, framed: format::Framed<'_>) -> Option<Stored<'_>> {
    let (kind, bytes) = match framed.record {
        Record::Outbound { kind, bytes, .. } | Record::Inbound { kind, bytes, .. } => (kind, bytes),
        Record::Queued { bytes, .. } => (Kind::Application, bytes),
        _ => return None,
    };
    Some(Stored { seq, kind, time_ns: framed.time_ns, bytes })
}

impl<D: Disk> Drop for FileStore<D> {
    /// Finishes pending commits. Otherwise an orderly shutdown could lose the last numbers.
    fn drop(&mut self) {
        if !self.poisoned {
            drop(self.settle_behind());
            self.keep_beside();
        }
    }
}

/// Creates a store in a directory that contains none.
fn begin<D: Disk>(
    disk: &D,
    dir: &Path,
    owner: Owner,
    options: &Options,
    now_ns: u64,
) -> Result<recover::State<D::Map>, StoreError> {
    let numbers = Numbers::fresh(now_ns);
    let identity = Ok(Identity { salt: disk.random(), store: disk.random(), before: 0, owner });
    let (version, number, reset_segment) = (VERSION, 0, 0);
    let mut header = SegmentHeader { version, number, reset_segment, numbers, bytes: 0, identity };
    let from = segment::path_new(dir, 0);
    let bytes = options.segment_bytes_within(0, 0);
    let map = disk.make(&from, bytes, options.durability);
    let map = map.map_err(|source| io_error(&from, source))?;
    let map = install(disk, dir, options, &mut header, (map, from))?;
    let parent = dir.parent().filter(|path| !path.as_os_str().is_empty());
    if options.is_durable()
        && let Some(parent) = parent
    {
        sync_dir(disk, parent)?;
    }
    let mut segments = Segments::none(0);
    segments.push(map, header.seal());
    Ok(recover::State {
        ledger: Ledger::new(numbers),
        segments,
        border: 0,
        header,
        tail: HEADER,
        last_batch: None,
    })
}

/// Marks every page of `bytes` as modified. After a failed sync, the operating system may treat
/// pages as written that never reached the device.
fn touch(bytes: &mut [u8]) {
    for at in (0..bytes.len()).step_by(PAGE_BYTES) {
        bytes[at] = std::hint::black_box(bytes[at]);
    }
}

impl<D: Disk> Store for FileStore<D> {
    fn numbers(&self) -> Numbers {
        self.ledger.numbers
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        record.assert_valid();
        if self.poisoned {
            return Err(StoreError::Poisoned);
        }
        if now_ns.wrapping_sub(self.looked_ns) >= LOOK_NS {
            self.look_at_place(now_ns)?;
        }
        if let Record::NextIn(next_in) = record
            && self.put_behind(now_ns, next_in)
        {
            return Ok(());
        }
        let size = format::record_size(format::message(&record).len());
        if size > RECORD_MAX {
            return Err(StoreError::TooLarge { len: size, max: RECORD_MAX });
        }
        let batch = self.batch.tail - self.batch.start + size;
        if batch > BATCH_MAX {
            return Err(StoreError::TooLarge { len: batch, max: BATCH_MAX });
        }
        let rotates = self.batch.tail == self.batch.start && self.is_rotation_due(now_ns);
        if rotates || self.batch.tail + size > self.segments.last().len() {
            cold_path();
            // A reset is accepted beyond the limit, because it frees the space of earlier messages.
            let limit = if record == Record::Reset { Limit::Ends } else { Limit::Holds };
            if let Err(error) = self.roll(size, limit) {
                self.poisoned = true;
                return Err(error);
            }
            self.sweep(now_ns);
        }
        self.append(now_ns, &record);
        self.note_time(now_ns);
        Ok(())
    }

    fn next_place(&self) -> &[u8] {
        let Some(map) = self.segments.maps.last() else { return &[] };
        // The commit also reads the record before the end of the batch.
        let begin = self.batch.tail.saturating_sub(PLACE_BYTES / 8);
        map.get(begin..(begin + PLACE_BYTES).min(map.len())).unwrap_or_default()
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        if self.poisoned {
            return Err(StoreError::Poisoned);
        }
        let Batch { start, tail, first_len, last, .. } = self.batch;
        if tail == start {
            return if self.behind.is_none() { Ok(Committed::Now) } else { self.last_committed() };
        }
        self.seal_last(END);
        let committed = if self.options.is_durable() {
            self.commit_to_device()?
        } else {
            self.segments.last().publish(start, first_len);
            Committed::Now
        };
        let resets = self.ledger.staged.iter().any(|change| matches!(change, Change::Reset { .. }));
        let before = self.ledger.numbers;
        self.ledger.commit();
        let segment = self.segments.last_number() as u32;
        let place = Place { segment, offset: last as u32 };
        self.last_batch = Some(LastBatch::of(place, self.segments.last()));
        self.batch = Batch::empty(tail);
        if resets {
            cold_path();
            // Records before the reset can no longer be found; their files remain as a journal.
            self.border = self.segments.last_number();
            self.segments.drop_before(first_needed(&self.ledger, self.border));
        }
        let numbers = self.ledger.numbers;
        if numbers.next_in < before.next_in || numbers.next_out < before.next_out {
            cold_path();
            self.keep_beside();
        }
        self.prepare_next();
        Ok(committed)
    }

    fn safe(&mut self) -> Result<u64, StoreError> {
        if self.poisoned {
            return Err(StoreError::Poisoned);
        }
        self.look_behind()?;
        Ok(self.behind.as_ref().map_or(0, |behind| behind.safe))
    }

    fn wake_by(&mut self, wake: Wake) {
        if let Some(behind) = &self.behind {
            behind.wake_by(wake);
        }
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.poisoned = true;
        // Threads that still make, sync or move segments must end before the files are opened
        // again.
        self.ahead.forget();
        self.abandon_behind();
        self.settle_sweep();
        // The directory may have been replaced, and another process may hold the lock of the new
        // one.
        self.lock = None;
        let lock = lock_existing(&self.disk, &self.dir)?;
        self.recover_again()?;
        self.lock = Some(lock);
        if self.header.is_old() {
            self.roll(0, Limit::Ends)?;
        }
        self.poisoned = false;
        Ok(())
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.stored(seq, self.ledger.outbound.find(seq))
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.stored(seq, self.ledger.inbound.find(seq))
    }

    fn queued(&mut self, ticket: u64) -> Result<Option<Stored<'_>>, StoreError> {
        let (ticket, place) = self.ledger.waiting.find_from(ticket).unzip();
        self.stored(ticket.unwrap_or(0), place)
    }
}
