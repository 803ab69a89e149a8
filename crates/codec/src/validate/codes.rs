//! The requirements that a field's value must meet: the format of its type, and its code set.
//!
//! Codes of up to seven bytes are compared as numbers, because comparing texts took a third of the
//! whole validation time.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use transfix_dictionary::{DataType, Dictionary};

use crate::{Field, value};

/// The requirements that a field's value must meet.
#[derive(Debug)]
pub(super) struct FieldRule {
    pub(super) data_type: DataType,
    /// The tag of the Length field if this is a data field; otherwise 0.
    pub(super) length_tag: u32,
    /// True if only the listed codes are permitted.
    has_codes: bool,
    is_multiple: bool,
    /// The one-byte codes as a bit set, indexed by ASCII character.
    short_codes: [u64; 2],
    /// The codes of 2 to 7 bytes as numbers in a hash set.
    keys: KeySet,
    /// The codes of more than 7 bytes, sorted.
    long_codes: Box<[Box<[u8]>]>,
}

/// A hash set of codes as numbers, at most half full; a free slot is 0.
#[derive(Debug)]
struct KeySet {
    slots: Box<[u64]>,
    shift: u32,
}

impl KeySet {
    fn new(keys: &[u64]) -> Self {
        let size = (keys.len() * 2).next_power_of_two().max(2);
        let mut set = Self { slots: vec![0; size].into(), shift: 64 - size.trailing_zeros() };
        for key in keys {
            let slot = set.slot(*key);
            set.slots[slot] = *key;
        }
        set
    }

    /// Returns the slot that contains the key; if no slot does, the free slot for inserting it.
    #[inline]
    fn slot(&self, key: u64) -> usize {
        let mut at = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize;
        while self.slots[at] != key && self.slots[at] != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    #[inline]
    fn contains(&self, key: u64) -> bool {
        self.slots[self.slot(key)] == key
    }
}

/// Returns a number that identifies a value of 2 to 7 bytes: its bytes, and its length in the
/// highest byte.
#[inline]
fn key(value: &[u8]) -> Option<u64> {
    let len = value.len();
    let bytes = match (value.first_chunk::<4>(), value.last_chunk::<4>()) {
        (Some(first), Some(last)) if len < 8 => {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            // `first` and `last` overlap; the shared bytes are equal in both words, so OR keeps
            // them.
            u64::from(first) | u64::from(last) << (8 * (len - 4))
        }
        _ => match *value {
            [a, b] => u64::from_le_bytes([a, b, 0, 0, 0, 0, 0, 0]),
            [a, b, c] => u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 0]),
            _ => return None,
        },
    };
    Some(bytes | (len as u64) << 56)
}

/// The check that a non-empty value needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueCheck {
    /// No check: every text is valid.
    Text,
    /// The value must be a listed code, which always has the format of its type.
    Codes,
    /// The value must be a decimal number.
    Decimal,
    /// Digits only.
    Digits,
    /// The value must consist of digits with an optional minus sign.
    Int,
    /// A UTCTimestamp.
    Timestamp,
    /// The length of the value must equal the preceding Length field.
    Data,
    /// The value must have the format of its data type, which is none of the types above.
    Form,
}

impl FieldRule {
    pub(super) fn of(field: &transfix_dictionary::Field, dictionary: &Dictionary) -> Self {
        let (mut short_codes, mut keys) = ([0_u64; 2], Vec::new());
        let mut long_codes: Vec<Box<[u8]>> = Vec::new();
        for code in &field.codes {
            match (code.value.as_bytes(), key(code.value.as_bytes())) {
                (&[byte], _) if byte.is_ascii() => {
                    short_codes[usize::from(byte / 64)] |= 1 << (byte % 64);
                }
                (_, Some(key)) => keys.push(key),
                (value, None) => long_codes.push(value.into()),
            }
        }
        long_codes.sort();
        Self {
            data_type: field.data_type,
            length_tag: dictionary.length_tag(field.tag).unwrap_or(0),
            // MsgType(35) has its own check against the defined messages (SessionRejectReason(373)
            // 11), so its codes are not used.
            has_codes: !field.codes.is_empty() && !field.open && field.tag != 35,
            is_multiple: field.data_type.is_multiple(),
            short_codes,
            keys: KeySet::new(&keys),
            long_codes: long_codes.into(),
        }
    }

    /// Returns the value of the Length field directly before the data field.
    pub(super) fn length_in(&self, before: Option<Field<'_>>) -> Option<u64> {
        before.filter(|before| before.tag.0 == self.length_tag).and_then(|b| value::uint(b.value))
    }

    pub(super) fn look(&self) -> ValueCheck {
        use DataType as T;
        match self.data_type {
            _ if self.has_codes => ValueCheck::Codes,
            T::String | T::Pattern | T::Xid | T::XidRef => ValueCheck::Text,
            T::Float | T::Qty | T::Price | T::PriceOffset | T::Amt | T::Percentage => {
                ValueCheck::Decimal
            }
            T::Length | T::TagNum | T::SeqNum | T::NumInGroup => ValueCheck::Digits,
            T::Int => ValueCheck::Int,
            T::UtcTimestamp => ValueCheck::Timestamp,
            T::Data | T::XmlData => ValueCheck::Data,
            _ => ValueCheck::Form,
        }
    }

    /// Returns the one-byte codes in the range from `0` to `o` as bits, bit 0 for `0`; most codes
    /// are in this range.
    pub(super) const fn common_codes(&self) -> u64 {
        let [low, high] = self.short_codes;
        low >> b'0' | high << (64 - b'0')
    }

    /// Returns true if this ASCII character is a one-byte code.
    #[inline(always)]
    fn is_short(&self, byte: u8) -> bool {
        self.short_codes[usize::from(byte / 64) & 1] & (1 << (byte % 64)) != 0
    }

    /// Returns true if a value is a listed code, and therefore has the format of its type.
    #[inline]
    pub(super) fn is_code(&self, value: &[u8]) -> bool {
        match *value {
            [byte] if byte < 128 => self.is_short(byte),
            _ => self.admits(value),
        }
    }

    /// Returns true if the code set permits the value; in a list of codes, each code must be
    /// permitted.
    #[inline]
    pub(super) fn admits(&self, value: &[u8]) -> bool {
        if !self.has_codes {
            return true;
        }
        if self.is_multiple {
            return value.split(|&b| b == b' ').all(|word| self.admits_one(word));
        }
        self.admits_one(value)
    }

    fn admits_one(&self, value: &[u8]) -> bool {
        if let [byte] = *value
            && byte.is_ascii()
        {
            return self.is_short(byte);
        }
        match key(value) {
            Some(key) => self.keys.contains(key),
            None => self.long_codes.binary_search_by(|code| (**code).cmp(value)).is_ok(),
        }
    }
}
