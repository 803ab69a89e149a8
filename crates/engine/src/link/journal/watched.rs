//! A wrapper around a store, which accepts no record after a failure until the store is reopened.
//!
//! Invariant: only the first error of a failure is logged.

use std::collections::VecDeque;
use std::io;

use transfix_session::{Disconnect, SessionId};
use transfix_store::{Committed, MemoryStore, Numbers, Record, Store, StoreError, Stored, Wake};

use transfix_observe::event;

/// The facts about the failure of a store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    /// The next numbers that were durable before the failure.
    pub(super) numbers: Numbers,
    /// True if a record was larger than the store can hold.
    pub(super) is_too_large: bool,
}

pub(super) struct WatchedStore {
    store: Box<dyn Store>,
    watch: Watch,
    /// True if the session has ended and has given its store back.
    is_retired: bool,
}

/// The known facts about the store's pending batches and its failure.
struct Watch {
    id: SessionId,
    failure: Option<Failure>,
    /// The numbers of the last durable batch, while a later batch is pending.
    safe_numbers: Option<Numbers>,
    /// The pending batches: ticket, and the numbers after the batch.
    pending: VecDeque<(u64, Numbers)>,
    /// The text of the error that made the store fail.
    cause: String,
}

impl Watch {
    #[cold]
    fn fail_after(&mut self, numbers: Numbers, error: &StoreError) {
        if self.failure.is_none() && !matches!(error, StoreError::NotYet) {
            let numbers = self.safe_numbers.unwrap_or(numbers);
            // This line is logged at most once a second, because a failed store is reopened no more
            // often.
            event!(error, StoreFailed, session = %self.id, %error);
            let is_too_large = matches!(error, StoreError::TooLarge { .. });
            self.failure = Some(Failure { numbers, is_too_large });
            self.cause = error.to_string();
        }
    }

    /// Records a pending batch, with the numbers before and after the batch.
    fn will_be_safe(&mut self, ticket: u64, (before, behind): (Numbers, Numbers)) {
        self.safe_numbers.get_or_insert(before);
        // A commit without new records returns the ticket of the last batch again.
        if self.pending.back().is_none_or(|(last, _)| *last < ticket) {
            self.pending.push_back((ticket, behind));
        }
    }

    /// Records that all batches up to `ticket` are durable.
    fn note_safe_up_to(&mut self, ticket: u64) {
        while let Some((_, numbers)) = self.pending.pop_front_if(|(first, _)| *first <= ticket) {
            self.safe_numbers = Some(numbers);
        }
        if self.pending.is_empty() {
            self.safe_numbers = None;
        }
    }

    /// Records that no batch is pending.
    fn settle(&mut self) {
        self.safe_numbers = None;
        self.pending.clear();
    }
}

impl WatchedStore {
    pub(super) const fn new(store: Box<dyn Store>, id: SessionId) -> Self {
        let watch = Watch {
            id,
            failure: None,
            safe_numbers: None,
            pending: VecDeque::new(),
            cause: String::new(),
        };
        Self { store, watch, is_retired: false }
    }

    /// Returns the wrapped store, to prefetch its memory.
    pub(super) fn inner(&self) -> &dyn Store {
        &*self.store
    }

    /// Returns the reason why the store accepts no records now.
    pub(super) fn cause(&self) -> Option<&str> {
        self.watch.failure.map(|_| &*self.watch.cause)
    }

    pub(super) const fn failure(&self) -> Option<Failure> {
        self.watch.failure
    }

    /// Marks the store as failed.
    #[cold]
    pub(super) fn fail(&mut self, error: &StoreError) {
        self.fail_after(self.store.numbers(), error);
    }

    /// Suspends puts until the store is reopened, although the store itself has not failed.
    pub(super) fn abandon(&mut self) {
        if self.watch.failure.is_none() {
            let numbers = self.watch.safe_numbers.unwrap_or(self.store.numbers());
            self.watch.failure = Some(Failure { numbers, is_too_large: false });
            self.watch.cause = Disconnect::Panicked.to_string();
        }
    }

    /// Gives up a store that has not made its commits durable in time. Dropping the returned store
    /// blocks until the store has ended.
    pub(super) fn leave(&mut self) -> Box<dyn Store> {
        let text = "the device has not answered in time; the last committed messages may be \
                    stored or lost";
        self.fail(&StoreError::Own(io::Error::new(io::ErrorKind::TimedOut, text)));
        self.retire()
    }

    /// Returns the store at the end of the engine; no further record is put.
    pub(super) fn retire(&mut self) -> Box<dyn Store> {
        self.is_retired = true;
        std::mem::replace(&mut self.store, Box::new(MemoryStore::new(1, 0)))
    }

    fn fail_after(&mut self, numbers: Numbers, error: &StoreError) {
        self.watch.fail_after(numbers, error);
    }

    /// Accepts records again after the store was reopened.
    pub(super) fn go_on(&mut self) {
        self.watch.failure = None;
        self.watch.settle();
    }

    const fn check(&self) -> Result<(), StoreError> {
        match self.watch.failure {
            None if !self.is_retired => Ok(()),
            _ => Err(StoreError::Poisoned),
        }
    }
}

impl Store for WatchedStore {
    fn numbers(&self) -> Numbers {
        self.store.numbers()
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        self.check()?;
        self.store.put(now_ns, record).inspect_err(|error| self.fail(error))
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        self.check()?;
        // Reads the numbers before the commit, because a commit that fails may still have changed
        // the store.
        let numbers = self.store.numbers();
        let committed = self.store.commit().inspect_err(|error| self.fail_after(numbers, error))?;
        match committed {
            Committed::Now => self.watch.settle(),
            Committed::Pending(ticket) => {
                self.watch.will_be_safe(ticket, (numbers, self.store.numbers()));
            }
        }
        Ok(committed)
    }

