//! The answer to a ResendRequest(2), called a replay. It is a position in the store that advances
//! in small chunks; the driver reads the store.
//!
//! Invariants: messages sent before the request are written first, then the replay, then messages
//! sent since. Each number is written once as a new message. A replay holds at most one chunk in
//! memory. While the application cannot be asked which messages to resend, newer messages are
//! written.

use std::collections::VecDeque;

use transfix_codec::Message;

use crate::{Now, Outbox, Session};

/// Encoded bytes of a chunk: about 5 µs of work, during which other sessions of the thread wait.
/// The next chunk is encoded when the socket has accepted this one.
const CHUNK_BYTES: usize = 3 << 10;
/// Maximum number of sequence numbers examined for a chunk, which limits the work for a long run of
/// administrative messages.
const CHUNK_NUMBERS: usize = 10_000;
/// Maximum number of requests that wait for the end of a replay; further requests are merged into
/// the last one.
const PENDING_MAX: usize = 64;

/// The result of reading a requested number from the store.
#[derive(Debug)]
pub enum Found<'a> {
    /// A message to be resent.
    Message(&'a Message<'a>),
    /// A message that is not resent but covered by a gap fill: an administrative message, or one
    /// that the application omits.
    Skipped,
    /// A used number without a message in the store. A gap fill covers the number.
    Missing,
}

/// A resend in progress. The driver encodes one chunk each time the replay is next in the outgoing
/// stream:
///
/// ```text
/// while let Some(seq) = next_number(session)
///     read the message seq from the store, or leave the loop while the store fetches it
///     put(now, session, Found)
/// end_chunk(now, session)
/// ```
#[derive(Debug, Default)]
pub struct Replay {
    next: u64,
    end: u64,
    /// Requests that were received during the replay, as first and last number.
    pending: VecDeque<(u64, u64)>,
    /// The last number that is written before the replay begins.
    last: u64,
    /// First number that the next gap fill covers; `None` if no gap fill is pending.
    gap_begin: Option<u64>,
    /// Offset in the outgoing stream at which the replay is inserted: bytes before this offset are
    /// written first.
    begins_at: u64,
    /// Number of sequence numbers examined for the current chunk.
    numbers: usize,
    /// The encoded chunk of the replay that is not yet written.
    pub out: Outbox,
    /// True while a part of the replay is not yet encoded or not yet written.
    pub active: bool,
    /// Number of requested sequence numbers that were used but are missing from the store.
    pub missing: u64,
    /// Number of resent messages that are not yet included in the metrics.
    pub resent: u64,
}

impl Replay {
    /// Starts a resend of our messages `begin` to `end`. Bytes before the offset `at`, the last of
    /// which belong to the message `last`, are written first. A request during a replay is queued,
    /// unless the remaining replay covers the whole request.
    pub fn start(&mut self, begin: u64, end: u64, last: u64, at: u64) {
        if !self.active {
            self.active = true;
            self.last = last;
            self.begins_at = at;
            self.gap_begin = None;
            (self.next, self.end) = (begin, end.min(last));
            return;
        }
        // Messages after the position of the replay will be written as new messages. If the replay
        // resent them earlier, their numbers would be too low when they arrive as new messages.
        let end = end.min(self.last);
        if begin > end || (begin >= self.next && end <= self.end) {
            return;
        }
        if self.pending.len() < PENDING_MAX {
            self.pending.push_back((begin, end));
        } else if let Some(last) = self.pending.back_mut() {
            *last = (last.0.min(begin), last.1.max(end));
        }
    }

    /// Stops resending after a reset of the numbers. An encoded chunk is still written completely,
    /// before all messages of the new numbering.
    pub fn stop(&mut self) {
        self.last = 0;
        self.pending.clear();
        self.gap_begin = None;
        self.next = self.end + 1;
    }

    /// Returns true if requested numbers remain to be encoded.
    pub const fn has_more(&self) -> bool {
        self.next <= self.end
    }

    /// Postpones the rest of the resend, because the application cannot be asked yet. The outgoing
    /// stream before the offset `at`, which ends with the message `last`, is written first.
    pub const fn put_off(&mut self, last: u64, at: u64) {
        (self.last, self.begins_at) = (last, at);
    }

    /// Returns the offset at which the replay is inserted into the outgoing stream; `u64::MAX` if
    /// no replay is active.
    pub const fn begins_at(&self) -> u64 {
        if self.active { self.begins_at } else { u64::MAX }
    }

    /// Returns true if the replay must be written next; `written` is the offset up to which the
    /// outgoing stream is written.
    pub const fn is_next(&self, written: u64) -> bool {
        self.begins_at() <= written
    }

    /// Ends the replay at the end of its connection.
    pub fn clear(&mut self) {
        self.active = false;
        self.numbers = 0;
        self.pending.clear();
        self.out.clear();
    }

