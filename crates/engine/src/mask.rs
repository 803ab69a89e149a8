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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(frame: &str, expected: &str) {
        let frame = frame.replace('|', "\x01");
        let shown = String::from_utf8(masked(frame.as_bytes()).into_owned()).unwrap();
        assert_eq!(shown.replace('\x01', "|"), expected);
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
