//! The file of routes and the checks of its content.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use transfix::{BeginString, Offline, SessionId, SessionSettings, Settings, Tag, tag};
use transfix_codec::shown::Shown;
use transfix_dictionary::{DataType, Dictionary, Member, MemberKind, nearest, standard};

use super::copy::{Change, OnBehalf};
use super::routes::{
    FILE, FileMode, MessageFile, Pattern, Pick, Route, Routes, SOCKET, Socket, THIRD_PARTY, Target,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    route: Vec<Written>,
    #[serde(default)]
    socket: Vec<Socket>,
    #[serde(default)]
    file: Vec<MessageFile>,
}

/// A route as written in the file.
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
    hash: Option<String>,
    #[serde(default)]
    set: BTreeMap<String, String>,
    #[serde(default)]
    remove: Vec<String>,
    #[serde(default)]
    on_behalf: OnBehalf,
}

/// Reads the routes of a file, and checks them against the sessions of these settings.
///
/// # Errors
/// All faults of the routes.
pub(super) fn read(path: &Path, settings: &Settings) -> Result<Routes, Vec<String>> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| vec![format!("{shown}: {error}")])?;
    let file: File = toml::from_str(&text).map_err(|error| {
        // The error text shows the line and marks the mistake. The reason is escaped, because it
        // may contain a key of the file.
        let (text, why) = (error.to_string(), error.message());
        vec![format!(
            "{shown}: {}",
            text.replace(why, &Shown::whole(why.as_bytes()).to_string()).trim_end()
        )]
    })?;
    let dictionary = standard("FIXLatest").map_err(|error| vec![error.to_string()])?;
    let mut reader = Reader { settings, dictionary, file: &file, errors: Vec::new() };
    reader.check_places();
    let routes: Vec<_> =
        file.route.iter().enumerate().map(|(n, route)| reader.route(n + 1, route)).collect();
    if routes.is_empty() {
        reader
            .errors
            .push("the file has no [[route]]: the gateway would refuse all messages".to_owned());
    }
    match reader.errors {
        errors if errors.is_empty() => {
            let File { socket: sockets, file: files, .. } = file;
            Ok(Routes { routes, sockets, files })
        }
        errors => Err(errors
            .iter()
            .map(|error| format!("{shown}: {}", Shown::whole(error.as_bytes())))
            .collect()),
    }
}

/// Converts the routes of the file, and collects all errors.
struct Reader<'r> {
    settings: &'r Settings,
    dictionary: Dictionary,
    file: &'r File,
    errors: Vec<String>,
}

