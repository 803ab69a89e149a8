//! `[[session]]`: the settings of one session, with its tables and groups of keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use transfix_codec::{Mask, Tag};
use transfix_session::{
    ApplicationSettings, BeginString, Config, Key, LogonConfig, NumbersConfig, ProtocolConfig,
    QueueSettings, ResendConfig, Role, SessionId, SubIds, TimingConfig, Unavailable,
    settings_table,
};

use crate::failover::FailoverSettings;
use crate::log::LogSettings;
use crate::proxy::ProxySettings;
use crate::retention::RetentionSettings;
use crate::schedule::{ScheduleSettings, offsets_of};
use crate::socket::SocketSettings;
use crate::store::StoreSettings;
use crate::threads::ThreadSettings;
use crate::tls::TlsSettings;
use crate::validation::ValidationSettings;

settings_table! {
    /// `[[session]]`: one session. Keys in `[defaults]` apply to all sessions.
    ///
    /// Each table of the file is a field of the same name. All other keys belong to groups, such as
    /// [`StoreSettings`] in the field `store`; in the file, these keys are directly in the session.
    pub struct SessionSettings {
        /// `acceptor` listens at `address`; `initiator` connects to `address`.
        pub role: Role,
        /// BeginString(8): `FIX.4.0` to `FIX.4.4`, or `FIXT.1.1`.
        pub begin_string: BeginString,
        /// SenderCompID(49) of outbound messages.
        pub sender_comp_id: String,
        /// TargetCompID(56) of outbound messages. An acceptor with `*` is a template. If a
        /// counterparty without settings of its own logs on, and the program admits it, the engine
        /// creates a session from the template (see [`crate::EngineBuilder::admit`]).
        pub target_comp_id: String,
        /// SenderSubID(50) of outbound messages. SubIDs and LocationIDs are part of the identity of
        /// the session. If the Logon(A) of a counterparty has other values, it does not match an
        /// acceptor's session. A Logon(A) without these fields matches.
        pub sender_sub_id: String = String::new(),
        /// SenderLocationID(142) of outbound messages, since FIX 4.1. Part of the identity.
        pub sender_location_id: String = String::new(),
        /// TargetSubID(57) of outbound messages. Part of the identity.
        pub target_sub_id: String = String::new(),
        /// TargetLocationID(143) of outbound messages, since FIX 4.1. Part of the identity.
        pub target_location_id: String = String::new(),
        /// Name that distinguishes sessions of an initiator with the same version and ids. The
        /// qualifier is never sent. An acceptor must not have one, since a Logon(A) could not name
        /// the session.
        pub qualifier: String = String::new(),
        /// Address as `host:port`. With port 0, the system chooses the port at which an acceptor
        /// listens.
        pub address: String,
        /// Addresses and subnets from which the counterparty of an acceptor may connect, such as
        /// `["10.1.0.0/16", "192.0.2.7"]`. By default all addresses. For any other address this
        /// session does not exist. A listener closes a connection at once if none of its sessions
        /// allows the address.
        pub allow_from: Vec<String> = Vec::new(),
        /// Addresses and subnets of proxies and load balancers that send the client's address by
        /// the PROXY protocol, version 1 or 2. The log and `allow_from` use the client's address. A
        /// connection from a listed proxy must begin with the PROXY header; a header from any other
        /// address is not trusted. All sessions at one address must have the same list.
        pub proxy_protocol_from: Vec<String> = Vec::new(),
        /// If true, a message with DeliverToCompID(128) is forwarded to the session of the same
        /// version with that counterparty, on behalf of its sender. If false, the application
        /// receives the message.
        pub route_third_party: bool = false,
        /// Time that the application may take for a deferred answer to a Logon(A). After that time
        /// the counterparty is rejected. With `refresh_on_logon`, also the time to refresh the
        /// store. After that time the connection ends.
        #[least(1)]
        #[millis("logon_answer_ms")]
        pub logon_answer: Duration = 10_000,
        /// Logon(A): fields of the own Logon(A), and requirements on the counterparty's, as a
        /// table. See [`LogonConfig`].
        pub logon: LogonConfig = LogonConfig::default(),
        /// Reactions to an unexpected MsgSeqNum(34), as a table. See [`NumbersConfig`].
        pub numbers: NumbersConfig = NumbersConfig::default(),
        /// Requests for lost messages, and resends, as a table. See [`ResendConfig`].
        pub resend: ResendConfig = ResendConfig::default(),
        /// Heartbeats and the supervision of silence, as a table. See [`TimingConfig`].
        pub timing: TimingConfig = TimingConfig::default(),
        /// Reaction to messages for which the application is not available, as a table. See
        /// [`Unavailable`].
        pub unavailable: Unavailable = Unavailable::default(),
        /// Limits on messages that wait for an application in separate threads, as a table. See
        /// [`ApplicationSettings`].
        pub application: ApplicationSettings = ApplicationSettings::default(),
        /// If true, the session measures the latency of its messages in each stage of processing
        /// (see [`crate::SessionHandle::latency`]).
        pub latency_points: bool = true,
        /// Times at which the session may be connected, such as `{ zone = "Europe/London", days =
        /// "mon-fri", from = "08:00", to = "16:30" }`. `transfix schedule` prints the times. By
        /// default always.
        pub schedule: Option<ScheduleSettings> = None,
        /// Contents and location of the store, as a table. See [`RetentionSettings`].
        pub retention: RetentionSettings = RetentionSettings::default(),
        /// Encryption of connections, such as `{ certificate = "own.pem", key = "own.key" }`. See
        /// [`TlsSettings`].
        pub tls: Option<TlsSettings> = None,
        /// Backup destinations of an initiator, such as `{ addresses = ["b.example:9880"] }`. See
        /// [`FailoverSettings`].
        pub failover: FailoverSettings = FailoverSettings::default(),
        /// Proxy through which an initiator connects, such as `{ kind = "http", address =
        /// "proxy.example:3128" }`. See [`ProxySettings`].
        pub proxy: Option<ProxySettings> = None,
        /// Protocol log, such as `{ dir = "log" }`. See [`LogSettings`].
        pub log: Option<LogSettings> = None,
        and {
            /// Other settings of the session layer.
            pub protocol: ProtocolConfig,
            /// Checks of each message.
            pub validation: ValidationSettings,
            /// Storage of messages and numbers.
            pub store: StoreSettings,
            /// Messages that wait to be sent.
            pub queue: QueueSettings,
            /// Threads that drive the session and send its messages.
            pub threads: ThreadSettings,
            /// Connection of the session.
            pub socket: SocketSettings,
            /// Files and lines of the session's keys; `None` if the settings were made in code.
            #[serde(skip)]
            pub(crate) places: Option<Arc<Places>>,
        }
    }
}

