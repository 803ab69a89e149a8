//! Masking of passwords and other confidential values in logged frames.
//!
//! Invariant: masking keeps the length of each value and the validity of CheckSum(10), so a masked
//! frame can still be parsed as a message.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use crate::{Field, SOH, Tag, raw, tag};

/// Tags whose values are secret in every message: Password(554), NewPassword(925),
/// EncryptedPassword(1402), EncryptedNewPassword(1404).
const SECRET: [Tag; 4] = [tag::PASSWORD, tag::NEW_PASSWORD, Tag(1402), Tag(1404)];

/// Messages whose RawData(96) is secret: Logon(A), UserRequest(BE).
///
/// RawData(96) of other messages is ordinary content.
const RAW_DATA_IS_SECRET: [&[u8]; 2] = [b"A", b"BE"];

/// Returns the frame with its passwords replaced by asterisks, for logs and screens.
///
/// The frame keeps its length, and a correct CheckSum(10) stays correct.
pub fn masked(frame: &[u8]) -> Cow<'_, [u8]> {
    Mask::default().message(frame)
}

/// The set of fields whose values are replaced by asterisks: passwords and chosen tags.
/// ```
/// use transfix_codec::{Mask, Tag};
///
/// let mask = Mask::of([Tag(1)]);
/// let frame = b"8=FIX.4.4\x019=21\x0135=D\x011=DESK\x01554=hush\x0155=EU\x0110=000\x01";
/// let shown = mask.message(frame);
/// assert!(shown.starts_with(b"8=FIX.4.4\x019=21\x0135=D\x011=****\x01554=****\x0155=EU\x01"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    everywhere: Vec<Tag>,
}

impl Mask {
    /// Creates a mask for the values of these tags in every message, in addition to passwords.
    #[must_use]
    pub fn of(tags: impl IntoIterator<Item = Tag>) -> Self {
        Self { everywhere: tags.into_iter().collect() }
    }

    /// Returns true if this mask hides the value of `tag` in a message of type `msg_type`.
    #[must_use]
    pub fn hides(&self, msg_type: impl AsRef<[u8]>, tag: Tag) -> bool {
        is_secret(RAW_DATA_IS_SECRET.contains(&msg_type.as_ref()), &self.everywhere, tag)
    }

    /// Returns the message with its secret values replaced by asterisks.
    ///
    /// The message keeps its length, and a correct CheckSum(10) stays correct.
    #[must_use]
    pub fn message<'f>(&self, frame: &'f [u8]) -> Cow<'f, [u8]> {
        if secrets(frame, &self.everywhere).next().is_none() {
            return Cow::Borrowed(frame);
        }
        let mut bytes = frame.to_vec();
        self.message_in_place(&mut bytes);
        Cow::Owned(bytes)
    }

    /// Masks a message in place; see [`message`](Self::message).
    pub fn message_in_place(&self, frame: &mut [u8]) {
        mask(frame, &self.everywhere);
    }

    /// Returns a masked copy of bytes that are not a message.
    ///
    /// Asterisks replace the bytes after a masked tag up to the next delimiter, and all bytes after
    /// RawData(96).
    #[must_use]
    pub fn garbled(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        self.garbled_in_place(&mut bytes);
        bytes
    }

    /// Masks bytes that are not a message in place; see [`garbled`](Self::garbled).
    pub fn garbled_in_place(&self, bytes: &mut [u8]) {
        mask_garbled(bytes, &self.everywhere);
    }
}

fn is_secret(raw_data: bool, everywhere: &[Tag], tag: Tag) -> bool {
    SECRET.contains(&tag) || everywhere.contains(&tag) || (raw_data && tag == tag::RAW_DATA)
}

/// Replaces passwords and the values of the tags `everywhere` by asterisks, and corrects
/// CheckSum(10).
fn mask(frame: &mut [u8], everywhere: &[Tag]) {
    let places: Vec<Range<usize>> = secrets(frame, everywhere).collect();
    let mut difference = 0_u8;
    for byte in places.into_iter().flatten() {
        difference = difference.wrapping_add(b'*').wrapping_sub(frame[byte]);
        frame[byte] = b'*';
    }
    add_to_check_sum(frame, difference);
}

/// Iterates over the byte ranges of secret values, in one pass.
fn secrets<'f>(frame: &'f [u8], everywhere: &'f [Tag]) -> impl Iterator<Item = Range<usize>> + 'f {
    let raw_data = RAW_DATA_IS_SECRET.contains(&msg_type(frame));
    let secret = move |field: &Field<'_>| is_secret(raw_data, everywhere, field.tag);
    raw::fields(frame).filter(secret).map(move |field| {
        let begin = field.value.as_ptr().addr() - frame.as_ptr().addr();
        begin..begin + field.value.len()
    })
}

/// Returns MsgType(35): the value of the third field, or of the first field in a queued message
/// without header.
fn msg_type(frame: &[u8]) -> &[u8] {
    let found = raw::fields(frame).take(3).find(|field| field.tag == tag::MSG_TYPE);
    found.map_or(b"", |field| field.value)
}

/// Adds the difference of the masked bytes to CheckSum(10); a wrong CheckSum(10) stays wrong.
fn add_to_check_sum(frame: &mut [u8], difference: u8) {
    let Some([b'1', b'0', b'=', digits @ .., SOH]) = frame.last_chunk_mut::<7>() else { return };
    let text = core::str::from_utf8(digits).unwrap_or_default();
    if let Ok(sum) = text.parse::<u8>() {
        let sum = sum.wrapping_add(difference);
        *digits = [sum / 100, sum / 10 % 10, sum % 10].map(|digit| b'0' + digit);
    }
}

