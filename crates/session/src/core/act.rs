//! Carries out the verdicts of the session layer.

use std::hint::cold_path;

use transfix_codec::Message;

use super::Core;
use super::event::CoreEvent;
use crate::core::call::{Call, PlainEvent};
use crate::{Disconnect, Now, Verdict};

impl Core {
    /// Carries out a verdict that does not deliver a message to the application. The executor
    /// updates the journal and starts a resend. The function is not inlined, so that the common
    /// path of delivered messages stays free of this code.
    #[inline(never)]
    pub fn carry_out(
        &mut self,
        now: Now,
        message: &Message<'_>,
        verdict: &Verdict,
    ) -> Result<(), Disconnect> {
        match *verdict {
            // The session continues with this Logon(A) when the application has answered.
            Verdict::LogonOffered => {}
            // Other code delivers, rejects or holds messages with these verdicts.
            Verdict::Deliver | Verdict::Throttled | Verdict::Held => {}
            // The application does not receive an application message that is a duplicate or was
            // rejected.
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

    /// Starts a resend of our messages from number `begin` to `end`.
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

    /// Reports a ResendRequest(2) that the counterparty repeats to the application.
    fn note_request(&mut self, now: Now) {
        let times = self.session.same_resend_requests();
        if times > 1 {
            self.queue_event(now, CoreEvent::AskedAgain { times });
            self.call_later(Call::Event(PlainEvent::ResendLoop { times }));
        }
    }
}
