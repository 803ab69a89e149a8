//! Passwords in frames that go to logs, and other values that nobody shall read there.
//!
//! Invariant: lengths stay, and CheckSum(10) is as right or wrong as it was: what is shown is still
//! a message.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use crate::{Field, SOH, Tag, raw, tag};

/// Fields that carry secrets in whatever message: Password(554), NewPassword(925),
/// EncryptedPassword(1402), EncryptedNewPassword(1404).
const SECRET: [Tag; 4] = [tag::PASSWORD, tag::NEW_PASSWORD, Tag(1402), Tag(1404)];

/// Messages in which RawData(96) is a secret too: Logon(A), UserRequest(BE). In others it is what
/// the message is about.
const RAW_DATA_IS_SECRET: [&[u8]; 2] = [b"A", b"BE"];

/// The frame with stars in place of passwords: the form in which messages go to logs and screens.
/// Its length stays, and its CheckSum(10) is right if it was.
pub fn masked(frame: &[u8]) -> Cow<'_, [u8]> {
    Mask::default().message(frame)
}

/// The values that are shown as stars: those of passwords, and of named tags.
///
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
    /// The values of these tags, in every message, beside those of passwords.
    #[must_use]
    pub fn of(tags: impl IntoIterator<Item = Tag>) -> Self {
        Self { everywhere: tags.into_iter().collect() }
    }

    /// Returns true if the value of this tag in a message of this MsgType(35) is hidden.
    #[must_use]
    pub fn hides(&self, msg_type: impl AsRef<[u8]>, tag: Tag) -> bool {
        is_secret(RAW_DATA_IS_SECRET.contains(&msg_type.as_ref()), &self.everywhere, tag)
    }

    /// A message as it is shown. Its length stays, and its CheckSum(10) is right if it was.
    #[must_use]
    pub fn message<'f>(&self, frame: &'f [u8]) -> Cow<'f, [u8]> {
        if secrets(frame, &self.everywhere).next().is_none() {
            return Cow::Borrowed(frame);
        }
        let mut bytes = frame.to_vec();
        self.message_in_place(&mut bytes);
        Cow::Owned(bytes)
    }

    /// As [`message`](Self::message), in the bytes themselves.
    pub fn message_in_place(&self, frame: &mut [u8]) {
        mask(frame, &self.everywhere);
    }

    /// Bytes that are no message: stars from such a tag to the next delimiter, and in place of all
    /// that follows RawData(96).
    #[must_use]
    pub fn garbled(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        self.garbled_in_place(&mut bytes);
        bytes
    }

    /// As [`garbled`](Self::garbled), in the bytes themselves.
    pub fn garbled_in_place(&self, bytes: &mut [u8]) {
        mask_garbled(bytes, &self.everywhere);
    }
}

fn is_secret(raw_data: bool, everywhere: &[Tag], tag: Tag) -> bool {
    SECRET.contains(&tag) || everywhere.contains(&tag) || (raw_data && tag == tag::RAW_DATA)
}

/// Puts stars in place of passwords, and of the values of these tags.
fn mask(frame: &mut [u8], everywhere: &[Tag]) {
    let places: Vec<Range<usize>> = secrets(frame, everywhere).collect();
    let mut difference = 0_u8;
    for byte in places.into_iter().flatten() {
        difference = difference.wrapping_add(b'*').wrapping_sub(frame[byte]);
        frame[byte] = b'*';
    }
    add_to_check_sum(frame, difference);
}

/// Where the values of secret fields stand; found in one pass.
fn secrets<'f>(frame: &'f [u8], everywhere: &'f [Tag]) -> impl Iterator<Item = Range<usize>> + 'f {
    let raw_data = RAW_DATA_IS_SECRET.contains(&msg_type(frame));
    let secret = move |field: &Field<'_>| is_secret(raw_data, everywhere, field.tag);
    raw::fields(frame).filter(secret).map(move |field| {
        let begin = field.value.as_ptr().addr() - frame.as_ptr().addr();
        begin..begin + field.value.len()
    })
}

/// MsgType(35), which stands third, or first in a message that waits for its header.
fn msg_type(frame: &[u8]) -> &[u8] {
    let found = raw::fields(frame).take(3).find(|field| field.tag == tag::MSG_TYPE);
    found.map_or(b"", |field| field.value)
}

/// Corrects CheckSum(10) for bytes that have changed; a wrong one stays wrong.
fn add_to_check_sum(frame: &mut [u8], difference: u8) {
    let Some([b'1', b'0', b'=', digits @ .., SOH]) = frame.last_chunk_mut::<7>() else { return };
    let text = core::str::from_utf8(digits).unwrap_or_default();
    if let Ok(sum) = text.parse::<u8>() {
        let sum = sum.wrapping_add(difference);
        *digits = [sum / 100, sum / 10 % 10, sum % 10].map(|digit| b'0' + digit);
    }
}

/// Puts stars in place of all that may be a secret in bytes that are no message. These are the
/// bytes behind such a tag up to the next delimiter, and all bytes behind RawData(96), which may
/// contain any.
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
        // In the queue there is no header yet.
        check("35=BE|923=1|95=1|96=x|", "35=BE|923=1|95=1|96=*|");
        check("8=FIX.4.4|9=50|35=D|554=hush|10=000|", "8=FIX.4.4|9=50|35=D|554=****|10=240|");
        // The subject of the message, or a text that looks like a secret.
        let news = "8=FIX.4.4|9=50|35=B|95=1|96=x|58=554=hush|10=000|";
        check(news, news);
    }

    /// As many steps as there are bytes: 200,000 secrets take no longer than as many other fields.
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
