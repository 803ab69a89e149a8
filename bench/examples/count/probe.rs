//! A session over a file store and a memory connection, for counting the cost of a turn.

use std::path::Path;

use transfix::simulated::rig::{Rig, Rules};
use transfix::{Application, Latency, Now, SessionSettings};
use transfix_store::{FileStore, Options};
use transfix_transport::Stream;
use transfix_transport::memory::{MemoryStream, pipe};

/// Capacity of the memory connection in bytes, for each direction.
const PIPE_BYTES: usize = 1 << 20;

/// A session whose turns the caller runs one by one.
pub(crate) struct Probe {
    rig: Rig,
    peer: MemoryStream,
}

impl Probe {
    /// Opens a store in `dir`, and connects the session to a memory connection.
    pub(crate) fn new(
        dir: &Path,
        settings: &SessionSettings,
        application: Box<dyn Application>,
        now: Now,
    ) -> Result<Self, String> {
        let began_ns = now.utc.0.unsigned_abs();
        let opened = FileStore::open(dir, Options::default(), began_ns);
        let (store, _) = opened.map_err(|error| error.to_string())?;
        let rules = Rules::default();
        let mut rig = Rig::new(settings, |_| (), Box::new(store), application, &rules)?;
        let (ours, peer) = pipe(PIPE_BYTES);
        rig.attach(now, Box::new(ours)).map_err(|ended| format!("not connected: {ended:?}"))?;
        Ok(Self { rig, peer })
    }

    /// Passes `bytes` to the session, runs one turn, and reads the output into `answer`. Returns
    /// the number of output bytes, or 0 if the session disconnected.
    // The function is never inlined, because callgrind counts instructions between its entry and
    // its return.
    #[inline(never)]
    pub(crate) fn turn(&mut self, bytes: &[u8], now: Now, answer: &mut [u8]) -> usize {
        let _ = self.peer.write(bytes);
        if self.rig.turn(now).is_err() {
            return 0;
        }
        self.peer.read(answer).unwrap_or(0)
    }

    /// Returns the measured latency of messages.
    pub(crate) fn latency(&self) -> Latency {
        self.rig.latency()
    }
}
