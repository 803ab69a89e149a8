//! Checks of the standard header, and the Reject(3) and Logout(5) that answer invalid messages.

use std::hint::cold_path;

use transfix_codec::{
    Body, Date, Message, MsgType, Reject, RejectReason, SOH, Tag, TimeOfDay, Timestamp, tag,
    validate, value,
};

use crate::config::{BeginString, Now};
use crate::outbox::{Kind, Outbox};
use crate::received::{Class, Received};
use crate::session::Session;
use crate::state::{Event, State};
use crate::verdict::{Disconnect, Remark, Verdict};

/// Routing fields that a Reject(3) returns in the opposite direction: a received OnBehalfOf* field
/// becomes a sent DeliverTo* field.
const REVERSE_ROUTE: [(Tag, Tag); 6] = [
    (tag::ON_BEHALF_OF_COMP_ID, tag::DELIVER_TO_COMP_ID),
    (tag::ON_BEHALF_OF_SUB_ID, tag::DELIVER_TO_SUB_ID),
    (tag::ON_BEHALF_OF_LOCATION_ID, tag::DELIVER_TO_LOCATION_ID),
    (tag::DELIVER_TO_COMP_ID, tag::ON_BEHALF_OF_COMP_ID),
    (tag::DELIVER_TO_SUB_ID, tag::ON_BEHALF_OF_SUB_ID),
    (tag::DELIVER_TO_LOCATION_ID, tag::ON_BEHALF_OF_LOCATION_ID),
];

/// The message to which a Reject(3) refers.
#[derive(Clone, Copy)]
pub(crate) struct Rejected<'m, 'a> {
    /// RefSeqNum(45); 0 if the number of the message is unreadable.
    pub(crate) seq: u64,
    /// RefMsgType(372); empty if the type of the message is unreadable.
    pub(crate) msg_type: MsgType<'m>,
    /// The parsed message, whose routing fields the Reject(3) returns; `None` if parsing failed.
    pub(crate) message: Option<&'m Message<'a>>,
}

impl Session {
    /// Checks SenderCompID(49), TargetCompID(56) and SendingTime(52). For a message with
    /// PossDupFlag(43)=Y, also checks OrigSendingTime(122).
    pub(crate) fn check_header(
        &mut self,
        now: Now,
        message: &Received<'_, '_>,
    ) -> Result<(), Reject> {
        if self.config.protocol.check_comp_ids && !self.has_usual_comp_ids(message) {
            cold_path();
            self.check_comp_ids(message)?;
            self.note_usual_comp_ids(message);
        }
        if !message.was_held {
            self.check_sending_time(now, message)?;
        }
        // A SequenceReset(4) takes the place of other messages, so it has no original sending time.
        if message.poss_dup? && message.class != Class::SequenceReset {
            cold_path();
            self.check_orig_sending_time(message)?;
        }
        Ok(())
    }

    /// Checks OrigSendingTime(122). FIX Session: a message with PossDupFlag(43)=Y has an
    /// OrigSendingTime(122) that is not later than its SendingTime(52).
    pub(crate) fn check_orig_sending_time(&self, message: &Message<'_>) -> Result<(), Reject> {
        let required = self.config.resend.orig_sending_time_required;
        if !required && message.raw(tag::ORIG_SENDING_TIME).is_none() {
            return Ok(());
        }
        let original = message.timestamp(tag::ORIG_SENDING_TIME)?;
        if original > message.timestamp(tag::SENDING_TIME)? {
            return Err(Reject::new(RejectReason::SendingTimeAccuracy, tag::ORIG_SENDING_TIME));
        }
        Ok(())
    }

    /// Returns true if the CompIDs are correct, and at the same field indexes as in the last
    /// message. Most counterparties order all headers alike, so this check rarely needs a search
    /// for a field.
    #[inline]
    fn has_usual_comp_ids(&self, message: &Message<'_>) -> bool {
        let known = |(n, field): &(usize, Vec<u8>)| {
            *n < message.len() && message.encoded(*n) == field.as_slice()
        };
        self.their_comp_ids.iter().all(known)
    }

    fn note_usual_comp_ids(&mut self, message: &Message<'_>) {
        for ((n, _), tag) in
            self.their_comp_ids.iter_mut().zip([tag::SENDER_COMP_ID, tag::TARGET_COMP_ID])
        {
            *n = message.tags().iter().position(|other| *other == tag).unwrap_or(usize::MAX);
        }
    }

    pub(crate) fn check_comp_ids(&self, message: &Message<'_>) -> Result<(), Reject> {
        let id = &self.config.id;
        let expected =
            [(tag::SENDER_COMP_ID, &id.target_comp_id), (tag::TARGET_COMP_ID, &id.sender_comp_id)];
        for (tag, expected) in expected {
            if message.required(tag)? != expected.as_bytes() {
                return Err(Reject::new(RejectReason::CompIdProblem, tag));
            }
        }
        Ok(())
    }

