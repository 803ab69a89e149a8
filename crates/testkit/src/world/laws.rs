//! The laws of a world with two honest sessions, except the laws of the wire and of crashes.

use std::collections::BTreeSet;

use transfix::{Disconnect, State, UnavailableAction};

use super::app::{Log, Sent, Source};
use super::net::MS;
use super::{SECOND, World};
use transfix_session::nanos;

/// The maximum wait for the answer to a TestRequest(1), in nanoseconds.
const TEST_REQUEST_WAIT_MAX: u64 = 20 * SECOND;
/// The time after which a session repeats an unanswered ResendRequest(2), in nanoseconds.
const REQUEST_WAIT: u64 = 20 * SECOND;
const SLACK: u64 = SECOND;

impl World {
    fn heart_bt_int(&self) -> u64 {
        nanos(self.plan.settings[0].protocol.heart_bt_int)
    }

    /// Returns the duration of silence after which a session sends a TestRequest(1), in
    /// nanoseconds.
    fn patience(&self) -> u64 {
        let timing = &self.plan.settings[0].timing;
        self.heart_bt_int()
            + match nanos(timing.margin) {
                0 => self.heart_bt_int() / 100 * u64::from(timing.margin_percent),
                margin => margin,
            }
    }

    /// Checks the laws that hold after every step.
    pub(super) fn check(&self) {
        for side in [0, 1].into_iter().filter(|&side| self.sides[side].rig.look().is_up) {
            self.check_times(side);
            self.check_progress(side);
            self.check_answers(side);
            self.check_memory(side);
        }
    }

    /// Checks that a session detects silence within the time limit, and that each session keeps
    /// sending heartbeats.
    fn check_times(&self, side: usize) {
        let ours = &self.sides[side];
        let waits = |what: &str, since: u64, max: u64| {
            let waited = self.now.saturating_sub(since);
            assert!(waited <= max, "side {side} waits {} ms for {what}", waited / MS);
        };
        let (seen, (state, since)) = (ours.rig.look(), ours.since);
        // With a delayed store, the last message of a connection may wait for a commit.
        let store = if self.plan.is_delayed[side] { 10 * SECOND } else { 0 };
        match state {
            State::LogonAwaited | State::LogonSent => {
                // A slow application may then delay the answer to a Logon(A) by the same time.
                let answer = if self.plan.later_one_in > 0 { 10 * SECOND } else { 0 };
                waits("a logon", since, 10 * SECOND + answer + store + SLACK);
            }
            State::LogoutSent => waits("a logout", since, 10 * SECOND + store + SLACK),
            State::Active if self.heart_bt_int() > 0 => {
                let patience = self.patience();
                let requests = u64::from(self.plan.settings[0].timing.test_requests_max);
                let asked = requests * patience.min(TEST_REQUEST_WAIT_MAX);
                let silence = patience + asked + store + SLACK;
                waits("a sign of life", ours.received.0, silence);
                let written = self.net.lock().observer.sides[side].at;
                if !seen.waits && !seen.waits_for_store {
                    waits("a word of its own", written.max(since), self.heart_bt_int() + SLACK);
                }
            }
            _ => {}
        }
        let open = state != State::Active || ours.is_open(self.now);
        assert!(open, "side {side} is logged on outside of all windows");
    }

    /// Checks that the expected sequence number advances while the counterparty writes.
    fn check_progress(&self, side: usize) {
        let (state, since) = self.sides[side].since;
        let joined = self.net.lock().is_joined();
        if state != State::Active || self.heart_bt_int() == 0 || !joined {
            return;
        }
        let stall = self.plan.weather.stall_ms_max as u64 * MS;
        let once = REQUEST_WAIT + 2 * self.heart_bt_int() + 2 * stall + 5 * SECOND;
        // A resent message may be damaged again, and small buffers slow down a resend, so more
        // repetitions are allowed.
        let often = if self.plan.weather.damage_one_in > 0 { 6 } else { 2 };
        let from = self.sides[side].moved.0.max(since);
        let stands = self.now.saturating_sub(from);
        let next = self.sides[side].moved.1;
        assert!(stands <= often * once, "side {side} expects {next} for {} ms", stands / MS);
    }

