//! Heartbeats, detection of a silent counterparty, and the time to wait for answers.

use std::time::Duration;

use crate::settings_table;

settings_table! {
    /// Settings for heartbeats and for detecting a silent counterparty.
    #[derive(Copy, PartialEq, Eq)]
    pub struct TimingConfig {
        /// Silence beyond HeartBtInt(108) after which the session sends a TestRequest(1), in
        /// percent of HeartBtInt(108).
        #[most(1_000)]
        pub margin_percent: u32 = 20,
        /// Silence beyond HeartBtInt(108) after which the session sends a TestRequest(1), as a
        /// duration instead of `margin_percent`. 0 = `margin_percent` applies.
        #[millis("margin_ms")]
        pub margin: Duration = 0,
        /// Number of unanswered TestRequest(1) messages after which the session ends.
        #[least(1)]
        pub test_requests_max: u32 = 1,
        /// Maximum time to wait for the answer to a TestRequest(1). The session waits for less time
        /// if HeartBtInt(108) plus the margin is shorter.
        #[least(1)]
        #[millis("test_request_wait_ms")]
        pub test_request_wait: Duration = 20_000,
        /// If true, the session reacts to a silent counterparty. If false, it never sends a
        /// TestRequest(1) and never ends because of silence.
        pub watch_silence: bool = true,
        /// If true, the session sends a Logout(5) to a silent counterparty before disconnecting.
        pub logout_when_silent: bool = false,
        /// If true, an acceptor answers with its own HeartBtInt(108). If false, it adopts the value
        /// of the received Logon(A).
        pub impose_heart_bt_int: bool = false,
        /// Minimum HeartBtInt(108) that an acceptor accepts in a Logon(A).
        #[secs("heart_bt_int_s_min")]
        pub heart_bt_int_min: Duration = 0,
        /// Maximum HeartBtInt(108) that an acceptor accepts in a Logon(A). 0 = unlimited.
        #[secs("heart_bt_int_s_max")]
        pub heart_bt_int_max: Duration = 0,
        /// If true, an initiator rejects a Logon(A) whose HeartBtInt(108) differs from the
        /// requested value. If false, it adopts the received value.
        pub same_heart_bt_int: bool = false,
    }
}
