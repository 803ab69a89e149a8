//! Lines for people while the gateway runs.
//!
//! Invariant: a callback never waits for whoever reads it.

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

/// Lines that may wait for whoever reads them: more are dropped.
const LINES_MAX: usize = 1_000;

/// Where callbacks leave what is to be said. A clone is the same.
#[derive(Clone)]
pub(super) struct Told(SyncSender<String>);

impl Told {
    /// `say` gets the lines, in a thread of its own.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub(super) fn begin(say: impl Fn(&str) + Send + 'static) -> Result<Self, String> {
        let (to, lines) = sync_channel::<String>(LINES_MAX);
        let print = move || lines.into_iter().for_each(|line| say(&line));
        let thread = thread::Builder::new().name("told".to_owned()).spawn(print);
        thread.map(|_| Self(to)).map_err(|error| format!("thread told: {error}"))
    }

    pub(super) fn say(&self, line: String) {
        match self.0.try_send(line) {
            // The log of events has it too.
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}
