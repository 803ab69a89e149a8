//! Prints messages to the console, one line each, with names from the dictionaries of their
//! session.

use std::io::Write;

use transfix::{Direction, Mask, Message, SessionDictionaries, SessionSettings, Timestamp};
use transfix_codec::{CheckSumPolicy, FieldIndex};
use transfix_text::print::{self, Palette};

use crate::foreign;

/// Prints a line for the user, in which control characters of foreign text are escaped.
pub(crate) fn say(text: &str) {
    // The result is ignored, because a closed pipe must not stop trading.
    let _ = writeln!(std::io::stdout(), "{}", foreign::lines(text));
}

/// Rate limit for lines that a counterparty can cause.
///
/// Invariant: the number of lines grows with time, not with the number of connections.
#[derive(Debug, Default)]
pub(crate) struct Bounded {
    /// Monotonic time at which the limiter again allows [`Self::AT_ONCE`] lines at once, in
    /// nanoseconds.
    full_at_ns: u64,
    left_out: u64,
}

impl Bounded {
    /// Maximum number of lines that may be printed at once.
    const AT_ONCE: u64 = 20;
    /// Time after which one more line may be printed, in nanoseconds.
    const ONE_MORE_NS: u64 = 10_000_000_000;

    /// Returns the line to print, with the number of lines suppressed before. Returns `None` if the
    /// limit is exceeded.
    pub(crate) fn line(&mut self, now_ns: u64, text: String) -> Option<String> {
        let full_at_ns = self.full_at_ns.max(now_ns) + Self::ONE_MORE_NS;
        if full_at_ns > now_ns + Self::AT_ONCE * Self::ONE_MORE_NS {
            self.left_out += 1;
            return None;
        }
        self.full_at_ns = full_at_ns;
        match std::mem::take(&mut self.left_out) {
            0 => Some(text),
            left_out => Some(format!("{text} ({} left out before)", count(left_out, "line"))),
        }
    }
}

/// Formats a count with its noun, such as `1 message` or `2 messages`.
pub(crate) fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// Prints each frame as a line such as
/// `12:34:56.789 -> NewOrderSingle(D) seq 5 CLIENT->VENUE  ClOrdID=1 …`.
pub(crate) struct Show {
    /// Dictionaries of the session; without them, frames are not printed.
    dictionaries: Option<SessionDictionaries>,
    index: FieldIndex,
    prefix: &'static str,
    mask: Mask,
    /// Function that prints a line above the line being typed; `None` prints to standard output.
    sink: Option<Box<dyn FnMut(String) + Send>>,
}

impl Show {
    /// Creates a printer for the messages of a session; each line starts with `prefix`.
    pub(crate) fn new(session: &SessionSettings, prefix: &'static str) -> Result<Self, String> {
        let dictionaries = session.dictionaries()?;
        let (index, mask) = (dictionaries.index(), session.mask());
        Ok(Self { dictionaries: Some(dictionaries), index, prefix, mask, sink: None })
    }

    /// Creates a printer that prints plain lines but no frames, and needs no dictionaries.
    pub(crate) fn quiet() -> Self {
        let (index, mask) = (FieldIndex::default(), Mask::default());
        Self { dictionaries: None, index, prefix: "", mask, sink: None }
    }

    /// Sets the function that prints the lines; `None` prints to standard output.
    pub(crate) fn through(mut self, sink: Option<Box<dyn FnMut(String) + Send>>) -> Self {
        self.sink = sink;
        self
    }

    /// Prints one line for a frame.
    pub(crate) fn frame(&mut self, now: Timestamp, direction: Direction, frame: &[u8]) {
        let Some(dictionaries) = &mut self.dictionaries else { return };
        let mut line = String::new();
        let frame = self.mask.message(frame);
        match Message::parse(&frame, &mut self.index, CheckSumPolicy::Ignore) {
            Ok(message) => {
                let [session, application] = dictionaries.of_message(&message);
                // Writing to a `String` never fails.
                let _ =
                    print::one_line(&message, [&session, &application], &Palette::PLAIN, &mut line);
            }
            Err(reason) => line = reason.to_string(),
        }
        let arrow = if direction == Direction::Inbound { "<-" } else { "->" };
        self.line(&format!("{} {arrow} {line}", &now.to_string()[9..21]));
    }

    /// Prints one line of plain text.
    pub(crate) fn line(&mut self, text: &str) {
        if let Some(sink) = &mut self.sink {
            return sink(format!("{}{}\n", self.prefix, foreign::lines(text)));
        }
        say(&format!("{}{text}", self.prefix));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_lines_are_some_and_then_one_in_a_while() {
        let mut lines = Bounded::default();
        let mut told = |now_ns| lines.line(now_ns, "ended".to_owned());
        assert_eq!((0..2_000).filter_map(|_| told(1)).count(), 20);
        assert_eq!(told(Bounded::ONE_MORE_NS), None);
        let next = told(Bounded::ONE_MORE_NS + 1);
        assert_eq!(next.as_deref(), Some("ended (1981 lines left out before)"));
        assert_eq!(told(100 * Bounded::ONE_MORE_NS).as_deref(), Some("ended"));
    }
}
