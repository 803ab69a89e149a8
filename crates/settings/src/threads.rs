//! Keys about the threads of a session.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use transfix_session::settings_table;

settings_table! {
    /// The threads that drive a session and send for it.
    #[derive(PartialEq, Eq)]
    pub struct ThreadSettings {
        /// The thread that drives the session: `pool`, `dedicated`, `spin`, `polled`.
        pub mode: Mode = Mode::Pool,
        /// The time for which the thread looks at its sockets again and again after the last event,
        /// before it sleeps. Bytes that come meanwhile find it awake, and the CPU works for as
        /// long. Needs `mode` `dedicated` or `pool`; a thread of the pool does what the highest
        /// value among its sessions says. 0 for never.
        #[micros("spin_us")]
        pub spin: Duration = 0,
        /// CPU that the session's own thread is pinned to, counted from 0; one that the machine
        /// lacks is an error of the start. Needs `mode` `dedicated` or `spin`; `cpus` of `[engine]`
        /// pins the threads of the pool.
        pub cpu: Option<usize> = None,
        /// Which thread writes what other threads send: `direct`, the one that sends, if the
        /// session is free; `queued`, the session's.
        pub send: SendMode = SendMode::Direct,
        /// Messages of a session that are handled at once; then it is the turn of the other
        /// sessions of its thread.
        #[least(1)]
        pub turn_messages_max: u32 = 128,
        /// Messages sent that are stored and written at once, while a turn or a batch
        /// (`send_batch`) goes on. A lower number lets the first answers to a burst leave earlier.
        /// It costs one commit and one system call more for each so many. With 0 all messages of a
        /// turn go at once. They go by 16 where the thread need not leave the session for another,
        /// and the store is the engine's own and does not wait for the device.
        pub batch_messages_max: u32 = 0,
        /// The same in bytes of frames. 0 for no limit.
        pub batch_bytes_max: usize = 0,
        /// The reaction when the session's application panics: `revive` or `end`.
        pub after_panic: AfterPanic = AfterPanic::Revive,
    }
}

/// Which thread drives a session, and how it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A few threads share all such sessions and wait in epoll.
    Pool,
    /// A thread of its own, which waits in epoll.
    Dedicated,
    /// A thread of its own, which never sleeps while the session is connected.
    Spin,
    /// No thread: the application calls [`crate::Engine::poll`].
    Polled,
}

/// In whose thread [`crate::SessionHandle::send`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SendMode {
    /// In the caller's, if the session is free at that moment.
    Direct,
    /// In the session's own thread.
    Queued,
}

/// The reaction to a panic of a session's application, or of its own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AfterPanic {
    /// It goes on from its store after a pause that grows from 1 s to 64 s;
    /// [`crate::SessionNotice::RolledBack`] says what that does not have.
    Revive,
    /// It stays down until [`crate::Action::Revive`], or the next start of the engine.
    End,
}
