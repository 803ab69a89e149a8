//! One link without threads or sockets, for counting what a turn of it costs.

use std::sync::Arc;

use transfix_session::Now;
use transfix_transport::Stream;
use transfix_transport::memory::{MemoryStream, pipe};

use crate::api::application::Application;
use crate::api::owner::Owner;
use crate::assemble::open;
use crate::drive::registry::Registry;
use crate::drive::shared::Shared;
use crate::error::EngineError;
use crate::link::{Arrival, Down, Turn};
use crate::settings::SessionSettings;

/// Bytes that the in-memory connection holds in each direction.
const PIPE_BYTES: usize = 1 << 20;

/// A session over a connection in memory, driven by hand. Not for production: it has no timers.
pub struct Probe {
    shared: Shared,
    peer: MemoryStream,
}

impl Probe {
    /// Opens the session's store and connects it to memory.
    ///
    /// # Errors
    /// If the store cannot be opened.
    pub fn new(
        settings: &SessionSettings,
        application: Box<dyn Application>,
        now: Now,
    ) -> Result<Self, EngineError> {
        let registry = Arc::new(Registry::default());
        registry.fill(&[]);
        let shared = open(settings, Owner::of(application, &registry), &registry)?;
        let (ours, peer) = pipe(PIPE_BYTES);
        let mut link = shared.lock();
        let attached = link.attach(now, Arrival::fresh(Box::new(ours)));
        assert!(attached.is_ok(), "a connection in memory cannot fail");
        drop(link);
        Ok(Self { shared, peer })
    }

    /// Gives `bytes` to the link, takes one turn, and reads what it sends into `answer`. Answers
    /// how many bytes that were; 0 too if the link went down.
    // Never inlined: instruction counters collect between its entry and its return.
    #[inline(never)]
    pub fn turn(&mut self, bytes: &[u8], now: Now, answer: &mut [u8]) -> usize {
        let _ = self.peer.write(bytes);
        if self.step(now).is_err() {
            return 0;
        }
        self.peer.read(answer).unwrap_or(0)
    }

    /// Gives `bytes` to the link with as many turns as they take; what it sends is dropped. Returns
    /// whether the link is still up.
    pub fn feed(&mut self, bytes: &[u8], now: Now) -> bool {
        let (mut rest, mut sent) = (bytes, [0; 256]);
        loop {
            let written = self.peer.write(rest).unwrap_or(0);
            rest = &rest[written..];
            let Ok(turn) = self.step(now) else { return false };
            while self.peer.read(&mut sent).is_ok_and(|n| n > 0) {}
            if rest.is_empty() && !turn.again {
                return true;
            }
        }
    }

    fn step(&self, now: Now) -> Result<Turn, Down> {
        let mut link = self.shared.lock();
        link.turn(&self.shared.queue, || now)
    }
}
