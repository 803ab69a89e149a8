//! What is known of a session without its lock.
//!
//! Invariant: the holder of the session's lock writes, before the application is called and at the
//! end of a turn; readers never wait. Each value is right by itself; two that are read one after
//! the other may be of two turns.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use transfix_codec::Timestamp;
use transfix_session::{Session, State};

use crate::observe::counters::LiveCounters;
use crate::observe::latency::{Latency, Recorder};

/// A session as others see it.
#[derive(Debug, Default)]
pub(crate) struct Published {
    state: AtomicU8,
    next_num_in: AtomicU64,
    next_num_out: AtomicU64,
    /// UTC nanoseconds since 1970; 0 before the first message.
    received_ns: AtomicI64,
    sent_ns: AtomicI64,
    pub(crate) counters: LiveCounters,
    /// Made at the first turn: most of the sessions of a large venue may never be connected.
    latency: OnceLock<Arc<Recorder>>,
}

impl Published {
    /// Where the session stands now.
    pub(crate) fn note(&self, session: &Session) {
        self.state.store(session.state() as u8, Ordering::Release);
        self.next_num_in.store(session.next_num_in(), Ordering::Relaxed);
        self.next_num_out.store(session.next_num_out(), Ordering::Relaxed);
    }

    pub(crate) fn state(&self) -> State {
        State::ALL[usize::from(self.state.load(Ordering::Acquire))]
    }

    /// The next numbers, inbound and outbound.
    pub(crate) fn next_numbers(&self) -> (u64, u64) {
        let next = [&self.next_num_in, &self.next_num_out];
        let [next_num_in, next_num_out] = next.map(|number| number.load(Ordering::Relaxed));
        (next_num_in, next_num_out)
    }

    /// A whole message has come.
    #[inline]
    pub(crate) fn received(&self, at: Timestamp) {
        self.counters.messages_in.add(1);
        self.received_ns.store(at.0, Ordering::Relaxed);
    }

    /// A new message was written.
    #[inline]
    pub(crate) fn sent(&self, at: Timestamp) {
        self.counters.messages_out.add(1);
        self.sent_ns.store(at.0, Ordering::Relaxed);
    }

    /// Where the session counts its times.
    pub(crate) fn recorder(&self) -> Arc<Recorder> {
        Arc::clone(self.latency.get_or_init(|| Arc::new(Recorder::new())))
    }

    pub(crate) fn latency(&self) -> Latency {
        self.latency.get().map(|recorder| recorder.now()).unwrap_or_default()
    }

    pub(crate) fn last_received(&self) -> Option<Timestamp> {
        known(&self.received_ns)
    }

    pub(crate) fn last_sent(&self) -> Option<Timestamp> {
        known(&self.sent_ns)
    }
}

fn known(ns: &AtomicI64) -> Option<Timestamp> {
    Some(Timestamp(ns.load(Ordering::Relaxed))).filter(|at| at.0 != 0)
}
