//! Examines a store, even one that cannot be opened: its valid and lost content, and where they
//! are.
//!
//! **Invariant:** the examination writes, locks and maps no file. It holds one segment in memory.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::compress;
use crate::error::{Damage, StoreError};
use crate::format::{self, Seal};
use crate::header::{HEADER, HEADER_OLD, SegmentHeader};
use crate::newest;
use crate::place::{Place, change_of};
use crate::record::{LOGGED_ON, Numbers, Record};
use crate::search::{Batch, Search, written};
use crate::segment::{self, io_error};
use crate::segment_files::{SegmentFiles, Stray};

/// The valid content of a store, and its faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Survey {
    /// The result for each existing segment file.
    pub segments: Vec<SegmentSurvey>,
    /// The sequence numbers after the last valid batch; `None` if there are no segments.
    pub numbers: Option<Numbers>,
    /// Number of sent messages, including those before a reset.
    pub outbound: u64,
    /// Number of received messages in the store.
    pub inbound: u64,
    /// Number of messages that wait to be sent.
    pub waiting: u64,
    /// Number of records that are not messages.
    pub marks: u64,
    /// The times of the first and last message, in UTC nanoseconds since 1970.
    pub times_ns: Option<(u64, u64)>,
    /// The time of the last logon, in UTC nanoseconds since 1970; `None` if no note records it.
    pub last_logon_ns: Option<u64>,
    /// The last note in the journal, with its time.
    pub last_note: Option<(u64, String)>,
    /// Length of an unfinished batch at the end of the store, in bytes. A crash leaves such a
    /// batch, and the next opening removes it.
    pub unfinished_bytes: u64,
    /// Number of batches in invalid parts that this store did not write: message bodies that
    /// imitate batches. They are ignored.
    pub imitations: u64,
    /// The session to which the store belongs; empty if there is none.
    pub session: String,
    /// Number of segments in formats before 4, whose checks cover neither the offset of a record
    /// nor the session.
    pub old_segments: u64,
    /// The damaged parts, in the order of the files.
    pub faults: Vec<Fault>,
}

/// The result for one segment file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentSurvey {
    /// The file.
    pub path: PathBuf,
    /// The file's length in bytes.
    pub bytes: u64,
    /// Number of bytes up to the end of the last valid batch.
    pub used_bytes: u64,
    /// Number of valid records in the file.
    pub records: u64,
}

/// A part of a file that is damaged in a way that no crash can cause.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// Offset of the part from the beginning of the file, in bytes.
    pub offset: u64,
    /// The kind of the damage.
    pub reason: Damage,
    /// A short description of what was found instead; empty if unknown.
    pub seen: String,
    /// Number of bytes in this part that belong to no valid batch.
    pub lost_bytes: u64,
    /// The first and last MsgSeqNum(34) of the lost outbound messages; `None` if the surrounding
    /// messages do not show them.
    pub lost_outbound: Option<(u64, u64)>,
    /// True if `lost_bytes` and `lost_outbound` describe the whole loss. False if a file, its end
    /// or its header is missing: then only `lost_outbound` indicates what was lost.
    pub is_all_known: bool,
}

/// Examines the store in `dir`. If an engine is writing the store at the same time, the last batch
/// may appear unfinished.
///
/// # Errors
/// [`StoreError::Io`] if a file can't be read, [`StoreError::Damaged`] only if a newer version of
/// the format wrote a file.
pub fn survey(dir: &Path) -> Result<Survey, StoreError> {
    let mut survey = Survey::default();
    let mut segment_files = SegmentFiles::of(dir)?;
    survey.session = segment_files.owner.name().to_owned();
    let (first, last) =
        (segment_files.files.keys().next().copied(), segment_files.files.keys().last().copied());
    let missing = newest::first_missing(segment_files.noted, last);
    let strays = std::mem::take(&mut segment_files.strays);
    let mut expected = first.unwrap_or(0);
    let path = SegmentFiles::note_path(dir);
    let mut surveyor = Surveyor { survey: &mut survey, path, tickets: BTreeSet::new() };
    if segment_files.has_stray_note {
        surveyor.fault(0, Damage::Store, 0).seen =
            "the lock file belongs to another store".to_owned();
    }
    surveyor.strays(dir, strays.range(..expected));
    for (&number, &file) in &segment_files.files {
        surveyor.strays(dir, strays.range(expected..number));
        if number > expected && strays.range(expected..number).next().is_none() {
            surveyor.path = segment::path(dir, expected);
            surveyor.fault(0, Damage::Missing, 0);
        }
        expected = number + 1;
        let found = find(dir, file, segment_files.mark(number))?;
        surveyor.path = segment::path(dir, file);
        if file != number {
            surveyor.fault(0, Damage::Name, 0).seen = format!("it is segment {number}");
        }
        let mut numbers = surveyor.header(&found);
        surveyor.batches(&found, &mut numbers, Some(number) == last);
        if Some(number) == last
            && found.header.is_ok_and(|header| Some(header.reset_segment) < first)
        {
            surveyor.path = segment::path(dir, first.unwrap_or(1) - 1);
            surveyor.fault(0, Damage::Missing, 0);
        }
        surveyor.survey.numbers = Some(numbers);
    }
    surveyor.strays(dir, strays.range(expected..));
    if let Some(number) = missing.filter(|number| !strays.contains_key(number)) {
        surveyor.path = segment::path(dir, number);
        surveyor.fault(0, Damage::Missing, 0);
    }
    let waiting = surveyor.tickets.len() as u64;
    survey.waiting = waiting;
    Ok(survey)
}

