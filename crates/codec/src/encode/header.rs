//! The message header of a session, prepared so that only the variable values are written for each
//! message.
//!
//! All header fields are constant except MsgType(35), MsgSeqNum(34) and SendingTime(52), and
//! BodyLength(9).

use alloc::vec::Vec;
use core::hint::cold_path;

use super::moment::{Minute, seconds};
use super::piece::Piece;
use super::tail::{self, Tail};
use super::text::{self, EIGHT_DIGITS, Short};
use super::{BODY_LENGTH_DIGITS, Body, FrameWriter, Head, MSG_TYPE_HEAD, Summed, length_room};
use crate::{Misuse, MsgType, Precision, SOH, Timestamp, tag};

/// The prepared header for all messages of one session.
/// ```
/// use transfix_codec::{Precision, Timestamp, encode::Header, tag};
///
/// let mut header = Header::new(b"FIX.4.4", b"49=US\x0156=THEM\x01").seq_digits_min(6);
/// let mut out = Vec::new();
/// let mut frame = header.frame(&mut out, b"D", 123, (Timestamp(0), Precision::Millis));
/// frame.body(Precision::Millis).str(tag::CL_ORD_ID, "17");
/// frame.finish()?;
/// let text = String::from_utf8(out).unwrap().replace('\x01', "|");
/// assert!(text.starts_with(
///     "8=FIX.4.4|9=60|35=D|49=US|56=THEM|34=000123|52=19700101-00:00:00.000|11=17|10="
/// ));
/// # Ok::<(), transfix_codec::Misuse>(())
/// ```
#[derive(Clone, Debug)]
pub struct Header {
    /// The constant beginning of every header: BeginString(8) and the tag of BodyLength(9).
    start: Piece<32>,
    /// The constant bytes between the value of MsgType(35) and the value of MsgSeqNum(34).
    constant: Piece<64>,
    /// Digits of BodyLength(9) for a message with a minimal body: 2 or 3.
    digits_min: usize,
    seq_digits_min: usize,
    /// The minute of the last SendingTime(52), cached as text.
    minute: Minute,
}

impl Header {
    /// Creates a header; `constant` consists of whole fields with their delimiters, such as the
    /// CompIDs.
    #[must_use]
    pub fn new(begin_string: &[u8], constant: &[u8]) -> Self {
        // The shortest body length is estimated for a four-digit MsgSeqNum(34) and milliseconds.
        let least = constant.len() + b"35=0|34=0000|52=YYYYMMDD-HH:MM:SS.sss|".len();
        Self {
            start: Piece::new(&[b"8=", begin_string, b"\x019="].concat()),
            constant: Piece::new(&[constant, b"34="].concat()),
            digits_min: if least < 100 { 2 } else { BODY_LENGTH_DIGITS },
            seq_digits_min: 1,
            minute: Minute::FIRST,
        }
    }

    /// Sets the minimum number of digits of MsgSeqNum(34), padded with leading zeros; default 1.
    #[must_use]
    pub const fn seq_digits_min(mut self, digits: usize) -> Self {
        self.seq_digits_min = digits;
        self
    }

