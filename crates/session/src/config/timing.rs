//! Heartbeats, the check for silence, and limits on the time for answers.

use std::time::Duration;

use crate::settings_table;

settings_table! {
    /// How silence is watched and borne.
    #[derive(Copy, PartialEq, Eq)]
    pub struct TimingConfig {
        /// Silence beyond HeartBtInt(108) before a TestRequest(1), in percent of HeartBtInt(108).
        #[most(1_000)]
        pub margin_percent: u32 = 20,
        /// The same as a time, in place of the percentage; 0 for the percentage.
        #[millis("margin_ms")]
        pub margin: Duration = 0,
        /// TestRequest(1)s without any answer before the session ends.
        #[least(1)]
        pub test_requests_max: u32 = 1,
        /// Longest wait for an answer to a TestRequest(1); shorter where HeartBtInt and margin are.
        #[least(1)]
        #[millis("test_request_wait_ms")]
        pub test_request_wait: Duration = 20_000,
        /// If true, silence is watched at all.
        pub watch_silence: bool = true,
        /// If true, a counterparty that has fallen silent is sent a Logout(5) before the
        /// disconnection.
        pub logout_when_silent: bool = false,
        /// If true, an acceptor imposes its own HeartBtInt(108) instead of taking that of the
        /// Logon(A).
        pub impose_heart_bt_int: bool = false,
        /// Least HeartBtInt(108) that a Logon(A) may ask of an acceptor.
        #[secs("heart_bt_int_s_min")]
        pub heart_bt_int_min: Duration = 0,
        /// Greatest HeartBtInt(108) that a Logon(A) may ask of an acceptor; 0 for any.
        #[secs("heart_bt_int_s_max")]
        pub heart_bt_int_max: Duration = 0,
        /// If true, an initiator refuses a Logon(A) that answers with another HeartBtInt(108) than
        /// it asked for; otherwise it takes the other one over.
        pub same_heart_bt_int: bool = false,
    }
}
