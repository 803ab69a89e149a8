//! The timed actions of a session: Heartbeat(0), TestRequest(1), a configured reset, and timeouts.

use transfix_codec::tag;

use crate::config::Now;
use crate::outbox::Outbox;
use crate::session::Session;
use crate::state::State;
use crate::verdict::{Disconnect, Verdict};

impl Session {
    /// Returns the time by which [`Session::tick`] must be called next, on the monotonic clock in
    /// nanoseconds.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        let t = &self.timers;
        match self.state {
            State::Disconnected => None,
            _ if self.is_vetoed => Some(0),
            // While the application decides about the Logon(A), the driver limits the time, not the
            // session.
            State::LogonAwaited | State::LogonSent if self.offer.is_some() => None,
            State::LogonAwaited | State::LogonSent => {
                Some(t.logon_until(self.config.protocol.logon_timeout))
            }
            State::LogoutSent => Some(t.logout_until(self.config.protocol.logout_timeout)),
            State::Active => {
                let resets = [self.resets.begins_at_ns, self.resets.answer_until_ns()];
                let heartbeats = [t.heartbeat_at(), t.silence_at()];
                heartbeats.into_iter().chain(resets).chain([self.gap.deadline()]).flatten().min()
            }
        }
    }

    /// Restarts the timer for silence, because the driver has not read the bytes that the
    /// counterparty sent.
    pub const fn note_unread(&mut self, now: Now) {
        self.timers.received(now);
    }

    /// Runs the actions due at `now`: Heartbeat(0), TestRequest(1), a configured reset, or a
    /// timeout.
    pub fn tick(&mut self, now: Now, out: &mut Outbox) -> Verdict {
        if self.next_deadline().is_none_or(|at| now.monotonic_ns < at) {
            return Verdict::Handled;
        }
        let verdict = match self.state {
            State::Disconnected => Verdict::Handled,
            _ if self.is_vetoed => Verdict::Disconnect(Disconnect::Vetoed),
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
        if due(self.resets.answer_until_ns()) {
            return Verdict::Disconnect(Disconnect::LogonTimeout);
        }
        if due(self.resets.begins_at_ns) {
            // If a reset is not possible now, the session continues with its current numbers.
            let _ = self.reset_in_session(now, out);
        } else if due(t.silence_at()) {
            if t.is_given_up() {
                return match t.says_goodbye() {
                    true => self.end(now, Disconnect::HeartbeatTimeout, out),
                    false => Verdict::Disconnect(Disconnect::HeartbeatTimeout),
                };
            }
            // The number of the TestRequest(1) serves as its TestReqID(112), which is thus unique
            // within the session.
            let id = self.next_num_out;
            self.write_admin(now, b"1", out, |body| _ = body.uint(tag::TEST_REQ_ID, id));
            self.timers.test_request_sent(now);
        } else if due(t.heartbeat_at()) {
            self.write_admin(now, b"0", out, |_| ());
        }
        Verdict::Handled
    }
}
