//! Looking through a store that nobody may be able to open: what is sound, what is lost, and where.
//!
//! **Invariant:** nothing is written, locked or mapped. Memory: one segment.

use std::path::{Path, PathBuf};

use crate::compress;
use crate::disk::Files;
use crate::error::{Damage, StoreError};
use crate::file::{Place, change_of};
use crate::format::{self, SEGMENT_HEADER, SegmentHeader};
use crate::newest;
use crate::record::{Numbers, Record};
use crate::segment::{self, io_error};

/// What a store holds, as far as it is sound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Every segment file there is.
    pub segments: Vec<SegmentSurvey>,
    /// The numbers behind the last sound batch; none without any segment.
    pub numbers: Option<Numbers>,
    /// Messages sent, also those before a reset.
    pub outbound: u64,
    /// Messages received, as far as they are kept.
    pub inbound: u64,
    /// Messages that wait to be sent.
    pub waiting: u64,
    /// Records that are no message.
    pub marks: u64,
    /// Time of the first message and of the last one, in UTC nanoseconds since 1970.
    pub times_ns: Option<(u64, u64)>,
    /// The last note, and when it was put.
    pub last_note: Option<(u64, String)>,
    /// Bytes of an unfinished batch at the very end: what a crash leaves, and the next opening
    /// removes.
    pub unfinished_bytes: u64,
    /// What is damaged, in the order of the files.
    pub faults: Vec<Fault>,
}

/// One segment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSurvey {
    /// The file.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// Bytes up to the end of its last sound batch.
    pub used_bytes: u64,
    /// Sound records in it.
    pub records: u64,
}

/// A place that holds what no crash leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub path: PathBuf,
    /// Bytes from the beginning of the file.
    pub offset: u64,
    /// What is wrong there.
    pub reason: Damage,
    /// Bytes that belong to no sound batch.
    pub lost_bytes: u64,
    /// The numbers of the messages sent that were lost there, first and last, where those around
    /// them tell.
    pub lost_outbound: Option<(u64, u64)>,
    /// Whether that is all that was lost there. Not where a file, its end or its head is gone: what
    /// was in it nobody can say, but for the numbers that `lost_outbound` may tell.
    pub is_all_known: bool,
}

/// Looks through the store in `dir`. An engine that writes meanwhile can make its last batch look
/// unfinished.
///
/// # Errors
/// [`StoreError::Io`] if a file can't be read, [`StoreError::Damaged`] only if a newer version of
/// the format wrote one.
pub fn survey(dir: &Path) -> Result<Survey, StoreError> {
    let mut survey = Survey::default();
    // The note first: the writer may go on meanwhile.
    let newest = newest::peek(dir);
    let all = segment::list(&Files, dir)?;
    let missing = newest::first_missing(newest, all.last().copied());
    let (first, last) = (all.first().copied().unwrap_or(0), all.last().copied().unwrap_or(0));
    let (mut expected, mut tickets) = (first, Vec::new());
    for number in all {
        let path = segment::path(dir, expected);
        let mut surveyor = Surveyor { survey: &mut survey, path, tickets: &mut tickets };
        if number > expected {
            surveyor.fault(0, Damage::Missing, 0);
        }
        expected = number + 1;
        let found = find(dir, number)?;
        surveyor.path = segment::path(dir, number);
        let mut numbers = surveyor.header(&found);
        surveyor.batches(&found, &mut numbers, number == last);
        if number == last && found.header.is_ok_and(|header| header.reset_segment < first) {
            surveyor.path = segment::path(dir, first - 1);
            surveyor.fault(0, Damage::Missing, 0);
        }
        survey.numbers = Some(numbers);
    }
    if let Some(number) = missing {
        let path = segment::path(dir, number);
        Surveyor { survey: &mut survey, path, tickets: &mut tickets }.fault(0, Damage::Missing, 0);
    }
    survey.waiting = tickets.len() as u64;
    Ok(survey)
}

struct Surveyor<'s> {
    survey: &'s mut Survey,
    path: PathBuf,
    /// Those that wait.
    tickets: &'s mut Vec<u64>,
}

