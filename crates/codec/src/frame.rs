//! Finds the next message in a byte stream by BodyLength(9), and recovers from garbage.
//!
//! Invariants: any split of the stream gives the same frames. A result never points beyond the
//! input, except the declared length in [`Frame::TooLong`]. Each call that does not return
//! [`Frame::Partial`] makes progress.

use alloc::vec::Vec;

use crate::encode::text::three;
use crate::scan::prefetch;
use crate::{Garbled, SOH, digits};

/// Limits that protect the receiver.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum message length in bytes, from `8=` to the end of CheckSum(10). Default 1 MiB.
    pub message_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { message_bytes_max: 1 << 20 }
    }
}

/// The classification of the bytes at the start of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole message of this length in bytes, whose CheckSum(10) is not yet verified.
    Whole(usize),
    /// The incomplete start of a message. Read more bytes and call [`split`] again.
    Partial,
    /// Bytes that are not a message. Drop the first `skip` bytes and call [`split`] again.
    Garbled {
        /// Number of bytes to drop; at least 1.
        skip: usize,
        /// The fault.
        reason: Garbled,
    },
    /// A message longer than [`Limits::message_bytes_max`].
    ///
    /// Drop the whole message as its bytes arrive, because its body must not be searched for
    /// messages. [`TooLong`] does this.
    TooLong {
        /// Length of the whole message as declared by BodyLength(9), in bytes; may exceed the
        /// input.
        end: usize,
    },
}

const START: &[u8] = b"8=FIX";
/// Length of `10=ddd` and its delimiter, in bytes.
const TRAILER_LEN: usize = 7;
/// Maximum length of BeginString(8), in bytes. The longest value in use is `FIXT.1.1`.
const BEGIN_STRING_MAX: usize = 16;
/// Maximum number of digits of BodyLength(9); 18 digits cannot overflow a `u64`.
const BODY_LENGTH_DIGITS_MAX: usize = 18;

/// Classifies the start of `bytes`; the bytes of the last message may be incomplete.
///
/// If BodyLength(9) is wrong, `split` skips the bytes that BodyLength(9) covers, up to the next
/// plausible `8=FIX`. FIX Session: a message is garbled if CheckSum(10) is not where BodyLength(9)
/// says.
#[must_use]
#[inline]
pub fn split(bytes: &[u8], limits: Limits) -> Frame {
    prefetch(bytes);
    match whole(bytes) {
        Some(end) if end <= limits.message_bytes_max => Frame::Whole(end),
        _ => look(bytes, limits),
    }
}

/// Classifies the start of `bytes` like [`split`], and also verifies CheckSum(10).
///
/// Intended for programs that forward or store messages without reading fields.
/// ```
/// use transfix_codec::{Frame, Garbled, Limits, frame};
///
/// let heartbeat = b"8=FIX.4.4\x019=5\x0135=0\x0110=163\x01";
/// assert_eq!(frame::verified(heartbeat, Limits::default()), Frame::Whole(26));
/// let damaged = b"8=FIX.4.4\x019=5\x0135=1\x0110=163\x01";
/// let garbled = Frame::Garbled { skip: 26, reason: Garbled::CheckSum };
/// assert_eq!(frame::verified(damaged, Limits::default()), garbled);
/// ```
#[must_use]
#[inline]
pub fn verified(bytes: &[u8], limits: Limits) -> Frame {
    let found = split(bytes, limits);
    let Frame::Whole(end) = found else { return found };
    let (summed, trailer) = bytes[..end].split_at(end - TRAILER_LEN);
    let right = three(u64::from(crate::scan::sum(summed))) as u32 | u32::from(SOH) << 24;
    match trailer.last_chunk().map(|said| u32::from_le_bytes(*said)) == Some(right) {
        true => found,
        false => Frame::Garbled { skip: end, reason: Garbled::CheckSum },
    }
}

