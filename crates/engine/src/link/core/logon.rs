//! The Logon(A) of a connection: judged, filled, accepted.

use transfix_codec::{Message, Misuse};
use transfix_session::{ApplVerId, Disconnect, Now, State, Verdict};
use transfix_store::StoreError;

use super::Core;
use crate::link::call::Call;
use crate::link::down::Down;
use crate::link::event::Event;
use crate::link::failed_logons::is_failed_logon;
use crate::link::judging::{self, Asked, Judgement, Judging};
use crate::link::told::SessionEvent;

impl Core {
    /// Gives a message to the session layer.
    #[inline(always)]
    pub(crate) fn receive(&mut self, now: Now, message: &Message<'_>) -> Verdict {
        self.expected = self.session.next_num_in();
        self.session.receive(now, message, &mut self.out)
    }

    /// Gives a message to the session layer that was kept above a gap.
    pub(crate) fn receive_held(&mut self, now: Now, message: &Message<'_>) -> Verdict {
        self.expected = self.session.next_num_in();
        let verdict = self.session.receive_held(now, message, &mut self.out);
        self.note_remarks(now);
        verdict
    }

    /// Gives a Logon(A) to the session layer. Returns what becomes of it, or `None` if the
    /// application is to be asked.
    pub(crate) fn receive_logon(&mut self, now: Now, logon: &Message<'_>) -> Option<Verdict> {
        self.expected = self.session.next_num_in();
        if self.session.offer().is_some() {
            return None;
        }
        // It may say itself by which version it is to be judged.
        let proposed = self.session.proposed_appl_ver_id(logon);
        self.choose_rules(now, proposed.or(self.session.appl_ver_id()));
        let verdict = self.session.receive(now, logon, &mut self.out);
        (verdict != Verdict::LogonOffered).then_some(verdict)
    }

    /// What becomes of a Logon(A) that the application has judged, or is judging; `None` if it is
    /// accepted.
    pub(crate) fn judged_logon(&mut self, now: Now) -> Option<Verdict> {
        let refreshes_until_ns = self.judging.refreshes_until_ns();
        match self.judging.take() {
            None => Some(Verdict::LogonOffered),
            Some(Ok(())) => self.refresh_for_logon(now, refreshes_until_ns),
            Some(Err(refusal)) => {
                self.tell(now, &Event::LogonRefused { why: &refusal.text });
                Some(self.session.deny_logon(now, &refusal.text, &mut self.out))
            }
        }
    }

    /// Counts a Logon(A) that was refused because it is not known who sent it.
    pub(crate) fn note_failed(&mut self, now: Now, verdict: &Verdict) {
        if let Verdict::Disconnect(why) = verdict
            && is_failed_logon(why)
            && let Some(watch) = self.watch.take()
        {
            watch.failed(now.monotonic_ns);
        }
    }

    /// The application was asked about the Logon(A). `None`: it has panicked.
    pub(crate) fn note_judgement(&mut self, now: Now, judged: Option<Judgement>) {
        self.judging = match judged {
            Some(Judgement::Now(answer)) => Judging::Answered(answer, Asked::Now),
            Some(Judgement::Later(answer)) => {
                Judging::Asked(answer, now.monotonic_ns + self.answer_ns())
            }
            None => {
                self.tell(now, &Event::JudgingPanicked);
                Judging::Answered(Err(judging::not_available()), Asked::Now)
            }
        };
    }

    /// Whether the application was asked about the Logon(A), and the session waits for its answer
    /// or has it.
    #[inline]
    pub(crate) const fn is_judging(&self) -> bool {
        self.judging.has_begun()
    }

    /// Whether this connection has let the application wait with its answer to the Logon(A).
    #[inline]
    pub(crate) const fn has_asked(&self) -> bool {
        self.judging.has_asked()
    }

