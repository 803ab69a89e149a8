//! The messages of the scenario as bytes: the orders to send, and a counter of received messages.

use std::io;

use transfix::{Precision, Timestamp, tag};
use transfix_codec::FrameWriter;

use super::super::s1;

/// SenderCompID(49) of the side under test.
pub(super) const VENUE: &str = "VENUE";

/// Returns the SenderCompID(49) of session `n`.
pub(super) fn client(n: usize) -> String {
    format!("C{n}")
}

/// Writes the messages of one session, in the order of sending.
///
/// The orders are those of scenario S1. Only their numbers differ; the numbers are patched into
/// bytes that are created once per slice.
pub(crate) struct Orders {
    /// SenderCompID(49) and TargetCompID(56).
    names: [String; 2],
    /// ClientID(109), in scenarios whose orders have this field.
    client: Option<String>,
    /// MsgSeqNum(34) of the latest message.
    seq: u64,
    frame: Vec<u8>,
    /// Offsets in `frame` of the digits of MsgSeqNum(34), ClOrdID(11) and CheckSum(10).
    places: [usize; 3],
    /// Number of digits of MsgSeqNum(34) and ClOrdID(11) in `frame`; 0 if `frame` must be created.
    digits: usize,
    /// Sum of all bytes before CheckSum(10), except the digits of the two numbers.
    sum: u32,
    stamp: Timestamp,
}

impl Orders {
    pub(crate) fn between(sender: &str, target: &str, client: Option<&str>) -> Self {
        Self {
            names: [sender, target].map(str::to_owned),
            client: client.map(str::to_owned),
            seq: 0,
            frame: Vec::new(),
            places: [0; 3],
            digits: 0,
            sum: 0,
            stamp: Timestamp::default(),
        }
    }

    /// Returns the Logon(A), with a HeartBtInt(108) longer than the run.
    pub(crate) fn logon(&mut self, now: Timestamp) -> Vec<u8> {
        self.seq += 1;
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.2", b"A");
        let [sender, target] = &self.names;
        frame.raw(format!("49={sender}\x0156={target}\x01").as_bytes());
        frame.header_uint(tag::MSG_SEQ_NUM, self.seq);
        frame.header_timestamp(tag::SENDING_TIME, now, Precision::Millis);
        frame.raw(b"98=0\x01108=3600\x01");
        // The frame has valid fields, so encoding cannot fail.
        let _ = frame.finish();
        out
    }

    /// Returns the number of the next order, used as MsgSeqNum(34) and ClOrdID(11).
    pub(crate) const fn next_number(&self) -> u64 {
        self.seq + 1
    }

    /// Sets the SendingTime(52) of all later messages.
    pub(crate) fn stamp(&mut self, now: Timestamp) {
        self.stamp = now;
        self.digits = 0;
    }

    /// Appends the next order to `out`.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>) {
        self.seq += 1;
        let digits = self.seq.ilog10() as usize + 1;
        if digits != self.digits {
            self.make(digits);
        }
        let begin = out.len();
        out.extend_from_slice(&self.frame);
        let frame = &mut out[begin..];
        let (mut left, mut sum) = (self.seq, self.sum);
        for i in (0..digits).rev() {
            let digit = b'0' + (left % 10) as u8;
            left /= 10;
            sum += 2 * u32::from(digit);
            frame[self.places[0] + i] = digit;
            frame[self.places[1] + i] = digit;
        }
        let sum = (sum % 256) as u8;
        let digits = [sum / 100, sum / 10 % 10, sum % 10].map(|digit| b'0' + digit);
        frame[self.places[2]..][..3].copy_from_slice(&digits);
    }

    fn make(&mut self, digits: usize) {
        let number = "0".repeat(digits);
        self.frame.clear();
        let mut frame = FrameWriter::new(&mut self.frame, b"FIX.4.2", b"D");
        let [sender, target] = &self.names;
        frame.raw(format!("49={sender}\x0156={target}\x0134={number}\x01").as_bytes());
        frame.header_timestamp(tag::SENDING_TIME, self.stamp, Precision::Millis);
        frame.raw(format!("11={number}\x01").as_bytes());
        s1::Order::write_rest(frame.body(Precision::Millis), 5, self.stamp, self.client.as_deref());
        // The frame has valid fields, so encoding cannot fail.
        let _ = frame.finish();
        let place = |field: String| {
            let found = self.frame.windows(field.len()).position(|bytes| bytes == field.as_bytes());
            found.map_or(0, |at| at + 4)
        };
        let check_sum = self.frame.len() - 4;
        self.places =
            [place(format!("\x0134={number}")), place(format!("\x0111={number}")), check_sum];
        let covered = &self.frame[..check_sum - 3];
        let all: u32 = covered.iter().map(|byte| u32::from(*byte)).sum();
        self.sum = all - 2 * digits as u32 * u32::from(b'0');
        self.digits = digits;
    }
}

