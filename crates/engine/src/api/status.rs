//! A snapshot of the state of a session.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use transfix_codec::Timestamp;
use transfix_observe::counters::Counters;
use transfix_observe::latency::LatencyStage;
use transfix_session::{SessionId, State};

use crate::api::handle::SessionHandle;
pub use transfix_observe::published::LastEnd;

/// A session as an operator sees it. Each value is correct by itself, but two values may come from
/// different turns of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionStatus {
    /// The identity of the session.
    pub id: SessionId,
    /// The state of the session.
    pub state: State,
    /// The time of the last change of `state`; `None` if the state has not changed since the start
    /// of the engine.
    pub since: Option<Timestamp>,
    /// True if operators allow connections; [`Action::LogOut`](crate::Action::LogOut) forbids them.
    pub enabled: bool,
    /// True if an operator holds outbound messages back, by
    /// [`Action::HoldSending`](crate::Action::HoldSending).
    pub holds_sending: bool,
    /// True if the store of the session accepts nothing now: [`SessionHandle::store_failure`] gives
    /// the reason.
    pub store_has_failed: bool,
    /// MsgSeqNum(34) that the session expects next from the counterparty.
    pub next_num_in: u64,
    /// MsgSeqNum(34) of the next message that the session sends.
    pub next_num_out: u64,
    /// HeartBtInt(108) of the last logon; `None` before the first one.
    pub heart_bt_int: Option<Duration>,
    /// The time of the last complete message received; `None` if none was received since the start
    /// of the engine.
    pub last_received: Option<Timestamp>,
    /// The time at which the last new message was written; `None` before the first message.
    pub last_sent: Option<Timestamp>,
    /// The size, in bytes, of accepted messages that have no MsgSeqNum(34) yet.
    pub queued_bytes: usize,
    /// The number and the bytes of messages that wait for an application with threads of its own.
    pub waiting_for_application: (usize, usize),
    /// True if the counterparty reads too slowly: the setting `slow_consumer`.
    pub slow_consumer: bool,
    /// The name of a callback of the application that has run longer than `slow_callback`; `None`
    /// if there is none.
    pub held_up_by: Option<&'static str>,
    /// The stages whose p99 has left its usual range, as of the end of the last window of
    /// `latency_window`. The event `a latency is unusual` has the times.
    pub unusual_latency: Vec<LatencyStage>,
    /// The address, as `host:port`, to which an initiator is connected or tried to connect last;
    /// `None` for an acceptor.
    pub destination: Option<String>,
    /// The peer address of the TCP connection, which is the proxy's if an initiator connects
    /// through a proxy. `None` without a connection.
    pub peer: Option<SocketAddr>,
    /// The counts of the session since the start of the engine.
    pub counters: Counters,
    /// The end of the last connection; `None` if no connection has ended.
    pub last_end: Option<LastEnd>,
}

impl SessionHandle {
    /// Returns a snapshot of the session, without waiting.
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
