//! The Rust types of the fields in generated code.

use crate::{DataType, Field};

/// The Rust type of a field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// A type of the crate `transfix-codec`, with a lifetime if the type borrows.
    Plain(&'static str),
    /// A data field; the number is the tag of its Length field.
    Data(u32),
    /// A single code: the name of its code set and the kind of the codes.
    Code(String, CodeKind),
    /// A list of codes: the name of their code set and the kind of the codes.
    Codes(String, CodeKind),
}

/// The form of a code set's codes when encoded: number, character or text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CodeKind {
    /// A character.
    Char,
    /// A number.
    Int,
    /// Text.
    Text,
}

impl CodeKind {
    /// Returns the kind of a field's codes; `None` if the field has no codes, or if its data type
    /// alone determines the Rust type.
    pub(super) fn of(field: &Field) -> Option<Self> {
        use DataType as T;
        if field.codes.is_empty() {
            return None;
        }
        let is_char =
            || field.codes.iter().all(|code| matches!(code.value.as_bytes(), [b' '..=b'~']));
        let is_int = || {
            let canonical = |code: &str| code.parse::<i64>().is_ok_and(|n| n.to_string() == code);
            field.codes.iter().all(|code| canonical(&code.value))
        };
        match field.data_type {
            T::Boolean | T::Length | T::TagNum | T::SeqNum | T::NumInGroup => None,
            T::UtcTimestamp | T::UtcDateOnly | T::LocalMktDate | T::MonthYear | T::Tenor => None,
            T::UtcTimeOnly | T::LocalMktTime | T::TzTimeOnly | T::TzTimestamp => None,
            T::Data | T::XmlData => None,
            T::Char | T::MultipleCharValue if is_char() => Some(Self::Char),
            T::Int | T::DayOfMonth if is_int() => Some(Self::Int),
            _ => Some(Self::Text),
        }
    }

    /// Returns the Rust type of a code.
    pub(super) const fn rust(self) -> &'static str {
        match self {
            Self::Char => "u8",
            Self::Int => "i64",
            Self::Text => "&'a str",
        }
    }

    /// Returns the lifetime parameter of the enum; empty if the enum has none.
    pub(super) const fn lifetime(self) -> &'static str {
        match self {
            Self::Char | Self::Int => "",
            Self::Text => "<'a>",
        }
    }
}

/// Returns the Rust type for a data type whose field has no codes.
pub(super) const fn plain(data_type: DataType) -> &'static str {
    use DataType as T;
    match data_type {
        T::Int | T::DayOfMonth => "i64",
        T::Length | T::TagNum | T::SeqNum | T::NumInGroup => "u64",
        T::Float | T::Qty | T::Price | T::PriceOffset | T::Amt | T::Percentage => "t::Decimal",
        T::Char => "u8",
        T::Boolean => "bool",
        T::UtcTimestamp => "t::Timestamp",
        T::UtcDateOnly | T::LocalMktDate => "t::Date",
        T::UtcTimeOnly | T::LocalMktTime => "t::TimeOfDay",
        T::TzTimeOnly => "t::TzTimeOnly",
        T::TzTimestamp => "t::TzTimestamp",
        T::MonthYear => "t::MonthYear",
        T::Tenor => "t::Tenor",
        T::Data | T::XmlData => "&'a [u8]",
        _ => "&'a str",
    }
}

impl Type {
    /// Returns the Rust type that a getter returns, with lifetime `'a`.
    pub(super) fn read(&self, codes: &str) -> String {
        match self {
            Self::Plain(plain) => (*plain).to_owned(),
            Self::Data(_) => "&'a [u8]".to_owned(),
            Self::Code(name, kind) => format!("{codes}{name}{}", kind.lifetime()),
            Self::Codes(name, kind) => format!("t::Words<'a, {codes}{name}{}>", kind.lifetime()),
        }
    }

    /// Returns the Rust type that a setter accepts, with lifetime `'a`.
    pub(super) fn write(&self, codes: &str) -> String {
        match self {
            Self::Codes(name, kind) => format!("&'a [{codes}{name}{}]", kind.lifetime()),
            other => other.read(codes),
        }
    }
}
