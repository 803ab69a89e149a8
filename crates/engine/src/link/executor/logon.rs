//! Handles the Logon(A) of a connection: the application judges an inbound one, and adds fields to
//! ours.

use std::sync::mpsc::TryRecvError;

use transfix_codec::{Body, Message};
use transfix_session::core::judging::{LogonDecision, not_available};
use transfix_session::{ApplVerId, Now, Role, Verdict};

use super::Executor;
use crate::link::access::SessionAccess;
use crate::link::app_executor::judge;
use crate::link::callbacks::Judgement;
use crate::link::event::Event;

impl Executor {
    /// Passes a message to the session. If it is a Logon(A) that the session layer accepts, the
    /// application judges it first. Returns [`Verdict::LogonOffered`] if the application answers
    /// later; then call this method again after [`Executor::has_answer_now`] returns true.
    #[inline(always)]
    pub(crate) fn receive(&mut self, now: Now, message: &Message<'_>) -> Verdict {
        self.probe.found(now);
        if message.msg_type() == b"A" && self.core.session.awaits_logon() {
            let verdict = self.receive_logon(now, message);
            self.sinks.note_failed(now, &verdict);
            return verdict;
        }
        self.core.receive(now, message)
    }

    #[cold]
    fn receive_logon(&mut self, now: Now, logon: &Message<'_>) -> Verdict {
        let is_offered = self.core.session.offer().is_some();
        if !is_offered {
            // The Logon(A) may name the version by whose rules it must be validated.
            let proposed = self.core.session.proposed_appl_ver_id(logon);
            self.choose_rules(now, proposed.or(self.core.session.appl_ver_id()));
        }
        let verdict = self.core.receive_logon(now, logon);
        self.set_rules();
        if let Some(verdict) = verdict {
            return verdict;
        }
        if !is_offered {
            self.make_calls(now, None);
            let from = (self.core.id(), self.sinks.event_log.peer());
            let judged = self.application.ask(|application| judge(application, logon, from));
            self.judgement = None;
            let judged = match judged {
                Some(Judgement::Now(answer)) => Some(Some(answer)),
                Some(Judgement::Later(answer)) => {
                    self.judgement = Some(answer);
                    Some(None)
                }
                None => None,
            };
            self.core.note_judgement(now, judged);
        }
        let refreshes_until_ns = match self.core.judged_logon(now) {
            Ok(until_ns) => until_ns,
            Err(verdict) => return verdict,
        };
        if let Some(verdict) = self.refresh_for_logon(now, refreshes_until_ns) {
            return verdict;
        }
        if self.core.session.config().role == Role::Acceptor {
            self.fill_logon(now);
        }
        self.core.accept_logon(now)
    }

    /// Chooses the validation rules of `version`, which a FIXT.1.1 acceptor may learn from the
    /// Logon(A).
    pub(super) fn choose_rules(&mut self, now: Now, version: Option<ApplVerId>) {
        // An error is unexpected, because the start has read the files.
        if let Err(error) = self.rules.apply(&mut self.core.session, version) {
            self.tell(now, &Event::NoValidation { error });
        }
    }

    /// Passes the session's validation rules to the outbound filter.
    pub(super) fn set_rules(&self) {
        if let Some(filter) = &self.filter {
            filter.set_rules(&self.core.session);
        }
    }

    /// Returns true if the application has answered the Logon(A). During a refresh of the store,
    /// returns true if the refresh has ended.
    pub(crate) fn has_answer_now(&mut self) -> bool {
        match self.core.judging {
            LogonDecision::Refreshing(_) => self.journal.is_refreshed(),
            _ => self.hear_judgement(),
        }
    }

    /// Checks whether the application has answered the Logon(A). Returns true if the answer is
    /// available.
    #[cold]
    pub(super) fn hear_judgement(&mut self) -> bool {
        if self.core.judging.awaits_answer()
            && let Some(answer) = &self.judgement
        {
            match answer.try_recv() {
                Ok(answer) => self.core.judging.answer(answer),
                Err(TryRecvError::Disconnected) => self.core.judging.answer(Err(not_available())),
                Err(TryRecvError::Empty) => {}
            }
        }
        if !self.core.judging.awaits_answer() {
            self.judgement = None;
        }
        self.core.judging.has_answer()
    }

    /// Lets the application add fields to our Logon(A).
    pub(super) fn fill_logon(&mut self, now: Now) {
        self.make_calls(now, None);
        let session = &self.core.session;
        let (mut fields, precision) = (Vec::new(), session.config().precision());
        let filled = self.application.ask(|application| {
            let fill = |body: &mut Body<'_>| {
                application.fill_logon(body, SessionAccess::to_see(session, now));
            };
            Body::detached(&mut fields, precision, fill)
        });
        self.core.set_logon_fields(now, filled.map(|()| fields));
    }
}
