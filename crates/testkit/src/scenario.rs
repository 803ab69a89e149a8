//! Session-layer scenarios: one message exchange each, in plain text, played in several worlds.
//!
//! `testdata/scenarios/README.md` describes the format. **Invariant:** a scenario names the
//! counterparty's actions and the expected reactions; a [`World`] transports the bytes.

mod line;
mod parse;
mod play;
#[cfg(test)]
mod tests;
mod version;

pub use play::{Answer, Operation, World, play};
pub use version::Version;

use std::fmt;
use std::time::Duration;

/// The side of the session under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The session accepts connections.
    Acceptor,
    /// The session connects.
    Initiator,
}

/// One scenario file.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The path below the folder of scenarios, without its extension.
    pub name: String,
    /// The demonstrated behavior, in one line.
    pub title: String,
    /// The rule of the standard, or the project's decision.
    pub why: String,
    /// The versions to which the scenario applies.
    pub versions: Vec<Version>,
    /// The role of the session under test; the first one if the scenario applies to both.
    pub side: Side,
    /// True if the scenario applies to both roles.
    pub both_sides: bool,
    /// Session settings, as lines of TOML.
    pub settings: String,
    /// Engine settings, as lines of TOML.
    pub engine: String,
    /// Default settings of scenario sessions that are omitted for this session.
    pub unset: Vec<String>,
    /// The worlds that cannot play the scenario, each with the reason.
    pub not_in: Vec<(String, String)>,
    steps: Vec<Line>,
}

/// One step and its line in the file.
#[derive(Clone, Debug)]
struct Line {
    number: usize,
    text: String,
    /// The only versions in which the step is played; `None` for all.
    versions: Option<Vec<Version>>,
    step: Step,
}

/// An action, or an expected event.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Connect,
    /// Connects and exchanges Logon(A). These fields replace the usual fields of the initiator's
    /// Logon(A).
    Logon(String),
    /// The counterparty sends this message.
    In(String),
    /// The counterparty sends these bytes.
    Raw(String),
    /// Our next message matches this line.
    Out(String),
    /// Our next message is a Reject(3) with these fields.
    Rejects(String),
    /// The next message that the application receives matches this line.
    App(String),
    /// The application gets this unsent message back.
    Returned(String),
    /// No further message has arrived, and the connection is up.
    Silence,
    /// Our side has closed the connection, and the reason contains these words.
    Closed(String),
    /// The counterparty closes the connection.
    Close,
    /// Another connection sends this message and is closed without an answer.
    Intrude(String),
    /// This much time passes.
    Wait(Duration),
    /// The application sends this message. If words are given, the message is refused with these
    /// words.
    Send(String, Option<String>),
    /// The operator of our side carries out this action.
    Operate(Operation),
    /// The next MsgSeqNum(34) inbound and outbound are these.
    Numbers(u64, u64),
}

impl Scenario {
    /// Parses one file; reports refer to the file as `name`.
    ///
    /// # Errors
    /// The line and the fault in the line.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        parse::scenario(name, text)
    }

    /// Returns one scenario for each role.
    #[must_use]
    pub fn sides(&self) -> Vec<Self> {
        let other = Self { side: Side::Initiator, ..self.clone() };
        if self.both_sides { vec![self.clone(), other] } else { vec![self.clone()] }
    }

    /// Returns the real time that the scenario's waits take without a simulated clock.
    #[must_use]
    pub fn waits(&self) -> Duration {
        let wait = |line: &Line| match line.step {
            Step::Wait(time) => time,
            _ => Duration::ZERO,
        };
        self.steps.iter().map(wait).sum()
    }

    /// Returns true if a step restarts our side, so that the store must outlive the restart.
    #[must_use]
    pub fn restarts(&self) -> bool {
        self.steps.iter().any(|line| line.step == Step::Operate(Operation::Restart))
    }

    /// Returns the reason why `world` cannot play the scenario, or `None`.
    #[must_use]
    pub fn excuse(&self, world: &str) -> Option<&str> {
        let found = self.not_in.iter().find(|(name, _)| name == world);
        found.map(|(_, reason)| reason.as_str())
    }

    /// Returns the complete settings file of the session under test in this version. The session
    /// listens on or connects to `address`.
    #[must_use]
    pub fn settings(&self, version: Version, address: &str) -> String {
        let role = match self.side {
            Side::Acceptor => "acceptor",
            Side::Initiator => "initiator",
        };
        let mut keys = vec![
            ("begin_string", format!("\"{}\"", version.begin_string())),
            ("sender_comp_id", format!("\"{}\"", line::OURS)),
            ("target_comp_id", format!("\"{}\"", line::THEIRS)),
            ("role", format!("\"{role}\"")),
            ("address", format!("\"{address}\"")),
        ];
        if let Some(id) = version.appl_ver_id() {
            keys.push(("default_appl_ver_id", id.to_string()));
        }
        let own = |key: &str| {
            self.settings.lines().any(|l| l.split('=').next().is_some_and(|k| k.trim() == key))
        };
        let usual = |key: &str| !own(key) && !self.unset.iter().any(|unset| unset == key);
        let mut text = format!("[engine]\n{}[[session]]\n", self.engine);
        for (key, value) in keys.iter().filter(|(key, _)| usual(key)) {
            text.push_str(&format!("{key} = {value}\n"));
        }
        text + &self.settings
    }
}

/// The step at which a scenario failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The line number in the file.
    pub line: usize,
    /// The line's text.
    pub text: String,
    /// The expected event and the actual one.
    pub what: String,
    /// The messages exchanged before the failure.
    pub transcript: Vec<String>,
    /// The time that the file has waited before the failure.
    pub waited: Duration,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "line {}: {}", self.line, self.text)?;
        write!(f, "  {}", self.what)?;
        self.transcript.iter().try_for_each(|entry| write!(f, "\n  | {entry}"))
    }
}
