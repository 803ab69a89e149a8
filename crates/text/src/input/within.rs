//! Restores values that contain the readable delimiter of a log.
//!
//! If `;` or `|` replaces SOH, a value that contains the delimiter looks like two fields.
//! BodyLength(9) does not change with the replacement, but CheckSum(10) does, because it covers the
//! bytes of the wire.

use transfix_codec::{SOH, raw};

use super::split::{Delimiter, InputError};

/// The maximum number of delimiters in the values of one message that can be restored.
const WITHIN_MAX: usize = 8;

/// The length of `10=ddd` with its delimiter, in bytes.
const TRAILER: usize = 7;

/// Restores the delimiters that belong to values of a message, after all delimiters were replaced
/// with SOH.
///
/// A delimiter without a tag after it is restored if this makes the CheckSum(10) correct. Otherwise
/// the function returns the number of delimiters in values, if such a number explains the wrong
/// CheckSum(10).
pub(super) fn restore(message: &mut [u8], source: &[u8], by: Delimiter) -> Option<InputError> {
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
    Some(InputError::Delimiter { by, count })
}

/// Returns true if the bytes begin with a tag and `=`, like a field.
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

    /// Checks the value of Text(58) after reading a message with `;` as the delimiter.
    fn check(text: &str, expected: &str, wrong: Option<InputError>) {
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
        let within = |count| Some(InputError::Delimiter { by: b';', count });
        check("plain", "plain", None);
        check("a;b", "a;b", None);
        check("a;b;;c;", "a;b;;c;", None);
        check("a;7", "a;7", None);
        // The text could also be two fields, so the delimiter is ambiguous.
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
