//! Delivery of received messages to the application, or to another session.
//!
//! Invariant: the journal does not count a message as received while the message waits for the
//! application. After a crash or a disconnect, the message is requested again.

use std::hint::cold_path;

use transfix_codec::{Message, tag};

use super::Core;
use super::event::CoreEvent;
use crate::answers::BusinessReject;
use crate::core::delivery::{Handling, Made, Offered};
use crate::{BeginString, Disconnect, LogonFault, Now, State, Verdict};

/// Maximum length of a Logout(5)'s Text(58) that is kept for the application, in bytes.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// The result of a delivery.
pub enum Delivered {
    /// The application has handled the message, or will never receive it.
    Done,
    /// The message will be delivered again later.
    Later,
    /// The message must wait, because the application is still handling earlier messages.
    Behind,
    /// The message is for another session, which is in use by another thread; its delivery is tried
    /// again soon.
    Busy,
}

/// Tells whether the sequence number of a message is still valid.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    Hold,
    /// The number is no longer valid: the numbers were reset, or a reset is in progress.
    Reset,
}

impl Numbers {
    /// Returns the meaning of the number `seq` that is stored with a waiting message.
    pub const fn of(seq: u64) -> Self {
        if seq == 0 { Self::Reset } else { Self::Hold }
    }
}

/// The next step for a message at the head of the queue.
pub enum Step<'m> {
    /// Call the application with the message.
    Call,
    /// Pass the message to the session whose counterparty has this CompID.
    Route(&'m [u8]),
    /// Do nothing more: the message is complete or must wait.
    Over(Delivered),
}

impl Core {
    /// Applies the result of a delivery; queues the message if it must wait.
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

    /// Records the panic of an application that runs in its own threads. Returns the reason for the
    /// disconnect.
    pub fn panicked(&mut self) -> Disconnect {
        self.answering.close();
        self.expected = self.delivery.has_panicked();
        Disconnect::Panicked
    }

    /// Handles a message that was passed to an application in its own threads, which answered that
    /// it is not available. Returns the result if the message is skipped.
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
                // A message from before a reset is delivered again in the next connection.
                self.delivery.halt(now);
                return Err(self.give_up(now));
            }
            Offered::Rejected(reject) => Made::Rejected(reject),
            Offered::Taken => Made::Had,
        };
        self.delivery.pass_over();
        Ok(Some(passed_over))
    }

    /// Removes the first call that was passed to an application in its own threads, after the call
    /// has ended. Returns the number of the message if the message counts as delivered. Without a
    /// connection, a rejected message does not count: it is requested again after the next logon.
    pub fn take_ended_call(&mut self, made: &Made) -> Option<u64> {
        let had =
            self.delivery.take_ended_call(made).filter(|had| had.is_message && !had.is_void)?;
        self.delivery.was_taken();
        self.answering.close();
        let is_connected = matches!(self.session.state(), State::Active | State::LogoutSent);
        let counts = is_connected || !matches!(made, Made::Rejected(_));
        counts.then_some(if had.is_counted { 0 } else { had.seq })
    }

    /// Counts the message with this number as delivered; 0 means that the number is no longer
    /// valid.
    pub fn note_had(&mut self, seq: u64) {
        // If the connection has ended, the expected number is again that of this message, which
        // would be requested again.
        if seq > 0 && seq == self.session.next_num_in() {
            self.session.set_next_num_in(seq + 1);
        }
    }

    /// Ends the session, because the last attempt to deliver a message has failed.
    #[cold]
    pub fn give_up(&mut self, now: Now) -> Disconnect {
        let why = Disconnect::ApplicationNotAvailable;
        self.session.logout(now, &why.to_string(), &mut self.out);
        why
    }

    /// Returns the next step for the message at the head of the queue.
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
        // A BusinessMessageReject(j) must not be rejected: the application must learn of a
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
        // While this side still waits for the counterparty's answer to a reset, the old number
        // remains valid for the counterparty.
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

    /// Returns the number to be stored with a waiting message; 0 means that a reset in progress
    /// will invalidate the number.
    pub fn number_of(&self, message: &Message<'_>) -> u64 {
        match self.session.awaits_reset() {
            true => 0,
            false => message.msg_seq_num().unwrap_or(1),
        }
    }

    /// Stores Text(58) of a Logout(5), or of a rejection of our Logon(A). Returns true if the
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
        // A duplicate of a rejection was already reported.
        let next = self.session.next_num_in();
        let seq = message.msg_seq_num();
        let is_new = seq.is_ok_and(|seq| self.expected <= seq && seq < next);
        let counts = is_new && matches!(verdict, Verdict::Handled | Verdict::Deliver);
        counts || refuses_logon
    }

    /// Rejects a message that is addressed to another session but could not be passed on.
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