    /// Checks that a received TestRequest(1) is answered at once.
    fn check_answers(&self, side: usize) {
        let ours = &self.sides[side];
        let plain = self.plan.weather.damage_one_in == 0 && self.plan.held.messages_max > 100;
        let seen = ours.rig.look();
        let waits = seen.waits || seen.waits_for_store;
        if !plain || self.plan.resets() || seen.state != State::Active || waits {
            return;
        }
        let next_in = ours.numbers().0;
        let net = self.net.lock();
        let asked = &net.observer.sides[1 - side].asked;
        let open = asked.iter().find(|(seq, _)| *seq < next_in);
        assert!(open.is_none(), "side {side} does not answer the TestRequest(1) {open:?}");
    }

    /// Checks that the lengths of queues and the number of kept messages are limited.
    fn check_memory(&self, side: usize) {
        let ours = &self.sides[side];
        let waiting = ours.rig.look().waiting_bytes;
        let max = ours.settings.queue.queued_bytes_max + (5 << 20);
        assert!(waiting <= max, "{waiting} bytes wait on side {side}");
        let seen = ours.rig.look();
        let (state, since) = ours.since;
        let paused = self.now <= since + nanos(ours.settings.queue.queue_pause);
        let stuck = state == State::Active && seen.queued_bytes > 0 && seen.waiting_bytes == 0;
        assert!(!stuck || paused, "{} bytes wait in the queue of side {side}", seen.queued_bytes);
    }

    /// Checks that an honest session may close the connection for this reason.
    pub(super) fn check_reason(&mut self, side: usize, reason: Disconnect) {
        self.summary.verdicts += u64::from(reason != Disconnect::LinkLost);
        let fair = matches!(
            reason,
            Disconnect::LoggedOut
                | Disconnect::LogoutTimeout
                | Disconnect::LogonTimeout
                | Disconnect::LinkLost
                | Disconnect::HeartbeatTimeout
                | Disconnect::Schedule
        );
        let fair =
            fair || (reason == Disconnect::ApplicationNotAvailable && self.plan.decline_one_in > 0);
        let denied = matches!(reason, Disconnect::LogonDenied | Disconnect::LogonRefused(_));
        let fair = fair || (denied && self.plan.deny_one_in > 0);
        let damaged = self.plan.weather.damage_one_in > 0 || self.plan.odds.forge > 0;
        assert!(fair || damaged, "side {side} blames the other: {reason}; {}", self.stand());
        let seen = self.sides[side].rig.look();
        if reason == Disconnect::LoggedOut && !seen.waits && !seen.waits_for_store {
            let answered = self.net.lock().observer.sides[side].logged_out;
            assert!(answered, "side {side} ends without a Logout(5)");
        }
        if reason == Disconnect::HeartbeatTimeout {
            let received = self.sides[side].received.0;
            let silent = self.now - received;
            assert!(silent >= self.patience(), "side {side} ends after {} ms", silent / MS);
            let asked = self.net.lock().observer.sides[side].test_request_at;
            let asked_in_vain = asked >= received || self.sides[side].rig.look().waits;
            assert!(asked_in_vain, "side {side} ends without a TestRequest(1)");
        }
    }

    /// Returns the time limit for full delivery after the faults end. The limit covers the
    /// detection of a dead connection, a logon, and a ResendRequest(2) that is lost and repeated.
    pub(super) fn rest_max(&self) -> u64 {
        let stall = self.plan.weather.stall_ms_max as u64 * MS;
        let closed = if self.plan.settings[0].schedule.is_some() { 400 * SECOND } else { 0 };
        200 * SECOND + closed + 2 * stall + 10 * self.heart_bt_int()
    }

    /// Checks that the number of frames is in proportion to the number of messages while no faults
    /// occur.
    pub(super) fn check_frame_count(&self, begun: u64, written: u64) {
        let sent: usize = self.sides.iter().map(|side| side.app.lock().sent.len()).sum();
        let beats = match self.heart_bt_int() {
            0 => 0,
            interval => 4 * (self.now - begun) / interval,
        };
        let max = 500 + 20 * sent as u64 + beats;
        let frames = self.frames() - written;
        assert!(frames <= max, "{frames} frames written while at rest, {max} are enough");
    }

    /// Returns true if all messages are delivered and no session waits for an event.
    pub(super) fn is_well(&self) -> bool {
        let [a, b] = &self.sides;
        let (numbers_a, numbers_b) = (a.numbers(), b.numbers());
        let agree = numbers_a.0 == numbers_b.1 && numbers_b.0 == numbers_a.1;
        let quiet = |side: &super::Side| side.state() == State::Active && !side.rig.look().waits;
        let nothing_under_way = {
            let net = self.net.lock();
            net.is_joined() && net.is_idle()
        };
        agree && quiet(a) && quiet(b) && nothing_under_way && self.is_delivered()
    }

