//! The state of a store, in a readable file next to the store's directory. The file is for people,
//! and shows at the next opening whether the directory was replaced by an older copy.
//!
//! **Invariant:** the file never contains higher numbers than the store has committed. It is
//! written when the store is opened, with each new segment, and when the store is closed. Between
//! these times, it may be older than the store.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::FileStore;
use crate::compress;
use crate::disk::Disk;
use crate::files::Files;
use crate::owner_only::{for_owner, open_regular};
use crate::record::Numbers;

/// The comment lines above the keys. The file is TOML, so that other programs can read it.
const HEAD: &str = "# The state of a session, written when its store is opened, begins a segment, \
                    and is closed.\n# `transfix store show` shows the present state. Changes \
                    here have no effect.\n";

impl FileStore<Files> {
    /// From now on, writes the state to the file at `path`. Returns the numbers in the existing
    /// file if they are higher than the store's. In this case the store is an older copy, has lost
    /// its end in a power failure, or was created again because its directory was missing.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn keep_numbers_in(&mut self, path: PathBuf) -> io::Result<Option<Numbers>> {
        let had = read(&path)?;
        let own = self.ledger.numbers;
        let is_new = self.is_new;
        let is_behind = |had: &Numbers| {
            // A reset also gives a store a new `created_ns`, but then the directory already
            // existed.
            (is_new && (own.next_in < had.next_in || own.next_out < had.next_out))
                || own.created_ns < had.created_ns
                || (own.created_ns == had.created_ns
                    && (own.next_in < had.next_in || own.next_out < had.next_out))
        };
        if let Some(had) = &had {
            // Segments from before the last reset are not read, although they may contain the
            // record of the last logon, so the file's time is used.
            self.ledger.last_logon_ns = self.ledger.last_logon_ns.max(had.last_logon_ns);
        }
        write(&path, &self.state())?;
        self.beside = Some(path);
        Ok(had.map(|had| had.numbers).filter(is_behind))
    }
}

impl<D: Disk> FileStore<D> {
    /// Writes the committed state to the file. If the write fails, the older file remains, which
    /// does no harm.
    pub(crate) fn keep_beside(&self) {
        if let Some(path) = &self.beside {
            let _ = write(path, &self.state());
        }
    }

    fn state(&self) -> State<'_> {
        let (session, last_logon_ns) = (self.owner.name(), self.ledger.last_logon_ns);
        State { session, numbers: self.ledger.numbers, last_logon_ns }
    }
}

/// The content of the state file.
#[derive(Debug, PartialEq, Eq)]
struct State<'s> {
    /// The name of the session; empty for a store without a session, and after reading the file.
    session: &'s str,
    numbers: Numbers,
    /// Time of the last logon, in nanoseconds since 1970; 0 if unknown.
    last_logon_ns: u64,
}

impl State<'_> {
    fn text(&self) -> String {
        let Self { session, numbers, last_logon_ns } = self;
        let Numbers { created_ns, next_in, next_out } = *numbers;
        let last_reset = written(created_ns);
        let mut text = format!(
            "{HEAD}session = {}\nnext_in = {next_in}\nnext_out = {next_out}\n\
             last_reset = {last_reset}\n",
            quoted(session)
        );
        if *last_logon_ns > 0 {
            text += &format!("last_logon = {}\n", written(*last_logon_ns));
        }
        text
    }
}

fn write(path: &Path, state: &State<'_>) -> io::Result<()> {
    let unfinished = compress::with(path, "new");
    // The path may be a pipe without a reader, and opening it would block, so the name is removed
    // first.
    let _ = fs::remove_file(&unfinished);
    let mut file = for_owner().write(true).create_new(true).open(&unfinished)?;
    file.write_all(state.text().as_bytes())?;
    fs::rename(unfinished, path)
}

/// Reads the state from the file; returns `None` if the file is missing or has other content.
fn read(path: &Path) -> io::Result<Option<State<'static>>> {
    let text = match open_regular(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => io::read_to_string(file?)?,
    };
    Ok(keys(&text).or_else(|| bare(&text)))
}

fn keys(text: &str) -> Option<State<'static>> {
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(" = "));
        lines.find(|(name, _)| *name == key).map(|(_, value)| value)
    };
    let numbers = Numbers {
        next_in: value("next_in")?.parse().ok()?,
        next_out: value("next_out")?.parse().ok()?,
        created_ns: read_time(value("last_reset")?)?,
    };
    let last_logon_ns = value("last_logon").and_then(read_time).unwrap_or(0);
    Some(State { session: "", numbers, last_logon_ns })
}

/// Parses the format of older versions: the time of the last reset, and both numbers.
fn bare(text: &str) -> Option<State<'static>> {
    let mut fields = text.split_whitespace().map(str::parse);
    let mut next = || fields.next()?.ok();
    let (created_ns, next_in, next_out) = (next()?, next()?, next()?);
    let numbers = Numbers { next_in, next_out, created_ns };
    Some(State { session: "", numbers, last_logon_ns: 0 })
}

