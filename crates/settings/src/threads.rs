//! Keys about the threads of a session.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use transfix_session::settings_table;

settings_table! {
    /// Threads that drive a session and send its messages.
    #[derive(PartialEq, Eq)]
    pub struct ThreadSettings {
        /// Thread that drives the session. `pool`: a shared thread of the pool. `dedicated`: a
        /// thread of its own, which sleeps when idle. `spin`: a thread of its own, which never
        /// sleeps while the session is connected. `polled`: no thread; the application polls the
        /// engine.
        pub mode: Mode = Mode::Pool,
        /// Time for which an idle thread polls its sockets before it sleeps. Polling saves the
        /// wake-up and uses the CPU for that time. Needs `mode` `dedicated` or `pool`; a thread of
        /// the pool uses the highest value of its sessions. 0 = sleep at once.
        #[micros("spin_us")]
        pub spin: Duration = 0,
        /// CPU to which the session's own thread is pinned, counted from 0. The engine does not
        /// start if the machine lacks this CPU. Needs `mode` `dedicated` or `spin`; `cpus` of
        /// `[engine]` pins the threads of the pool.
        pub cpu: Option<usize> = None,
        /// Thread that writes messages sent by other threads. `direct`: the sending thread, if the
        /// session is free. `queued`: the session's thread.
        pub send: SendMode = SendMode::Direct,
        /// Messages of a session that are processed in one turn, before the thread serves its other
        /// sessions.
        #[least(1)]
        pub turn_messages_max: u32 = 128,
        /// Outbound messages that are stored and written together in one turn or one `send_batch`.
        /// With a lower number, the first answers to a burst leave earlier. Each batch costs one
        /// commit and one system call. 0 = all messages of a turn, or 16. It is 16 if no other
        /// session waits for the thread, and the store is the engine's own and does not sync.
        pub batch_messages_max: u32 = 0,
        /// Bytes of outbound messages that are stored and written together in one turn or one
        /// `send_batch`. 0 = unlimited.
        pub batch_bytes_max: usize = 0,
        /// Reaction when the session's application panics: `revive` restarts the session from its
        /// store after a pause, `end` keeps it down until an operator revives it or the engine
        /// restarts.
        pub after_panic: AfterPanic = AfterPanic::Revive,
    }
}

/// The thread that drives a session, and how this thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A thread of the pool drives the session. It waits in epoll and drives many sessions.
    Pool,
    /// A thread of its own drives the session, and waits in epoll.
    Dedicated,
    /// A thread of its own drives the session, and never sleeps while the session is connected.
    Spin,
    /// No thread of the engine drives the session; the program calls `Engine::poll`.
    Polled,
}

/// The thread in which `SessionHandle::send` writes to the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SendMode {
    /// The caller's thread, if the session is free at that moment.
    Direct,
    /// The session's thread writes the message.
    Queued,
}

/// The reaction to a panic of a session's application, or of the session's own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterPanic {
    /// The session restarts from its store after a pause that grows from 1 s to 64 s.
    /// `SessionNotice::RolledBack` names the work that the store does not have.
    Revive,
    /// The session stays down until `Action::Revive` or the next start of the engine.
    End,
}