/// Replaces possible secrets in bytes that are not a message by asterisks.
///
/// Bytes after a masked tag are replaced up to the next delimiter. All bytes after RawData(96) are
/// replaced, because its value may contain any byte.
fn mask_garbled(bytes: &mut [u8], everywhere: &[Tag]) {
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|&b| b == b'=') {
        let value = at + found + 1;
        let digits = bytes[..value - 1].iter().rev().take_while(|b| b.is_ascii_digit()).count();
        let text = core::str::from_utf8(&bytes[value - 1 - digits..value - 1]).unwrap_or_default();
        let tag = Tag(text.parse().unwrap_or(0));
        at = value;
        if SECRET.contains(&tag) || tag == tag::RAW_DATA || everywhere.contains(&tag) {
            let is_raw = tag == tag::RAW_DATA;
            let end = bytes[value..].iter().position(|&b| b == SOH && !is_raw);
            at = end.map_or(bytes.len(), |end| value + end);
            bytes[value..at].fill(b'*');
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    fn check(frame: &str, expected: &str) {
        let frame = frame.replace('|', "\x01");
        let shown = String::from_utf8(masked(frame.as_bytes()).into_owned()).unwrap();
        assert_eq!(shown.replace('\x01', "|"), expected);
    }

    #[test]
    fn what_is_journalled_is_sound() {
        let body = b"8=FIX.4.4\x019=19\x0135=A\x01554=hush\x01";
        let frame = [&body[..], b"10=", &raw::check_sum(body), b"\x01"].concat();
        let journalled = masked(&frame);
        assert!(journalled.windows(9).any(|part| part == b"554=****\x01"));
        let (summed, trailer) = journalled.split_at(journalled.len() - 7);
        assert_eq!(trailer[3..6], raw::check_sum(summed));
    }

    #[test]
    fn passwords_of_a_logon() {
        check(
            "8=FIX.4.4|9=50|35=A|553=me|554=hush|925=new|",
            "8=FIX.4.4|9=50|35=A|553=me|554=****|925=***|",
        );
        check(
            "8=FIX.4.4|9=50|35=A|95=3|96=a|b|1402=x|58=b|10=000|",
            "8=FIX.4.4|9=50|35=A|95=3|96=***|1402=*|58=b|10=108|",
        );
        check(
            "8=FIX.4.4|9=50|35=BE|923=1|924=3|553=me|554=hush|925=new|95=1|96=x|10=000|",
            "8=FIX.4.4|9=50|35=BE|923=1|924=3|553=me|554=****|925=***|95=1|96=*|10=214|",
        );
        // A queued message, which has no header yet, is masked too.
        check("35=BE|923=1|95=1|96=x|", "35=BE|923=1|95=1|96=*|");
        check("8=FIX.4.4|9=50|35=D|554=hush|10=000|", "8=FIX.4.4|9=50|35=D|554=****|10=240|");
        // In News(B), RawData(96) is content, and the text `554=hush` within Text(58) is not a
        // password field.
        let news = "8=FIX.4.4|9=50|35=B|95=1|96=x|58=554=hush|10=000|";
        check(news, news);
    }

    /// Masking takes linear time: the test with 200,000 secrets finishes quickly.
    #[test]
    fn many_secrets_in_one_message() {
        let mut frame = b"8=FIX.4.4\x019=1\x0135=A\x01".to_vec();
        frame.extend(b"554=x\x01".repeat(200_000));
        let (found, expected) = (masked(&frame), frame.iter().filter(|b| **b == b'x').count());
        assert_eq!(found.iter().filter(|b| **b == b'*').count(), expected);
    }

    #[test]
    fn own_tags_and_check_sums() {
        let sum = |bytes: &[u8]| bytes.iter().fold(0_u8, |sum, b| sum.wrapping_add(*b));
        let body = b"8=FIX.4.4\x019=30\x0135=D\x0149=A\x011=secret\x011=more\x01";
        for wrong in [0, 1] {
            let check_sum = sum(body).wrapping_add(wrong);
            let mut frame = [&body[..], format!("10={check_sum:03}\x01").as_bytes()].concat();
            mask(&mut frame, &[Tag(1)]);
            let (body, trailer) = frame.split_at(frame.len() - 7);
            assert!(body.ends_with(b"49=A\x011=******\x011=****\x01"));
            let expected = format!("10={:03}\x01", sum(body).wrapping_add(wrong));
            assert_eq!(trailer, expected.as_bytes());
        }
    }

    #[test]
    fn what_is_hidden_by_tag_and_type() {
        let mask = Mask::of([Tag(1)]);
        for (msg_type, tag, expected) in
            [("D", 1, true), ("D", 554, true), ("BE", 96, true), ("B", 96, false), ("D", 55, false)]
        {
            assert_eq!(mask.hides(msg_type.as_bytes(), Tag(tag)), expected, "{msg_type} {tag}");
        }
    }

    #[test]
    fn secrets_in_what_is_no_message() {
        for (bytes, expected) in [
            ("35=A|554=hush|58=x", "35=A|554=****|58=x"),
            ("x554=hush", "x554=****"),
            ("1554=shown|96=a|b|58=c", "1554=shown|96=********"),
            ("=|=554=|7=own|8=x", "=|=554=|7=***|8=x"),
        ] {
            let mut bytes = bytes.replace('|', "\x01").into_bytes();
            mask_garbled(&mut bytes, &[Tag(7)]);
            let shown = String::from_utf8(bytes).unwrap().replace('\x01', "|");
            assert_eq!(shown, expected);
        }
    }
}
