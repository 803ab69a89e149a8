//! Logon(A) and Logout(5): the beginning and the end of a session.

use std::time::Duration;

use transfix_codec::{Body, Message, Reject, RejectReason, Scratch, tag};

use crate::config::{
    ApplVerId, BeginString, LogonConfig, MSG_SEQ_NUM_MAX, Now, Role, TooLowAtLogon,
};
use crate::gap::Sign;
use crate::logon_fault::LogonFault;
use crate::offer::Offer;
use crate::outbox::{Outbox, ResetCause};
use crate::received::Received;
use crate::renumber::Numbering;
use crate::reset::ResetEvent;
use crate::session::Session;
use crate::state::{Event, State};
use crate::verdict::{Disconnect, Remark, Verdict};

/// The form in which a Logon(A) is refused.
enum Refusal {
    /// The counterparty is not identified: the connection is closed without an answer.
    Silent(Disconnect),
    /// The Logon(A) is answered with a Logout(5) that states the reason.
    Spoken(Disconnect),
}

const fn spoken(why: LogonFault) -> Refusal {
    Refusal::Spoken(Disconnect::LogonRefused(why))
}

const fn silent(why: LogonFault) -> Refusal {
    Refusal::Silent(Disconnect::LogonRefused(why))
}

impl Session {
    pub(crate) fn on_logon(
        &mut self,
        now: Now,
        message: &Received<'_, '_>,
        out: &mut Outbox,
    ) -> Verdict {
        match (self.state, self.terms(now, message)) {
            (State::LogoutSent, Ok(terms)) if terms.resets => self.reset_at_the_end(&terms, out),
            // FIX Session: while logged on, a further Logon(A) can only begin a reset of both
            // numbers.
            (State::Active, Ok(terms)) if terms.resets => self.agree(now, terms, out),
            (State::Active | State::LogoutSent, _) => Verdict::Disconnect(Disconnect::SecondLogon),
            (_, Ok(terms)) => {
                self.offer = Some(terms);
                Verdict::LogonOffered
            }
            (_, Err(refusal)) => {
                let is_proven = self.proves_itself(message);
                self.refuse_logon(now, is_proven, refusal, out)
            }
        }
    }

    /// Returns true if the Logon(A) of this connection has not been received, or the application
    /// has not answered it.
    #[must_use]
    pub const fn awaits_logon(&self) -> bool {
        matches!(self.state, State::LogonAwaited | State::LogonSent)
    }

    /// Returns the Logon(A) that awaits the application's answer.
    #[must_use]
    pub const fn offer(&self) -> Option<&Offer> {
        self.offer.as_ref()
    }

    /// Removes and returns a Logon(A) that this session has checked, so that another session can
    /// answer it.
    pub const fn take_offer(&mut self) -> Option<Offer> {
        self.offer.take()
    }

    /// Sets a Logon(A) that another session with the same [`Config`](crate::Config) has checked, so
    /// that no further check is needed. Call this method after [`Session::connected`].
    pub fn set_offer(&mut self, offer: Offer) {
        self.offer = Some(offer);
    }

    /// Sets the result of checking Password(554) against the configured hash
    /// (`expected_password_hash`). This check is slow, so the driver performs it. Without a call of
    /// this method, the password counts as wrong. Call it after [`Session::connected`].
    pub const fn set_password_proof(&mut self, is_right: bool) {
        self.password_proof = is_right;
    }

    /// Accepts the Logon(A) for which the verdict was [`Verdict::LogonOffered`]. This method checks
    /// the sequence numbers, so the caller may set them before the call. If no Logon(A) awaits an
    /// answer, the method does nothing.
    pub fn accept_logon(&mut self, now: Now, out: &mut Outbox) -> Verdict {
        let Some(terms) = self.offer.take() else { return Verdict::Handled };
        // The counterparty was silent while the session waited for the application's answer, so the
        // timer for silence restarts.
        self.timers.received(now);
        let verdict = self.agree(now, terms, out);
        self.after(now, verdict, out)
    }

