//! Handles received messages: checks MsgSeqNum(34) first, then the header and the dictionary, then
//! acts on MsgType(35).

use std::cmp::Ordering;
use std::hint::cold_path;

use transfix_codec::{Message, Reject, RejectReason, tag};

use crate::config::{BeginString, MSG_SEQ_NUM_MAX, Now, ThrottleAction, TooLow};
use crate::gap::Sign;
use crate::header::echo;
use crate::logon_fault::LogonFault;
use crate::outbox::Outbox;
use crate::received::{Class, Received};
use crate::rule_set::{Agreed, Checks};
use crate::session::Session;
use crate::state::State;
use crate::verdict::{Disconnect, Remark, Verdict};

impl Session {
    /// Handles one received message, and writes the answers to `out`. Afterwards, call
    /// [`Session::take_held`] until that method returns `None`.
    pub fn receive(&mut self, now: Now, message: &Message<'_>, out: &mut Outbox) -> Verdict {
        let verdict = self.by_state(now, &Received::new(message, false), out);
        self.after(now, verdict, out)
    }

    /// Completes the handling of a message or tick: requests more messages of a gap, and stores the
    /// reason if the session ends.
    #[inline]
    pub(crate) fn after(&mut self, now: Now, verdict: Verdict, out: &mut Outbox) -> Verdict {
        if self.is_vetoed {
            return self.end_vetoed();
        }
        // The most common verdict is returned as a constant. A copy would stall the processor,
        // which waits when a value written in several parts is read in one part.
        if verdict == Verdict::Deliver && self.gap.is_quiet() {
            return Verdict::Deliver;
        }
        if self.gap.is_quiet() && !matches!(verdict, Verdict::Disconnect(_)) {
            return verdict;
        }
        self.after_all(now, verdict, out)
    }

    /// Ends the connection after the application's hook has vetoed a message, as if the connection
    /// had broken.
    #[cold]
    fn end_vetoed(&mut self) -> Verdict {
        self.ended = Some(Disconnect::Vetoed);
        Verdict::Disconnect(Disconnect::Vetoed)
    }

    #[cold]
    fn after_all(&mut self, now: Now, verdict: Verdict, out: &mut Outbox) -> Verdict {
        let verdict = match verdict {
            Verdict::Disconnect(_) => verdict,
            _ => match self.pursue_gap(now, out) {
                Ok(()) => verdict,
                Err(why) => self.end(now, why, out),
            },
        };
        if self.is_vetoed {
            return self.end_vetoed();
        }
        if let Verdict::Disconnect(why) = verdict {
            self.ended = Some(why);
        }
        verdict
    }

    fn by_state(&mut self, now: Now, message: &Received<'_, '_>, out: &mut Outbox) -> Verdict {
        self.timers.received(now);
        let begin_string = self.config.id.begin_string;
        let before_logon = matches!(self.state, State::LogonAwaited | State::LogonSent);
        if message.begin_string() != begin_string.as_str().as_bytes() {
            return self.on_wrong_begin_string(now, out);
        }
        match (self.state, message.class) {
            (State::Disconnected, _) => return Verdict::Handled,
            // FIX Session: a Logon(A) is never resent. While logged on, a Logon(A) with
            // PossDupFlag(43)=Y is handled like any other duplicate.
            (State::Active | State::LogoutSent, Class::Logon) if message.poss_dup == Ok(true) => {}
            (_, Class::Logon) => return self.on_logon(now, message, out),
            (State::LogonSent, Class::Logout) => {}
            (State::LogonSent, _) if message.is_reject() => {
                return Verdict::Disconnect(Disconnect::LogonRefused(LogonFault::AnsweredByReject));
            }
            _ if before_logon => return Verdict::Disconnect(Disconnect::FirstMessageNotLogon),
            _ => {}
        }
        let seq = match message.seq {
            Ok(seq) if seq <= MSG_SEQ_NUM_MAX => seq,
            Ok(_) => return self.end(now, Disconnect::MsgSeqNumTooHigh, out),
            Err(_) => return self.end(now, unreadable_number(message), out),
        };
        self.by_number(now, seq, message, out)
    }

