//! The counters of a session.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a session since the engine started.
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
    /// Parts of the stream that were not a message and were skipped.
    pub garbled: u64,
    /// Accepted logons.
    pub logons: u64,
    /// Numbers requested by the counterparty that the store does not have. Gap fills cover them.
    pub not_stored: u64,
    /// Connections refused because the session was already connected, or must not be connected.
    pub refused: u64,
    /// Messages held above a gap that the counterparty then covered by a SequenceReset(4). These
    /// messages were not delivered.
    pub passed_over: u64,
    /// Lines lost because the protocol log had no room.
    pub not_logged: u64,
    /// Connections that ended because either side rejected a Logon(A), for any reason. The count
    /// includes rejections before the session received the Logon(A), such as by `allow_from`,
    /// `tls.peer`, or another waiting connection.
    pub logons_refused: u64,
    /// Reject(3) received.
    pub rejects_in: u64,
    /// Reject(3) sent.
    pub rejects_out: u64,
    /// BusinessMessageReject(j) received.
    pub business_rejects_in: u64,
    /// BusinessMessageReject(j) sent.
    pub business_rejects_out: u64,
    /// ResendRequest(2) received that were answered or ended the connection.
    pub resend_requests_in: u64,
    /// ResendRequest(2) sent.
    pub resend_requests_out: u64,
    /// Messages resent at the request of the counterparty.
    pub resent: u64,
    /// Connections that have ended, for any reason.
    pub disconnects: u64,
}

/// A count with one writer at a time, which holds the session's lock. Any thread may read it.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `more`. Only the writer that holds the session's lock may call this.
    #[inline]
    pub fn add(&self, more: u64) {
        // There is one writer, so a locked bus operation is not needed.
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    /// Adds `more` to a count with several concurrent writers.
    pub fn add_beside_others(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Returns the current count.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Makes [`LiveCounters`] with the fields of [`Counters`].
macro_rules! live {
    ($($name:ident)*) => {
        /// The live form of [`Counters`], which a session updates. The acceptor also updates
        /// `logons_refused`.
        #[derive(Debug, Default)]
        pub struct LiveCounters {
            $(
                #[doc = concat!("As [`Counters::", stringify!($name), "`].")]
                pub $name: Count,
            )*
        }

        impl LiveCounters {
            /// Returns the current counts.
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
