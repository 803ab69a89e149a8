//! Operators' requests to a session: to change sequence numbers, and to send administrative
//! messages.

use transfix_codec::tag;

use crate::config::{MSG_SEQ_NUM_MAX, Now};
use crate::outbox::Outbox;
use crate::session::Session;
use crate::state::State;
use crate::verdict::OperateError;

/// Returns the number, or an error if it is not a valid MsgSeqNum(34).
fn checked(number: u64) -> Result<u64, OperateError> {
    match number {
        1..=MSG_SEQ_NUM_MAX => Ok(number),
        _ => Err(OperateError::MsgSeqNum(number)),
    }
}

impl Session {
    /// Sends a ResendRequest(2) for the counterparty's messages `begin` to `end`; for `end`, 0
    /// means all following messages. The session discards messages that it received before as
    /// duplicates.
    ///
    /// # Errors
    /// A number is out of range, or the session is not logged on; nothing was sent.
    pub fn request_resend(
        &mut self,
        now: Now,
        begin: u64,
        end: u64,
        out: &mut Outbox,
    ) -> Result<(), OperateError> {
        checked(begin)?;
        let end = match end {
            0 => self.config.id.begin_string.open_end(),
            end if end < begin => return Err(OperateError::EmptyRange),
            end => checked(end)?,
        };
        self.when_active(|session| {
            session.write_admin(now, b"2", out, |body| {
                body.uint(tag::BEGIN_SEQ_NO, begin).uint(tag::END_SEQ_NO, end);
            });
        })
    }

    /// Sends a Heartbeat(0) immediately.
    ///
    /// # Errors
    /// The session is not logged on; nothing was sent.
    pub fn heartbeat(&mut self, now: Now, out: &mut Outbox) -> Result<(), OperateError> {
        self.when_active(|session| session.write_admin(now, b"0", out, |_| ()))
    }

    /// Sends a TestRequest(1) with this TestReqID(112). The id is truncated at the first delimiter;
    /// an empty id becomes `TEST`.
    ///
    /// # Errors
    /// The session is not logged on; nothing was sent.
    pub fn test_request(
        &mut self,
        now: Now,
        id: &str,
        out: &mut Outbox,
    ) -> Result<(), OperateError> {
        let id = id.split('\x01').next().filter(|id| !id.is_empty()).unwrap_or("TEST");
        self.when_active(|session| {
            session.write_admin(now, b"1", out, |body| _ = body.str(tag::TEST_REQ_ID, id));
        })
    }

    /// Sends a SequenceReset-Reset(4), after which our next message has the number `new_seq_no`.
    /// Messages with skipped numbers can no longer be resent.
    ///
    /// # Errors
    /// The session is not logged on, or `new_seq_no` is not above our next number; nothing was
    /// sent.
    pub fn sequence_reset(
        &mut self,
        now: Now,
        new_seq_no: u64,
        out: &mut Outbox,
    ) -> Result<(), OperateError> {
        if checked(new_seq_no)? <= self.next_num_out {
            return Err(OperateError::NotAbove { next: self.next_num_out });
        }
        self.when_active(|session| {
            session.write_admin(now, b"4", out, |body| {
                body.boolean(tag::GAP_FILL_FLAG, false).uint(tag::NEW_SEQ_NO, new_seq_no);
            });
            if !session.is_vetoed {
                session.next_num_out = new_seq_no;
            }
        })
    }

    /// Sets the number of our next message without notifying the counterparty. A lower value reuses
    /// numbers, so use this method only for repair, after the operators of both sides have agreed
    /// on the number.
    ///
    /// # Panics
    /// If `next` is 0.
    pub fn set_next_num_out(&mut self, next: u64) {
        assert!(next > 0, "MsgSeqNum(34) counts from 1");
        self.resets.numbers_set();
        self.last_before_reset = self.last_before_reset.max(self.next_num_out - 1);
        self.next_num_out = next;
        self.at_connection.1 = next;
    }

    /// Sets the number that we expect in the counterparty's next message, without notifying the
    /// counterparty.
    ///
    /// # Panics
    /// If `next` is 0.
    pub fn set_next_num_in(&mut self, next: u64) {
        assert!(next > 0, "MsgSeqNum(34) counts from 1");
        self.resets.numbers_set();
        self.next_num_in = next;
        self.at_connection.0 = next;
        // If messages are missing now, the next message with a number that is too high reveals the
        // gap again.
        self.gap.clear();
    }

    fn when_active(&mut self, send: impl FnOnce(&mut Self)) -> Result<(), OperateError> {
        if self.state != State::Active {
            return Err(OperateError::NotLoggedOn);
        }
        send(self);
        if self.is_vetoed { Err(OperateError::Vetoed) } else { Ok(()) }
    }
}