    /// Begins a message of type `msg_type` at the end of `out`, and writes its header.
    #[inline(always)]
    #[must_use]
    pub fn frame<'b>(
        &mut self,
        out: &'b mut Vec<u8>,
        msg_type: impl AsRef<[u8]>,
        msg_seq_num: u64,
        (sending_time, precision): (Timestamp, Precision),
    ) -> FrameWriter<'b> {
        // The copy of the minute stays in registers: writing parts of the field in memory and
        // copying all of it costs 8 ns more.
        let (begin, mut minute) = (out.len(), self.minute);
        let msg_type = MsgType::of(msg_type.as_ref());
        // Administrative messages have a short or empty body.
        let is_short = msg_type.is_administrative();
        let digits = if is_short { self.digits_min } else { BODY_LENGTH_DIGITS };
        let mut tail = Tail::with_room(out, if is_short { HEADER_ROOM } else { tail::ROOM });
        let values = (msg_seq_num, sending_time, precision);
        let (counted, summed) =
            match self.write_usual(&mut tail, (msg_type, digits), values, &mut minute) {
                // For an application message, vector code sums the header together with the body.
                Some((counted, _)) if !is_short => (counted, Summed { end: begin, sum: 0 }),
                Some(written) => written,
                None => {
                    cold_path();
                    let counted;
                    // `tail` and `minute` are passed by value: a variable whose address is taken
                    // stays in memory instead of registers.
                    (tail, minute, counted) =
                        self.write_any((tail, minute), (msg_type, digits), values);
                    (counted, Summed { end: begin, sum: 0 })
                }
            };
        self.minute = minute;
        let misuse = (!msg_type.is_valid()).then_some(Misuse::MsgType);
        let body = Body { tail, precision: Precision::default(), misuse, minute };
        FrameWriter { body, begin, counted, digits, summed }
    }

    /// Writes a common header with constant-size stores.
    ///
    /// Returns the offset where BodyLength(9) starts to count, and the sum of the written bytes;
    /// `None` if a part is too long for this path.
    #[inline(always)]
    fn write_usual(
        &self,
        tail: &mut Tail<'_>,
        (msg_type, digits): (MsgType<'_>, usize),
        (seq, time, precision): (u64, Timestamp, Precision),
        minute: &mut Minute,
    ) -> Option<(usize, Summed)> {
        let msg_type = text::load_short(msg_type.as_bytes())?;
        let (start, constant) = (self.start.short()?, self.constant.short()?);
        if seq >= EIGHT_DIGITS {
            return None;
        }
        let begin = tail.end();
        let mut room = HeaderBuffer { bytes: tail.fresh(), at: 0, sum: 0 };
        room.piece(start);
        room.short(length_room(digits));
        let counted = begin.wrapping_add(room.at).wrapping_sub(MSG_TYPE_HEAD);
        room.short(msg_type);
        room.short(DELIMITER);
        room.piece(constant);
        room.short(Short::digits(seq, self.seq_digits_min.clamp(1, 8)));
        room.short(SENDING_TIME);
        room.moment(minute, time, precision);
        let (len, sum) = (room.at, room.sum as u8);
        tail.advance(len);
        Some((counted, Summed { end: tail.end(), sum }))
    }

    /// Writes a header with parts of any length. Also returns the offset where BodyLength(9) starts
    /// to count.
    #[inline(never)]
    fn write_any<'b>(
        &self,
        (mut tail, mut minute): (Tail<'b>, Minute),
        (msg_type, digits): (MsgType<'_>, usize),
        (seq, time, precision): (u64, Timestamp, Precision),
    ) -> (Tail<'b>, Minute, usize) {
        self.start.write(&mut tail);
        let zeros = length_room(digits);
        tail.store(&zeros.word.to_le_bytes(), zeros.len);
        let counted = tail.end().wrapping_sub(MSG_TYPE_HEAD);
        tail.slice(msg_type.as_bytes());
        tail.store(&[SOH], 1);
        self.constant.write(&mut tail);
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(seq).as_bytes();
        let zeros = self.seq_digits_min.min(8).saturating_sub(digits.len());
        tail.store(b"00000000", zeros);
        tail.slice(digits);
        tail.store(&[SOH], 1);
        let head = Head::of(tag::SENDING_TIME, &mut tail);
        tail.moment(head, (time, precision), &mut minute);
        (tail, minute, counted)
    }
}

/// Room for a common header and the body of most administrative messages, in bytes.
const HEADER_ROOM: usize = 192;
const DELIMITER: Short = Short { word: SOH as u64, len: 1 };
/// The delimiter of MsgSeqNum(34), and the bytes `52=`.
const SENDING_TIME: Short = Short { word: u64::from_le_bytes(*b"\x0152=\0\0\0\0"), len: 4 };

/// A header being written with constant-size stores and summed at the same time.
///
/// A later summation would read the bytes in units other than those stored, which stalls the
/// processor.
struct HeaderBuffer<'r> {
    bytes: &'r mut [u8; HEADER_ROOM],
    at: usize,
    sum: u64,
}

