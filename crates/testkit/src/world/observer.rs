//! The observer reads the wire and finds frames that no honest session may write.
//!
//! Laws: each frame is valid. Each number is new once, in ascending order, and restarts only with a
//! reset. A resent message equals the original and is marked as PossDup. A gap fill covers no
//! application message. The same ResendRequest(2) is not repeated at once. An honest counterparty's
//! frame is never rejected.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use transfix_codec::{CheckSumPolicy, FieldIndex, Frame, Limits, Message, Timestamp, frame, tag};

use super::trace::Trace;

/// The side that accepts connections.
const ACCEPTOR: usize = 1;

/// Minimum time before a ResendRequest(2) is repeated. Sessions repeat after 20 s; early versions
/// send whole seconds.
const REPEAT_MIN: i64 = 19_000_000_000;

/// Number of early ResendRequest(2)s that a session remembers as answered.
const EARLY_REQUESTS_MAX: u64 = 1_000;

/// Faults and settings of the world that permit more frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tolerance {
    /// Numbers may restart at 1 without ResetSeqNumFlag(141).
    pub(super) silent_resets: bool,
    /// Numbers may restart at 1 with ResetSeqNumFlag(141).
    pub(super) asked_resets: bool,
    /// Wall clocks jump.
    pub(super) jumps: bool,
    /// Bits are flipped in transit.
    pub(super) damage: bool,
    /// Reject(3) is resent on request.
    pub(super) resend_rejects: bool,
    /// Nothing is damaged, given up, or dropped for lack of room.
    pub(super) complete: bool,
    /// The application refuses messages with Reject(3).
    pub(super) refusals: bool,
    /// All frames come from sessions that follow the rules; otherwise only the frames themselves
    /// are checked.
    pub(super) honest: bool,
}

/// A frame as it was first sent.
struct Original {
    application: bool,
    /// True if the frame may be resent.
    resent: bool,
    body: u64,
    sending_time: Vec<u8>,
}

/// The frames that one side has written.
#[derive(Default)]
pub(super) struct Written {
    partial: Vec<u8>,
    /// Numbers of the first and the last new frame on this connection.
    first: Option<u64>,
    last: Option<u64>,
    /// True if messages may be numbered and stored without being written: our Logon(A) is
    /// unanswered, or Logout(5) has been sent.
    stores_late: bool,
    last_is_logout: bool,
    /// Numbers on this connection that were stored but not written.
    skipped: Vec<Range<u64>>,
    /// Highest number since the last reset, and the frames sent since.
    highest: u64,
    originals: HashMap<u64, Original>,
    /// ClOrdID(11) of all written orders, by number.
    pub(super) orders: HashMap<u64, u64>,
    /// The numbers restart with the next Logon(A).
    starts_again: bool,
    /// The counterparty answered our Logon(A) with a reset, so our Logon(A) has number 1.
    logon_is_first: bool,
    /// BeginSeqNo(7) and SendingTime(52) of the last ResendRequest(2) of this connection.
    request: Option<(u64, Timestamp)>,
    /// BeginSeqNo(7) of the operator's ResendRequest(2)s, which are not checked.
    pub(super) operator_requests: Vec<u64>,
    pub(super) at: u64,
    pub(super) test_request_at: u64,
    /// Unanswered TestRequest(1)s on this connection: number and TestReqID(112).
    pub(super) asked: Vec<(u64, Vec<u8>)>,
    pub(super) frames: u64,
    /// True after a Logout(5) on this connection.
    pub(super) logged_out: bool,
    /// RefSeqNum(45) of the last Reject(3).
    pub(super) rejected: Option<u64>,
    pub(super) requests: u64,
}

