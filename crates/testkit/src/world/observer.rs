//! The observer reads all bytes on the wire and detects frames that no honest session may write.
//! Laws: each frame is well-formed. New messages have ascending, unique numbers, which restart only
//! with a reset. A resent message equals the original and is marked as a duplicate. A gap fill
//! covers no application message. A session does not repeat a ResendRequest(2) at once. No session
//! rejects a frame of an honest counterparty.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use transfix_codec::{CheckSumPolicy, FieldIndex, Frame, Limits, Message, Timestamp, frame, tag};

use super::trace::Trace;

/// The index of the side that accepts the connections.
const ACCEPTOR: usize = 1;

/// The minimum time between two equal ResendRequests(2), in nanoseconds. The engine waits 20 s, but
/// early FIX versions send times in whole seconds.
const REPEAT_MIN: i64 = 19_000_000_000;

/// The maximum number of early ResendRequests(2) that a session remembers as handled.
const EARLY_REQUESTS_MAX: u64 = 1_000;

/// The world's faults and settings that permit frames which are errors in other worlds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tolerance {
    /// True if sequence numbers may restart at 1 without ResetSeqNumFlag(141).
    pub(super) silent_resets: bool,
    /// True if sequence numbers may restart at 1 with ResetSeqNumFlag(141).
    pub(super) asked_resets: bool,
    /// True if wall clocks may jump.
    pub(super) jumps: bool,
    /// True if bits may flip in transit.
    pub(super) damage: bool,
    /// True if a session resends a Reject(3) on request.
    pub(super) resend_rejects: bool,
    /// True if no message is damaged, skipped by an operator, or dropped because of a full buffer.
    pub(super) complete: bool,
    /// True if the application rejects messages with Reject(3).
    pub(super) refusals: bool,
    /// True if both sessions follow the rules. If not, the observer checks only that the frames are
    /// well-formed.
    pub(super) honest: bool,
}

/// The first transmission of a frame, to compare with resent frames.
struct Original {
    application: bool,
    /// True if the frame may be resent.
    resent: bool,
    body: u64,
    sending_time: Vec<u8>,
}

/// The frames that one side has written, and the state derived from them.
#[derive(Default)]
pub(super) struct Written {
    partial: Vec<u8>,
    /// The MsgSeqNum(34) of the first new frame on this connection. `last` is the number of the
    /// last new frame.
    first: Option<u64>,
    last: Option<u64>,
    /// True while messages may be numbered and stored without being written. The reason is an
    /// unanswered Logon(A) or a Logout(5) that this side has sent.
    stores_late: bool,
    last_is_logout: bool,
    /// The sequence numbers on this connection whose messages were stored but not written.
    skipped: Vec<Range<u64>>,
    /// The highest sequence number since the last reset. `originals` holds the frames first sent
    /// since that reset.
    highest: u64,
    originals: HashMap<u64, Original>,
    /// The ClOrdID(11) of each order written, by MsgSeqNum(34).
    pub(super) orders: HashMap<u64, u64>,
    /// True if the sequence numbers restart with the next Logon(A).
    starts_again: bool,
    /// True if the counterparty answered this side's Logon(A) with a reset, so that the Logon(A)
    /// then counts as number 1.
    logon_is_first: bool,
    /// The BeginSeqNo(7) and SendingTime(52) of the last ResendRequest(2) on this connection.
    request: Option<(u64, Timestamp)>,
    /// The BeginSeqNo(7) of each ResendRequest(2) that an operator has sent. These requests are not
    /// checked.
    pub(super) operator_requests: Vec<u64>,
    pub(super) at: u64,
    pub(super) test_request_at: u64,
    /// The unanswered TestRequests(1) of this connection: MsgSeqNum(34) and TestReqID(112).
    pub(super) asked: Vec<(u64, Vec<u8>)>,
    pub(super) frames: u64,
    /// True if this side has written a Logout(5) on this connection.
    pub(super) logged_out: bool,
    /// The RefSeqNum(45) of the last Reject(3) that this side has written.
    pub(super) rejected: Option<u64>,
    pub(super) requests: u64,
}

