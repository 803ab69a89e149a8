//! Resets of both sequence numbers, and recovery from a reset whose answer was lost.
//!
//! Invariant: a reset is journalled at once. Until the counterparty has proven that it applied the
//! reset, the store keeps 1 as the number expected next.

use transfix_codec::Timestamp;

use crate::config::{Now, Role, nanos};
use crate::outbox::{Entry, Outbox, ResetCause};
use crate::reset::{Reset, ResetEvent};
use crate::session::Session;
use crate::state::State;
use crate::verdict::OperateError;

/// The effect of our Logon(A) on the sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// The sequence numbers continue.
    Continued,
    /// The Logon(A) has ResetSeqNumFlag(141)=Y, and the sequence numbers restart at 1.
    Restarted,
}

impl Numbering {
    pub(crate) const fn of(resets: bool) -> Self {
        if resets { Self::Restarted } else { Self::Continued }
    }
}

impl Session {
    /// Returns the progress of a reset that this side requested.
    #[must_use]
    pub const fn reset(&self) -> Reset {
        self.resets.state()
    }

    /// Returns the number expected next, as the store must keep it: 1 while our reset
    /// [is not proven](Self::awaits_reset). A new process then finds 1 in the store, and our
    /// Logon(A) as the last sent message, and therefore knows that it must
    /// [request the reset again](Self::reset_at_next_logon).
    #[must_use]
    pub fn stored_num_in(&self) -> u64 {
        if self.awaits_reset() { 1 } else { self.next_num_in }
    }

    /// Returns true until the counterparty has proven that it applied our reset. Until then the
    /// number expected next may belong to the old numbering, which must not be used after this
    /// connection. The store therefore keeps 1 instead.
    #[must_use]
    pub fn awaits_reset(&self) -> bool {
        match self.resets.state() {
            Reset::UnderWay => true,
            // The counterparty proves the reset by the message that follows our answer.
            Reset::Answered => self.next_num_in == 2 && self.is_live(),
            Reset::Settled | Reset::Asked | Reset::Unproven => false,
        }
    }

    /// Returns true if a Logon(A) with ResetSeqNumFlag(141)=Y received now would answer our reset.
    pub(crate) fn is_reset_answered(&self) -> bool {
        self.resets.state() == Reset::Asked || self.awaits_reset()
    }

    /// Returns true if an acceptor must request a reset in its answer to a Logon(A) with the number
    /// `seq`. Either an operator has requested the reset, or the counterparty has missed the last
    /// reset. If `seq` is below the expected number of the old numbering, the counterparty has
    /// applied the last reset.
    pub(crate) fn still_resets(&self, seq: u64) -> bool {
        let resets = &self.resets;
        let has_flag = self.config.id.begin_string.has_reset_flag();
        let missed = resets.state() == Reset::Unproven && seq >= resets.before;
        has_flag && (resets.is_wanted || missed)
    }

    /// Requests a reset of both numbers by ResetSeqNumFlag(141)=Y in our next Logon(A). An
    /// initiator repeats the request until a Logon(A) is answered; an acceptor requests the reset
    /// in its answer. The method has no effect in FIX 4.0, which does not have the field.
    pub const fn reset_at_next_logon(&mut self) {
        self.resets.is_wanted = true;
    }

    /// Resets both numbers of a session that is logged on. The method sends a Logon(A) with
    /// ResetSeqNumFlag(141)=Y and MsgSeqNum(34) 1; the counterparty's numbers restart when it
    /// answers.
    ///
    /// # Errors
    /// The session is not logged on, the version is FIX 4.0, or another reset is under way; nothing
    /// was sent.
    pub fn reset_in_session(&mut self, now: Now, out: &mut Outbox) -> Result<(), OperateError> {
        self.resets.begins_at_ns = None;
        if !self.config.id.begin_string.has_reset_flag() {
            return Err(OperateError::NoResetFlag);
        }
        if self.state != State::Active {
            return Err(OperateError::NotLoggedOn);
        }
        if self.resets.state() == Reset::UnderWay {
            return Err(OperateError::ResetUnderWay);
        }
        let next_num_in = self.next_num_in;
        self.reset_numbers(ResetCause::InSession, out);
        // Messages that are already on their way to us still have old numbers, so the expected
        // number stays.
        self.next_num_in = next_num_in;
        let timeout_ns = nanos(self.config.protocol.logon_timeout);
        self.resets.begin(now.monotonic_ns.saturating_add(timeout_ns));
        // If the connection breaks before the answer, an initiator requests the reset again at its
        // next logon.
        self.resets.is_wanted |= self.config.role == Role::Initiator;
        self.write_logon(now, Numbering::Restarted, out);
        if self.is_vetoed { Err(OperateError::Vetoed) } else { Ok(()) }
    }

