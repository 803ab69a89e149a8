//! The configuration of a session: identity, role, times and limits. The configuration is fixed
//! before the session starts.

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

/// The role of this side in a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The side that connects and sends the first Logon(A).
    #[default]
    Initiator,
    /// The side that listens and answers the Logon(A).
    Acceptor,
}

/// The greatest MsgSeqNum(34) and NewSeqNo(36) that a session accepts. A session that sends a
/// million messages a second needs more than thirty years to reach this limit. Without the limit, a
/// number near the end of 64 bits would leave no number for the next message.
pub const MSG_SEQ_NUM_MAX: u64 = 1_000_000_000_000_000;

/// The time of a call, as read by the code that drives the session: one clock for messages, and one
/// for timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The time of the wall clock, for SendingTime(52).
    pub utc: Timestamp,
    /// The time of the monotonic clock, in nanoseconds since an arbitrary start, for timers.
    pub monotonic_ns: u64,
}

/// Returns a duration in nanoseconds, at most two hundred years. The limit avoids an overflow when
/// a caller adds the result to the monotonic clock.
#[must_use]
pub const fn nanos(time: Duration) -> u64 {
    const MAX: u128 = 200 * 365 * 86_400 * 1_000_000_000;
    let ns = time.as_nanos();
    if ns < MAX { ns as u64 } else { MAX as u64 }
}

/// The configuration of a session at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Identity: version, CompIDs, SubIDs, LocationIDs and qualifier.
    pub id: SessionId,
    /// Role: initiator or acceptor.
    pub role: Role,
    /// Keys that have no table of their own, such as heartbeats, resets, limits and timeouts.
    pub protocol: ProtocolConfig,
    /// Fields of our Logon(A), and requirements for the Logon(A) of the counterparty.
    pub logon: LogonConfig,
    /// Reactions to an unexpected MsgSeqNum(34).
    pub numbers: NumbersConfig,
    /// Requests for lost messages, and limits on resends.
    pub resend: ResendConfig,
    /// Heartbeats and the supervision of silence.
    pub timing: TimingConfig,
    /// UTC offsets of the time zone `reset_at_zone`, in chronological order. Each entry has a Unix
    /// time in seconds, and the offset in seconds ahead of UTC from that time on. Empty = UTC.
    pub reset_at_offsets: Vec<(i64, i32)>,
}

impl Config {
    /// Returns the default configuration of a session with this identity and role.
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

    /// Returns the precision of the times that the session sends.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.protocol.precision.unwrap_or_else(|| self.id.begin_string.precision())
    }

    /// Returns the additional fields for the header of each outbound message: the SubIDs and
    /// LocationIDs that the version has, and `header_fields` of the settings.
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
