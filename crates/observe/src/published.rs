//! The state of a session that is known without its lock.
//!
//! Invariants: the holder of the session's lock writes, before the application is called and at the
//! end of a turn; only the findings of `tfx-watch` are that thread's. Readers never wait. Each
//! value is right by itself; two that are read one after the other may be of two turns.

use std::hint::cold_path;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use transfix_codec::Timestamp;
use transfix_codec::shown::Shown;
use transfix_session::{Disconnect, Session, State};

use crate::counters::LiveCounters;
use crate::latency::usual::Unusual;
use crate::latency::{Latency, Recorder};

/// How the last connection of a session has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastEnd {
    /// When.
    pub at: Timestamp,
    /// Why, as this end sees it.
    pub reason: Disconnect,
    /// Text(58) of the counterparty's Logout(5), cut and escaped; empty if it has sent none.
    pub text: String,
}

/// A session as others see it.
#[derive(Debug, Default)]
pub struct Published {
    state: AtomicU8,
    /// When it has come into that state: UTC nanoseconds since 1970; 0 before the first change.
    since_ns: AtomicI64,
    /// True if its store takes nothing now.
    has_failed: AtomicBool,
    /// Held for a copy, once a connection.
    last_end: Mutex<Option<LastEnd>>,
    /// True if the counterparty reads too slowly.
    is_slow: AtomicBool,
    /// The callback that has not returned; held for a copy. The thread `tfx-watch` writes it.
    held_up_by: Mutex<Option<&'static str>>,
    /// The other end of the connection; held for a copy, twice a connection.
    peer: Mutex<Option<SocketAddr>>,
    /// Logons before the connection began.
    logons_before: AtomicU64,
    next_num_in: AtomicU64,
    next_num_out: AtomicU64,
    /// HeartBtInt(108) of the last logon in seconds, and 1; 0 before the first one.
    heart_bt_int: AtomicU64,
    /// UTC nanoseconds since 1970; 0 before the first message.
    received_ns: AtomicI64,
    sent_ns: AtomicI64,
    /// The counts of the session.
    pub counters: LiveCounters,
    /// Made at the first turn: most of the sessions of a large venue may never be connected.
    latency: OnceLock<Arc<Recorder>>,
    /// The thread `tfx-watch` writes it.
    pub unusual: Unusual,
}

impl Published {
    /// Where the session stands at this moment.
    pub fn note(&self, at: Timestamp, session: &Session, has_failed: bool) {
        self.has_failed.store(has_failed, Ordering::Relaxed);
        let state = session.state() as u8;
        if state != self.state.load(Ordering::Relaxed) {
            cold_path();
            self.since_ns.store(at.0, Ordering::Relaxed);
            self.state.store(state, Ordering::Release);
        }
        self.next_num_in.store(session.next_num_in(), Ordering::Relaxed);
        self.next_num_out.store(session.next_num_out(), Ordering::Relaxed);
    }

    /// The state of the session.
    #[must_use]
    pub fn state(&self) -> State {
        State::ALL[usize::from(self.state.load(Ordering::Acquire))]
    }

    /// When it has come into its state; `None` before the first change.
    pub fn since(&self) -> Option<Timestamp> {
        known(&self.since_ns)
    }

    /// Returns true if the session has failed and waits to be opened again.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// A connection has ended; `text` are the words of the counterparty.
    pub fn note_end(&self, at: Timestamp, reason: Disconnect, text: Option<&[u8]>) {
        let text = text.map(|text| Shown::new(text).to_string()).unwrap_or_default();
        let end = Some(LastEnd { at, reason, text });
        *self.last_end.lock().unwrap_or_else(PoisonError::into_inner) = end;
        self.counters.disconnects.add(1);
        let was_logged_on = self.counters.logons.get() > self.logons_before.load(Ordering::Relaxed);
        if is_refused_logon(reason) || !was_logged_on && refuses_first_message(reason) {
            self.counters.logons_refused.add_beside_others(1);
        }
        self.note_peer(None);
    }

