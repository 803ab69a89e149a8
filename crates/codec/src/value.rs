//! Reads the plain values of fields: int, SeqNum, char, Boolean.
//!
//! FIX datatypes: an int may carry leading zeros and a minus sign, never a plus sign.

/// An int: optional minus sign, digits. `None` if malformed or beyond 64 bits.
#[must_use]
pub fn int(value: &[u8]) -> Option<i64> {
    match value {
        [b'-', digits @ ..] => 0_i64.checked_sub_unsigned(uint(digits)?),
        digits => i64::try_from(uint(digits)?).ok(),
    }
}

/// Digits only. `None` if malformed or beyond 64 bits.
#[must_use]
pub fn uint(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u64, |n, &b| {
        if !b.is_ascii_digit() {
            return None;
        }
        n.checked_mul(10)?.checked_add(u64::from(b - b'0'))
    })
}

/// A char: one byte that is neither a control character nor above ASCII.
#[must_use]
pub fn char(value: &[u8]) -> Option<u8> {
    match value {
        [c] if (b' '..=b'~').contains(c) => Some(*c),
        _ => None,
    }
}

/// `Y` or `N`.
#[must_use]
pub fn boolean(value: &[u8]) -> Option<bool> {
    match value {
        b"Y" => Some(true),
        b"N" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ints() {
        let table: [(&[u8], Option<i64>); 10] = [
            (b"0", Some(0)),
            (b"-0", Some(0)),
            (b"00023", Some(23)),
            (b"-7", Some(-7)),
            (b"+7", None),
            (b"", None),
            (b"-", None),
            (b"1a", None),
            (b"9223372036854775807", Some(i64::MAX)),
            (b"9223372036854775808", None),
        ];
        for (text, expected) in table {
            assert_eq!(int(text), expected, "{}", text.escape_ascii());
        }
        assert_eq!(int(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(uint(b"18446744073709551616"), None);
    }

    #[test]
    fn chars_and_booleans() {
        assert_eq!(char(b"1"), Some(b'1'));
        assert_eq!(char(b"12"), None);
        assert_eq!(char(b"\x02"), None);
        assert_eq!(boolean(b"Y"), Some(true));
        assert_eq!(boolean(b"y"), None);
    }
}