/// Counts received messages by their BodyLength(9).
#[derive(Default)]
pub(crate) struct Frames {
    /// Number of bytes that the current message still lacks.
    rest: usize,
    /// The first bytes of a message whose BodyLength(9) is incomplete.
    head: Vec<u8>,
}

impl Frames {
    /// Returns the number of messages that are completed by these bytes.
    pub(crate) fn count(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (mut at, mut messages) = (0, 0);
        if !self.head.is_empty() {
            let known = self.head.len();
            self.head.extend_from_slice(&bytes[..bytes.len().min(HEAD_BYTES)]);
            let Some(length) = length(&self.head)? else { return Ok(0) };
            self.head.clear();
            self.rest = length - known;
        }
        loop {
            if self.rest > bytes.len() - at {
                self.rest -= bytes.len() - at;
                return Ok(messages);
            }
            at += self.rest;
            messages += usize::from(self.rest > 0);
            self.rest = 0;
            if at == bytes.len() {
                return Ok(messages);
            }
            match length(&bytes[at..])? {
                Some(length) => self.rest = length,
                None => {
                    self.head.extend_from_slice(&bytes[at..]);
                    return Ok(messages);
                }
            }
        }
    }
}

/// Within this number of bytes, BodyLength(9) must be complete.
const HEAD_BYTES: usize = 32;

/// Returns the length of the message at the start of `bytes`; `None` if its BodyLength(9) is
/// incomplete.
pub(crate) fn length(bytes: &[u8]) -> io::Result<Option<usize>> {
    let head = &bytes[..bytes.len().min(HEAD_BYTES)];
    let soh = |from: usize| head[from..].iter().position(|byte| *byte == 1).map(|at| from + at);
    let Some((begin, end)) = soh(0).and_then(|first| Some((first + 3, soh(first + 1)?))) else {
        return if head.len() < HEAD_BYTES { Ok(None) } else { Err(no_frame(head)) };
    };
    let digits = head.get(begin..end).and_then(|digits| std::str::from_utf8(digits).ok());
    let body: usize = digits.and_then(|text| text.parse().ok()).ok_or_else(|| no_frame(head))?;
    // The total includes the SOH after BodyLength(9), the body, and `10=nnn` with its SOH.
    Ok(Some(end + 1 + body + 7))
}

fn no_frame(head: &[u8]) -> io::Error {
    io::Error::other(format!("not the beginning of a message: {}", head.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfix::Message;
    use transfix_codec::{CheckSumPolicy, FieldIndex};

    #[test]
    fn each_order_is_whole_and_has_the_next_number() {
        let mut orders = Orders::between("C7", VENUE, None);
        let now = Timestamp::parse(b"20261121-12:00:00.123").unwrap();
        let mut all = orders.logon(now);
        orders.stamp(now);
        for _ in 0..120 {
            orders.next(&mut all);
        }
        let (mut index, mut rest, mut seq) = (FieldIndex::default(), &all[..], 0);
        while !rest.is_empty() {
            let bytes = length(rest).unwrap().unwrap();
            let message =
                Message::parse(&rest[..bytes], &mut index, CheckSumPolicy::Verify).unwrap();
            seq += 1;
            assert_eq!(message.uint(tag::MSG_SEQ_NUM).unwrap(), seq);
            assert_eq!(message.raw(tag::SENDER_COMP_ID).unwrap(), b"C7");
            if seq > 1 {
                assert_eq!(message.uint(tag::CL_ORD_ID).unwrap(), seq);
                assert_eq!(message.raw(tag::SYMBOL).unwrap(), b"EU");
            }
            rest = &rest[bytes..];
        }
        assert_eq!(seq, 121);
    }

    #[test]
    fn messages_are_counted_wherever_they_are_cut() {
        let mut orders = Orders::between("C0", VENUE, None);
        let mut all = orders.logon(Timestamp::default());
        (0..3).for_each(|_| orders.next(&mut all));
        for step in 1..all.len() {
            let mut frames = Frames::default();
            let counted = all.chunks(step).map(|bytes| frames.count(bytes).unwrap());
            assert_eq!(counted.sum::<usize>(), 4, "{step} bytes at once");
        }
        assert!(Frames::default().count(b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n").is_err());
    }
}