/// The settings files, and the line of each key in the joined text of all files.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) files: Arc<Files>,
    /// The number of the line with the session's heading.
    pub(crate) line: usize,
    /// The lines of the session's own keys.
    pub(crate) session: Arc<KeyLines>,
    /// The keys of `[defaults]`.
    pub(crate) defaults: Arc<KeyLines>,
    /// The keys of `[engine]`.
    pub(crate) engine: Arc<KeyLines>,
    /// The files that contain passwords of the session.
    pub(crate) secrets: Vec<PathBuf>,
}

/// Keys with their lines, counted from 1.
pub(crate) type KeyLines = Vec<(&'static str, usize)>;

/// The files whose texts were joined, each with the number of lines before it.
#[derive(Debug, Default)]
pub(crate) struct Files(Vec<(PathBuf, usize)>);

impl Files {
    pub(crate) fn add(&mut self, path: &Path, lines_before: usize) {
        self.0.push((path.to_owned(), lines_before));
    }

    /// Returns the file to which a line of the joined text belongs, and the number of the line in
    /// that file.
    pub(crate) fn place(&self, line: usize) -> (&Path, usize) {
        let n = self.0.partition_point(|(_, before)| *before < line).max(1);
        self.0.get(n - 1).map_or((Path::new(""), line), |(path, before)| (path, line - before))
    }
}

impl Places {
    fn place(&self, keys: &[&KeyLines], key: &str) -> String {
        match keys.iter().flat_map(|keys| keys.iter()).find(|(name, _)| *name == key) {
            Some((_, line)) => {
                let (path, line) = self.files.place(*line);
                format!("{}:{line}: ", path.display())
            }
            None => format!("{}: ", self.files.place(self.line).0.display()),
        }
    }
}

/// The groups of keys that are direct keys of a session in a file, in the order of the fields.
pub(crate) const GROUPS: [&[Key]; 6] = [
    ProtocolConfig::KEYS,
    ValidationSettings::KEYS,
    StoreSettings::KEYS,
    QueueSettings::KEYS,
    ThreadSettings::KEYS,
    SocketSettings::KEYS,
];

impl SessionSettings {
    /// Returns the certificates that the counterparty may present; empty = any trusted certificate.
    #[must_use]
    pub fn tls_peers(&self) -> &[String] {
        self.tls.as_ref().filter(|tls| tls.enabled).map_or(&[], |tls| &tls.peer)
    }

    /// Returns the settings of a session with this role, identity and address. All other keys have
    /// their defaults.
    #[must_use]
    pub fn new(role: Role, id: &SessionId, address: &str) -> Self {
        Self {
            role,
            begin_string: id.begin_string,
            sender_comp_id: id.sender_comp_id.to_string(),
            target_comp_id: id.target_comp_id.to_string(),
            sender_sub_id: id.sub_ids.sender_sub_id.clone(),
            sender_location_id: id.sub_ids.sender_location_id.clone(),
            target_sub_id: id.sub_ids.target_sub_id.clone(),
            target_location_id: id.sub_ids.target_location_id.clone(),
            qualifier: id.qualifier.to_string(),
            address: address.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the beginning of an error about this key, such as `venue.toml:7: `. Returns an empty
    /// text if the settings were made by code.
    #[must_use]
    pub fn place(&self, key: &str) -> String {
        let place = |places: &Arc<Places>| places.place(&[&places.session, &places.defaults], key);
        self.places.as_ref().map(place).unwrap_or_default()
    }

    /// Returns true if the session itself has the key in the file. Keys of `[defaults]` and
    /// settings made in code do not count.
    #[must_use]
    pub fn has_own(&self, key: &str) -> bool {
        let own = self.places.as_ref().map(|places| &places.session);
        own.is_some_and(|own| own.iter().any(|(name, _)| *name == key))
    }

    /// Returns the beginning of an error about a key of `[engine]`, like [`place`](Self::place).
    #[must_use]
    pub fn engine_place(&self, key: &str) -> String {
        let place = |places: &Arc<Places>| places.place(&[&places.engine], key);
        self.places.as_ref().map(place).unwrap_or_default()
    }

    /// Returns the session's identity.
    #[must_use]
    pub fn id(&self) -> SessionId {
        SessionId {
            sub_ids: Arc::new(SubIds {
                sender_sub_id: self.sender_sub_id.clone(),
                sender_location_id: self.sender_location_id.clone(),
                target_sub_id: self.target_sub_id.clone(),
                target_location_id: self.target_location_id.clone(),
            }),
            qualifier: self.qualifier.as_str().into(),
            ..SessionId::new(self.begin_string, &self.sender_comp_id, &self.target_comp_id)
        }
    }

    /// Returns the path of the session's store. It is a directory in [`StoreSettings::store_dir`]
    /// whose name is made from the identity, such as `FIX.4.4-VENUE-CLIENT`.
    #[must_use]
    pub fn store_path(&self) -> PathBuf {
        self.store.store_dir.join(self.folder())
    }

    /// Returns the name of the session in the names of files and directories.
    #[must_use]
    pub fn folder(&self) -> String {
        let sender = [&self.sender_comp_id, &self.sender_sub_id, &self.sender_location_id];
        let target = [&self.target_comp_id, &self.target_sub_id, &self.target_location_id];
        let mut name = format!("{}-{}-{}", self.begin_string, ids_name(sender), ids_name(target));
        if !self.qualifier.is_empty() {
            name = format!("{name}-{}", file_name(&self.qualifier));
        }
        name
    }

    /// Returns the identity of the session whose store has this name, such as
    /// `FIX.4.4:VENUE->CLIENT` for `FIX.4.4-VENUE-CLIENT`. Returns `None` if no identity gives this
    /// name.
    #[must_use]
    pub fn id_of_store(name: &str) -> Option<SessionId> {
        let mut parts = name.split('-');
        let begin_string = BeginString::parse(parts.next()?.as_bytes())?;
        let [sender_comp_id, sender_sub_id, sender_location_id] = ids_of(parts.next()?)?;
        let [target_comp_id, target_sub_id, target_location_id] = ids_of(parts.next()?)?;
        let qualifier = parts.next().map_or(Some(String::new()), text_of)?;
        let is_whole = parts.next().is_none();
        let sub_ids =
            SubIds { sender_sub_id, sender_location_id, target_sub_id, target_location_id };
        is_whole.then(|| SessionId {
            sub_ids: Arc::new(sub_ids),
            qualifier: qualifier.as_str().into(),
            ..SessionId::new(begin_string, &sender_comp_id, &target_comp_id)
        })
    }

    /// Returns the files that contain passwords of the session.
    #[must_use]
    pub fn secret_files(&self) -> &[PathBuf] {
        self.places.as_ref().map_or(&[], |places| &places.secrets)
    }

    /// Returns the values that the session's protocol log hides: passwords, and the tags of
    /// `log.mask`. For programs that show messages elsewhere.
    #[must_use]
    pub fn mask(&self) -> Mask {
        let tags = self.log.iter().flat_map(|log| &log.mask);
        Mask::of(tags.map(|tag| Tag(*tag)))
    }

    /// Returns the configuration of the session layer.
    #[must_use]
    pub fn config(&self) -> Config {
        Config {
            id: self.id(),
            role: self.role,
            protocol: self.protocol.clone(),
            logon: self.logon.clone(),
            numbers: self.numbers,
            resend: self.resend,
            timing: self.timing,
            reset_at_offsets: offsets_of(&self.protocol.reset_at_zone),
        }
    }
}

/// Joins a CompID, SubID and LocationID to one name, without those that are empty.
fn ids_name([comp_id, sub_id, location_id]: [&String; 3]) -> String {
    let mut name = file_name(comp_id);
    for (mark, id) in [("+", sub_id), ("@", location_id)] {
        if !id.is_empty() {
            name += mark;
            name += &file_name(id);
        }
    }
    name
}

/// Splits a name made by [`ids_name`]. A missing SubID or LocationID is returned as an empty text.
fn ids_of(name: &str) -> Option<[String; 3]> {
    let (name, location_id) = name.split_once('@').unwrap_or((name, ""));
    let (comp_id, sub_id) = name.split_once('+').unwrap_or((name, ""));
    Some([text_of(comp_id)?, text_of(sub_id)?, text_of(location_id)?])
}

/// Decodes a name made by [`file_name`].
fn text_of(name: &str) -> Option<String> {
    let mut parts = name.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (byte, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(byte, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    let text = String::from_utf8(bytes).ok()?;
    (file_name(&text) == name).then_some(text)
}

/// Encodes `text` for a file name: bytes that are unsuitable become `%XX`. Different identities
/// always have different names.
fn file_name(text: &str) -> String {
    let mut name = String::new();
    for b in text.bytes() {
        if b.is_ascii_alphanumeric() || b"_.".contains(&b) {
            name.push(char::from(b));
        } else {
            name.push_str(&format!("%{b:02X}"));
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(ids: [&str; 6], qualifier: &str) -> SessionSettings {
        let id = SessionId::new(BeginString::Fix44, ids[0], ids[3]);
        SessionSettings {
            sender_sub_id: ids[1].to_owned(),
            sender_location_id: ids[2].to_owned(),
            target_sub_id: ids[4].to_owned(),
            target_location_id: ids[5].to_owned(),
            qualifier: qualifier.to_owned(),
            ..SessionSettings::new(Role::Initiator, &id, "127.0.0.1:1")
        }
    }

    #[test]
    fn a_store_is_named_after_one_identity() {
        let words = ["", "A", "a-b", "x+y@z", "%2D", "50%", "\u{e9}\u{20ac}", "a b/c", "_.", "~1"];
        let mut names = std::collections::HashSet::new();
        for n in 0..words.len() {
            let word = |more: usize| words[(n + more) % words.len()];
            // A CompID is never empty, so at least one letter is generated.
            let comp_id = |more: usize| format!("C{}", word(more));
            for (sub_id, location_id, qualifier) in [
                ("", "", ""),
                (word(1), "", word(2)),
                ("", word(3), ""),
                (word(4), word(5), word(1)),
            ] {
                let [sender, target] = [comp_id(0), comp_id(6)];
                let ids = [&*sender, sub_id, location_id, &*target, location_id, sub_id];
                let session = session(ids, qualifier);
                let name = session.folder();
                assert_eq!(SessionSettings::id_of_store(&name), Some(session.id()), "{name}");
                names.insert(name);
            }
        }
        assert!(names.len() > 2 * words.len(), "{names:?}");
    }

    #[test]
    fn a_name_that_no_identity_gives_is_none() {
        for name in [
            "",
            "FIX.4.4",
            "FIX.4.4-A",
            "FIX.9.9-A-B",
            "FIX.4.4-A-B-C-D",
            "FIX.4.4-A b-C",
            "FIX.4.4-A%-B",
            "FIX.4.4-A%2d-B",
            "FIX.4.4-A%ff-B",
            "FIX.4.4-A%41-B",
            "own",
            "FIX.4.4-A~1-B",
        ] {
            assert_eq!(SessionSettings::id_of_store(name), None, "{name}");
        }
        let id = SessionSettings::id_of_store("FIX.4.4-VENUE-CLIENT").unwrap();
        assert_eq!(id.to_string(), "FIX.4.4:VENUE->CLIENT");
        let id = SessionSettings::id_of_store("FIXT.1.1-A%2DB+S@L-C-second").unwrap();
        assert_eq!(id.to_string(), "FIXT.1.1:A-B(S,L)->C/second");
    }
}
