//! Conversions between field values and Rust types, and code sets.
//!
//! Invariants: reading a written value gives an equal value. Writing a value that was read gives
//! the same text, except for leading zeros of numbers.

use core::marker::PhantomData;

use crate::scan;
use crate::time_of_day::{TimeOfDay, TzTimeOnly, TzTimestamp};
use crate::value::{self, Tenor};
use crate::{Body, Date, Decimal, MonthYear, Tag, Timestamp};

/// A type that field values can be parsed into.
pub trait Value<'a>: Sized {
    /// Parses a non-empty value; returns `None` if the value is malformed.
    fn read(value: &'a [u8]) -> Option<Self>;
}

/// A type that can be written as a field value.
pub trait ToField {
    /// Writes the field.
    fn write(self, tag: Tag, body: &mut Body<'_>);
}

/// A code set: an enum with one variant for each code, and one for all other values.
pub trait CodeSet<'a>: Copy {
    /// The Rust type of an encoded code, such as a byte or a text.
    type Code: Value<'a>;

    /// Returns the variant of a code.
    fn of(code: Self::Code) -> Self;

    /// Returns the code of a variant.
    fn code(self) -> Self::Code;
}

impl<'a, C: CodeSet<'a>> Value<'a> for C {
    #[inline]
    fn read(value: &'a [u8]) -> Option<Self> {
        C::Code::read(value).map(C::of)
    }
}

impl<'a, C: CodeSet<'a, Code: ToField>> ToField for C {
    #[inline]
    fn write(self, tag: Tag, body: &mut Body<'_>) {
        self.code().write(tag, body);
    }
}

impl<'a, C: Value<'a>> Value<'a> for Words<'a, C> {
    #[inline]
    fn read(value: &'a [u8]) -> Option<Self> {
        Self::of(value)
    }
}

/// Implements [`Value`] and [`ToField`] for a type by means of its parser and its writer method.
macro_rules! value {
    ($type:ty, $read:expr, $write:ident) => {
        impl<'a> Value<'a> for $type {
            #[inline]
            fn read(value: &'a [u8]) -> Option<Self> {
                $read(value)
            }
        }

        impl<'a> ToField for $type {
            #[inline]
            fn write(self, tag: Tag, body: &mut Body<'_>) {
                body.$write(tag, self);
            }
        }
    };
}

value!(&'a [u8], Some, bytes);
value!(&'a str, scan::text, str);
value!(bool, value::boolean, boolean);
value!(u8, value::char, char);
value!(i64, value::int, int);
value!(u64, value::uint, uint);
value!(Decimal, Decimal::parse, decimal);
value!(Timestamp, Timestamp::parse, timestamp);
value!(Date, Date::parse, date);
value!(MonthYear, MonthYear::parse, month_year);
value!(TimeOfDay, TimeOfDay::parse, time_of_day);
value!(TzTimeOnly, TzTimeOnly::parse, tz_time_only);
value!(TzTimestamp, TzTimestamp::parse, tz_timestamp);
value!(Tenor, Tenor::parse, tenor);

/// A code that may appear in a list of codes separated by blanks.
pub trait Word {
    /// Returns the bytes of the code.
    fn bytes(&self) -> &[u8];
}

impl Word for u8 {
    fn bytes(&self) -> &[u8] {
        core::slice::from_ref(self)
    }
}

impl Word for &str {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// Iterator over the codes of a MultipleCharValue or MultipleStringValue.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a, C> {
    /// The remaining bytes of the value; `None` at the end.
    rest: Option<&'a [u8]>,
    code: PhantomData<fn() -> C>,
}

impl<'a, C: Value<'a>> Words<'a, C> {
    /// Creates an iterator over the codes of a value; `None` if a code is malformed.
    #[must_use]
    pub fn of(value: &'a [u8]) -> Option<Self> {
        let is_code = |word: &'a [u8]| !word.is_empty() && C::read(word).is_some();
        let sound = value.split(|&b| b == b' ').all(is_code);
        sound.then_some(Self { rest: Some(value), code: PhantomData })
    }

    /// Returns true if the value contains `code`.
    #[must_use]
    pub fn contains(mut self, code: C) -> bool
    where
        C: PartialEq,
    {
        self.any(|word| word == code)
    }
}

impl<'a, C: Value<'a>> Iterator for Words<'a, C> {
    type Item = C;

    fn next(&mut self) -> Option<C> {
        let rest = self.rest?;
        let end = rest.iter().position(|&b| b == b' ');
        self.rest = end.map(|end| &rest[end + 1..]);
        C::read(&rest[..end.unwrap_or(rest.len())])
    }
}
