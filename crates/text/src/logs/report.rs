//! The report of a search: messages read, damaged messages, and messages left out because they lack
//! the needed data.

use std::fmt;
use std::sync::Arc;

use crate::input::{Place, Wrong};

/// Reasons that are listed before they are only counted.
const REASONS_MAX: usize = 5;

/// Takes the error of a source that cannot be read.
type OnFailure = Arc<dyn Fn(&str) + Send + Sync>;

/// Counts what is read.
#[derive(Clone, Default)]
pub struct Report {
    /// The prefix of places, if there are several sources.
    pub(crate) file: String,
    pub(crate) messages: u64,
    pub(crate) garbled: u64,
    reasons: Vec<String>,
    notes: Vec<String>,
    /// Errors of sources that could not be read.
    failures: Vec<String>,
    /// Gets each of them at once.
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
    /// A report that tells of each source that cannot be read as soon as that is known.
    #[must_use]
    pub fn telling(on_failure: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { on_failure: Some(Arc::new(on_failure)), ..Self::default() }
    }

    /// An empty report that tells the same.
    pub(super) fn another(&self) -> Self {
        Self { on_failure: self.on_failure.clone(), ..Self::default() }
    }

    /// Returns how many messages were read.
    #[must_use]
    pub const fn messages(&self) -> u64 {
        self.messages
    }

    /// Returns how many messages were damaged.
    #[must_use]
    pub const fn garbled_messages(&self) -> u64 {
        self.garbled
    }

    /// Something damaged was met.
    pub(crate) fn garbled(&mut self, place: Place, wrong: Wrong) {
        self.garbled += 1;
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push(format!("{}{place}: {wrong}", self.file));
        }
    }

    /// Adds a line for the end, once.
    pub fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Something that could not be read; told now, once.
    pub(super) fn failed(&mut self, text: &str) {
        if !self.failures.iter().any(|said| said == text) {
            if let Some(tell) = &self.on_failure {
                tell(text);
            }
            self.failures.push(text.to_owned());
        }
    }

    /// Returns true if something could not be read.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
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

    /// Returns `3 of 100 messages`.
    #[must_use]
    pub fn share(&self, matches: u64) -> String {
        format!("{matches} of {}", count(self.messages, "message"))
    }
}

/// The lines for the end: what was damaged, and the notes.
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

/// `1 message`, `2 messages`.
pub(crate) fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