    /// A connection has begun, whose other end is this one; or there is none.
    pub fn note_peer(&self, peer: Option<SocketAddr>) {
        self.note_slow(false);
        self.logons_before.store(self.counters.logons.get(), Ordering::Relaxed);
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = peer;
    }

    /// Publishes if the counterparty reads too slowly.
    pub fn note_slow(&self, is_slow: bool) {
        self.is_slow.store(is_slow, Ordering::Relaxed);
    }

    /// Returns true if the counterparty reads too slowly.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }

    /// This callback has not returned; or it has.
    pub fn note_held_up(&self, by: Option<&'static str>) {
        *self.held_up_by.lock().unwrap_or_else(PoisonError::into_inner) = by;
    }

    /// The callback that has not returned for too long.
    #[must_use]
    pub fn held_up_by(&self) -> Option<&'static str> {
        *self.held_up_by.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The other end of the connection.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of the last connection.
    #[must_use]
    pub fn last_end(&self) -> Option<LastEnd> {
        self.last_end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The next numbers, inbound and outbound.
    pub fn next_numbers(&self) -> (u64, u64) {
        let next = [&self.next_num_in, &self.next_num_out];
        let [next_num_in, next_num_out] = next.map(|number| number.load(Ordering::Relaxed));
        (next_num_in, next_num_out)
    }

    /// The session is logged on, with this HeartBtInt(108).
    pub fn note_heart_bt_int(&self, heart_bt_int: Duration) {
        self.heart_bt_int.store(heart_bt_int.as_secs() + 1, Ordering::Relaxed);
    }

    /// HeartBtInt(108) of the last logon.
    pub fn heart_bt_int(&self) -> Option<Duration> {
        self.heart_bt_int.load(Ordering::Relaxed).checked_sub(1).map(Duration::from_secs)
    }

    /// A whole message has come.
    #[inline]
    pub fn received(&self, at: Timestamp, bytes: usize) {
        self.counters.messages_in.add(1);
        self.counters.bytes_in.add(bytes as u64);
        self.received_ns.store(at.0, Ordering::Relaxed);
    }

    /// A new message was written.
    #[inline]
    pub fn sent(&self, at: Timestamp, bytes: usize) {
        self.counters.messages_out.add(1);
        self.counters.bytes_out.add(bytes as u64);
        self.sent_ns.store(at.0, Ordering::Relaxed);
    }

    /// Where the session counts its times.
    pub fn recorder(&self) -> Arc<Recorder> {
        Arc::clone(self.latency.get_or_init(|| Arc::new(Recorder::default())))
    }

    /// The times so far.
    #[must_use]
    pub fn latency(&self) -> Latency {
        self.latency.get().map(|recorder| recorder.now()).unwrap_or_default()
    }

    /// The time of the last message received.
    #[must_use]
    pub fn last_received(&self) -> Option<Timestamp> {
        known(&self.received_ns)
    }

    /// The time of the last message sent.
    #[must_use]
    pub fn last_sent(&self) -> Option<Timestamp> {
        known(&self.sent_ns)
    }
}

/// Returns true if this end of a connection that was not logged on refuses its Logon(A).
const fn refuses_first_message(why: Disconnect) -> bool {
    matches!(
        why,
        Disconnect::FirstMessageNotLogon
            | Disconnect::MsgSeqNumTooLow { .. }
            | Disconnect::MissedReset { .. }
            | Disconnect::NextExpectedTooHigh { .. }
            | Disconnect::MsgSeqNumMissing
            | Disconnect::MsgSeqNumTooHigh
            | Disconnect::CompId
            | Disconnect::SendingTime
            | Disconnect::BeginString(_)
            | Disconnect::ApplicationNotAvailable
            | Disconnect::Application
            | Disconnect::Panicked
            | Disconnect::Schedule
            | Disconnect::Vetoed
    )
}

const fn is_refused_logon(why: Disconnect) -> bool {
    matches!(
        why,
        Disconnect::LogonRefused(_) | Disconnect::LogonInvalid(_) | Disconnect::LogonDenied
    )
}

fn known(ns: &AtomicI64) -> Option<Timestamp> {
    Some(Timestamp(ns.load(Ordering::Relaxed))).filter(|at| at.0 != 0)
}
