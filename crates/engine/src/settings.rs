//! Settings, from code or from a TOML file; strict: nothing unknown is passed over.
//!
//! ```
//! let settings = transfix::Settings::parse("example.toml", r#"
//!     [engine]
//!     workers = 2
//!
//!     [defaults]
//!     begin_string = "FIX.4.4"
//!     sender_comp_id = "VENUE"
//!     role = "acceptor"
//!     address = "127.0.0.1:9880"
//!
//!     [[session]]
//!     target_comp_id = "CLIENT1"
//!
//!     [[session]]
//!     target_comp_id = "CLIENT2"
//!     heart_bt_int_s = 10
//! "#)?;
//! assert_eq!(settings.sessions.len(), 2);
//! assert_eq!(settings.sessions[0].heart_bt_int_s, 30);
//! # Ok::<(), transfix::SettingsError>(())
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) mod check;
pub(crate) mod dictionary_source;
pub(crate) mod file;
pub(crate) mod log;
pub(crate) mod retention;
mod tables;
pub(crate) mod template;
mod words;

use serde::{Deserialize, Serialize};
use transfix_codec::{Precision, Switches};
use transfix_session::{
    ApplVerId, BeginString, CompIdPolicy, Config, LogonConfig, NumbersConfig, ResendConfig,
    ResetPolicy, Role, SessionId, SubIds, Throttle, TimingConfig,
};

use crate::schedule::ScheduleSettings;
use crate::settings::dictionary_source::DictionarySource;
use crate::settings::file::SettingsError;
use crate::settings::log::LogSettings;
use crate::settings::retention::RetentionSettings;

/// Everything an engine is told at its start.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What all sessions share.
    pub engine: EngineSettings,
    /// The sessions, in the order of the file.
    pub sessions: Vec<SessionSettings>,
}

impl Settings {
    /// Settings with one session and defaults for the rest.
    #[must_use]
    pub fn of(session: SessionSettings) -> Self {
        Self { engine: EngineSettings::default(), sessions: vec![session] }
    }

    /// Reads a TOML file.
    ///
    /// # Errors
    /// [`SettingsError`] with the file, the line, and the nearest right key.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SettingsError> {
        file::load(path.as_ref())
    }

    /// Reads TOML text; `name` stands for the file in errors.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub fn parse(name: &str, text: &str) -> Result<Self, SettingsError> {
        file::parse(Path::new(name), text)
    }
}

/// `[engine]`: what all sessions share.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct EngineSettings {
    /// Threads of the pool, as far as there are sessions for them. Default 2.
    pub workers: usize,
    /// CPUs that the pool's threads are pinned to, in turn; empty for none.
    pub cpus: Vec<usize>,
    /// Connections that may wait for their Logon(A) at once. Default 1,000.
    pub pending_connections_max: usize,
    /// Connections that may wait for their Logon(A) from one address (of IPv6: one /64 network).
    /// Beyond it, and beyond `pending_connections_max`, the oldest of the address with the most is
    /// closed. Default 500.
    pub pending_per_address_max: usize,
    /// Sessions that may be made from templates while the engine runs; each stays when its
    /// counterparty logs out, to go on with its numbers. Who is refused uses up none. Default
    /// 1,000.
    pub created_sessions_max: usize,
    /// Bytes that may wait in memory in all connected sessions together: to be sent, or to be
    /// handed to the application. Beyond it the session with the most is disconnected. 0 for no
    /// limit. Default 1 GiB.
    pub waiting_bytes_max: usize,
    /// CPU that the thread of the protocol logs is pinned to. Default none.
    pub log_cpu: Option<usize>,
    /// What follows when a thread of the engine panics outside of a session: `restart` lets it go
    /// on, `abort` ends the process at once. Default `restart`.
    pub thread_lost: ThreadLost,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            workers: 2,
            cpus: Vec::new(),
            pending_connections_max: 1_000,
            pending_per_address_max: 500,
            created_sessions_max: 1_000,
            waiting_bytes_max: 1 << 30,
            log_cpu: None,
            thread_lost: ThreadLost::default(),
        }
    }
}

/// What follows when a thread of the engine panics outside of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ThreadLost {
    /// It is told, and the thread goes on.
    #[default]
    Restart,
    /// It is told, and the process ends at once: for a supervisor that starts it anew.
    Abort,
}

