//! Passwords in frames that go to logs.
//!
//! Invariant: lengths stay, and CheckSum(10) is as right or wrong as it was: what is shown is still
//! a message.

use std::borrow::Cow;
use std::ops::Range;

use transfix_codec::{SOH, Tag, raw, tag};

/// Fields that carry secrets in a Logon(A): RawData(96), Password(554), NewPassword(925),
/// EncryptedPassword(1402), EncryptedNewPassword(1404).
const OF_LOGON: [Tag; 5] = [tag::RAW_DATA, tag::PASSWORD, tag::NEW_PASSWORD, Tag(1402), Tag(1404)];

/// The frame with stars in place of passwords; only a Logon(A) has any.
pub fn masked(frame: &[u8]) -> Cow<'_, [u8]> {
    if raw::first(frame, tag::MSG_TYPE) != Some(b"A") {
        return Cow::Borrowed(frame);
    }
    let mut bytes = frame.to_vec();
    mask(&mut bytes, &[]);
    Cow::Owned(bytes)
}

/// Puts stars in place of passwords, and of the values of these tags in any message.
pub(crate) fn mask(frame: &mut [u8], everywhere: &[Tag]) {
    let of_type: &[Tag] =
        if raw::first(frame, tag::MSG_TYPE) == Some(b"A") { &OF_LOGON } else { &[] };
    if of_type.is_empty() && everywhere.is_empty() {
        return;
    }
    let is_secret = |tag: &Tag| of_type.contains(tag) || everywhere.contains(tag);
    let mut difference = 0_u8;
    let mut done = 0;
    while let Some(range) = secret_from(frame, done, is_secret) {
        done = range.end;
        for byte in &mut frame[range] {
            difference = difference.wrapping_add(b'*').wrapping_sub(*byte);
            *byte = b'*';
        }
    }
    add_to_check_sum(frame, difference);
}

/// Where the first secret value behind `from` stands.
fn secret_from(
    frame: &[u8],
    from: usize,
    is_secret: impl Fn(&Tag) -> bool,
) -> Option<Range<usize>> {
    let place = |value: &[u8]| {
        let begin = value.as_ptr().addr() - frame.as_ptr().addr();
        begin..begin + value.len()
    };
    let secrets = raw::fields(frame).filter(|field| is_secret(&field.tag));
    secrets.map(|field| place(field.value)).find(|range| range.start >= from && !range.is_empty())
}

/// Corrects CheckSum(10) for bytes that have changed; a wrong one stays wrong.
fn add_to_check_sum(frame: &mut [u8], difference: u8) {
    let Some([b'1', b'0', b'=', digits @ .., SOH]) = frame.last_chunk_mut::<7>() else { return };
    let text = std::str::from_utf8(digits).unwrap_or_default();
    if let Ok(sum) = text.parse::<u8>() {
        let sum = sum.wrapping_add(difference);
        *digits = [sum / 100, sum / 10 % 10, sum % 10].map(|digit| b'0' + digit);
    }
}

/// Puts stars in place of all that may be a secret in bytes that are no message: whatever follows
/// such a tag up to the next delimiter, and all that follows RawData(96), which may contain any.
pub(crate) fn mask_garbled(bytes: &mut [u8], everywhere: &[Tag]) {
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|&b| b == b'=') {
        let value = at + found + 1;
        let digits = bytes[..value - 1].iter().rev().take_while(|b| b.is_ascii_digit()).count();
        let text = std::str::from_utf8(&bytes[value - 1 - digits..value - 1]).unwrap_or_default();
        let tag = Tag(text.parse().unwrap_or(0));
        at = value;
        if OF_LOGON.contains(&tag) || everywhere.contains(&tag) {
            let is_raw = tag == tag::RAW_DATA;
            let end = bytes[value..].iter().position(|&b| b == SOH && !is_raw);
            at = end.map_or(bytes.len(), |end| value + end);
            bytes[value..at].fill(b'*');
        }
    }
}

#[cfg(test)]
mod tests {
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
        check("8=FIX.4.4|9=50|35=D|554=hush|10=000|", "8=FIX.4.4|9=50|35=D|554=hush|10=000|");
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
