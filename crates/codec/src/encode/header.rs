//! The header of a session's messages, prepared: all but MsgType(35), MsgSeqNum(34) and
//! SendingTime(52) is constant.

use alloc::vec::Vec;

use super::moment::Minute;
use super::piece::Piece;
use super::tail::Tail;
use super::{BODY_LENGTH_ROOM, Body, FrameWriter, Head, write_msg_type};
use crate::{Precision, Timestamp, tag};

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
    /// From BeginString(8) to `35=`.
    start: Piece,
    /// Whole fields behind MsgType(35).
    constant: Piece,
    seq_digits_min: usize,
    /// Of the last SendingTime(52).
    minute: Minute,
}

impl Header {
    /// A header with `constant`: whole fields, each ended by its delimiter, such as the CompIDs.
    #[must_use]
    pub fn new(begin_string: &[u8], constant: &[u8]) -> Self {
        let mut start = Vec::new();
        start.extend_from_slice(b"8=");
        start.extend_from_slice(begin_string);
        start.extend_from_slice(BODY_LENGTH_ROOM);
        Self {
            start: Piece::new(&start),
            constant: Piece::new(constant),
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
        let (begin, mut minute) = (out.len(), self.minute);
        let mut tail = Tail::open(out);
        self.start.write(&mut tail);
        let (counted, misuse) = write_msg_type(&mut tail, msg_type.as_ref());
        self.constant.write(&mut tail);
        let head = Head::of(tag::MSG_SEQ_NUM, &mut tail);
        tail.uint(head, msg_seq_num, self.seq_digits_min);
        let head = Head::of(tag::SENDING_TIME, &mut tail);
        tail.moment(head, (sending_time, precision), &mut minute);
        self.minute = minute;
        let body = Body { tail, precision: Precision::default(), misuse, minute };
        FrameWriter { body, begin, counted }
    }
}
