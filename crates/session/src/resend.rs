//! Requests for missing messages, resends of our messages, and SequenceReset(4) in both modes.

use transfix_codec::{Message, Reject, RejectReason, tag};

use crate::config::{MSG_SEQ_NUM_MAX, Now};
use crate::gap::{Ask, Sign};
use crate::outbox::Outbox;
use crate::received::Received;
use crate::session::Session;
use crate::state::State;
use crate::verdict::{Disconnect, Verdict};

impl Session {
    /// Requests the messages from the expected number to the end of `missing`, unless they were
    /// requested recently.
    pub(crate) fn request_gap(
        &mut self,
        now: Now,
        missing: (u64, Sign),
        out: &mut Outbox,
    ) -> Result<(), Disconnect> {
        let ask = self.gap.early(now.monotonic_ns, self.next_num_in, missing);
        self.ask(now, ask, out)
    }

    /// Updates the expected number after a message. Skips numbers above the gap that were already
    /// handled, and requests more of the gap if needed.
    pub(crate) fn pursue_gap(&mut self, now: Now, out: &mut Outbox) -> Result<(), Disconnect> {
        self.next_num_in = self.gap.expected(self.next_num_in);
        let ask = self.gap.advance(now.monotonic_ns, self.next_num_in);
        self.ask(now, ask, out)
    }

    fn ask(&mut self, now: Now, ask: Ask, out: &mut Outbox) -> Result<(), Disconnect> {
        match ask {
            // After our Logout(5) the request is sent too. If the numbers are reset at the end of
            // the connection, the missing messages cannot be requested later.
            Ask::For { end } if matches!(self.state, State::Active | State::LogoutSent) => {
                let begin = self.next_num_in;
                let end = end.unwrap_or_else(|| self.config.id.begin_string.open_end());
                self.write_admin(now, b"2", out, |body| {
                    body.uint(tag::BEGIN_SEQ_NO, begin).uint(tag::END_SEQ_NO, end);
                });
            }
            Ask::Nothing | Ask::For { .. } => {}
            Ask::GiveUp => return Err(Disconnect::ResendUnanswered),
        }
        Ok(())
    }

    /// Returns the numbers to resend for a ResendRequest(2), or `None` if the request is not
    /// answered. A request is not answered in three cases:
    ///
    /// - its range begins at our next number with an open end;
    /// - its range has only numbers from before a reset;
    /// - PossDupFlag(43) is Y, and the settings ignore such requests.
    ///
    /// Any other request for numbers that we have not used is rejected: the counterparty waits for
    /// messages that do not exist, and operators must compare the numbers.
    pub(crate) fn resend_range(
        &mut self,
        message: &Received<'_, '_>,
    ) -> Result<Option<Verdict>, Reject> {
        let begin = message.uint(tag::BEGIN_SEQ_NO)?;
        let asked_end = message.uint(tag::END_SEQ_NO)?;
        let policy = &self.config.resend;
        if !policy.answer_poss_dup && message.poss_dup? {
            return Ok(None);
        }
        let last = self.next_num_out - 1;
        // FIX 4.0 and 4.1 use 999999 for an open end, and some counterparties with newer versions
        // still do.
        let open = asked_end == 0 || asked_end == 999_999;
        if begin == 0 || (!open && begin > asked_end) {
            return Err(Reject::new(RejectReason::ValueOutOfRange, tag::BEGIN_SEQ_NO));
        }
        let end = if open { last } else { asked_end.min(last) };
        if begin > end && open && begin == self.next_num_out {
            return Ok(None);
        }
        // The counterparty may have sent the request before it learned of a reset. The request may
        // then begin with our next number of that time.
        if begin > end && begin <= self.last_before_reset + u64::from(open) {
            return Ok(None);
        }
        if begin > end {
            return Err(Reject::new(RejectReason::ValueOutOfRange, tag::BEGIN_SEQ_NO));
        }
        if policy.answered_max > 0 && end - begin >= u64::from(policy.answered_max) {
            return Err(Reject::new(RejectReason::ValueOutOfRange, tag::END_SEQ_NO));
        }
        let times =
            if self.asked.0 == begin && self.asked.1 == asked_end { self.asked.2 } else { 0 };
        self.asked = (begin, asked_end, times + 1);
        if policy.same_requests_max > 0 && times >= policy.same_requests_max {
            return Ok(Some(Verdict::Disconnect(Disconnect::ResendLoop)));
        }
        Ok(Some(Verdict::Resend { begin, end }))
    }

