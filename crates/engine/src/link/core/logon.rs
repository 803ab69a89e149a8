//! The Logon(A) of a connection: judged, filled, accepted.

use std::panic::{AssertUnwindSafe, catch_unwind};

use transfix_codec::Message;
use transfix_session::{ApplVerId, Disconnect, Now, Role, State, Verdict};

use super::Core;
use crate::link::answers::LogonRefusal;
use crate::link::callbacks::Callbacks;
use crate::link::down::Down;
use crate::link::refusal::Refusal;

impl Core {
    /// Gives a message to the session; a good Logon(A) to the application first.
    #[inline]
    pub(crate) fn receive(&mut self, now: Now, message: &Message<'_>) -> Verdict {
        if message.msg_type() == b"A" && self.is_good_logon(now, message) {
            let is_judged = !self.judged.is_empty() && self.judged == message.bytes();
            if !is_judged && let Err(refused) = self.judge_logon(now, message) {
                return refused;
            }
            self.judged.clear();
            let begins = self.session.state() == State::LogonAwaited;
            if begins
                && self.options.refresh_on_logon
                && let Err(error) = self.refresh(now)
            {
                self.events.store_not_read(now, &error);
                return Verdict::Disconnect(Disconnect::StoreFailed);
            }
            if self.session.config().role == Role::Acceptor {
                self.fill_logon(now);
            }
        }
        self.expected = self.session.next_num_in();
        self.session.receive(now, message, &mut self.out)
    }

    /// Lets the application judge a good Logon(A); answers with the verdict if it refuses.
    fn judge_logon(&mut self, now: Now, logon: &Message<'_>) -> Result<(), Verdict> {
        let id = &self.session.config().id;
        let application = self.delivery.application();
        // Whoever knows two CompIDs can bring this about: it costs the connection, not the session.
        let judged = catch_unwind(AssertUnwindSafe(|| application.judge_logon(logon, id)));
        let judged = judged.unwrap_or_else(|_| {
            self.events.judging_panicked(now);
            Err(LogonRefusal::new("not available"))
        });
        let Err(refusal) = judged else { return Ok(()) };
        self.events.logon_refused(now, &refusal.text);
        Err(self.session.deny_logon(now, logon, &refusal.text, &mut self.out))
    }

    /// What a session that is to be made for this Logon(A) would make of it, but for its numbers.
    ///
    /// # Errors
    /// What is to be sent to somebody who is refused, and why.
    pub(crate) fn try_logon(
        mut self,
        now: Now,
        logon: &Message<'_>,
    ) -> Result<Box<dyn Callbacks>, Refusal> {
        // The lines about strangers are counted where they come in.
        self.events.fall_silent(now);
        // Its store is made for this alone, and has nothing to read again.
        self.connected(now).map_err(|_| Refusal::silent("its store has failed"))?;
        let refused = match self.is_good_logon(now, logon) {
            true => self.judge_logon(now, logon).err(),
            false => Some(self.session.receive(now, logon, &mut self.out)),
        };
        let Some(verdict) = refused else { return Ok(self.delivery.into_application()) };
        let why = match verdict {
            Verdict::Disconnect(reason) => reason.to_string(),
            _ => String::new(),
        };
        Err(Refusal { answer: self.out.bytes().to_vec(), why })
    }

    /// Whether the session layer would accept this Logon(A), which may say itself by which version
    /// it is to be judged.
    fn is_good_logon(&mut self, now: Now, message: &Message<'_>) -> bool {
        if matches!(self.session.state(), State::LogonAwaited | State::LogonSent) {
            let proposed = self.session.proposed_appl_ver_id(message);
            self.choose_rules(now, proposed.or(self.session.appl_ver_id()));
        }
        self.session.is_good_logon(now, message)
    }

    pub(super) fn fill_logon(&mut self, now: Now) {
        let (application, id) = (self.delivery.application(), self.session.config().id.clone());
        let filled = self.session.set_logon_fields(|body| application.fill_logon(body, &id));
        if let Err(error) = filled {
            self.events.logon_fields_left_out(now, error);
        }
    }

    pub(super) fn logged_on(&mut self, now: Now, message: &Message<'_>) -> Result<(), Down> {
        // A reset that came with the Logon(A) stands before it.
        let noted = self.put_entries(now).and_then(|()| self.journal.note_logon(now));
        noted.map_err(Down::Store)?;
        self.published.counters.logons.add(1);
        self.outgoing.begin_pause(now);
        self.note_state();
        // Once more: DefaultCstmApplVerID(1408) is agreed now.
        self.choose_rules(now, self.session.appl_ver_id());
        self.events.logged_on(now);
        self.with_application(now, |app, mut s| {
            app.on_admin(message, s.again());
            app.on_logon(s);
        });
        Ok(())
    }

    /// The numbers have begun again while the session is logged on.
    pub(super) fn reset(&mut self, now: Now, message: &Message<'_>) -> Result<(), Down> {
        self.put_entries(now).map_err(Down::Store)?;
        self.choose_rules(now, self.session.appl_ver_id());
        self.events.numbers_begin_again(now);
        self.with_application(now, |app, mut s| {
            app.on_admin(message, s.again());
            app.on_reset(s);
        });
        Ok(())
    }

    /// The rules of the version in force, which a FIXT.1.1 acceptor may learn from the Logon(A).
    pub(crate) fn choose_rules(&mut self, now: Now, version: Option<ApplVerId>) {
        let begin_string = self.id().begin_string;
        let source = self.options.dictionary.as_ref();
        let book = &self.rule_book;
        let own = book.rules(begin_string, version, source);
        let versions = self.options.appl_versions.iter();
        let others = versions.map(|(version, source)| {
            let rules = book.rules(begin_string, None, Some(source))?;
            Ok((version.as_bytes().into(), rules))
        });
        match own.and_then(|own| Ok((own, others.collect::<Result<Vec<_>, String>>()?))) {
            Ok((own, others)) => {
                self.session.set_rules(Some(own), self.options.checks);
                self.session.set_version_rules(others);
            }
            // The files were there at the start.
            Err(error) => self.events.no_rules(now, &error),
        }
    }
}
