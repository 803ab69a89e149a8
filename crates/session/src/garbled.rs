//! Answers garbled messages with Reject(3) if the settings require it. By default they are skipped,
//! as FIX Session demands.

use std::cmp::Ordering;

use transfix_codec::{Garbled, Reject, RejectReason, raw, tag, value};

use crate::config::{MSG_SEQ_NUM_MAX, Now, TooLow};
use crate::gap::Sign;
use crate::header::Rejected;
use crate::outbox::Outbox;
use crate::session::Session;
use crate::state::State;
use crate::verdict::{Disconnect, Verdict};

impl Session {
    /// Handles a garbled frame with a correct BodyLength(9). A frame with the expected
    /// MsgSeqNum(34) is answered with Reject(3), and its number is consumed. A higher number
    /// reveals a gap: the session requests the missing messages and the frame itself. All other
    /// garbled frames are skipped.
    pub fn receive_garbled(
        &mut self,
        now: Now,
        frame: &[u8],
        garbled: Garbled,
        out: &mut Outbox,
    ) -> Verdict {
        match (self.state, number_of(frame)) {
            (State::Active, Some(seq)) => self.receive_unread(now, (seq, frame), garbled, out),
            _ => Verdict::Handled,
        }
    }

    /// Handles a valid message that is too long to be parsed; only its first fields, `head`, are
    /// available. The message is answered like a garbled frame in [`Session::receive_garbled`],
    /// with two exceptions. A message without a number ends the session. A number that is too low
    /// also ends the session, unless `too_low` or PossDupFlag(43)=Y prevents this.
    pub fn receive_too_long(&mut self, now: Now, head: &[u8], out: &mut Outbox) -> Verdict {
        match (self.state, number_of(head)) {
            (State::Active, Some(seq)) => {
                self.receive_unread(now, (seq, head), Garbled::TooLong, out)
            }
            (State::Active, None) => self.refuse_message(now, Disconnect::MsgSeqNumMissing, out),
            _ => Verdict::Handled,
        }
    }

    /// Ends the session because of an unreadable message; sends a Logout(5) if the counterparty is
    /// logged on.
    pub fn refuse_message(&mut self, now: Now, why: Disconnect, out: &mut Outbox) -> Verdict {
        let verdict = match self.state {
            State::Active => self.end(now, why, out),
            _ => Verdict::Disconnect(why),
        };
        self.after(now, verdict, out)
    }

    fn receive_unread(
        &mut self,
        now: Now,
        (seq, frame): (u64, &[u8]),
        garbled: Garbled,
        out: &mut Outbox,
    ) -> Verdict {
        let numbers = self.config.numbers;
        // Only a message that is too long has a reliable number; in a damaged message, the number
        // itself may be damaged.
        let has_sure_number = garbled == Garbled::TooLong;
        let verdict = match seq.cmp(&self.next_num_in) {
            Ordering::Less
                if has_sure_number
                    && numbers.too_low == TooLow::Logout
                    && raw::first(frame, tag::POSS_DUP_FLAG) != Some(b"Y") =>
            {
                let expected = self.next_num_in;
                self.end(now, Disconnect::MsgSeqNumTooLow { expected, received: seq }, out)
            }
            Ordering::Less => Verdict::Handled,
            Ordering::Greater if numbers.request_missing => {
                match self.request_gap(now, (seq, Sign::Message), out) {
                    Ok(()) => Verdict::Held,
                    Err(why) => self.end(now, why, out),
                }
            }
            Ordering::Greater if !has_sure_number => Verdict::Handled,
            Ordering::Equal | Ordering::Greater => {
                self.next_num_in = seq + 1;
                self.reject_garbled(now, (seq, frame), garbled, out);
                Verdict::Handled
            }
        };
        self.after(now, verdict, out)
    }

    fn reject_garbled(
        &mut self,
        now: Now,
        (seq, frame): (u64, &[u8]),
        garbled: Garbled,
        out: &mut Outbox,
    ) {
        let msg_type = raw::first(frame, tag::MSG_TYPE).filter(|value| !value.is_empty());
        let reject = match garbled {
            Garbled::MsgType if msg_type.is_none() => {
                Reject::new(RejectReason::RequiredTagMissing, tag::MSG_TYPE)
            }
            Garbled::MsgType => Reject::new(RejectReason::TagOutOfOrder, tag::MSG_TYPE),
            Garbled::TooLong => Reject::new(RejectReason::ValueOutOfRange, tag::BODY_LENGTH),
            _ => Reject { reason: RejectReason::Other, tag: Some(tag::CHECK_SUM) },
        };
        let rejected =
            Rejected { seq, msg_type: msg_type.unwrap_or_default().into(), message: None };
        self.write_reject_of(now, rejected, reject, out);
    }
}

fn number_of(frame: &[u8]) -> Option<u64> {
    let seq = raw::first(frame, tag::MSG_SEQ_NUM).and_then(value::uint);
    seq.filter(|seq| (1..=MSG_SEQ_NUM_MAX).contains(seq))
}
