//! Scenarios of the session layer: one exchange each, in plain text, played in several worlds.
//!
//! The format is described in `testdata/scenarios/README.md`. **Invariant:** a scenario says what
//! the counterparty does and what it must see; how the bytes get there is the business of a
//! [`World`].

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

/// The side that opens the connection, as seen from the session under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The session listens.
    Acceptor,
    /// The session connects.
    Initiator,
}

/// One file.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The path below the folder of scenarios, without its ending.
    pub name: String,
    /// The behaviour that the scenario shows, in one line.
    pub title: String,
    /// The rule of the standard, or the decision.
    pub why: String,
    /// The versions that it holds for.
    pub versions: Vec<Version>,
    /// The role of the session under test; the first of several.
    pub side: Side,
    /// It holds for both roles alike.
    pub both_sides: bool,
    /// Settings of the session, as lines of TOML.
    pub settings: String,
    /// Settings of the engine, as lines of TOML.
    pub engine: String,
    /// Settings that every session has here, but this one has not.
    pub unset: Vec<String>,
    /// Worlds that cannot play it, each with the reason.
    pub not_in: Vec<(String, String)>,
    steps: Vec<Line>,
}

/// One step and where it stands.
#[derive(Clone, Debug)]
struct Line {
    number: usize,
    text: String,
    /// Only in these versions.
    versions: Option<Vec<Version>>,
    step: Step,
}

/// An action, or an event that must have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Connect,
    /// Connects and exchanges Logon(A), with these fields of the initiator's in place of the usual.
    Logon(String),
    /// The counterparty sends this message.
    In(String),
    /// The counterparty sends these bytes.
    Raw(String),
    /// The next message that we send is so.
    Out(String),
    /// The next message that we send is a Reject(3) with these fields.
    Rejects(String),
    /// The next message that the application gets is so.
    App(String),
    /// The application gets this message back, which was not sent.
    Returned(String),
    /// Nothing more has come, and the connection is up.
    Silence,
    /// We have closed the connection, and the reason contains these words.
    Closed(String),
    /// The counterparty closes the connection.
    Close,
    /// Another connection sends this message, and is closed without one.
    Intrude(String),
    /// Time passes.
    Wait(Duration),
    /// The application sends this message; it is refused with these words if there are any.
    Send(String, Option<String>),
    /// The operator of our side does this.
    Operate(Operation),
    /// The next numbers in and out.
    Numbers(u64, u64),
}

impl Scenario {
    /// Reads one file; `name` stands for it in reports.
    ///
    /// # Errors
    /// The line and what is wrong with it.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        parse::scenario(name, text)
    }

    /// The scenario for each role that it holds for.
    #[must_use]
    pub fn sides(&self) -> Vec<Self> {
        let other = Self { side: Side::Initiator, ..self.clone() };
        if self.both_sides { vec![self.clone(), other] } else { vec![self.clone()] }
    }

    /// How long it takes where time cannot be simulated.
    #[must_use]
    pub fn waits(&self) -> Duration {
        let wait = |line: &Line| match line.step {
            Step::Wait(time) => time,
            _ => Duration::ZERO,
        };
        self.steps.iter().map(wait).sum()
    }

    /// Returns true if our side is restarted from its store, which must outlive it therefore.
    #[must_use]
    pub fn restarts(&self) -> bool {
        self.steps.iter().any(|line| line.step == Step::Operate(Operation::Restart))
    }

    /// Why `world` cannot play it, if so.
    #[must_use]
    pub fn excuse(&self, world: &str) -> Option<&str> {
        let found = self.not_in.iter().find(|(name, _)| name == world);
        found.map(|(_, reason)| reason.as_str())
    }

    /// The whole file of settings of the session under test in this version. `address` is where it
    /// listens or connects to.
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

/// Where a scenario went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The line of the file.
    pub line: usize,
    /// The line's text.
    pub text: String,
    /// The expected event and the actual one.
    pub what: String,
    /// The messages that went over the connection before.
    pub transcript: Vec<String>,
    /// How long the file has waited before.
    pub waited: Duration,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "line {}: {}", self.line, self.text)?;
        write!(f, "  {}", self.what)?;
        self.transcript.iter().try_for_each(|entry| write!(f, "\n  | {entry}"))
    }
}
