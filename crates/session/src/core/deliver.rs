//! Messages of the counterparty on their way to the application, or on to another session.
//!
//! Invariant: the journal does not count a message that waits for the application: after a crash or
//! a disconnection it is asked for again.

use std::hint::cold_path;

use transfix_codec::{Message, tag};

use super::Core;
use super::event::CoreEvent;
use crate::answers::BusinessReject;
use crate::core::delivery::{Handling, Made, Offered};
use crate::{BeginString, Disconnect, LogonFault, Now, State, Verdict};

/// Longest Text(58) of a Logout(5) that is kept for the application.
const TEXT_BYTES_MAX: usize = 4 << 10;

/// The outcome of a delivery.
pub enum Delivered {
    /// The application has had it, or will never have it.
    Done,
    /// It is to be offered again.
    Later,
    /// It is not its turn: others are still with the application.
    Behind,
    /// Another session is to have it, and a thread has that session now: it is offered again soon.
    Busy,
}

/// The meaning of a number since its message came.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    Hold,
    /// They were reset, or are being reset: it names another message, or soon will.
    Reset,
}

impl Numbers {
    /// `seq`: as it is kept of a message that waits.
    pub const fn of(seq: u64) -> Self {
        if seq == 0 { Self::Reset } else { Self::Hold }
    }
}

/// The next step for a message whose turn it is.
pub enum Step<'m> {
    /// The application is to be called.
    Call,
    /// It is to be passed on to the session with this counterparty.
    Route(&'m [u8]),
    /// It is done, or is to wait.
    Over(Delivered),
}

impl Core {
    /// The outcome for a message whose turn it was: it may have to wait.
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

    /// An application in threads of its own has panicked.
    pub fn panicked(&mut self) -> Disconnect {
        self.answering.close();
        self.expected = self.delivery.has_panicked();
        Disconnect::Panicked
    }

    /// An application in threads of its own is not available for the first message that was handed
    /// over. Returns what becomes of the message if it is passed over.
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
                // A message of before a reset is offered again in the next connection.
                self.delivery.halt(now);
                return Err(self.give_up(now));
            }
            Offered::Rejected(reject) => Made::Rejected(reject),
            Offered::Taken => Made::Had,
        };
        self.delivery.pass_over();
        Ok(Some(passed_over))
    }

    /// The first call of an application in threads of its own has ended. Returns the number of the
    /// message if it counts: of a message that is rejected the counterparty must learn, else it
    /// comes again after the next logon.
    pub fn take_had(&mut self, made: &Made) -> Option<u64> {
        let had = self.delivery.take_had(made).filter(|had| had.is_message && !had.is_void)?;
        self.delivery.was_taken();
        self.answering.close();
        let is_connected = matches!(self.session.state(), State::Active | State::LogoutSent);
        let counts = is_connected || !matches!(made, Made::Rejected(_));
        counts.then_some(if had.is_counted { 0 } else { had.seq })
    }

    /// The application has had the message with this number, or 0 if that means nothing any more.
    pub fn note_had(&mut self, seq: u64) {
        // The connection ended before.
        if seq > 0 && seq == self.session.next_num_in() {
            self.session.set_next_num_in(seq + 1);
        }
    }

    /// The application was offered a message often enough.
    #[cold]
    pub fn give_up(&mut self, now: Now) -> Disconnect {
        let why = Disconnect::ApplicationNotAvailable;
        self.session.logout(now, &why.to_string(), &mut self.out);
        why
    }

    /// The next step for a message whose turn it is.
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
        // A reject cannot be rejected: who was refused must learn it at any hour.
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

    /// The application has answered a message that it was called for. Returns what becomes of it,
    /// if that is not done yet.
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
        // While a reset is only awaited, the number is still what the counterparty knows.
        let holds = numbers == Numbers::Hold || self.session.awaits_reset();
        let seq = message.msg_seq_num().ok().filter(|_| holds);
        match reject.fault {
            // A reject is never rejected.
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

    /// Lets a message wait for the application.
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

    /// The number of a message that waits; 0 if that means nothing once the numbers are reset,
    /// which is under way.
    pub fn number_of(&self, message: &Message<'_>) -> u64 {
        match self.session.awaits_reset() {
            true => 0,
            false => message.msg_seq_num().unwrap_or(1),
        }
    }

    /// Takes the words of the counterparty out of a Reject(3), BusinessMessageReject(j) or
    /// Logout(5). Returns true if it is a reject that is to be told.
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
        // A duplicate has been told before.
        let next = self.session.next_num_in();
        let seq = message.msg_seq_num();
        let is_new = seq.is_ok_and(|seq| self.expected <= seq && seq < next);
        let counts = is_new && matches!(verdict, Verdict::Handled | Verdict::Deliver);
        counts || refuses_logon
    }

    /// A message could not be passed on to the session with another counterparty.
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