impl Reader<'_> {
    fn wrong(&mut self, n: usize, what: impl Display) {
        self.errors.push(format!("[[route]] {n}: {what}"));
    }

    /// Checks sockets and files: names and paths must be unique, and directories must exist.
    fn check_places(&mut self) {
        let sockets = self.file.socket.iter().map(|one| ("socket", &one.name, &one.path));
        let files = self.file.file.iter().map(|one| ("file", &one.name, &one.path));
        let mut names = BTreeSet::new();
        let mut paths: BTreeMap<PathBuf, String> = BTreeMap::new();
        for (kind, name, path) in sockets.chain(files) {
            let here = format!("[[{kind}]] {name}");
            if name.is_empty() {
                self.errors.push(format!("[[{kind}]]: `name` is empty"));
            } else if !names.insert((kind, name)) {
                self.errors.push(format!("{here} appears twice; rename one"));
            }
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            match (fs::canonicalize(parent), path.file_name()) {
                (Ok(parent), Some(file)) => {
                    if let Some(other) = paths.insert(parent.join(file), here.clone()) {
                        let path = path.display();
                        self.errors.push(format!("{here}: {other} uses the same path, {path}"));
                    }
                }
                (Err(error), _) => {
                    let parent = parent.display();
                    self.errors.push(format!("{here}: directory {parent}: {error}"));
                }
                (_, None) => {
                    self.errors.push(format!("{here}: {} names no file", path.display()));
                }
            }
        }
        for Socket { name, .. } in self.file.socket.iter().filter(|one| one.answer_ms == 0) {
            self.errors.push(format!("[[socket]] {name}: answer_ms must be at least 1"));
        }
    }

    fn route(&mut self, n: usize, route: &Written) -> Route {
        let from: Option<Vec<_>> =
            route.from.as_ref().map(|all| all.iter().map(|one| self.from(n, one)).collect());
        if from.as_ref().is_some_and(Vec::is_empty) {
            self.wrong(
                n,
                "`from` is an empty list; name a session, or leave `from` out for all \
                           sessions",
            );
        }
        let msg_types: Vec<_> = route.msg_type.iter().map(|name| self.msg_type(n, name)).collect();
        let mut when = Vec::new();
        for (name, value) in &route.when {
            when.extend(self.field(n, name).map(|tag| (tag, Pattern::new(value))));
        }
        let to: Vec<_> = route.to.iter().filter_map(|name| self.target(n, name)).collect();
        if route.to.is_empty() {
            self.wrong(n, "`to` names nobody");
        }
        if let Some(twice) = (1..to.len()).find(|at| to[..*at].contains(&to[*at])) {
            self.wrong(n, format_args!("`to` names {} twice", to[twice]));
        }
        let hash = route.hash.as_ref().and_then(|name| self.field(n, name));
        match (route.pick, &route.hash) {
            (Pick::Hash, None) => {
                self.wrong(n, "pick = \"hash\" needs the key `hash`, which names a field")
            }
            (Pick::First | Pick::All, Some(_)) => {
                self.wrong(n, "`hash` needs pick = \"hash\"");
            }
            _ => {}
        }
        if let Some(from) = &from {
            let whole = |id: &SessionId| {
                let id = id.to_string();
                from.iter().any(|one| !one.is_open && one.begin == id)
            };
            let back = to.iter().find(|to| matches!(to, Target::Session(id) if whole(id)));
            if let Some(back) = back {
                self.wrong(
                    n,
                    format_args!(
                        "{back} is in both `from` and `to`: a message cannot \
                    return to its sender"
                    ),
                );
            }
        }
        self.check_versions(n, from.as_deref(), &to);
        let change = self.change(n, route, &msg_types);
        Route { from, msg_types, when, to, pick: route.pick, hash, change }
    }

    fn msg_type(&mut self, n: usize, name: &str) -> String {
        if let Some(found) = self.dictionary.message_named(name) {
            return found.msg_type.clone();
        }
        // A user-defined type, which begins with U, need not be in the dictionary.
        if self.dictionary.message(name).is_none() && !name.starts_with('U') {
            let names: Vec<_> = self.dictionary.messages().iter().map(|one| &*one.name).collect();
            let hint = nearest(name, names);
            let hint = hint.map(|hint| format!("; do you mean {hint}?")).unwrap_or_default();
            self.wrong(n, format_args!("no message is named '{name}'{hint}"));
        }
        name.to_owned()
    }

    fn field(&mut self, n: usize, name: &str) -> Option<Tag> {
        let by_number = name.parse().ok().filter(|tag| *tag > 0);
        let by_name = || Some(self.dictionary.field_named(name)?.tag);
        let found = by_number.or_else(by_name).map(Tag);
        if found.is_none() {
            self.wrong(n, format_args!("no field is named '{name}'"));
        }
        found
    }

    /// Returns the changes to messages. Fields of the session layer and counts of group entries
    /// cannot be changed.
    fn change(&mut self, n: usize, route: &Written, msg_types: &[String]) -> Change {
        let mut change = Change { on_behalf: route.on_behalf, ..Change::default() };
        for (name, value) in &route.set {
            let Some(tag) = self.changed(n, ("set", name), msg_types) else { continue };
            if value.is_empty() || value.contains('\u{1}') {
                self.wrong(
                    n,
                    format_args!(
                        "`set`: the value of {name} is empty or contains the \
                    byte 0x01"
                    ),
                );
            }
            change.set.push((tag, value.clone()));
        }
        for name in &route.remove {
            change.remove.extend(self.changed(n, ("remove", name), msg_types));
        }
        change
    }

    fn changed(
        &mut self,
        n: usize,
        (key, name): (&str, &str),
        msg_types: &[String],
    ) -> Option<Tag> {
        let tag = self.field(n, name)?;
        let counts = self.dictionary.field(tag.0).is_some_and(|field| {
            matches!(field.data_type, DataType::NumInGroup | DataType::Length | DataType::Data)
        });
        // The first field of a group cannot be removed, because it shows where an entry begins.
        let begins = msg_types.iter().find(|msg_type| {
            let message = self.dictionary.message(msg_type.as_str());
            message.is_some_and(|message| begins_entries(&message.members, tag.0))
        });
        if let Some(msg_type) = begins {
            let what = format!(
                "`{key}`: {name} begins the entries of a repeating group in \
                                {msg_type}, so this field cannot be changed"
            );
            self.wrong(n, what);
            return None;
        }
        if tag::is_session_owned(tag) || counts {
            self.wrong(n, format_args!("`{key}`: {name} cannot be changed"));
            return None;
        }
        Some(tag)
    }

    /// Returns the names of all sessions. A template's name ends with `*`.
    fn ids(&self) -> Vec<String> {
        self.settings.sessions.iter().map(|session| session.id().to_string()).collect()
    }

    /// Returns the pattern for the sessions whose messages the route takes.
    fn from(&mut self, n: usize, name: &str) -> Pattern {
        let pattern = Pattern::new(name);
        let ids = self.ids();
        if !ids.iter().any(|id| Pattern::new(id).meets(&pattern)) {
            self.errors.push(unknown(n, "from", name, &ids));
        }
        pattern
    }

    fn target(&mut self, n: usize, name: &str) -> Option<Target> {
        if let Some(socket) = name.strip_prefix(SOCKET) {
            let is_there = self.file.socket.iter().any(|one| one.name == socket);
            if !is_there {
                self.wrong(n, format_args!("no [[socket]] is named '{socket}'"));
            }
            return is_there.then(|| Target::Socket(socket.to_owned()));
        }
        if let Some(file) = name.strip_prefix(FILE) {
            let mode = self.file.file.iter().find(|one| one.name == file).map(|one| one.mode);
            match mode {
                None => self.wrong(n, format_args!("no [[file]] is named '{file}'")),
                Some(FileMode::Read) => {
                    self.wrong(
                        n,
                        format_args!(
                            "[[file]] {file} is only read, so no route may write to this \
                                      file"
                        ),
                    );
                }
                Some(FileMode::Write) => return Some(Target::File(file.to_owned())),
            }
            return None;
        }
        if name == THIRD_PARTY {
            let wrong = self.settings.sessions.iter().find_map(|one| keeps(one).err());
            if let Some(wrong) = wrong {
                self.wrong(n, wrong);
            }
            return Some(Target::ThirdParty);
        }
        let found = self.settings.sessions.iter().find_map(|session| {
            let id = named(&session.id(), name)?;
            Some((id, keeps(session)))
        });
        let Some((id, keeps)) = found else {
            let ids = self.ids();
            self.errors.push(unknown(n, "to", name, &ids));
            return None;
        };
        if let Err(wrong) = keeps {
            self.wrong(n, wrong);
        }
        Some(Target::Session(id))
    }

    /// Checks that all sessions of a route have the same version. Messages are not translated, so
    /// they may be invalid in another version.
    fn check_versions(&mut self, n: usize, from: Option<&[Pattern]>, to: &[Target]) {
        let versions = |session: &SessionSettings| {
            let id = session.id();
            let default = session.protocol.default_appl_ver_id;
            (id.begin_string, default.filter(|_| id.begin_string == BeginString::Fixt11))
        };
        let is_from = |id: &SessionId| {
            let id = Pattern::new(&id.to_string());
            from.is_none_or(|all| all.iter().any(|one| one.meets(&id)))
        };
        let sessions = &self.settings.sessions;
        let is_target = |session: &&SessionSettings| {
            let is_it = |to: &Target| match to {
                Target::Session(id) => named(&session.id(), &id.to_string()).is_some(),
                Target::Socket(_) | Target::File(_) | Target::ThirdParty => false,
            };
            to.iter().any(is_it)
        };
        for target in sessions.iter().filter(is_target) {
            let mut others =
                sessions.iter().filter(|one| is_from(&one.id()) && one.id() != target.id());
            if let Some(other) = others.find(|other| versions(other) != versions(target)) {
                let (id, other) = (target.id(), other.id());
                self.wrong(
                    n,
                    format_args!(
                        "{id} has another FIX version than {other}, which `from` names: the \
                         gateway does not translate messages"
                    ),
                );
            }
        }
    }
}

