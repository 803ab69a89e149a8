//! `transfix dictionary`: describes a message, component or field of FIX.
//!
//! Without arguments, the command lists the standard dictionaries. A path instead of a name reads a
//! venue's own file, in the format of the QuickFIX family or of FIX Orchestra.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use comfy_table::{CellAlignment, Table, presets};
use transfix::DictionarySource;
use transfix_dictionary::{Dictionary, STANDARD, describe, standard};

use crate::input::{answered, failed};

const EXAMPLES: &str = "\
Examples:
  transfix dictionary                        the standard dictionaries
  transfix dictionary FIX44                  the messages of FIX 4.4
  transfix dictionary FIX44 NewOrderSingle   a message, with components and groups
  transfix dictionary FIX44 D                the same, by MsgType(35)
  transfix dictionary FIX44 44               a field by its tag
  transfix dictionary FIX44 Side             a field by its name, with its codes
  transfix dictionary Side                   the same, because FIX44 is the default
  transfix dictionary FIX44 NoPartyIDs       a group's count, with the fields of an entry
  transfix dictionary venue.xml Symbol       from your own dictionary

FIX50SP2 is FIX 5.0 SP2 with the extension packs up to EP280; FIXLatest has those up to EP269.
No published source describes plain FIX 5.0 SP2 completely; an overlay can remove the additions of
the extension packs.

Exit code: 0 found, 1 not in the dictionary, 2 wrong usage or a dictionary that cannot be read.";

/// Shows the definition of a message, component or field of FIX.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A standard dictionary (FIX40 to FIX50SP2, FIXT11, FIXLatest) or the path of an XML file.
    dictionary: Option<String>,
    /// A message (name or MsgType), component, field (name or tag), `header` or `trailer`.
    #[arg(requires = "dictionary")]
    what: Option<String>,
    /// A file with changes to the dictionary; several files apply in their order.
    #[arg(long, value_name = "FILE", requires = "dictionary")]
    overlay: Vec<PathBuf>,
    /// The scenario to use from a FIX Orchestra file.
    #[arg(long, value_name = "NAME", requires = "dictionary")]
    scenario: Option<String>,
}

/// Prints the requested description; fails if the dictionary or the item is unknown.
pub(crate) fn run(args: &Args) -> ExitCode {
    match answer(args) {
        Ok(text) => answered(&text),
        Err(Failure::Unreadable(error)) => failed(&error),
        Err(Failure::Unknown(error)) => {
            let _ = writeln!(io::stderr(), "transfix: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reason why no description can be printed.
#[derive(Debug)]
enum Failure {
    /// The dictionary cannot be read.
    Unreadable(String),
    /// The dictionary does not contain the requested item.
    Unknown(String),
}

fn answer(args: &Args) -> Result<String, Failure> {
    let Some(name) = &args.dictionary else { return list().map_err(Failure::Unreadable) };
    let source = |base: &str| DictionarySource {
        base: base.into(),
        scenario: args.scenario.clone(),
        overlays: args.overlay.clone(),
    };
    let dictionary = match source(name).load() {
        Ok(dictionary) => dictionary,
        Err(error) => {
            // A single argument that names no dictionary may name an item of the default
            // dictionary.
            let usual = source(USUAL).load().ok().filter(|_| args.what.is_none());
            let found = usual.and_then(|usual| describe(&usual, name).ok());
            let is_word = args.what.is_none() && !name.contains(['.', '/']);
            let hint = if is_word {
                format!("; {USUAL} has no message, component or field of this name")
            } else {
                String::new()
            };
            return found.ok_or_else(|| Failure::Unreadable(error + &hint));
        }
    };
    match &args.what {
        Some(what) => describe(&dictionary, what).map_err(|unknown| {
            let version = dictionary.name();
            Failure::Unknown(match elsewhere(&dictionary, what) {
                Some(other) => format!("'{what}' is not in {version}, but in {other}"),
                None => unknown.to_string(),
            })
        }),
        None => Ok(messages(&dictionary)),
    }
}

/// Returns `FIXT11` if only this session dictionary defines the item.
fn elsewhere(dictionary: &Dictionary, what: &str) -> Option<&'static str> {
    const SESSION: &str = "FIXT11";
    let session = standard(SESSION).ok()?;
    (dictionary.header().is_empty() && describe(&session, what).is_ok()).then_some(SESSION)
}

/// Default dictionary.
const USUAL: &str = "FIX44";

/// Lists the standard dictionaries: name, version, and number of messages, components and fields.
fn list() -> Result<String, String> {
    let mut table = table(&["name", "version", "messages", "components", "fields"]);
    for name in STANDARD {
        let dictionary = standard(name).map_err(|error| error.to_string())?;
        let version = match dictionary.extension_pack() {
            Some(pack) => format!("{} EP{pack}", dictionary.name()),
            None => dictionary.name().to_owned(),
        };
        let (messages, components) = (dictionary.messages().len(), dictionary.components().len());
        let fields = dictionary.fields().len();
        let counts = [messages, components, fields].map(|count| count.to_string());
        table.add_row([(*name).to_owned(), version].into_iter().chain(counts));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    Ok(format!("{}\n", table.trim_fmt()))
}

/// Lists the messages of a dictionary with MsgType(35) and name.
fn messages(dictionary: &Dictionary) -> String {
    let mut table = table(&["MsgType", "message"]);
    for message in dictionary.messages() {
        table.add_row([&message.msg_type, &message.name]);
    }
    format!("{}\n", table.trim_fmt())
}

fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head.iter().copied());
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_to(dictionary: Option<&str>, what: Option<&str>) -> Result<String, String> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        answer(&Args {
            dictionary: owned(dictionary),
            what: owned(what),
            overlay: Vec::new(),
            scenario: None,
        })
        .map_err(|failure| match failure {
            Failure::Unreadable(error) | Failure::Unknown(error) => error,
        })
    }

    #[test]
    fn answers() {
        let cases = [
            (None, None, "FIXLatest"),
            (None, None, "FIX.5.0SP2 EP280"),
            (Some("FIX44"), None, "NewOrderSingle"),
            (Some("fix.4.4"), Some("D"), "NewOrderSingle(D)  FIX.4.4  application message\n"),
            (Some("FIX44"), Some("44"), "Price(44)  FIX.4.4  Price\n"),
            (Some("FIXT11"), Some("header"), "* BeginString(8)"),
            (Some("Side"), None, "Side(54)  FIX.4.4  char\n"),
            (Some("FIX44"), Some("NoPartyIDs"), "an entry in Parties\n  PartyID(448)"),
        ];
        for (dictionary, what, expected) in cases {
            let text = answer_to(dictionary, what).unwrap();
            assert!(text.contains(expected), "{dictionary:?} {what:?}: {text}");
        }
    }

    #[test]
    fn what_is_unknown_is_said_with_the_nearest() {
        let cases = [
            (Some("FIX45"), None, "did you mean 'FIX4"),
            (Some("FIX44"), Some("Prise"), "did you mean 'Price'?"),
            (Some("no/such.xml"), None, "no/such.xml: "),
            (Some("FIX50SP2"), Some("Logon"), "'Logon' is not in FIX.5.0SP2, but in FIXT11"),
            (Some("Sidee"), None, "no standard dictionary has this name"),
        ];
        for (dictionary, what, expected) in cases {
            let error = answer_to(dictionary, what).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