    /// Handles a held message that [`Session::take_held`] has returned. Its SendingTime(52) was
    /// already checked on arrival.
    pub fn receive_held(&mut self, now: Now, message: &Message<'_>, out: &mut Outbox) -> Verdict {
        let verdict = self.by_state(now, &Received::new(message, true), out);
        self.after(now, verdict, out)
    }

    /// Returns true if the message with the expected number is held.
    #[must_use]
    #[inline]
    pub fn holds_next(&self) -> bool {
        self.gap.holds(self.next_num_in)
    }

    /// Removes and returns the held message with the expected number. Parse the message and pass it
    /// to [`Session::receive_held`].
    pub fn take_held(&mut self) -> Option<Vec<u8>> {
        self.gap.take(self.next_num_in)
    }

    fn by_number(
        &mut self,
        now: Now,
        seq: u64,
        message: &Received<'_, '_>,
        out: &mut Outbox,
    ) -> Verdict {
        // FIX Session: a SequenceReset-Reset(4) is applied regardless of its MsgSeqNum(34).
        if message.class == Class::SequenceReset && message.raw(tag::GAP_FILL_FLAG) != Some(b"Y") {
            cold_path();
            let done = self.check(now, message).and_then(|()| self.on_sequence_reset(message));
            return match done {
                Ok(()) => Verdict::Handled,
                Err(reject) => self.refuse(now, message, reject, out),
            };
        }
        match seq.cmp(&self.next_num_in) {
            Ordering::Equal => self.expected(now, seq, message, out),
            Ordering::Greater if !self.config.numbers.request_missing => {
                self.next_num_in = seq;
                self.expected(now, seq, message, out)
            }
            Ordering::Greater => self.above(now, seq, message, out),
            Ordering::Less => self.below(now, seq, message, out),
        }
    }

    fn expected(
        &mut self,
        now: Now,
        seq: u64,
        message: &Received<'_, '_>,
        out: &mut Outbox,
    ) -> Verdict {
        let taken = match self.check_in_turn(now, message) {
            Ok(()) if message.class == Class::Application => {
                return self.take_application(now, seq, message, out);
            }
            Ok(()) => self.take(now, seq, message, out),
            Err(reject) => Err(reject),
        };
        match taken {
            Ok(verdict) => verdict,
            Err(reject) => {
                cold_path();
                // FIX Session: a rejected message still consumes its number.
                self.next_num_in = seq + 1;
                self.refuse(now, message, reject, out)
            }
        }
    }

    /// Checks a message with the expected number. An invalid Logout(5) still ends the session,
    /// because the counterparty sends no more messages afterwards.
    #[inline(always)]
    fn check_in_turn(&mut self, now: Now, message: &Received<'_, '_>) -> Result<(), Reject> {
        let checked = self.check(now, message);
        match checked {
            Err(fault) if message.class == Class::Logout => {
                cold_path();
                self.check_header(now, message)?;
                self.remark = Some(Remark::FaultyLogout(fault));
                Ok(())
            }
            checked => checked,
        }
    }

    /// Checks the header, then the dictionary. If the CompIDs are wrong, the message is rejected
    /// for this reason, whatever its other faults.
    #[inline(always)]
    fn check(&mut self, now: Now, message: &Received<'_, '_>) -> Result<(), Reject> {
        self.check_header(now, message)?;
        if let Some(field) = message.longer_than(self.config.protocol.field_bytes_max) {
            return Err(Reject::new(RejectReason::ValueOutOfRange, field.tag));
        }
        let begin_string = self.config.id.begin_string;
        let of_session = message.class != Class::Application;
        if of_session || begin_string != BeginString::Fixt11 {
            let Some(own) = &self.rules.own else { return Ok(()) };
            let Checks { session, application, .. } = &self.rules.checks;
            let switches = if of_session { session } else { application };
            return own.check(message, switches, &mut self.scratch);
        }
        let agreed = Agreed {
            begin_string,
            appl_ver_id: self.appl_ver_id,
            cstm_appl_ver_id: self.cstm_appl_ver_id.as_deref(),
        };
        self.rules.check_application(message, agreed, &mut self.scratch)
    }

