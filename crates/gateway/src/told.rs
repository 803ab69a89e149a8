//! Lines for people while the gateway runs.
//!
//! Invariant: a callback never waits for the reader of the lines.

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

/// The maximum number of waiting lines; further lines are dropped.
const LINES_MAX: usize = 1_000;

/// The queue of lines for people. Clones share it.
#[derive(Clone)]
pub(super) struct Told(SyncSender<String>);

impl Told {
    /// Starts the thread that passes the lines to `say`.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn begin(say: impl Fn(&str) + Send + 'static) -> Result<Self, String> {
        let (to, lines) = sync_channel::<String>(LINES_MAX);
        let print = move || lines.into_iter().for_each(|line| say(&line));
        let thread = thread::Builder::new().name("told".to_owned()).spawn(print);
        thread.map(|_| Self(to)).map_err(|error| format!("thread told: {error}"))
    }

    pub(super) fn say(&self, line: String) {
        match self.0.try_send(line) {
            // The event log has the line too.
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}
