//! Command loop of `connect`, with the commands for scripts, logon and logout. Other modules
//! contain the commands for messages.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustyline::Editor;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use transfix::{Action, BeginString, SessionHandle, clock};
use transfix_codec::Precision;

use super::commands::{COMMANDS, Command, VALUES};
use super::completion::{Help, Situation};
use super::fault::Fault;
use super::making::NOTHING;
use super::message::Typed;
use super::placed_order::PlacedOrder;
use super::received::{Fields, Received};
use super::saved::SavedMessages;
use super::values::Ids;
use super::vocabulary::Vocabulary;
use crate::show::say;

/// Maximum nesting depth of command files.
const FILES_MAX: usize = 10;
/// Line editor of the console.
pub(super) type LineEditor = Editor<Help, DefaultHistory>;

/// State of the command loop, for commands from a terminal, a pipe or a script.
pub(super) struct Console {
    pub(super) handle: SessionHandle,
    pub(super) begin_string: BeginString,
    pub(super) orders: HashMap<u64, PlacedOrder>,
    pub(super) next_order: u64,
    /// True after the command `logout`, until the command `logon`.
    pub(super) logged_out: bool,
    pub(super) words: Arc<Vocabulary>,
    pub(super) kept: SavedMessages,
    pub(super) heard: Received,
    pub(super) situation: Arc<Mutex<Situation>>,
    /// The message that the commands are building, if any.
    pub(super) typed: Option<Typed>,
    /// Source of the unique identifiers for `{id}`.
    pub(super) ids: Ids,
    /// Fields of the last sent message, for `{sent.FIELD}`.
    pub(super) sent: Fields,
    /// Fields of the last message that `expect` found, for `{last.FIELD}`.
    pub(super) last: Fields,
    /// True if the current command has already sent a message. Only the first message of a command
    /// marks the received messages as earlier ones.
    pub(super) has_begun: bool,
    /// Number of nested command files that are running.
    pub(super) depth: usize,
    /// Channel that never carries a message, so that a receive sleeps for its whole timeout.
    pub(super) pause: (Sender<()>, Receiver<()>),
}

/// Maximum wait for a logon before the command fails.
const LOGON_WAIT: Duration = Duration::from_secs(30);

impl Console {
    /// Runs commands until `quit` or the end of the input.
    pub(super) fn run(&mut self, editor: &mut LineEditor, prompt: &str) -> Result<(), String> {
        let mut begun = String::new();
        loop {
            let line = match begun.is_empty() {
                true => editor.readline(prompt),
                false => editor.readline_with_initial(prompt, (&begun, "")),
            };
            begun.clear();
            match line {
                Ok(line) if line.trim() == "quit" => return Ok(()),
                Ok(line) if line.trim() == "edit" => match &self.typed {
                    Some(typed) => begun = format!("send {} {}", typed.msg_type, typed.line()),
                    None => say(NOTHING),
                },
                Ok(line) => {
                    // A line that cannot be added to the history is still executed.
                    let _ = editor.add_history_entry(&line);
                    if let Err(fault) = self.command(&line) {
                        say(&fault.to_string());
                    }
                    let mut situation =
                        self.situation.lock().unwrap_or_else(PoisonError::into_inner);
                    situation.msg_type = self.typed.as_ref().map(|typed| typed.msg_type.clone());
                    situation.kept = self.kept.names().map(str::to_owned).collect();
                }
                Err(ReadlineError::Eof | ReadlineError::Interrupted) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn command(&mut self, line: &str) -> Result<(), Fault> {
        let line = line.trim();
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        if name.is_empty() || name.starts_with('#') {
            return Ok(());
        }
        let command = Command::named(name)?;
        self.has_begun = false;
        self.carried_out(command, rest.trim()).map_err(|fault| command.with_usage(fault))
    }

    fn carried_out(&mut self, command: &Command, rest: &str) -> Result<(), Fault> {
        let words: Vec<&str> = rest.split_whitespace().collect();
        match (command.name, &words[..]) {
            ("run", [file]) => self.script(Path::new(file)),
            ("pause", [seconds]) => {
                let _ = self.pause.1.recv_timeout(span(seconds)?);
                Ok(())
            }
            ("logout", []) => {
                self.logged_out = true;
                self.handle
                    .operate(&Action::LogOut { text: String::new() })
                    .map_err(|error| Fault::Failed(error.to_string()))
            }
            ("logon", []) => {
                self.logged_out = false;
                self.heard.forget_end();
                self.handle
                    .operate(&Action::LogOn {})
                    .map_err(|error| Fault::Failed(error.to_string()))
            }
            ("wait", []) => self.wait(),
            ("help", []) => {
                for Command { usage, does, .. } in COMMANDS {
                    say(&format!("{usage:50} {does}"));
                }
                say(VALUES);
                Ok(())
            }
            ("help", [name]) => {
                say(&Command::named(name)?.explained());
                Ok(())
            }
            (name, words) => match self.message_command(name, rest)? {
                true => Ok(()),
                false => Err(command.miscounted(words)),
            },
        }
    }

    /// Runs the commands of a file until one fails.
    pub(super) fn script(&mut self, path: &Path) -> Result<(), Fault> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        if self.depth == FILES_MAX {
            return Err(format!(
                "{}: more than {FILES_MAX} files run each other; remove a `run` \
                                command",
                path.display()
            )
            .into());
        }
        self.depth += 1;
        let mut done = Ok(());
        for (n, line) in text.lines().enumerate() {
            if line.trim() == "quit" {
                break;
            }
            let place = |text| format!("{}, line {}: {text}", path.display(), n + 1);
            done = self.command(line).map_err(|fault| fault.map(place));
            if done.is_err() {
                break;
            }
        }
        self.depth -= 1;
        done
    }

    fn wait(&self) -> Result<(), Fault> {
        if self.logged_out {
            return Err("logged out; `logon` first".into());
        }
        // With several destinations, a refusal does not end the wait, because the next destination
        // may accept the logon.
        let is_only_one = self.handle.destinations().len() <= 1;
        self.heard.wait(LOGON_WAIT, is_only_one).map_err(|refused| {
            Fault::Failed(match refused {
                Some(words) => format!("not logged on; the last connection ended: {words}"),
                None => "not logged on yet; make sure that the acceptor is running".to_owned(),
            })
        })
    }

    /// Returns the current time as UTCTimestamp, in the precision of the session.
    pub(super) fn now(&self) -> String {
        let settings = self.handle.settings();
        let version = settings.begin_string.precision();
        let digits = match settings.protocol.precision.unwrap_or(version) {
            Precision::Seconds => 17,
            Precision::Millis => 21,
            Precision::Micros => 24,
            Precision::Nanos => 27,
        };
        let now = clock::now().utc.to_string();
        now.get(..digits).unwrap_or(&now).to_owned()
    }
}

/// Creates the empty channel on which pauses wait.
pub(super) fn pause() -> (Sender<()>, Receiver<()>) {
    channel()
}

/// Parses a duration in seconds.
pub(super) fn span(seconds: &str) -> Result<Duration, Fault> {
    let found = seconds.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    let wrong = || Fault::Usage(format!("SECONDS: {seconds} is not a number from 0 to 86400"));
    found.map(Duration::from_secs_f64).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_seconds_are_checked() {
        assert_eq!(span("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["-1", "x", "nan", "1e9"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }
}
