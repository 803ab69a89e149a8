//! The counters of a session.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the engine was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Whole messages received.
    pub messages_in: u64,
    /// Messages sent for the first time.
    pub messages_out: u64,
    /// Bytes of the messages received.
    pub bytes_in: u64,
    /// Bytes of the messages sent for the first time.
    pub bytes_out: u64,
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
    /// Connections that ended because a Logon(A) was refused, by this side or the other, whatever
    /// the reason: also before the session has seen it (`allow_from`, `tls.peer`, another
    /// connection that waits).
    pub logons_refused: u64,
    /// Reject(3) received.
    pub rejects_in: u64,
    /// Reject(3) sent.
    pub rejects_out: u64,
    /// BusinessMessageReject(j) received.
    pub business_rejects_in: u64,
    /// BusinessMessageReject(j) sent.
    pub business_rejects_out: u64,
    /// ResendRequest(2) received and answered, or that ended the connection.
    pub resend_requests_in: u64,
    /// ResendRequest(2) sent.
    pub resend_requests_out: u64,
    /// Messages sent again, since the counterparty has asked for them.
    pub resent: u64,
    /// Connections that have ended, however they did.
    pub disconnects: u64,
}

/// A count with one writer at a time, who holds the session's lock; anybody reads it.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        // Nobody else writes: no instruction that locks the bus is needed.
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    /// The same, for a count that several threads write.
    pub(crate) fn add_beside_others(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// [`Counters`] as they are counted.
#[derive(Debug, Default)]
pub(crate) struct LiveCounters {
    pub(crate) messages_in: Count,
    pub(crate) messages_out: Count,
    pub(crate) bytes_in: Count,
    pub(crate) bytes_out: Count,
    pub(crate) garbled: Count,
    pub(crate) logons: Count,
    pub(crate) not_stored: Count,
    pub(crate) refused: Count,
    pub(crate) passed_over: Count,
    pub(crate) not_logged: Count,
    /// The acceptor writes it too.
    pub(crate) logons_refused: Count,
    pub(crate) rejects_in: Count,
    pub(crate) rejects_out: Count,
    pub(crate) business_rejects_in: Count,
    pub(crate) business_rejects_out: Count,
    pub(crate) resend_requests_in: Count,
    pub(crate) resend_requests_out: Count,
    pub(crate) resent: Count,
    pub(crate) disconnects: Count,
}

impl LiveCounters {
    pub(crate) fn now(&self) -> Counters {
        Counters {
            messages_in: self.messages_in.get(),
            messages_out: self.messages_out.get(),
            bytes_in: self.bytes_in.get(),
            bytes_out: self.bytes_out.get(),
            garbled: self.garbled.get(),
            logons: self.logons.get(),
            not_stored: self.not_stored.get(),
            refused: self.refused.get(),
            passed_over: self.passed_over.get(),
            not_logged: self.not_logged.get(),
            logons_refused: self.logons_refused.get(),
            rejects_in: self.rejects_in.get(),
            rejects_out: self.rejects_out.get(),
            business_rejects_in: self.business_rejects_in.get(),
            business_rejects_out: self.business_rejects_out.get(),
            resend_requests_in: self.resend_requests_in.get(),
            resend_requests_out: self.resend_requests_out.get(),
            resent: self.resent.get(),
            disconnects: self.disconnects.get(),
        }
    }
}
