//! The routes in force, which determine the targets of messages and the changes to them.
//!
//! Invariants: a message never returns to the session that has received it. A route names only
//! sessions, sockets and files that exist. All sessions of a route have the same version, because
//! messages are not translated.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use transfix::{Message, SessionId, SessionSettings, Settings, Tag};
use transfix_codec::shown::Shown;

use super::copy::{Change, OnBehalf};
use super::mark::mark;
use super::written::{self, keeps};

/// The rule that selects the target if a route has several targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Pick {
    /// The first target that is available gets the message.
    #[default]
    First,
    /// All targets.
    All,
    /// The target selected by a hash of a field's value.
    Hash,
}

/// A Unix socket to which a program connects.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Socket {
    /// The name used in routes.
    pub(super) name: String,
    /// The path of the socket in the file system.
    pub(super) path: PathBuf,
    /// The time in milliseconds for a program to answer a message, or to read a line.
    #[serde(default = "answer_ms")]
    pub(super) answer_ms: u64,
}

const fn answer_ms() -> u64 {
    5_000
}

/// A file into which messages are written, or from which they are sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageFile {
    /// The name used in routes.
    pub(super) name: String,
    /// The path of the file.
    pub(super) path: PathBuf,
    /// The use of the file: messages are written into it or sent from it.
    #[serde(default)]
    pub(super) mode: FileMode,
}

/// The direction of messages through a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FileMode {
    /// Routes write messages into the file.
    #[default]
    Write,
    /// The gateway sends the lines of the file as messages.
    Read,
}

/// A text that may end with the wildcard `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) begin: String,
    pub(super) is_open: bool,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(begin) => Self { begin: begin.to_owned(), is_open: true },
            None => Self { begin: text.to_owned(), is_open: false },
        }
    }

    pub(super) fn fits(&self, text: &[u8]) -> bool {
        let begin = self.begin.as_bytes();
        if self.is_open { text.starts_with(begin) } else { text == begin }
    }

    /// Returns true if there is a text that fits both patterns.
    pub(super) fn meets(&self, other: &Self) -> bool {
        match (self.is_open, other.is_open) {
            (true, true) => {
                self.begin.starts_with(&other.begin) || other.begin.starts_with(&self.begin)
            }
            (true, false) => other.begin.starts_with(&self.begin),
            (false, true) => self.begin.starts_with(&other.begin),
            (false, false) => self.begin == other.begin,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.begin, if self.is_open { "*" } else { "" })
    }
}

/// A target to which a route passes messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Session(SessionId),
    Socket(String),
    File(String),
    /// The counterparty named by DeliverToCompID(128).
    ThirdParty,
}

/// The beginning of a socket's name as a target in the file of routes.
pub(super) const SOCKET: &str = "socket:";
pub(super) const FILE: &str = "file:";
pub(super) const THIRD_PARTY: &str = "DeliverToCompID";

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(id) => id.fmt(f),
            Self::Socket(name) => write!(f, "{SOCKET}{name}"),
            Self::File(name) => write!(f, "{FILE}{name}"),
            Self::ThirdParty => f.write_str("the counterparty in DeliverToCompID(128)"),
        }
    }
}

/// A rule that determines the targets of some messages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Route {
    /// The sessions whose received messages fit the rule; `None` for all sessions.
    pub(super) from: Option<Vec<Pattern>>,
    /// The MsgType(35)s that fit the rule; an empty list stands for all.
    pub(super) msg_types: Vec<String>,
    pub(super) when: Vec<(Tag, Pattern)>,
    pub(super) to: Vec<Target>,
    pub(super) pick: Pick,
    /// The field whose value selects the target with `Pick::Hash`.
    pub(super) hash: Option<Tag>,
    pub(super) change: Change,
}

impl Route {
    fn fits(&self, (from, name): (&SessionId, &str), message: &Message<'_>) -> bool {
        let is_from = |all: &Vec<Pattern>| all.iter().any(|one| one.fits(name.as_bytes()));
        let msg_type = message.msg_type();
        let is_of_type = |known: &String| known.as_bytes() == msg_type.as_bytes();
        let holds = |(tag, pattern): &(Tag, Pattern)| {
            message.raw(*tag).is_some_and(|value| pattern.fits(value))
        };
        let goes_back = |to: &Target| matches!(to, Target::Session(id) if id == from);
        !self.to.iter().all(goes_back)
            && self.from.as_ref().is_none_or(is_from)
            && (self.msg_types.is_empty() || self.msg_types.iter().any(is_of_type))
            && self.when.iter().all(holds)
    }

    /// Returns the index of the target for the value of the hashed field. Equal values always have
    /// the same target.
    pub(super) fn hashed(&self, message: &Message<'_>) -> usize {
        let value = self.hash.and_then(|tag| message.raw(tag)).unwrap_or_default();
        let hash = mark(value);
        (hash % self.to.len().max(1) as u64) as usize
    }
}

/// All rules of a gateway, in the order of the file.
///
/// `Display` writes a line for each rule, to be read by people.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Routes {
    pub(super) routes: Vec<Route>,
    pub(super) sockets: Vec<Socket>,
    pub(super) files: Vec<MessageFile>,
}

impl Routes {
    /// Reads the rules from a file, and checks them against the sessions of these settings.
    ///
    /// # Errors
    /// All faults of the rules.
    pub fn read(path: &Path, settings: &Settings) -> Result<Self, Vec<String>> {
        written::read(path, settings)
    }

