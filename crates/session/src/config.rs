//! The configuration of a session: identity, role, times and limits, fixed at the start.

mod application;
mod identity;
mod logon;
mod numbers;
mod protocol;
mod queue;
mod resend;
mod reset;
mod table;
mod throttle;
mod timing;
mod unavailable;
mod unread;

use std::time::Duration;

use serde::Deserialize;
use transfix_codec::{Precision, Tag, Timestamp, tag};

pub use application::{ApplicationSettings, WhenFull};
pub use identity::{ApplVerId, BeginString, SessionId, SubIds};
pub use logon::{LogonConfig, Secret};
pub use numbers::{NumbersConfig, TooLow, TooLowAtLogon};
pub use protocol::ProtocolConfig;
pub use queue::{Offline, QueueSettings, QueueWhenFull, SlowConsumer, Unsent};
pub use resend::ResendConfig;
pub use reset::ResetPolicy;

#[doc(hidden)]
pub use table::{Days, Hours, Micros, Millis, Mins, Secs, Unit};
pub use table::{Key, OutOfRange};
pub use throttle::{Throttle, ThrottleAction};
pub use timing::TimingConfig;
pub use unavailable::{Unavailable, UnavailableAction};
pub use unread::{GarbledPolicy, TooLongPolicy};

/// The role of this side in the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// This side connects and sends the first Logon(A).
    #[default]
    Initiator,
    /// This side listens and answers the Logon(A).
    Acceptor,
}

/// The highest accepted MsgSeqNum(34) and NewSeqNo(36). A million messages a second for thirty
/// years do not reach this limit. A number near the end of 64 bits would leave no further numbers.
pub const MSG_SEQ_NUM_MAX: u64 = 1_000_000_000_000_000;

/// The time of a call, read by the driver: a wall clock for the wire, a monotonic clock for timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Wall clock, for SendingTime(52).
    pub utc: Timestamp,
    /// Monotonic clock in nanoseconds since an arbitrary start, for timers.
    pub monotonic_ns: u64,
}

/// Converts a duration to nanoseconds, at most two hundred years. The limit prevents an overflow
/// when the result is added to a time of the monotonic clock.
#[must_use]
pub const fn nanos(time: Duration) -> u64 {
    const MAX: u128 = 200 * 365 * 86_400 * 1_000_000_000;
    let ns = time.as_nanos();
    if ns < MAX { ns as u64 } else { MAX as u64 }
}

/// The configuration of one session.
#[derive(Clone, Debug)]
pub struct Config {
    /// The identity: version, CompIDs and all other distinguishing fields.
    pub id: SessionId,
    /// The role of this side.
    pub role: Role,
    /// Heartbeats, resets, limits and timeouts.
    pub protocol: ProtocolConfig,
    /// Fields of the Logon(A).
    pub logon: LogonConfig,
    /// The treatment of unexpected sequence numbers.
    pub numbers: NumbersConfig,
    /// Requests for missing messages, and resends of our messages.
    pub resend: ResendConfig,
    /// Heartbeats and the check for silence.
    pub timing: TimingConfig,
    /// The offsets of the time zone `reset_at_zone`, in ascending order: start in seconds since
    /// 1970, and offset from UTC in seconds. An empty list means UTC.
    pub reset_at_offsets: Vec<(i64, i32)>,
}

impl Config {
    /// Creates a configuration with the default settings.
    #[must_use]
    pub fn new(id: SessionId, role: Role) -> Self {
        Self {
            id,
            role,
            protocol: ProtocolConfig::default(),
            logon: LogonConfig::default(),
            numbers: NumbersConfig::default(),
            resend: ResendConfig::default(),
            timing: TimingConfig::default(),
            reset_at_offsets: Vec::new(),
        }
    }

    /// Returns the precision of the timestamps that the session sends.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.protocol.precision.unwrap_or_else(|| self.id.begin_string.precision())
    }

    /// Returns the constant further header fields of our messages, encoded: SubIDs, LocationIDs if
    /// the version has them, and the fields of the settings.
    #[must_use]
    pub fn own_header(&self) -> String {
        let (version, ids) = (self.id.begin_string, &self.id.sub_ids);
        let known = |tag: &Tag| tag.0 < 142 || version.has_location_ids();
        let ids = [
            (tag::SENDER_SUB_ID, &ids.sender_sub_id),
            (tag::SENDER_LOCATION_ID, &ids.sender_location_id),
            (tag::TARGET_SUB_ID, &ids.target_sub_id),
            (tag::TARGET_LOCATION_ID, &ids.target_location_id),
        ];
        let ids = ids.into_iter().filter(|(tag, value)| known(tag) && !value.is_empty());
        let further = self.protocol.header_fields.iter().map(|(tag, value)| (*tag, value));
        ids.chain(further).map(|(tag, value)| format!("{tag}={value}\x01")).collect()
    }
}
