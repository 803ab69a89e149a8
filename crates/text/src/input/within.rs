//! Delimiters that were made readable, and stand within values too.
//!
//! Where `;` or `|` stands for the byte 1, a value that holds it looks like two fields. The length
//! of the message does not show that; CheckSum(10) does, since it counts the bytes of the wire.

use transfix_codec::{SOH, raw};

use super::split::{Delimiter, Wrong};

/// More of them in one message are not looked for.
const WITHIN_MAX: usize = 8;

/// Bytes of `10=ddd` and its delimiter.
const TRAILER: usize = 7;

/// Gives a message, whose delimiters in `source` have all become the byte 1, back those that
/// belong to values: those that no tag follows, if CheckSum(10) is right then. Otherwise answers
/// how many CheckSum(10) misses, if it is so that it can be explained.
pub(super) fn restore(message: &mut [u8], source: &[u8], by: Delimiter) -> Option<Wrong> {
    let &[by] = by.text() else { return None };
    let (covered, trailer) = message.split_at(message.len().checked_sub(TRAILER)?);
    let said = trailer.strip_prefix(b"10=")?.strip_suffix(&[SOH])?;
    let sum = raw::check_sum(covered);
    if sum == said {
        return None;
    }
    let is_place = |at: &usize| covered[*at] == SOH && source.get(*at) == Some(&by);
    let places: Vec<usize> = (0..covered.len()).filter(is_place).collect();
    let mut restored = covered.to_vec();
    for &at in &places {
        if !is_field(&message[at + 1..]) {
            restored[at] = by;
        }
    }
    if raw::check_sum(&restored) == said {
        message[..restored.len()].copy_from_slice(&restored);
        return None;
    }
    let (sum, said) = (number(&sum)?, number(said)?);
    let each = u32::from(by - SOH);
    let explains = |count: &usize| (sum + *count as u32 * each) % 256 == said;
    let count = (1..=places.len().min(WITHIN_MAX)).find(explains)?;
    Some(Wrong::Delimiter { by, count })
}

/// Returns true if the bytes begin with a tag and `=`.
fn is_field(bytes: &[u8]) -> bool {
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && bytes.get(digits) == Some(&b'=')
}

fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text(58) of a message, and how it is read back where `;` delimits its fields.
    fn check(text: &str, expected: &str, wrong: Option<Wrong>) {
        let body = format!("8=FIX.4.4\x019=9\x0135=B\x0158={text}\x0155=EU\x01");
        let sum = String::from_utf8(raw::check_sum(body.as_bytes()).to_vec()).unwrap();
        let source = format!("{body}10={sum}\x01").replace('\x01', ";");
        let mut message = source.replace(';', "\x01").into_bytes();
        assert_eq!(restore(&mut message, source.as_bytes(), Delimiter::Semicolon), wrong, "{text}");
        let read = String::from_utf8(message).unwrap().replace('\x01', "|");
        assert!(read.contains(&format!("|58={expected}|55=EU|")), "{text}: {read}");
    }

    #[test]
    fn what_the_check_sum_proves() {
        let within = |count| Some(Wrong::Delimiter { by: b';', count });
        check("plain", "plain", None);
        check("a;b", "a;b", None);
        check("a;b;;c;", "a;b;;c;", None);
        check("a;7", "a;7", None);
        // Two fields just as well: nothing tells which of the delimiters it is.
        check("a;7=b", "a|7=b", within(1));
        check("a;7=b;8=c", "a|7=b|8=c", within(2));
        check("a;b;7=c", "a|b|7=c", within(2));
    }

    #[test]
    fn what_else_is_wrong_stays() {
        let source = b"8=FIX.4.4;9=9;35=B;58=a;b;10=001;";
        let mut message = source.map(|b| if b == b';' { SOH } else { b });
        let before = message;
        assert_eq!(restore(&mut message, source, Delimiter::Semicolon), None);
        assert_eq!(message, before);
    }
}