    fn safe(&mut self) -> Result<u64, StoreError> {
        self.check()?;
        let numbers = self.store.numbers();
        let ticket = self.store.safe().inspect_err(|error| self.fail_after(numbers, error))?;
        self.watch.note_safe_up_to(ticket);
        Ok(ticket)
    }

    fn next_place(&self) -> &[u8] {
        self.store.next_place()
    }

    fn wake_by(&mut self, wake: Wake) {
        self.store.wake_by(wake);
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        let numbers = self.store.numbers();
        // A read error fails the store here, because not every caller can report the error.
        let read = self.store.outbound(seq);
        read.inspect_err(|error| self.watch.fail_after(numbers, error))
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        let numbers = self.store.numbers();
        // A read error fails the store here, because not every caller can report the error.
        let read = self.store.inbound(seq);
        read.inspect_err(|error| self.watch.fail_after(numbers, error))
    }

    fn queued(&mut self, ticket: u64) -> Result<Option<Stored<'_>>, StoreError> {
        let numbers = self.store.numbers();
        // A read error fails the store here, because not every caller can report the error.
        let read = self.store.queued(ticket);
        read.inspect_err(|error| self.watch.fail_after(numbers, error))
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.store.reopen()
    }

    fn refresh(&mut self) -> Result<(), StoreError> {
        self.store.refresh()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record as Values};
    use tracing::{Event, Metadata, Subscriber};
    use transfix_session::BeginString;

    /// Collects the texts of logged errors.
    #[derive(Clone, Default)]
    struct Errors(Arc<Mutex<Vec<String>>>);

    impl Visit for &Errors {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            if field.name() == "error" {
                self.0.lock().unwrap().push(format!("{value:?}"));
            }
        }
    }

    impl Subscriber for Errors {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Values<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            event.record(&mut &*self);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    /// A store that fails once with a cause, and afterwards only reports that it has failed.
    struct Full {
        failed: bool,
    }

    impl Store for Full {
        fn numbers(&self) -> Numbers {
            Numbers::fresh(0)
        }

        fn put(&mut self, _: u64, _: Record<'_>) -> Result<(), StoreError> {
            match std::mem::replace(&mut self.failed, true) {
                false => Err(StoreError::Full { bytes_max: 7 }),
                true => Err(StoreError::Poisoned),
            }
        }

        fn commit(&mut self) -> Result<Committed, StoreError> {
            self.put(0, Record::Reset).map(|()| Committed::Now)
        }

        fn outbound(&mut self, _: u64) -> Result<Option<Stored<'_>>, StoreError> {
            Ok(None)
        }

        fn inbound(&mut self, _: u64) -> Result<Option<Stored<'_>>, StoreError> {
            Ok(None)
        }
    }

    /// A store whose batches each contain one outbound message, and become durable when the test
    /// says so.
    struct Late {
        next_out: u64,
        safe: Arc<AtomicU64>,
    }

    impl Store for Late {
        fn numbers(&self) -> Numbers {
            Numbers { next_out: self.next_out, ..Numbers::fresh(0) }
        }

        fn put(&mut self, _: u64, _: Record<'_>) -> Result<(), StoreError> {
            Ok(())
        }

        fn commit(&mut self) -> Result<Committed, StoreError> {
            self.next_out += 1;
            Ok(Committed::Pending(self.next_out))
        }

        fn safe(&mut self) -> Result<u64, StoreError> {
            match self.safe.load(Ordering::Relaxed) {
                0 => Err(StoreError::Poisoned),
                safe => Ok(safe),
            }
        }

        fn outbound(&mut self, _: u64) -> Result<Option<Stored<'_>>, StoreError> {
            Ok(None)
        }

        fn inbound(&mut self, _: u64) -> Result<Option<Stored<'_>>, StoreError> {
            Ok(None)
        }
    }

    #[test]
    fn the_numbers_before_a_failure_are_those_of_the_last_batch_that_is_safe() {
        for (answers, expected) in [(&[0][..], 1), (&[2, 0], 2), (&[2, 3, 0], 3), (&[4, 0], 4)] {
            let safe = Arc::new(AtomicU64::new(0));
            let id = SessionId::new(BeginString::Fix44, "A", "B");
            let store = Late { next_out: 1, safe: Arc::clone(&safe) };
            let mut store = WatchedStore::new(Box::new(store), id);
            for _ in 0..3 {
                assert!(matches!(store.commit(), Ok(Committed::Pending(_))));
            }
            for answer in answers {
                safe.store(*answer, Ordering::Relaxed);
                assert_eq!(store.safe().ok(), Some(*answer).filter(|ticket| *ticket > 0));
            }
            assert_eq!(store.failure().unwrap().numbers.next_out, expected, "{answers:?}");
        }
    }

    #[test]
    fn the_log_names_the_cause_once() {
        let errors = Errors::default();
        let id = SessionId::new(BeginString::Fix44, "A", "B");
        let mut store = WatchedStore::new(Box::new(Full { failed: false }), id);
        tracing::subscriber::with_default(errors.clone(), || {
            assert!(matches!(store.put(1, Record::Reset), Err(StoreError::Full { .. })));
            let Err(error) = store.commit() else { panic!("it has failed") };
            store.fail(&error);
        });
        let cause = StoreError::Full { bytes_max: 7 }.to_string();
        assert_eq!(*errors.0.lock().unwrap(), [cause]);
    }
}
