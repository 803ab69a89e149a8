//! Heartbeats, supervision of silence, and the time to wait for answers.

use std::time::Duration;

use crate::settings_table;

settings_table! {
    /// Heartbeats and the supervision of silence.
    #[derive(Copy, PartialEq, Eq)]
    pub struct TimingConfig {
        /// Silence beyond HeartBtInt(108) before a TestRequest(1), in percent of HeartBtInt(108).
        #[most(1_000)]
        pub margin_percent: u32 = 20,
        /// Silence beyond HeartBtInt(108) before a TestRequest(1), as a time instead of
        /// `margin_percent`. 0 = `margin_percent` applies.
        #[millis("margin_ms")]
        pub margin: Duration = 0,
        /// Unanswered TestRequest(1)s before the session ends.
        #[least(1)]
        pub test_requests_max: u32 = 1,
        /// Longest wait for an answer to a TestRequest(1). The wait is shorter if HeartBtInt(108)
        /// plus margin is shorter.
        #[least(1)]
        #[millis("test_request_wait_ms")]
        pub test_request_wait: Duration = 20_000,
        /// If true, the session supervises the counterparty's silence. If false, it sends no
        /// TestRequest(1) and never ends because of silence.
        pub watch_silence: bool = true,
        /// If true, the session sends a Logout(5) to a silent counterparty before the
        /// disconnection.
        pub logout_when_silent: bool = false,
        /// If true, an acceptor imposes its own HeartBtInt(108). If false, it accepts the value of
        /// the Logon(A).
        pub impose_heart_bt_int: bool = false,
        /// Least HeartBtInt(108) that an acceptor accepts in a Logon(A).
        #[secs("heart_bt_int_s_min")]
        pub heart_bt_int_min: Duration = 0,
        /// Greatest HeartBtInt(108) that an acceptor accepts in a Logon(A). 0 = unlimited.
        #[secs("heart_bt_int_s_max")]
        pub heart_bt_int_max: Duration = 0,
        /// If true, an initiator rejects a Logon(A) that answers with a HeartBtInt(108) other than
        /// requested. If false, it adopts the received value.
        pub same_heart_bt_int: bool = false,
    }
}
