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
pub struct Count(AtomicU64);

impl Count {
    /// Adds, for the one writer.
    #[inline]
    pub fn add(&self, more: u64) {
        // Nobody else writes: no instruction that locks the bus is needed.
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    /// Adds, for a count that several threads write.
    pub fn add_beside_others(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The count now.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Makes [`LiveCounters`] with the fields of [`Counters`].
macro_rules! live {
    ($($name:ident)*) => {
        /// [`Counters`] as a session counts them. The acceptor writes `logons_refused` too.
        #[derive(Debug, Default)]
        pub struct LiveCounters {
            $(
                #[doc = concat!("As [`Counters::", stringify!($name), "`].")]
                pub $name: Count,
            )*
        }

        impl LiveCounters {
            /// The counts now.
            #[must_use]
            pub fn now(&self) -> Counters {
                Counters { $($name: self.$name.get(),)* }
            }
        }
    };
}

live! {
    messages_in messages_out bytes_in bytes_out garbled logons not_stored refused passed_over
    not_logged logons_refused rejects_in rejects_out business_rejects_in business_rejects_out
    resend_requests_in resend_requests_out resent disconnects
}