/// Which thread drives a session, and how it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Mode {
    /// A few threads share all such sessions and wait in epoll.
    #[default]
    Pool,
    /// A thread of its own, which waits in epoll.
    Dedicated,
    /// A thread of its own, which never sleeps while the session is connected.
    Spin,
    /// No thread: the application calls [`crate::Engine::poll`].
    Polled,
}

/// In whose thread [`crate::SessionHandle::send`] writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SendMode {
    /// In the caller's, if the session is free at that moment.
    #[default]
    Direct,
    /// In the session's own thread.
    Queued,
}

/// What becomes of a message that is sent while the session has no connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Offline {
    /// `send` answers "not logged on".
    #[default]
    Refuse,
    /// It gets its number and is stored; the counterparty asks for it after the next logon.
    Store,
    /// It waits in the store without a number, and is sent once after the next logon, also that of
    /// a later process.
    Queue,
}

/// What becomes of messages that wait to be sent when the connection ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Unsent {
    /// They are sent after the next logon.
    #[default]
    Keep,
    /// They go back to the application: [`crate::Application::on_unsent`].
    Return,
}

/// What becomes of a message that the application is not available for, in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum UnavailableAction {
    /// BusinessMessageReject(j) with reason 4, or Reject(3) up to FIX 4.1.
    #[default]
    Reject,
    /// Nothing: it counts as received.
    Silence,
    /// Logout(5) and disconnection; it does not count, and comes again after the next logon.
    Disconnect,
}

/// `unavailable`: what becomes of a message whose application answers
/// [`crate::BusinessReject::not_available`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Unavailable {
    /// How often it is offered again; the messages behind it wait. Default 0.
    pub retries: u32,
    /// Time before each further offer, in milliseconds. Default 1,000.
    pub delay_ms: u32,
    /// What follows the last one: `reject`, `silence`, `disconnect`. Default `reject`.
    pub then: UnavailableAction,
}

impl Default for Unavailable {
    fn default() -> Self {
        Self { retries: 0, delay_ms: 1_000, then: UnavailableAction::Reject }
    }
}

/// What becomes of a session whose application, or whose own code, has panicked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AfterPanic {
    /// It goes on from its store after a pause that grows from 1 s to 64 s;
    /// [`crate::Application::on_undone`] is told what that does not have.
    #[default]
    Revive,
    /// It stays down until [`crate::SessionHandle::revive`], or the next start of the engine.
    End,
}

/// What becomes of a framed message that is garbled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum GarbledPolicy {
    /// It is passed over and does not count.
    #[default]
    Skip,
    /// It is answered by Reject(3), and counts if its MsgSeqNum(34) can be read.
    Reject,
}

/// Where sent messages and the next numbers are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Durability {
    /// In memory: nothing outlives the process; each start begins at 1.
    Memory,
    /// In files: survives `kill -9` of the process.
    #[default]
    Process,
    /// In files, synced before each write to the socket: survives a power cut.
    Power,
}

