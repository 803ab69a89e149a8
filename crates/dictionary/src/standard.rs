//! The standard dictionaries, which are compiled into the program.

use crate::nearest::nearest;
use crate::{Dictionary, DictionaryError, Draft, Problem};

/// The names of the standard dictionaries, from the oldest version to the newest.
pub const STANDARD: &[&str] = &[
    "FIX40",
    "FIX41",
    "FIX42",
    "FIX43",
    "FIX44",
    "FIX50",
    "FIX50SP1",
    "FIX50SP2",
    "FIXT11",
    "FIXLatest",
];

/// Reads the standard dictionary with this name, from [`STANDARD`].
///
/// The name may be written as `FIX44`, `FIX.4.4` or `fix44`. Reading takes 0.2 to 4 ms for the
/// versions up to FIX50SP1, 14 ms for FIX50SP2 and 19 ms for FIXLatest (release build). Read a
/// dictionary once and keep it.
///
/// # Errors
/// If no dictionary has this name; the error suggests the nearest name.
pub fn standard(name: &str) -> Result<Dictionary, DictionaryError> {
    Draft::standard(name)?.resolve()
}

impl Draft {
    /// Reads a standard dictionary as a draft, which can be changed before [`Draft::resolve`].
    ///
    /// # Errors
    /// The errors of [`standard`].
    pub fn standard(name: &str) -> Result<Self, DictionaryError> {
        let (known, text) = standard_text(name)?;
        Self::from_quickfix_xml(text, &format!("{known}.xml"))
    }
}

/// Returns the name in [`STANDARD`] and the QuickFIX XML of a standard dictionary.
///
/// This function is for programs that read QuickFIX XML themselves.
///
/// # Errors
/// The errors of [`standard`].
pub fn standard_text(name: &str) -> Result<(&'static str, &'static str), DictionaryError> {
    let sought: String = name.chars().filter(|c| *c != '.').collect();
    match STANDARD.iter().zip(TEXTS).find(|(known, _)| known.eq_ignore_ascii_case(&sought)) {
        Some((known, text)) => Ok((known, text)),
        None => Err(DictionaryError {
            file: "standard dictionaries".to_owned(),
            line: 0,
            element: format!("dictionary '{name}'"),
            problem: Problem::UnknownStandard {
                nearest: nearest(&sought, STANDARD.iter().copied()).map(str::to_owned),
            },
        }),
    }
}

/// The XML text of each dictionary, in the order of [`STANDARD`].
const TEXTS: &[&str; STANDARD.len()] = &[
    include_str!("../../../dictionaries/FIX40.xml"),
    include_str!("../../../dictionaries/FIX41.xml"),
    include_str!("../../../dictionaries/FIX42.xml"),
    include_str!("../../../dictionaries/FIX43.xml"),
    include_str!("../../../dictionaries/FIX44.xml"),
    include_str!("../../../dictionaries/FIX50.xml"),
    include_str!("../../../dictionaries/FIX50SP1.xml"),
    include_str!("../../../dictionaries/FIX50SP2.xml"),
    include_str!("../../../dictionaries/FIXT11.xml"),
    include_str!("../../../dictionaries/FIXLatest.xml"),
];

#[cfg(test)]
mod tests;