/// Finds a message inside the bytes that a too large BodyLength(9) covers.
///
/// Returns the offset of the first message within the first `covered` bytes, but not at their
/// start. The message must have a correct CheckSum(10) or be incomplete.
///
/// The search subtracts the bytes that it examines from `budget`, and finds nothing once `budget`
/// is exhausted. Without this limit, nested messages with wrong lengths would make each byte cost
/// many searches.
/// ```
/// use transfix_codec::{Frame, Limits, frame};
///
/// let heartbeat = b"8=FIX.4.4\x019=5\x0135=0\x0110=163\x01";
/// let lies = [&b"8=FIX.4.4\x019=31\x0135=0\x0110=163\x01"[..], heartbeat].concat();
/// let covered = lies.len();
/// assert_eq!(frame::split(&lies, Limits::default()), Frame::Whole(covered), "by its length");
/// let mut budget = frame::SearchBudget::new(Limits::default());
/// let found = frame::message_within(&lies, covered, Limits::default(), &mut budget);
/// assert_eq!(found, Some(27));
/// ```
#[must_use]
#[cold]
pub fn message_within(
    bytes: &[u8],
    covered: usize,
    limits: Limits,
    budget: &mut SearchBudget,
) -> Option<usize> {
    let covered = &bytes[..covered.min(bytes.len())];
    if !budget.pays(covered.len()) {
        return None;
    }
    let starts = covered.windows(START.len()).enumerate().skip(1).filter(|(_, w)| *w == START);
    starts.map(|(at, _)| at).find(|at| match judge(&bytes[*at..], limits) {
        Judged::Whole(end) => {
            let (summed, trailer) = bytes[*at..at + end].split_at(end - TRAILER_LEN);
            budget.pays(end) && trailer[3..6] == crate::raw::check_sum(summed)
        }
        Judged::Partial => true,
        Judged::TooLong(_) | Judged::Not(..) => false,
    })
}

/// Average number of times that searches inside garbled messages may examine each received byte.
const LOOKS: usize = 4;

/// The number of bytes that [`message_within`] may still examine.
///
/// A counterparty can send nested messages whose lengths are all wrong, and each search examines a
/// message to its end. Because the budget grows only with the received bytes, the total work stays
/// linear.
#[derive(Clone, Copy, Debug)]
pub struct SearchBudget {
    left: usize,
    max: usize,
}

impl SearchBudget {
    /// Returns a full budget, which suffices for a few messages of maximum length.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        let max = limits.message_bytes_max.saturating_mul(LOOKS);
        Self { left: max, max }
    }

    /// Grows the budget by the number of bytes received since the last call, garbled or not.
    pub const fn earn(&mut self, bytes: usize) {
        let grown = self.left.saturating_add(bytes.saturating_mul(LOOKS));
        self.left = if grown < self.max { grown } else { self.max };
    }

    const fn pays(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes);
        if let Some(left) = left {
            self.left = left;
        }
        left.is_some()
    }
}

/// A receiver for a message longer than the limit, which drops the message as its bytes arrive.
///
/// Memory is bounded: the receiver keeps only the first bytes, which contain the header, and sums
/// the bytes for CheckSum(10).
/// ```
/// use transfix_codec::frame::{self, Frame, Limits, TooLong};
///
/// let heartbeat = b"8=FIX.4.4\x019=5\x0135=0\x0110=163\x01";
/// let limits = Limits { message_bytes_max: 20 };
/// assert_eq!(frame::split(&heartbeat[..15], limits), Frame::TooLong { end: 26 });
/// let mut message = TooLong::new(26);
/// assert_eq!(message.take(&heartbeat[..15]), 15);
/// assert_eq!(message.outcome(), None);
/// let rest = [&heartbeat[15..], b"8=FIX"].concat();
/// assert_eq!(message.take(&rest), 11);
/// assert_eq!(message.outcome(), Some(Ok(())));
/// assert_eq!(message.head(), heartbeat);
/// ```
#[derive(Debug)]
pub struct TooLong {
    end: usize,
    taken: usize,
    /// Sum of the bytes before CheckSum(10), modulo 256.
    sum: u8,
    head: Vec<u8>,
    /// The last byte of the body, followed by CheckSum(10) with its delimiter.
    tail: [u8; TAIL_LEN],
}