/// The observer of all bytes on the wire, in both directions.
pub(super) struct Observer {
    pub(super) tolerance: Tolerance,
    pub(super) sides: [Written; 2],
    index: FieldIndex,
    trace: Trace,
}

impl Observer {
    pub(super) fn new(tolerance: Tolerance, trace: Trace) -> Self {
        let sides = [Written::default(), Written::default()];
        Self { tolerance, sides, index: FieldIndex::default(), trace }
    }

    /// Records a new connection of this side.
    pub(super) fn connected(&mut self, side: usize) {
        let written = &mut self.sides[side];
        if written.starts_again {
            written.start_again();
        }
        written.partial.clear();
        written.first = None;
        written.last = None;
        written.request = None;
        written.logon_is_first = false;
        written.asked.clear();
        written.logged_out = false;
        written.operator_requests.clear();
        written.test_request_at = 0;
        self.sides[1 - side].asked.clear();
    }

    /// Records that the sequence numbers of this side restart.
    pub(super) fn reset(&mut self, side: usize) {
        let fair = self.tolerance.silent_resets || self.tolerance.asked_resets;
        assert!(fair || !self.tolerance.honest, "side {side} resets its numbers unasked");
        let written = &mut self.sides[side];
        match written.first {
            // Frames that still wait for the connection are written after the reset, with their old
            // numbers.
            Some(_) => written.starts_again = true,
            None => written.start_again(),
        }
    }

    /// Discards all recorded frames, because they belong to an earlier session.
    pub(super) fn forget(&mut self) {
        self.sides = [Written::default(), Written::default()];
    }

    /// Checks the bytes that `side` has written at the time `now`.
    pub(super) fn written(&mut self, now: u64, side: usize, bytes: &[u8]) {
        let mut partial = std::mem::take(&mut self.sides[side].partial);
        partial.extend_from_slice(bytes);
        let mut begin = 0;
        loop {
            match frame::split(&partial[begin..], Limits::default()) {
                Frame::Whole(end) => {
                    let mut index = std::mem::take(&mut self.index);
                    let frame = &partial[begin..begin + end];
                    match Message::parse(frame, &mut index, CheckSumPolicy::Verify) {
                        Ok(message) => self.frame(now, side, &message),
                        Err(why) => panic!("side {side} writes what is no message: {why}"),
                    }
                    self.index = index;
                    begin += end;
                }
                Frame::Partial => break,
                Frame::Garbled { reason, .. } => panic!("side {side} writes garbage: {reason}"),
                Frame::TooLong { end } => panic!("side {side} writes a message of {end} bytes"),
            }
        }
        partial.drain(..begin);
        self.sides[side].partial = partial;
    }

    fn frame(&mut self, now: u64, side: usize, message: &Message<'_>) {
        self.trace.add(now, || {
            let text = String::from_utf8_lossy(message.bytes()).replace('\x01', "|");
            format!("{} {text}", ["initiator >", "         < acceptor"][side])
        });
        let written = &mut self.sides[side];
        written.frames += 1;
        written.at = now;
        match message.msg_type().as_bytes() {
            b"3" if message.raw(tag::POSS_DUP_FLAG).is_none() => {
                written.rejected = message.uint(tag::REF_SEQ_NUM).ok();
            }
            b"5" => written.logged_out = true,
            _ => {}
        }
        if !self.tolerance.honest {
            return;
        }
        let seq = message.msg_seq_num().expect("every message has MsgSeqNum(34)");
        if let Ok(id) = message.uint(tag::CL_ORD_ID) {
            written.orders.insert(seq, id);
        }
        if message.flag(tag::POSS_DUP_FLAG) == Ok(true) {
            written.check_duplicate(side, seq, message);
            return;
        }
        if side == ACCEPTOR && message.msg_type() == b"5" && written.last.is_none() {
            // The connection begins with a Logout(5) that refuses a Logon(A), and that uses no
            // sequence number.
            assert!(seq > written.highest, "side {side} refuses with {seq}, which it has used");
            return;
        }
        written.check_number(side, seq, message, self.tolerance);
        if message.msg_type() == b"2"
            && written.operator_requests.is_empty()
            && self.tolerance.complete
        {
            self.check_need(side, message);
        }
        if message.msg_type() == b"A" && message.flag(tag::RESET_SEQ_NUM_FLAG) == Ok(true) {
            self.sides[1 - side].logon_is_first = true;
        }
        let written = &mut self.sides[side];
        written.note(now, side, seq, message, self.tolerance);
        if message.msg_type() == b"3" {
            let fair = self.tolerance.damage || self.tolerance.refusals;
            assert!(fair, "side {side} rejects a message of an honest counterparty");
        }
        if message.msg_type() == b"0"
            && let Some(id) = message.raw(tag::TEST_REQ_ID)
        {
            self.sides[1 - side].asked.retain(|(_, asked)| asked != id);
        }
    }
}

