//! Keys about the connection of a session.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use transfix_session::settings_table;

/// The growth of the time between attempts to connect while no destination answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backoff {
    /// The time does not grow.
    Constant,
    /// The time doubles after each round of all destinations.
    Exponential,
}

settings_table! {
    /// Connection of a session. Acceptors at the same address share a listener, which uses the
    /// socket settings of the first acceptor.
    #[derive(PartialEq, Eq)]
    pub struct SocketSettings {
        /// Time between an initiator's attempts to connect.
        #[least(1)]
        #[millis("reconnect_interval_ms")]
        pub reconnect_interval: Duration = 1_000,
        /// Longest time between attempts. If the Logon(A) of an initiator is not accepted, each
        /// attempt waits twice as long as the previous one, because each attempt uses a number. The
        /// limit also applies to `reconnect_backoff`.
        #[millis("reconnect_interval_max_ms")]
        pub reconnect_interval_max: Duration = 60_000,
        /// Growth of the time between attempts while no destination answers: `constant` (none) or
        /// `exponential` (doubled after each round of all destinations).
        pub reconnect_backoff: Backoff = Backoff::Constant,
        /// Random part of the time between attempts, in percent, so that many sessions do not
        /// reconnect at the same moment. With 20, an attempt follows after 80 to 100 percent of the
        /// time.
        #[most(100)]
        pub reconnect_jitter_percent: u32 = 0,
        /// Consecutive attempts without a logon after which an initiator stops. It tries again when
        /// an operator logs it on or the next window of its schedule opens. 0 = unlimited.
        pub reconnect_attempts_max: u32 = 0,
        /// Timeout of each step of an attempt to connect. The steps are the look-up of the host
        /// name, and then for each address TCP, proxy and TLS together.
        #[least(1)]
        #[millis("connect_timeout_ms")]
        pub connect_timeout: Duration = 10_000,
        /// If true, the session starts disabled: it connects or accepts a logon only after an
        /// operator has enabled it (see [`crate::Action::LogOn`]). In a fleet, the gateways enable
        /// initiators.
        pub start_disabled: bool = false,
        /// TCP_NODELAY: if true, the system sends small messages at once.
        pub tcp_nodelay: bool = true,
        /// Size of the socket's send buffer, in bytes. 0 = the system's default.
        pub tcp_send_buffer_bytes: usize = 0,
        /// Size of the socket's receive buffer, in bytes. 0 = the system's default.
        pub tcp_receive_buffer_bytes: usize = 0,
        /// Idle time after which the system sends TCP keepalive probes to the counterparty's host.
        /// Heartbeat(0) checks more, namely the session. Keepalive prevents firewalls from dropping
        /// an idle connection before its logon. 0 = no keepalive.
        #[secs("tcp_keepalive_s")]
        pub tcp_keepalive: Duration = 0,
        /// Time between two TCP keepalive probes. 0 = the system's default.
        #[secs("tcp_keepalive_interval_s")]
        pub tcp_keepalive_interval: Duration = 0,
        /// Unanswered TCP keepalive probes after which the connection is lost. 0 = the system's
        /// default.
        pub tcp_keepalive_probes: u32 = 0,
        /// Time without an acknowledgement of sent bytes after which the system ends the connection
        /// (TCP_USER_TIMEOUT, Linux). 0 = the system's default, which is many minutes.
        #[millis("tcp_user_timeout_ms")]
        pub tcp_user_timeout: Duration = 0,
        /// TCP_QUICKACK (Linux): if true, received bytes are acknowledged at once. The option costs
        /// a system call after each read. It helps a counterparty that waits for acknowledgements
        /// (Nagle).
        pub tcp_quick_ack: bool = false,
        /// If true, the engine closes a connection by a reset (SO_LINGER with time 0). Unsent
        /// bytes, and bytes that the counterparty has not read, are lost. A longer linger is not
        /// supported, since closing would block the thread.
        pub tcp_reset_on_close: bool = false,
        /// Time for which the kernel polls the network card when a read finds no data
        /// (SO_BUSY_POLL, Linux). Needs the privilege CAP_NET_ADMIN. 0 = the system's default.
        #[micros("busy_poll_us")]
        pub busy_poll: Duration = 0,
        /// Differentiated services code point of all packets (RFC 2474), 0 to 63; 46 is "expedited
        /// forwarding".
        pub dscp: Option<u8> = None,
        /// Local address of an initiator's connections, as `host` or `host:port`. Empty = the
        /// system's choice.
        pub local_address: String = String::new(),
        /// SO_REUSEPORT of an acceptor. If true, several engines, also of several processes, may
        /// listen at one address; all must set it. The system assigns each connection to any of the
        /// engines, regardless of its Logon(A).
        pub reuse_port: bool = false,
    }
}
