//! Carries out the verdicts of the session layer.

use std::hint::cold_path;

use transfix_codec::Message;

use super::Core;
use super::event::CoreEvent;
use crate::core::call::{Call, PlainEvent};
use crate::{Disconnect, Now, Verdict};

impl Core {
    /// Carries out a verdict that does not deliver the message to the application. The executor
    /// updates the journal and starts a resend. The function is not inlined, so that the common
    /// path of delivered messages does not include this code.
    #[inline(never)]
    pub fn carry_out(
        &mut self,
        now: Now,
        message: &Message<'_>,
        verdict: &Verdict,
    ) -> Result<(), Disconnect> {
        match *verdict {
            // The turn continues with the Logon(A) when the application has answered.
            Verdict::LogonOffered => {}
            // Other code delivers, rejects or keeps these messages.
            Verdict::Deliver | Verdict::Throttled | Verdict::Held => {}
            // The application does not receive duplicates and rejected messages.
            Verdict::Handled if message.msg_type().is_application() => {}
            Verdict::Handled => self.call_later(Call::AdminMessage),
            Verdict::LoggedOn | Verdict::LoggedOnThenResend { .. } => self.logged_on(now),
            Verdict::Reset => self.reset(now),
            Verdict::Resend { .. } => {
                self.call_later(Call::AdminMessage);
                self.note_request(now);
            }
            Verdict::Disconnect(reason) => {
                self.call_later(Call::AdminMessage);
                if reason == Disconnect::ResendLoop {
                    self.note_request(now);
                }
                return Err(reason);
            }
        }
        Ok(())
    }

    /// Starts a resend of our messages `begin` to `end`.
    pub fn start_replay(&mut self, now: Now, begin: u64, end: u64) {
        self.queue_event(now, CoreEvent::Resending { begin, end });
        let last = self.session.next_num_out() - 1;
        self.replay.start(begin, end, last, self.out.end());
        self.replay_ticket = self.watermarks.last_ticket();
    }

    /// Queues the remarks of the session layer as events.
    pub fn note_remarks(&mut self, now: Now) {
        while let Some(remark) = self.session.take_remark() {
            cold_path();
            self.queue_event(now, CoreEvent::Remark(remark));
        }
    }

    /// Reports a repeated ResendRequest(2) to the application.
    fn note_request(&mut self, now: Now) {
        let times = self.session.same_resend_requests();
        if times > 1 {
            self.queue_event(now, CoreEvent::AskedAgain { times });
            self.call_later(Call::Event(PlainEvent::ResendLoop { times }));
        }
    }
}
