//! What follows from a verdict of the session layer: for a message that has come in, then for those
//! that it has freed above a gap.
//!
//! Invariant: what the session layer has written for a message is put into the store's batch before
//! the next message has its turn.

use std::hint::cold_path;

use transfix_codec::{CheckSumPolicy, Message};
use transfix_session::{Disconnect, Now, Verdict};

use super::Core;
use crate::link::answers::Direction;
use crate::link::callbacks::View;
use crate::link::delivery::Handling;
use crate::link::down::Down;
use crate::link::event::Event;
use crate::link::told::SessionEvent;

impl Core {
    /// Carries out the session's verdict on `message`, then on the held messages it has freed.
    pub(crate) fn act(
        &mut self,
        now: Now,
        message: &Message<'_>,
        verdict: &Verdict,
        left: &mut u32,
    ) -> Result<(), Down> {
        self.published.received(now.utc, message.bytes().len());
        if self.delivery.wants_wire() {
            cold_path();
            let view = View::of(&mut self.session, now);
            self.delivery.show(Direction::Inbound, message.bytes(), view);
        }
        self.note_remarks(now);
        let acted = self.act_on_one(now, message, verdict);
        self.points.acted(now);
        acted?;
        if self.delivery.is_over() {
            cold_path();
            return Err(self.give_up(now));
        }
        self.act_on_held(now, left)
    }

    /// Carries out what the session makes of messages that were kept above a gap and have their
    /// turn now, as far as this turn still takes messages.
    #[inline]
    pub(crate) fn act_on_held(&mut self, now: Now, left: &mut u32) -> Result<(), Down> {
        if self.cut.is_none() && !self.session.holds_next() {
            return Ok(());
        }
        self.act_on_all_held(now, left)
    }

    #[cold]
    fn act_on_all_held(&mut self, now: Now, left: &mut u32) -> Result<(), Down> {
        while *left > 0
            && !self.is_behind()
            && let Some(held) = self.session.take_held()
        {
            *left -= 1;
            let mut index = std::mem::take(&mut self.held_index);
            let mut acted = Ok(());
            // It was whole and sound when it was kept.
            if let Ok(message) = Message::parse(&held, &mut index, CheckSumPolicy::Ignore) {
                self.expected = self.session.next_num_in();
                let verdict = self.session.receive_held(now, &message, &mut self.out);
                self.note_remarks(now);
                acted = self.act_on_one(now, &message, &verdict);
            }
            self.held_index = index;
            acted?;
        }
        self.cut.take().map_or(Ok(()), |reason| Err(Down::Session(reason)))
    }

    #[inline(always)]
    fn act_on_one(
        &mut self,
        now: Now,
        message: &Message<'_>,
        verdict: &Verdict,
    ) -> Result<(), Down> {
        if matches!(message.msg_type().as_bytes(), b"3" | b"5" | b"j") {
            cold_path();
            self.heed(now, message, verdict);
        }
        match verdict {
            Verdict::Deliver => self.deliver(now, message, Handling::Offer)?,
            other => self.carry_out(now, message, other)?,
        }
        self.put_entries(now).map_err(Down::Store)
    }

    /// Carries out any verdict. Not inlined: a message that is delivered, which is the usual one,
    /// does not walk over the code of the others.
    #[inline(never)]
    fn carry_out(
        &mut self,
        now: Now,
        message: &Message<'_>,
        verdict: &Verdict,
    ) -> Result<(), Down> {
        match *verdict {
            // The turn looks at it again when the application has answered.
            Verdict::LogonOffered => {}
            // Not from `act_on_one`, which delivers by itself.
            Verdict::Deliver => self.deliver(now, message, Handling::Offer)?,
            Verdict::Throttled => self.deliver(now, message, Handling::Reject)?,
            Verdict::Held => {}
            // Not the application's: duplicates and rejected messages end here.
            Verdict::Handled if message.msg_type().is_application() => {}
            Verdict::Handled => {
                self.points.heard(message);
                self.tell_admin_message(now, message);
            }
            Verdict::LoggedOn => self.logged_on(now, message)?,
            Verdict::Reset => self.reset(now, message)?,
            Verdict::LoggedOnThenResend { begin, end } => {
                // Before the application sends more, which is not asked for.
                self.start_replay(now, begin, end);
                self.logged_on(now, message)?;
            }
            Verdict::Resend { begin, end } => {
                self.published.counters.resend_requests_in.add(1);
                self.tell_admin_message(now, message);
                self.note_request(now);
                self.start_replay(now, begin, end);
            }
            Verdict::Disconnect(reason) => {
                self.tell_admin_message(now, message);
                if reason == Disconnect::ResendLoop {
                    self.published.counters.resend_requests_in.add(1);
                    self.note_request(now);
                }
                return Err(Down::Session(reason));
            }
        }
        Ok(())
    }

    fn tell_admin_message(&mut self, now: Now, message: &Message<'_>) {
        let event = SessionEvent::AdminMessage(message);
        self.with_application(now, |app, s| app.on_event(event, s));
    }

    fn start_replay(&mut self, now: Now, begin: u64, end: u64) {
        self.tell(now, &Event::Resending { begin, end });
        let last = self.session.next_num_out() - 1;
        self.replay.start(begin, end, last, self.out.end());
        self.replay_ticket = self.watermarks.last_ticket();
    }

    pub(super) fn note_remarks(&mut self, now: Now) {
        while let Some(remark) = self.session.take_remark() {
            cold_path();
            self.tell(now, &Event::Remark(remark));
        }
    }

    /// The counterparty has asked for messages: tells the application if it does so again and
    /// again.
    fn note_request(&mut self, now: Now) {
        let times = self.session.same_resend_requests();
        if times > 1 {
            self.tell(now, &Event::AskedAgain { times });
            let event = SessionEvent::ResendLoop { times };
            self.with_application(now, |app, s| app.on_event(event, s));
        }
    }
}
