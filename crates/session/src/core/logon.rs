//! The handling of a Logon(A): the application's decision, its additional fields, and the
//! acceptance.

use transfix_codec::{Message, Misuse};

use super::Core;
use super::event::CoreEvent;
use crate::core::call::{Call, PlainEvent};
use crate::core::judging::{self, Answer, Asked, LogonDecision};
use crate::{Now, Verdict};

impl Core {
    /// Passes a message to the session layer.
    #[inline(always)]
    pub fn receive(&mut self, now: Now, message: &Message<'_>) -> Verdict {
        self.expected = self.session.next_num_in();
        self.session.receive(now, message, &mut self.out)
    }

    /// Passes a held message, received before a gap was closed, to the session layer.
    pub fn receive_held(&mut self, now: Now, message: &Message<'_>) -> Verdict {
        self.expected = self.session.next_num_in();
        let verdict = self.session.receive_held(now, message, &mut self.out);
        self.note_remarks(now);
        verdict
    }

    /// Passes a Logon(A) to the session layer. Returns the verdict, or `None` if the application
    /// must be asked.
    pub fn receive_logon(&mut self, now: Now, logon: &Message<'_>) -> Option<Verdict> {
        self.expected = self.session.next_num_in();
        if self.session.offer().is_some() {
            return None;
        }
        let verdict = self.session.receive(now, logon, &mut self.out);
        (verdict != Verdict::LogonOffered).then_some(verdict)
    }

    /// Takes the application's decision on a Logon(A). For an accepted Logon(A), returns the
    /// deadline for a refresh of the store if the refresh has begun.
    pub fn judged_logon(&mut self, now: Now) -> Result<Option<u64>, Verdict> {
        let refreshes_until_ns = self.judging.refreshes_until_ns();
        match self.judging.take() {
            None => Err(Verdict::LogonOffered),
            Some(Ok(())) => Ok(refreshes_until_ns),
            Some(Err(refusal)) => {
                self.queue_event(now, CoreEvent::LogonRefused { why: refusal.text.clone() });
                Err(self.session.deny_logon(now, &refusal.text, &mut self.out))
            }
        }
    }

    /// Records the application's decision on a Logon(A). `None` means that the application has
    /// panicked; `Some(None)` means that the application will answer later.
    pub fn note_judgement(&mut self, now: Now, judged: Option<Option<Answer>>) {
        self.judging = match judged {
            Some(Some(answer)) => LogonDecision::Answered(answer, Asked::Now),
            Some(None) => LogonDecision::Asked(now.monotonic_ns + self.answer_ns()),
            None => {
                self.queue_event(now, CoreEvent::JudgingPanicked);
                LogonDecision::Answered(Err(judging::not_available()), Asked::Now)
            }
        };
    }

    /// Returns true if the application was asked about the Logon(A).
    #[inline]
    pub const fn is_judging(&self) -> bool {
        self.judging.has_begun()
    }

    /// Returns true if the application was asked about the Logon(A) in an earlier turn of this
    /// connection.
    #[inline]
    pub const fn has_asked(&self) -> bool {
        self.judging.has_asked()
    }

    /// Accepts the Logon(A), after the application has accepted it.
    pub fn accept_logon(&mut self, now: Now) -> Verdict {
        self.expected = self.session.next_num_in();
        self.session.accept_logon(now, &mut self.out)
    }

    /// Adds encoded fields of the application to our Logon(A).
    pub fn set_logon_fields(&mut self, now: Now, filled: Result<Vec<u8>, Misuse>) {
        let set = filled.and_then(|fields| {
            self.session.set_logon_fields(|body| _ = body.fields_unchecked(&fields))
        });
        if let Err(error) = set {
            self.queue_event(now, CoreEvent::LogonFieldsLeftOut(error));
        }
    }

    /// Reports the logon, after the journal has recorded it.
    pub fn logged_on(&mut self, now: Now) {
        // From now on, the counterparty can request the messages that were stored without a logon.
        self.stored = None;
        self.outgoing.begin_pause(now);
        self.note_state();
        let heart_bt_int = self.session.agreed_heart_bt_int();
        self.queue_event(now, CoreEvent::LoggedOn { heart_bt_int });
        if std::mem::take(&mut self.stored_at_logon) {
            // The counterparty sees from the number of this Heartbeat(0) that stored messages are
            // missing after our Logon(A), and requests them at once.
            let _ = self.session.heartbeat(now, &mut self.out);
        }
        self.call_later(Call::AdminMessage);
        self.call_later(Call::Event(PlainEvent::LoggedOn));
    }

    /// Reports that the numbers were reset while logged on, after the journal has recorded the
    /// reset.
    pub fn reset(&mut self, now: Now) {
        self.queue_event(now, CoreEvent::NumbersBeginAgain);
        self.call_later(Call::AdminMessage);
        self.call_later(Call::Event(PlainEvent::NumbersReset));
    }
}
