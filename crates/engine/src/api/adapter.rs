//! The adapter through which a link calls the user's [`Application`].

use std::net::SocketAddr;
use std::sync::Arc;

use transfix_codec::{Body, Message, MsgType};
use transfix_observe::called::{Callback, CurrentCall};
use transfix_session::{BusinessReject, Direction, Resend, SessionId};

use crate::api::application::{Application, SessionRef, SessionView};
use crate::api::handle::SessionHandle;
use crate::api::logon::LogonAttempt;
use crate::drive::registry::Registry;
use crate::link::access::SessionAccess;
use crate::link::before_send::BeforeSend;
use crate::link::callbacks::{Callbacks, Judgement, PassedOn};
use crate::link::outbound_filter::OutboundFilter;
use crate::link::session_event::{SessionEvent, SessionNotice};

/// The user's application, and the registry of sessions that its callbacks can look up.
pub(crate) struct ApplicationAdapter {
    application: Box<dyn Application>,
    /// The running callback, published for the watch that reports callbacks which do not return.
    called: Arc<CurrentCall>,
    /// The filter for messages that the application sends; `None` if the session needs no filter.
    filter: Option<Arc<OutboundFilter>>,
    sessions: Arc<Registry>,
}

impl ApplicationAdapter {
    /// Returns the adapter for the application of the session `id`. `sessions` are all sessions of
    /// the engine.
    pub(crate) fn of(
        application: Box<dyn Application>,
        id: &SessionId,
        sessions: &Arc<Registry>,
    ) -> Box<dyn Callbacks> {
        let called = sessions.watch.add(id);
        Box::new(Self { application, called, filter: None, sessions: Arc::clone(sessions) })
    }

    fn call<T>(
        &mut self,
        callback: Callback,
        access: SessionAccess<'_>,
        call: impl FnOnce(&mut dyn Application, &mut SessionRef<'_>) -> T,
    ) -> T {
        let _running = self.called.begin(callback);
        let filter = self.filter.as_deref();
        call(&mut *self.application, &mut SessionRef::new(access, filter, &self.sessions))
    }

    fn show<T>(
        &mut self,
        callback: Callback,
        access: SessionAccess<'_>,
        show: impl FnOnce(&mut dyn Application, &SessionView<'_>) -> T,
    ) -> T {
        let _running = self.called.begin(callback);
        show(&mut *self.application, &SessionView::new(access, &self.sessions))
    }
}

impl Callbacks for ApplicationAdapter {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        access: SessionAccess<'_>,
    ) -> Result<(), BusinessReject> {
        self.call(Callback::OnMessage, access, |application, session| {
            application.on_message(message, session)
        })
    }

    fn judge_logon(
        &mut self,
        logon: &Message<'_>,
        from: (&SessionId, Option<SocketAddr>),
    ) -> Judgement {
        let mut attempt = LogonAttempt::new(from, &self.sessions);
        let running = self.called.begin(Callback::JudgeLogon);
        let judged = self.application.judge_logon(logon, &mut attempt);
        drop(running);
        match (judged, attempt.into_later()) {
            (Ok(()), Some(answer)) => Judgement::Later(answer),
            (judged, _) => Judgement::Now(judged),
        }
    }

    fn fill_logon(&mut self, logon: &mut Body<'_>, access: SessionAccess<'_>) {
        self.show(Callback::FillLogon, access, |application, session| {
            application.fill_logon(logon, session)
        });
    }

    fn on_event(&mut self, event: SessionEvent<'_>, access: SessionAccess<'_>) {
        self.call(event.callback(), access, |application, session| {
            application.on_event(event, session)
        });
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, access: SessionAccess<'_>) {
        self.show(notice.callback(), access, |application, session| {
            application.on_notice(notice, session)
        });
    }

    fn on_resend(&mut self, message: &Message<'_>, access: SessionAccess<'_>) -> Resend {
        self.show(Callback::OnResend, access, |application, session| {
            application.on_resend(message, session)
        })
    }

    fn wants_wire(&self) -> bool {
        self.application.wants_wire()
    }

    fn on_wire(&mut self, direction: Direction, frame: &[u8], access: SessionAccess<'_>) {
        self.show(Callback::OnWire, access, |application, session| {
            application.on_wire(direction, frame, session)
        });
    }

    fn before_send(&self) -> Option<Arc<dyn BeforeSend>> {
        self.application.before_send()
    }

    fn set_filter(&mut self, filter: Arc<OutboundFilter>) {
        self.filter = Some(filter);
    }

    fn pass_on(
        &self,
        (from, target_comp_id): (&SessionId, &str),
        msg_type: MsgType<'_>,
        fill: &mut dyn FnMut(&mut Body<'_>),
    ) -> PassedOn {
        let Some(session) = self.sessions.with(from.begin_string, target_comp_id) else {
            return PassedOn::Nobody;
        };
        let is_own = session.id == *from;
        let handle = SessionHandle::of(session);
        if !is_own {
            return handle.pass_on(msg_type.as_bytes(), fill);
        }
        // This thread holds the lock of the session, so the queued message is sent in the current
        // turn.
        match handle.send(msg_type, fill) {
            Ok(_) => PassedOn::Sent,
            Err(error) => PassedOn::Refused(error),
        }
    }
}