/// `[[session]]`: one session; keys in `[defaults]` hold for all.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionSettings {
    /// `acceptor` listens at `address`, `initiator` connects to it.
    #[serde(deserialize_with = "file::role")]
    pub role: Role,
    /// `FIX.4.0` to `FIX.4.4`, or `FIXT.1.1`.
    #[serde(deserialize_with = "file::begin_string")]
    pub begin_string: BeginString,
    /// SenderCompID(49) of what we send.
    pub sender_comp_id: String,
    /// TargetCompID(56) of what we send. An acceptor with `*` is a template: a session is made from
    /// it when a counterparty that no other settings name logs on, if the program lets it in
    /// (see [`crate::EngineBuilder::admit`]).
    pub target_comp_id: String,
    /// SenderSubID(50) of what we send; as the next three, it belongs to the identity. An acceptor
    /// takes the Logon(A) of a counterparty that gives other ones for another session's; one that
    /// gives none is taken. Default none.
    #[serde(default)]
    pub sender_sub_id: String,
    /// SenderLocationID(142) of what we send, from FIX 4.1 on. Default none.
    #[serde(default)]
    pub sender_location_id: String,
    /// TargetSubID(57) of what we send. Default none.
    #[serde(default)]
    pub target_sub_id: String,
    /// TargetLocationID(143) of what we send, from FIX 4.1 on. Default none.
    #[serde(default)]
    pub target_location_id: String,
    /// Tells sessions of an initiator apart whose version and ids are the same. It is never on the
    /// wire, so that an acceptor, who could not know which session a Logon(A) means, has none.
    /// Default none.
    #[serde(default)]
    pub qualifier: String,
    /// `host:port`. Port 0 lets the system choose the port to listen at.
    pub address: String,
    /// HeartBtInt(108) that an initiator asks for, in seconds; 0 for none. Default 30.
    #[serde(default = "default_heart_bt_int_s")]
    pub heart_bt_int_s: u32,
    /// DefaultApplVerID(1137) of a FIXT.1.1 session: 2 to 10. An initiator needs it.
    #[serde(default)]
    pub default_appl_ver_id: Option<u8>,
    /// When numbers start again at 1: a list of `logon`, `logout`, `disconnect`, `error`. Default
    /// none: only if the counterparty asks with ResetSeqNumFlag(141).
    #[serde(default, deserialize_with = "file::reset_on")]
    pub reset_on: ResetPolicy,
    /// Time of day in UTC, `HH:MM:SS`, at which a session that is logged on resets the numbers by
    /// a Logon(A) with ResetSeqNumFlag(141)=Y; from FIX 4.1 on. Default none.
    #[serde(default, deserialize_with = "file::second_of_day")]
    pub reset_at: Option<u32>,
    /// Hours after each logon at which it does so; 0 for never. Default 0.
    #[serde(default)]
    pub reset_after_h: u32,
    /// What our Logon(A) says and which one is taken, as a table. See [`LogonConfig`].
    #[serde(default, deserialize_with = "tables::table")]
    pub logon: LogonConfig,
    /// Numbers that are not the expected ones, as a table. See [`NumbersConfig`].
    #[serde(default, deserialize_with = "tables::table")]
    pub numbers: NumbersConfig,
    /// How lost messages are asked for and sent again, as a table. See [`ResendConfig`].
    #[serde(default, deserialize_with = "tables::table")]
    pub resend: ResendConfig,
    /// Heartbeats and silence, as a table. See [`TimingConfig`].
    #[serde(default, deserialize_with = "tables::table")]
    pub timing: TimingConfig,
    /// How many application messages of a type are taken in a time: a list of tables such as
    /// `{ msg_type = "D", messages_max = 10, interval_ms = 1000, action = "reject" }`; the action
    /// may also be `disconnect`. Default none.
    #[serde(default, deserialize_with = "tables::throttles")]
    pub throttles: Vec<Throttle>,
    /// Whether the session ends without a Logout(5) of ours. Default false.
    #[serde(default)]
    pub silent_disconnect: bool,
    /// Whether CompIDs of every message are checked. Default true.
    #[serde(default = "default_true")]
    pub check_comp_ids: bool,
    /// How far SendingTime(52) may be off, in seconds; 0 for any. Default 120.
    #[serde(default = "default_sending_time_tolerance_s")]
    pub sending_time_tolerance_s: u32,
    /// Digits of the times we send: `seconds`, `millis`, `micros`, `nanos`. Default by version.
    #[serde(default, deserialize_with = "file::precision")]
    pub precision: Option<Precision>,
    /// Whether messages of the application, and the Logon(A), are validated by the dictionary; the
    /// other ones of the session layer always are. Default true.
    #[serde(default = "default_true")]
    pub validate: bool,
    /// Which checks that makes: a table of names and `true` or `false`, such as
    /// `checks = { codes = false }`. By default all but
    /// `conditions` and `empty_groups`.
    #[serde(default, deserialize_with = "file::checks")]
    pub checks: Switches,
    /// Whether CheckSum(10) is verified. Default true.
    #[serde(default = "default_true")]
    pub validate_check_sum: bool,
    /// What becomes of a framed message that is garbled: a wrong CheckSum(10), MsgType(35) missing
    /// or out of its place. `skip` or `reject`. Default `skip`, as the standard wants it.
    #[serde(default)]
    pub garbled: GarbledPolicy,
    /// Whether what a garbled message covers by its BodyLength(9) is searched for other messages
    /// with a right CheckSum(10), which are then taken; else they are lost with it and asked for
    /// again. Nothing is found where the search would cost far more than what has been received.
    /// Default false, as the standard wants it.
    #[serde(default)]
    pub search_garbled: bool,
    /// A dictionary in place of the version's own (the application's, on FIXT sessions).
    #[serde(default)]
    pub dictionary: Option<DictionarySource>,
    /// Dictionaries of the messages on a FIXT session that name a version of their own, by its
    /// ApplVerID(1128) or CstmApplVerID(1129): `{ 4 = "FIX42", VENUE2 = "venue2.xml" }`. A
    /// message that names another version is rejected with reason 18, unless `checks.codes` is
    /// off. Default none: all messages have the session's version.
    #[serde(default)]
    pub appl_versions: BTreeMap<String, DictionarySource>,
    /// How long a Logon(A) may take, in milliseconds. Default 10,000.
    #[serde(default = "default_timeout_ms")]
    pub logon_timeout_ms: u32,
    /// How long the application may take to answer a Logon(A) later, in milliseconds, 1 or more.
    /// Then the counterparty is refused. Default 10,000.
    #[serde(default = "default_timeout_ms")]
    pub logon_answer_ms: u32,
    /// How long the answer to our Logout(5) may take, in milliseconds. Default 10,000.
    #[serde(default = "default_timeout_ms")]
    pub logout_timeout_ms: u32,
    /// Time between attempts of an initiator to connect, in milliseconds. Default 1,000.
    #[serde(default = "default_reconnect_interval_ms")]
    pub reconnect_interval_ms: u32,
    /// The longest time between attempts of an initiator whose Logon(A) is not accepted, in
    /// milliseconds: each further attempt waits twice as long as the one before, since each uses a
    /// number. Default 60,000.
    #[serde(default = "default_reconnect_interval_max_ms")]
    pub reconnect_interval_max_ms: u32,
    /// Messages above a gap that are kept until it is closed, or that wait for an application which
    /// is not available: how many. What does not fit is asked for again. Default 10,000.
    #[serde(default = "default_held_messages_max")]
    pub held_messages_max: usize,
    /// The same in bytes. Default 16 MiB.
    #[serde(default = "default_queued_bytes_max")]
    pub held_bytes_max: usize,
    /// The thread that drives the session: `pool`, `dedicated`, `spin`, `polled`. Default `pool`.
    #[serde(default)]
    pub mode: Mode,
    /// CPU that the session's own thread is pinned to, counted from 0; one that the machine lacks
    /// is an error of the start. Needs `mode` `dedicated` or `spin`; `cpus` of `[engine]` pins
    /// the threads of the pool. Default none.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// When the session may be connected, such as `{ zone = "Europe/London", days = "mon-fri",
    /// from = "08:00", to = "16:30" }`; `transfix schedule` prints the times. Default: always.
    #[serde(default)]
    pub schedule: Option<ScheduleSettings>,
    /// Which thread writes what other threads send: `direct`, the one that sends, if the session
    /// is free; `queued`, the session's. Default `direct`.
    #[serde(default)]
    pub send: SendMode,
    /// Messages sent without a connection: `refuse`, `store` or `queue`. Default `refuse`.
    #[serde(default)]
    pub offline: Offline,
    /// Time between a logon and the first message that was queued before it, in milliseconds.
    /// Default 0.
    #[serde(default)]
    pub queue_pause_ms: u32,
    /// Time after which a message that waits for a logon (`offline = "queue"`) is given back to the
    /// application in place of being sent, in seconds; 0 for never. Default 0.
    #[serde(default)]
    pub queue_expires_s: u32,
    /// Messages that wait to be sent when the connection ends: `keep` or `return`. Default `keep`.
    #[serde(default)]
    pub unsent: Unsent,
    /// What becomes of messages that the application is not available for, as a table. See
    /// [`Unavailable`].
    #[serde(default)]
    pub unavailable: Unavailable,
    /// What becomes of the session when its application panics: `revive` or `end`. Default
    /// `revive`.
    #[serde(default)]
    pub after_panic: AfterPanic,
    /// Whether a message with DeliverToCompID(128) is passed on to the session of the same version
    /// with that counterparty, on behalf of its sender. Default false: the application gets it.
    #[serde(default)]
    pub route_third_party: bool,
    /// What the store survives: `memory`, `process`, `power`. Default `process`.
    #[serde(default)]
    pub durability: Durability,
    /// Directory of the stores; each session has a folder of its own in it. Default `store`.
    #[serde(default = "default_store_dir")]
    pub store_dir: PathBuf,
    /// Whether the store may lie on a network file system such as NFS or SMB. There another host
    /// may write it at the same time, and a lost connection ends the process. Default false: it is
    /// refused.
    #[serde(default)]
    pub allow_network_store: bool,
    /// Whether application messages sent are kept, to be sent again when they are asked for. If
    /// not, only their numbers are, and a SequenceReset-GapFill(4) covers them. Default true.
    #[serde(default = "default_true")]
    pub keep_outbound: bool,
    /// Whether application messages received are kept too. Default false.
    #[serde(default)]
    pub keep_inbound: bool,
    /// Whether the next numbers are read from the store again before each logon, by an acceptor
    /// once it has found the Logon(A) good: for a store of your own that another process may have
    /// written since; the engine's own stores have one writer. Default false.
    #[serde(default)]
    pub refresh_on_logon: bool,
    /// Size of the store's first segment in bytes; each further one is four times as large, up to
    /// 64 MiB. Large enough, no segment is ever made while trading. Default 1 MiB.
    #[serde(default = "default_segment_bytes")]
    pub segment_bytes: usize,
    /// What the store keeps, and where, as a table. See [`RetentionSettings`].
    #[serde(default)]
    pub retention: RetentionSettings,
    /// The protocol log, such as `{ dir = "log" }`. See [`LogSettings`]. Default none.
    #[serde(default)]
    pub log: Option<LogSettings>,
    /// Longest message accepted, in bytes. Default 1 MiB.
    #[serde(default = "default_message_bytes_max")]
    pub message_bytes_max: usize,
    /// Longest value of a field accepted, in bytes; a message with a longer one is answered by
    /// Reject(3), reason 5. Default: as long as the message may be.
    #[serde(default = "default_field_bytes_max")]
    pub field_bytes_max: usize,
    /// Bytes that may wait for the counterparty before `send` answers "would block". Default 16
    /// MiB.
    #[serde(default = "default_queued_bytes_max")]
    pub queued_bytes_max: usize,
    /// Messages of a session that are handled at once; then it is the turn of the other sessions of
    /// its thread. Default 128.
    #[serde(default = "default_turn_messages_max")]
    pub turn_messages_max: u32,
    /// TCP_NODELAY: whether the system sends small messages at once. Default true.
    #[serde(default = "default_true")]
    pub tcp_nodelay: bool,
    /// Size of the socket's buffer for what is sent, in bytes; 0 for the system's choice. Default
    /// 0.
    #[serde(default)]
    pub tcp_send_buffer_bytes: usize,
    /// The same of the socket's other buffer, for what is received. Default 0.
    #[serde(default)]
    pub tcp_receive_buffer_bytes: usize,
    /// Where its keys stand, if it comes from a file.
    #[serde(skip)]
    pub(crate) places: Option<Arc<Places>>,
}

