//! `transfix codes`: explains the number of an event, an error or a reason, and its remedy.
//!
//! Invariant: this file contains no meanings. They come from the engine's event table, from the
//! documentation in the code, and from the standard dictionary.

mod standard;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use transfix::EventCode;
use transfix_dictionary::nearest;

use crate::input::answered;

const EXAMPLES: &str = "\
Examples:
  transfix codes                 all numbers, a line each
  transfix codes 2201            an event
  transfix codes event_code=2201 the same, in the form of a log line
  transfix codes StoreFailed     the same by its name
  transfix codes 109             the reason of a disconnect
  transfix codes 373=5           a code of a FIX field, in the form of a message
  transfix codes 5               the reasons with this number in Reject(3) and
                                 BusinessMessageReject(j)

Numbers below 100 are codes of SessionRejectReason(373) and BusinessRejectReason(380). For codes of
other fields, write FIELD=VALUE with the tag or name of the field.
Exit code: 0 found, 1 there is no such number or name, 2 wrong usage.";

/// Explain the number of an event, error or reason, or the code of a FIX field.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Number, name or FIELD=VALUE. Default: a list of all numbers.
    code: Option<String>,
}

/// List of the numbers of errors and reasons, without events; `cargo xtask docs` writes the list.
const REASONS: &str = include_str!("codes/reasons.txt");

/// An event, an error or a reason with its number.
#[derive(Clone, Copy)]
enum CodeEntry {
    Event(EventCode),
    /// A variant of an error or of a reason.
    Reason {
        number: u16,
        of: &'static str,
        name: &'static str,
        meaning: &'static str,
    },
}

impl CodeEntry {
    fn all() -> Vec<Self> {
        let reasons = REASONS.lines().filter_map(|line| {
            let mut parts = line.splitn(4, '\t');
            let number = parts.next()?.parse().ok()?;
            let (of, name, meaning) = (parts.next()?, parts.next()?, parts.next()?);
            Some(Self::Reason { number, of, name, meaning })
        });
        let mut all: Vec<_> =
            reasons.chain(EventCode::ALL.iter().copied().map(Self::Event)).collect();
        all.sort_by_key(Self::number);
        all
    }

    const fn number(&self) -> u16 {
        match self {
            Self::Event(code) => code.as_u16(),
            Self::Reason { number, .. } => *number,
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Event(code) => code.name(),
            Self::Reason { name, .. } => name,
        }
    }

    /// Returns the kind of the entry: for an event `event` with its levels, such as `event, ERROR`;
    /// otherwise the name of the error type.
    fn kind(&self) -> String {
        match self {
            Self::Event(code) => {
                let levels = code.levels().iter().map(|level| level.as_str().to_uppercase());
                format!("event, {}", levels.collect::<Vec<_>>().join(" or "))
            }
            Self::Reason { of, .. } => (*of).to_owned(),
        }
    }

    const fn meaning(&self) -> &'static str {
        match self {
            Self::Event(code) => code.text(),
            Self::Reason { meaning, .. } => meaning,
        }
    }

    fn line(&self) -> String {
        format!("{:>4}  {}  ({})  {}\n", self.number(), self.name(), self.kind(), self.meaning())
    }

    fn explained(&self) -> String {
        let mut text = format!("{} {} ({})\n", self.number(), self.name(), self.kind());
        // Writing to a `String` never fails.
        let _ = writeln!(text, "meaning: {}", self.meaning());
        if let Self::Event(code) = self {
            let _ = writeln!(text, "what to do: {}", code.remedy());
        }
        text
    }
}

/// Prints the explanation of the number, name or code; fails if it is unknown.
pub(crate) fn run(args: &Args) -> ExitCode {
    match answer(args.code.as_deref()) {
        Ok(text) => answered(&text),
        Err(error) => {
            let _ = writeln!(io::stderr(), "transfix: {error}");
            ExitCode::FAILURE
        }
    }
}

fn answer(code: Option<&str>) -> Result<String, String> {
    let all = CodeEntry::all();
    let Some(code) = code else {
        let lines = standard::reasons()?.map(|one| one.line());
        return Ok(lines.chain(all.iter().map(CodeEntry::line)).collect());
    };
    let code = code.strip_prefix("event_code=").unwrap_or(code);
    if let Some((field, value)) = code.split_once('=') {
        return standard::code(field, value);
    }
    if let Ok(number) = code.parse::<u64>() {
        return numbered(number, &all);
    }
    let named = all.iter().filter(|known| known.name().eq_ignore_ascii_case(code));
    let of_standard = standard::reasons()?.filter(|one| one.is(code));
    let found: Vec<_> =
        named.map(CodeEntry::explained).chain(of_standard.map(|one| one.explained())).collect();
    if !found.is_empty() {
        return Ok(found.join("\n"));
    }
    let names = all.iter().map(CodeEntry::name).chain(standard::reasons()?.map(|one| one.name()));
    let hint = nearest(code, names);
    let hint = hint.map_or_else(
        || "`transfix codes` lists all".to_owned(),
        |name| format!("did you mean {name}?"),
    );
    Err(format!("no code has the name '{}'; {hint}", code.escape_debug()))
}

/// Numbers below this limit are defined by the FIX standard, all others by Transfix.
const OURS_FROM: u64 = 100;

