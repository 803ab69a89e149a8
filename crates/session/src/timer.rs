//! Timers as pure functions of the state and of the time that comes in.
//!
//! Heartbeat(0) after HeartBtInt(108) without sending; TestRequest(1) after 1.2 of it without
//! receiving; disconnection if nothing comes in the same time again, 20 s at the most.
//! FIX Session: "reasonable transmission time" is taken as 20 % of HeartBtInt(108).

use transfix_codec::tag;

use crate::config::Now;
use crate::outbox::Outbox;
use crate::session::Session;
use crate::state::State;
use crate::verdict::{Disconnect, Verdict};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// Longest wait for any answer to a TestRequest(1).
const TEST_REQUEST_WAIT_MAX: u64 = 20 * SECOND;

/// Moments of one connection, in nanoseconds of the monotonic clock.
#[derive(Debug)]
pub(crate) struct Timers {
    heart_bt_int: u64,
    link_up: u64,
    last_sent: u64,
    last_received: u64,
    test_request_sent: Option<u64>,
    logout_sent: u64,
}

impl Timers {
    pub(crate) const fn new(heart_bt_int_s: u32) -> Self {
        Self {
            heart_bt_int: heart_bt_int_s as u64 * SECOND,
            link_up: 0,
            last_sent: 0,
            last_received: 0,
            test_request_sent: None,
            logout_sent: 0,
        }
    }

    pub(crate) const fn link_up(&mut self, now: Now, heart_bt_int_s: u32) {
        *self = Self::new(heart_bt_int_s);
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
    }

    pub(crate) const fn logout_sent(&mut self, now: Now) {
        self.logout_sent = now.monotonic_ns;
    }

    /// How long silence is borne before a TestRequest(1), and again after it.
    const fn patience(&self) -> u64 {
        self.heart_bt_int + self.heart_bt_int / 5
    }

    fn disconnect_at(&self) -> Option<u64> {
        let sent = self.test_request_sent?;
        Some(sent + self.patience().min(TEST_REQUEST_WAIT_MAX))
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
                Some(t.link_up + u64::from(self.config.logon_timeout_ms) * MS)
            }
            State::LogoutSent => {
                Some(t.logout_sent + u64::from(self.config.logout_timeout_ms) * MS)
            }
            State::Active if t.heart_bt_int == 0 => None,
            State::Active => {
                let heartbeat = t.last_sent + t.heart_bt_int;
                let silence = t.disconnect_at().unwrap_or(t.last_received + t.patience());
                Some(heartbeat.min(silence))
            }
        }
    }

    /// Does what is due at `now`: Heartbeat(0), TestRequest(1), or the end of a wait.
    pub fn tick(&mut self, now: Now, out: &mut Outbox) -> Verdict {
        if self.next_deadline().is_none_or(|at| now.monotonic_ns < at) {
            return Verdict::Handled;
        }
        match self.state {
            State::Disconnected => Verdict::Handled,
            State::LogonAwaited | State::LogonSent => Verdict::Disconnect(Disconnect::LogonTimeout),
            State::LogoutSent => {
                Verdict::Disconnect(self.ending.unwrap_or(Disconnect::LogoutTimeout))
            }
            State::Active => self.tick_active(now, out),
        }
    }

    fn tick_active(&mut self, now: Now, out: &mut Outbox) -> Verdict {
        if self.timers.disconnect_at().is_some_and(|at| now.monotonic_ns >= at) {
            return Verdict::Disconnect(Disconnect::HeartbeatTimeout);
        }
        let silent = now.monotonic_ns.saturating_sub(self.timers.last_received);
        if self.timers.test_request_sent.is_none() && silent >= self.timers.patience() {
            // The number that the request itself gets makes the id unique within the session.
            let id = self.next_num_out;
            self.write_admin(now, b"1", out, |body| _ = body.uint(tag::TEST_REQ_ID, id));
            self.timers.test_request_sent = Some(now.monotonic_ns);
        } else if now.monotonic_ns.saturating_sub(self.timers.last_sent) >= self.timers.heart_bt_int
        {
            self.write_admin(now, b"0", out, |_| ());
        }
        Verdict::Handled
    }
}