/// Length of the last body byte and the trailer, in bytes.
const TAIL_LEN: usize = TRAILER_LEN + 1;
/// Maximum number of bytes kept from a message that is too long; the standard header fits.
const HEAD_BYTES_MAX: usize = 1 << 10;

impl TooLong {
    /// Creates a receiver for a message of `end` bytes, as declared in [`Frame::TooLong`], before
    /// its first byte.
    #[must_use]
    pub const fn new(end: usize) -> Self {
        Self { end, taken: 0, sum: 0, head: Vec::new(), tail: [0; TAIL_LEN] }
    }

    /// Returns the declared length of the message, in bytes.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.end
    }

    /// Consumes the next bytes of the stream, as far as they belong to the message.
    ///
    /// Returns the number of consumed bytes, which is below `bytes.len()` only if the message ends
    /// earlier.
    pub fn take(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.end - self.taken);
        let bytes = &bytes[..taken];
        let head = bytes.len().min(HEAD_BYTES_MAX.saturating_sub(self.taken));
        self.head.extend_from_slice(&bytes[..head]);
        let summed = self.end.saturating_sub(TRAILER_LEN + self.taken).min(taken);
        self.sum = self.sum.wrapping_add(crate::scan::sum(&bytes[..summed]));
        let from = self.end.saturating_sub(TAIL_LEN + self.taken).min(taken);
        for (i, byte) in bytes.iter().enumerate().skip(from) {
            self.tail[self.taken + i + TAIL_LEN - self.end] = *byte;
        }
        self.taken += taken;
        taken
    }

    /// Returns the result for the complete message: `Ok` if CheckSum(10) is at the declared offset
    /// and correct.
    ///
    /// Returns `None` until the message is complete.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<(), Garbled>> {
        if self.taken < self.end {
            return None;
        }
        let [last, trailer @ ..] = &self.tail;
        if *last != SOH || !is_trailer(trailer) {
            return Some(Err(Garbled::BodyLength));
        }
        let right = three(u64::from(self.sum)).to_le_bytes();
        Some(if trailer[3..6] == right[..3] { Ok(()) } else { Err(Garbled::CheckSum) })
    }

    /// Returns the kept first fields of the message, each with its delimiter.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        let whole = self.head.iter().rposition(|&b| b == SOH).map_or(0, |at| at + 1);
        &self.head[..whole]
    }
}

/// Returns the eight bytes at offset `at`, the first byte in the lowest bits.
#[inline(always)]
const fn word(bytes: &[u8; USUAL_LEN], at: usize) -> u64 {
    let (_, bytes) = bytes.split_at(at);
    match bytes.first_chunk() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => 0,
    }
}

/// Minimum length of a message on the fast path, in bytes: BeginString(8), six digits of
/// BodyLength(9) and the bytes after them.
const USUAL_LEN: usize = 21;
/// First eight bytes of the common versions: FIX 4.0 to 4.4, and all later versions.
const FIX_4: u64 = u64::from_le_bytes(*b"8=FIX.4.");
const FIXT_1: u64 = u64::from_le_bytes(*b"8=FIXT.1");
/// The bytes after the first eight, in the lowest bits; in FIX 4, after the digit of the minor
/// version.
const BODY_LENGTH_4: u64 = u64::from_le_bytes(*b"\x019=\0\0\0\0\0");
const BODY_LENGTH_T: u64 = u64::from_le_bytes(*b".1\x019=\0\0\0");
/// The last eight bytes of a message: the delimiter of the last body field, and CheckSum(10) with
/// zeros for digits.
const TRAILER: u64 = u64::from_le_bytes(*b"\x0110=000\x01");
const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);
const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);