impl HeaderBuffer<'_> {
    #[inline(always)]
    fn short(&mut self, text: Short) {
        self.put(text, text::byte_sum(text.word));
    }

    /// Writes a text; `sum` is the sum of its bytes.
    #[inline(always)]
    fn put(&mut self, text: Short, sum: u64) {
        self.bytes[self.at..self.at + 8].copy_from_slice(&text.word.to_le_bytes());
        self.at += text.len & 15;
        self.sum = self.sum.wrapping_add(sum);
    }

    #[inline(always)]
    fn piece<const N: usize>(&mut self, (block, len, sum): (&[u8; N], usize, u8)) {
        self.bytes[self.at..self.at + N].copy_from_slice(block);
        self.at += len % N;
        self.sum = self.sum.wrapping_add(u64::from(sum));
    }

    /// Writes a time as UTCTimestamp, with its delimiter.
    #[inline(always)]
    fn moment(&mut self, minute: &mut Minute, time: Timestamp, precision: Precision) {
        let nanos = minute.enter(time.0);
        let [date, time] = minute.text();
        self.put(Short { word: date, len: 8 }, minute.sum());
        self.put(Short { word: time, len: Minute::LEN - 8 }, 0);
        if precision == Precision::Millis {
            let word = minute.millis(nanos) | u64::from(SOH) << 48;
            return self.short(Short { word, len: 7 });
        }
        let (text, len) = seconds(nanos, precision);
        self.short(Short { word: text as u64, len: (len + 1).min(8) });
        self.short(Short { word: (text >> 64) as u64, len: (len + 1).saturating_sub(8) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    /// Returns the expected message, with BodyLength(9) and CheckSum(10) computed as the standard
    /// defines.
    fn expected(begin_string: &str, body: &str) -> String {
        let frame = format!("8={begin_string}\x019={}\x01{body}", body.len());
        let sum = frame.bytes().fold(0_u8, u8::wrapping_add);
        format!("{frame}10={sum:03}\x01")
    }

    const TIME: &str = "20261121-12:00:00.123";

    /// Writes a message once with `header` and once field by field, each after other bytes, and
    /// checks that both equal the expected message.
    fn check(
        header: &mut Header,
        [begin_string, msg_type, constant]: [&str; 3],
        seq: u64,
        text: &str,
    ) {
        let time = Timestamp::parse(TIME.as_bytes()).expect("a time");
        let mut fields = format!("35={msg_type}\x01{constant}34={seq}\x0152={TIME}\x01");
        if !text.is_empty() {
            fields += &format!("58={text}\x01");
        }
        let expected = expected(begin_string, &fields);
        let (mut out, mut plain) = (b"before".to_vec(), b"before".to_vec());
        let mut frame = header.frame(&mut out, msg_type, seq, (time, Precision::Millis));
        let mut anew = FrameWriter::new(&mut plain, begin_string.as_bytes(), msg_type);
        anew.raw(constant.as_bytes());
        anew.header_uint(tag::MSG_SEQ_NUM, seq);
        anew.header_timestamp(tag::SENDING_TIME, time, Precision::Millis);
        if !text.is_empty() {
            frame.body(Precision::Millis).str(tag::TEXT, text);
            anew.body(Precision::Millis).str(tag::TEXT, text);
        }
        for (range, out) in [(frame.finish(), out), (anew.finish(), plain)] {
            assert_eq!(range, Ok(6..out.len()));
            assert_eq!(String::from_utf8_lossy(&out[6..]), expected);
        }
    }

    #[test]
    fn each_length_of_constant_and_number() {
        for begin_string in ["F", "FIX.4.4", &"F".repeat(28), &"F".repeat(40)] {
            for sender in (1..130).chain([1000]) {
                let constant = format!("49={}\x01", "S".repeat(sender));
                let mut header = Header::new(begin_string.as_bytes(), constant.as_bytes());
                for msg_type in ["0", "D", "AE", "LONGTYPE", "U-LONG-TYPE"] {
                    for seq in [1, 99_999_999, 100_000_000, u64::MAX] {
                        check(&mut header, [begin_string, msg_type, &constant], seq, "");
                    }
                }
            }
        }
        for begin_string in (0..=34).map(|len| "F".repeat(len)) {
            let mut header = Header::new(begin_string.as_bytes(), b"");
            check(&mut header, [&begin_string, "D", ""], 1, "text");
        }
    }

    /// Covers BodyLength(9) from two to five digits, and each change of the number of digits.
    #[test]
    fn each_length_of_body() {
        let (constant, text) = ("49=US\x01", "t".repeat(10_010));
        let mut header = Header::new(b"FIX.4.4", constant.as_bytes());
        for len in (0..1100).chain(9_900..10_010) {
            for msg_type in ["0", "D"] {
                check(&mut header, ["FIX.4.4", msg_type, constant], 7, &text[..len]);
            }
        }
    }

    #[test]
    fn a_wrong_type_leaves_the_buffer() {
        let mut header = Header::new(b"FIX.4.4", b"49=US\x01");
        for msg_type in ["", "\x01", "A\x01B", "LONGER\x01TYPE"] {
            let mut out = b"before".to_vec();
            let frame = header.frame(&mut out, msg_type, 1, (Timestamp(0), Precision::Millis));
            assert_eq!(frame.finish(), Err(Misuse::MsgType), "{msg_type:?}");
            assert_eq!(out, b"before");
        }
    }

    #[test]
    fn numbers_with_leading_zeros() {
        for begin_string in ["FIX.4.4", &"F".repeat(40)] {
            for (digits, seq, text) in
                [(0, 7, "7"), (6, 7, "000007"), (3, 1234, "1234"), (20, 7, "00000007")]
            {
                let header = Header::new(begin_string.as_bytes(), b"49=US\x01");
                let mut out = Vec::new();
                let at = (Timestamp(0), Precision::Seconds);
                let frame = header.seq_digits_min(digits).frame(&mut out, "0", seq, at);
                frame.finish().expect("it is sound");
                let body = format!("35=0\x0149=US\x0134={text}\x0152=19700101-00:00:00\x01");
                assert_eq!(out, expected(begin_string, &body).as_bytes());
            }
        }
    }
}
