//! Heartbeats, silence, and how long answers may take.

/// How silence is watched and borne.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimingConfig {
    /// Silence beyond HeartBtInt(108) before a TestRequest(1), in percent of HeartBtInt(108).
    /// Default 20.
    pub margin_percent: u32,
    /// The same in milliseconds, in place of the percentage; 0 for the percentage. Default 0.
    pub margin_ms: u32,
    /// TestRequest(1)s without any answer before the session ends. Default 1.
    pub test_requests_max: u32,
    /// Longest wait for an answer to a TestRequest(1), in milliseconds; shorter where HeartBtInt
    /// and margin are. Default 20,000.
    pub test_request_wait_ms: u32,
    /// Whether silence is watched at all. Default true.
    pub watch_silence: bool,
    /// Whether a counterparty that has fallen silent is sent a Logout(5) before the disconnection.
    /// Default false.
    pub logout_when_silent: bool,
    /// Whether an acceptor imposes its own HeartBtInt(108) instead of taking that of the Logon(A).
    /// Default false.
    pub impose_heart_bt_int: bool,
    /// Least HeartBtInt(108) that a Logon(A) may ask of an acceptor, in seconds. Default 0.
    pub heart_bt_int_s_min: u32,
    /// Greatest HeartBtInt(108) that a Logon(A) may ask of an acceptor, in seconds; 0 for any.
    /// Default 0.
    pub heart_bt_int_s_max: u32,
    /// Whether an initiator refuses a Logon(A) that answers with another HeartBtInt(108) than it
    /// asked for. Default false: it takes the other one over.
    pub same_heart_bt_int: bool,
}

impl Default for TimingConfig {
    fn default() -> Self {
        Self {
            margin_percent: 20,
            margin_ms: 0,
            test_requests_max: 1,
            test_request_wait_ms: 20_000,
            watch_silence: true,
            logout_when_silent: false,
            impose_heart_bt_int: false,
            heart_bt_int_s_min: 0,
            heart_bt_int_s_max: 0,
            same_heart_bt_int: false,
        }
    }
}
