//! What a session counts.

/// Counts since the engine was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Whole messages received.
    pub messages_in: u64,
    /// Messages sent for the first time.
    pub messages_out: u64,
    /// Pieces of the stream that were no message and were skipped.
    pub garbled: u64,
    /// Accepted logons.
    pub logons: u64,
    /// Numbers asked for by the counterparty that the store does not have: covered by gap fills.
    pub not_stored: u64,
    /// Connections refused because the session had one already, or was not to be connected.
    pub refused: u64,
    /// Messages kept above a gap that the counterparty then covered by a SequenceReset(4): they
    /// were not delivered.
    pub passed_over: u64,
    /// Lines that the protocol log had no room for.
    pub not_logged: u64,
}
