//! Functions that read values directly from bytes, without index, session, dictionary or
//! allocation.
//!
//! For a single field, these functions are faster than building an index. For several fields,
//! [`Message::parse`](crate::Message::parse) is faster.
//!
//! ```
//! use transfix_codec::{Limits, raw, tag};
//!
//! let buffer = b"junk8=FIX.4.4\x019=10\x0135=0\x0134=7\x0110=171\x018=FIX.4.4\x019=";
//! let messages: Vec<&[u8]> =
//!     raw::pieces(buffer, Limits::default()).filter_map(|piece| piece.message()).collect();
//! assert_eq!(messages.len(), 1);
//! assert_eq!(raw::first(messages[0], tag::MSG_SEQ_NUM), Some(&b"7"[..]));
//! assert_eq!(raw::verify(messages[0]), Ok(()));
//! ```

use crate::frame::{Frame, Limits, split};
use crate::scan::{self, sum};
use crate::{Field, Garbled, Misuse, SOH, Tag, data, tag, value};

/// Returns the value of the first field with `tag`.
/// ```
/// use transfix_codec::{raw, tag};
///
/// assert_eq!(raw::first(b"55=EU\x0154=1\x01", tag::SIDE), Some(&b"1"[..]));
/// ```
#[must_use]
pub fn first(bytes: &[u8], tag: Tag) -> Option<&[u8]> {
    nth(bytes, tag, 0)
}

/// Returns the value of the n-th field with `tag`, counted from 0.
/// ```
/// use transfix_codec::{Tag, raw};
///
/// assert_eq!(raw::nth(b"448=A\x01447=D\x01448=B\x01", Tag(448), 1), Some(&b"B"[..]));
/// ```
#[must_use]
pub fn nth(bytes: &[u8], tag: Tag, n: usize) -> Option<&[u8]> {
    fields(bytes).filter(|field| field.tag == tag).nth(n).map(|field| field.value)
}

/// Iterates over the fields of a message, or of any bytes that consist of whole fields.
///
/// Bytes after the last delimiter are ignored.
/// ```
/// use transfix_codec::{Tag, raw};
///
/// let tags: Vec<Tag> = raw::fields(b"95=3\x0196=a\x01b\x0158=x\x0155=E").map(|f| f.tag).collect();
/// assert_eq!(tags, [95, 96, 58].map(Tag));
/// ```
pub fn fields(bytes: &[u8]) -> impl Iterator<Item = Field<'_>> + Clone {
    pieces_of(bytes).map(|(encoded, value)| Field {
        tag: tag_of(encoded, value),
        value: &encoded[value..encoded.len() - 1],
    })
}

/// Checks that `encoded` consists of whole fields that an application may write.
///
/// [`Body::fields`](crate::Body::fields) accepts exactly the bytes that pass this check.
///
/// # Errors
/// The first [`Misuse`].
pub fn check_body(encoded: &[u8]) -> Result<(), Misuse> {
    check_constant(encoded, tag::is_session_owned).map_or(Ok(()), Err)
}

/// Returns the first misuse in constant bytes, which must be whole fields whose tags `is_refused`
/// does not reject.
pub(crate) fn check_constant(encoded: &[u8], is_refused: impl Fn(Tag) -> bool) -> Option<Misuse> {
    let whole: usize = pieces_of(encoded).map(|(field, _)| field.len()).sum();
    if whole != encoded.len() || fields(encoded).any(|field| field.tag == Tag(0)) {
        return Some(Misuse::NotWholeFields);
    }
    fields(encoded).find_map(|field| {
        let empty = field.value.is_empty().then_some(Misuse::EmptyValue(field.tag));
        is_refused(field.tag).then_some(Misuse::SessionOwned(field.tag)).or(empty)
    })
}

/// Iterates over the encoded fields, each with the offset of its value in the field.
pub(crate) fn pieces_of(bytes: &[u8]) -> impl Iterator<Item = (&[u8], usize)> + Clone {
    pieces_with(bytes, data::length_of)
}

