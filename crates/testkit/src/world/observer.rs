//! The observer reads along on the wire, and finds frames that no honest session may write.
//!
//! Laws: each frame is sound. Each number is new once, in ascending order, and starts again only
//! with a reset. A resent message is the original, marked as such. A gap fill covers no application
//! message. The same ResendRequest(2) is not repeated at once. Nobody rejects an honest
//! counterparty's frame.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use transfix_codec::{CheckSumPolicy, FieldIndex, Frame, Limits, Message, Timestamp, frame, tag};

use super::trace::Trace;

/// The side that accepts connections.
const ACCEPTOR: usize = 1;

/// A ResendRequest(2) without an effect is repeated after 20 s, not sooner; early versions send
/// whole seconds.
const REPEAT_MIN: i64 = 19_000_000_000;

/// How many early messages a session remembers as dealt with.
const EARLY_REQUESTS_MAX: u64 = 1_000;

/// Faults and settings of the world that make more frames lawful.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tolerance {
    /// Numbers may start again at 1 without ResetSeqNumFlag(141).
    pub(super) silent_resets: bool,
    /// Numbers may start again at 1 with it.
    pub(super) asked_resets: bool,
    /// Wall clocks jump.
    pub(super) jumps: bool,
    /// Bits are flipped on the way.
    pub(super) damage: bool,
    /// Reject(3) is sent again when asked for.
    pub(super) resend_rejects: bool,
    /// Nothing is damaged, given up, or dropped for want of room.
    pub(super) complete: bool,
    /// The application refuses messages, and says so with Reject(3).
    pub(super) refusals: bool,
    /// All is written by sessions that follow the rules; else only frames are looked at.
    pub(super) honest: bool,
}

/// One frame that was new once.
struct Original {
    application: bool,
    /// True if it may be sent again.
    resent: bool,
    body: u64,
    sending_time: Vec<u8>,
}

/// The frames that one side has written.
#[derive(Default)]
pub(super) struct Written {
    partial: Vec<u8>,
    /// The numbers of the first and the last new frame of this connection.
    first: Option<u64>,
    last: Option<u64>,
    /// Messages may be numbered and stored now without being written: our Logon(A) is not
    /// answered, or Logout(5) has been sent.
    stores_late: bool,
    last_is_logout: bool,
    /// Numbers of this connection that were stored in place of being written.
    skipped: Vec<Range<u64>>,
    /// The highest number used since the last reset, and what was sent since.
    highest: u64,
    originals: HashMap<u64, Original>,
    /// ClOrdID(11) of all orders written, by number.
    pub(super) orders: HashMap<u64, u64>,
    /// The numbers start again with the next Logon(A).
    starts_again: bool,
    /// The counterparty has answered our Logon(A) with a reset: that was our number 1.
    logon_is_first: bool,
    /// BeginSeqNo(7) and SendingTime(52) of the last ResendRequest(2) of this connection.
    request: Option<(u64, Timestamp)>,
    /// BeginSeqNo(7) of ResendRequests(2) of the operator's, which are not judged.
    pub(super) operator_requests: Vec<u64>,
    pub(super) at: u64,
    pub(super) test_request_at: u64,
    /// TestRequests(1) of this connection that wait for their answer: number and TestReqID(112).
    pub(super) asked: Vec<(u64, Vec<u8>)>,
    pub(super) frames: u64,
    /// A Logout(5) on this connection.
    pub(super) logged_out: bool,
    /// RefSeqNum(45) of the last Reject(3).
    pub(super) rejected: Option<u64>,
    pub(super) requests: u64,
}

/// Reads both directions.
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

    /// A new connection of this side.
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

    /// The numbers of this side start again.
    pub(super) fn reset(&mut self, side: usize) {
        let fair = self.tolerance.silent_resets || self.tolerance.asked_resets;
        assert!(fair || !self.tolerance.honest, "side {side} resets its numbers unasked");
        let written = &mut self.sides[side];
        match written.first {
            // The frames that wait for the connection leave after the reset, with the old numbers.
            Some(_) => written.starts_again = true,
            None => written.start_again(),
        }
    }

    /// Forgets all frames: they belong to another session now.
    pub(super) fn forget(&mut self) {
        self.sides = [Written::default(), Written::default()];
    }

    /// Bytes have left `side`.
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
            // The first word of the connection: it refuses a Logon(A), and takes no number.
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
    /// in order. Only messages before the first one, or those stored without being written, can be
    /// missing.
    fn check_need(&self, side: usize, message: &Message<'_>) {
        let begin = message.uint(tag::BEGIN_SEQ_NO).expect("it has BeginSeqNo(7)");
        let other = &self.sides[1 - side];
        let first = other.first;
        // A session answers early ResendRequest(2)s at once. It remembers only `EARLY_REQUESTS_MAX`
        // of these requests, and asks for the others again (applications, seed 20261772992: 1,100
        // of them in one gap).
        let many = other.requests > EARLY_REQUESTS_MAX;
        let stored_late = other.skipped.iter().any(|numbers| numbers.contains(&begin));
        let missing = first.is_none_or(|first| begin < first) || many || stored_late;
        assert!(missing, "side {side} asks for {begin}, which it has: {first:?} came first");
    }
}

impl Written {
    /// Returns true if all that was written is whole messages.
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

    /// A new number: the next one, or 1 with a reset.
    fn check_number(&mut self, side: usize, seq: u64, message: &Message<'_>, tolerance: Tolerance) {
        let flagged = message.flag(tag::RESET_SEQ_NUM_FLAG) == Ok(true);
        if seq == 1 && self.highest > 0 && message.msg_type() == b"A" {
            assert!(flagged && tolerance.asked_resets, "side {side} starts again at 1 unasked");
            self.start_again();
        }
        // Nothing has followed our Logon(A).
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

    /// Notes the changes that a new frame makes.
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
        // When it was said, not when it left: it may have waited for the connection.
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
            // It was numbered and never written.
            let next = message.uint(tag::NEW_SEQ_NO).unwrap_or(seq + 1);
            self.highest = self.highest.max(next - 1);
        }
        assert!(seq <= self.highest, "side {side} sends {seq} again, which it has not sent");
        if message.msg_type() == b"4" {
            let next = message.uint(tag::NEW_SEQ_NO).expect("SequenceReset(4) has NewSeqNo(36)");
            assert!(next > seq, "side {side} fills a gap backwards, from {seq} to {next}");
            assert!(next <= self.highest + 1, "side {side} fills up to {next}, not used yet");
            let lost = (seq..next).find(|n| self.originals.get(n).is_some_and(|o| o.application));
            // A session that has kept this ResendRequest(2) above the gap forgets the request then.
            self.asked.retain(|(n, _)| !(seq..next).contains(n));
            assert!(lost.is_none(), "side {side} fills over the application message {lost:?}");
            return;
        }
        let original_time = message.raw(tag::ORIG_SENDING_TIME);
        assert!(original_time.is_some(), "a PossDup without OrigSendingTime(122)");
        let Some(original) = self.originals.get(&seq) else { return };
        assert!(original.resent, "side {side} sends an administrative message again: {seq}");
        assert_eq!(original.body, body(message), "side {side} sends {seq} again with other fields");
        // An earlier one is lawful only where the clock went back since.
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
