//! Session-layer scenarios: plain-text message exchanges that run in several environments (worlds).
//!
//! `testdata/scenarios/README.md` describes the format. **Invariant:** a scenario contains only the
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

/// The role of the session under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The session under test accepts connections.
    Acceptor,
    /// The session under test connects.
    Initiator,
}

/// A scenario file.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The path relative to the folder of scenarios, without extension.
    pub name: String,
    /// The behavior that the scenario demonstrates, in one line.
    pub title: String,
    /// The reason for the behavior: a rule of the standard, or a decision of this project.
    pub why: String,
    /// The FIX versions to which the scenario applies.
    pub versions: Vec<Version>,
    /// The role of the session under test. If the scenario applies to both roles, the role to play
    /// first.
    pub side: Side,
    /// True if the scenario applies to both roles.
    pub both_sides: bool,
    /// Additional session settings, as lines of TOML.
    pub settings: String,
    /// Additional engine settings, as lines of TOML.
    pub engine: String,
    /// The names of settings that scenarios set by default, but that this scenario omits.
    pub unset: Vec<String>,
    /// The names of the worlds that cannot play the scenario, each with the reason.
    pub not_in: Vec<(String, String)>,
    steps: Vec<Line>,
}

/// A step of a scenario and its line number in the file.
#[derive(Clone, Debug)]
struct Line {
    number: usize,
    text: String,
    /// The versions in which the step is played; `None` means all versions.
    versions: Option<Vec<Version>>,
    step: Step,
}

/// A step of a scenario: an action, or an expected event.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Connect,
    /// The counterparty connects and both sides exchange Logon(A). These fields replace the default
    /// fields of the initiator's Logon(A).
    Logon(String),
    /// The counterparty sends this message.
    In(String),
    /// The counterparty sends these bytes unchanged.
    Raw(String),
    /// The next message from the session under test matches this line.
    Out(String),
    /// The next message from the session under test is a Reject(3) with these fields.
    Rejects(String),
    /// The next message that our application receives must match this line.
    App(String),
    /// Our application must get this unsent message back.
    Returned(String),
    /// No further message has arrived, and the connection is still open.
    Silence,
    /// The session under test has closed the connection, and the reason contains these words.
    Closed(String),
    /// The counterparty closes the connection.
    Close,
    /// A second connection sends this message, and is closed without an answer.
    Intrude(String),
    /// The given time passes.
    Wait(Duration),
    /// The application sends this message. If words are given, the session refuses the message with
    /// an error that contains these words.
    Send(String, Option<String>),
    /// The operator of the session under test carries out this action.
    Operate(Operation),
    /// The next inbound and outbound MsgSeqNum(34) have these values.
    Numbers(u64, u64),
}

impl Scenario {
    /// Parses the text of one scenario file. Error messages refer to the file as `name`.
    ///
    /// # Errors
    /// The line and the fault in the line.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        parse::scenario(name, text)
    }

    /// Returns one copy of the scenario for each role in which it can be played.
    #[must_use]
    pub fn sides(&self) -> Vec<Self> {
        let other = Self { side: Side::Initiator, ..self.clone() };
        if self.both_sides { vec![self.clone(), other] } else { vec![self.clone()] }
    }

    /// Returns the sum of the scenario's waits, which is the real time that a world without a
    /// simulated clock needs.
    #[must_use]
    pub fn waits(&self) -> Duration {
        let wait = |line: &Line| match line.step {
            Step::Wait(time) => time,
            _ => Duration::ZERO,
        };
        self.steps.iter().map(wait).sum()
    }

    /// Returns true if a step restarts the session under test, so that the store must survive the
    /// restart.
    #[must_use]
    pub fn restarts(&self) -> bool {
        self.steps.iter().any(|line| line.step == Step::Operate(Operation::Restart))
    }

    /// Returns the reason why the world with this name cannot play the scenario, or `None` if the
    /// world can.
    #[must_use]
    pub fn excuse(&self, world: &str) -> Option<&str> {
        let found = self.not_in.iter().find(|(name, _)| name == world);
        found.map(|(_, reason)| reason.as_str())
    }

    /// Returns the complete settings file of the session under test for this version. An acceptor
    /// listens on `address`; an initiator connects to `address`.
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

/// The step at which a scenario failed, with the circumstances.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The number of the failed line in the file.
    pub line: usize,
    /// The text of the failed line.
    pub text: String,
    /// The expected event and the actual event.
    pub what: String,
    /// The messages that were exchanged before the failure.
    pub transcript: Vec<String>,
    /// The total waiting time of the scenario before the failure.
    pub waited: Duration,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "line {}: {}", self.line, self.text)?;
        write!(f, "  {}", self.what)?;
        self.transcript.iter().try_for_each(|entry| write!(f, "\n  | {entry}"))
    }
}
