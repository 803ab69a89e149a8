//! What a session is told once, before it starts: identity, role, times and limits.

mod identity;
mod logon;
mod numbers;
mod resend;
mod reset;
mod throttle;
mod timing;

use transfix_codec::{Precision, Timestamp};

pub use identity::{ApplVerId, BeginString, SessionId, SubIds};
pub use logon::{LogonConfig, Secret};
pub use numbers::{NumbersConfig, TooLow, TooLowAtLogon};
pub use resend::ResendConfig;
pub use reset::ResetPolicy;
pub use throttle::{Throttle, ThrottleAction};
pub use timing::TimingConfig;

/// Who opens the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Connects and sends the first Logon(A).
    Initiator,
    /// Listens and answers the Logon(A).
    Acceptor,
}

/// The highest MsgSeqNum(34) and NewSeqNo(36) that is taken: a million messages a second for
/// thirty years do not reach it, and what lies above would leave no number to go on with.
pub const MSG_SEQ_NUM_MAX: u64 = 1_000_000_000_000_000;

/// Whether SenderCompID(49) and TargetCompID(56) are checked on every message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompIdPolicy {
    /// A wrong one is rejected (reason 9) and ends the session.
    #[default]
    Check,
    /// Only the Logon(A) is looked at.
    Ignore,
}

/// The moment of a call, taken by the driver: one clock for the wire, one for timing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Wall clock, for SendingTime(52).
    pub utc: Timestamp,
    /// Monotonic clock in nanoseconds from any start, for timers.
    pub monotonic_ns: u64,
}

/// Everything that a session is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who we are and to whom we speak.
    pub id: SessionId,
    /// Who connects.
    pub role: Role,
    /// HeartBtInt(108) in seconds that the initiator asks for; 0 for none. Default 30.
    pub heart_bt_int_s: u32,
    /// DefaultApplVerID(1137) of a FIXT session; an acceptor without one takes what the Logon
    /// names.
    pub default_appl_ver_id: Option<ApplVerId>,
    /// When numbers start again at 1.
    pub reset: ResetPolicy,
    /// Second of the day, in UTC, at which a session that is logged on resets the numbers by a
    /// Logon(A) with ResetSeqNumFlag(141)=Y; from FIX 4.1 on. Default none.
    pub reset_at_s: Option<u32>,
    /// Hours after each logon at which it does so; 0 for never. Default 0.
    pub reset_after_h: u32,
    /// Fields of the Logon(A).
    pub logon: LogonConfig,
    /// Numbers that are not the expected ones.
    pub numbers: NumbersConfig,
    /// Asking for lost messages, and answering those who ask.
    pub resend: ResendConfig,
    /// Heartbeats and silence.
    pub timing: TimingConfig,
    /// Whether CompIDs are checked.
    pub comp_ids: CompIdPolicy,
    /// How many messages of a type are taken in a time. Default any.
    pub throttles: Vec<Throttle>,
    /// Whether the session ends without a Logout(5) of ours: by the wish of the application, and
    /// where the standard wants a reason to be given. Default false.
    pub silent_disconnect: bool,
    /// How far SendingTime(52) may be from our clock, in seconds; `None` for any. Default 120.
    pub sending_time_tolerance_s: Option<u32>,
    /// Digits of the times that we send. Default: milliseconds, seconds up to FIX 4.1.
    pub precision: Precision,
    /// Longest value of a field that is taken, in bytes; a longer one is rejected (reason 5).
    /// Default: no limit but that of the message.
    pub field_bytes_max: usize,
    /// How long a Logon(A) may take, in milliseconds. Default 10,000.
    pub logon_timeout_ms: u32,
    /// How long the answer to our Logout(5) may take, in milliseconds. Default 10,000.
    pub logout_timeout_ms: u32,
    /// Messages above a gap that are kept: how many. Default 10,000.
    pub held_messages_max: usize,
    /// Messages above a gap that are kept: how many bytes in all. Default 16 MiB.
    pub held_bytes_max: usize,
}

impl Config {
    /// The defaults for a session.
    #[must_use]
    pub fn new(id: SessionId, role: Role) -> Self {
        let precision = id.begin_string.precision();
        Self {
            id,
            role,
            heart_bt_int_s: 30,
            default_appl_ver_id: None,
            reset: ResetPolicy::NEVER,
            reset_at_s: None,
            reset_after_h: 0,
            logon: LogonConfig::default(),
            numbers: NumbersConfig::default(),
            resend: ResendConfig::default(),
            timing: TimingConfig::default(),
            comp_ids: CompIdPolicy::Check,
            throttles: Vec::new(),
            silent_disconnect: false,
            sending_time_tolerance_s: Some(120),
            precision,
            field_bytes_max: usize::MAX,
            logon_timeout_ms: 10_000,
            logout_timeout_ms: 10_000,
            held_messages_max: 10_000,
            held_bytes_max: 16 << 20,
        }
    }
}
