//! Timers as pure functions of the state and of the time that comes in.
//!
//! Heartbeat(0) after HeartBtInt(108) without sending; TestRequest(1) after that and a margin
//! without receiving; disconnection if nothing comes in the same time again, 20 s at the most.
//! FIX Session leaves the margin, "reasonable transmission time", to both sides: by default 20 %.

use transfix_codec::tag;

use crate::config::{Now, TimingConfig};
use crate::outbox::Outbox;
use crate::session::Session;
use crate::state::State;
use crate::verdict::{Disconnect, Verdict};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// Moments of one connection, in nanoseconds of the monotonic clock.
#[derive(Debug)]
pub(crate) struct Timers {
    policy: TimingConfig,
    heart_bt_int: u64,
    link_up: u64,
    last_sent: u64,
    last_received: u64,
    test_request_sent: Option<u64>,
    /// TestRequest(1)s since anything was received.
    test_requests: u32,
    /// When the numbers are to be reset in mid-session.
    pub(crate) reset_at: Option<u64>,
    /// Until when the answer to our Logon(A) of such a reset may come.
    pub(crate) reset_answer_until: Option<u64>,
    logout_sent: u64,
}

impl Timers {
    pub(crate) const fn new(heart_bt_int_s: u32, policy: TimingConfig) -> Self {
        Self {
            policy,
            heart_bt_int: heart_bt_int_s as u64 * SECOND,
            link_up: 0,
            last_sent: 0,
            last_received: 0,
            test_request_sent: None,
            test_requests: 0,
            reset_at: None,
            reset_answer_until: None,
            logout_sent: 0,
        }
    }

    pub(crate) const fn link_up(&mut self, now: Now, heart_bt_int_s: u32) {
        *self = Self::new(heart_bt_int_s, self.policy);
        self.link_up = now.monotonic_ns;
        self.last_sent = now.monotonic_ns;
        self.last_received = now.monotonic_ns;
    }

    pub(crate) const fn set_heart_bt_int(&mut self, seconds: u32) {
        self.heart_bt_int = seconds as u64 * SECOND;
    }

    pub(crate) const fn heart_bt_int_s(&self) -> u64 {
        self.heart_bt_int / SECOND
    }

    pub(crate) const fn sent(&mut self, now: Now) {
        self.last_sent = now.monotonic_ns;
    }

    /// Any inbound traffic proves that the counterparty lives.
    pub(crate) const fn received(&mut self, now: Now) {
        self.last_received = now.monotonic_ns;
        self.test_request_sent = None;
        self.test_requests = 0;
    }

    pub(crate) const fn logout_sent(&mut self, now: Now) {
        self.logout_sent = now.monotonic_ns;
    }

    /// How long silence is borne before a TestRequest(1), and again after it.
    const fn patience(&self) -> u64 {
        let margin = match self.policy.margin_ms {
            0 => (self.heart_bt_int / 100).saturating_mul(self.policy.margin_percent as u64),
            ms => ms as u64 * MS,
        };
        self.heart_bt_int.saturating_add(margin)
    }

    /// When the answer to a TestRequest(1) is waited for no longer.
    fn unanswered_at(&self) -> Option<u64> {
        let sent = self.test_request_sent?;
        let wait = u64::from(self.policy.test_request_wait_ms) * MS;
        Some(sent.saturating_add(self.patience().min(wait)))
    }

    /// When a counterparty that has sent nothing since is asked whether it lives.
    const fn patience_ends_at(&self) -> u64 {
        self.last_received.saturating_add(self.patience())
    }

    /// When silence is to be acted upon.
    fn silence_at(&self) -> Option<u64> {
        let watched = self.policy.watch_silence && self.heart_bt_int > 0;
        watched.then(|| self.unanswered_at().unwrap_or(self.patience_ends_at()))
    }

    fn heartbeat_at(&self) -> Option<u64> {
        (self.heart_bt_int > 0).then_some(self.last_sent.saturating_add(self.heart_bt_int))
    }
}

impl Session {
    /// When [`Session::tick`] must be called at the latest, on the monotonic clock in nanoseconds.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        let t = &self.timers;
        match self.state {
            State::Disconnected => None,
            State::LogonAwaited | State::LogonSent => {
                Some(t.link_up.saturating_add(u64::from(self.config.logon_timeout_ms) * MS))
            }
            State::LogoutSent => {
                Some(t.logout_sent.saturating_add(u64::from(self.config.logout_timeout_ms) * MS))
            }
            State::Active => {
                let others = [self.gap.deadline(), t.reset_at, t.reset_answer_until];
                let heartbeats = [t.heartbeat_at(), t.silence_at()];
                heartbeats.into_iter().chain(others).flatten().min()
            }
        }
    }

    /// Does what is due at `now`: Heartbeat(0), TestRequest(1), or the end of a wait.
    pub fn tick(&mut self, now: Now, out: &mut Outbox) -> Verdict {
        if self.next_deadline().is_none_or(|at| now.monotonic_ns < at) {
            return Verdict::Handled;
        }
        let verdict = match self.state {
            State::Disconnected => Verdict::Handled,
            State::LogonAwaited | State::LogonSent => Verdict::Disconnect(Disconnect::LogonTimeout),
            State::LogoutSent => {
                Verdict::Disconnect(self.ending.unwrap_or(Disconnect::LogoutTimeout))
            }
            State::Active => self.tick_active(now, out),
        };
        self.after(now, verdict, out)
    }

    fn tick_active(&mut self, now: Now, out: &mut Outbox) -> Verdict {
        let t = &self.timers;
        let due = |at: Option<u64>| at.is_some_and(|at| now.monotonic_ns >= at);
        if due(t.reset_answer_until) {
            return Verdict::Disconnect(Disconnect::LogonTimeout);
        }
        if due(t.reset_at) {
            self.reset_in_session(now, out);
        } else if due(t.silence_at()) {
            if t.test_requests >= t.policy.test_requests_max {
                return match t.policy.logout_when_silent {
                    true => self.end(now, Disconnect::HeartbeatTimeout, out),
                    false => Verdict::Disconnect(Disconnect::HeartbeatTimeout),
                };
            }
            // The number that the request itself gets makes the id unique within the session.
            let id = self.next_num_out;
            self.write_admin(now, b"1", out, |body| _ = body.uint(tag::TEST_REQ_ID, id));
            self.timers.test_request_sent = Some(now.monotonic_ns);
            self.timers.test_requests += 1;
        } else if due(t.heartbeat_at()) {
            self.write_admin(now, b"0", out, |_| ());
        }
        Verdict::Handled
    }
}
