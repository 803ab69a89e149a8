//! The answer to a ResendRequest(2): a bounded, resumable cursor over the store, which the driver
//! reads.
//!
//! Invariants: messages sent before the request go out first, then the replay, then messages sent
//! since. Each number goes out once as new. A replay never holds more than one chunk in memory.
//! While the application cannot be asked what is to be sent again, what has been sent since goes
//! on.

use std::collections::VecDeque;

use transfix_codec::Message;

use crate::{Now, Outbox, Session};

/// Bytes encoded at a time; the socket's progress paces the rest. So many take some 5 µs, which
/// other sessions of the same thread wait for.
const CHUNK_BYTES: usize = 3 << 10;
/// Numbers looked at in one chunk: a long run of administrative messages is taken in steps too.
const CHUNK_NUMBERS: usize = 10_000;
/// Requests that wait behind a replay; more of them become one.
const PENDING_MAX: usize = 64;

/// A number that was asked for, as the store has it.
#[derive(Debug)]
pub enum Found<'a> {
    /// A message that is sent again.
    Message(&'a Message<'a>),
    /// A message that a gap fill covers: it is administrative, or the application leaves it out.
    Skipped,
    /// The number was used, and the store has no message of it. A gap fill covers it.
    Missing,
}

/// A resend under way. The driver encodes a chunk of it when its turn comes in the outgoing stream:
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
    /// The request that came meanwhile.
    pending: VecDeque<(u64, u64)>,
    /// The last number that goes out before the replay.
    last: u64,
    /// First number of the run that a gap fill will cover.
    gap_begin: Option<u64>,
    /// Offset in the outgoing stream at which the resend starts: bytes before it go out first.
    begins_at: u64,
    /// Numbers looked at in this chunk.
    numbers: usize,
    /// The encoded part of it.
    pub out: Outbox,
    /// Something is still to be encoded, or written.
    pub active: bool,
    /// Numbers that the store does not have, although they were used.
    pub missing: u64,
    /// Messages encoded again that are not counted yet.
    pub resent: u64,
}

impl Replay {
    /// Begins with MsgSeqNum(34) `begin`. Bytes before the offset `at`, which end with the number
    /// `last`, go out first. A request that comes during a replay is answered behind it, unless the
    /// replay is still to come to all that it asks for.
    pub fn start(&mut self, begin: u64, end: u64, last: u64, at: u64) {
        if !self.active {
            self.active = true;
            self.last = last;
            self.begins_at = at;
            self.gap_begin = None;
            (self.next, self.end) = (begin, end.min(last));
            return;
        }
        // Messages that wait behind the replay come by themselves. Sent again before, their numbers
        // would be too low when they come.
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

    /// Numbers have been reset: nothing more is to be sent again. An encoded chunk goes out whole,
    /// and all of the new numbering waits behind it.
    pub fn stop(&mut self) {
        self.last = 0;
        self.pending.clear();
        self.gap_begin = None;
        self.next = self.end + 1;
    }

    /// Returns true if the application is to be asked about messages, or a gap fill is to be
    /// written.
    pub const fn has_more(&self) -> bool {
        self.next <= self.end
    }

    /// The application cannot be asked yet: the outgoing stream up to the offset `at`, where the
    /// number `last` ends, goes out before what is still to be sent again.
    pub const fn put_off(&mut self, last: u64, at: u64) {
        (self.last, self.begins_at) = (last, at);
    }

    /// Where a resend is spliced into the outgoing stream; never if there is none.
    pub const fn begins_at(&self) -> u64 {
        if self.active { self.begins_at } else { u64::MAX }
    }

    /// Returns true if the resend goes out next, with the outgoing stream written up to this
    /// offset.
    pub const fn is_next(&self, written: u64) -> bool {
        self.begins_at() <= written
    }

    /// The connection has ended: nothing is sent again.
    pub fn clear(&mut self) {
        self.active = false;
        self.numbers = 0;
        self.pending.clear();
        self.out.clear();
    }

    /// MsgSeqNum(34) of the message that is read next, as long as this chunk has room for it.
    pub fn next_number(&mut self, session: &Session) -> Option<u64> {
        if self.end >= session.next_num_out() {
            self.stop();
        }
        let has_room = self.numbers < CHUNK_NUMBERS && self.out.len() < CHUNK_BYTES;
        (has_room && self.has_more()).then_some(self.next)
    }

    /// Encodes the message of [`Replay::next_number`] again, or lets a gap fill cover it.
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

    /// Ends a chunk. The replay is over when there was nothing left to encode.
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

    /// MsgSeqNum(34) and NewSeqNo(36) of the gap fill that the replay writes from an empty store.
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

    /// Answered with what is behind the reset, a request of before it would be answered before the
    /// reset itself (simulated worlds, resets, seeds 1014744 and 5073915).
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