    /// Handles a valid application message with the expected number.
    fn take_application(
        &mut self,
        now: Now,
        seq: u64,
        message: &Received<'_, '_>,
        out: &mut Outbox,
    ) -> Verdict {
        let action = self.too_many(now, message);
        self.next_num_in = seq + 1;
        action.map_or(Verdict::Deliver, |action| self.throttle(now, action, out))
    }

    /// Handles a valid administrative message with the expected number.
    fn take(
        &mut self,
        now: Now,
        seq: u64,
        message: &Received<'_, '_>,
        out: &mut Outbox,
    ) -> Result<Verdict, Reject> {
        let verdict = match message.class {
            // A Logon(A) reaches this match only if it is a duplicate.
            Class::Heartbeat | Class::Reject | Class::Logon => Verdict::Handled,
            Class::TestRequest => {
                self.answer_test_request(now, seq, message, out)?;
                Verdict::Handled
            }
            Class::ResendRequest => match self.resend_range(message)?.unwrap_or(Verdict::Handled) {
                Verdict::Disconnect(why) => {
                    self.next_num_in = seq + 1;
                    return Ok(self.end(now, why, out));
                }
                verdict => verdict,
            },
            Class::SequenceReset => {
                self.on_gap_fill(message)?;
                return Ok(Verdict::Handled);
            }
            Class::Logout => return Ok(self.on_logout(now, seq, out)),
            Class::Application => return Ok(self.take_application(now, seq, message, out)),
        };
        self.next_num_in = seq + 1;
        Ok(verdict)
    }

    /// Counts a new message toward the limit for its type. Returns the configured action if the
    /// limit is exceeded.
    #[inline]
    fn too_many(&mut self, now: Now, message: &Received<'_, '_>) -> Option<ThrottleAction> {
        if message.poss_dup == Ok(true) || message.was_held {
            return None;
        }
        self.throttles.count(now.monotonic_ns, message.msg_type().as_bytes())
    }

    #[cold]
    fn throttle(&mut self, now: Now, action: ThrottleAction, out: &mut Outbox) -> Verdict {
        match action {
            ThrottleAction::Reject => Verdict::Throttled,
            ThrottleAction::Disconnect => self.end(now, Disconnect::Throttling, out),
        }
    }

    /// Rejects a message for which the verdict was [`Verdict::Throttled`].
    pub fn refuse_throttled(&mut self, now: Now, message: &Message<'_>, out: &mut Outbox) {
        let seq = message.msg_seq_num().ok();
        self.business_reject(now, (message, seq), (0, "too many messages of this type"), out);
    }

    fn above(
        &mut self,
        now: Now,
        seq: u64,
        message: &Received<'_, '_>,
        out: &mut Outbox,
    ) -> Verdict {
        if message.class == Class::Logout {
            return self.on_logout(now, seq, out);
        }
        // FIX Session: a ResendRequest(2) is answered at once, even if its number is too high.
        // Otherwise two sides that both miss messages would wait for each other.
        let asks = message.class == Class::ResendRequest && self.check_header(now, message).is_ok();
        let kept = if asks { self.gap.settle(seq) } else { self.keep(now, seq, message) };
        // A message that is not held is lost, so the gap includes its number.
        let missing_to = if kept { seq - 1 } else { seq };
        let sign = if asks { Sign::Request } else { Sign::Message };
        if let Err(why) = self.request_gap(now, (missing_to, sign), out) {
            return self.end(now, why, out);
        }
        if asks {
            match self.resend_range(message) {
                Ok(Some(Verdict::Disconnect(why))) => return self.end(now, why, out),
                Ok(Some(resend)) => return resend,
                // The request is invalid or not answered now. When the gap is closed, the session
                // rejects or skips it.
                Ok(None) | Err(_) => {
                    self.gap.unsettle(seq);
                    self.keep(now, seq, message);
                }
            }
        }
        Verdict::Held
    }

    /// Holds a message with a number that is too high; returns true if the message is held.
    /// SendingTime(52) is checked now, on arrival. A message with a wrong time is not held: it is
    /// requested together with the gap, and resent with a new time.
    fn keep(&mut self, now: Now, seq: u64, message: &Received<'_, '_>) -> bool {
        self.check_sending_time(now, message).is_ok() && self.gap.hold(seq, message.bytes())
    }

