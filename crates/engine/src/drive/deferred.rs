//! A store that could not be opened at the start, because it is damaged, locked or unreadable. Its
//! session tries again later, like a session whose store has failed, while the other sessions run.
//!
//! Invariant: until the store is open, writes fail and reads find nothing.

use transfix_store::{Committed, Numbers, Record, Store, StoreError, Stored, Wake};

/// A function that opens the real store.
pub(crate) type Open = Box<dyn Fn() -> Result<Box<dyn Store>, StoreError> + Send>;

/// A placeholder until [`Store::reopen`] has opened the real store.
pub(crate) struct Deferred {
    open: Open,
    store: Option<Box<dyn Store>>,
    wake: Option<Wake>,
}

impl Deferred {
    pub(crate) fn new(open: Open) -> Self {
        Self { open, store: None, wake: None }
    }

    fn opened(&mut self) -> Result<&mut dyn Store, StoreError> {
        match &mut self.store {
            Some(store) => Ok(&mut **store),
            None => Err(StoreError::Poisoned),
        }
    }
}

impl Store for Deferred {
    fn numbers(&self) -> Numbers {
        self.store.as_ref().map_or(Numbers::fresh(0), |store| store.numbers())
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        self.opened()?.put(now_ns, record)
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        self.opened()?.commit()
    }

    fn safe(&mut self) -> Result<u64, StoreError> {
        self.opened()?.safe()
    }

    fn next_place(&self) -> &[u8] {
        self.store.as_ref().map_or(&[], |store| store.next_place())
    }

    fn wake_by(&mut self, wake: Wake) {
        if let Some(store) = &mut self.store {
            store.wake_by(Wake::clone(&wake));
        }
        self.wake = Some(wake);
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.as_mut().map_or(Ok(None), |store| store.outbound(seq))
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.as_mut().map_or(Ok(None), |store| store.inbound(seq))
    }

    fn queued(&mut self, ticket: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.as_mut().map_or(Ok(None), |store| store.queued(ticket))
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        match &mut self.store {
            Some(store) => store.reopen(),
            None => {
                let mut store = (self.open)()?;
                if let Some(wake) = &self.wake {
                    store.wake_by(Wake::clone(wake));
                }
                self.store = Some(store);
                Ok(())
            }
        }
    }

    fn refresh(&mut self) -> Result<(), StoreError> {
        self.opened()?.refresh()
    }
}