    /// Writes a stored message again, with its own number and fields, PossDupFlag(43)=Y,
    /// OrigSendingTime(122) and a new SendingTime(52). The frame is not journalled.
    pub fn resend(&mut self, now: Now, stored: &Message<'_>, out: &mut Outbox) {
        let (seq, precision) = (stored.msg_seq_num().unwrap_or(0), self.precision);
        let mut frame = self.begin_old(now, (stored.msg_type().as_bytes(), seq), out);
        // FIX Session: OrigSendingTime(122) is not later than SendingTime(52). The stored time
        // would be later if our clock was set back since then.
        if stored.timestamp(tag::SENDING_TIME).is_ok_and(|original| original > now.utc) {
            frame.header_timestamp(tag::ORIG_SENDING_TIME, now.utc, precision);
        } else {
            frame.raw(b"122=");
            frame.raw(stored.raw(tag::SENDING_TIME).unwrap_or_default());
            frame.raw(b"\x01");
        }
        for (n, field) in stored.fields().enumerate() {
            let replaced = field.tag == tag::LAST_MSG_SEQ_NUM_PROCESSED;
            if !tag::is_session_owned(field.tag) && !replaced {
                frame.raw(stored.encoded(n));
            }
        }
        let written = frame.finish();
        assert!(written.is_ok(), "a message of ours cannot be sent again: {written:?}");
        self.timers.sent(now);
    }

    /// Writes a SequenceReset-GapFill(4) for our numbers `begin` to `new_seq_no` - 1, none of which
    /// is to be resent. The frame is not journalled.
    pub fn gap_fill(&mut self, now: Now, begin: u64, new_seq_no: u64, out: &mut Outbox) {
        assert!(begin < new_seq_no && new_seq_no <= self.next_num_out, "a gap fill goes forward");
        let precision = self.precision;
        let mut frame = self.begin_old(now, (b"4", begin), out);
        frame.raw(&self.own_header);
        frame.header_timestamp(tag::ORIG_SENDING_TIME, now.utc, precision);
        let body = frame.body(precision);
        body.boolean(tag::GAP_FILL_FLAG, true).uint(tag::NEW_SEQ_NO, new_seq_no);
        let written = frame.finish();
        assert!(written.is_ok(), "a gap fill of ours is wrong: {written:?}");
        self.timers.sent(now);
    }

    /// Applies a SequenceReset-GapFill(4) that has the expected number.
    pub(crate) fn on_gap_fill(&mut self, message: &Message<'_>) -> Result<(), Reject> {
        let new_seq_no = message.uint(tag::NEW_SEQ_NO)?;
        if new_seq_no <= self.next_num_in || self.is_too_far(new_seq_no) {
            return Err(Reject::new(RejectReason::ValueOutOfRange, tag::NEW_SEQ_NO));
        }
        self.gap.note_filled(self.next_num_in, new_seq_no);
        self.next_num_in = new_seq_no;
        Ok(())
    }

    /// Applies a SequenceReset-Reset(4), which advances the expected number regardless of its own
    /// MsgSeqNum(34).
    pub(crate) fn on_sequence_reset(&mut self, message: &Message<'_>) -> Result<(), Reject> {
        let new_seq_no = message.uint(tag::NEW_SEQ_NO)?;
        if new_seq_no < self.next_num_in || self.is_too_far(new_seq_no) {
            return Err(Reject::new(RejectReason::ValueOutOfRange, tag::NEW_SEQ_NO));
        }
        self.next_num_in = new_seq_no;
        Ok(())
    }

    /// Returns true if NewSeqNo(36) advances the expected number too far. After a mistyped value,
    /// the numbers of all later messages would be too low.
    const fn is_too_far(&self, new_seq_no: u64) -> bool {
        let ahead = new_seq_no.saturating_sub(self.next_num_in);
        new_seq_no > MSG_SEQ_NUM_MAX || ahead > self.config.numbers.sequence_reset_max
    }
}
