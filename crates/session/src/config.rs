//! The configuration of a session: identity, role, times and limits. It is set before the start.

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

/// The side that opens the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Connects and sends the first Logon(A).
    #[default]
    Initiator,
    /// Listens and answers the Logon(A).
    Acceptor,
}

/// The highest MsgSeqNum(34) and NewSeqNo(36) that a session accepts. A million messages a second
/// for thirty years do not reach it; a number near the end of 64 bits would leave no number to go
/// on with.
pub const MSG_SEQ_NUM_MAX: u64 = 1_000_000_000_000_000;

/// The moment of a call, taken by the driver: one clock for the wire, one for timing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Wall clock, for SendingTime(52).
    pub utc: Timestamp,
    /// Monotonic clock in nanoseconds from any start, for timers.
    pub monotonic_ns: u64,
}

/// Nanoseconds of a time, two hundred years at most, so that a moment of the monotonic clock can be
/// added to them.
#[must_use]
pub const fn nanos(time: Duration) -> u64 {
    const MAX: u128 = 200 * 365 * 86_400 * 1_000_000_000;
    let ns = time.as_nanos();
    if ns < MAX { ns as u64 } else { MAX as u64 }
}

/// Everything that a session is told at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Version, CompIDs and all else that tells this session from others.
    pub id: SessionId,
    /// The role: this side connects, or it listens.
    pub role: Role,
    /// Heartbeats, resets, limits, timeouts.
    pub protocol: ProtocolConfig,
    /// Fields of the Logon(A).
    pub logon: LogonConfig,
    /// Numbers that are not the expected ones.
    pub numbers: NumbersConfig,
    /// How lost messages are asked for, and how much is sent again.
    pub resend: ResendConfig,
    /// Heartbeats and silence.
    pub timing: TimingConfig,
    /// The time zone `reset_at_zone`: from each of these seconds on, its clocks are so many seconds
    /// ahead of UTC. In order; empty for UTC.
    pub reset_at_offsets: Vec<(i64, i32)>,
}

impl Config {
    /// The defaults for a session.
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

    /// The precision of the times that the session sends.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.protocol.precision.unwrap_or_else(|| self.id.begin_string.precision())
    }

    /// Further fields of the header of each message of ours: SubIDs and LocationIDs that the
    /// version has, and the fields of the settings.
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