struct Surveyor<'s> {
    survey: &'s mut Survey,
    path: PathBuf,
    /// The tickets of waiting messages.
    tickets: BTreeSet<u64>,
}

impl Surveyor<'_> {
    fn fault(&mut self, offset: usize, reason: Damage, lost_bytes: u64) -> &mut Fault {
        self.survey.faults.push(Fault {
            path: self.path.clone(),
            offset: offset as u64,
            reason,
            seen: String::new(),
            lost_bytes,
            lost_outbound: None,
            is_all_known: !matches!(reason, Damage::Missing | Damage::Short),
        });
        self.survey.faults.last_mut().expect("it was just put there")
    }

    /// Reports files that have the name of a segment but do not belong to the store.
    fn strays<'a>(&mut self, dir: &Path, strays: impl Iterator<Item = (&'a u64, &'a Stray)>) {
        for (&file, stray) in strays {
            self.path = segment::path(dir, file);
            let fault = self.fault(0, stray.reason, 0);
            fault.seen.clone_from(&stray.seen);
            fault.is_all_known = false;
        }
    }

    /// Returns the numbers in the segment's header, and reports a fault if they differ from those
    /// at the end of the preceding segment.
    fn header(&mut self, found: &Found) -> Numbers {
        let before = self.survey.numbers;
        match found.header {
            Err(reason) => {
                self.fault(0, reason, 0).is_all_known = !found.batches.is_empty();
            }
            Ok(header) if before.is_some_and(|before| before != header.numbers) => {
                // If a preceding segment is missing or damaged, this difference is a consequence,
                // and the cause is already reported.
                if self.survey.faults.is_empty() {
                    self.fault(found.first, Damage::Numbers, 0);
                }
            }
            Ok(_) => {}
        }
        let before = before.unwrap_or(Numbers::fresh(0));
        let Ok(header) = found.header else { return before };
        // After a reset, a difference of the numbers does not show a loss.
        if before.created_ns == 0 || before.created_ns == header.numbers.created_ns {
            self.note_lost(before, header.numbers.next_out);
        }
        header.numbers
    }

    fn batches(&mut self, found: &Found, numbers: &mut Numbers, is_last: bool) {
        let mut records = 0;
        self.survey.imitations += found.imitations;
        self.survey.old_segments += u64::from(found.header.is_ok_and(|header| header.is_keyless()));
        let mut end_before = found.first;
        for &Batch { start, end, home } in &found.batches {
            let lost = written(&found.file[end_before..start]) as u64;
            if lost > 0 {
                self.fault(end_before, Damage::Record, lost);
            }
            if home != start {
                self.fault(start, Damage::Moved, 0).seen = format!(
                    "the record belongs at byte \
                    {home}"
                );
            }
            end_before = end;
            if !found.has_moved {
                records += self.records(found, (start, end), numbers);
            }
        }
        if found.has_moved {
            for batch in found.in_order() {
                records += self.records(found, (batch.start, batch.end), numbers);
            }
        }
        let rest = written(found.file.get(end_before..).unwrap_or_default()) as u64;
        if found.is_short() {
            self.fault(found.file.len(), Damage::Short, rest);
        } else if is_last {
            self.survey.unfinished_bytes = rest;
        } else if rest > 0 {
            self.fault(end_before, Damage::Record, rest);
        }
        let (bytes, used_bytes) = (found.file.len() as u64, end_before.min(found.file.len()));
        let (path, used_bytes) = (self.path.clone(), used_bytes as u64);
        self.survey.segments.push(SegmentSurvey { path, bytes, used_bytes, records });
    }

    /// Counts the records of a batch.
    fn records(
        &mut self,
        found: &Found,
        (start, end): (usize, usize),
        numbers: &mut Numbers,
    ) -> u64 {
        let mut count = 0;
        for (_, framed) in format::records(&found.file, start, end) {
            for record in framed.put() {
                self.record(&record, framed.time_ns, *numbers);
                let place = Place { segment: 0, offset: 0 };
                change_of(&record, place, framed.time_ns).renumber(numbers);
                count += 1;
            }
        }
        count
    }

    fn record(&mut self, record: &Record<'_>, time_ns: u64, before: Numbers) {
        let counted = match *record {
            Record::Outbound { seq, .. } => {
                self.note_lost(before, seq);
                &mut self.survey.outbound
            }
            Record::Inbound { .. } => &mut self.survey.inbound,
            Record::Queued { ticket, .. } => {
                self.tickets.insert(ticket);
                return;
            }
            Record::Unqueued(last) => {
                while self.tickets.first().is_some_and(|ticket| *ticket <= last) {
                    self.tickets.pop_first();
                }
                return;
            }
            other => {
                self.survey.marks += 1;
                if let Record::Note(text) = other {
                    if text == LOGGED_ON {
                        self.survey.last_logon_ns = Some(time_ns);
                    }
                    self.survey.last_note = Some((time_ns, text.to_owned()));
                }
                return;
            }
        };
        *counted += 1;
        let first = self.survey.times_ns.map_or(time_ns, |times| times.0);
        self.survey.times_ns = Some((first, time_ns));
    }

    /// Attributes the first jump of the outbound numbers after a fault to that fault, as its lost
    /// messages.
    fn note_lost(&mut self, before: Numbers, next: u64) {
        if let Some(fault) = self.survey.faults.last_mut()
            && fault.lost_outbound.is_none()
            && next > before.next_out
        {
            fault.lost_outbound = Some((before.next_out, next - 1));
        }
    }
}