/// Returns the length of the message at the start of `bytes`; `None` if the message is incomplete
/// or not of a common form.
///
/// The form is `8=FIX.4.x` or `8=FIXT.1.1` with a BodyLength(9) of 1 to 6 digits. [`look`]
/// classifies all other bytes.
#[inline]
fn whole(bytes: &[u8]) -> Option<usize> {
    let begin = bytes.first_chunk()?;
    let (start, next) = (word(begin, 0), word(begin, 8));
    let length_at = if start == FIX_4
        && next & 0xff != u64::from(SOH)
        && next >> 8 & 0xff_ffff == BODY_LENGTH_4
    {
        12
    } else if start == FIXT_1 && next & 0xff_ffff_ffff == BODY_LENGTH_T {
        13
    } else {
        return None;
    };
    let digits = word(begin, length_at) ^ ZEROS;
    // The high bit of the first byte that is not a digit is set; higher bits are undefined.
    let others = (digits.wrapping_add(u64::from_le_bytes([0x76; 8])) | digits) & HIGHS;
    let count = others.trailing_zeros() / 8;
    if !(1..=6).contains(&count) || digits >> (8 * count) & 0xff != u64::from(SOH ^ b'0') {
        return None;
    }
    let length = digits::number(digits << (64 - 8 * count)) as usize;
    let before = length_at + count as usize + length;
    let trailer = u64::from_le_bytes(*bytes.get(before..)?.first_chunk()?) ^ TRAILER;
    // Only the three digits may differ from `TRAILER`, and each digit must be at most 9.
    let other = (trailer | trailer.wrapping_add(0x0006_0606 << 32)) & !(0x000f_0f0f << 32);
    (other == 0 && length > 0).then_some(before + 1 + TRAILER_LEN)
}

/// Classifies the start of the bytes step by step, for any form of BeginString(8) and
/// BodyLength(9).
#[cold]
fn look(bytes: &[u8], limits: Limits) -> Frame {
    match judge(bytes, limits) {
        Judged::Whole(end) => Frame::Whole(end),
        Judged::Partial => Frame::Partial,
        Judged::TooLong(end) => Frame::TooLong { end },
        Judged::Not(from, reason) => garbled(bytes, from, reason),
    }
}

enum Judged {
    /// A whole message of this length in bytes.
    Whole(usize),
    /// The incomplete start of a message.
    Partial,
    /// A message of this declared length in bytes, which exceeds the limit.
    TooLong(usize),
    /// Bytes that are not a message. The search for the next message begins at this offset.
    Not(usize, Garbled),
}

fn judge(bytes: &[u8], limits: Limits) -> Judged {
    let compared = bytes.len().min(START.len());
    if bytes[..compared] != START[..compared] {
        return Judged::Not(0, Garbled::BeginString);
    }
    if bytes.len() < START.len() {
        return Judged::Partial;
    }
    let (body, length) = match preamble(bytes) {
        Preamble::Is { body, length } => (body, length),
        Preamble::Partial => return Judged::Partial,
        Preamble::Not(reason) => return Judged::Not(1, reason),
    };
    let trailer = body.saturating_add(length);
    let end = trailer.saturating_add(TRAILER_LEN);
    if end > limits.message_bytes_max {
        return Judged::TooLong(end);
    }
    // A wrong BodyLength(9) is often detectable before all bytes that it covers have arrived.
    if bytes.len() >= trailer && length > 0 && bytes[trailer - 1] != SOH {
        return Judged::Not(trailer, Garbled::BodyLength);
    }
    let Some(check_sum) = bytes.get(trailer..end) else { return Judged::Partial };
    match is_trailer(check_sum) {
        true => Judged::Whole(end),
        false => Judged::Not(trailer, Garbled::BodyLength),
    }
}

