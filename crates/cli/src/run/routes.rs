//! The file of routes: which messages go where.
//!
//! Invariant: a route that is in force names sessions and sockets that there are, and sessions of
//! one version: no message is translated.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use transfix::dictionary::{nearest, standard};
use transfix::{BeginString, Message, Offline, SessionId, Settings, Tag, Unsent};

/// What stands before the name of a socket.
const SOCKET: &str = "socket:";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    route: Vec<Written>,
    #[serde(default)]
    socket: Vec<Socket>,
}

/// A route as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    from: Option<Vec<String>>,
    #[serde(default)]
    msg_type: Vec<String>,
    #[serde(default)]
    when: BTreeMap<String, String>,
    to: Vec<String>,
    #[serde(default)]
    pick: Pick,
}

/// Where a message goes of several targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Pick {
    /// To the first that is there.
    #[default]
    First,
    /// To all.
    All,
}

/// A socket for programs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Socket {
    /// As routes name it.
    pub(super) name: String,
    /// Where it is.
    pub(super) path: PathBuf,
    /// How long a program may take to answer for a message.
    #[serde(default = "answer_ms")]
    pub(super) answer_ms: u64,
}

const fn answer_ms() -> u64 {
    5_000
}

/// A text, of which the end may be anything.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    begin: String,
    is_open: bool,
}

impl Pattern {
    fn new(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(begin) => Self { begin: begin.to_owned(), is_open: true },
            None => Self { begin: text.to_owned(), is_open: false },
        }
    }

    fn fits(&self, text: &[u8]) -> bool {
        let begin = self.begin.as_bytes();
        if self.is_open { text.starts_with(begin) } else { text == begin }
    }
}

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Session(SessionId),
    Socket(String),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(id) => id.fmt(f),
            Self::Socket(name) => write!(f, "{SOCKET}{name}"),
        }
    }
}

/// A rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// Sessions; `None` for all.
    from: Option<Vec<Pattern>>,
    /// MsgType(35); empty for all.
    msg_types: Vec<String>,
    when: Vec<(Tag, Pattern)>,
    pub(super) to: Vec<Target>,
    pub(super) pick: Pick,
}

impl Route {
    fn fits(&self, from: &str, message: &Message<'_>) -> bool {
        let is_from = |all: &Vec<Pattern>| all.iter().any(|one| one.fits(from.as_bytes()));
        let msg_type = message.msg_type();
        let is_of_type = |known: &String| known.as_bytes() == msg_type.as_bytes();
        let holds = |(tag, pattern): &(Tag, Pattern)| {
            message.raw(*tag).is_some_and(|value| pattern.fits(value))
        };
        self.from.as_ref().is_none_or(is_from)
            && (self.msg_types.is_empty() || self.msg_types.iter().any(is_of_type))
            && self.when.iter().all(holds)
    }
}

/// All rules, in their order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Routes {
    routes: Vec<Route>,
    sockets: Vec<Socket>,
}

impl Routes {
    /// The rules of a file, for the sessions of these settings.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub(super) fn read(path: &Path, settings: &Settings) -> Result<Self, Vec<String>> {
        let shown = path.display();
        let text = fs::read_to_string(path).map_err(|error| vec![format!("{shown}: {error}")])?;
        let file: File = toml::from_str(&text).map_err(|error| {
            // It shows the line with a mark below what is wrong.
            vec![format!("{shown}: {}", error.to_string().trim_end())]
        })?;
        let mut reader = Reader { settings, sockets: &file.socket, errors: Vec::new() };
        reader.check_sockets();
        let routes = file.route.iter().enumerate().map(|(n, route)| reader.route(n + 1, route));
        let routes = routes.collect();
        match reader.errors {
            errors if errors.is_empty() => Ok(Self { routes, sockets: file.socket }),
            errors => Err(errors.iter().map(|error| format!("{shown}: {error}")).collect()),
        }
    }

    /// The first rule that fits a message of this session.
    pub(super) fn find(&self, from: &str, message: &Message<'_>) -> Option<&Route> {
        self.routes.iter().find(|route| route.fits(from, message))
    }

    /// Whether a session may be added whose messages these rules would pass on.
    ///
    /// # Errors
    /// A rule that fits sends them to a session of another version.
    pub(super) fn check_added(&self, id: &SessionId) -> Result<(), String> {
        let name = id.to_string();
        let is_from = |route: &&Route| {
            route.from.as_ref().is_none_or(|all| all.iter().any(|one| one.fits(name.as_bytes())))
        };
        for target in self.routes.iter().filter(is_from).flat_map(|route| &route.to) {
            let Target::Session(to) = target else { continue };
            if to.begin_string != id.begin_string {
                return Err(format!(
                    "{id}: a [[route]] sends its messages to {to}, which has another version: \
                     messages are not translated"
                ));
            }
        }
        Ok(())
    }

    pub(super) fn sockets(&self) -> &[Socket] {
        &self.sockets
    }
}

/// For people: a line for each.
impl fmt::Display for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for route in &self.routes {
            let from: Vec<_> = match &route.from {
                None => vec!["all sessions".to_owned()],
                Some(all) => all
                    .iter()
                    .map(|one| format!("{}{}", one.begin, if one.is_open { "*" } else { "" }))
                    .collect(),
            };
            let to: Vec<_> = route.to.iter().map(ToString::to_string).collect();
            let types = match route.msg_types.is_empty() {
                true => "all messages".to_owned(),
                false => route.msg_types.join(", "),
            };
            let how = match (route.pick, to.len()) {
                (Pick::First, 2..) => " (the first that is there)",
                _ => "",
            };
            writeln!(f, "route: {types} of {} to {}{how}", from.join(", "), to.join(", "))?;
        }
        for Socket { name, path, .. } in &self.sockets {
            writeln!(f, "socket: {name} at {}", path.display())?;
        }
        f.write_str("messages with DeliverToCompID(128) to that counterparty; others are refused")
    }
}

