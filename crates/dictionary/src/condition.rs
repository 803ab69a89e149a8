//! Conditions on other fields that make a member required, in the syntax of FIX Orchestra.
//! ```
//! # #[cfg(feature = "xml")] {
//! use transfix_dictionary::{Condition, standard};
//!
//! let fix44 = standard("FIX44").expect("a standard dictionary");
//! let limit = Condition::parse("OrdType in {^LIMIT, '4'} and not exists Price", &fix44)?;
//! assert!(limit.holds(&|tag| (tag == 40).then_some(&b"2"[..])));
//! assert!(!limit.holds(&|_| None));
//! # }
//! # Ok::<(), transfix_dictionary::BadCondition>(())
//! ```
//!
//! Invariants: a parsed condition contains tags and encoded values, no names. A condition has at
//! most [`Condition::DEPTH_MAX`] levels.

use core::cmp::Ordering;
use core::fmt;

use crate::{Dictionary, Field};

mod parse;

/// A condition on fields in the same message as the member that it makes required.
///
/// The value of a field is looked up in the group entry of the member, then in the enclosing
/// entries, then in the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The field is present.
    Exists(u32),
    /// The field is present, and its comparison with a value or with another present field is true.
    Compare(u32, Comparison, Operand),
    /// The field is present and has one of these values.
    In(u32, Vec<String>),
    /// The inner condition does not hold.
    Not(Box<Self>),
    /// All inner conditions hold.
    All(Vec<Self>),
    /// At least one inner condition holds.
    Any(Vec<Self>),
}

/// A comparison operator. Two values are compared as numbers if both are numbers, otherwise byte by
/// byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// The right side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A value as encoded on the wire.
    Value(String),
    /// Another field.
    Field(u32),
}

/// A syntax or name error in a condition.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadCondition {
    /// Offset of the error in the text of the condition, in characters, counted from 0.
    pub at: usize,
    /// Description of the error.
    pub why: String,
}

impl fmt::Display for BadCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (character {})", self.why, self.at + 1)
    }
}

/// Formats as [`fmt::Display`] does, so that an error returned by `main` prints as text.
impl fmt::Debug for BadCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for BadCondition {}

impl Condition {
    /// Maximum nesting depth of a condition.
    pub const DEPTH_MAX: usize = 64;

    /// Parses a condition.
    ///
    /// Operators are `==`, `!=`, `<`, `<=`, `>`, `>=`, `in { , }`, `exists`, `and`, `or`, `not` and
    /// parentheses. A field is written as its name; on the left side, its tag is accepted too. A
    /// value is written as `^CODE`, in quotes or as a number.
    ///
    /// # Errors
    /// [`BadCondition`] if the text is malformed, or a field or code is unknown.
    pub fn parse(text: &str, dictionary: &Dictionary) -> Result<Self, BadCondition> {
        parse::parse(text, &|name| {
            dictionary.field_named(name).or_else(|| by_tag(dictionary, name))
        })
    }

    /// Parses a condition; `find` returns the field with a given name or tag.
    pub(crate) fn parse_with<'d>(
        text: &str,
        find: &dyn Fn(&str) -> Option<&'d Field>,
    ) -> Result<Self, BadCondition> {
        parse::parse(text, find)
    }

    /// Returns true if the condition holds; `value` returns the value of a field, or `None` if the
    /// field is absent.
    pub fn holds<'v>(&self, value: &impl Fn(u32) -> Option<&'v [u8]>) -> bool {
        match self {
            Self::Exists(tag) => value(*tag).is_some(),
            Self::Compare(tag, comparison, operand) => {
                let right = match operand {
                    Operand::Value(text) => Some(text.as_bytes()),
                    Operand::Field(tag) => value(*tag),
                };
                match (value(*tag), right) {
                    (Some(left), Some(right)) => comparison.holds(compare(left, right)),
                    _ => false,
                }
            }
            Self::In(tag, values) => value(*tag)
                .is_some_and(|found| values.iter().any(|v| compare(found, v.as_bytes()).is_eq())),
            Self::Not(inner) => !inner.holds(value),
            Self::All(inner) => inner.iter().all(|condition| condition.holds(value)),
            Self::Any(inner) => inner.iter().any(|condition| condition.holds(value)),
        }
    }
}

fn by_tag<'d>(dictionary: &'d Dictionary, name: &str) -> Option<&'d Field> {
    name.parse().ok().and_then(|tag| dictionary.field(tag))
}

impl Comparison {
    const fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// Compares two values as numbers if both are numbers, so that `1.0` equals `1`; otherwise byte by
/// byte.
fn compare(left: &[u8], right: &[u8]) -> Ordering {
    match (Number::of(left), Number::of(right)) {
        (Some(left), Some(right)) => left.compare(&right),
        _ => left.cmp(right),
    }
}

/// A decimal number as text, without leading and trailing zeros.
struct Number<'v> {
    negative: bool,
    whole: &'v [u8],
    fraction: &'v [u8],
}

impl<'v> Number<'v> {
    fn of(value: &'v [u8]) -> Option<Self> {
        let (negative, digits) = match value {
            [b'-', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        let mut parts = digits.splitn(2, |&b| b == b'.');
        let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
        let are_digits = whole.iter().chain(fraction).all(u8::is_ascii_digit);
        if !are_digits || whole.len() + fraction.len() == 0 {
            return None;
        }
        let zeros = whole.iter().take_while(|&&b| b == b'0').count();
        let trailing = fraction.iter().rev().take_while(|&&b| b == b'0').count();
        let (whole, fraction) = (&whole[zeros..], &fraction[..fraction.len() - trailing]);
        let is_zero = whole.is_empty() && fraction.is_empty();
        Some(Self { negative: negative && !is_zero, whole, fraction })
    }

    fn compare(&self, other: &Self) -> Ordering {
        let size = |a: &Self, b: &Self| {
            let whole = a.whole.len().cmp(&b.whole.len()).then_with(|| a.whole.cmp(b.whole));
            whole.then_with(|| a.fraction.cmp(b.fraction))
        };
        match (self.negative, other.negative) {
            (false, false) => size(self, other),
            (true, true) => size(other, self),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

#[cfg(all(test, feature = "xml"))]
mod tests;