/// Iterates over the encoded fields like [`pieces_of`]; `length_of` returns the Length field of a
/// data field.
pub(crate) fn pieces_with(
    bytes: &[u8],
    length_of: impl Fn(Tag) -> Option<Tag> + Clone,
) -> impl Iterator<Item = (&[u8], usize)> + Clone {
    // In a message, CheckSum(10) must remain after a data field, so a length that covers the
    // trailer is not accepted.
    let after_data = usize::from(bytes.starts_with(b"8="));
    let mut rest = bytes;
    let mut before = Field { tag: Tag(0), value: &[] };
    core::iter::from_fn(move || {
        let mut end = rest.iter().position(|&b| b == SOH)?;
        let value = rest[..end].iter().position(|&b| b == b'=').map_or(end, |at| at + 1);
        let tag = tag_of(&rest[..=end], value);
        if length_of(tag) == Some(before.tag)
            && let Some(length) = value::uint(before.value)
            && let Some(until) = usize::try_from(length).ok().and_then(|n| value.checked_add(n))
            && rest.get(until) == Some(&SOH)
            && rest.len() - until > after_data
        {
            end = until;
        }
        let (encoded, later) = rest.split_at(end + 1);
        rest = later;
        before = Field { tag, value: &encoded[value..end] };
        Some((encoded, value))
    })
}

/// Returns the tag of a field whose value begins at `value`; `Tag(0)` if the tag is not a canonical
/// number.
pub(crate) fn tag_of(encoded: &[u8], value: usize) -> Tag {
    match encoded[..value].split_last() {
        Some((b'=', text)) => scan::read_tag(text),
        _ => Tag(0),
    }
}

/// A part of a buffer: a message or other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A whole message. Its CheckSum(10) is not yet verified; see [`verify`].
    Message(&'a [u8]),
    /// Bytes that are not a message, and the reason.
    Garbled(&'a [u8], Garbled),
    /// The start of an incomplete message; always the last piece.
    Partial(&'a [u8]),
}

impl<'a> Piece<'a> {
    /// Returns the bytes of a whole message, or `None` for other pieces.
    #[must_use]
    pub const fn message(self) -> Option<&'a [u8]> {
        match self {
            Self::Message(message) => Some(message),
            Self::Garbled(..) | Self::Partial(_) => None,
        }
    }
}

/// Splits a buffer into messages and other bytes.
///
/// The pieces, concatenated, equal the buffer.
pub fn pieces(buffer: &[u8], limits: Limits) -> impl Iterator<Item = Piece<'_>> + Clone {
    let mut rest = buffer;
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, later) = match split(rest, limits) {
            Frame::Whole(end) => (Piece::Message(&rest[..end]), &rest[end..]),
            Frame::Garbled { skip, reason } => {
                (Piece::Garbled(&rest[..skip], reason), &rest[skip..])
            }
            Frame::TooLong { end } => {
                let (piece, later) = rest.split_at(end.min(rest.len()));
                (Piece::Garbled(piece, Garbled::TooLong), later)
            }
            Frame::Partial => (Piece::Partial(rest), &[][..]),
        };
        rest = later;
        Some(piece)
    })
}

/// Returns the three digits of CheckSum(10) for the bytes that precede CheckSum(10).
/// ```
/// use transfix_codec::raw;
///
/// assert_eq!(raw::check_sum(b"8=FIX.4.4\x019=5\x0135=0\x01"), *b"163");
/// ```
#[must_use]
pub fn check_sum(bytes: &[u8]) -> [u8; 3] {
    let sum = sum(bytes);
    [b'0' + sum / 100, b'0' + sum / 10 % 10, b'0' + sum % 10]
}

/// Returns the correct value of BodyLength(9) for a message or its beginning.
///
/// The value counts the bytes after BodyLength(9) up to CheckSum(10), or to the end if CheckSum(10)
/// is missing. Returns `None` if BodyLength(9) is not the second field.
/// ```
/// use transfix_codec::raw;
///
/// assert_eq!(raw::body_length(b"8=FIX.4.4\x019=0\x0135=0\x0110=163\x01"), Some(5));
/// ```
#[must_use]
pub fn body_length(message: &[u8]) -> Option<usize> {
    let mut heads = message.split_inclusive(|&b| b == SOH);
    let (begin_string, length) = (heads.next()?, heads.next()?);
    if !begin_string.starts_with(b"8=") || !length.starts_with(b"9=") || !length.ends_with(&[SOH]) {
        return None;
    }
    let body = &message[begin_string.len() + length.len()..];
    // CheckSum(10) with its delimiter has seven bytes: `10=ddd` and SOH.
    let trailer = body.len().checked_sub(7).filter(|&at| body[at..].starts_with(b"10="));
    Some(trailer.unwrap_or(body.len()))
}

