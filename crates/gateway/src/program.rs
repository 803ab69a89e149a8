//! A program that is connected to a socket, with the lines to and from it.
//!
//! Invariants:
//! - A sender of lines never waits for the program.
//! - A program that does not read a line or answer a message within `answer_ms` is disconnected.
//! - The line that reports a message as sent precedes the counterparty's reaction to the message.

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

/// The maximum size, in bytes, of lines that wait for a program.
const BYTES_MAX: usize = 64 << 20;

/// A line that waits to be written to a program.
struct Line {
    bytes: Vec<u8>,
    /// The monotonic time by which the line must be written.
    until_ns: u64,
}

/// A message that the program has received and must answer.
struct Waiting {
    asked: Asked,
    target: Target,
    until_ns: u64,
}

/// A connected program.
pub(super) struct Program {
    stream: UnixStream,
    /// A number that distinguishes the program from earlier ones at the same socket.
    pub(super) number: u64,
    lines: Sender<Line>,
    /// Lines that must not precede the answer about the message that is being sent for the program;
    /// `None` if no message is being sent.
    held: Option<Vec<Vec<u8>>>,
    /// Bytes of the waiting lines.
    bytes: usize,
    answer_ns: u64,
    waiting: BTreeMap<u64, Waiting>,
}

/// The part of a program that writes its lines to the socket, in a thread of its own.
pub(super) struct Writer {
    stream: UnixStream,
    lines: Receiver<Line>,
}

/// A reason for disconnecting a program, for the log.
pub(super) const DOES_NOT_READ: &str = "does not read";
pub(super) const DOES_NOT_ANSWER: &str = "does not answer";

impl Program {
    /// Returns the two ends for a connected program.
    ///
    /// # Errors
    /// If the connection's handle cannot be duplicated.
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

    /// Queues a line. Returns false if too many bytes wait, so that the program must be
    /// disconnected.
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
        // The send fails only if the writer has ended, and then the reader ends soon too.
        let _ = self.lines.send(Line { bytes, until_ns: self.until_ns() });
    }

    /// Notes that a message of the program is being sent. Other lines are held until
    /// [`Program::say_sent`].
    pub(super) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Queues the answer about the sent message, and then the held lines. Returns false if too many
    /// bytes wait, like [`Program::say`].
    #[must_use]
    pub(super) fn say_sent(&mut self, line: &Value) -> bool {
        let held = self.held.take();
        let goes_on = self.say(line);
        held.into_iter().flatten().for_each(|bytes| self.put(bytes));
        goes_on
    }

    /// Subtracts `bytes` bytes, which were written, from the waiting ones.
    pub(super) const fn written(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Records that the program must answer message `id`.
    pub(super) fn wait_for(&mut self, id: u64, asked: Asked, target: Target) {
        let waiting = Waiting { asked, target, until_ns: self.until_ns() };
        self.waiting.insert(id, waiting);
    }

    /// Notes that the program has answered the message `id`. Returns the message, or `None` if the
    /// program does not have to answer it.
    pub(super) fn answered(&mut self, id: u64) -> Option<(Asked, Target)> {
        self.waiting.remove(&id).map(|waiting| (waiting.asked, waiting.target))
    }

    /// Returns the earliest deadline of the answers that the program owes, or `None` if it owes
    /// none.
    pub(super) fn owes_until_ns(&self) -> Option<u64> {
        self.waiting.values().map(|waiting| waiting.until_ns).min()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The reader ends. The writer ends after it has written the queued lines.
        let _ = self.stream.shutdown(Shutdown::Read);
        for waiting in std::mem::take(&mut self.waiting).into_values() {
            // The program may have accepted the message, so the message is marked as repeated when
            // it is offered again.
            waiting.asked.answered(&waiting.target, Err(BusinessReject::not_available()));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// The outcome of a step of the writer.
pub(super) enum Wrote {
    Line(usize),
    /// The time limit has passed, so the owed answers must be checked.
    Time,
    End(&'static str),
    /// The program was dropped, or its socket has failed, so no more lines are written.
    Over,
}

impl Writer {
    /// Writes the next line, or waits for one until the monotonic time `until_ns`.
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
                    // The error is not reported here, because the reader finds it too, after the
                    // program's last lines.
                    Err(_) => Wrote::Over,
                }
            }
            Err(RecvTimeoutError::Timeout) => Wrote::Time,
            Err(RecvTimeoutError::Disconnected) => Wrote::Over,
        }
    }

    /// Writes all of `bytes` to the socket, until the monotonic time `until_ns`.
    ///
    /// # Errors
    /// `TimedOut` if not everything is written by `until_ns`; others if the program has
    /// disconnected.
    fn write(&mut self, mut bytes: &[u8], until_ns: u64) -> Result<(), ErrorKind> {
        while !bytes.is_empty() {
            let left = Duration::from_nanos(until_ns.saturating_sub(clock::monotonic_ns()));
            // The system takes a timeout of zero to mean no timeout.
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

    /// The answer about a sent message precedes the message's rejection, which may arrive before
    /// the sending thread continues.
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