    /// Applies the terms of a Logon(A) if its sequence number is valid.
    fn agree(&mut self, now: Now, mut terms: Offer, out: &mut Outbox) -> Verdict {
        self.apply_reset(&mut terms, out);
        if let Some(why) = self.number_problem(&terms) {
            return self.refuse_logon(now, terms.is_proven, Refusal::Spoken(why), out);
        }
        self.cstm_appl_ver_id = terms.cstm_appl_ver_id.take();
        self.log_on(now, &terms, out)
    }

    /// Returns the application version that a Logon(A) names in a FIXT session; `None` if the
    /// settings do not permit the version. The rules of this version validate the Logon(A).
    #[must_use]
    pub fn proposed_appl_ver_id(&self, logon: &Message<'_>) -> Option<ApplVerId> {
        self.agreed_appl_ver_id(logon).ok().flatten()
    }

    /// Refuses the Logon(A) for which the verdict was [`Verdict::LogonOffered`]; sends a Logout(5)
    /// with this Text(58). If no Logon(A) awaits an answer, the method does nothing.
    pub fn deny_logon(&mut self, now: Now, text: &str, out: &mut Outbox) -> Verdict {
        let Some(terms) = self.offer.take() else { return Verdict::Handled };
        let why = Disconnect::LogonDenied;
        self.ended = Some(why);
        if !self.config.logon.quiet && !self.config.protocol.silent_disconnect {
            self.write_refusal(now, terms.is_proven, (text, why), out);
        }
        Verdict::Disconnect(why)
    }

    fn refuse_logon(
        &mut self,
        now: Now,
        is_proven: bool,
        refusal: Refusal,
        out: &mut Outbox,
    ) -> Verdict {
        match refusal {
            Refusal::Spoken(why) if !self.config.logon.quiet => {
                if !self.config.protocol.silent_disconnect {
                    self.write_refusal(now, is_proven, (&why.to_string(), why), out);
                }
                Verdict::Disconnect(why)
            }
            Refusal::Spoken(why) | Refusal::Silent(why) => Verdict::Disconnect(why),
        }
    }

    /// Writes the Logout(5) that refuses a Logon(A).
    ///
    /// For an acceptor, only a correct password identifies the sender. Without it, the Logout(5)
    /// consumes no sequence number and is not journalled. Otherwise any client that connects could
    /// advance our numbers and fill the store.
    fn write_refusal(
        &mut self,
        now: Now,
        is_proven: bool,
        (text, why): (&str, Disconnect),
        out: &mut Outbox,
    ) {
        let is_stranger =
            self.state == State::LogonAwaited && !self.config.logon.count_refusals && !is_proven;
        let (next_num_out, entries) = (self.next_num_out, out.entries.len());
        self.write_logout(now, text, Some(why), out);
        if is_stranger {
            self.next_num_out = next_num_out;
            out.entries.truncate(entries);
        }
    }

    /// Returns true if the settings require a password, and the Logon(A) contains this password.
    fn proves_itself(&self, logon: &Message<'_>) -> bool {
        self.config.logon.expects_password() && self.has_credentials(logon)
    }

    /// Returns true if the Logon(A) contains the Username(553) and Password(554) that the settings
    /// require.
    fn has_credentials(&self, logon: &Message<'_>) -> bool {
        let policy = &self.config.logon;
        let given = |tag| logon.raw(tag).unwrap_or_default();
        let username = policy.expected_username.as_ref();
        let password = policy.expected_password.as_ref();
        // All values are always compared, because the response time must not reveal which value is
        // wrong.
        let knows_name = username.is_none_or(|name| name.as_bytes() == given(tag::USERNAME));
        let knows_password = password.is_none_or(|password| password.is(given(tag::PASSWORD)));
        let has_proof = policy.expected_password_hash.is_none() || self.password_proof;
        knows_name & knows_password & has_proof
    }

