//! Two stores of one session: one for the primary destination, and one for the backup destinations.
//!
//! Invariant: the active store changes only in [`Store::refresh`], before a connection. At that
//! time all batches of the other store are durable, and no store is being refreshed. Tickets of the
//! two stores therefore never mix.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use transfix_store::{Committed, Numbers, Record, Store, StoreError, Stored, Wake};

/// A pair of stores, of which the destination selects one.
pub(crate) struct TwoStores {
    primary: Box<dyn Store>,
    backups: Box<dyn Store>,
    /// True if the next connection needs the store of the backups.
    wants_backups: Arc<AtomicBool>,
    is_backups: bool,
}

impl TwoStores {
    pub(crate) fn new(
        primary: Box<dyn Store>,
        backups: Box<dyn Store>,
        wants_backups: Arc<AtomicBool>,
    ) -> Self {
        Self { primary, backups, wants_backups, is_backups: false }
    }

    fn current(&self) -> &dyn Store {
        if self.is_backups { &*self.backups } else { &*self.primary }
    }

    fn current_mut(&mut self) -> &mut dyn Store {
        if self.is_backups { &mut *self.backups } else { &mut *self.primary }
    }
}

impl Store for TwoStores {
    fn numbers(&self) -> Numbers {
        self.current().numbers()
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        self.current_mut().put(now_ns, record)
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        self.current_mut().commit()
    }

    fn safe(&mut self) -> Result<u64, StoreError> {
        self.current_mut().safe()
    }

    fn next_place(&self) -> &[u8] {
        self.current().next_place()
    }

    fn wake_by(&mut self, wake: Wake) {
        self.primary.wake_by(Wake::clone(&wake));
        self.backups.wake_by(wake);
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.current_mut().outbound(seq)
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.current_mut().inbound(seq)
    }

    fn queued(&mut self, ticket: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.current_mut().queued(ticket)
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.current_mut().reopen()
    }

    fn refresh(&mut self) -> Result<(), StoreError> {
        self.is_backups = self.wants_backups.load(Ordering::Acquire);
        self.current_mut().refresh()
    }
}