    /// Resets both numbers to 1 without notifying the counterparty, whose numbers restart by the
    /// same schedule. For an acceptor, this is possible until it accepts the Logon(A).
    ///
    /// # Panics
    /// If a message of this connection has used a number.
    pub fn restart_numbers(&mut self, out: &mut Outbox) {
        let is_between = matches!(self.state, State::Disconnected | State::LogonAwaited);
        assert!(is_between, "numbers restart between connections");
        self.reset_numbers(ResetCause::Schedule, out);
        self.at_connection = (1, 1);
    }

    /// Resets both numbers to 1; journals the reset if a number was not 1.
    pub(crate) fn reset_numbers(&mut self, cause: ResetCause, out: &mut Outbox) {
        self.resets.numbers_set();
        self.gap.give_up();
        // A reset by the schedule is journalled even if both numbers are 1, because the store
        // records the time of the reset.
        let moved = (self.next_num_in, self.next_num_out) != (1, 1);
        self.last_before_reset = self.last_before_reset.max(self.next_num_out - 1);
        if moved || cause == ResetCause::Schedule {
            self.next_num_in = 1;
            self.next_num_out = 1;
            out.entries.push(Entry::Reset(cause));
        }
    }

    /// Handles a broken connection. If the counterparty has not proven our reset, the session
    /// continues as if the counterparty had applied it.
    pub(crate) fn lose_reset(&mut self) {
        if self.awaits_reset() {
            match self.resets.state() {
                Reset::UnderWay => self.resets.before = self.next_num_in,
                _ => self.resets.is_wanted = true,
            }
            self.next_num_in = 1;
        }
        self.resets.transition(ResetEvent::LinkClosed);
    }

    /// Schedules the next configured reset that is due while logged on.
    pub(crate) fn plan_reset(&mut self, now: Now) {
        let offsets = &*self.config.reset_at_offsets;
        let daily = self.config.protocol.reset_at;
        let daily = daily.and_then(|at_s| wait_for_time_of_day(now.utc, at_s, offsets));
        let later = nanos(self.config.protocol.reset_after);
        let later = (later > 0).then_some(later);
        let wait = daily.into_iter().chain(later).min();
        self.resets.begins_at_ns = wait.map(|wait| now.monotonic_ns.saturating_add(wait));
    }
}

/// Returns the nanoseconds until a time of day, `at_s` in seconds, on a local clock with these
/// offsets from UTC.
fn wait_for_time_of_day(now: Timestamp, at_s: u32, offsets: &[(i64, i32)]) -> Option<u64> {
    const SECOND: i64 = 1_000_000_000;
    const DAY_S: i64 = 86_400;
    let offset_at = |utc_s: i64| {
        let n = offsets.partition_point(|(from_s, _)| *from_s <= utc_s);
        offsets.get(n.saturating_sub(1)).map_or(0, |(_, offset_s)| i64::from(*offset_s))
    };
    let now_s = now.0.div_euclid(SECOND);
    let today = (now_s + offset_at(now_s)).div_euclid(DAY_S);
    // A change of the offset can move the local time into another day, so neighbouring days are
    // examined too.
    let waits = (today - 1..=today + 2).map(|day| {
        let shown = day * DAY_S + i64::from(at_s) % DAY_S;
        let near = shown - offset_at(now_s);
        let near = shown - offset_at(near);
        (shown - offset_at(near)) * SECOND - now.0
    });
    waits.filter(|wait| *wait > 0).min().map(i64::cast_unsigned)
}