    pub(crate) const fn is_live(&self) -> bool {
        matches!(self.state, State::Active | State::LogoutSent)
    }

    /// Applies the reset that the Logon(A) requests, or that an acceptor must request itself.
    fn apply_reset(&mut self, terms: &mut Offer, out: &mut Outbox) {
        let live = self.is_live();
        let unasked = terms.resets && !terms.answers_reset;
        if live && !unasked {
            // The Logon(A) answers our reset while logged on. Our numbers restarted with our
            // request; the counterparty's numbers restart now.
            self.next_num_in = 1;
            self.gap.give_up();
        } else if live || unasked {
            self.reset_numbers(ResetCause::Counterparty, out);
            if self.state == State::LogonSent {
                self.remark = Some(Remark::UnaskedReset);
            }
            // If our own Logon(A) is already sent, it counts as message 1 of the new numbering.
            self.next_num_out = if self.state == State::LogonSent { 2 } else { 1 };
        } else if self.state == State::LogonAwaited && self.still_resets(terms.seq) {
            // Our answer has ResetSeqNumFlag(141)=Y; the counterparty's Logon(A) counts as message
            // 1 of the new numbering.
            self.reset_numbers(ResetCause::Logon, out);
            (terms.seq, terms.resets, terms.requests_reset_in_answer, terms.next_expected) =
                (1, true, true, None);
        }
    }

    /// Handles a Logon(A) with ResetSeqNumFlag(141)=Y that was sent before the counterparty
    /// received our Logout(5). An answer to our reset is handled as usual. A request for a reset
    /// resets both numbers and ends the connection, because no Logon(A) with our number 1 may
    /// follow our Logout(5).
    fn reset_at_the_end(&mut self, terms: &Offer, out: &mut Outbox) -> Verdict {
        if terms.answers_reset {
            self.next_num_in = 2;
            self.gap.give_up();
            self.resets.settle();
            return Verdict::Handled;
        }
        self.reset_numbers(ResetCause::Counterparty, out);
        self.next_num_in = 2;
        self.resets.settle();
        Verdict::Disconnect(self.ending.unwrap_or(Disconnect::LoggedOut))
    }

    /// Returns the fault if the sequence numbers in an otherwise valid Logon(A) are wrong.
    fn number_problem(&mut self, terms: &Offer) -> Option<Disconnect> {
        let (expected, received) = (self.next_num_in, terms.seq);
        let policy = self.config.numbers;
        let low = Disconnect::MsgSeqNumTooLow { expected, received };
        // FIX Session: sequence numbers begin at 1, so 0 is never accepted.
        let accepts = policy.too_low_at_logon == TooLowAtLogon::Accept && received > 0;
        if received < expected && !accepts {
            return Some(low);
        }
        let gap_max = u64::from(policy.gap_at_logon_max);
        if gap_max > 0 && received > expected.saturating_add(gap_max) {
            return Some(Disconnect::MissedReset { expected, received });
        }
        let next = self.next_num_out;
        if let Some(received) = terms.next_expected.filter(|theirs| *theirs > next) {
            return Some(Disconnect::NextExpectedTooHigh { next, received });
        }
        // The expected number changes only after all checks, because a refused Logon(A) must not
        // change it.
        self.next_num_in = expected.min(received);
        None
    }

