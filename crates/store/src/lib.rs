//! The messages that a FIX session sent and received, by MsgSeqNum(34), and its two next numbers.
//!
//! A [`Store`] takes records with [`Store::put`] and makes all of them visible and durable at once
//! with [`Store::commit`]. The store has one consistent state afterwards: either every record of
//! the batch or none of them.
//!
//! **Invariant:** the store knows bytes and numbers, not FIX. It reads no clock; time comes in as
//! nanoseconds since 1970-01-01T00:00:00Z.
//!
//! **Invariant:** in the steady state neither `put` nor `commit` allocates.
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

/// When a batch is safe: when it outlives what the store's durability promises to outlive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It is, and so are all before it.
    Now,
    /// As soon as [`Store::safe`] has reached this ticket. Tickets ascend.
    Pending(u64),
}

/// Calls whoever waits for a batch to become safe.
pub type Wake = std::sync::Arc<dyn Fn() + Send + Sync>;

/// Bytes of [`Store::next_place`]: the records of a usual turn.
const PLACE_BYTES: usize = 512;

/// Keeps what one session sent and received. Every implementation obeys the same laws; one suite
/// of tests runs them all, and is there for stores of your own too (`transfix_testkit::laws`).
///
/// - `outbound` finds a number only if it is below `next_out`, was put after the last
///   [`Record::Reset`], and still lies within the store's bounds.
/// - A number put twice is found as it was put last.
/// - [`Store::queued`] finds what was put by [`Record::Queued`] and by no later
///   [`Record::Unqueued`] taken away; numbers and resets don't touch it.
/// - The records of a commit are visible from then on. It is safe at once, or later
///   ([`Committed::Pending`]); a batch becomes safe only when all before it are. A crash leaves a
///   prefix of the batches, with all that were safe.
/// - Putting outbound number n sets `next_out` to n + 1 and hides all outbound numbers above n.
pub trait Store: Send {
    /// The next numbers as of the last commit.
    fn numbers(&self) -> Numbers;

    /// Adds a record to the batch. Nothing of it is visible before [`Store::commit`]. `now_ns` is
    /// UTC nanoseconds since 1970.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] leaves the batch as it was; after any other error the store is
    /// poisoned.
    ///
    /// # Panics
    /// If a sequence number is 0 or `u64::MAX`.
    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError>;

    /// Makes every record put since the last commit visible, and durable together: at once, or in
    /// the background. Without any, returns what the last commit has come to. A store that is
    /// dropped has to finish what is pending, or the last numbers of an orderly end are lost.
    ///
    /// # Errors
    /// After an error the store is poisoned; whether the batch is found is known once the store has
    /// been opened again.
    fn commit(&mut self) -> Result<Committed, StoreError>;

    /// The ticket of the last batch that is safe, of those whose commit was
    /// [`Committed::Pending`]; 0 before the first. Must return at once.
    ///
    /// # Errors
    /// If a batch could not be made durable: the store is poisoned, as after a failed commit.
    fn safe(&mut self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Memory that the next [`Store::put`] and [`Store::commit`] meet first, as far as the store
    /// knows it cheaply. A driver of many stores asks the processor for it ahead, up to 8 KiB.
    /// Nothing depends on what is in it. None by default.
    fn next_place(&self) -> &[u8] {
        &[]
    }

    /// Whom to call, from any thread, when [`Store::safe`] has something new, or an answer is there
    /// that was [`StoreError::NotYet`]. A store that has neither need not call anybody.
    fn wake_by(&mut self, _wake: Wake) {}

    /// The outbound message with this number, or none. A store may read it into memory of its own,
    /// which holds it until the next call for another number. The bytes returned are those that
    /// were put. A store whose medium may change them checks that at each read.
    ///
    /// A store whose medium is far away does not wait for it: it begins to fetch the message, and
    /// returns [`StoreError::NotYet`] until that is there. The session goes on meanwhile.
    ///
    /// # Errors
    /// [`StoreError::Poisoned`] after a failed write, [`StoreError::Damaged`] if the message is no
    /// longer what was put, [`StoreError::NotYet`].
    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError>;

    /// The inbound message with this number, or none.
    ///
    /// # Errors
    /// As [`Store::outbound`].
    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError>;

    /// The message that waits to be sent under this ticket, or else under the next higher one: its
    /// ticket stands in place of the number. A store that keeps nothing of
    /// [`Record::Queued`] has none: then what waits is lost with the process.
    ///
    /// # Errors
    /// As [`Store::outbound`].
    fn queued(&mut self, _ticket: u64) -> Result<Option<Stored<'_>>, StoreError> {
        Ok(None)
    }

    /// Goes on after an error from what was committed, without giving the store out of hand.
    /// Records that were put since are gone; the last batch is found whole or not at all.
    ///
    /// # Errors
    /// If the cause is still there; by default always, and a session over such a store stays down
    /// until the engine is started anew.
    fn reopen(&mut self) -> Result<(), StoreError> {
        Err(StoreError::Poisoned)
    }

    /// Takes over what somebody else has written since: called before each logon of a session with
    /// `refresh_on_logon`, never with a batch begun. Without effect for a store that nobody else
    /// can write. A store whose medium is far away begins to take it over, and returns
    /// [`StoreError::NotYet`] until that is done; nothing is put meanwhile.
    ///
    /// # Errors
    /// If it cannot be read; [`StoreError::NotYet`].
    fn refresh(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}
