//! A program that is connected to a socket: lines to it and from it.
//!
//! Invariants: a sender of lines never waits for the program. A program that does not read a line
//! or answer for a message in `answer_ms` is cut off. The line that a message of the program was
//! sent comes before the counterparty's answers to the message.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde_json::Value;
use transfix::{BusinessReject, clock};

use super::asked::Asked;
use super::routes::Target;

/// Bytes that may wait for a program.
const BYTES_MAX: usize = 64 << 20;

/// A line on its way to a program.
struct Line {
    bytes: Vec<u8>,
    /// When it must be written.
    until_ns: u64,
}

/// A message that a program is asked about.
struct Waiting {
    asked: Asked,
    target: Target,
    until_ns: u64,
}

/// A program that is connected.
pub(super) struct Program {
    stream: UnixStream,
    /// Tells it apart from those before.
    pub(super) number: u64,
    lines: Sender<Line>,
    /// Lines held while a message of the program is being sent; they follow the answer.
    held: Option<Vec<Vec<u8>>>,
    /// Bytes of the lines that wait.
    bytes: usize,
    answer_ns: u64,
    waiting: BTreeMap<u64, Waiting>,
}

/// The other end of its lines: who writes them.
pub(super) struct Writer {
    stream: UnixStream,
    lines: Receiver<Line>,
}

/// Why a program is cut off.
pub(super) const DOES_NOT_READ: &str = "does not read";
pub(super) const DOES_NOT_ANSWER: &str = "does not answer";

impl Program {
    /// # Errors
    /// If its connection has no second handle.
    pub(super) fn new(
        stream: &UnixStream,
        number: u64,
        answer_ms: u64,
    ) -> std::io::Result<(Self, Writer)> {
        let (to, lines) = channel();
        let writer = Writer { stream: stream.try_clone()?, lines };
        let program = Self {
            stream: stream.try_clone()?,
            number,
            lines: to,
            held: None,
            bytes: 0,
            answer_ns: answer_ms.saturating_mul(1_000_000),
            waiting: BTreeMap::new(),
        };
        Ok((program, writer))
    }

    fn until_ns(&self) -> u64 {
        clock::monotonic_ns().saturating_add(self.answer_ns)
    }

    /// Says a line. Returns whether it may still be connected: more waits than may.
    #[must_use]
    pub(super) fn say(&mut self, line: &Value) -> bool {
        let bytes = format!("{line}\n").into_bytes();
        self.bytes += bytes.len();
        match &mut self.held {
            Some(held) => held.push(bytes),
            None => self.put(bytes),
        }
        self.bytes <= BYTES_MAX
    }

    fn put(&self, bytes: Vec<u8>) {
        // Without a writer its reader ends soon.
        let _ = self.lines.send(Line { bytes, until_ns: self.until_ns() });
    }

    /// A message of the program is going to be sent: what is said meanwhile waits for
    /// [`Program::say_sent`].
    pub(super) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Says what has become of that message, and then what was held. Returns what
    /// [`Program::say`] does.
    #[must_use]
    pub(super) fn say_sent(&mut self, line: &Value) -> bool {
        let held = self.held.take();
        let goes_on = self.say(line);
        held.into_iter().flatten().for_each(|bytes| self.put(bytes));
        goes_on
    }

    /// So many bytes are written.
    pub(super) const fn written(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Asks for an answer to this message, which is the one of this target.
    pub(super) fn wait_for(&mut self, id: u64, asked: Asked, target: Target) {
        let waiting = Waiting { asked, target, until_ns: self.until_ns() };
        self.waiting.insert(id, waiting);
    }

    /// It has answered. Returns what is to be told, if it was asked.
    pub(super) fn answered(&mut self, id: u64) -> Option<(Asked, Target)> {
        self.waiting.remove(&id).map(|waiting| (waiting.asked, waiting.target))
    }

    /// Until when it must have answered; `None` if it owes nothing.
    pub(super) fn owes_until_ns(&self) -> Option<u64> {
        self.waiting.values().map(|waiting| waiting.until_ns).min()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Its reader ends. Its writer does when it has written what was said before.
        let _ = self.stream.shutdown(Shutdown::Read);
        for waiting in std::mem::take(&mut self.waiting).into_values() {
            // It may have the message, or not: offered again, it is marked.
            waiting.asked.answered(&waiting.target, Err(BusinessReject::not_available()));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// The outcome of a writer's step.
pub(super) enum Wrote {
    Line(usize),
    /// Something may be due.
    Time,
    End(&'static str),
    /// Nobody says anything more.
    Over,
}

impl Writer {
    /// Writes the next line, or waits for one until this time.
    pub(super) fn next(&mut self, until_ns: Option<u64>) -> Wrote {
        let line = match until_ns {
            None => self.lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until_ns) => {
                let wait = until_ns.saturating_sub(clock::monotonic_ns());
                self.lines.recv_timeout(Duration::from_nanos(wait))
            }
        };
        match line {
            Ok(line) => {
                let until_ns = until_ns.map_or(line.until_ns, |until| until.min(line.until_ns));
                match self.write(&line.bytes, until_ns) {
                    Ok(()) => Wrote::Line(line.bytes.len()),
                    Err(ErrorKind::TimedOut) => Wrote::End(DOES_NOT_READ),
                    // Its reader finds that too, and what it has said before.
                    Err(_) => Wrote::Over,
                }
            }
            Err(RecvTimeoutError::Timeout) => Wrote::Time,
            Err(RecvTimeoutError::Disconnected) => Wrote::Over,
        }
    }

    /// # Errors
    /// `TimedOut` if not all is written by then; others if the program has gone.
    fn write(&mut self, mut bytes: &[u8], until_ns: u64) -> Result<(), ErrorKind> {
        while !bytes.is_empty() {
            let left = Duration::from_nanos(until_ns.saturating_sub(clock::monotonic_ns()));
            // A time of zero would mean: for ever.
            if left.is_zero() {
                return Err(ErrorKind::TimedOut);
            }
            let timed = self.stream.set_write_timeout(Some(left));
            match timed.and_then(|()| self.stream.write(bytes)) {
                Ok(0) => return Err(ErrorKind::WriteZero),
                Ok(written) => bytes = &bytes[written..],
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => {}
                    other => return Err(other),
                },
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use serde_json::json;

    use super::*;

    /// The reject may arrive before the sending thread is awake.
    #[test]
    fn what_is_said_of_a_message_comes_after_that_it_was_sent() {
        let (end, other) = UnixStream::pair().unwrap();
        let (mut program, mut writer) = Program::new(&end, 1, 60_000).unwrap();
        assert!(program.say(&json!("before")));
        program.hold();
        assert!(program.say(&json!("rejected")) && program.say(&json!("message")));
        assert!(program.say_sent(&json!("sent")) && program.say(&json!("after")));
        for _ in 0..5 {
            assert!(matches!(writer.next(None), Wrote::Line(_)));
        }
        drop((program, writer, end));
        let lines: Vec<_> = BufReader::new(other).lines().map(Result::unwrap).collect();
        let said = ["before", "sent", "rejected", "message", "after"];
        assert_eq!(lines, said.map(|one| format!("\"{one}\"")));
    }
}
