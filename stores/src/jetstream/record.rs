//! The records of a session in its subject: one for each commit, or several if a commit exceeds the
//! largest message of the brokers.
//!
//! **Invariant:** a record is read whole or refused. Its checksum covers the name of the session,
//! so a record of another session is refused too.

use std::collections::BTreeMap;

use transfix_store::{Kind, Numbers};

use crate::batch::{Batch, Direction, Kept};

/// The first bytes of each record: a name and the version of the format.
const MAGIC: [u8; 4] = *b"TFX\x01";
/// Length of the magic and the checksum.
const PREFIX: usize = 8;
/// Bytes of a message beside its own: direction, kind, number, time, length.
const PER_MESSAGE: usize = 22;
/// Bytes that every record has: prefix, head and the counts of its lists.
const FIXED: usize = 128;

/// The place of a record in its own head: the stream assigns the number when it accepts the record.
pub(super) const HERE: u64 = u64::MAX;

/// The reason for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// A process has taken the session over.
    TakenOver = 0,
    /// A commit, or its last part.
    Commit = 1,
    /// An earlier part of a commit. Its messages are visible only with the last part.
    Part = 2,
}

/// The state of a session after a record. The last record has all that a process needs to continue
/// the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) reason: Reason,
    /// The process that owns the session: a random number, drawn for each open store, or for each
    /// run of a gateway of a fleet.
    pub(super) owner: u64,
    pub(super) numbers: Numbers,
    /// The time of the record, in UTC nanoseconds since 1970, or that of an earlier record if it is
    /// later. So times never descend.
    pub(super) time_ns: u64,
    /// The place of the previous record of this session in the stream, or 0 for the first record.
    pub(super) previous: u64,
    /// The place of the oldest record that must exist.
    pub(super) oldest: u64,
    /// The place of the record that began the present run.
    ///
    /// In a run the outbound numbers and the inbound numbers only ascend, so records are found by
    /// bisection. A reset, hidden messages or a lower inbound number begin a new run.
    pub(super) run: u64,
    /// The lowest outbound number that the present run may contain; 0 if the run began with a
    /// reset.
    pub(super) run_out: u64,
    /// Inbound messages of the present run have numbers below this number.
    pub(super) in_end: u64,
    /// The place of the first record of the oldest commit with a queued message, or 0 without one.
    pub(super) queue: u64,
    /// Number of records immediately before this one that are parts of the same commit.
    pub(super) parts: u32,
}

impl Head {
    /// Returns the head of a session that has no record.
    pub(super) const fn fresh(owner: u64, now_ns: u64) -> Self {
        Self {
            reason: Reason::TakenOver,
            owner,
            numbers: Numbers::fresh(now_ns),
            time_ns: 0,
            previous: 0,
            oldest: HERE,
            run: HERE,
            run_out: 0,
            in_end: 0,
            queue: 0,
            parts: 0,
        }
    }

    /// Returns the head of a record that has this place.
    pub(super) fn at(self, place: u64) -> Self {
        let known = |stored| if stored == HERE { place } else { stored };
        let Self { oldest, run, queue, .. } = self;
        Self { oldest: known(oldest), run: known(run), queue: known(queue), ..self }
    }
}

/// A record, as read from the stream.
#[derive(Debug)]
pub(super) struct Stored {
    /// Its place: the sequence number in the stream.
    pub(super) place: u64,
    pub(super) head: Head,
    pub(super) changes: Changes,
    /// Length of the encoded record.
    pub(super) bytes: usize,
}

/// The contents of a record besides its head.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) messages: BTreeMap<(Direction, u64), Kept>,
    /// Messages with this ticket or a lower one leave the queue; 0 for none.
    pub(super) unqueued: u64,
    pub(super) queued: BTreeMap<u64, Kept>,
    pub(super) notes: Vec<(u64, String)>,
}

