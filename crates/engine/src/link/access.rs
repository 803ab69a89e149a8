//! The session in a call of its application: in the hands of the caller, or elsewhere.

use std::sync::Arc;

use transfix_codec::Body;
use transfix_session::core::Core;
use transfix_session::{ApplVerId, HeaderChange, Now, SendError, Session, SessionId, State};

use crate::link::latency_probe::LatencyProbe;
use crate::link::later::Later;

/// The session in a call of its application.
pub(crate) struct SessionAccess<'a> {
    pub(crate) now: Now,
    place: Place<'a>,
}

enum Place<'a> {
    /// The caller has the session in hand, and the application may send.
    Here(&'a mut Core, &'a mut LatencyProbe),
    /// The caller has the session in hand, and nothing can be sent.
    Shown(&'a Session),
    /// The application is called in a thread of its own, and the session goes on meanwhile.
    RemoteAccess(&'a dyn RemoteSession),
}

/// A session as a thread reaches it that does not drive it.
pub(crate) trait RemoteSession {
    fn id(&self) -> &SessionId;
    fn state(&self) -> State;
    /// The next numbers, inbound and outbound.
    fn next_numbers(&self) -> (u64, u64);
    fn appl_ver_id(&self) -> Option<ApplVerId>;

    /// Sends at once, as a callback of the session's own thread does.
    fn send(
        &self,
        msg_type: &[u8],
        change: Option<HeaderChange>,
        fill: &mut dyn FnMut(&mut Body<'_>),
    ) -> Result<u64, SendError>;
    fn logout(&self, text: &str);
    fn disconnect(&self);

    /// Lets the answer to the message, for which the application is called, come later; `None` if
    /// it is called for no message.
    fn answer_later(&self) -> Option<Arc<Later>>;
}

impl<'a> SessionAccess<'a> {
    pub(crate) const fn of((core, probe): (&'a mut Core, &'a mut LatencyProbe), now: Now) -> Self {
        Self { now, place: Place::Here(core, probe) }
    }

    /// For a call in which nothing can be sent.
    pub(crate) const fn to_see(session: &'a Session, now: Now) -> Self {
        Self { now, place: Place::Shown(session) }
    }

    /// For a call in a thread that does not drive the session.
    pub(crate) const fn from_elsewhere(session: &'a dyn RemoteSession, now: Now) -> Self {
        Self { now, place: Place::RemoteAccess(session) }
    }

    /// The session layer, or the session elsewhere.
    fn seen(&self) -> Result<&Session, &dyn RemoteSession> {
        match &self.place {
            Place::Here(core, _) => Ok(&core.session),
            Place::Shown(session) => Ok(session),
            Place::RemoteAccess(session) => Err(*session),
        }
    }

    pub(crate) fn id(&self) -> &SessionId {
        match self.seen() {
            Ok(session) => &session.config().id,
            Err(remote) => remote.id(),
        }
    }

    pub(crate) fn state(&self) -> State {
        self.seen().map_or_else(|remote| remote.state(), Session::state)
    }

    pub(crate) fn next_numbers(&self) -> (u64, u64) {
        match self.seen() {
            Ok(session) => (session.next_num_in(), session.next_num_out()),
            Err(remote) => remote.next_numbers(),
        }
    }

    pub(crate) fn appl_ver_id(&self) -> Option<ApplVerId> {
        self.seen().map_or_else(|remote| remote.appl_ver_id(), Session::appl_ver_id)
    }

    /// Sends an application message, with this change of its header if there is one.
    #[inline]
    pub(crate) fn send(
        &mut self,
        msg_type: impl AsRef<[u8]>,
        change: Option<HeaderChange>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        match &mut self.place {
            Place::Here(core, probe) => {
                let begin = core.out.end();
                let sent = core.send_in_callback(self.now, msg_type.as_ref(), change, fill);
                // Encoding is measured for messages that are written, not for stored ones.
                if core.out.end() > begin {
                    probe.encoded(self.now);
                }
                sent
            }
            // A `SessionView` has no method that sends.
            Place::Shown(_) => Err(SendError::Closed),
            Place::RemoteAccess(session) => {
                session.send(msg_type.as_ref(), change, &mut once(fill))
            }
        }
    }

    pub(crate) fn logout(&mut self, text: &str) {
        match &mut self.place {
            Place::Here(core, _) => core.log_out_or_cut(self.now, text),
            Place::Shown(_) => {}
            Place::RemoteAccess(session) => session.logout(text),
        }
    }

    pub(crate) fn disconnect(&mut self) {
        match &mut self.place {
            Place::Here(core, _) => core.cut = Some(transfix_session::Disconnect::Application),
            Place::Shown(_) => {}
            Place::RemoteAccess(session) => session.disconnect(),
        }
    }

    /// Lets the answer to the message come later; `None` where that cannot be.
    pub(crate) fn answer_later(&self) -> Option<Arc<Later>> {
        match &self.place {
            Place::Here(..) | Place::Shown(_) => None,
            Place::RemoteAccess(session) => session.answer_later(),
        }
    }
}

/// Wraps a closure that fills a message, for a caller that may call it again: it fills once.
fn once(fill: impl FnOnce(&mut Body<'_>)) -> impl FnMut(&mut Body<'_>) {
    let mut fill = Some(fill);
    move |body| {
        if let Some(fill) = fill.take() {
            fill(body);
        }
    }
}