impl Observer {
    /// Checks that a ResendRequest(2) asks for a message that may be missing. Messages on one
    /// connection arrive in order. Therefore only messages from before the connection, or messages
    /// stored without being written, can be missing.
    fn check_need(&self, side: usize, message: &Message<'_>) {
        let begin = message.uint(tag::BEGIN_SEQ_NO).expect("it has BeginSeqNo(7)");
        let other = &self.sides[1 - side];
        let first = other.first;
        // A session answers early ResendRequests(2) at once, but remembers only
        // `EARLY_REQUESTS_MAX` of them and asks for the other ones again. Example: in the world of
        // kind "applications" with seed 20261772992, one gap contains 1,100 early requests.
        let many = other.requests > EARLY_REQUESTS_MAX;
        let stored_late = other.skipped.iter().any(|numbers| numbers.contains(&begin));
        let missing = first.is_none_or(|first| begin < first) || many || stored_late;
        assert!(missing, "side {side} asks for {begin}, which it has: {first:?} came first");
    }
}

impl Written {
    /// Returns true if the bytes written so far end with a whole message.
    pub(super) const fn is_between_messages(&self) -> bool {
        self.partial.is_empty()
    }

    fn start_again(&mut self) {
        self.starts_again = false;
        self.request = None;
        self.highest = 0;
        self.first = None;
        self.last = None;
        self.originals.clear();
    }

    /// Checks the sequence number of a new message: the number is the next one, or 1 after a reset.
    fn check_number(&mut self, side: usize, seq: u64, message: &Message<'_>, tolerance: Tolerance) {
        let flagged = message.flag(tag::RESET_SEQ_NUM_FLAG) == Ok(true);
        if seq == 1 && self.highest > 0 && message.msg_type() == b"A" {
            assert!(flagged && tolerance.asked_resets, "side {side} starts again at 1 unasked");
            self.start_again();
        }
        // No frame has followed this side's Logon(A), which a reset has turned into number 1.
        if seq == 2 && self.logon_is_first && self.first == self.last {
            self.start_again();
            self.last = Some(1);
        }
        match self.last {
            Some(last) => {
                let skips = self.stores_late && seq > last;
                assert!(seq == last + 1 || skips, "side {side}: {seq} follows {last}");
                if seq > last + 1 {
                    self.skipped.push(last + 1..seq);
                }
            }
            None => {
                assert!(seq > self.highest, "side {side} uses MsgSeqNum(34) {seq} twice");
                self.stores_late = false;
                self.skipped.clear();
            }
        }
        let has_logged_out = self.stores_late && self.last_is_logout;
        self.last_is_logout = has_logged_out || message.msg_type() == b"5";
        self.stores_late = self.last_is_logout || message.msg_type() == b"A";
        self.first = self.first.or(Some(seq));
        self.last = Some(seq);
        self.highest = seq;
    }