    pub(crate) fn check_sending_time(
        &mut self,
        now: Now,
        message: &Message<'_>,
    ) -> Result<(), Reject> {
        let sent = message.raw(tag::SENDING_TIME).and_then(|value| self.sent.parse(value));
        let Some(sent) = sent else { return self.check_unread_sending_time(message) };
        self.check_distance(now.utc.0.abs_diff(sent.0))
    }

    /// Checks a SendingTime(52) that could not be parsed: it is missing, malformed, or outside the
    /// range of a [`Timestamp`].
    #[cold]
    #[inline(never)]
    fn check_unread_sending_time(&self, message: &Message<'_>) -> Result<(), Reject> {
        if message.raw(tag::SENDING_TIME).is_some_and(is_beyond_our_range) {
            // The format is correct, but the year is outside the range, so the time differs by
            // centuries.
            return self.check_distance(u64::MAX);
        }
        message.timestamp(tag::SENDING_TIME).map(drop)
    }

    /// Checks `off_ns`, the difference between SendingTime(52) and our clock in nanoseconds.
    #[inline]
    fn check_distance(&self, off_ns: u64) -> Result<(), Reject> {
        if self.tolerance_ns > 0 && off_ns > self.tolerance_ns {
            cold_path();
            return Err(Reject::new(RejectReason::SendingTimeAccuracy, tag::SENDING_TIME));
        }
        Ok(())
    }

    /// Answers an invalid message with Reject(3), and also with Logout(5) if the standard ends the
    /// session.
    pub(crate) fn refuse(
        &mut self,
        now: Now,
        message: &Message<'_>,
        reject: Reject,
        out: &mut Outbox,
    ) -> Verdict {
        self.reject(now, message, reject, out);
        let (why, text) = match reject.reason {
            RejectReason::CompIdProblem => (Disconnect::CompId, "CompID problem"),
            RejectReason::SendingTimeAccuracy => {
                (Disconnect::SendingTime, "SendingTime(52) accuracy problem")
            }
            _ => return Verdict::Handled,
        };
        if self.state == State::Active {
            if self.config.protocol.silent_disconnect {
                return Verdict::Disconnect(why);
            }
            self.write_logout(now, text, Some(why), out);
        }
        Verdict::Handled
    }

    /// Writes a Reject(3) for `message`, unless `message` is itself a Reject(3), which is never
    /// answered.
    pub fn reject(&mut self, now: Now, message: &Message<'_>, reject: Reject, out: &mut Outbox) {
        let seq = message.msg_seq_num().unwrap_or(0);
        let rejected = Rejected { seq, msg_type: message.msg_type(), message: Some(message) };
        self.write_reject_of(now, rejected, reject, out);
    }

    pub(crate) fn write_reject_of(
        &mut self,
        now: Now,
        rejected: Rejected<'_, '_>,
        reject: Reject,
        out: &mut Outbox,
    ) {
        let begin_string = self.config.id.begin_string;
        let Rejected { seq, msg_type, message } = rejected;
        // Otherwise two sides could reject each other's Reject(3) forever.
        if msg_type == b"3" {
            self.remark = Some(Remark::FaultyReject(reject));
            return;
        }
        self.remark = Some(Remark::Rejected { seq, reject });
        self.write_reject(now, out, |body| {
            if let Some(message) = message {
                reverse_route(body, message, begin_string);
            }
            body.uint(tag::REF_SEQ_NUM, seq);
            if begin_string.has_reject_reason() {
                if let Some(tag) = ref_tag_id(message, reject) {
                    body.int(tag::REF_TAG_ID, tag);
                }
                echo(body, tag::REF_MSG_TYPE, msg_type.as_bytes());
            }
            if begin_string.knows(reject.reason) {
                body.uint(tag::SESSION_REJECT_REASON, reject.reason as u64);
            }
            let seq = Some(seq).filter(|seq| *seq > 0);
            // In FIX 4.0 and 4.1, a Reject(3) has no other field for the tag than Text(58).
            let tag = ref_tag_id(message, reject).or_else(|| {
                (reject.reason == RejectReason::InvalidMsgType).then_some(tag::MSG_TYPE.0.into())
            });
            write_text(body, format_args!("{}", reject.explained(tag, msg_type, seq)));
        });
    }

