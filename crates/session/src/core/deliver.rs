//! Delivery of received messages to the application, or to another session.
//!
//! Invariant: the journal does not count a message that waits for the application. After a crash or
//! a disconnection the message is requested again.

use std::hint::cold_path;

use transfix_codec::{Message, tag};

use super::Core;
use super::event::CoreEvent;
use crate::answers::BusinessReject;
use crate::core::delivery::{Handling, Made, Offered};
use crate::{BeginString, Disconnect, LogonFault, Now, State, Verdict};

/// Longest Text(58) of a Logout(5) that is kept for the application, in bytes.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// The result of a delivery.
pub enum Delivered {
    /// The application has handled the message, or will never receive the message.
    Done,
    /// The message is offered again later.
    Later,
    /// The message must wait, because the application still handles earlier messages.
    Behind,
    /// The message is for another session that a thread is using now, and is offered again soon.
    Busy,
}

/// The validity of a message's number since the message was received.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    Hold,
    /// The numbers were reset, or a reset is under way: the number of the message is no longer
    /// valid.
    Reset,
}

impl Numbers {
    /// Returns the meaning of the stored number of a waiting message.
    pub const fn of(seq: u64) -> Self {
        if seq == 0 { Self::Reset } else { Self::Hold }
    }
}

/// The next step for a message at the head of the queue.
pub enum Step<'m> {
    /// Call the application.
    Call,
    /// Pass the message to the session with this counterparty.
    Route(&'m [u8]),
    /// Nothing more: the message is complete or must wait.
    Over(Delivered),
}

impl Core {
    /// Applies the result of a delivery: keeps the message if it must wait.
    #[inline(always)]
    pub fn delivered(
        &mut self,
        now: Now,
        (message, handling): (&Message<'_>, Handling),
        delivered: Delivered,
    ) -> Result<(), Disconnect> {
        match delivered {
            Delivered::Done => return Ok(()),
            Delivered::Later => self.delivery.offer_later(now),
            Delivered::Behind => {}
            Delivered::Busy => self.delivery.offer_soon(now),
        }
        self.postpone(message, handling)
    }

    /// Notes the panic of an application in its own threads.
    pub fn panicked(&mut self) -> Disconnect {
        self.answering.close();
        self.expected = self.delivery.has_panicked();
        Disconnect::Panicked
    }

    /// Handles the first passed message, for which an application in its own threads was not
    /// available. Returns the result if the message is skipped.
    pub fn not_available(
        &mut self,
        now: Now,
        reject: BusinessReject,
    ) -> Result<Option<Made>, Disconnect> {
        self.answering.close();
        let passed_over = match self.delivery.judge(Err(reject)) {
            Offered::Later => {
                self.delivery.halt(now);
                return Ok(None);
            }
            Offered::GivenUp => {
                // A message from before a reset is offered again in the next connection.
                self.delivery.halt(now);
                return Err(self.give_up(now));
            }
            Offered::Rejected(reject) => Made::Rejected(reject),
            Offered::Taken => Made::Had,
        };
        self.delivery.pass_over();
        Ok(Some(passed_over))
    }

    /// Removes the first call of an application in its own threads, which has ended. Returns the
    /// number of the message if the message counts as delivered. A rejected message does not count
    /// without a connection: the message is then requested again after the next logon.
    pub fn take_had(&mut self, made: &Made) -> Option<u64> {
        let had = self.delivery.take_had(made).filter(|had| had.is_message && !had.is_void)?;
        self.delivery.was_taken();
        self.answering.close();
        let is_connected = matches!(self.session.state(), State::Active | State::LogoutSent);
        let counts = is_connected || !matches!(made, Made::Rejected(_));
        counts.then_some(if had.is_counted { 0 } else { had.seq })
    }

    /// Counts the message with this number as delivered; 0 = the number is no longer valid.
    pub fn note_had(&mut self, seq: u64) {
        // The numbers are equal if the connection ended before, and the message would be requested
        // again.
        if seq > 0 && seq == self.session.next_num_in() {
            self.session.set_next_num_in(seq + 1);
        }
    }

    /// Ends the session after the last attempt to deliver a message.
    #[cold]
    pub fn give_up(&mut self, now: Now) -> Disconnect {
        let why = Disconnect::ApplicationNotAvailable;
        self.session.logout(now, &why.to_string(), &mut self.out);
        why
    }

    /// Returns the next step for a message at the head of the queue.
    #[inline(always)]
    pub fn step<'m>(
        &mut self,
        now: Now,
        (message, numbers): (&Message<'m>, Numbers),
        handling: Handling,
    ) -> Result<Step<'m>, Disconnect> {
        let is_behind = !self.delivery.rests();
        if handling == Handling::Reject {
            cold_path();
            if is_behind {
                return Ok(Step::Over(Delivered::Behind));
            }
            self.session.refuse_throttled(now, message, &mut self.out);
            let seq = message.msg_seq_num().unwrap_or(0);
            let text = "too many messages of this type".into();
            self.queue_event(now, CoreEvent::NotTaken { seq, reason: 0, text });
            return Ok(Step::Over(Delivered::Done));
        }
        let closed = self.schedule.refusal();
        // A BusinessMessageReject(j) must not be rejected: the application must learn of the
        // rejection at any time.
        if let Some(text) = closed.filter(|_| message.msg_type() != b"j") {
            cold_path();
            if is_behind {
                return Ok(Step::Over(Delivered::Behind));
            }
            let text = text.to_owned().into();
            let reject = BusinessReject { text, ..BusinessReject::not_available() };
            self.reject(now, (message, numbers), &reject);
            return Ok(Step::Over(Delivered::Done));
        }
        if self.options.routes
            && let Some(to) = message.raw(tag::DELIVER_TO_COMP_ID).filter(|to| !to.is_empty())
        {
            return Ok(if is_behind { Step::Over(Delivered::Behind) } else { Step::Route(to) });
        }
        match self.delivery.has_room() {
            None => {}
            Some(true) => self.answering.look_later(now),
            Some(false) if !self.delivery.waits_when_full() => return Err(self.give_up(now)),
            Some(false) => return Ok(Step::Over(Delivered::Behind)),
        }
        Ok(Step::Call)
    }