    fn log_on(&mut self, now: Now, terms: &Offer, out: &mut Outbox) -> Verdict {
        let was_live = self.is_live();
        let answers = match self.is_live() {
            true => !terms.answers_reset,
            false => self.config.role == Role::Acceptor,
        };
        self.appl_ver_id = terms.appl_ver_id;
        self.message_bytes_max = terms.message_bytes_max;
        if self.config.role == Role::Initiator || !self.config.timing.impose_heart_bt_int {
            self.timers.set_heart_bt_int(terms.heart_bt_int);
        }
        self.resets.settle();
        self.plan_reset(now);
        self.asked = (0, 0, 0);
        if !was_live {
            self.last_before_reset = 0;
        }
        self.transition(Event::LogonAccepted);
        self.was_active = true;
        let early = terms.seq > self.next_num_in;
        if !early {
            self.next_num_in += 1;
        }
        if answers {
            self.write_logon(now, Numbering::of(terms.resets), out);
            if self.is_vetoed {
                return Verdict::Disconnect(Disconnect::Vetoed);
            }
            // Our answer requests a reset that the Logon(A) did not request. Some initiators then
            // send another Logon(A).
            if terms.requests_reset_in_answer {
                self.resets.transition(ResetEvent::AnswerAsks);
            }
        }
        if early && !self.config.numbers.request_missing {
            self.next_num_in = terms.seq + 1;
        } else if early {
            self.gap.settle(terms.seq);
            let missing_to = terms.seq - 1;
            if terms.next_expected.is_some() {
                // Our NextExpectedMsgSeqNum(789) has already requested the missing messages.
                self.gap.note_asked(now.monotonic_ns, self.next_num_in, missing_to);
            } else if let Err(why) = self.request_gap(now, (missing_to, Sign::Message), out) {
                return self.end(now, why, out);
            }
        }
        let last = self.next_num_out - 1;
        match terms.next_expected {
            // `last` is the number of our Logon(A). If our Logon(A) is the answer, the
            // counterparty's Logon(A) was written earlier and cannot expect a higher number.
            Some(begin) if begin < last || (!answers && begin == last) => {
                Verdict::LoggedOnThenResend { begin, end: last }
            }
            _ if was_live => Verdict::Reset,
            _ => Verdict::LoggedOn,
        }
    }

    /// Checks a Logon(A), except for its sequence number, and returns the terms that it proposes.
    fn terms(&mut self, now: Now, message: &Received<'_, '_>) -> Result<Offer, Refusal> {
        let seq = message.seq.map_err(|_| silent(LogonFault::MsgSeqNumMissing))?;
        if seq > MSG_SEQ_NUM_MAX {
            return Err(silent(LogonFault::MsgSeqNumTooHigh));
        }
        self.check_comp_ids(message).map_err(|_| silent(LogonFault::CompId))?;
        self.check_sending_time(now, message).map_err(|_| silent(LogonFault::SendingTime))?;
        // Credentials are checked before all settings whose refusal would reveal facts about this
        // session to an unauthenticated client.
        if !self.is_live() && !self.has_credentials(message) {
            return Err(spoken(LogonFault::Credentials));
        }
        let policy = &self.config.logon;
        // A session cannot change the password in its settings. If it accepted NewPassword(925),
        // the next logon with the new password would fail.
        let new_password = message.raw(tag::NEW_PASSWORD).filter(|new| !new.is_empty());
        if policy.expects_password()
            && !self.is_live()
            && new_password.is_some_and(|new| message.raw(tag::PASSWORD) != Some(new))
        {
            return Err(spoken(LogonFault::NewPassword));
        }
        let encrypts = message.raw(tag::ENCRYPT_METHOD).is_some_and(|v| v != b"0");
        if encrypts && policy.check_encrypt_method {
            return Err(spoken(LogonFault::EncryptMethod));
        }
        let heart_bt_int = self.offered_heart_bt_int(message)?;
        let resets = message
            .flag(tag::RESET_SEQ_NUM_FLAG)
            .map_err(|_| spoken(LogonFault::ResetSeqNumFlag))?;
        let resets = resets && self.config.id.begin_string.has_reset_flag();
        // FIX Session: a reset takes effect with the Logon(A) itself, whose MsgSeqNum(34) must
        // therefore be 1.
        if resets && seq != 1 {
            return Err(spoken(LogonFault::ResetWithoutOne));
        }
        if let Some(is_test) = policy.test_message_indicator
            && message.flag(tag::TEST_MESSAGE_INDICATOR) != Ok(is_test)
        {
            return Err(spoken(LogonFault::TestMessageIndicator));
        }
        let message_bytes_max = message.uint(tag::MAX_MESSAGE_SIZE).ok().filter(|n| *n > 0);
        let message_bytes_max = message_bytes_max.and_then(|n| usize::try_from(n).ok());
        // FIX Session: a reset invalidates NextExpectedMsgSeqNum(789).
        let next_expected = if resets { None } else { self.next_expected(message)? };
        let appl_ver_id = self.agreed_appl_ver_id(message)?;
        let fixt = self.config.id.begin_string == BeginString::Fixt11;
        let cstm_appl_ver_id = message.raw(tag::DEFAULT_CSTM_APPL_VER_ID).filter(|_| fixt);
        self.check_logon(message)?;
        Ok(Offer {
            seq,
            heart_bt_int,
            resets,
            answers_reset: resets && self.is_reset_answered(),
            requests_reset_in_answer: false,
            appl_ver_id,
            cstm_appl_ver_id: cstm_appl_ver_id.map(Into::into),
            is_proven: self.proves_itself(message),
            message_bytes_max: message_bytes_max.unwrap_or(usize::MAX),
            next_expected,
        })
    }