/// Reads what is written, and keeps what is wrong.
struct Reader<'r> {
    settings: &'r Settings,
    sockets: &'r [Socket],
    errors: Vec<String>,
}

impl Reader<'_> {
    fn check_sockets(&mut self) {
        let mut names = BTreeSet::new();
        for socket in self.sockets {
            let name = &socket.name;
            if !names.insert(name) {
                self.errors.push(format!("[[socket]] {name} is there twice"));
            }
            if socket.answer_ms == 0 {
                self.errors.push(format!("[[socket]] {name}: answer_ms is 1 at least"));
            }
        }
    }

    fn route(&mut self, n: usize, route: &Written) -> Route {
        let from = route
            .from
            .as_ref()
            .map(|all| all.iter().map(|one| self.from(n, one)).collect::<Vec<_>>());
        let dictionary = standard("FIXLatest");
        let named = |name: &String| match &dictionary {
            Ok(all) => all.message_named(name).map_or(name, |one| &one.msg_type).clone(),
            Err(_) => name.clone(),
        };
        let msg_types: Vec<_> = route.msg_type.iter().map(named).collect();
        for msg_type in msg_types.iter().filter(|msg_type| msg_type.len() > 3) {
            self.errors.push(format!("[[route]] {n}: there is no message '{msg_type}'"));
        }
        let mut when = Vec::new();
        for (name, value) in &route.when {
            let tag = name
                .parse()
                .ok()
                .filter(|tag| *tag > 0)
                .or_else(|| Some(dictionary.as_ref().ok()?.field_named(name)?.tag));
            match tag {
                Some(tag) => when.push((Tag(tag), Pattern::new(value))),
                None => self.errors.push(format!("[[route]] {n}: there is no field '{name}'")),
            }
        }
        let mut to = Vec::new();
        for name in &route.to {
            to.extend(self.target(n, name));
        }
        if route.to.is_empty() {
            self.errors.push(format!("[[route]] {n}: `to` names nobody"));
        }
        self.check_versions(n, from.as_deref(), &to);
        Route { from, msg_types, when, to, pick: route.pick }
    }

    /// Sessions that messages come from.
    fn from(&mut self, n: usize, name: &str) -> Pattern {
        let pattern = Pattern::new(name);
        let ids = self.settings.sessions.iter().map(|session| session.id().to_string());
        let ids: Vec<_> = ids.collect();
        // Sessions made from templates have names that nobody knows yet.
        let is_known = ids.iter().any(|id| pattern.fits(id.as_bytes()) || id.contains('*'));
        if !is_known {
            self.errors.push(unknown(n, "from", name, &ids));
        }
        pattern
    }

    fn target(&mut self, n: usize, name: &str) -> Option<Target> {
        if let Some(socket) = name.strip_prefix(SOCKET) {
            if self.sockets.iter().any(|one| one.name == socket) {
                return Some(Target::Socket(socket.to_owned()));
            }
            self.errors.push(format!("[[route]] {n}: there is no [[socket]] '{socket}'"));
            return None;
        }
        let sessions = &self.settings.sessions;
        let Some(session) = sessions.iter().find(|session| session.id().to_string() == name) else {
            let ids: Vec<_> = sessions.iter().map(|session| session.id().to_string()).collect();
            self.errors.push(unknown(n, "to", name, &ids));
            return None;
        };
        // What such a session has not sent yet when its connection ends is in memory alone.
        if session.queue.offline == Offline::Refuse || session.queue.unsent == Unsent::Return {
            self.errors.push(format!(
                "[[route]] {n}: {name} may lose what it is to send: set offline = \"queue\" or \
                 \"store\" and unsent = \"keep\" there"
            ));
        }
        Some(Target::Session(session.id()))
    }

    /// Messages stay as they are: what is right in one version may be wrong in another.
    fn check_versions(&mut self, n: usize, from: Option<&[Pattern]>, to: &[Target]) {
        let sessions = self.settings.sessions.iter().map(|session| session.id());
        let is_from = |id: &SessionId| {
            let id = id.to_string();
            from.is_none_or(|all| all.iter().any(|one| one.fits(id.as_bytes())))
        };
        let from: BTreeSet<BeginString> =
            sessions.filter(|id| is_from(id)).map(|id| id.begin_string).collect();
        for target in to {
            let Target::Session(id) = target else { continue };
            if let Some(other) = from.iter().find(|version| **version != id.begin_string) {
                self.errors.push(format!(
                    "[[route]] {n}: {id} has another version than {} sessions that `from` names: \
                     messages are not translated",
                    other.as_str()
                ));
            }
        }
    }
}

fn unknown(n: usize, key: &str, name: &str, ids: &[String]) -> String {
    let hint = nearest(name, ids.iter().map(|id| &**id));
    let hint = match hint {
        Some(id) => format!("do you mean {id}?"),
        None => format!("there are {}", ids.join(", ")),
    };
    format!("[[route]] {n}: `{key}`: no session is {name}; {hint}")
}