fn numbered(number: u64, all: &[CodeEntry]) -> Result<String, String> {
    if number < OURS_FROM {
        let wanted = number.to_string();
        let found = standard::reasons()?.filter(|one| one.is(&wanted));
        let found: Vec<_> = found.map(|one| one.explained()).collect();
        return match found.is_empty() {
            true => Err(format!(
                "neither SessionRejectReason(373) nor BusinessRejectReason(380) has a code \
                 {number}; `transfix codes` lists all"
            )),
            false => Ok(found.join("\n")),
        };
    }
    // Numbers of the same kind have the same thousands digit, so a similar number is searched only
    // there.
    let alike = all.iter().filter(|known| u64::from(known.number()) / 1000 == number / 1000);
    let near = alike.min_by_key(|known| u64::from(known.number()).abs_diff(number));
    match near {
        Some(known) if u64::from(known.number()) == number => Ok(known.explained()),
        Some(known) => {
            Err(format!("there is no code {number}; the nearest code is {}", known.line().trim()))
        }
        None => Err(format!("there is no code {number}; `transfix codes` lists all codes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_explained_and_listed() {
        let (all, list) = (CodeEntry::all(), answer(None).unwrap());
        let of_standard: Vec<_> = standard::reasons().unwrap().collect();
        assert_eq!(list.lines().count(), all.len() + of_standard.len());
        for one in &of_standard {
            assert!(list.contains(&one.line()), "{}", one.line());
        }
        assert!(all.len() > EventCode::ALL.len() + 100, "{}", all.len());
        assert!(all.is_sorted_by(|a, b| a.number() < b.number()), "a number is given once");
        for known in &all {
            let text = answer(Some(&known.number().to_string())).unwrap();
            assert!(text.contains(known.name()) && text.contains(known.meaning()), "{text}");
            assert!(answer(Some(known.name())).unwrap().contains(&text), "{}", known.name());
            let logged = format!("event_code={}", known.number());
            assert_eq!(answer(Some(&logged)).unwrap(), text);
        }
        for code in EventCode::ALL {
            let text = answer(Some(&code.as_u16().to_string())).unwrap();
            assert!(text.contains(code.remedy()), "{text}");
            for level in code.levels() {
                assert!(text.contains(&level.as_str().to_uppercase()), "{text}");
            }
        }
    }

    #[test]
    fn an_unknown_code_names_the_nearest() {
        for (code, expected) in [
            ("2299", "there is no code 2299; the nearest code is 2301  CallbackHangs"),
            (
                "50",
                "neither SessionRejectReason(373) nor BusinessRejectReason(380) has a code 50; \
                 `transfix codes` lists all",
            ),
            ("99999", "there is no code 99999; `transfix codes` lists all codes"),
            ("event_code=2299", "there is no code 2299; the nearest code is 2301  CallbackHangs"),
            ("99999999999999999999", "no code has the name"),
            ("StoreFaild", "did you mean StoreFailed?"),
            ("VALUE_IS_INCORECT", "did you mean VALUE_IS_INCORRECT?"),
            (
                "373=50",
                "SessionRejectReason(373) has no code 50; `transfix dictionary FIXLatest 373`",
            ),
            ("58=5", "Text(58) has no codes"),
            (
                "SesionRejectReason=5",
                "FIX has no field SesionRejectReason; did you mean SessionRejectReason?",
            ),
            ("9999=5", "FIX has no field 9999"),
            ("=5", "FIX has no field "),
            ("nonsense-word", "`transfix codes` lists all"),
        ] {
            let error = answer(Some(code)).unwrap_err();
            assert!(error.contains(expected), "{code}: {error}");
        }
    }

    /// A number below 100 is explained as a reason of Reject(3) or BusinessMessageReject(j).
    #[test]
    fn the_reasons_of_the_standard_are_explained() {
        let answer = |code: &str| answer(Some(code)).unwrap();
        let incorrect = answer("373=5");
        assert_eq!(
            incorrect,
            "SessionRejectReason(373)=5 VALUE_IS_INCORRECT (Reject(3))\nmeaning: Value is \
             incorrect (out of range) for this tag\nwhat to do: RefSeqNum(45) is the number of \
             the rejected message, and RefTagID(371) the field; `transfix check` shows the \
             correct form\n"
        );
        for same in ["SessionRejectReason=5", "sessionrejectreason=5", "VALUE_IS_INCORRECT"] {
            assert_eq!(answer(same), incorrect, "{same}");
        }
        let both = answer("5");
        assert!(both.starts_with(&incorrect), "{both}");
        assert!(both.contains("\nBusinessRejectReason(380)=5 CONDITIONALLY_REQUIRED_"), "{both}");
        assert!(answer("380=3").contains("UNSUPPORTED_MESSAGE_TYPE (BusinessMessageReject(j))"));
        assert_eq!(answer("103=1"), "OrdRejReason(103)=1 UNKNOWN_SYMBOL\n");
        assert_eq!(answer("Side=1"), "Side(54)=1 BUY\n");
        // The engine sends each of these reasons itself, so all must be explained.
        for reason in transfix::RejectReason::ALL {
            let text = answer(&format!("373={}", reason.as_u16()));
            assert!(text.contains(&format!("\nmeaning: {}\n", reason.text())), "{text}");
        }
    }
}