/// Returns true if the bytes have the form of CheckSum(10) with its delimiter.
fn is_trailer(bytes: &[u8]) -> bool {
    bytes.len() == TRAILER_LEN
        && bytes.starts_with(b"10=")
        && bytes[3..6].iter().all(u8::is_ascii_digit)
        && bytes[6] == SOH
}

enum Preamble {
    Is { body: usize, length: usize },
    Partial,
    Not(Garbled),
}

fn preamble(bytes: &[u8]) -> Preamble {
    let value = &bytes[2..bytes.len().min(2 + BEGIN_STRING_MAX)];
    let Some(soh) = value.iter().position(|&b| b == SOH) else {
        let enough = value.len() == BEGIN_STRING_MAX;
        return if enough { Preamble::Not(Garbled::BeginString) } else { Preamble::Partial };
    };
    let at = 2 + soh + 1;
    let rest = &bytes[at..];
    let compared = rest.len().min(2);
    if rest[..compared] != b"9="[..compared] {
        return Preamble::Not(Garbled::BodyLengthField);
    }
    let mut length = 0;
    for (i, &b) in rest.iter().enumerate().skip(2) {
        match b {
            b'0'..=b'9' if i < 2 + BODY_LENGTH_DIGITS_MAX => {
                let digit = usize::from(b - b'0');
                length = usize::saturating_add(usize::saturating_mul(length, 10), digit);
            }
            SOH if i > 2 => return Preamble::Is { body: at + i + 1, length },
            _ => return Preamble::Not(Garbled::BodyLengthField),
        }
    }
    Preamble::Partial
}

