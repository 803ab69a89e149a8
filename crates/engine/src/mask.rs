//! Passwords in frames that go to logs.

use std::borrow::Cow;

use transfix_codec::{Tag, raw, tag};

const SECRET: [Tag; 2] = [tag::PASSWORD, tag::NEW_PASSWORD];

/// The frame with stars in place of passwords; only a Logon(A) has any.
pub(crate) fn masked(frame: &[u8]) -> Cow<'_, [u8]> {
    if raw::first(frame, tag::MSG_TYPE) != Some(b"A") {
        return Cow::Borrowed(frame);
    }
    let mut bytes = frame.to_vec();
    for field in raw::fields(frame).filter(|field| SECRET.contains(&field.tag)) {
        let begin = field.value.as_ptr().addr() - frame.as_ptr().addr();
        bytes[begin..begin + field.value.len()].fill(b'*');
    }
    Cow::Owned(bytes)
}

/// The same with a CheckSum(10) that is right again, for the journal.
pub(crate) fn sealed(frame: &[u8]) -> Cow<'_, [u8]> {
    let Cow::Owned(mut bytes) = masked(frame) else { return Cow::Borrowed(frame) };
    // `10=ddd` and the delimiter.
    let end = bytes.len().saturating_sub(7);
    let digits = raw::check_sum(&bytes[..end]);
    if let Some(place) = bytes.get_mut(end + 3..end + 6) {
        place.copy_from_slice(&digits);
    }
    Cow::Owned(bytes)
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
        let frame = b"8=FIX.4.4\x019=19\x0135=A\x01554=hush\x0110=000\x01";
        let sealed = sealed(frame);
        assert!(sealed.windows(9).any(|part| part == b"554=****\x01"));
        let (summed, trailer) = sealed.split_at(sealed.len() - 7);
        assert_eq!(trailer[3..6], raw::check_sum(summed));
    }

    #[test]
    fn passwords_of_a_logon() {
        check(
            "8=FIX.4.4|9=50|35=A|553=me|554=hush|925=new|10=000|",
            "8=FIX.4.4|9=50|35=A|553=me|554=****|925=***|10=000|",
        );
        check("8=FIX.4.4|9=50|35=D|554=hush|10=000|", "8=FIX.4.4|9=50|35=D|554=hush|10=000|");
    }
}
