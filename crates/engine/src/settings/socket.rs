//! Keys about the connection of a session.

use transfix_session::settings_table;

settings_table! {
    /// How a session connects.
    #[derive(PartialEq, Eq)]
    pub struct SocketSettings {
        /// Time between attempts of an initiator to connect, in milliseconds.
        #[least(1)]
        pub reconnect_interval_ms: u32 = 1_000,
        /// The longest time between attempts of an initiator whose Logon(A) is not accepted, in
        /// milliseconds: each further attempt waits twice as long as the one before, since each
        /// uses a number.
        pub reconnect_interval_max_ms: u32 = 60_000,
        /// TCP_NODELAY: whether the system sends small messages at once.
        pub tcp_nodelay: bool = true,
        /// Size of the socket's buffer for what is sent, in bytes; 0 for the system's choice.
        pub tcp_send_buffer_bytes: usize = 0,
        /// The same of the socket's other buffer, for what is received.
        pub tcp_receive_buffer_bytes: usize = 0,
    }
}