/// Observes both directions.
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

    /// Records that the numbers of this side restart.
    pub(super) fn reset(&mut self, side: usize) {
        let fair = self.tolerance.silent_resets || self.tolerance.asked_resets;
        assert!(fair || !self.tolerance.honest, "side {side} resets its numbers unasked");
        let written = &mut self.sides[side];
        match written.first {
            // Frames that wait for the connection are sent after the reset, with their old numbers.
            Some(_) => written.starts_again = true,
            None => written.start_again(),
        }
    }

    /// Forgets all frames, because they belong to another session now.
    pub(super) fn forget(&mut self) {
        self.sides = [Written::default(), Written::default()];
    }

    /// Records bytes written by `side`.
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
            // A frame that refuses a Logon(A) is the first on its connection and consumes no
            // number.
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
    /// Checks that a ResendRequest(2) asks for a missing message. Messages on this connection come
    /// in order. Only messages before the first one, or messages stored without being written, can
    /// be missing.
    fn check_need(&self, side: usize, message: &Message<'_>) {
        let begin = message.uint(tag::BEGIN_SEQ_NO).expect("it has BeginSeqNo(7)");
        let other = &self.sides[1 - side];
        let first = other.first;
        // A session answers early ResendRequest(2)s at once, but remembers only
        // `EARLY_REQUESTS_MAX` of them. Further requests are sent again (applications, seed
        // 20261772992: 1,100 in one gap).
        let many = other.requests > EARLY_REQUESTS_MAX;
        let stored_late = other.skipped.iter().any(|numbers| numbers.contains(&begin));
        let missing = first.is_none_or(|first| begin < first) || many || stored_late;
        assert!(missing, "side {side} asks for {begin}, which it has: {first:?} came first");
    }
}

impl Written {
    /// Returns true if the written bytes end with a whole message.
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

    /// Checks a new number: the next number, or 1 with a reset.
    fn check_number(&mut self, side: usize, seq: u64, message: &Message<'_>, tolerance: Tolerance) {
        let flagged = message.flag(tag::RESET_SEQ_NUM_FLAG) == Ok(true);
        if seq == 1 && self.highest > 0 && message.msg_type() == b"A" {
            assert!(flagged && tolerance.asked_resets, "side {side} starts again at 1 unasked");
            self.start_again();
        }
        // No message has followed our Logon(A).
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

    /// Records the effects of a new frame.
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
        // SendingTime(52) counts, not the time of writing: the frame may have waited for the
        // connection.
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
            // The message was numbered but never written.
            let next = message.uint(tag::NEW_SEQ_NO).unwrap_or(seq + 1);
            self.highest = self.highest.max(next - 1);
        }
        assert!(seq <= self.highest, "side {side} sends {seq} again, which it has not sent");
        if message.msg_type() == b"4" {
            let next = message.uint(tag::NEW_SEQ_NO).expect("SequenceReset(4) has NewSeqNo(36)");
            assert!(next > seq, "side {side} fills a gap backwards, from {seq} to {next}");
            assert!(next <= self.highest + 1, "side {side} fills up to {next}, not used yet");
            let lost = (seq..next).find(|n| self.originals.get(n).is_some_and(|o| o.application));
            // A gap fill covers a kept ResendRequest(2), so the session forgets the request.
            self.asked.retain(|(n, _)| !(seq..next).contains(n));
            assert!(lost.is_none(), "side {side} fills over the application message {lost:?}");
            return;
        }
        let original_time = message.raw(tag::ORIG_SENDING_TIME);
        assert!(original_time.is_some(), "a PossDup without OrigSendingTime(122)");
        let Some(original) = self.originals.get(&seq) else { return };
        assert!(original.resent, "side {side} sends an administrative message again: {seq}");
        assert_eq!(original.body, body(message), "side {side} sends {seq} again with other fields");
        // An earlier time is valid only if the clock went back since.
        let time = original_time.unwrap_or_default();
        assert!(time <= &original.sending_time[..], "side {side}: OrigSendingTime(122) of {seq}");
    }
}

/// Returns a hash of the application's fields, without header and trailer.
fn body(message: &Message<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for field in message.fields() {
        if !matches!(field.tag.0, 8 | 9 | 10 | 34 | 43 | 49 | 52 | 56 | 97 | 122 | 369) {
            (field.tag.0, field.value).hash(&mut hasher);
        }
    }
    hasher.finish()
}