/// The content of a segment file, as far as it was found.
pub(crate) struct Found {
    pub(crate) file: Vec<u8>,
    pub(crate) header: Result<SegmentHeader, Damage>,
    /// The offset of the first batch.
    pub(crate) first: usize,
    /// The valid batches, in the order of their offsets in the file.
    pub(crate) batches: Vec<Batch>,
    /// True if a batch is at another offset than where it was written.
    pub(crate) has_moved: bool,
    /// Number of bytes that belong to no valid batch.
    pub(crate) lost_bytes: u64,
    imitations: u64,
}

impl Found {
    /// Returns true if the end of the file is missing.
    pub(crate) fn is_short(&self) -> bool {
        self.header.is_ok_and(|header| header.is_short(self.file.len()))
    }

    /// Returns the batches in the order in which they were written, without duplicates.
    pub(crate) fn in_order(&self) -> Vec<Batch> {
        let mut batches = self.batches.clone();
        // If two batches claim an offset, the batch that is really there is sorted first, and
        // `dedup` keeps it.
        batches.sort_by_key(|batch| (batch.home, batch.home != batch.start));
        batches.dedup_by_key(|batch| batch.home);
        batches
    }

    /// Returns the result for a missing segment, which has no content.
    pub(crate) const fn nothing() -> Self {
        Self {
            file: Vec::new(),
            header: Err(Damage::Missing),
            first: HEADER,
            batches: Vec::new(),
            has_moved: false,
            lost_bytes: 0,
            imitations: 0,
        }
    }
}

/// Reads the segment file with the number `file` in its name. `mark` identifies the segment, as
/// found in the note or the next segment. With `mark`, the records can be verified even if the
/// header is invalid.
pub(crate) fn find(dir: &Path, file: u64, mark: Option<u64>) -> Result<Found, StoreError> {
    let path = segment::path(dir, file);
    let file = compress::read(&path).map_err(|source| io_error(&path, source))?;
    let header = SegmentHeader::decode(&file);
    if let (Err(_), Some(key)) = (&header, mark) {
        let found = look_through(file, header, HEADER, Seal::Keyed(key));
        if !found.batches.is_empty() {
            return Ok(found);
        }
        return Ok(look_through(found.file, header, HEADER_OLD, Seal::Plain));
    }
    let head = header.map(|header| (header.first(), header.seal()));
    let (first, seal) = head.unwrap_or((HEADER_OLD, Seal::Plain));
    Ok(look_through(file, header, first, seal))
}

fn look_through(
    file: Vec<u8>,
    header: Result<SegmentHeader, Damage>,
    first: usize,
    seal: Seal,
) -> Found {
    let mut found = Found { file, header, first, ..Found::nothing() };
    let (file, mut start, mut search) = (&found.file, first, None::<Search<'_>>);
    while search.is_none() {
        match format::batch_end(file, start, seal) {
            Some(end) => {
                found.batches.push(Batch { start, end, home: start });
                start = end;
            }
            // The search checksums each remaining byte only once.
            None => search = Some(Search::new(file, start, seal)),
        }
    }
    while let Some(search) = &search {
        let next = search.next(start);
        let end = next.map_or(file.len(), |next| next.start);
        found.lost_bytes += written(file.get(start..end).unwrap_or_default()) as u64;
        found.imitations += search.imitations(start, end) as u64;
        let Some(next) = next else { break };
        found.has_moved |= next.home != next.start;
        found.batches.push(next);
        start = next.end;
    }
    found
}
