//! `transfix codes`: what the number of an event, an error or a reason means, and what to do.
//!
//! Invariant: the texts are those of the engine's table of events and of the code's documentation;
//! none is written here.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use transfix::EventCode;
use transfix::dictionary::nearest;

use crate::input::answered;

const EXAMPLES: &str = "\
Examples:
  transfix codes                 all numbers, a line each
  transfix codes 2201            an event
  transfix codes event_code=2201 the same, as a log line has it
  transfix codes StoreFailed     the same by its name
  transfix codes 109             the reason of a disconnect

Exit code: 0 found, 1 there is no such number or name, 2 wrong usage.";

/// Explain the number of an event, an error or a reason, and say what to do about it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Number or name; all if left out.
    code: Option<String>,
}

/// The numbers that are no events. `cargo xtask docs` writes this list.
const REASONS: &str = include_str!("codes/reasons.txt");

/// What has a number.
#[derive(Clone, Copy)]
enum Known {
    Event(EventCode),
    /// A variant of an error or of a reason.
    Reason {
        number: u16,
        of: &'static str,
        name: &'static str,
        meaning: &'static str,
    },
}

impl Known {
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

    /// `event, ERROR`, or the type of an error.
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
        // A String takes everything.
        let _ = writeln!(text, "meaning: {}", self.meaning());
        if let Self::Event(code) = self {
            let _ = writeln!(text, "what to do: {}", code.remedy());
        }
        text
    }
}

/// Prints the answer; fails if there is no such code.
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
    let all = Known::all();
    let Some(code) = code else { return Ok(all.iter().map(Known::line).collect()) };
    let code = code.strip_prefix("event_code=").unwrap_or(code);
    if let Ok(number) = code.parse::<u64>() {
        // Numbers of one kind share their thousand.
        let alike = all.iter().filter(|known| u64::from(known.number()) / 1000 == number / 1000);
        let near = alike.min_by_key(|known| u64::from(known.number()).abs_diff(number));
        return match near {
            Some(known) if u64::from(known.number()) == number => Ok(known.explained()),
            Some(known) => {
                Err(format!("no code is {number}; the nearest is {}", known.line().trim()))
            }
            None => Err(format!("no code is {number}; `transfix codes` lists all")),
        };
    }
    let named = all.iter().filter(|known| known.name().eq_ignore_ascii_case(code));
    let found: Vec<_> = named.map(Known::explained).collect();
    if !found.is_empty() {
        return Ok(found.join("\n"));
    }
    let hint = nearest(code, all.iter().map(Known::name));
    let hint = hint.map_or_else(
        || "`transfix codes` lists all".to_owned(),
        |name| format!("did you mean {name}?"),
    );
    Err(format!("no code has the name '{}'; {hint}", code.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_explained_and_listed() {
        let (all, list) = (Known::all(), answer(None).unwrap());
        assert_eq!(list.lines().count(), all.len());
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
            ("2299", "no code is 2299; the nearest is 2301  CallbackHangs"),
            ("0", "no code is 0; the nearest is 101  LoggedOut"),
            ("99999", "no code is 99999; `transfix codes` lists all"),
            ("event_code=2299", "no code is 2299; the nearest is 2301  CallbackHangs"),
            ("99999999999999999999", "no code has the name"),
            ("StoreFaild", "did you mean StoreFailed?"),
            ("nonsense-word", "`transfix codes` lists all"),
        ] {
            let error = answer(Some(code)).unwrap_err();
            assert!(error.contains(expected), "{code}: {error}");
        }
    }
}
