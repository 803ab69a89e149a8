//! The state of a session that other threads read without its lock.
//!
//! Invariants: only the holder of the session's lock writes, before it calls the application and at
//! the end of a turn. The findings of the thread `tfx-watch` are an exception. Readers never wait.
//! Each value is consistent by itself, but two values may come from different turns.

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

/// The end of the last connection of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastEnd {
    /// The time at which the connection ended.
    pub at: Timestamp,
    /// The reason of the end, from the view of this side.
    pub reason: Disconnect,
    /// Text(58) of the counterparty's Logout(5), truncated and escaped; empty if none was received.
    pub text: String,
}

/// The values of a session that other threads may read.
#[derive(Debug, Default)]
pub struct Published {
    state: AtomicU8,
    /// Time of the last change of state, in UTC nanoseconds since 1970; 0 before the first change.
    since_ns: AtomicI64,
    /// True if the session's store has failed.
    has_failed: AtomicBool,
    /// The end of the last connection. The lock is held for a copy, once per connection.
    last_end: Mutex<Option<LastEnd>>,
    /// True if the counterparty reads too slowly.
    is_slow: AtomicBool,
    /// The name of a callback that has not returned in time, which the thread `tfx-watch` writes.
    /// The lock is held only to copy the value.
    held_up_by: Mutex<Option<&'static str>>,
    /// The address of the connection's peer. The lock is held only to copy the value, twice per
    /// connection.
    peer: Mutex<Option<SocketAddr>>,
    /// The number of logons before the present connection.
    logons_before: AtomicU64,
    next_num_in: AtomicU64,
    next_num_out: AtomicU64,
    /// HeartBtInt(108) of the last logon in seconds, plus 1; 0 before the first logon.
    heart_bt_int: AtomicU64,
    /// Time of the last received message, in UTC nanoseconds since 1970; 0 before the first
    /// message.
    received_ns: AtomicI64,
    sent_ns: AtomicI64,
    /// Counts of the session.
    pub counters: LiveCounters,
    /// The recorder of latencies, created at the first turn, because most sessions of a large venue
    /// may never connect.
    latency: OnceLock<Arc<Recorder>>,
    /// The stages with unusual latencies, which the thread `tfx-watch` writes.
    pub unusual: Unusual,
}

impl Published {
    /// Publishes the current state and next numbers of the session.
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

    /// Returns the state of the session.
    #[must_use]
    pub fn state(&self) -> State {
        State::ALL[usize::from(self.state.load(Ordering::Acquire))]
    }

    /// Returns the time of the last change of state; `None` before the first change.
    pub fn since(&self) -> Option<Timestamp> {
        known(&self.since_ns)
    }

    /// Returns true if the session has failed and waits to be reopened.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Publishes the end of a connection. `text` is Text(58) of the counterparty's Logout(5).
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

    /// Publishes the peer address of a new connection; `None` = not connected.
    pub fn note_peer(&self, peer: Option<SocketAddr>) {
        self.note_slow(false);
        self.logons_before.store(self.counters.logons.get(), Ordering::Relaxed);
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner) = peer;
    }

    /// Publishes whether the counterparty reads too slowly.
    pub fn note_slow(&self, is_slow: bool) {
        self.is_slow.store(is_slow, Ordering::Relaxed);
    }

    /// Returns true if the counterparty reads too slowly.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }

    /// Publishes the name of a callback that has not returned in time, or `None` after its return.
    pub fn note_held_up(&self, by: Option<&'static str>) {
        *self.held_up_by.lock().unwrap_or_else(PoisonError::into_inner) = by;
    }

    /// Returns the name of a callback that has not returned in time, if there is one.
    #[must_use]
    pub fn held_up_by(&self) -> Option<&'static str> {
        *self.held_up_by.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the peer address of the connection, or `None` without a connection.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the end of the last connection, if one has ended.
    #[must_use]
    pub fn last_end(&self) -> Option<LastEnd> {
        self.last_end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the next numbers, inbound and outbound.
    pub fn next_numbers(&self) -> (u64, u64) {
        let next = [&self.next_num_in, &self.next_num_out];
        let [next_num_in, next_num_out] = next.map(|number| number.load(Ordering::Relaxed));
        (next_num_in, next_num_out)
    }

    /// Publishes HeartBtInt(108) of a logon.
    pub fn note_heart_bt_int(&self, heart_bt_int: Duration) {
        self.heart_bt_int.store(heart_bt_int.as_secs() + 1, Ordering::Relaxed);
    }

    /// Returns HeartBtInt(108) of the last logon.
    pub fn heart_bt_int(&self) -> Option<Duration> {
        self.heart_bt_int.load(Ordering::Relaxed).checked_sub(1).map(Duration::from_secs)
    }

    /// Counts a received message of `bytes` bytes.
    #[inline]
    pub fn received(&self, at: Timestamp, bytes: usize) {
        self.counters.messages_in.add(1);
        self.counters.bytes_in.add(bytes as u64);
        self.received_ns.store(at.0, Ordering::Relaxed);
    }

    /// Counts a new message with a length of `bytes` bytes, which was written to the socket.
    #[inline]
    pub fn sent(&self, at: Timestamp, bytes: usize) {
        self.counters.messages_out.add(1);
        self.counters.bytes_out.add(bytes as u64);
        self.sent_ns.store(at.0, Ordering::Relaxed);
    }

    /// Returns the latency recorder of the session. Creates it at the first call.
    pub fn recorder(&self) -> Arc<Recorder> {
        Arc::clone(self.latency.get_or_init(|| Arc::new(Recorder::default())))
    }

    /// Returns a snapshot of the session's latencies.
    #[must_use]
    pub fn latency(&self) -> Latency {
        self.latency.get().map(|recorder| recorder.now()).unwrap_or_default()
    }

    /// Returns the time of the last received message.
    #[must_use]
    pub fn last_received(&self) -> Option<Timestamp> {
        known(&self.received_ns)
    }

    /// Returns the time at which the last new message was written.
    #[must_use]
    pub fn last_sent(&self) -> Option<Timestamp> {
        known(&self.sent_ns)
    }
}

/// Returns true if a connection that ended for the reason `why`, before the logon, ended because
/// this side refused its Logon(A).
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
            | Disconnect::InUse
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
