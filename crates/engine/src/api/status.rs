//! The state of a session as seen from outside, in one piece.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use transfix_codec::Timestamp;
use transfix_observe::counters::Counters;
use transfix_observe::latency::LatencyStage;
use transfix_session::{SessionId, State};

use crate::api::handle::SessionHandle;
pub use transfix_observe::published::LastEnd;

/// A session as an operator sees it. Each value is right by itself; two of them may be of two
/// turns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionStatus {
    /// Identity of the session.
    pub id: SessionId,
    /// Where it stands.
    pub state: State,
    /// Since when; `None` if it has stood there since the engine was started.
    pub since: Option<Timestamp>,
    /// True if an operator lets it be connected: [`Action::LogOut`](crate::Action::LogOut) says no.
    pub enabled: bool,
    /// True if an operator holds back what is sent, by
    /// [`Action::HoldSending`](crate::Action::HoldSending).
    pub holds_sending: bool,
    /// True if its store takes nothing now: [`SessionHandle::store_failure`] says why.
    pub store_has_failed: bool,
    /// MsgSeqNum(34) that the next message of the counterparty must have.
    pub next_num_in: u64,
    /// MsgSeqNum(34) that our next message will have.
    pub next_num_out: u64,
    /// HeartBtInt(108) that was agreed at the last logon; `None` before the first one.
    pub heart_bt_int: Option<Duration>,
    /// When the last whole message came; `None` before the first one since the engine was started.
    pub last_received: Option<Timestamp>,
    /// When the last new message was written; `None` before the first one.
    pub last_sent: Option<Timestamp>,
    /// Bytes of messages that were handed over and have no number yet.
    pub queued_bytes: usize,
    /// Messages that wait for an application in threads of its own, and their bytes.
    pub waiting_for_application: (usize, usize),
    /// True if its counterparty reads too slowly: the setting `slow_consumer`.
    pub slow_consumer: bool,
    /// The callback of its application that has not returned after `slow_callback`.
    pub held_up_by: Option<&'static str>,
    /// The stages whose p99 has left its usual range, as of the end of the last window of
    /// `latency_window`. The log has the times: `a latency is unusual`.
    pub unusual_latency: Vec<LatencyStage>,
    /// Where an initiator is connected, or has tried last, as `host:port`; `None` for an acceptor.
    pub destination: Option<String>,
    /// The other end of its connection, as TCP knows it (of an initiator that connects through a
    /// proxy: the proxy); `None` without a connection.
    pub peer: Option<SocketAddr>,
    /// Its counters since the engine was started.
    pub counters: Counters,
    /// How its last connection has ended.
    pub last_end: Option<LastEnd>,
}

impl SessionHandle {
    /// All that is known of the session without waiting for anything.
    #[must_use]
    pub fn status(&self) -> SessionStatus {
        let published = &self.shared.published;
        let (next_num_in, next_num_out) = published.next_numbers();
        let destination = self.destination().and_then(|n| self.destinations().get(n));
        SessionStatus {
            id: self.id().clone(),
            state: published.state(),
            since: published.since(),
            enabled: self.shared.enabled.load(Ordering::Acquire),
            holds_sending: self.shared.holds_sending.load(Ordering::Acquire),
            store_has_failed: published.has_failed(),
            next_num_in,
            next_num_out,
            heart_bt_int: published.heart_bt_int(),
            last_received: published.last_received(),
            last_sent: published.last_sent(),
            queued_bytes: self.queued_bytes(),
            waiting_for_application: self.waiting_for_application(),
            slow_consumer: published.is_slow(),
            held_up_by: published.held_up_by(),
            unusual_latency: published.unusual.stages().collect(),
            destination: destination.cloned(),
            peer: published.peer(),
            counters: published.counters.now(),
            last_end: published.last_end(),
        }
    }
}