    /// Validates the Logon(A) against the dictionary. This check is the last, because a refusal for
    /// invalid terms explains more than a reason from the dictionary.
    fn check_logon(&self, message: &Message<'_>) -> Result<(), Refusal> {
        let refused = |reject| Refusal::Spoken(Disconnect::LogonInvalid(reject));
        if let Some(field) = message.longer_than(self.config.protocol.field_bytes_max) {
            return Err(refused(Reject::new(RejectReason::ValueOutOfRange, field.tag)));
        }
        let Some(rules) = &self.rules.own else { return Ok(()) };
        rules.check(message, &self.rules.checks.logon, &mut Scratch::default()).map_err(refused)
    }

    fn offered_heart_bt_int(&self, message: &Message<'_>) -> Result<Duration, Refusal> {
        let seconds = message
            .uint(tag::HEART_BT_INT)
            .ok()
            .and_then(|s| u32::try_from(s).ok())
            .ok_or_else(|| spoken(LogonFault::HeartBtInt))?;
        let offered = Duration::from_secs(seconds.into());
        let timing = &self.config.timing;
        let max = Some(timing.heart_bt_int_max).filter(|max| !max.is_zero());
        let max = max.unwrap_or(Duration::MAX);
        match self.config.role {
            Role::Acceptor if !(timing.heart_bt_int_min..=max).contains(&offered) => {
                Err(spoken(LogonFault::HeartBtIntOutOfRange))
            }
            Role::Initiator
                if timing.same_heart_bt_int && offered != self.config.protocol.heart_bt_int =>
            {
                Err(spoken(LogonFault::HeartBtIntChanged))
            }
            _ => Ok(offered),
        }
    }

    fn next_expected(&self, message: &Message<'_>) -> Result<Option<u64>, Refusal> {
        let honoured =
            self.exchanges_next_expected() && message.raw(tag::NEXT_EXPECTED_MSG_SEQ_NUM).is_some();
        if !honoured {
            return Ok(None);
        }
        match message.uint(tag::NEXT_EXPECTED_MSG_SEQ_NUM) {
            Ok(next @ 1..) => Ok(Some(next)),
            _ => Err(spoken(LogonFault::NextExpectedMsgSeqNum)),
        }
    }

    fn exchanges_next_expected(&self) -> bool {
        self.config.numbers.next_expected && self.config.id.begin_string.has_next_expected()
    }

    fn agreed_appl_ver_id(&self, message: &Message<'_>) -> Result<Option<ApplVerId>, Refusal> {
        if self.config.id.begin_string != BeginString::Fixt11 {
            return Ok(None);
        }
        let named = message
            .uint(tag::DEFAULT_APPL_VER_ID)
            .map_err(|_| silent(LogonFault::DefaultApplVerIdMissing))?;
        let named = u8::try_from(named).ok().map(ApplVerId).filter(|id| id.dictionary().is_some());
        match (named, self.config.protocol.default_appl_ver_id) {
            (None, _) => Err(spoken(LogonFault::DefaultApplVerIdUnknown)),
            (Some(named), Some(ours)) if named != ours => {
                Err(spoken(LogonFault::DefaultApplVerIdOther))
            }
            (named, _) => Ok(named),
        }
    }

