//! The session of one administrator, from its Logon(A) to its end.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use transfix::{
    Actor, Application, BusinessReject, LogonAttempt, LogonRefusal, Message, SessionEvent,
    SessionId, SessionNotice, SessionRef, SessionView, tag,
};

use crate::fix::administrators::{Administrators, LoggedOnUser};
use crate::fix::answer::{CommandResult, Refused, ResultCode, response};
use crate::fix::command_text::ParsedCommand;
use crate::fix::commands::{role_of, run};
use crate::fix::message::{self, monitoring_id};
use crate::fix::own::OwnRequest;
use crate::fix::request::Element;
use crate::fix::xml::parse;
use crate::users::Role;

/// Maximum length of an answer, in bytes of XML.
const ANSWER_MAX: usize = 16 << 20;

/// The application that runs the commands of an administrator's session.
pub(crate) struct Administrator {
    administrators: Arc<Administrators>,
    known: Option<LoggedOnUser>,
    peer: Option<SocketAddr>,
}

impl Administrator {
    pub(crate) const fn new(administrators: Arc<Administrators>) -> Self {
        Self { administrators, known: None, peer: None }
    }

    /// Runs the command in a message; returns the RequestID and the result.
    fn answer(
        &self,
        received: &Message<'_>,
        session: &SessionRef<'_>,
    ) -> (Option<i64>, Result<CommandResult, Refused>) {
        if received.msg_type() != message::TYPE.as_bytes() {
            let why = "the message has no command; send an XMLnonFIX(n) with the command as \
                       XmlData(213)";
            return (None, Err(Refused::rejected(why)));
        }
        let Some(xml) = received.raw(tag::XML_DATA).filter(|xml| !xml.is_empty()) else {
            return (None, Err(Refused::invalid("XmlData(213) is missing")));
        };
        let monitoring_id = match monitoring_id(received) {
            Ok(id) => id,
            Err(why) => return (None, Err(Refused::invalid(why))),
        };
        let asks = self.actor();
        carry_out(&self.administrators, session.id(), (xml, monitoring_id), asks)
    }

    /// Returns the user of the session and the user's current role.
    fn actor(&self) -> Result<(Actor, Role), Refused> {
        let out = || Refused::rejected("your user was removed or may no longer log on");
        let known = self.known.as_ref().ok_or_else(out)?;
        let role = self.administrators.role(known, self.peer).ok_or_else(out)?;
        let from = self.peer.map_or_else(|| "fix".to_owned(), |peer| format!("fix {peer}"));
        Ok((Actor::new(&*known.name, from), role))
    }
}

/// Runs a command; returns its RequestID and the result.
pub(super) fn carry_out(
    administrators: &Administrators,
    session: &SessionId,
    (xml, monitoring_id): (&[u8], Option<&str>),
    asks: Result<(Actor, Role), Refused>,
) -> (Option<i64>, Result<CommandResult, Refused>) {
    let document = match parse(xml) {
        Ok(document) => document,
        Err(why) => return (None, Err(Refused::invalid(why))),
    };
    let element = Element::of(document.root_element());
    let request_id = match element.attribute("RequestID").map(str::parse) {
        None => None,
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => return (None, Err(Refused::invalid("RequestID must be a whole number"))),
    };
    let (actor, role) = match asks {
        Ok(known) => known,
        Err(refused) => return (request_id, Err(refused)),
    };
    let name = element.name();
    let may = role_of(administrators, name).and_then(|needed| match role >= needed {
        true => Ok(()),
        false => {
            let who = &actor.who;
            let why = format!("{who} may not do this: {name} needs the role {needed}");
            administrators.refusals.note(&actor, name, &why);
            Err(Refused::rejected(why))
        }
    });
    let outcome = may.and_then(|()| match administrators.own.role(name) {
        Some(_) => {
            let xml = document.input_text();
            administrators
                .own
                .run(name, &OwnRequest { xml, actor: &actor, role, admin: &administrators.admin })
        }
        None => run(&ParsedCommand {
            administrators,
            session,
            actor: &actor,
            element,
            request_id,
            monitoring_id,
        }),
    });
    (request_id, outcome)
}

impl Application for Administrator {
    fn judge_logon(
        &mut self,
        logon: &Message<'_>,
        attempt: &mut LogonAttempt<'_>,
    ) -> Result<(), LogonRefusal> {
        self.known = None;
        self.peer = attempt.peer();
        let text = |tag| std::str::from_utf8(logon.raw(tag).unwrap_or_default());
        let (Ok(name), Ok(password)) = (text(tag::USERNAME), text(tag::PASSWORD)) else {
            return Err(LogonRefusal::new("Username(553) or Password(554) is not UTF-8"));
        };
        let known =
            self.administrators.log_on((name, password), self.peer).map_err(LogonRefusal::new)?;
        self.known = Some(known);
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event
            && let Some(handle) = session.other(session.id())
        {
            self.administrators.attendance.enters(handle);
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, session: &SessionView<'_>) {
        if let SessionNotice::Disconnected(_) = notice {
            self.known = None;
            self.administrators.attendance.leaves(session.id());
        }
    }

    fn on_message(
        &mut self,
        received: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let administrators = Arc::clone(&self.administrators);
        let _asking = administrators.attendance.asks(session.id());
        let answered = catch_unwind(AssertUnwindSafe(|| self.answer(received, session)));
        let (request_id, outcome) = answered.unwrap_or_else(|_| {
            let why = "the command failed because of a panic; the log has the details";
            (None, Err(Refused::new(ResultCode::InternalError, why)))
        });
        let mut xml = response(request_id, &outcome);
        if xml.len() > ANSWER_MAX {
            let why =
                format!("the answer has {} bytes, more than the limit of {ANSWER_MAX}", xml.len());
            xml = response(request_id, &Err(Refused::rejected(why)));
        }
        let id = monitoring_id(received).unwrap_or_default();
        let fill = |body: &mut transfix::Body<'_>| message::write(body, &xml, id);
        if let Err(error) = session.send(message::TYPE, fill) {
            tracing::warn!(session = %session.id(), %error, "the answer to a command of an \
                administrator could not be sent");
        }
        if self.known.is_none() || self.actor().is_err() {
            // A session whose user is no longer valid receives no answer, only the Logout(5).
            session.logout("your user was removed or may no longer log on");
        }
        Ok(())
    }
}
