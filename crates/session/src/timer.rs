//! Computes the deadlines of a connection from the times of the last events.
//!
//! A Heartbeat(0) is due up to 10 ms before HeartBtInt(108) has passed without a sent message. A
//! TestRequest(1) is due when nothing was received for HeartBtInt(108) plus a margin. The
//! disconnect is due after a further period of silence of the same length, by default at most 20 s.
//! FIX Session leaves the margin, "reasonable transmission time", to both sides; our default is 20
//! %.

use std::time::Duration;

use crate::config::{Now, TimingConfig, nanos};

const MS: u64 = 1_000_000;
/// Heartbeats are due at multiples of this time, in nanoseconds, so that the sessions of a thread
/// share wake-ups.
const HEARTBEAT_STEP: u64 = 10 * MS;

/// The times of the last events of one connection, in nanoseconds on the monotonic clock.
#[derive(Debug)]
pub(crate) struct Timers {
    policy: TimingConfig,
    heart_bt_int: u64,
    /// Silence of the counterparty after which a TestRequest(1) is sent, and, after the same time
    /// again, the connection ends.
    patience: u64,
    link_up: u64,
    last_sent: u64,
    last_received: u64,
    test_request_sent: Option<u64>,
    /// Number of TestRequest(1) messages sent since the last received message.
    test_requests: u32,
    logout_sent: u64,
}

impl Timers {
    pub(crate) const fn new(heart_bt_int: Duration, policy: TimingConfig) -> Self {
        let mut timers = Self {
            policy,
            heart_bt_int: 0,
            patience: 0,
            link_up: 0,
            last_sent: 0,
            last_received: 0,
            test_request_sent: None,
            test_requests: 0,
            logout_sent: 0,
        };
        timers.set_heart_bt_int(heart_bt_int);
        timers
    }

    pub(crate) const fn link_up(&mut self, now: Now, heart_bt_int: Duration) {
        *self = Self::new(heart_bt_int, self.policy);
        self.link_up = now.monotonic_ns;
        self.last_sent = now.monotonic_ns;
        self.last_received = now.monotonic_ns;
    }

    pub(crate) const fn set_heart_bt_int(&mut self, heart_bt_int: Duration) {
        self.heart_bt_int = nanos(heart_bt_int);
        let margin = match nanos(self.policy.margin) {
            0 => (self.heart_bt_int / 100).saturating_mul(self.policy.margin_percent as u64),
            margin => margin,
        };
        self.patience = self.heart_bt_int.saturating_add(margin);
    }

    pub(crate) const fn heart_bt_int(&self) -> Duration {
        Duration::from_nanos(self.heart_bt_int)
    }

    pub(crate) const fn sent(&mut self, now: Now) {
        self.last_sent = now.monotonic_ns;
    }

    /// Restarts the timer for silence: any inbound message proves that the counterparty is alive.
    pub(crate) const fn received(&mut self, now: Now) {
        self.last_received = now.monotonic_ns;
        self.test_request_sent = None;
        self.test_requests = 0;
    }

    pub(crate) const fn logout_sent(&mut self, now: Now) {
        self.logout_sent = now.monotonic_ns;
    }

    /// Returns the deadline for the answer to the last TestRequest(1); `None` if none was sent.
    fn unanswered_at(&self) -> Option<u64> {
        let sent = self.test_request_sent?;
        let wait = nanos(self.policy.test_request_wait);
        Some(sent.saturating_add(self.patience.min(wait)))
    }

    /// Returns the time of the next TestRequest(1), which is sent if nothing is received earlier.
    const fn patience_ends_at(&self) -> u64 {
        self.last_received.saturating_add(self.patience)
    }

    /// Returns the time of the next action because of silence: a TestRequest(1) or the disconnect.
    pub(crate) fn silence_at(&self) -> Option<u64> {
        let watched = self.policy.watch_silence && self.heart_bt_int > 0;
        watched.then(|| self.unanswered_at().unwrap_or(self.patience_ends_at()))
    }

    /// Returns the time of the next Heartbeat(0), up to 10 ms before the interval ends. Each sent
    /// message postpones this time.
    pub(crate) fn heartbeat_at(&self) -> Option<u64> {
        let at = self.last_sent.saturating_add(self.heart_bt_int);
        (self.heart_bt_int > 0).then_some(at - at % HEARTBEAT_STEP)
    }

    /// Returns the deadline for receiving a Logon(A).
    pub(crate) fn logon_until(&self, timeout: Duration) -> u64 {
        self.link_up.saturating_add(nanos(timeout))
    }

    /// Returns the deadline for the answer to our Logout(5).
    pub(crate) fn logout_until(&self, timeout: Duration) -> u64 {
        self.logout_sent.saturating_add(nanos(timeout))
    }

    /// Returns true if the maximum number of TestRequest(1) messages was sent without an answer.
    pub(crate) const fn is_given_up(&self) -> bool {
        self.test_requests >= self.policy.test_requests_max
    }

    /// Returns true if a Logout(5) must be sent to a silent counterparty before the disconnect.
    pub(crate) const fn says_goodbye(&self) -> bool {
        self.policy.logout_when_silent
    }

    pub(crate) const fn test_request_sent(&mut self, now: Now) {
        self.test_request_sent = Some(now.monotonic_ns);
        self.test_requests += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000 * MS;

    /// Many sessions with different send times share a few heartbeat times.
    #[test]
    fn heartbeats_share_moments() {
        let mut moments = std::collections::BTreeSet::new();
        for sent in (0..1_000).map(|n| 7 * SECOND + n * 123_457) {
            let mut timers = Timers::new(Duration::from_secs(30), TimingConfig::default());
            timers.sent(Now { monotonic_ns: sent, ..Now::default() });
            let at = timers.heartbeat_at().unwrap();
            let early = sent + 30 * SECOND - at;
            assert!(early < 10 * MS, "{early} ns before the interval ends");
            moments.insert(at);
        }
        assert_eq!(moments.len(), 13, "in 123 ms");
    }
}