/// A settings file, and the lines of its keys.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) path: Arc<Path>,
    /// The session's own keys.
    pub(crate) session: BTreeMap<String, usize>,
    /// The keys of `[defaults]`.
    pub(crate) defaults: Arc<BTreeMap<String, usize>>,
    /// The keys of `[engine]`.
    pub(crate) engine: Arc<BTreeMap<String, usize>>,
}

impl Places {
    fn place(&self, line: Option<usize>) -> String {
        match line {
            Some(line) => format!("{}:{line}: ", self.path.display()),
            None => format!("{}: ", self.path.display()),
        }
    }
}

const fn default_true() -> bool {
    true
}
const fn default_heart_bt_int_s() -> u32 {
    30
}
const fn default_sending_time_tolerance_s() -> u32 {
    120
}
const fn default_timeout_ms() -> u32 {
    10_000
}
const fn default_reconnect_interval_ms() -> u32 {
    1_000
}
const fn default_reconnect_interval_max_ms() -> u32 {
    60_000
}
fn default_store_dir() -> PathBuf {
    "store".into()
}
const fn default_segment_bytes() -> usize {
    1 << 20
}
const fn default_message_bytes_max() -> usize {
    1 << 20
}
const fn default_turn_messages_max() -> u32 {
    128
}
const fn default_field_bytes_max() -> usize {
    usize::MAX
}
const fn default_held_messages_max() -> usize {
    10_000
}
const fn default_queued_bytes_max() -> usize {
    16 << 20
}