impl Surveyor<'_> {
    fn fault(&mut self, offset: usize, reason: Damage, lost_bytes: u64) {
        self.survey.faults.push(Fault {
            path: self.path.clone(),
            offset: offset as u64,
            reason,
            lost_bytes,
            lost_outbound: None,
            is_all_known: !matches!(reason, Damage::Missing | Damage::Short),
        });
    }

    /// Goes on with the numbers of the segment's header, and says if they are not those carried.
    fn header(&mut self, found: &Found) -> Numbers {
        let before = self.survey.numbers;
        match found.header {
            Err(reason) => {
                self.fault(0, reason, 0);
                if found.batches.is_empty()
                    && let Some(fault) = self.survey.faults.last_mut()
                {
                    fault.is_all_known = false;
                }
            }
            Ok(header) if before.is_some_and(|before| before != header.numbers) => {
                // A missing or damaged segment before is the cause, and reported already.
                if self.survey.faults.is_empty() {
                    self.fault(SEGMENT_HEADER, Damage::Numbers, 0);
                }
            }
            Ok(_) => {}
        }
        let before = before.unwrap_or(Numbers::fresh(0));
        let Ok(header) = found.header else { return before };
        // Behind a reset the numbers tell nothing.
        if before.created_ns == 0 || before.created_ns == header.numbers.created_ns {
            self.note_lost(before, header.numbers.next_out);
        }
        header.numbers
    }

    fn batches(&mut self, found: &Found, numbers: &mut Numbers, is_last: bool) {
        let (mut end_before, mut records) = (SEGMENT_HEADER, 0);
        for &(start, end) in &found.batches {
            let lost = written(&found.file[end_before..start]);
            if lost > 0 {
                self.fault(end_before, Damage::Record, lost);
            }
            for (_, framed) in format::records(&found.file, start, end) {
                self.record(&framed, *numbers);
                let place = Place { segment: 0, offset: 0 };
                change_of(&framed.record, place, framed.time_ns).renumber(numbers);
                records += 1;
            }
            end_before = end;
        }
        let rest = written(found.file.get(end_before..).unwrap_or_default());
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

    fn record(&mut self, framed: &format::Framed<'_>, before: Numbers) {
        let counted = match framed.record {
            Record::Outbound { seq, .. } => {
                self.note_lost(before, seq);
                &mut self.survey.outbound
            }
            Record::Inbound { .. } => &mut self.survey.inbound,
            Record::Queued { ticket, .. } => return self.tickets.push(ticket),
            Record::Unqueued(last) => return self.tickets.retain(|ticket| *ticket > last),
            other => {
                self.survey.marks += 1;
                if let Record::Note(text) = other {
                    self.survey.last_note = Some((framed.time_ns, text.to_owned()));
                }
                return;
            }
        };
        *counted += 1;
        let first = self.survey.times_ns.map_or(framed.time_ns, |times| times.0);
        self.survey.times_ns = Some((first, framed.time_ns));
    }

    /// The first jump of our numbers behind a fault is what was lost there.
    fn note_lost(&mut self, before: Numbers, next: u64) {
        if let Some(fault) = self.survey.faults.last_mut()
            && fault.lost_outbound.is_none()
            && next > before.next_out
        {
            fault.lost_outbound = Some((before.next_out, next - 1));
        }
    }
}

/// A segment file as it was found.
pub(crate) struct Found {
    pub(crate) file: Vec<u8>,
    pub(crate) header: Result<SegmentHeader, Damage>,
    /// Sound batches: where each begins and ends.
    pub(crate) batches: Vec<(usize, usize)>,
    /// Bytes that belong to none of them.
    pub(crate) lost_bytes: u64,
}

impl Found {
    /// Whether its end is gone.
    pub(crate) fn is_short(&self) -> bool {
        self.header.is_ok_and(|header| header.is_short(self.file.len()))
    }
}

/// Reads a segment; one that is missing has no bytes.
pub(crate) fn find(dir: &Path, number: u64) -> Result<Found, StoreError> {
    let path = segment::path(dir, number);
    let file = match compress::read(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(io_error(&path, source)),
    };
    let header = match SegmentHeader::decode(&file) {
        // The checksum tells another version from a damaged version number.
        Err(Damage::Version) if format::is_header_checked(&file) => {
            return Err(StoreError::Damaged { path, offset: 8, reason: Damage::Version });
        }
        Ok(header) if header.number != number => Err(Damage::Name),
        header => header,
    };
    let (mut batches, mut lost_bytes, mut start) = (Vec::new(), 0, SEGMENT_HEADER);
    while let Some((at, end)) = format::next_batch(&file, start) {
        lost_bytes += written(&file[start..at]);
        batches.push((at, end));
        start = end;
    }
    lost_bytes += written(file.get(start..).unwrap_or_default());
    Ok(Found { file, header, batches, lost_bytes })
}

/// Bytes up to the last one that isn't zero.
fn written(bytes: &[u8]) -> u64 {
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1)
}