impl Changes {
    /// Divides a batch into parts whose records are at most `bytes_max` long. The last part has the
    /// queue's removals. There is at least one part.
    pub(super) fn of(batch: &Batch, bytes_max: usize) -> Vec<Self> {
        let room = bytes_max.saturating_sub(FIXED);
        let (mut parts, mut part, mut left) = (Vec::new(), Self::default(), room);
        let mut begin = |part: &mut Self, bytes: usize| {
            if bytes > left && left < room {
                parts.push(std::mem::take(part));
                left = room;
            }
            left = left.saturating_sub(bytes);
        };
        for (key, kept) in &batch.messages {
            begin(&mut part, PER_MESSAGE + kept.bytes.len());
            part.messages.insert(*key, kept.clone());
        }
        for (ticket, kept) in &batch.queued {
            begin(&mut part, PER_MESSAGE + kept.bytes.len());
            part.queued.insert(*ticket, kept.clone());
        }
        for (time_ns, text) in &batch.notes {
            begin(&mut part, PER_MESSAGE + text.len());
            part.notes.push((*time_ns, text.clone()));
        }
        part.unqueued = batch.unqueued;
        parts.push(part);
        parts
    }
}

/// Returns the bytes of a record of the session `name`.
pub(super) fn encode(name: &str, head: &Head, changes: &Changes) -> Vec<u8> {
    let Head {
        reason,
        owner,
        numbers,
        time_ns,
        previous,
        oldest,
        run,
        run_out,
        in_end,
        queue,
        parts,
    } = *head;
    let mut bytes = Vec::with_capacity(512);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&[0; 4]);
    bytes.push(reason as u8);
    let Numbers { next_in, next_out, created_ns } = numbers;
    let words = [owner, next_in, next_out, created_ns, time_ns, previous, oldest, run, run_out];
    for word in words.into_iter().chain([in_end, queue, u64::from(parts), changes.unqueued]) {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let put_message = |bytes: &mut Vec<u8>, direction: u8, number: u64, kept: &Kept| {
        bytes.extend_from_slice(&[direction, u8::from(kept.kind == Kind::Application)]);
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&kept.time_ns.to_le_bytes());
        put_bytes(bytes, &kept.bytes);
    };
    put_length(&mut bytes, changes.messages.len());
    for ((direction, number), kept) in &changes.messages {
        put_message(&mut bytes, u8::from(*direction == Direction::Inbound), *number, kept);
    }
    put_length(&mut bytes, changes.queued.len());
    for (ticket, kept) in &changes.queued {
        put_message(&mut bytes, 0, *ticket, kept);
    }
    put_length(&mut bytes, changes.notes.len());
    for (time_ns, text) in &changes.notes {
        bytes.extend_from_slice(&time_ns.to_le_bytes());
        put_bytes(&mut bytes, text.as_bytes());
    }
    let sum = checksum(name, &bytes[PREFIX..]).to_le_bytes();
    bytes[MAGIC.len()..PREFIX].copy_from_slice(&sum);
    bytes
}

/// Reads the record of the session `name` at this place.
///
/// # Errors
/// Says what is wrong with the bytes.
pub(super) fn decode(name: &str, place: u64, bytes: &[u8]) -> Result<Stored, &'static str> {
    let (magic, rest) = bytes.split_first_chunk::<4>().ok_or("it is shorter than a record")?;
    if magic[..3] != MAGIC[..3] {
        return Err("it is no record of Transfix");
    }
    if *magic != MAGIC {
        return Err("another version of Transfix has written it");
    }
    let (sum, rest) = rest.split_first_chunk().ok_or("it is shorter than a record")?;
    if u32::from_le_bytes(*sum) != checksum(name, rest) {
        return Err("its checksum is wrong, or it belongs to another session");
    }
    parse(place, rest).ok_or("its lengths contradict each other")
}