    /// Applies the application's answer to a message. Returns the result of the delivery if the
    /// message must wait.
    #[inline(always)]
    pub fn answered(
        &mut self,
        now: Now,
        (message, numbers): (&Message<'_>, Numbers),
        answer: Result<(), BusinessReject>,
    ) -> Result<Option<Delivered>, Disconnect> {
        match self.delivery.judge(answer) {
            Offered::Taken => {}
            Offered::Rejected(reject) => self.reject(now, (message, numbers), &reject),
            Offered::Later => return Ok(Some(Delivered::Later)),
            Offered::GivenUp => return Err(self.give_up(now)),
        }
        Ok(None)
    }

    #[cold]
    pub fn reject(
        &mut self,
        now: Now,
        (message, numbers): (&Message<'_>, Numbers),
        reject: &BusinessReject,
    ) {
        if let Some(error) = reject.cause {
            let seq = message.msg_seq_num().unwrap_or(0);
            self.queue_event(now, CoreEvent::NotAnswered { seq, why: error });
        }
        if reject.is_silent() {
            return;
        }
        let why = (reject.reason, reject.text.as_ref());
        // While a reset is only awaited, the number is still valid for the counterparty.
        let holds = numbers == Numbers::Hold || self.session.awaits_reset();
        let seq = message.msg_seq_num().ok().filter(|_| holds);
        match reject.fault {
            // A BusinessMessageReject(j) is never rejected.
            Some(fault) if seq.is_some() && message.msg_type() != b"j" => {
                self.session.reject(now, message, fault, &mut self.out);
                self.note_remarks(now);
            }
            _ => self.business_reject(now, (message, seq), why),
        }
    }

    fn business_reject(
        &mut self,
        now: Now,
        (message, seq): (&Message<'_>, Option<u64>),
        why: (u16, &str),
    ) {
        let before = self.out.entries().len();
        self.session.business_reject(now, (message, seq), why, &mut self.out);
        if self.out.entries().len() > before {
            let (seq, (reason, text)) = (message.msg_seq_num().unwrap_or(0), why);
            self.queue_event(
                now,
                CoreEvent::NotTaken { seq, reason, text: text.to_owned().into() },
            );
        }
    }

    /// Queues a message until the application can be called.
    #[cold]
    pub fn postpone(
        &mut self,
        message: &Message<'_>,
        handling: Handling,
    ) -> Result<(), Disconnect> {
        let seq = self.number_of(message);
        let config = self.session.config();
        let room = (config.protocol.held_messages_max, config.protocol.held_bytes_max);
        match self.delivery.postpone((seq, message), handling, room) {
            true => Ok(()),
            false => Err(Disconnect::ApplicationNotAvailable),
        }
    }

    /// Returns the number of a waiting message; 0 = a reset is under way, which will invalidate the
    /// number.
    pub fn number_of(&self, message: &Message<'_>) -> u64 {
        match self.session.awaits_reset() {
            true => 0,
            false => message.msg_seq_num().unwrap_or(1),
        }
    }

    /// Keeps Text(58) of a Logout(5), or of a rejection of our Logon(A). Returns true if the
    /// message is a rejection that must be reported to the application.
    pub fn apply(&mut self, message: &Message<'_>, verdict: &Verdict) -> bool {
        let refuses_logon =
            *verdict == Verdict::Disconnect(Disconnect::LogonRefused(LogonFault::AnsweredByReject));
        if message.msg_type() == b"5" || refuses_logon {
            let text = message.raw(tag::TEXT).filter(|text| !text.is_empty());
            self.logout_text = text.map(|text| text[..text.len().min(TEXT_BYTES_MAX)].to_vec());
            if !refuses_logon {
                return false;
            }
        }
        // A duplicate was reported before.
        let next = self.session.next_num_in();
        let seq = message.msg_seq_num();
        let is_new = seq.is_ok_and(|seq| self.expected <= seq && seq < next);
        let counts = is_new && matches!(verdict, Verdict::Handled | Verdict::Deliver);
        counts || refuses_logon
    }

    /// Rejects a message that could not be passed to the session with another counterparty.
    pub fn not_routed(&mut self, now: Now, message: &Message<'_>, why: &str) {
        self.queue_event(now, CoreEvent::NotRouted { why: why.to_owned() });
        // BusinessRejectReason(380): 7 is "DeliverTo firm not available", from FIX 4.3 on; 4 is
        // "application not available".
        let reason = if self.id().begin_string >= BeginString::Fix43 { 7 } else { 4 };
        let why = (reason, "DeliverToCompID(128) is not available at this time");
        let seq = message.msg_seq_num().ok();
        self.business_reject(now, (message, seq), why);
    }
}
