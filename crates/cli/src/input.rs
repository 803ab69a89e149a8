//! Options for reading messages, and exit codes, which several commands share.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use transfix::{DictionarySource, Mask, Tag};
use transfix_text::input;

use crate::foreign;

pub(crate) use transfix_text::input::{
    Dictionaries, Failure, InputError, InputMessage, Pair, Place, Sink, covered_entry, holds_store,
    is_segment, parse, read, shown, store, store_beside,
};

/// Prints an error about the input or the settings. Returns exit code 2.
pub(crate) fn failed(error: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "transfix: {}", foreign::lines(error));
    ExitCode::from(2)
}

/// Writes the result of a command to standard output, and returns the exit code.
pub(crate) fn answered(text: &str) -> ExitCode {
    match io::stdout().write_all(foreign::lines(text).as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // A closed pipe, as in `| head`, is not an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => failed(&format!("cannot write: {error}")),
    }
}

/// Prints the error of a failed command, if any, and returns the exit code.
pub(crate) fn ended(done: Result<ExitCode, Failure>) -> ExitCode {
    match done {
        Ok(code) => code,
        Err(Failure::Enough) => ExitCode::SUCCESS,
        // A closed pipe, as in `| head`, is not an error.
        Err(Failure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => failed(&failure.to_string()),
    }
}

/// Options with which the user names a dictionary.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Choice {
    /// A standard dictionary (FIX40 to FIX50SP2, FIXT11, FIXLatest) or the path of an XML file.
    /// Default: chosen by BeginString(8), ApplVerID(1128) and DefaultApplVerID(1137) of each
    /// message.
    #[arg(long, value_name = "NAME|FILE")]
    dictionary: Option<String>,
    /// A file with changes to the dictionary of `--dictionary`; may be repeated.
    #[arg(long, value_name = "FILE", requires = "dictionary")]
    overlay: Vec<PathBuf>,
    /// The scenario to use, if `--dictionary` names a FIX Orchestra file.
    #[arg(long, value_name = "NAME", requires = "dictionary")]
    scenario: Option<String>,
}

impl Choice {
    /// Reads the dictionary that the user names.
    pub(crate) fn load(&self) -> Result<Dictionaries, String> {
        let read = |name: &String| {
            let (base, scenario) = (name.into(), self.scenario.clone());
            DictionarySource { base, scenario, overlays: self.overlay.clone() }.load()
        };
        let chosen = self.dictionary.as_ref().map(read).transpose()?;
        Ok(Dictionaries::new(chosen.map(Arc::new)))
    }
}

/// Options that determine which values are shown as stars.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Masking {
    /// Also shows the values of these tags as stars; separate several tags by commas, such as
    /// 1,448. Password(554), NewPassword(925), EncryptedPassword(1402) and
    /// EncryptedNewPassword(1404) are always hidden, and so is RawData(96) in Logon(A) and
    /// UserRequest(BE).
    #[arg(long, value_name = "TAG", value_delimiter = ',', value_parser = tag)]
    mask: Vec<Tag>,
    /// Shows passwords and other secrets instead of stars.
    #[arg(long, conflicts_with = "mask")]
    unmasked: bool,
}

impl Masking {
    /// Returns the fields to hide, or `None` to show all values.
    pub(crate) fn mask(&self) -> Option<Mask> {
        (!self.unmasked).then(|| Mask::of(self.mask.iter().copied()))
    }
}

/// Parses a tag from the command line.
pub(crate) fn tag(text: &str) -> Result<Tag, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.map(Tag).ok_or_else(|| "write the number of a tag, such as 1".to_owned())
}

/// The delimiter between the fields of a message.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Delimiter {
    /// The byte 1, as on the wire.
    Soh,
    /// The character `|`.
    #[value(alias = "|")]
    Pipe,
    /// The character `;`.
    #[value(alias = ";")]
    Semicolon,
    /// The two characters `^A`.
    #[value(alias = "^A")]
    Caret,
}

impl From<Delimiter> for input::Delimiter {
    fn from(delimiter: Delimiter) -> Self {
        match delimiter {
            Delimiter::Soh => Self::Soh,
            Delimiter::Pipe => Self::Pipe,
            Delimiter::Semicolon => Self::Semicolon,
            Delimiter::Caret => Self::Caret,
        }
    }
}

/// Returns the MsgType(35) for each word of `--type`. Prints a note if no dictionary has the type.
///
/// # Errors
/// Returns an error if no dictionary has a message of this name.
pub(crate) fn msg_types(
    words: &[String],
    dictionaries: &mut Dictionaries,
) -> Result<Vec<String>, String> {
    let types = input::msg_types(words, dictionaries, &mut |word| {
        let note = format!("--type: no dictionary has a message of the type '{word}'");
        let _ = writeln!(io::stderr(), "transfix: {note}");
    });
    types.map_err(|error| format!("--type: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_numbers() {
        assert_eq!(tag("448"), Ok(Tag(448)));
        for text in ["", "0", "-1", "Account", "1.5"] {
            assert!(tag(text).is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_dictionaries_are_refused() {
        for (name, expected) in [("FIX45", "did you mean"), ("no/such.xml", "no/such.xml: ")] {
            let choice = Choice { dictionary: Some(name.to_owned()), ..Choice::default() };
            let error = choice.load().err().unwrap();
            assert!(error.contains(expected), "{error}");
        }
    }
}
