//! Stores the messages that a FIX session sent and received, by MsgSeqNum(34), and the session's
//! next sequence numbers.
//!
//! [`Store::put`] adds records to a batch. [`Store::commit`] makes the whole batch visible and
//! durable at once. The state of the store is always consistent: it contains either every record of
//! a batch or none.
//!
//! **Invariant:** the store knows bytes and numbers, not FIX. The store reads no clock; callers
//! pass the time as nanoseconds since 1970-01-01T00:00:00Z.
//!
//! **Invariant:** in steady state, neither `put` nor `commit` allocates.
//!
//! ```
//! use transfix_store::{Kind, MemoryStore, Record, Store};
//!
//! let mut store = MemoryStore::new(1 << 20, 0);
//! store.put(1, Record::Outbound { seq: 1, kind: Kind::Application, bytes: b"8=FIX.4.4..." })?;
//! store.commit()?;
//! assert_eq!(store.numbers().next_out, 2);
//! assert_eq!(store.outbound(1)?.map(|found| found.bytes), Some(&b"8=FIX.4.4..."[..]));
//! # Ok::<(), transfix_store::StoreError>(())
//! ```

mod ahead;
mod batch;
mod behind;
mod beside;
pub mod compress;
mod disk;
mod error;
mod file;
mod file_map;
pub mod file_system;
mod files;
mod format;
mod header;
mod index;
pub mod journal;
mod last_batch;
mod ledger;
pub mod lines;
mod map;
mod memory;
mod newest;
mod opening;
mod options;
mod owner_only;
mod place;
mod record;
mod recover;
mod repair;
mod retention;
mod search;
mod segment;
mod segment_files;
mod survey;
mod threads;

pub use disk::{Disk, Map, Syncer};
pub use error::{Damage, StoreError};
pub use file::FileStore;
pub use file_map::{FileMap, FileSyncer};
pub use files::{FileLock, Files};
pub use memory::MemoryStore;
pub use options::{Durability, Options};
pub use record::{Kind, LOGGED_ON, Numbers, Record, Stored};
pub use recover::Recovered;
pub use repair::Repaired;
pub use retention::{Compress, Retention, WhenFull};
pub use survey::{Fault, SegmentSurvey, Survey, survey};
pub use threads::Helpers;

/// The time at which a committed batch is safe, which means that it survives the failures that the
/// store's durability names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// The batch and all earlier batches are safe now.
    Now,
    /// The batch is safe when [`Store::safe`] returns this ticket or a higher one. Tickets ascend.
    Pending(u64),
}

/// A function that wakes the driver, which waits for a batch to become safe.
pub type Wake = std::sync::Arc<dyn Fn() + Send + Sync>;

/// Maximum length of [`Store::next_place`] in bytes, enough for the records of a typical batch.
const PLACE_BYTES: usize = 512;

/// Stores the messages that one session sent and received. All implementations behave alike; a test
/// suite (`transfix_testkit::laws`) checks them, and can check custom stores too.
///
/// - `outbound` finds a number only if the number is below `next_out`, was put after the last
///   [`Record::Reset`], and is within the store's bounds.
/// - The later put of a number replaces the earlier one.
/// - [`Store::queued`] finds messages of [`Record::Queued`] that no later [`Record::Unqueued`]
///   removed. Numbers and resets do not affect these messages.
/// - The records of a commit are visible at once. The records are safe at once, or later
///   ([`Committed::Pending`]). A batch becomes safe only after all earlier batches. A crash leaves
///   a prefix of the batches, which includes all safe ones.
/// - Putting outbound number n sets `next_out` to n + 1 and hides all outbound numbers above n.
pub trait Store: Send {
    /// Returns the next numbers as of the last commit.
    fn numbers(&self) -> Numbers;

    /// Adds a record to the batch. The record becomes visible with [`Store::commit`]. `now_ns` is
    /// in UTC nanoseconds since 1970.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] leaves the batch unchanged. After any other error the store is
    /// poisoned.
    ///
    /// # Panics
    /// If a sequence number is 0 or `u64::MAX`.
    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError>;

    /// Makes every record since the last commit visible, and makes them durable together, at once
    /// or in the background. Without new records, returns the current result of the last commit. A
    /// store that is dropped must finish pending commits, because otherwise an orderly shutdown
    /// would lose the last numbers.
    ///
    /// # Errors
    /// After an error the store is poisoned. Reopening the store shows whether the batch was kept.
    fn commit(&mut self) -> Result<Committed, StoreError>;

    /// Returns the ticket of the last batch that is safe, among the commits that returned
    /// [`Committed::Pending`]; 0 before the first. This method must return at once.
    ///
    /// # Errors
    /// If a batch could not be made durable. The store is then poisoned, as after a failed commit.
    fn safe(&mut self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Returns the memory that the next [`Store::put`] and [`Store::commit`] will use first, if the
    /// store can determine it cheaply. A driver of many stores prefetches this memory, up to 8 KiB,
    /// and ignores its content. The default is an empty slice.
    fn next_place(&self) -> &[u8] {
        &[]
    }

    /// Sets the waker, which the store may call from any thread. The store calls it when
    /// [`Store::safe`] advances, and when an answer that was [`StoreError::NotYet`] has arrived. A
    /// store in which neither happens may ignore the waker.
    fn wake_by(&mut self, _wake: Wake) {}

    /// Returns the outbound message with this number; `None` if the store does not have it. A store
    /// may read the message into its own memory, and keep it there until the next call for another
    /// number. The returned bytes equal those that were put; a store whose medium could change them
    /// verifies them at each read.
    ///
    /// A remote store does not wait for its medium: it begins to fetch the message, and returns
    /// [`StoreError::NotYet`] until the message has arrived. The session continues in the meantime.
    ///
    /// # Errors
    /// [`StoreError::Poisoned`] after a failed write, [`StoreError::Damaged`] if the message was
    /// changed since the put, [`StoreError::NotYet`].
    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError>;

    /// Returns the inbound message with this number; `None` if the store does not have it.
    ///
    /// # Errors
    /// As [`Store::outbound`].
    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError>;

    /// Returns the queued message with this ticket, or else the one with the next higher ticket. In
    /// the result, the ticket takes the place of the number. A store that ignores
    /// [`Record::Queued`] returns `None`; its queued messages are lost when the process ends.
    ///
    /// # Errors
    /// As [`Store::outbound`].
    fn queued(&mut self, _ticket: u64) -> Result<Option<Stored<'_>>, StoreError> {
        Ok(None)
    }

    /// Reopens the store after an error, with the state that was committed. Records after the last
    /// commit are lost. The last batch is found completely or not at all.
    ///
    /// # Errors
    /// If the cause remains. The default always fails; a session over such a store stays down until
    /// the engine is restarted.
    fn reopen(&mut self) -> Result<(), StoreError> {
        Err(StoreError::Poisoned)
    }

    /// Reads the changes that another process has written. The session calls this method before
    /// each logon with `refresh_on_logon`, and never within a batch. In a store that no other
    /// process can write, it has no effect. A remote store begins to read the changes, and returns
    /// [`StoreError::NotYet`] until it has read them; no record is put in the meantime.
    ///
    /// # Errors
    /// If the changes cannot be read; [`StoreError::NotYet`].
    fn refresh(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}