    fn below(
        &mut self,
        now: Now,
        seq: u64,
        message: &Received<'_, '_>,
        out: &mut Outbox,
    ) -> Verdict {
        if message.poss_dup != Ok(true) {
            let why = Disconnect::MsgSeqNumTooLow { expected: self.next_num_in, received: seq };
            let low = Reject::new(RejectReason::ValueOutOfRange, tag::MSG_SEQ_NUM);
            return match self.config.numbers.too_low {
                TooLow::Logout => self.end(now, why, out),
                TooLow::Reject => self.refuse(now, message, low, out),
                TooLow::Ignore => Verdict::Handled,
            };
        }
        let comp_ids = match self.config.protocol.check_comp_ids {
            true => self.check_comp_ids(message),
            false => Ok(()),
        };
        // A SequenceReset(4) takes the place of other messages, so it has no original sending time.
        let original = || match message.class {
            Class::SequenceReset => Ok(()),
            _ => self.check_orig_sending_time(message),
        };
        match comp_ids.and_then(|()| original()) {
            Ok(()) => self.low_gap_fill(now, seq, message, out),
            Err(reject) => self.refuse(now, message, reject, out),
        }
    }

    /// Skips a message with a number that is too low as a possible duplicate. The exception is a
    /// SequenceReset-GapFill(4) that answers our request and ends above the expected number. Its
    /// first part was received before, for example in answer to an earlier request, and its
    /// remaining part is applied.
    fn low_gap_fill(
        &mut self,
        now: Now,
        seq: u64,
        message: &Received<'_, '_>,
        out: &mut Outbox,
    ) -> Verdict {
        let answers = message.class == Class::SequenceReset && self.gap.was_asked_for(seq);
        let new_seq_no = message.uint(tag::NEW_SEQ_NO).ok().filter(|_| answers);
        if new_seq_no == Some(self.next_num_in) {
            self.gap.note_filled(seq, self.next_num_in);
        }
        if new_seq_no.is_none_or(|new| new <= self.next_num_in) {
            return Verdict::Handled;
        }
        match self.check(now, message).and_then(|()| self.on_gap_fill(message)) {
            Ok(()) => Verdict::Handled,
            Err(reject) => self.refuse(now, message, reject, out),
        }
    }

    fn answer_test_request(
        &mut self,
        now: Now,
        seq: u64,
        message: &Received<'_, '_>,
        out: &mut Outbox,
    ) -> Result<(), Reject> {
        let id = match message.raw(tag::TEST_REQ_ID) {
            // A session that accepts empty values answers an empty TestReqID(112) with an empty
            // one.
            Some(b"") if !self.rules.checks.session.empty_values => b"",
            _ => message.required(tag::TEST_REQ_ID)?,
        };
        // The expected number advances before the answer is written, so that
        // LastMsgSeqNumProcessed(369) of the answer includes the request.
        self.next_num_in = seq + 1;
        self.write_admin(now, b"0", out, |body| {
            if id.is_empty() {
                body.fields_unchecked(b"112=\x01");
            } else {
                echo(body, tag::TEST_REQ_ID, id);
            }
        });
        Ok(())
    }

    #[cold]
    fn on_wrong_begin_string(&mut self, now: Now, out: &mut Outbox) -> Verdict {
        let why = Disconnect::BeginString(self.config.id.begin_string);
        match self.state {
            State::Active if self.config.protocol.silent_disconnect => Verdict::Disconnect(why),
            State::Active => {
                let text = why.to_string();
                self.write_logout(now, &text, Some(why), out);
                Verdict::Handled
            }
            // Even the answer to our Logout(5) may have the wrong BeginString(8), and still
            // completes the logout.
            State::LogoutSent | State::Disconnected => Verdict::Handled,
            _ => Verdict::Disconnect(why),
        }
    }
}

/// Returns the reason why MsgSeqNum(34) cannot be read: missing, not a number, or above 64 bits.
#[cold]
fn unreadable_number(message: &Received<'_, '_>) -> Disconnect {
    match message.raw(tag::MSG_SEQ_NUM) {
        Some(digits) if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
            Disconnect::MsgSeqNumTooHigh
        }
        _ => Disconnect::MsgSeqNumMissing,
    }
}
