//! The operations of a stream that a session uses.
//!
//! **Invariant:** a session reaches the brokers only through [`Stream`], so tests run the same
//! session over a simulated stream.

use transfix_store::StoreError;

/// The stream with the sessions of a fleet.
pub(super) trait Stream: Send + Sync {
    /// Returns the subject of a session.
    fn subject(&self, session: &str) -> String;

    /// Returns the maximum length of a record in bytes.
    fn bytes_max(&self) -> usize;

    /// Appends a record if the last one of the subject has the place `last`.
    fn append(&self, subject: &str, last: u64, bytes: Vec<u8>) -> Result<Appended, StoreError>;

    /// Returns the last message of the subject, as the leader knows it. If the leader does not
    /// answer, the replicas do.
    fn last(&self, subject: &str) -> Result<Option<Message>, StoreError>;

    /// Returns the highest place of the subject that the sampled replicas report; 0 if none has a
    /// message.
    fn newest(&self, subject: &str) -> Result<u64, StoreError>;

    /// Returns the first message of the subject at this place or behind it, as the leader knows it.
    /// If the leader does not answer, the replicas do.
    fn next(&self, subject: &str, place: u64) -> Result<Option<Message>, StoreError>;

    /// Returns up to `count` messages of the subject from this place on, ascending. A replica that
    /// does not lead may answer, so the result may end early.
    fn following(
        &self,
        subject: &str,
        place: u64,
        count: usize,
    ) -> Result<Vec<Message>, StoreError>;

    /// Deletes the messages of the subject before this place.
    fn purge(&self, subject: &str, before: u64) -> Result<(), StoreError>;

    /// Asks the leader to let another broker lead, because its message at this place is missing or
    /// wrong. A failure changes nothing: the next attempt finds the same fault.
    fn step_down(&self, place: u64);
}

/// A message of the stream.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// Its sequence number in the stream.
    pub(super) place: u64,
    pub(super) bytes: Vec<u8>,
}

/// The outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// The record has this place.
    At(u64),
    /// Nothing was appended: another process has appended a record.
    Refused,
}