/// Checks BodyLength(9) and CheckSum(10) of one whole message.
///
/// # Errors
/// The reason why the message is garbled.
pub fn verify(message: &[u8]) -> Result<(), Garbled> {
    let limits = Limits { message_bytes_max: message.len() };
    match split(message, limits) {
        Frame::Whole(end) if end == message.len() => {}
        // `TooLong` means that BodyLength(9) exceeds the length of the given bytes.
        Frame::TooLong { .. } | Frame::Whole(_) | Frame::Partial => {
            return Err(Garbled::BodyLength);
        }
        Frame::Garbled { reason, .. } => return Err(reason),
    }
    let (covered, trailer) = message.split_at(message.len() - 7);
    if trailer[3..6] == check_sum(covered) { Ok(()) } else { Err(Garbled::CheckSum) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const MESSAGE: &[u8] = b"8=FIX.4.4\x019=5\x0135=0\x0110=163\x01";

    #[test]
    fn verified() {
        let table: [(&[u8], Result<(), Garbled>); 7] = [
            (MESSAGE, Ok(())),
            (b"8=FIX.4.4\x019=5\x0135=0\x0110=164\x01", Err(Garbled::CheckSum)),
            (b"8=FIX.4.4\x019=6\x0135=0\x0110=163\x01", Err(Garbled::BodyLength)),
            (b"8=FIX.4.4\x019=4\x0135=0\x0110=163\x01", Err(Garbled::BodyLength)),
            (b"8=FIX.4.4\x0135=0\x01", Err(Garbled::BodyLengthField)),
            (b"junk", Err(Garbled::BeginString)),
            (b"", Err(Garbled::BodyLength)),
        ];
        for (bytes, expected) in table {
            assert_eq!(verify(bytes), expected, "{}", bytes.escape_ascii());
        }
        assert_eq!(verify(&MESSAGE.repeat(2)), Err(Garbled::BodyLength));
    }

    #[test]
    fn lengths() {
        let table: [(&[u8], Option<usize>); 5] = [
            (MESSAGE, Some(5)),
            (b"8=FIX.4.4\x019=\x0135=0\x01", Some(5)),
            (b"8=FIX.4.4\x019=5\x01", Some(0)),
            (b"8=FIX.4.4\x0135=0\x01", None),
            (b"", None),
        ];
        for (bytes, expected) in table {
            assert_eq!(body_length(bytes), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn fields_of_any_bytes() {
        let read: Vec<_> = fields(b"x=1\x010=2\x01\x01none\x01=3\x0158==\x01cut").collect();
        let values: [&[u8]; 6] = [b"1", b"2", b"", b"", b"3", b"="];
        assert!(read.iter().map(|field| field.value).eq(values));
        assert!(read.iter().map(|field| field.tag.0).eq([0, 0, 0, 0, 0, 58]));
        // A Length field with an implausible value is ignored; a plausible one determines the end
        // of the data field.
        assert_eq!(first(b"95=9\x0196=ab\x0158=x\x01", Tag(96)), Some(&b"ab"[..]));
        assert_eq!(first(b"95=9\x0196=ab\x0158=xyz\x01", Tag(96)), Some(&b"ab\x0158=xyz"[..]));
    }

    #[test]
    fn pieces_are_the_buffer() {
        let stream = [b"junk", MESSAGE, b"8=FIX.4.4\x01x", MESSAGE, &MESSAGE[..9]].concat();
        let found: Vec<_> = pieces(&stream, Limits::default()).collect();
        assert_eq!(found.iter().filter_map(|piece| piece.message()).count(), 2);
        assert_eq!(found.last(), Some(&Piece::Partial(&MESSAGE[..9])));
        let bytes = found.iter().flat_map(|piece| match *piece {
            Piece::Message(bytes) | Piece::Garbled(bytes, _) | Piece::Partial(bytes) => bytes,
        });
        assert!(bytes.eq(&stream));
    }
}
