//! A side of the tested session: a process that executes commands and reports events.
//!
//! **Invariant:** the process is killed when its `Peer` is dropped; every wait has a deadline.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Outcome;
use super::message::Message;

/// Time limit for a single event. The slowest events are a reconnect (1 s) and any event on a busy
/// machine.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(30);

/// Number of output lines of a peer that a failure message shows.
const SHOWN: usize = 8;

/// A running peer and all events that it has reported.
pub(super) struct Peer {
    name: &'static str,
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    recent: Vec<String>,
    told: usize,
    done: usize,
    /// True if the acceptor listens, or the initiator is about to connect.
    pub(super) ready: bool,
    /// Number of logons so far.
    pub(super) logons: usize,
    /// Number of logouts and lost connections so far.
    pub(super) logouts: usize,
    /// The next outbound and inbound `MsgSeqNum(34)` in the last `state` event.
    pub(super) state: (u64, u64),
    /// Messages that the peer's application sent, with their sequence numbers.
    pub(super) sent: Vec<Message>,
    /// Number of messages in `sent` when the sequence numbers were last reset.
    epoch: usize,
    /// Messages that the peer's application received.
    pub(super) delivered: Vec<Message>,
    /// Messages that the peer wrote to the socket.
    pub(super) written: Vec<Message>,
    /// Messages that the peer read from the socket.
    pub(super) read: Vec<Message>,
}

impl Peer {
    /// Starts the program. Its standard error output goes to `<folder>/<name>.err`.
    pub(super) fn start(
        name: &'static str,
        program: &[String],
        arguments: &[String],
        folder: &Path,
    ) -> Outcome<Self> {
        let failed = |error: std::io::Error| format!("cannot start {name} {program:?}: {error}");
        let (first, rest) = program.split_first().ok_or("no program")?;
        let errors = File::create(folder.join(format!("{name}.err"))).map_err(failed)?;
        let mut child = Command::new(first)
            .args(rest)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .map_err(failed)?;
        let stdin = child.stdin.take().ok_or("no standard input")?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let (sender, lines) = mpsc::channel();
        // This thread ends when the process ends and thereby closes its output.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            name,
            child,
            stdin,
            lines,
            recent: Vec::new(),
            told: 0,
            done: 0,
            ready: false,
            logons: 0,
            logouts: 0,
            state: (0, 0),
            sent: Vec::new(),
            epoch: 0,
            delivered: Vec::new(),
            written: Vec::new(),
            read: Vec::new(),
        })
    }

    /// Sends a command without waiting for its completion.
    pub(super) fn tell(&mut self, command: &str) -> Outcome<()> {
        self.told += 1;
        writeln!(self.stdin, "{command}")
            .map_err(|error| self.failure(&format!("cannot take {command:?}: {error}")))
    }

    /// Sends a command and waits for its completion.
    pub(super) fn ask(&mut self, command: &str) -> Outcome<()> {
        self.tell(command)?;
        self.wait(command, |peer| peer.done == peer.told)
    }

    /// Reads events until `reached` returns true. Fails at the deadline, when the peer ends, or
    /// when the peer reports an error.
    pub(super) fn wait(&mut self, what: &str, reached: impl Fn(&Self) -> bool) -> Outcome<()> {
        let deadline = now() + WAIT_MAX;
        while !reached(self) {
            match self.lines.recv_timeout(deadline.saturating_duration_since(now())) {
                Ok(line) => self.take(line)?,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.failure(&format!("no answer in time: {what}")));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.failure(&format!("ended before: {what}")));
                }
            }
        }
        Ok(())
    }

    /// Tells the peer to end and reads its remaining events.
    pub(super) fn quit(&mut self) -> Outcome<()> {
        self.tell("quit")?;
        let deadline = now() + WAIT_MAX;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(now())) {
                Ok(line) => self.take(line)?,
                Err(RecvTimeoutError::Timeout) => return Err(self.failure("does not quit")),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(self.failure(&format!("ended with {status}"))),
            Err(error) => Err(self.failure(&error.to_string())),
        }
    }

    fn take(&mut self, line: String) -> Outcome<()> {
        let event: Value = serde_json::from_str(&line)
            .map_err(|error| self.failure(&format!("not JSON ({error}): {line}")))?;
        if self.recent.len() == SHOWN {
            self.recent.remove(0);
        }
        self.recent.push(line);
        let number = |key: &str| event[key].as_u64().unwrap_or(0);
        match event["event"].as_str().unwrap_or_default() {
            "ready" => self.ready = true,
            "logon" => self.logons += 1,
            "logout" => self.logouts += 1,
            "done" => self.done += 1,
            "state" => self.state = (number("next_out"), number("next_in")),
            "error" => return Err(self.failure("reports an error")),
            "sent" => {
                let message = self.message(&event)?;
                self.take_sent(message);
            }
            "app" => self.delivered.push(self.message(&event)?),
            "out" => {
                let message = self.message(&event)?;
                if message.is(35, "A") && message.is(141, "Y") {
                    self.epoch = self.sent.len();
                }
                self.written.push(message);
            }
            "in" => self.read.push(self.message(&event)?),
            _ => {}
        }
        Ok(())
    }

    /// Records a sent message; a resent message is recorded only if its original was not. A message
    /// that was queued when the connection broke gets its number only in a resend.
    fn take_sent(&mut self, message: Message) {
        if !message.is_poss_dup() {
            self.sent.push(message);
            return;
        }
        let epoch = &self.sent[self.epoch..];
        if let Err(place) = epoch.binary_search_by_key(&message.number(34), |sent| sent.number(34))
        {
            self.sent.insert(self.epoch + place, message);
        }
    }

    fn message(&self, event: &Value) -> Outcome<Message> {
        let message = event["msg"].as_str().and_then(Message::parse);
        message.ok_or_else(|| self.failure("printed a message without fields"))
    }

    /// Processes the events that have already arrived, and ignores errors.
    pub(super) fn catch_up(&mut self) {
        while let Ok(line) = self.lines.try_recv() {
            let _ = self.take(line);
        }
    }

    /// Returns a failure message for the peer, with its last output lines.
    pub(super) fn failure(&self, what: &str) -> String {
        let mut text = format!("{}: {what}", self.name);
        for line in &self.recent {
            text.push_str("\n  ");
            text.push_str(line);
        }
        text
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // `kill` fails only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the current time.
#[expect(clippy::disallowed_methods, reason = "a deadline for another process needs real time")]
pub(super) fn now() -> Instant {
    Instant::now()
}