    fn is_delivered(&self) -> bool {
        [0, 1].into_iter().all(|side| {
            let (ours, theirs) = (self.sides[side].app.lock(), self.sides[1 - side].app.lock());
            let permitted_losses = self.permitted_losses(side, &ours, &theirs);
            let resets = self.plan.resets();
            // Only messages sent since the last reset count here; `check_order` checks the earlier
            // messages.
            let counts = |sent: &&Sent| !resets || sent.epoch == ours.epoch;
            let mut counting = ours.sent.iter().filter(counts);
            counting.all(|sent| {
                theirs.delivered.binary_search(&sent.id).is_ok()
                    || (self.plan.queues() && theirs.delivered.contains(&sent.id))
                    || permitted_losses.contains(&sent.id)
            })
        })
    }

    /// Returns the messages that may remain undelivered: the application was notified of their
    /// loss, or they were in the memory of a crashed process.
    fn permitted_losses(&self, side: usize, ours: &Log, theirs: &Log) -> BTreeSet<u64> {
        let mut permitted_losses = self.given_back(side, ours);
        permitted_losses.extend(&ours.forgotten);
        if self.plan.settings[0].unavailable.then == UnavailableAction::Silence {
            permitted_losses.extend(&theirs.declined);
        }
        permitted_losses
    }

    /// Returns the messages of this side that were rejected or returned.
    fn given_back(&self, side: usize, ours: &Log) -> BTreeSet<u64> {
        let net = self.net.lock();
        let orders = &net.observer.sides[side].orders;
        let rejected = ours.rejected.iter().filter_map(|seq| orders.get(seq));
        rejected.chain(&ours.returned).copied().collect()
    }

    /// Checks that each delivered message was sent, is delivered only once and in order, and that
    /// no message is missing.
    pub(super) fn check_order(&self) {
        for side in [0, 1] {
            let (ours, theirs) = (self.sides[side].app.lock(), self.sides[1 - side].app.lock());
            for id in self.given_back(side, &ours) {
                let delivered = theirs.delivered.contains(&id);
                assert!(!delivered, "message {id} of side {side} is given back and delivered");
            }
            if self.plan.queues() {
                // A callback's message overtakes queued messages, so the order is checked for each
                // source separately.
                for source in [Source::Outside, Source::Callback] {
                    self.check_order_of(side, &ours, &theirs, |id| id % 2 == source as u64);
                }
            } else {
                self.check_order_of(side, &ours, &theirs, |_| true);
            }
        }
    }

    fn check_order_of(&self, side: usize, ours: &Log, theirs: &Log, of: impl Fn(u64) -> bool) {
        let permitted_losses = self.permitted_losses(side, ours, theirs);
        let mut sent = ours.sent.iter().filter(|sent| of(sent.id));
        let mut last = 0;
        for &id in theirs.delivered.iter().filter(|id| of(**id)) {
            assert!(id > last, "message {id} of side {side} comes twice, or behind {last}");
            last = id;
            let skipped: Vec<_> = sent.by_ref().take_while(|sent| sent.id != id).collect();
            let Some(at) = ours.sent.iter().rposition(|sent| sent.id == id) else {
                panic!("message {id} of side {side} was delivered and never accepted");
            };
            let epoch = ours.sent[at].epoch;
            let lost = skipped.iter().find(|s| {
                (s.epoch == epoch || !self.plan.resets()) && !permitted_losses.contains(&s.id)
            });
            assert!(lost.is_none(), "{lost:?} of side {side} was left out before {id}");
        }
    }

    /// Describes the state of both sides, for the report of a broken law.
    pub(super) fn stand(&self) -> String {
        let sides = [0, 1].map(|side| {
            let ours = &self.sides[side];
            let (next_in, next_out) = ours.numbers();
            let (sent, delivered) = {
                let theirs = self.sides[1 - side].app.lock().delivered.len();
                (ours.app.lock().sent.len(), theirs)
            };
            format!(
                "side {side}: {:?}, next numbers {next_in} in and {next_out} out, {delivered} of \
                 {sent} messages delivered, waits: {}",
                ours.state(),
                ours.rig.look().waits,
            )
        });
        format!("{}; {}; at {} ms", sides[0], sides[1], self.now / MS)
    }
}
