//! Values by their Rust type, and code sets.
//!
//! Invariant: what is written and read again is equal, and so is what is read and written again
//! but for the leading zeros of numbers.

use core::marker::PhantomData;

use crate::scan;
use crate::time_of_day::{TimeOfDay, TzTimeOnly, TzTimestamp};
use crate::value::{self, Tenor};
use crate::{Body, Date, Decimal, MonthYear, Tag, Timestamp};

/// A type that a field's value is read as.
pub trait Value<'a>: Sized {
    /// The value of these bytes, which are not empty; `None` if they are malformed.
    fn read(value: &'a [u8]) -> Option<Self>;
}

/// A type that a field's value is written from.
pub trait ToField {
    /// Writes the field.
    fn write(self, tag: Tag, body: &mut Body<'_>);
}

/// A code set: one case for each code, and one for all others.
pub trait CodeSet<'a>: Copy {
    /// The form of a code on the wire.
    type Code: Value<'a>;

    /// The case of a code.
    fn of(code: Self::Code) -> Self;

    /// The code of a case.
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

/// Implements both for a type, by the function that reads it and the method that writes it.
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

/// A code that can stand in a list, parted from others by blanks.
pub trait Word {
    /// The code's bytes.
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

/// The codes of a MultipleCharValue or MultipleStringValue.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a, C> {
    /// The rest of the value.
    rest: Option<&'a [u8]>,
    code: PhantomData<fn() -> C>,
}

impl<'a, C: Value<'a>> Words<'a, C> {
    /// The codes of a value; `None` if one of them is malformed.
    #[must_use]
    pub fn of(value: &'a [u8]) -> Option<Self> {
        let is_code = |word: &'a [u8]| !word.is_empty() && C::read(word).is_some();
        let sound = value.split(|&b| b == b' ').all(is_code);
        sound.then_some(Self { rest: Some(value), code: PhantomData })
    }

    /// Returns true if one of them is that code.
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