    /// Returns the first rule that fits a message received by the session `from`.
    pub(super) fn find(&self, from: &SessionId, message: &Message<'_>) -> Option<&Route> {
        let name = from.to_string();
        self.routes.iter().find(|route| route.fits((from, &name), message))
    }

    /// Returns true if both have the same sockets and files.
    pub(super) fn same_places(&self, other: &Self) -> bool {
        self.sockets == other.sockets && self.files == other.files
    }

    /// Returns true if a rule names this session.
    #[must_use]
    pub fn name(&self, id: &SessionId) -> bool {
        let is_it = |to: &Target| matches!(to, Target::Session(to) if to == id);
        let name = id.to_string();
        let is_from = |from: &Vec<Pattern>| from.iter().any(|one| one.fits(name.as_bytes()));
        let names =
            |route: &Route| route.to.iter().any(is_it) || route.from.as_ref().is_some_and(is_from);
        self.routes.iter().any(names)
    }

    /// Checks that these rules allow the session to be added.
    ///
    /// # Errors
    /// If a rule sends its messages to a session of another version, or messages sent to this
    /// session may be lost without notice.
    pub(super) fn check_added(&self, session: &SessionSettings) -> Result<(), String> {
        let id = &session.id();
        let is_target = |to: &Target| match to {
            Target::Session(to) => to == id,
            Target::ThirdParty => true,
            Target::Socket(_) | Target::File(_) => false,
        };
        if self.routes.iter().flat_map(|route| &route.to).any(is_target) {
            keeps(session)?;
        }
        let name = id.to_string();
        let is_from = |route: &&Route| {
            route.from.as_ref().is_none_or(|all| all.iter().any(|one| one.fits(name.as_bytes())))
        };
        for target in self.routes.iter().filter(is_from).flat_map(|route| &route.to) {
            let Target::Session(to) = target else { continue };
            if to.begin_string != id.begin_string {
                return Err(format!(
                    "{id}: a [[route]] sends its messages to {to}, which has another FIX version: \
                     the gateway does not translate messages"
                ));
            }
        }
        Ok(())
    }
}

/// Returns a text from the file, shortened and escaped to one line.
fn shown_text(text: &str) -> Shown<'_> {
    Shown::whole(text.as_bytes())
}

impl fmt::Display for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.routes.is_empty() {
            let file = "name the targets in a file of routes (--routes)";
            writeln!(f, "no routes: messages of the application are refused; {file}")?;
        }
        let all = |what: Vec<String>| what.join(", ");
        let shown = |text: &str| shown_text(text).to_string();
        for route in &self.routes {
            let from = match &route.from {
                None => "all sessions".to_owned(),
                Some(from) => all(from.iter().map(|one| shown(&one.to_string())).collect()),
            };
            let types = match route.msg_types.is_empty() {
                true => "all messages".to_owned(),
                false => all(route.msg_types.iter().map(|name| shown(name)).collect()),
            };
            let to = all(route.to.iter().map(|one| shown(&one.to_string())).collect());
            write!(f, "route: {types} of {from}")?;
            for (tag, value) in &route.when {
                write!(f, ", with {} = {}", tag.0, shown(&value.to_string()))?;
            }
            write!(f, " to {to}")?;
            match (route.pick, route.hash, route.to.len()) {
                (Pick::First, _, 2..) => f.write_str(" (the first available)")?,
                (Pick::All, _, 2..) => f.write_str(" (each of them)")?,
                (Pick::Hash, Some(tag), _) => {
                    write!(f, " (the same target for equal values of {})", tag.0)?
                }
                _ => {}
            }
            let Change { on_behalf, set, remove } = &route.change;
            for (tag, value) in set {
                write!(f, "; {} is set to {}", tag.0, shown_text(value))?;
            }
            for tag in remove {
                write!(f, "; without {}", tag.0)?;
            }
            match on_behalf {
                OnBehalf::Drop => {}
                OnBehalf::Keep => f.write_str("; OnBehalfOfCompID(115) goes along")?,
                OnBehalf::Sender => f.write_str("; OnBehalfOfCompID(115) is set to the sender")?,
            }
            writeln!(f)?;
        }
        for Socket { name, path, .. } in &self.sockets {
            let path = path.display().to_string();
            writeln!(f, "socket: {} at {}", shown_text(name), shown_text(&path))?;
        }
        for MessageFile { name, path, mode } in &self.files {
            let does = if *mode == FileMode::Read { "is sent" } else { "is written" };
            let path = path.display().to_string();
            writeln!(f, "file: {} {does}: {}", shown_text(name), shown_text(&path))?;
        }
        f.write_str("all other messages are refused")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_patterns_meet_where_a_text_fits_both() {
        for (one, other, meets) in [
            ("a", "a", true),
            ("a", "b", false),
            ("a*", "ab", true),
            ("ab*", "a", false),
            ("a*", "ab*", true),
            ("ab*", "a*", true),
            ("ab*", "ac*", false),
            ("*", "x", true),
        ] {
            let (first, second) = (Pattern::new(one), Pattern::new(other));
            assert_eq!(
                (first.meets(&second), second.meets(&first)),
                (meets, meets),
                "{one} {other}"
            );
        }
    }
}
