//! Access to a session during a callback of its application, in the session's thread or in an
//! application thread.

use std::sync::Arc;

use transfix_codec::Body;
use transfix_session::core::Core;
use transfix_session::{ApplVerId, HeaderChange, Now, SendError, Session, SessionId, State};

use crate::link::latency_probe::LatencyProbe;
use crate::link::later::Later;

/// The session as a callback of its application accesses it.
pub(crate) struct SessionAccess<'a> {
    pub(crate) now: Now,
    place: Place<'a>,
}

enum Place<'a> {
    /// The caller holds the session, and the application may send.
    Here(&'a mut Core, &'a mut LatencyProbe),
    /// The calling thread holds the session, and the callback may only read.
    Shown(&'a Session),
    /// The callback runs in an application thread, while the session continues.
    Remote(&'a dyn RemoteSession),
}

/// Access to a session from an application thread.
pub(crate) trait RemoteSession {
    fn id(&self) -> &SessionId;
    fn state(&self) -> State;
    /// Returns the next numbers, inbound and outbound.
    fn next_numbers(&self) -> (u64, u64);
    fn appl_ver_id(&self) -> Option<ApplVerId>;

    /// Sends at once, as a callback in the session's own thread does.
    fn send(
        &self,
        msg_type: &[u8],
        change: Option<HeaderChange>,
        fill: &mut dyn FnMut(&mut Body<'_>),
    ) -> Result<u64, SendError>;
    fn logout(&self, text: &str);
    fn disconnect(&self);

    /// Defers the answer to the message of the current call. Returns `None` if the call is about no
    /// message.
    fn answer_later(&self) -> Option<Arc<Later>>;
}

impl<'a> SessionAccess<'a> {
    pub(crate) const fn of((core, probe): (&'a mut Core, &'a mut LatencyProbe), now: Now) -> Self {
        Self { now, place: Place::Here(core, probe) }
    }

    /// Returns access for a callback that may only read.
    pub(crate) const fn to_see(session: &'a Session, now: Now) -> Self {
        Self { now, place: Place::Shown(session) }
    }

    /// Returns access for a callback in an application thread.
    pub(crate) const fn from_elsewhere(session: &'a dyn RemoteSession, now: Now) -> Self {
        Self { now, place: Place::Remote(session) }
    }

    /// Returns the session layer if this thread holds the session, or else the remote session.
    fn seen(&self) -> Result<&Session, &dyn RemoteSession> {
        match &self.place {
            Place::Here(core, _) => Ok(&core.session),
            Place::Shown(session) => Ok(session),
            Place::Remote(session) => Err(*session),
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

    /// Sends an application message. If `change` is given, applies it to the header.
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
                // Measures the encoding of messages that are written now, not of messages that are
                // only stored.
                if core.out.end() > begin {
                    probe.encoded(self.now);
                }
                sent
            }
            // A `SessionView` has no method that sends.
            Place::Shown(_) => Err(SendError::Closed),
            Place::Remote(session) => session.send(msg_type.as_ref(), change, &mut once(fill)),
        }
    }

    pub(crate) fn logout(&mut self, text: &str) {
        match &mut self.place {
            Place::Here(core, _) => core.log_out_or_cut(self.now, text),
            Place::Shown(_) => {}
            Place::Remote(session) => session.logout(text),
        }
    }

    pub(crate) fn disconnect(&mut self) {
        match &mut self.place {
            Place::Here(core, _) => core.cut = Some(transfix_session::Disconnect::Application),
            Place::Shown(_) => {}
            Place::Remote(session) => session.disconnect(),
        }
    }

    /// Defers the answer to the current message. Returns `None` if the callback runs in the
    /// session's own thread, or delivers no message.
    pub(crate) fn answer_later(&self) -> Option<Arc<Later>> {
        match &self.place {
            Place::Here(..) | Place::Shown(_) => None,
            Place::Remote(session) => session.answer_later(),
        }
    }
}

/// Turns a closure that may be called once into one that may be called repeatedly, of which only
/// the first call writes the fields.
fn once(fill: impl FnOnce(&mut Body<'_>)) -> impl FnMut(&mut Body<'_>) {
    let mut fill = Some(fill);
    move |body| {
        if let Some(fill) = fill.take() {
            fill(body);
        }
    }
}