fn parse(place: u64, bytes: &[u8]) -> Option<Stored> {
    let (mut reader, length) = (Reader(bytes), PREFIX + bytes.len());
    let reason = match reader.byte()? {
        0 => Reason::TakenOver,
        1 => Reason::Commit,
        2 => Reason::Part,
        _ => return None,
    };
    let owner = reader.word()?;
    let numbers =
        Numbers { next_in: reader.word()?, next_out: reader.word()?, created_ns: reader.word()? };
    let head = Head {
        reason,
        owner,
        numbers,
        time_ns: reader.word()?,
        previous: reader.word()?,
        oldest: reader.word()?,
        run: reader.word()?,
        run_out: reader.word()?,
        in_end: reader.word()?,
        queue: reader.word()?,
        parts: u32::try_from(reader.word()?).ok()?,
    };
    let mut changes = Changes { unqueued: reader.word()?, ..Changes::default() };
    for _ in 0..reader.length()? {
        let (direction, number, kept) = reader.message()?;
        changes.messages.insert((direction, number), kept);
    }
    for _ in 0..reader.length()? {
        let (_, ticket, kept) = reader.message()?;
        changes.queued.insert(ticket, kept);
    }
    for _ in 0..reader.length()? {
        let time_ns = reader.word()?;
        changes.notes.push((time_ns, String::from_utf8(reader.bytes()?.to_vec()).ok()?));
    }
    reader.0.is_empty().then_some(Stored { place, head: head.at(place), changes, bytes: length })
}

fn checksum(name: &str, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(name.as_bytes()), bytes)
}

fn put_length(bytes: &mut Vec<u8>, length: usize) {
    bytes.extend_from_slice(&(length as u32).to_le_bytes());
}

fn put_bytes(bytes: &mut Vec<u8>, value: &[u8]) {
    put_length(bytes, value.len());
    bytes.extend_from_slice(value);
}

/// Reads a record from its beginning. Each method returns `None` at the end of the bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    fn length(&mut self) -> Option<usize> {
        let (length, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*length) as usize)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        let (value, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(value)
    }

    fn message(&mut self) -> Option<(Direction, u64, Kept)> {
        let direction = match self.byte()? {
            0 => Direction::Outbound,
            1 => Direction::Inbound,
            _ => return None,
        };
        let kind = match self.byte()? {
            0 => Kind::Admin,
            1 => Kind::Application,
            _ => return None,
        };
        let (number, time_ns) = (self.word()?, self.word()?);
        Some((direction, number, Kept { kind, time_ns, bytes: self.bytes()?.to_vec() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfix_store::Record;

    fn batch() -> Batch {
        let mut batch = Batch::new(Numbers { next_in: 3, next_out: 5, created_ns: 7 });
        for seq in 5..9 {
            batch.add(seq, &Record::Outbound { seq, kind: Kind::Application, bytes: &[b'x'; 100] });
        }
        batch.add(9, &Record::Inbound { seq: 3, kind: Kind::Admin, bytes: b"in" });
        batch.add(9, &Record::Unqueued(4));
        batch.add(9, &Record::Queued { ticket: 5, bytes: b"waits" });
        batch.add(9, &Record::Note("a note"));
        batch
    }

    fn head() -> Head {
        let numbers = Numbers { next_in: 3, next_out: 9, created_ns: 7 };
        Head { reason: Reason::Commit, numbers, previous: 11, run: 4, ..Head::fresh(42, 7) }
    }

    #[test]
    fn a_record_is_read_as_written_and_every_changed_byte_is_refused() {
        let parts = Changes::of(&batch(), 1 << 20);
        assert_eq!(parts.len(), 1);
        let bytes = encode("name", &head(), &parts[0]);
        let stored = decode("name", 12, &bytes).unwrap();
        assert_eq!(stored.head, Head { oldest: 12, ..head() });
        assert_eq!(format!("{:?}", stored.changes), format!("{:?}", parts[0]));
        assert!(decode("another", 12, &bytes).is_err());
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(decode("name", 12, &changed).is_err(), "{at}");
            assert!(decode("name", 12, &bytes[..at]).is_err(), "{at}");
        }
    }

    #[test]
    fn a_large_batch_is_divided_and_loses_nothing() {
        let parts = Changes::of(&batch(), FIXED + 250);
        assert_eq!(parts.iter().map(|part| part.messages.len()).collect::<Vec<_>>(), [2, 2, 1]);
        assert_eq!(parts.iter().map(|part| part.unqueued).collect::<Vec<_>>(), [0, 0, 4]);
        for part in &parts {
            assert!(encode("name", &head(), part).len() <= FIXED + 250);
        }
        // A message above the limit has a part of its own, which the broker refuses.
        assert_eq!(Changes::of(&batch(), FIXED + 1).len(), 7);
    }
}
