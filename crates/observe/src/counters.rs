//! The counters of a session, which count its messages, resends and connections.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a session since the engine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Complete messages received.
    pub messages_in: u64,
    /// Messages sent for the first time.
    pub messages_out: u64,
    /// Bytes of the messages received.
    pub bytes_in: u64,
    /// Bytes of the messages sent for the first time.
    pub bytes_out: u64,
    /// Parts of the received stream that were skipped, because they are not a valid message.
    pub garbled: u64,
    /// Accepted logons.
    pub logons: u64,
    /// Messages that the counterparty requested again but the store does not have; gap fills
    /// replace them.
    pub not_stored: u64,
    /// Connections refused because the session was already connected, or was not allowed to
    /// connect.
    pub refused: u64,
    /// Messages that were kept above a gap and never delivered, because the counterparty then
    /// covered them by a SequenceReset(4).
    pub passed_over: u64,
    /// Lines of the protocol log that were lost because its buffer was full.
    pub not_logged: u64,
    /// Connections that ended because either side refused a Logon(A), for any reason. Includes
    /// refusals before the session has received the Logon(A), for example by `allow_from`, by
    /// `tls.peer`, or because another connection waits.
    pub logons_refused: u64,
    /// Reject(3) received.
    pub rejects_in: u64,
    /// Reject(3) sent.
    pub rejects_out: u64,
    /// BusinessMessageReject(j) received.
    pub business_rejects_in: u64,
    /// BusinessMessageReject(j) sent.
    pub business_rejects_out: u64,
    /// Received ResendRequest(2)s that were answered, or that ended the connection.
    pub resend_requests_in: u64,
    /// ResendRequest(2) sent.
    pub resend_requests_out: u64,
    /// Messages resent at the request of the counterparty.
    pub resent: u64,
    /// Connections that have ended, for any reason.
    pub disconnects: u64,
}

/// A counter that only the holder of the session's lock changes. Any thread may read it.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `more`. Only the holder of the session's lock may call this method.
    #[inline]
    pub fn add(&self, more: u64) {
        // A plain load and store suffices, because there is only one writer.
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    /// Adds `more` to a counter that several threads may change at the same time.
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

/// Defines [`LiveCounters`], with the same fields as [`Counters`].
macro_rules! live {
    ($($name:ident)*) => {
        /// The counters that a session updates while it runs; a snapshot is [`Counters`]. The
        /// acceptor also updates `logons_refused`.
        #[derive(Debug, Default)]
        pub struct LiveCounters {
            $(
                #[doc = concat!("As [`Counters::", stringify!($name), "`].")]
                pub $name: Count,
            )*
        }

        impl LiveCounters {
            /// Returns a snapshot of the counters.
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
