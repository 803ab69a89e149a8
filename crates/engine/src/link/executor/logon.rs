//! The Logon(A) of a connection, which the application judges, or fills.

use transfix_codec::{Body, Message};
use transfix_session::{Now, Role, Verdict};

use super::Executor;
use crate::link::access::Access;
use crate::link::app_executor::judge;

impl Executor {
    /// Gives a message to the session; a Logon(A) that the session layer finds good to the
    /// application first. [`Verdict::LogonOffered`] if that answers later: then the message is to
    /// be given once more, when [`Core::hears_answer`](crate::link::core::Core::hears_answer).
    #[inline(always)]
    pub(crate) fn receive(&mut self, now: Now, message: &Message<'_>) -> Verdict {
        self.core.points.found(now);
        if message.msg_type() == b"A" && self.core.session.awaits_logon() {
            let verdict = self.receive_logon(now, message);
            self.core.note_failed(now, &verdict);
            return verdict;
        }
        self.core.receive(now, message)
    }

    #[cold]
    fn receive_logon(&mut self, now: Now, logon: &Message<'_>) -> Verdict {
        let is_offered = self.core.session.offer().is_some();
        if let Some(verdict) = self.core.receive_logon(now, logon) {
            return verdict;
        }
        if !is_offered {
            self.make_calls(now, None);
            let from = (self.core.id(), self.core.event_log.peer());
            let judged = self.application.ask(|application| judge(application, logon, from));
            self.core.note_judgement(now, judged);
        }
        if let Some(verdict) = self.core.judged_logon(now) {
            return verdict;
        }
        if self.core.session.config().role == Role::Acceptor {
            self.fill_logon(now);
        }
        self.core.accept_logon(now)
    }

    /// Lets the application add fields to our Logon(A).
    pub(super) fn fill_logon(&mut self, now: Now) {
        self.make_calls(now, None);
        let session = &self.core.session;
        let (mut fields, precision) = (Vec::new(), session.config().precision());
        let filled = self.application.ask(|application| {
            let fill = |body: &mut Body<'_>| {
                application.fill_logon(body, Access::to_see(session, now));
            };
            Body::detached(&mut fields, precision, fill)
        });
        self.core.set_logon_fields(now, filled.map(|()| fields));
    }
}