    /// Writes a BusinessMessageReject(j) for `message`, or a Reject(3) up to FIX 4.1, where
    /// BusinessMessageReject(j) does not exist. A BusinessMessageReject(j) is never rejected.
    ///
    /// `seq` is the number of `message`; `None` means that the numbers were reset since, so the
    /// number would name another message. BusinessMessageReject(j) then has no RefSeqNum(45).
    /// Reject(3) requires RefSeqNum(45), and is then not written. `reason` is
    /// BusinessRejectReason(380), for example 0 = other or 3 = unsupported message type.
    pub fn business_reject(
        &mut self,
        now: Now,
        (message, seq): (&Message<'_>, Option<u64>),
        (reason, text): (u16, &str),
        out: &mut Outbox,
    ) {
        // Otherwise two sides could reject each other's BusinessMessageReject(j) forever.
        if message.msg_type() == b"j" {
            return;
        }
        let begin_string = self.config.id.begin_string;
        if seq.is_none() && !begin_string.has_reject_reason() {
            return;
        }
        let fill = |body: &mut Body<'_>| {
            if let Some(seq) = seq {
                body.uint(tag::REF_SEQ_NUM, seq);
            }
            if begin_string.has_reject_reason() {
                echo(body, tag::REF_MSG_TYPE, message.msg_type().as_bytes());
                body.uint(tag::BUSINESS_REJECT_REASON, u64::from(reason));
            }
            write_text(body, format_args!("{text}"));
        };
        if begin_string.has_reject_reason() {
            let written = self.write(now, b"j", Kind::Application, out, fill);
            assert!(written.is_ok(), "a BusinessMessageReject(j) of ours is wrong: {written:?}");
        } else {
            self.write_reject(now, out, fill);
        }
    }

    fn write_reject(&mut self, now: Now, out: &mut Outbox, fill: impl FnOnce(&mut Body<'_>)) {
        let resent = self.config.resend.resend_rejects;
        let kind = if resent { Kind::Application } else { Kind::Admin };
        self.write_own(now, (b"3", kind), out, fill);
    }

    /// Writes a Logout(5). `ending` is the reason why this side ends the session; `None` if the
    /// application requested the logout, or the counterparty sent Logout(5) first.
    pub(crate) fn write_logout(
        &mut self,
        now: Now,
        text: &str,
        ending: Option<Disconnect>,
        out: &mut Outbox,
    ) {
        self.write_admin(now, b"5", out, |body| write_text(body, format_args!("{text}")));
        self.transition(Event::LogoutSent);
        self.timers.logout_sent(now);
        self.ending = self.ending.or(ending);
    }

    /// Writes a Logout(5) with the reason, and returns the verdict to disconnect without waiting
    /// for an answer.
    #[cold]
    pub(crate) fn end(&mut self, now: Now, why: Disconnect, out: &mut Outbox) -> Verdict {
        if self.config.protocol.silent_disconnect {
            return Verdict::Disconnect(why);
        }
        let text = why.to_string();
        self.write_logout(now, &text, Some(why), out);
        Verdict::Disconnect(why)
    }
}

/// Returns true if the value is a well-formed UTCTimestamp, but its year is outside the range of a
/// [`Timestamp`].
#[cold]
fn is_beyond_our_range(value: &[u8]) -> bool {
    let Some((date, [b'-', time @ ..])) = value.split_at_checked(8) else { return false };
    match (Date::parse(date), TimeOfDay::parse(time)) {
        (Some(date), Some(time)) => Timestamp::from_parts(date, time).is_none(),
        _ => false,
    }
}

/// Returns the value for RefTagID(371): the invalid tag, or the number in a malformed tag such as
/// -1.
fn ref_tag_id(message: Option<&Message<'_>>, reject: Reject) -> Option<i64> {
    let malformed = || validate::malformed_tag(message?).and_then(value::int);
    let invalid = reject.reason == RejectReason::InvalidTagNumber;
    reject.tag.map(|tag| i64::from(tag.0)).or_else(|| invalid.then(malformed).flatten())
}

/// Copies a value of the counterparty into one of our messages. An empty value, or a value with a
/// delimiter, is omitted, because it would make the message invalid.
pub(crate) fn echo(body: &mut Body<'_>, tag: Tag, value: &[u8]) {
    if !value.is_empty() && !value.contains(&SOH) {
        body.bytes(tag, value);
    }
}

fn reverse_route(body: &mut Body<'_>, message: &Message<'_>, begin_string: BeginString) {
    for (received, sent) in REVERSE_ROUTE {
        // FIX 4.0 does not define the routing fields for LocationIDs.
        let known = begin_string > BeginString::Fix40 || sent.0 < 144;
        if let Some(value) = message.raw(received).filter(|_| known) {
            echo(body, sent, value);
        }
    }
}

/// Writes Text(58), unless the text is empty. The text ends at the first delimiter.
fn write_text(body: &mut Body<'_>, text: std::fmt::Arguments<'_>) {
    let text = text.to_string();
    let text = text.split('\x01').next().unwrap_or_default();
    if !text.is_empty() {
        body.str(tag::TEXT, text);
    }
}