/// Returns [`Frame::Garbled`], which skips at least `from` bytes and at least one, up to the next
/// plausible start of a message.
fn garbled(bytes: &[u8], from: usize, reason: Garbled) -> Frame {
    let from = from.max(1);
    let tail = &bytes[from.min(bytes.len())..];
    let found = tail.windows(START.len()).position(|w| w == START);
    let skip = found.map_or_else(
        || {
            // The last bytes may be the start of the next message, so they are not skipped.
            let kept = (1..START.len()).rev().find(|&n| tail.ends_with(&START[..n]));
            bytes.len() - kept.unwrap_or(0)
        },
        |at| from + at,
    );
    Frame::Garbled { skip: skip.max(1), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"8=FIX.4.4\x019=5\x0135=0\x0110=163\x01";

    fn check(bytes: &[u8], expected: Frame) {
        assert_eq!(split(bytes, Limits::default()), expected, "{}", bytes.escape_ascii());
    }

    fn skip(skip: usize, reason: Garbled) -> Frame {
        Frame::Garbled { skip, reason }
    }

    #[test]
    fn table() {
        check(b"", Frame::Partial);
        check(MESSAGE, Frame::Whole(MESSAGE.len()));
        check(b"8=FIX.4.4\x01", Frame::Partial);
        check(b"junk", skip(4, Garbled::BeginString));
        check(b"junk8=FI", skip(4, Garbled::BeginString));
        check(b"junk8=FIX.4.4", skip(4, Garbled::BeginString));
        check(b"8=FIX.4.4\x0135=0\x01", skip(15, Garbled::BodyLengthField));
        check(b"8=FIX.4.4\x019=\x01", skip(13, Garbled::BodyLengthField));
        check(b"8=FIX.4.4\x019=x\x01", skip(14, Garbled::BodyLengthField));
        check(b"8=FIX.4.4\x019=1234567890123456789\x01", skip(32, Garbled::BodyLengthField));
        check(b"8=FIX.4.4\x019=999999999999\x01", Frame::TooLong { end: 1_000_000_000_031 });
        check(b"8=FIX.4.4\x019=99999999\x01", Frame::TooLong { end: 100_000_027 });
        check(b"8=FIX.4.4\x019=99999999\x018=FIX.4.4", Frame::TooLong { end: 100_000_027 });
        check(b"8=FIXXXXXXXXXXXXXXXXXXXXXXXX", skip(28, Garbled::BeginString));
        check(b"8=FIX.4.4\x019=4\x0135=0\x0110=163\x01", skip(26, Garbled::BodyLength));
        check(b"8=FIX.4.4\x019=5\x0135=0\x0110=1x3\x01", skip(26, Garbled::BodyLength));
    }

    #[test]
    fn a_length_too_long_takes_what_it_covers() {
        let mut bytes = b"8=FIX.4.4\x019=30\x0135=0\x0110=163\x01".to_vec();
        let lied = bytes.len();
        bytes.extend_from_slice(MESSAGE);
        bytes.extend_from_slice(MESSAGE);
        let third = lied + MESSAGE.len();
        check(&bytes, skip(third, Garbled::BodyLength));
    }

    /// Returns `count` messages nested in each other, which all end at the same wrong CheckSum(10).
    fn nested(count: usize) -> Vec<u8> {
        let rest = |n: usize| (count - n) * 20 - 19;
        let mut bytes = Vec::new();
        for n in 0..count {
            bytes.extend_from_slice(alloc::format!("8=FIX.4.4\x019={:06}\x01", rest(n)).as_bytes());
            bytes.truncate((n + 1) * 20 - 1);
            bytes.push(SOH);
        }
        bytes.extend_from_slice(b"10=999\x01");
        bytes
    }

    #[test]
    fn a_search_looks_at_each_byte_a_few_times() {
        let limits = Limits::default();
        let bytes = nested(20_000);
        assert_eq!(split(&bytes, limits), Frame::Whole(bytes.len()));
        assert_eq!(split(&bytes[20..], limits), Frame::Whole(bytes.len() - 20), "the next one too");
        let mut budget = SearchBudget::new(Limits { message_bytes_max: bytes.len() });
        assert_eq!(message_within(&bytes, bytes.len(), limits, &mut budget), None);
        assert!(budget.left < LOOKS * 20, "all is spent: {}", budget.left);
        // An exhausted budget hides a correct message until more bytes have been received.
        let mut last = bytes[..20 * 19_998].to_vec();
        last.extend_from_slice(MESSAGE);
        let start = 20 * 19_998;
        assert_eq!(message_within(&last, last.len(), limits, &mut budget), None);
        let lies = &last[start - 20..];
        budget.earn(lies.len());
        assert_eq!(message_within(lies, lies.len(), limits, &mut budget), Some(20));
    }

    #[test]
    fn the_short_way_says_what_the_long_one_says() {
        let texts = [
            "8=FIX.4.4|9=5|35=0|10=163|",
            "8=FIXT.1.1|9=5|35=0|10=163|",
            "8=FIX.4.2|9=00005|35=0|10=163|",
            "8=FIX.5.0SP2|9=00005|35=0|10=163|",
            "8=FIX.4|9=5|35=0|10=163|",
            "8=FIX.4.4|9=000005|35=0|10=163|",
            "8=FIX.4.4|9=0000005|35=0|10=163|",
            "8=FIX.4.4|9=0|10=163|",
        ];
        let mut short = 0;
        for text in texts {
            let bytes: Vec<u8> = text.replace('|', "\u{1}").into_bytes();
            for at in 0..bytes.len() {
                for byte in [bytes[at], b'0', b'9', b'=', SOH, 0, 2, 0x81] {
                    let mut changed = bytes.clone();
                    changed[at] = byte;
                    changed.extend_from_slice(b"8=FIX");
                    let long = look(&changed, Limits::default());
                    if let Some(end) = whole(&changed) {
                        assert_eq!(long, Frame::Whole(end), "{}", changed.escape_ascii());
                        short += 1;
                    }
                    assert_eq!(split(&changed, Limits::default()), long);
                }
            }
        }
        assert!(short > 300, "the usual message takes the short way: {short}");
    }

    #[test]
    fn every_prefix_is_partial() {
        for n in 0..MESSAGE.len() {
            check(&MESSAGE[..n], Frame::Partial);
        }
    }
}
