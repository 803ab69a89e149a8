//! The Logon(A) of a connection: judged, filled, accepted.

use transfix_codec::{Body, Message};
use transfix_session::{ApplVerId, Disconnect, Now, Role, State, Verdict};
use transfix_store::StoreError;

use super::Core;
use crate::link::callbacks::View;
use crate::link::down::Down;
use crate::link::event::Event;
use crate::link::failed_logons::is_failed_logon;
use crate::link::judging::{self, Asked, Judgement, Judging};
use crate::link::told::SessionEvent;

impl Core {
    /// Gives a message to the session; a Logon(A) that the session layer finds good to the
    /// application first. [`Verdict::LogonOffered`] if that answers later: then the message is to
    /// be given once more, when [`Core::hears_answer`].
    #[inline(always)]
    pub(crate) fn receive(&mut self, now: Now, message: &Message<'_>) -> Verdict {
        self.points.found(now);
        if message.msg_type() == b"A" && self.session.awaits_logon() {
            let verdict = self.receive_logon(now, message);
            self.note_failed(now, &verdict);
            return verdict;
        }
        self.expected = self.session.next_num_in();
        self.session.receive(now, message, &mut self.out)
    }

    #[cold]
    fn receive_logon(&mut self, now: Now, logon: &Message<'_>) -> Verdict {
        self.expected = self.session.next_num_in();
        if self.session.offer().is_none() {
            // It may say itself by which version it is to be judged.
            let proposed = self.session.proposed_appl_ver_id(logon);
            self.choose_rules(now, proposed.or(self.session.appl_ver_id()));
            let verdict = self.session.receive(now, logon, &mut self.out);
            if verdict != Verdict::LogonOffered {
                return verdict;
            }
            self.ask(now, logon);
        }
        let refreshes_until_ns = self.judging.refreshes_until_ns();
        match self.judging.take() {
            None => Verdict::LogonOffered,
            Some(Ok(())) => {
                let waits = self.refresh_for_logon(now, refreshes_until_ns);
                waits.unwrap_or_else(|| self.accept_logon(now))
            }
            Some(Err(refusal)) => {
                self.tell(now, &Event::LogonRefused { why: &refusal.text });
                self.session.deny_logon(now, &refusal.text, &mut self.out)
            }
        }
    }

    /// Counts a Logon(A) that was refused because it is not known who sent it.
    fn note_failed(&mut self, now: Now, verdict: &Verdict) {
        if let Verdict::Disconnect(why) = verdict
            && is_failed_logon(why)
            && let Some(watch) = self.watch.take()
        {
            watch.failed(now.monotonic_ns);
        }
    }

    /// Lets the application judge a Logon(A).
    fn ask(&mut self, now: Now, logon: &Message<'_>) {
        let from = (&self.session.config().id, self.event_log.peer());
        let judged = judging::ask(self.delivery.application(), logon, from);
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
    fn accept_logon(&mut self, now: Now) -> Verdict {
        if self.session.config().role == Role::Acceptor {
            self.fill_logon(now);
        }
        self.expected = self.session.next_num_in();
        self.session.accept_logon(now, &mut self.out)
    }

    pub(super) fn fill_logon(&mut self, now: Now) {
        let (mut fields, precision) = (Vec::new(), self.session.config().precision());
        let (application, view) = (self.delivery.application(), View::of(&mut self.session, now));
        let fill = |body: &mut Body<'_>| application.fill_logon(body, view);
        let filled = Body::detached(&mut fields, precision, fill);
        let filled = filled.and_then(|()| {
            self.session.set_logon_fields(|body| _ = body.fields_unchecked(&fields))
        });
        if let Err(error) = filled {
            self.tell(now, &Event::LogonFieldsLeftOut(error));
        }
    }

    pub(super) fn logged_on(&mut self, now: Now, message: &Message<'_>) -> Result<(), Down> {
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
        self.with_application(now, |app, mut s| {
            app.on_event(SessionEvent::AdminMessage(message), s.again());
            app.on_event(SessionEvent::LoggedOn, s);
        });
        Ok(())
    }

    /// The numbers have begun again while the session is logged on.
    pub(super) fn reset(&mut self, now: Now, message: &Message<'_>) -> Result<(), Down> {
        self.put_entries(now).map_err(Down::Store)?;
        self.choose_rules(now, self.session.appl_ver_id());
        self.tell(now, &Event::NumbersBeginAgain);
        self.with_application(now, |app, mut s| {
            app.on_event(SessionEvent::AdminMessage(message), s.again());
            app.on_event(SessionEvent::NumbersReset, s);
        });
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
