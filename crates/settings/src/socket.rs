//! Keys about the connection of a session.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use transfix_session::settings_table;

/// How the time between attempts to connect grows while nobody is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backoff {
    /// Not at all.
    Constant,
    /// It doubles each time all destinations have been tried.
    Exponential,
}

settings_table! {
    /// How a session connects. Acceptors at the same address share a listener: how its connections
    /// are set up is said by the first of them.
    #[derive(PartialEq, Eq)]
    pub struct SocketSettings {
        /// Time between attempts of an initiator to connect.
        #[least(1)]
        #[millis("reconnect_interval_ms")]
        pub reconnect_interval: Duration = 1_000,
        /// The longest time between attempts of an initiator whose Logon(A) is not accepted: each
        /// further attempt waits twice as long as the one before, since each uses a number. It is
        /// the longest one of `reconnect_backoff` too.
        #[millis("reconnect_interval_max_ms")]
        pub reconnect_interval_max: Duration = 60_000,
        /// How the time between attempts grows while nobody is there: `constant` (not at all) or
        /// `exponential` (it doubles each time all destinations have been tried).
        pub reconnect_backoff: Backoff = Backoff::Constant,
        /// The part of that time that is left to chance, in percent, so many sessions do not come
        /// back at one moment. With 20 an attempt comes after 80 to 100 percent of it.
        #[most(100)]
        pub reconnect_jitter_percent: u32 = 0,
        /// Attempts in a row without a logon after which an initiator gives up, until an operator
        /// logs it on or the next window of its schedule opens. 0 for never.
        pub reconnect_attempts_max: u32 = 0,
        /// How long one attempt may take until the connection stands: the look-up of the name, and
        /// then for each of its addresses TCP, a proxy and TLS together.
        #[least(1)]
        #[millis("connect_timeout_ms")]
        pub connect_timeout: Duration = 10_000,
        /// TCP_NODELAY: whether the system sends small messages at once.
        pub tcp_nodelay: bool = true,
        /// Size of the socket's buffer for what is sent, in bytes; 0 for the system's choice.
        pub tcp_send_buffer_bytes: usize = 0,
        /// The same of the socket's other buffer, for what is received.
        pub tcp_receive_buffer_bytes: usize = 0,
        /// Idle time after which the system begins to ask whether the counterparty's host is still
        /// there (TCP keepalive); 0 for never. Heartbeat(0) asks more than that, the session; this
        /// one keeps firewalls from forgetting a connection before its logon.
        #[secs("tcp_keepalive_s")]
        pub tcp_keepalive: Duration = 0,
        /// Time between two such questions; 0 for the system's choice.
        #[secs("tcp_keepalive_interval_s")]
        pub tcp_keepalive_interval: Duration = 0,
        /// Questions without an answer after which the connection is lost; 0 for the system's
        /// choice.
        pub tcp_keepalive_probes: u32 = 0,
        /// How long bytes sent may go without an acknowledgement before the system gives the
        /// connection up (TCP_USER_TIMEOUT, Linux); 0 for the system's choice, which is many
        /// minutes.
        #[millis("tcp_user_timeout_ms")]
        pub tcp_user_timeout: Duration = 0,
        /// TCP_QUICKACK (Linux): whether what comes is acknowledged at once. It costs a call after
        /// each read, and helps a counterparty that waits for acknowledgements (Nagle).
        pub tcp_quick_ack: bool = false,
        /// If true, a connection of ours is closed by a reset (SO_LINGER with no time). Bytes that
        /// were not sent yet are lost, and so are those that the counterparty has not read. A
        /// linger with a time is not offered, since closing would hold up the thread for as long.
        pub tcp_reset_on_close: bool = false,
        /// How long the kernel polls the network card when a read finds nothing (SO_BUSY_POLL,
        /// Linux, with the privilege CAP_NET_ADMIN); 0 for the system's choice.
        #[micros("busy_poll_us")]
        pub busy_poll: Duration = 0,
        /// The differentiated services code point of all packets (RFC 2474), 0 to 63: 46 is
        /// "expedited forwarding".
        pub dscp: Option<u8> = None,
        /// Where an initiator connects from: `host` or `host:port`. Empty for the system's choice.
        pub local_address: String = String::new(),
        /// SO_REUSEPORT of an acceptor: whether several engines, of several processes too, may
        /// listen at one address, if all of them say so. The system gives each connection to any
        /// of them, whatever its Logon(A) says.
        pub reuse_port: bool = false,
    }
}