impl SessionSettings {
    /// A session with defaults for all but identity, role and address.
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
            heart_bt_int_s: default_heart_bt_int_s(),
            default_appl_ver_id: None,
            reset_on: ResetPolicy::NEVER,
            reset_at: None,
            reset_after_h: 0,
            logon: LogonConfig::default(),
            numbers: NumbersConfig::default(),
            resend: ResendConfig::default(),
            timing: TimingConfig::default(),
            throttles: Vec::new(),
            silent_disconnect: false,
            check_comp_ids: true,
            sending_time_tolerance_s: default_sending_time_tolerance_s(),
            precision: None,
            validate: true,
            checks: Switches::default(),
            validate_check_sum: true,
            garbled: GarbledPolicy::default(),
            search_garbled: false,
            dictionary: None,
            appl_versions: BTreeMap::new(),
            logon_timeout_ms: default_timeout_ms(),
            logon_answer_ms: default_timeout_ms(),
            logout_timeout_ms: default_timeout_ms(),
            reconnect_interval_ms: default_reconnect_interval_ms(),
            reconnect_interval_max_ms: default_reconnect_interval_max_ms(),
            held_messages_max: default_held_messages_max(),
            held_bytes_max: default_queued_bytes_max(),
            mode: Mode::default(),
            cpu: None,
            schedule: None,
            send: SendMode::default(),
            offline: Offline::default(),
            queue_pause_ms: 0,
            queue_expires_s: 0,
            unsent: Unsent::default(),
            unavailable: Unavailable::default(),
            after_panic: AfterPanic::default(),
            route_third_party: false,
            durability: Durability::default(),
            store_dir: default_store_dir(),
            allow_network_store: false,
            keep_outbound: true,
            keep_inbound: false,
            refresh_on_logon: false,
            segment_bytes: default_segment_bytes(),
            retention: RetentionSettings::default(),
            log: None,
            message_bytes_max: default_message_bytes_max(),
            field_bytes_max: default_field_bytes_max(),
            queued_bytes_max: default_queued_bytes_max(),
            turn_messages_max: default_turn_messages_max(),
            tcp_nodelay: true,
            tcp_send_buffer_bytes: 0,
            tcp_receive_buffer_bytes: 0,
            places: None,
        }
    }

    /// What an error about this key begins with: `venue.toml:7: ` if the settings are from a file.
    pub(crate) fn place(&self, key: &str) -> String {
        let places = self.places.as_ref();
        let line = |places: &Places| places.session.get(key).or(places.defaults.get(key)).copied();
        places.map_or_else(String::new, |places| places.place(line(places)))
    }

    /// The same for a key of `[engine]`.
    pub(crate) fn engine_place(&self, key: &str) -> String {
        let places = self.places.as_ref();
        places.map_or_else(String::new, |places| places.place(places.engine.get(key).copied()))
    }

    /// The session's identity.
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

    /// Where this session's store lies: a folder of [`SessionSettings::store_dir`] named after the
    /// identity, such as `FIX.4.4-VENUE-CLIENT`.
    #[must_use]
    pub fn store_path(&self) -> PathBuf {
        self.store_dir.join(self.folder())
    }

    /// The session's name among files.
    pub(crate) fn folder(&self) -> String {
        let sender = [&self.sender_comp_id, &self.sender_sub_id, &self.sender_location_id];
        let target = [&self.target_comp_id, &self.target_sub_id, &self.target_location_id];
        let mut name = format!("{}-{}-{}", self.begin_string, ids_name(sender), ids_name(target));
        if !self.qualifier.is_empty() {
            name = format!("{name}-{}", file_name(&self.qualifier));
        }
        name
    }

    /// What the session layer is told.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config::new(self.id(), self.role);
        config.heart_bt_int_s = self.heart_bt_int_s;
        config.default_appl_ver_id = self.default_appl_ver_id.map(ApplVerId);
        config.reset = self.reset_on;
        config.reset_at_s = self.reset_at;
        config.reset_after_h = self.reset_after_h;
        config.logon = self.logon.clone();
        config.numbers = self.numbers;
        config.resend = self.resend;
        config.timing = self.timing;
        config.throttles.clone_from(&self.throttles);
        config.silent_disconnect = self.silent_disconnect;
        config.comp_ids =
            if self.check_comp_ids { CompIdPolicy::Check } else { CompIdPolicy::Ignore };
        config.sending_time_tolerance_s =
            Some(self.sending_time_tolerance_s).filter(|seconds| *seconds > 0);
        if let Some(precision) = self.precision {
            config.precision = precision;
        }
        config.field_bytes_max = self.field_bytes_max;
        config.held_messages_max = self.held_messages_max;
        config.held_bytes_max = self.held_bytes_max;
        config.logon_timeout_ms = self.logon_timeout_ms;
        config.logout_timeout_ms = self.logout_timeout_ms;
        config
    }
}

/// CompID, SubID and LocationID, as far as there are any.
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

/// `text` with every byte that a file name should not hold written as `%XX`, so that no two
/// identities share a folder.
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
