//! The report at the end on the standard error: messages read, damaged messages, and messages left
//! out because they lack the needed data.

use std::io::{self, Write as _};

use crate::input::{Place, Wrong};
use crate::show::count;

/// Reasons that are listed before they are only counted.
const REASONS_MAX: usize = 5;

/// Counts what is read.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The prefix of places, if there are several sources.
    pub(super) file: String,
    pub(super) messages: u64,
    pub(super) garbled: u64,
    reasons: Vec<String>,
    notes: Vec<String>,
    /// Errors of sources that could not be read.
    failures: Vec<String>,
}

impl Report {
    /// Something damaged was met.
    pub(super) fn garbled(&mut self, place: Place, wrong: Wrong) {
        self.garbled += 1;
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push(format!("{}{place}: {wrong}", self.file));
        }
    }

    /// Something that is said at the end, once.
    pub(super) fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Something that could not be read; said now, once.
    pub(super) fn failed(&mut self, text: &str) {
        if !self.failures.iter().any(|said| said == text) {
            let _ = crate::input::failed(text);
            self.failures.push(text.to_owned());
        }
    }

    /// Returns true if something could not be read.
    pub(super) const fn has_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Takes what another reader has counted.
    pub(super) fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.garbled += other.garbled;
        let room = REASONS_MAX.saturating_sub(self.reasons.len());
        self.reasons.extend(other.reasons.into_iter().take(room));
        other.notes.into_iter().for_each(|note| self.note(note));
        self.failures.extend(other.failures);
    }

    /// Everything is read again from the beginning.
    pub(super) fn restart(&mut self) {
        (self.messages, self.garbled) = (0, 0);
        self.reasons.clear();
    }

    /// Says all of it, below a first line.
    pub(super) fn say(&self, first: Option<&str>) {
        let mut err = io::stderr().lock();
        if let Some(first) = first {
            let _ = writeln!(err, "{first}");
        }
        if self.garbled > 0 {
            let _ = writeln!(err, "{} garbled:", self.garbled);
            self.reasons.iter().for_each(|reason| _ = writeln!(err, "  {reason}"));
            let more = self.garbled - self.reasons.len() as u64;
            if more > 0 {
                let _ = writeln!(err, "  and {more} more");
            }
        }
        self.notes.iter().for_each(|note| _ = writeln!(err, "{note}"));
    }

    /// `3 of 100 messages`.
    pub(super) fn share(&self, matches: u64) -> String {
        format!("{matches} of {}", count(self.messages, "message"))
    }
}