    /// Whether the application's answer to the Logon(A) is there, and the store has been refreshed
    /// if that was begun.
    pub(crate) fn hears_answer(&mut self) -> bool {
        match self.judging {
            Judging::Refreshing(_) => self.journal.is_refreshed(),
            _ => self.judging.hear(),
        }
    }

    /// Refreshes the store for the Logon(A) of an acceptor, where that is wanted, until this moment
    /// of the monotonic clock if it was begun before. Returns what becomes of the Logon(A) if it
    /// cannot be accepted now.
    fn refresh_for_logon(&mut self, now: Now, until_ns: Option<u64>) -> Option<Verdict> {
        let begins = self.session.state() == State::LogonAwaited;
        if !begins || !self.options.refresh_on_logon {
            return None;
        }
        match self.refresh(now) {
            Ok(()) => None,
            Err(StoreError::NotYet) => {
                let until_ns = until_ns.unwrap_or(now.monotonic_ns + self.answer_ns());
                self.judging = Judging::Refreshing(until_ns);
                Some(Verdict::LogonOffered)
            }
            Err(error) => {
                self.tell(now, &Event::StoreNotRead(&error));
                Some(Verdict::Disconnect(Disconnect::StoreFailed))
            }
        }
    }

    /// The application has accepted the Logon(A).
    pub(crate) fn accept_logon(&mut self, now: Now) -> Verdict {
        self.expected = self.session.next_num_in();
        self.session.accept_logon(now, &mut self.out)
    }

    /// Our Logon(A) gets these encoded fields of the application.
    pub(crate) fn set_logon_fields(&mut self, now: Now, filled: Result<Vec<u8>, Misuse>) {
        let set = filled.and_then(|fields| {
            self.session.set_logon_fields(|body| _ = body.fields_unchecked(&fields))
        });
        if let Err(error) = set {
            self.tell(now, &Event::LogonFieldsLeftOut(error));
        }
    }

    pub(super) fn logged_on(&mut self, now: Now) -> Result<(), Down> {
        // A reset that came with the Logon(A) stands before it.
        let noted = self.put_entries(now).and_then(|()| self.journal.note_logon(now));
        noted.map_err(Down::Store)?;
        // The counterparty asks for them from now on.
        self.stored = None;
        self.published.counters.logons.add(1);
        self.published.note_heart_bt_int(self.session.agreed_heart_bt_int());
        if let Some(watch) = self.watch.take() {
            watch.succeeded();
        }
        self.outgoing.begin_pause(now);
        self.note_state(now);
        // Once more: DefaultCstmApplVerID(1408) is agreed now.
        self.choose_rules(now, self.session.appl_ver_id());
        self.tell(now, &Event::LoggedOn);
        if std::mem::take(&mut self.stored_at_logon) {
            // It shows the counterparty the gap behind our Logon(A), which it asks for at once.
            let _ = self.session.heartbeat(now, &mut self.out);
        }
        self.call_later(now, Call::AdminMessage);
        self.call_later(now, Call::Event(SessionEvent::LoggedOn));
        Ok(())
    }

    /// The numbers have begun again while the session is logged on.
    pub(super) fn reset(&mut self, now: Now) -> Result<(), Down> {
        self.put_entries(now).map_err(Down::Store)?;
        self.choose_rules(now, self.session.appl_ver_id());
        self.tell(now, &Event::NumbersBeginAgain);
        self.call_later(now, Call::AdminMessage);
        self.call_later(now, Call::Event(SessionEvent::NumbersReset));
        Ok(())
    }

    /// The rules of the version in force, which a FIXT.1.1 acceptor may learn from the Logon(A).
    pub(crate) fn choose_rules(&mut self, now: Now, version: Option<ApplVerId>) {
        // The files were there at the start.
        if let Err(error) = self.rules.apply(&mut self.session, version) {
            self.tell(now, &Event::NoValidation { error: &error });
        }
        if let Some(gate) = &self.gate {
            gate.set_rules(&self.session);
        }
    }
}