    /// Returns the MsgSeqNum(34) to be read from the store next; `None` if the chunk or the replay
    /// is complete.
    pub fn next_number(&mut self, session: &Session) -> Option<u64> {
        if self.end >= session.next_num_out() {
            self.stop();
        }
        let has_room = self.numbers < CHUNK_NUMBERS && self.out.len() < CHUNK_BYTES;
        (has_room && self.has_more()).then_some(self.next)
    }

    /// Encodes the message that was found for [`Replay::next_number`], or adds its number to a gap
    /// fill.
    pub fn put(&mut self, now: Now, session: &mut Session, found: Found<'_>) {
        let seq = self.next;
        match found {
            Found::Message(message) => {
                if let Some(begin) = self.gap_begin.take() {
                    session.gap_fill(now, begin, seq, &mut self.out);
                }
                session.resend(now, message, &mut self.out);
                self.resent += 1;
            }
            Found::Skipped | Found::Missing => {
                self.missing += u64::from(matches!(found, Found::Missing));
                self.gap_begin.get_or_insert(seq);
            }
        }
        self.next += 1;
        self.numbers += 1;
    }

    /// Ends a chunk; if the request is complete, continues with the next queued request. Without
    /// one, the replay ends when nothing is left to write.
    pub fn end_chunk(&mut self, now: Now, session: &mut Session) {
        self.numbers = 0;
        if self.has_more() {
            return;
        }
        if let Some(begin) = self.gap_begin.take() {
            session.gap_fill(now, begin, self.next, &mut self.out);
        }
        if let Some((begin, end)) = self.pending.pop_front() {
            (self.next, self.end) = (begin, end);
        } else {
            self.active = !self.out.is_empty();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfix_codec::{CheckSumPolicy, FieldIndex, tag};

    use crate::{BeginString, Config, Role, SessionId};

    /// Returns MsgSeqNum(34) and NewSeqNo(36) of the gap fill that the replay writes from an empty
    /// store.
    fn filled(replay: &mut Replay, next_num_out: u64) -> Option<(u64, u64)> {
        let id = SessionId::new(BeginString::Fix44, "A", "B");
        let config = Config::new(id, Role::Acceptor);
        let mut session = Session::new(config, 1, next_num_out);
        while replay.next_number(&session).is_some() {
            replay.put(Now::default(), &mut session, Found::Missing);
        }
        replay.end_chunk(Now::default(), &mut session);
        let bytes = replay.out.bytes().to_vec();
        replay.out.consume(bytes.len());
        let mut index = FieldIndex::default();
        let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Ignore).ok()?;
        Some((message.msg_seq_num().unwrap(), message.uint(tag::NEW_SEQ_NO).unwrap()))
    }

    #[test]
    fn a_second_request_does_not_take_in_what_waits_behind_the_replay() {
        let mut replay = Replay::default();
        replay.start(2, 4, 4, 0);
        replay.start(3, 9, 9, 500);
        assert_eq!((replay.begins_at, filled(&mut replay, 10)), (0, Some((2, 5))));
        replay.start(6, 9, 9, 500);
        assert_eq!(filled(&mut replay, 10), None, "all of it waits behind");
        assert!(!replay.active);
        replay.start(6, 9, 9, 500);
        assert_eq!((replay.begins_at, filled(&mut replay, 10)), (500, Some((6, 10))));
    }

    #[test]
    fn each_request_is_answered() {
        let mut replay = Replay::default();
        for (begin, end) in [(3, 5), (6, 8), (4, 4), (1, 1)] {
            replay.start(begin, end, 9, 0);
        }
        let ranges: Vec<_> = (0..4).map(|_| filled(&mut replay, 10)).collect();
        assert_eq!(ranges, [Some((3, 6)), Some((6, 9)), Some((1, 2)), None], "4 came with 3 to 5");
        for n in 0..1_000 {
            replay.start(1 + n % 9, 1 + n % 9, 9, 0);
        }
        assert!(replay.pending.len() <= PENDING_MAX);
    }

    /// An old request must not be answered with messages of the new numbering, because the answer
    /// would precede the reset itself. The simulation of resets found this with the seeds 1014744
    /// and 5073915.
    #[test]
    fn a_reset_ends_a_replay() {
        let mut replay = Replay::default();
        replay.start(1, 9, 9, 0);
        assert_eq!(filled(&mut replay, 2), None, "the numbers went back under the replay");
        replay.start(1, 9, 9, 0);
        replay.stop();
        replay.start(2, 9, 9, 500);
        assert_eq!(filled(&mut replay, 20), None, "the numbers are those of others now");
        assert!(!replay.active);
        replay.start(2, 9, 9, 500);
        assert_eq!((replay.begins_at, filled(&mut replay, 20)), (500, Some((2, 10))));
    }
}
