//! The section `[engine]`: what all sessions share.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use transfix_session::settings_table;

settings_table! {
    /// `[engine]`: what all sessions share.
    #[derive(Serialize, PartialEq, Eq)]
    pub struct EngineSettings {
        /// Threads of the pool, as far as there are sessions for them.
        #[least(1)]
        pub workers: usize = 2,
        /// CPUs that the pool's threads are pinned to, in turn; empty for none.
        pub cpus: Vec<usize> = Vec::new(),
        /// Time between two looks at how busy the threads of the pool are. A thread with too
        /// much to do gives sessions to the one that has least, without an end of their
        /// connections. 0: sessions stay where they are.
        #[millis("rebalance_ms")]
        pub rebalance: Duration = 1_000,
        /// Share of its time in percent beyond which a thread of the pool has too much to do.
        #[most(100)]
        pub hot_worker_percent: u32 = 70,
        /// Threads in which the applications of the sessions are called, so that one that takes its
        /// time holds up no session. Each session has one call at a time, in its order. By default
        /// none: each is called in the thread that drives its session.
        pub application_threads: usize = 0,
        /// How long these threads look for work before they sleep; a thread that looks uses its
        /// CPU.
        #[micros("application_spin_us")]
        pub application_spin: Duration = 0,
        /// Connections that may wait for their Logon(A) at once.
        pub pending_connections_max: usize = 1_000,
        /// Connections that may wait for their Logon(A) from one address (of IPv6: one /64
        /// network). Beyond it, and beyond `pending_connections_max`, the oldest of the address
        /// with the most is closed.
        pub pending_per_address_max: usize = 500,
        /// Logons that may fail before the next one waits until it is judged. The engine counts the
        /// failures of one address (of IPv6: one /64 network) at one session. It counts those of
        /// one session from all addresses where it has not logged on, and the names that one
        /// address tries. Each further failure doubles the wait; ten minutes without one end it.
        /// Nobody is sent away. 0 for no waits.
        pub failed_logons_max: u32 = 5,
        /// Longest such wait; the first is 250 ms. The counterparty waits for its answer meanwhile:
        /// keep it below its patience.
        #[millis("failed_logon_delay_max_ms")]
        pub failed_logon_delay_max: Duration = 5_000,
        /// Sessions that may be made from templates while the engine runs; each stays when its
        /// counterparty logs out, to go on with its numbers, for `created_sessions_idle_s`. A
        /// refused counterparty uses up none.
        pub created_sessions_max: usize = 1_000,
        /// Time without a connection after which a session that was made from a template goes, so
        /// that another one may be made. Its store stays, and its numbers go on when its
        /// counterparty logs on again. 0 for never.
        #[secs("created_sessions_idle_s")]
        pub created_sessions_idle: Duration = 0,
        /// Bytes that may wait in memory in all connected sessions together: to be sent, or to be
        /// handed to the application. Beyond it the session with the most is disconnected. 0 for no
        /// limit.
        pub waiting_bytes_max: usize = 1 << 30,
        /// CPUs that the threads may run on which help the stores: they make segments, sync,
        /// archive, and open a store that has failed. Empty for those of the thread that starts the
        /// engine. A thread that is pinned never passes its CPU on to them.
        pub helper_cpus: Vec<usize> = Vec::new(),
        /// CPU that the thread of the protocol logs is pinned to.
        pub log_cpu: Option<usize> = None,
        /// Time after which a callback of an application that has not returned is told: the event
        /// `a callback has not returned` names the session and the callback. 0 for never.
        #[millis("slow_callback_ms")]
        pub slow_callback: Duration = 1_000,
        /// Length of a window, at whose end the p99 of each stage of each session is compared with
        /// the windows before: the event `a latency is unusual`. It needs `latency_points`, ten
        /// windows that say what is usual, and 500 times in a window. 0 for never.
        #[secs("latency_window_s")]
        pub latency_window: Duration = 60,
        /// How many percent of the usual p99, the median of the last thirty windows, are unusual.
        /// Times below 10 µs or below the greatest p99 of those windows never are.
        #[least(101)]
        pub latency_unusual_percent: u32 = 300,
        /// If true, the stop of the engine tells how long messages took on their way through each
        /// session: the event `latency`, one for each stage.
        pub latency_at_stop: bool = false,
        /// File that every action of an operator is written into, before it is begun and with its
        /// end: who, from where, what, the session before and after. It is only appended to, and a
        /// chain of hashes shows what was changed later (`transfix audit verify`). An action that
        /// it does not take is not done. Empty for none.
        pub audit_file: PathBuf = PathBuf::new(),
        /// The reaction when a thread of the engine panics outside of a session: `restart` lets it
        /// go on, `abort` ends the process at once.
        pub thread_lost: ThreadLost = ThreadLost::Restart,
    }
}

/// The reaction when a thread of the engine panics outside of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ThreadLost {
    /// It is told, and the thread goes on.
    #[default]
    Restart,
    /// It is told, and the process ends at once: for a supervisor that starts it anew.
    Abort,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_under_its_key() {
        let finer = Duration::from_micros(1_500);
        let settings = EngineSettings { slow_callback: finer, ..EngineSettings::default() };
        let written = toml::Value::try_from(&settings).unwrap();
        assert_eq!(written["slow_callback_ms"].as_integer(), Some(2));
        assert_eq!(written["latency_window_s"].as_integer(), Some(60));
        let back: EngineSettings = written.try_into().unwrap();
        assert_eq!(back.slow_callback, Duration::from_millis(2));
    }
}