/// Returns the text as a basic string of TOML. CompIDs come from counterparties, so characters that
/// a terminal or an editor would not show are escaped.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        ' ' => c.to_string(),
        _ if c.is_ascii_graphic() || c.is_alphanumeric() => c.to_string(),
        _ => format!("\\U{:08X}", u32::from(c)),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

const DAY_NS: u64 = 86_400_000_000_000;

/// Number of days in 400 years of the Gregorian calendar, which is constant.
const ERA_DAYS: u64 = 146_097;

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: u64 = 719_468;

/// Returns a time as RFC 3339 in UTC: `2026-11-21T09:28:25.123456789Z`.
fn written(time_ns: u64) -> String {
    let days = time_ns / DAY_NS + EPOCH_DAYS;
    let (era, day) = (days / ERA_DAYS, days % ERA_DAYS);
    // The calculation counts years from the first of March, so that the leap day is the last day of
    // a year.
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = 400 * era + year + u64::from(month >= 10);
    let month = if month < 10 { month + 3 } else { month - 9 };
    let (second, ns) = (time_ns % DAY_NS / 1_000_000_000, time_ns % 1_000_000_000);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ns:09}Z")
}

/// Parses a time that has exactly the form that [`written`] returns.
fn read_time(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (year, month) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let (era, of_era) = (year / 400, year % 400);
    let day_of_year = (153 * month + 2) / 5 + day.checked_sub(1)?;
    let days = era * ERA_DAYS + 365 * of_era + of_era / 4 - of_era / 100 + day_of_year;
    let seconds = number(11, 13)? * 3_600 + number(14, 16)? * 60 + number(17, 19)?;
    let of_day = seconds * 1_000_000_000 + number(20, 29)?;
    let time_ns = days.checked_sub(EPOCH_DAYS)?.checked_mul(DAY_NS)?.checked_add(of_day)?;
    (written(time_ns) == text).then_some(time_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        for (time_ns, text) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_399_999_999_999, "2000-02-28T23:59:59.999999999Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00.000000000Z"),
            (951_868_800_000_000_001, "2000-03-01T00:00:00.000000001Z"),
            (1_735_689_599_000_000_000, "2024-12-31T23:59:59.000000000Z"),
            (1_795_253_305_123_456_789, "2026-11-21T09:28:25.123456789Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000000000Z"),
            (u64::MAX, "2554-07-21T23:34:33.709551615Z"),
        ] {
            assert_eq!(written(time_ns), text);
            assert_eq!(read_time(text), Some(time_ns), "{text}");
        }
        for text in [
            "",
            "2026-11-21",
            "2026-02-29T00:00:00.000000000Z",
            "2026-13-01T00:00:00.000000000Z",
            "2026-11-21T24:00:00.000000000Z",
            "2026-11-21T09:28:25.123456789",
            "2026-11-21T09:28:25.12345678Z",
            "1969-12-31T23:59:59.000000000Z",
            "0000-00-00T00:00:00.000000000Z",
            "9999-01-01T00:00:00.000000000Z",
            "２026-11-21T09:28:25.123456789Z",
        ] {
            assert_eq!(read_time(text), None, "{text}");
        }
    }

    #[test]
    fn a_session_is_a_string_of_toml_whatever_its_name_is() {
        for (name, expected) in [
            ("FIX.4.4-A-B", r#""FIX.4.4-A-B""#),
            ("ü b", r#""ü b""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("a\u{1b}[2J\nnext_in = 9", r#""a\U0000001B[2J\U0000000Anext_in = 9""#),
            ("a\u{202e}b", r#""a\U0000202Eb""#),
        ] {
            assert_eq!(quoted(name), expected);
        }
    }

    #[test]
    fn the_state_is_read_as_it_was_written_and_in_its_old_form() {
        let numbers = Numbers { next_in: 17, next_out: 4, created_ns: 1_795_253_305_123_456_789 };
        for last_logon_ns in [0, 1_795_253_305_000_000_000] {
            let state = State { session: "FIX.4.4-A-B", numbers, last_logon_ns };
            let text = state.text();
            assert!(text.contains("\nsession = \"FIX.4.4-A-B\"\nnext_in = 17\n"), "{text}");
            assert_eq!(text.contains("last_logon"), last_logon_ns > 0, "{text}");
            assert_eq!(keys(&text), Some(State { session: "", ..state }), "{text}");
        }
        let old = format!("{} 17 4\n", numbers.created_ns);
        let read = keys(&old).or_else(|| bare(&old));
        assert_eq!(read, Some(State { session: "", numbers, last_logon_ns: 0 }));
        for other in ["", "next_in = 5\n", "next_in = x\nnext_out = 1\nlast_reset = y\n", "1 2"] {
            assert!(keys(other).is_none() && bare(other).is_none(), "{other}");
        }
    }
}
