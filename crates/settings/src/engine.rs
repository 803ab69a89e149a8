//! The section `[engine]`: settings that all sessions share.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use transfix_session::settings_table;

settings_table! {
    /// `[engine]`: settings that all sessions share.
    #[derive(Serialize, PartialEq, Eq)]
    pub struct EngineSettings {
        /// Number of threads in the pool. The engine starts no more threads than the pool has
        /// sessions.
        #[least(1)]
        pub workers: usize = 2,
        /// CPUs to which the threads of the pool are pinned, in turn. Empty = not pinned.
        pub cpus: Vec<usize> = Vec::new(),
        /// Interval at which the engine measures the load of the threads of the pool. An overloaded
        /// thread passes sessions to the least loaded thread; their connections stay open. 0 =
        /// sessions never change their thread.
        #[millis("rebalance_ms")]
        pub rebalance: Duration = 1_000,
        /// Load above which a thread of the pool is overloaded, in percent of its time.
        #[most(100)]
        pub hot_worker_percent: u32 = 70,
        /// Number of threads that call the applications of the sessions, so that a slow application
        /// delays no session. Each session has one call at a time, in order. By default 0: the
        /// thread that drives the session calls the application.
        pub application_threads: usize = 0,
        /// Time for which an idle application thread polls for work before it sleeps. A polling
        /// thread uses its CPU. 0 = sleep at once.
        #[micros("application_spin_us")]
        pub application_spin: Duration = 0,
        /// Connections that may wait for their Logon(A) at the same time. Above the limit, the
        /// engine closes the oldest connection of the address with the most waiting connections.
        pub pending_connections_max: usize = 1_000,
        /// Connections from one address (IPv6: one /64 network) that may wait for their Logon(A).
        /// Above the limit, the engine closes the oldest connection of the address with the most
        /// waiting connections.
        pub pending_per_address_max: usize = 500,
        /// Failed logons after which the engine delays its check of the next Logon(A). The engine
        /// counts the failures of one address (IPv6: one /64 network) at one session. It also
        /// counts the failures at one session from all addresses that have never logged on there. A
        /// third count is the number of names that one address tries. Each further failure doubles
        /// the delay; ten minutes without a failure end it. No counterparty is locked out. 0 = no
        /// delay.
        pub failed_logons_max: u32 = 5,
        /// Longest delay after failed logons; the first delay is 250 ms. The counterparty waits for
        /// its answer meanwhile: choose a time below its logon timeout.
        #[millis("failed_logon_delay_max_ms")]
        pub failed_logon_delay_max: Duration = 5_000,
        /// Sessions that may be created from templates while the engine runs. A created session
        /// keeps its numbers after a logout, for `created_sessions_idle_s`. A rejected counterparty
        /// does not count.
        pub created_sessions_max: usize = 1_000,
        /// Time without a connection after which the engine removes a session that was created from
        /// a template. The removal makes room for another session. The store remains: the numbers
        /// continue at the next logon of the counterparty. 0 = never removed.
        #[secs("created_sessions_idle_s")]
        pub created_sessions_idle: Duration = 0,
        /// Bytes that may wait in memory in all connected sessions together, both to be sent and to
        /// be delivered to the application. Above the limit, the engine disconnects the session
        /// with the most waiting bytes. 0 = unlimited.
        pub waiting_bytes_max: usize = 1 << 30,
        /// CPUs for the helper threads of the stores. These threads create segments, sync, archive,
        /// and open a store again after a failure. They never inherit the CPU of a pinned thread.
        /// Empty = the CPUs of the thread that starts the engine.
        pub helper_cpus: Vec<usize> = Vec::new(),
        /// CPU to which the thread of the protocol logs is pinned.
        pub log_cpu: Option<usize> = None,
        /// Time after which the engine reports an application callback that has not returned. The
        /// event `a callback has not returned` names the session and the callback. 0 = never.
        #[millis("slow_callback_ms")]
        pub slow_callback: Duration = 1_000,
        /// Length of a latency window. At its end, the engine compares the p99 of each stage of
        /// each session with earlier windows, and reports `a latency is unusual`. The comparison
        /// needs `latency_points`, ten earlier windows, and 500 measurements in the window. 0 =
        /// never.
        #[secs("latency_window_s")]
        pub latency_window: Duration = 60,
        /// Percentage of the usual p99 above which a p99 is unusual. The usual p99 is the median of
        /// the last thirty windows. A p99 below 10 µs, or below the greatest p99 of those windows,
        /// is never unusual.
        #[least(101)]
        pub latency_unusual_percent: u32 = 300,
        /// If true, the engine reports the latency of each stage of each session when it stops, in
        /// the event `latency`.
        pub latency_at_stop: bool = false,
        /// Audit file that records every action of an operator before it begins and when it ends.
        /// An entry has the operator, the origin, the action, and the state of the session before
        /// and after. The file is append-only, and `transfix audit verify` detects changes by a
        /// chain of hashes. An action that cannot be recorded is not executed. Empty = no audit.
        pub audit_file: PathBuf = PathBuf::new(),
        /// Reaction when a thread of the engine panics outside of a session: `restart` continues
        /// the thread, `abort` ends the process at once.
        pub thread_lost: ThreadLost = ThreadLost::Restart,
    }
}

/// The reaction of the engine when one of its threads panics outside of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ThreadLost {
    /// Reports the panic and continues the thread.
    #[default]
    Restart,
    /// The engine reports the panic and ends the process at once, so that a supervisor can restart
    /// it.
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
