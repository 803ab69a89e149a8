//! The effects of a verdict of the session layer.

use std::hint::cold_path;

use transfix_codec::Message;

use super::Core;
use super::event::CoreEvent;
use crate::core::call::{Call, PlainEvent};
use crate::{Disconnect, Now, Verdict};

impl Core {
    /// Carries out a verdict by which the application is not called with the message. The
    /// executor updates the journal and starts a resend. Not inlined: a message that is
    /// delivered, which is the usual one, does not walk over this code.
    #[inline(never)]
    pub fn carry_out(
        &mut self,
        now: Now,
        message: &Message<'_>,
        verdict: &Verdict,
    ) -> Result<(), Disconnect> {
        match *verdict {
            // The turn looks at it again when the application has answered.
            Verdict::LogonOffered => {}
            // Those that go there, or wait for it.
            Verdict::Deliver | Verdict::Throttled | Verdict::Held => {}
            // Not the application's: duplicates and rejected messages end here.
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

    /// Sends messages again from MsgSeqNum(34) `begin` on.
    pub fn start_replay(&mut self, now: Now, begin: u64, end: u64) {
        self.queue_event(now, CoreEvent::Resending { begin, end });
        let last = self.session.next_num_out() - 1;
        self.replay.start(begin, end, last, self.out.end());
        self.replay_ticket = self.watermarks.last_ticket();
    }

    /// Tells what the session layer has to remark.
    pub fn note_remarks(&mut self, now: Now) {
        while let Some(remark) = self.session.take_remark() {
            cold_path();
            self.queue_event(now, CoreEvent::Remark(remark));
        }
    }

    /// The counterparty has asked for messages: tells the application if it does so again and
    /// again.
    fn note_request(&mut self, now: Now) {
        let times = self.session.same_resend_requests();
        if times > 1 {
            self.queue_event(now, CoreEvent::AskedAgain { times });
            self.call_later(Call::Event(PlainEvent::ResendLoop { times }));
        }
    }
}