/// Checks that the settings of a target session allow no message to be lost without notice.
///
/// # Errors
/// The reason why they can.
pub(super) fn keeps(session: &SessionSettings) -> Result<(), String> {
    let id = session.id();
    match session.queue.offline {
        Offline::Queue => Err(format!(
            "{id} has offline = \"queue\": messages that wait for a logon may expire without \
             notice; set \"refuse\" (the sender is notified at once) or \"store\" (messages are \
             sent after the next logon)"
        )),
        _ => Ok(()),
    }
}

/// Returns true if each entry of a group begins with this field.
fn begins_entries(members: &[Member], tag: u32) -> bool {
    members.iter().any(|member| match &member.kind {
        MemberKind::Field(_) => false,
        MemberKind::Component(component) => begins_entries(&component.members, tag),
        MemberKind::Group(group) => {
            first_field(&group.members) == Some(tag) || begins_entries(&group.members, tag)
        }
    })
}

fn first_field(members: &[Member]) -> Option<u32> {
    match &members.first()?.kind {
        MemberKind::Field(tag) => Some(*tag),
        MemberKind::Component(component) => first_field(&component.members),
        MemberKind::Group(group) => Some(group.count_tag),
    }
}

/// Returns the identity of the session `name` if it is `id`, or if the template `id` makes it.
pub(super) fn named(id: &SessionId, name: &str) -> Option<SessionId> {
    if &*id.target_comp_id != "*" {
        return (id.to_string() == name).then(|| id.clone());
    }
    let text = id.to_string();
    let of_template = name.strip_prefix(text.strip_suffix('*')?)?;
    let id = SessionId { target_comp_id: of_template.into(), ..id.clone() };
    (!of_template.is_empty() && id.to_string() == name).then_some(id)
}

fn unknown(n: usize, key: &str, name: &str, ids: &[String]) -> String {
    let hint = nearest(name, ids.iter().map(|id| &**id));
    let hint = match hint {
        Some(id) => format!("do you mean {id}?"),
        None => format!("there are {}", ids.join(", ")),
    };
    format!("[[route]] {n}: `{key}`: no session is named {name}; {hint}")
}
