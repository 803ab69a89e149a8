//! What a session is told once, before it starts: identity, role, times and limits.

use std::fmt;
use std::sync::Arc;

use transfix_codec::{Precision, RejectReason, Timestamp};

/// BeginString(8): the version of the session layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BeginString {
    /// `FIX.4.0`
    Fix40,
    /// `FIX.4.1`
    Fix41,
    /// `FIX.4.2`
    Fix42,
    /// `FIX.4.3`
    Fix43,
    /// `FIX.4.4`
    Fix44,
    /// `FIXT.1.1`: FIX 5.0 and later, with the application version in the Logon(A).
    Fixt11,
}

impl BeginString {
    /// All versions, oldest first.
    pub const ALL: [Self; 6] =
        [Self::Fix40, Self::Fix41, Self::Fix42, Self::Fix43, Self::Fix44, Self::Fixt11];

    /// The value on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fix40 => "FIX.4.0",
            Self::Fix41 => "FIX.4.1",
            Self::Fix42 => "FIX.4.2",
            Self::Fix43 => "FIX.4.3",
            Self::Fix44 => "FIX.4.4",
            Self::Fixt11 => "FIXT.1.1",
        }
    }

    /// The version with this value on the wire.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|v| v.as_str().as_bytes() == value)
    }

    /// The finest times that the version allows by default: seconds up to FIX 4.1.
    #[must_use]
    pub fn precision(self) -> Precision {
        if self < Self::Fix42 { Precision::Seconds } else { Precision::Millis }
    }

    /// EndSeqNo(16) that means "and all that follow".
    pub(crate) fn open_end(self) -> u64 {
        if self < Self::Fix42 { 999_999 } else { 0 }
    }

    /// Whether Reject(3) has RefTagID(371), RefMsgType(372) and SessionRejectReason(373).
    pub(crate) fn has_reject_reason(self) -> bool {
        self >= Self::Fix42
    }

    /// Whether the version's code set of SessionRejectReason(373) has `reason`: FIX 4.2 ends at 11.
    pub(crate) fn knows(self, reason: RejectReason) -> bool {
        self > Self::Fix42 || (self == Self::Fix42 && reason as u8 <= 11)
    }
}

impl fmt::Display for BeginString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// DefaultApplVerID(1137): the application version of a FIXT session, `2` (FIX 4.0) to `10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ApplVerId(pub u8);

impl ApplVerId {
    /// The dictionary that belongs to it, such as `FIX50SP2` for 9.
    #[must_use]
    pub const fn dictionary(self) -> Option<&'static str> {
        Some(match self.0 {
            2 => "FIX40",
            3 => "FIX41",
            4 => "FIX42",
            5 => "FIX43",
            6 => "FIX44",
            7 => "FIX50",
            8 => "FIX50SP1",
            9 => "FIX50SP2",
            10 => "FIXLatest",
            _ => return None,
        })
    }
}

/// Who opens the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Connects and sends the first Logon(A).
    Initiator,
    /// Listens and answers the Logon(A).
    Acceptor,
}

/// The identity of a session as seen from this side: BeginString(8), our and their CompID, and a
/// qualifier that tells apart sessions which are equal in all of them.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId {
    /// BeginString(8) of both directions.
    pub begin_string: BeginString,
    /// SenderCompID(49) of what we send.
    pub sender_comp_id: Arc<str>,
    /// TargetCompID(56) of what we send.
    pub target_comp_id: Arc<str>,
    /// Empty, or a name of our own that never goes on the wire.
    pub qualifier: Arc<str>,
}

impl SessionId {
    /// An identity without qualifier.
    #[must_use]
    pub fn new(begin_string: BeginString, sender_comp_id: &str, target_comp_id: &str) -> Self {
        Self {
            begin_string,
            sender_comp_id: sender_comp_id.into(),
            target_comp_id: target_comp_id.into(),
            qualifier: "".into(),
        }
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}->{}", self.begin_string, self.sender_comp_id, self.target_comp_id)?;
        if !self.qualifier.is_empty() {
            write!(f, "/{}", self.qualifier)?;
        }
        Ok(())
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The highest MsgSeqNum(34) and NewSeqNo(36) that is taken: a million messages a second for
/// thirty years do not reach it, and what lies above would leave no number to go on with.
pub const MSG_SEQ_NUM_MAX: u64 = 1_000_000_000_000_000;

/// When MsgSeqNum(34) starts again at 1 in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResetPolicy {
    /// Only if the counterparty asks with ResetSeqNumFlag(141).
    #[default]
    Never,
    /// The initiator sends ResetSeqNumFlag(141)=Y with each Logon(A); the acceptor resets likewise.
    Logon,
    /// After each connection, however it ended.
    Disconnect,
}

/// Whether SenderCompID(49) and TargetCompID(56) are checked on every message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Whether CompIDs are checked.
    pub comp_ids: CompIdPolicy,
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
            reset: ResetPolicy::Never,
            comp_ids: CompIdPolicy::Check,
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
