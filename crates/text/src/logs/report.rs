//! Report of an analysis: number of messages read, damaged messages, and messages skipped because
//! data is missing.

use std::fmt;
use std::sync::Arc;

use crate::input::{InputError, Place};

/// Maximum number of reasons listed for damaged messages; further reasons are only counted.
const REASONS_MAX: usize = 5;

/// A callback for the error of an unreadable source.
type OnFailure = Arc<dyn Fn(&str) + Send + Sync>;

/// Counts, notes and errors of an analysis.
#[derive(Clone, Default)]
pub struct Report {
    /// The source name before each reported position, if several sources are read.
    pub(crate) file: String,
    pub(crate) messages: u64,
    pub(crate) garbled: u64,
    reasons: Vec<String>,
    notes: Vec<String>,
    /// Errors of unreadable sources.
    failures: Vec<String>,
    /// The callback that receives each error immediately.
    on_failure: Option<OnFailure>,
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { messages, garbled, failures, .. } = self;
        let mut shown = f.debug_struct("Report");
        shown.field("messages", messages).field("garbled", garbled).field("failures", failures);
        shown.finish_non_exhaustive()
    }
}

impl Report {
    /// Creates a report that passes each error of an unreadable source to `on_failure` immediately.
    #[must_use]
    pub fn telling(on_failure: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { on_failure: Some(Arc::new(on_failure)), ..Self::default() }
    }

    /// Creates an empty report with the same callback.
    pub(super) fn another(&self) -> Self {
        Self { on_failure: self.on_failure.clone(), ..Self::default() }
    }

    /// Returns the number of messages read.
    #[must_use]
    pub const fn messages(&self) -> u64 {
        self.messages
    }

    /// Returns the number of damaged messages.
    #[must_use]
    pub const fn garbled_messages(&self) -> u64 {
        self.garbled
    }

    /// Counts a damaged message, and records its position and error.
    pub(crate) fn garbled(&mut self, place: Place, wrong: InputError) {
        self.garbled += 1;
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push(format!("{}{place}: {wrong}", self.file));
        }
    }

    /// Adds a note to the final report; a repeated note is added only once.
    pub fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Reports the error of an unreadable source immediately; a repeated error is reported only
    /// once.
    pub(super) fn failed(&mut self, text: &str) {
        if !self.failures.iter().any(|said| said == text) {
            if let Some(tell) = &self.on_failure {
                tell(text);
            }
            self.failures.push(text.to_owned());
        }
    }

    /// Returns true if a source could not be read.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Adds the counts, notes and errors of another report.
    pub(super) fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.garbled += other.garbled;
        let room = REASONS_MAX.saturating_sub(self.reasons.len());
        self.reasons.extend(other.reasons.into_iter().take(room));
        other.notes.into_iter().for_each(|note| self.note(note));
        self.failures.extend(other.failures);
    }

    /// Resets the counts of messages before the sources are read again.
    pub(super) fn restart(&mut self) {
        (self.messages, self.garbled) = (0, 0);
        self.reasons.clear();
    }

    /// Returns the number of matches and of messages read as a text such as `3 of 100 messages`.
    #[must_use]
    pub fn share(&self, matches: u64) -> String {
        format!("{matches} of {}", count(self.messages, "message"))
    }
}

/// Formats the final report: damaged messages and notes.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.garbled > 0 {
            writeln!(f, "{} garbled:", self.garbled)?;
            self.reasons.iter().try_for_each(|reason| writeln!(f, "  {reason}"))?;
            let more = self.garbled - self.reasons.len() as u64;
            if more > 0 {
                writeln!(f, "  and {more} more")?;
            }
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}

/// Formats a number with its noun, such as `1 message` or `2 messages`.
pub(crate) fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
