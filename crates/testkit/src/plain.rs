//! An independent, simple parser of FIX messages, to compare with the codec.
//!
//! The parser reads byte by byte and copies the fields. It shares only the list of data fields with
//! the codec.

use transfix_codec::{Tag, data};

/// A field: its tag (0 if invalid), the text before `=`, and the value.
pub type PlainField = (u32, Vec<u8>, Vec<u8>);

/// Returns the fields of a complete message, and true if CheckSum(10) is right. Returns `None` if
/// MsgType(35) is not the third field, or if the last field is not a CheckSum(10) of three bytes.
#[must_use]
pub fn parse(frame: &[u8]) -> Option<(Vec<PlainField>, bool)> {
    let mut fields: Vec<PlainField> = Vec::new();
    let mut at = 0;
    while at < frame.len() {
        let mut end = at;
        while end < frame.len() && frame[end] != 1 {
            end += 1;
        }
        let field = &frame[at..end];
        let Some(equals) = field.iter().position(|&b| b == b'=') else {
            fields.push((0, field.to_vec(), Vec::new()));
            at = end + 1;
            continue;
        };
        let text = &field[..equals];
        let tag = tag_of(text);
        let value = at + equals + 1;
        if let Some(length) = length_before(&fields, tag) {
            // The value of a data field may contain delimiters, but must end before the end of the
            // message.
            let until = value.saturating_add(length);
            if until < frame.len() - 1 && frame[until] == 1 {
                end = until;
            }
        }
        fields.push((tag, text.to_vec(), frame[value..end].to_vec()));
        at = end + 1;
    }
    let (last, text, sum) = fields.last()?;
    let is_trailer = *last == 10 && text == b"10" && sum.len() == 3;
    if !is_trailer || fields.get(2)?.0 != 35 {
        return None;
    }
    let covered = &frame[..frame.len() - "10=ddd|".len()];
    let total: u64 = covered.iter().map(|&b| u64::from(b)).sum();
    let holds = format!("{:03}", total % 256).as_bytes() == sum;
    Some((fields, holds))
}

/// Returns the tag. Returns 0 for text with leading zeros, other characters, or more than nine
/// digits.
fn tag_of(text: &[u8]) -> u32 {
    let text = String::from_utf8_lossy(text);
    let number: u32 = text.parse().unwrap_or(0);
    if number.to_string() == text && text.len() <= 9 { number } else { 0 }
}

/// Returns the length of the data field `tag`, which the Length field directly before the data
/// field declares.
fn length_before(fields: &[PlainField], tag: u32) -> Option<usize> {
    let (before, _, value) = fields.last()?;
    if data::length_of(Tag(tag)) != Some(Tag(*before)) {
        return None;
    }
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| is_number)?;
    text.parse::<u64>().ok().and_then(|number| usize::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_all_kinds_of_fields() {
        let frame =
            b"8=F\x019=0\x0135=D\x0195=3\x0196=a\x01b\x01x=1\x01none\x01010=1\x0110=000\x01";
        let (fields, holds) = parse(frame).expect("a message");
        let tags: Vec<u32> = fields.iter().map(|field| field.0).collect();
        assert_eq!(tags, [8, 9, 35, 95, 96, 0, 0, 0, 10]);
        assert_eq!(fields[4].2, b"a\x01b");
        assert!(!holds);
        assert!(parse(b"8=F\x0135=D\x019=0\x0110=000\x01").is_none());
        let sound = b"8=FIX.4.4\x019=5\x0135=0\x0110=163\x01";
        assert!(parse(sound).is_some_and(|(_, holds)| holds));
    }
}
