//! Scenarios of the session layer: one exchange each, in plain text, played in several worlds.
//!
//! `testdata/scenarios/README.md` describes the format. **Invariant:** a scenario lists the
//! counterparty's actions and the expected answers; the [`World`] transports the bytes.

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

/// The contents of one scenario file.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Path below the folder of scenarios, without the extension.
    pub name: String,
    /// The behavior that the scenario shows, in one line.
    pub title: String,
    /// The rule of the standard, or the project's decision.
    pub why: String,
    /// Versions for which the scenario is valid.
    pub versions: Vec<Version>,
    /// Role of the session under test; the first role if there are several.
    pub side: Side,
    /// True if the scenario is valid for both roles.
    pub both_sides: bool,
    /// Session settings, as lines of TOML.
    pub settings: String,
    /// Engine settings, as lines of TOML.
    pub engine: String,
    /// Default settings of scenarios that this scenario leaves out.
    pub unset: Vec<String>,
    /// Worlds that cannot play this scenario, each with the reason.
    pub not_in: Vec<(String, String)>,
    steps: Vec<Line>,
}

/// One step and its line number.
#[derive(Clone, Debug)]
struct Line {
    number: usize,
    text: String,
    /// The step applies to these versions only.
    versions: Option<Vec<Version>>,
    step: Step,
}

/// An action of the scenario, or an event that it expects.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Connect,
    /// Connects and exchanges Logon(A). These fields replace the initiator's defaults.
    Logon(String),
    /// The counterparty sends this message.
    In(String),
    /// The counterparty sends these bytes.
    Raw(String),
    /// We send a message with these fields next.
    Out(String),
    /// We send a Reject(3) with these fields next.
    Rejects(String),
    /// The application receives a message with these fields next.
    App(String),
    /// The application gets this unsent message back.
    Returned(String),
    /// No further message has arrived, and the connection is open.
    Silence,
    /// We have closed the connection. The reason contains these words.
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
    /// The operator of our side performs this action.
    Operate(Operation),
    /// The next inbound and outbound numbers are these.
    Numbers(u64, u64),
}

impl Scenario {
    /// Parses one file; `name` appears in reports.
    ///
    /// # Errors
    /// Names the line and the fault.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        parse::scenario(name, text)
    }

    /// Returns the scenario once for each role that it is valid for.
    #[must_use]
    pub fn sides(&self) -> Vec<Self> {
        let other = Self { side: Side::Initiator, ..self.clone() };
        if self.both_sides { vec![self.clone(), other] } else { vec![self.clone()] }
    }

    /// Returns the total waiting time if the clock is real.
    #[must_use]
    pub fn waits(&self) -> Duration {
        let wait = |line: &Line| match line.step {
            Step::Wait(time) => time,
            _ => Duration::ZERO,
        };
        self.steps.iter().map(wait).sum()
    }

    /// Returns true if the scenario restarts our side, which then needs a store on disk.
    #[must_use]
    pub fn restarts(&self) -> bool {
        self.steps.iter().any(|line| line.step == Step::Operate(Operation::Restart))
    }

    /// Returns the reason why `world` cannot play this scenario, if any.
    #[must_use]
    pub fn excuse(&self, world: &str) -> Option<&str> {
        let found = self.not_in.iter().find(|(name, _)| name == world);
        found.map(|(_, reason)| reason.as_str())
    }

    /// Returns the settings file of the session under test for this version. `address` is the
    /// address to listen at or to connect to.
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

/// The point at which a scenario failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Line number in the file.
    pub line: usize,
    /// The line's text.
    pub text: String,
    /// The expected event and the actual one.
    pub what: String,
    /// The messages exchanged on the connection before.
    pub transcript: Vec<String>,
    /// Time that the scenario had waited before.
    pub waited: Duration,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "line {}: {}", self.line, self.text)?;
        write!(f, "  {}", self.what)?;
        self.transcript.iter().try_for_each(|entry| write!(f, "\n  | {entry}"))
    }
}