    pub(crate) fn write_logon(&mut self, now: Now, numbering: Numbering, out: &mut Outbox) {
        let version = self.config.id.begin_string;
        let fixt = version == BeginString::Fixt11;
        let heart_bt_int_s = self.timers.heart_bt_int().as_secs();
        let next_expected = self.exchanges_next_expected().then_some(self.next_num_in);
        let appl_ver_id = self.appl_ver_id;
        // The configuration is moved out of the session, because writing the message borrows the
        // whole session.
        let config = std::mem::take(&mut self.config.logon);
        let fields = std::mem::take(&mut self.logon_fields);
        self.write_admin(now, b"A", out, |body| {
            body.uint(tag::ENCRYPT_METHOD, 0).uint(tag::HEART_BT_INT, heart_bt_int_s);
            if numbering == Numbering::Restarted {
                body.boolean(tag::RESET_SEQ_NUM_FLAG, true);
            }
            if let Some(next) = next_expected {
                body.uint(tag::NEXT_EXPECTED_MSG_SEQ_NUM, next);
            }
            if config.max_message_size > 0 && version.has_last_processed() {
                body.uint(tag::MAX_MESSAGE_SIZE, config.max_message_size.into());
            }
            if version.has_credentials() {
                write_credentials(body, &config, version);
            }
            if let Some(id) = appl_ver_id.filter(|_| fixt) {
                body.uint(tag::DEFAULT_APPL_VER_ID, u64::from(id.0));
            }
            if let Some(id) = config.default_cstm_appl_ver_id.as_ref().filter(|_| fixt) {
                body.str(tag::DEFAULT_CSTM_APPL_VER_ID, id);
            }
            for (tag, value) in &config.fields {
                body.str(*tag, value);
            }
            body.fields_unchecked(&fields);
        });
        self.config.logon = config;
        self.logon_fields = fields;
    }

    /// Handles a Logout(5). A Logout(5) with a number that is too high also ends the session; the
    /// missing messages are requested after the next logon.
    pub(crate) fn on_logout(&mut self, now: Now, seq: u64, out: &mut Outbox) -> Verdict {
        // A Logout(5) that refuses our Logon(A) may or may not consume a number. We assume that it
        // does not; a consumed number is requested after the next logon. With the opposite
        // assumption, each later Logon(A) could be too low.
        if seq == self.next_num_in && self.state != State::LogonSent {
            self.next_num_in += 1;
        }
        match self.state {
            State::LogoutSent => Verdict::Disconnect(self.ending.unwrap_or(Disconnect::LoggedOut)),
            State::Active => {
                self.write_logout(now, "", None, out);
                Verdict::Disconnect(Disconnect::LoggedOut)
            }
            State::LogonSent | State::LogonAwaited | State::Disconnected => {
                Verdict::Disconnect(Disconnect::LogonRefused(LogonFault::AnsweredByLogout))
            }
        }
    }
}

/// Writes the fields for credentials and TestMessageIndicator(464), if the version supports these
/// fields.
fn write_credentials(body: &mut Body<'_>, config: &LogonConfig, version: BeginString) {
    if let Some(is_test) = config.test_message_indicator {
        body.boolean(tag::TEST_MESSAGE_INDICATOR, is_test);
    }
    if let Some(username) = &config.username {
        body.str(tag::USERNAME, username);
    }
    if let Some(password) = &config.password {
        body.str(tag::PASSWORD, password.reveal());
    }
    if let Some(password) = config.new_password.as_ref().filter(|_| version == BeginString::Fixt11)
    {
        body.str(tag::NEW_PASSWORD, password.reveal());
    }
}
