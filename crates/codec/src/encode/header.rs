//! The header of a session's messages, prepared: all but MsgType(35), MsgSeqNum(34) and
//! SendingTime(52) is constant.

use alloc::vec::Vec;
use core::hint::cold_path;

use super::moment::Minute;
use super::piece::Piece;
use super::tail::Tail;
use super::text::{self, EIGHT_DIGITS, Short};
use super::{BODY_LENGTH_DIGITS, Body, FrameWriter, Head, MSG_TYPE_HEAD, length_room};
use crate::{Misuse, MsgType, Precision, SOH, Timestamp, tag};

/// What a session writes at the start of each message.
///
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
    /// From BeginString(8) to `9=`.
    start: Piece<32>,
    /// What stands between MsgType(35) and the value of MsgSeqNum(34).
    constant: Piece<64>,
    /// Digits of BodyLength(9) of a message with a header and hardly a body: 2 or 3.
    digits_min: usize,
    seq_digits_min: usize,
    /// Of the last SendingTime(52).
    minute: Minute,
}

impl Header {
    /// A header with `constant`: whole fields, each ended by its delimiter, such as the CompIDs.
    #[must_use]
    pub fn new(begin_string: &[u8], constant: &[u8]) -> Self {
        // With a number of four digits and milliseconds.
        let least = constant.len() + b"35=0|34=0000|52=YYYYMMDD-HH:MM:SS.sss|".len();
        Self {
            start: Piece::new(&[b"8=", begin_string, b"\x019="].concat()),
            constant: Piece::new(&[constant, b"34="].concat()),
            digits_min: if least < 100 { 2 } else { BODY_LENGTH_DIGITS },
            seq_digits_min: 1,
            minute: Minute::FIRST,
        }
    }

    /// Writes MsgSeqNum(34) with leading zeros up to so many digits; default 1.
    #[must_use]
    pub const fn seq_digits_min(mut self, digits: usize) -> Self {
        self.seq_digits_min = digits;
        self
    }

    /// Begins a message of type `msg_type` at the end of `out`.
    #[inline(always)]
    #[must_use]
    pub fn frame<'b>(
        &mut self,
        out: &'b mut Vec<u8>,
        msg_type: impl AsRef<[u8]>,
        msg_seq_num: u64,
        (sending_time, precision): (Timestamp, Precision),
    ) -> FrameWriter<'b> {
        // In registers: written in parts and then copied whole from its place, it cost 8 ns more.
        let (begin, mut minute) = (out.len(), self.minute);
        let msg_type = MsgType::of(msg_type.as_ref());
        // Administrative messages have a short body, or none.
        let is_short = msg_type.is_administrative();
        let digits = if is_short { self.digits_min } else { BODY_LENGTH_DIGITS };
        let mut tail = Tail::open(out);
        let counted = self.begin(&mut tail, (msg_type, digits), msg_seq_num);
        let head = Head::of(tag::SENDING_TIME, &mut tail);
        tail.moment(head, (sending_time, precision), &mut minute);
        self.minute = minute;
        let misuse = (!msg_type.is_valid()).then_some(Misuse::MsgType);
        let body = Body { tail, precision: Precision::default(), misuse, minute };
        FrameWriter { body, begin, counted, digits }
    }

    /// Writes all before SendingTime(52); returns where what BodyLength(9) counts begins.
    #[inline(always)]
    fn begin(
        &self,
        tail: &mut Tail<'_>,
        (msg_type, digits): (MsgType<'_>, usize),
        seq: u64,
    ) -> usize {
        if let Some(text) = text::load_short(msg_type.as_bytes())
            && self.start.is_short()
            && self.constant.is_short()
            && seq < EIGHT_DIGITS
        {
            let begin = tail.end();
            let room = tail.fresh();
            let at = self.start.put(room, 0);
            let at = length_room(digits).put(room, at);
            let counted = begin.wrapping_add(at).wrapping_sub(MSG_TYPE_HEAD);
            let at = text.put_field(room, at);
            let at = self.constant.put(room, at);
            let digits = Short::digits(seq, self.seq_digits_min.clamp(1, 8));
            let at = digits.put_field(room, at);
            tail.advance(at);
            return counted;
        }
        cold_path();
        self.start.write(tail);
        let zeros = length_room(digits);
        tail.store(&zeros.word.to_le_bytes(), zeros.len);
        let counted = tail.end().wrapping_sub(MSG_TYPE_HEAD);
        tail.slice(msg_type.as_bytes());
        tail.store(&[SOH], 1);
        self.constant.write(tail);
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(seq).as_bytes();
        let zeros = self.seq_digits_min.min(8).saturating_sub(digits.len());
        tail.store(b"00000000", zeros);
        tail.slice(digits);
        tail.store(&[SOH], 1);
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    /// The message as the standard has it.
    fn expected(begin_string: &str, body: &str) -> String {
        let frame = format!("8={begin_string}\x019={}\x01{body}", body.len());
        let sum = frame.bytes().fold(0_u8, u8::wrapping_add);
        format!("{frame}10={sum:03}\x01")
    }

    const TIME: &str = "20261121-12:00:00.123";

    /// Writes a message with `header`, and with one field at a time, both behind other bytes.
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

    /// BodyLength(9) from two to five digits, and each step from one to the next.
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
