//! Passes lines to be shown to people while the gateway runs.
//!
//! Invariant: callbacks never wait for the program to show a line.

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

/// The maximum number of lines that wait to be shown; further lines are dropped.
const LINES_MAX: usize = 1_000;

/// The sending end of the queue of lines. Clones share one queue.
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
            // A dropped line is no loss, because the event log contains it too.
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}