    /// Updates the state of this side after a new frame.
    fn note(
        &mut self,
        now: u64,
        side: usize,
        seq: u64,
        message: &Message<'_>,
        tolerance: Tolerance,
    ) {
        let administrative = matches!(message.msg_type().as_bytes(), [b'0'..=b'5' | b'A']);
        let original = Original {
            application: !administrative,
            resent: !administrative || (message.msg_type() == b"3" && tolerance.resend_rejects),
            body: body(message),
            sending_time: message.raw(tag::SENDING_TIME).unwrap_or_default().to_vec(),
        };
        self.originals.insert(seq, original);
        match message.msg_type().as_bytes() {
            b"1" => {
                self.test_request_at = now;
                let id = message.raw(tag::TEST_REQ_ID).unwrap_or_default();
                self.asked.push((seq, id.to_vec()));
            }
            b"2" => self.check_request(side, message, tolerance),
            b"4" if message.flag(tag::GAP_FILL_FLAG) != Ok(true) => {
                let next =
                    message.uint(tag::NEW_SEQ_NO).expect("SequenceReset(4) has NewSeqNo(36)");
                assert!(next > seq, "side {side} resets backwards, from {seq} to {next}");
                self.last = Some(next - 1);
                self.highest = next - 1;
            }
            _ => {}
        }
    }

    fn check_request(&mut self, side: usize, message: &Message<'_>, tolerance: Tolerance) {
        let begin = message.uint(tag::BEGIN_SEQ_NO).expect("it has BeginSeqNo(7)");
        if let Some(at) = self.operator_requests.iter().position(|asked| *asked == begin) {
            self.operator_requests.remove(at);
            return;
        }
        self.requests += 1;
        // The check uses SendingTime(52), because the request may have waited for the connection.
        let sent = message.timestamp(tag::SENDING_TIME).expect("it has SendingTime(52)");
        if let Some((before, at)) = self.request.filter(|_| !tolerance.jumps) {
            let again = before == begin && sent.since(at) < REPEAT_MIN;
            assert!(!again, "side {side} asks twice at once for all from {begin} on");
        }
        self.request = Some((begin, sent));
    }

    /// Checks that a resent message equals the original.
    fn check_duplicate(&mut self, side: usize, seq: u64, message: &Message<'_>) {
        if self.stores_late {
            // The missing message was numbered and stored, but never written.
            let next = message.uint(tag::NEW_SEQ_NO).unwrap_or(seq + 1);
            self.highest = self.highest.max(next - 1);
        }
        assert!(seq <= self.highest, "side {side} sends {seq} again, which it has not sent");
        if message.msg_type() == b"4" {
            let next = message.uint(tag::NEW_SEQ_NO).expect("SequenceReset(4) has NewSeqNo(36)");
            assert!(next > seq, "side {side} fills a gap backwards, from {seq} to {next}");
            assert!(next <= self.highest + 1, "side {side} fills up to {next}, not used yet");
            let lost = (seq..next).find(|n| self.originals.get(n).is_some_and(|o| o.application));
            // A TestRequest(1) that the gap fill covers needs no answer any more: a counterparty
            // that held the request behind the gap discards it.
            self.asked.retain(|(n, _)| !(seq..next).contains(n));
            assert!(lost.is_none(), "side {side} fills over the application message {lost:?}");
            return;
        }
        let original_time = message.raw(tag::ORIG_SENDING_TIME);
        assert!(original_time.is_some(), "a PossDup without OrigSendingTime(122)");
        let Some(original) = self.originals.get(&seq) else { return };
        assert!(original.resent, "side {side} sends an administrative message again: {seq}");
        assert_eq!(original.body, body(message), "side {side} sends {seq} again with other fields");
        // OrigSendingTime(122) is never later than the SendingTime(52) of the original. It may be
        // earlier if the wall clock has jumped back.
        let time = original_time.unwrap_or_default();
        assert!(time <= &original.sending_time[..], "side {side}: OrigSendingTime(122) of {seq}");
    }
}

/// Returns a hash of the application's fields, without the header and the trailer.
fn body(message: &Message<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for field in message.fields() {
        if !matches!(field.tag.0, 8 | 9 | 10 | 34 | 43 | 49 | 52 | 56 | 97 | 122 | 369) {
            (field.tag.0, field.value).hash(&mut hasher);
        }
    }
    hasher.finish()
}
