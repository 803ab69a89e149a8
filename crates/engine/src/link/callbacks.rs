//! What a link asks of the owner of its session, which is an application behind the public face.

use std::hint::cold_path;
use std::net::SocketAddr;
use std::sync::Arc;

use transfix_codec::{Body, Message, MsgType};
use transfix_session::{
    ApplVerId, Disconnect, HeaderChange, Now, Outbox, SendError, Session, SessionId, State,
};

use crate::link::answers::{BusinessReject, Direction, Resend};
use crate::link::before_send::BeforeSend;
use crate::link::gate::Gate;
use crate::link::judging::Judgement;
use crate::link::later::Later;
use crate::link::points::Points;
use crate::link::told::{SessionEvent, SessionNotice};
use crate::settings::{QueueSettings, QueueWhenFull};

/// Bytes that callbacks may send beyond `queued_bytes_max`: a program that never stops sending in
/// one must not take all memory, and the batch of a store has an end.
const CALLBACK_BYTES_MAX: usize = 64 << 20;

/// The owner of one session. The methods are those of [`Application`](crate::Application), which
/// says what they mean; a link calls them with its session in hand. Where the owner is called in
/// threads of its own, messages go to its desk; those of these methods that only tell something go
/// there too, and those that ask something are called only where the owner is free.
pub(crate) trait Callbacks: Send {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        access: Access<'_>,
    ) -> Result<(), BusinessReject>;
    /// `from`: the session, and the other end of the connection.
    fn judge_logon(
        &mut self,
        logon: &Message<'_>,
        from: (&SessionId, Option<SocketAddr>),
    ) -> Judgement;
    fn fill_logon(&mut self, logon: &mut Body<'_>, view: View<'_>);
    fn on_event(&mut self, event: SessionEvent<'_>, access: Access<'_>);
    fn on_notice(&mut self, notice: SessionNotice<'_>, view: View<'_>);
    fn on_resend(&mut self, message: &Message<'_>, view: View<'_>) -> Resend;
    fn wants_wire(&self) -> bool;
    fn on_wire(&mut self, direction: Direction, frame: &[u8], view: View<'_>);

    /// The owner's look at what is sent, if it has one.
    fn before_send(&self) -> Option<Arc<dyn BeforeSend>> {
        None
    }

    /// What the owner sends passes here.
    fn set_gate(&mut self, gate: Arc<Gate>) {
        drop(gate);
    }

    /// Gives back the memory of a burst that is over.
    fn trim(&mut self) {}

    /// Sends a message of this session into the one of the same version with that counterparty. It
    /// is in the store of that session when this returns, or, if it is the same one, with the end
    /// of the turn.
    fn pass_on(
        &self,
        from_to: (&SessionId, &str),
        msg_type: MsgType<'_>,
        fill: &mut dyn FnMut(&mut Body<'_>),
    ) -> PassedOn;
}

/// What has become of a message that was to be passed on to another session.
pub(crate) enum PassedOn {
    Sent,
    Refused(SendError),
    /// There is no such session.
    Nobody,
    /// Another thread has that session at this moment.
    Busy,
}

/// The session in a call in which its owner looks at it alone: a frame is being written, or there
/// is no connection.
pub(crate) struct View<'a> {
    pub(crate) now: Now,
    place: Place<'a>,
}

enum Place<'a> {
    /// The caller has the session in hand.
    Here(&'a mut Session),
    /// The owner is called in a thread of its own, and the session goes on meanwhile.
    Elsewhere(&'a dyn Remote),
}

/// The session in a call in which its owner may send, and end the connection. Both parts are of the
/// same place.
pub(crate) struct Access<'a> {
    pub(crate) view: View<'a>,
    pub(crate) reach: Reach<'a>,
}

/// What it takes to act on the session in its place.
pub(crate) enum Reach<'a> {
    Here(Acts<'a>),
    Elsewhere(&'a dyn Remote),
}

/// What it takes to send, and to end the connection, with the session in hand.
pub(crate) struct Acts<'a> {
    pub(crate) out: &'a mut Outbox,
    /// For messages that are stored and not written.
    pub(crate) late: &'a mut Outbox,
    pub(crate) queue: &'a QueueSettings,
    pub(crate) cut: &'a mut Option<Disconnect>,
    pub(crate) points: &'a mut Points,
}

impl Acts<'_> {
    /// More waits than may: the counterparty loses its connection for it, and what answers its
    /// messages is stored.
    #[cold]
    fn is_full(&mut self, queued_bytes: usize) -> Result<(), SendError> {
        if self.queue.queue_when_full == QueueWhenFull::Disconnect {
            *self.cut = Some(Disconnect::Stalled);
        }
        match queued_bytes > self.queue.queued_bytes_max.saturating_add(CALLBACK_BYTES_MAX) {
            true => Err(SendError::WouldBlock { queued_bytes }),
            false => Ok(()),
        }
    }

    #[inline]
    fn note_encoded(&mut self, now: Now, sent: &Result<u64, SendError>) {
        if sent.is_ok() {
            self.points.encoded(now);
        }
    }
}

/// A session as a thread reaches it that does not drive it.
pub(crate) trait Remote {
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

    /// Lets the answer to the message, for which the owner is called, come later; `None` if it is
    /// called for no message.
    fn answer_later(&self) -> Option<Arc<Later>>;
}

impl<'a> View<'a> {
    pub(crate) const fn of(session: &'a mut Session, now: Now) -> Self {
        Self { now, place: Place::Here(session) }
    }

    /// For a call in a thread that does not drive the session.
    pub(crate) const fn from_elsewhere(session: &'a dyn Remote, now: Now) -> Self {
        Self { now, place: Place::Elsewhere(session) }
    }

    /// The same for another call.
    pub(crate) const fn again(&mut self) -> View<'_> {
        let place = match &mut self.place {
            Place::Here(session) => Place::Here(session),
            Place::Elsewhere(session) => Place::Elsewhere(*session),
        };
        View { now: self.now, place }
    }

    pub(crate) fn id(&self) -> &SessionId {
        match &self.place {
            Place::Here(session) => &session.config().id,
            Place::Elsewhere(session) => session.id(),
        }
    }

    pub(crate) fn state(&self) -> State {
        match &self.place {
            Place::Here(session) => session.state(),
            Place::Elsewhere(session) => session.state(),
        }
    }

    pub(crate) fn next_numbers(&self) -> (u64, u64) {
        match &self.place {
            Place::Here(session) => (session.next_num_in(), session.next_num_out()),
            Place::Elsewhere(session) => session.next_numbers(),
        }
    }

    pub(crate) fn appl_ver_id(&self) -> Option<ApplVerId> {
        match &self.place {
            Place::Here(session) => session.appl_ver_id(),
            Place::Elsewhere(session) => session.appl_ver_id(),
        }
    }
}

impl<'a> Access<'a> {
    pub(crate) const fn of(session: &'a mut Session, now: Now, acts: Acts<'a>) -> Self {
        Self { view: View::of(session, now), reach: Reach::Here(acts) }
    }

    /// For a call in a thread that does not drive the session.
    pub(crate) const fn from_elsewhere(session: &'a dyn Remote, now: Now) -> Self {
        Self { view: View::from_elsewhere(session, now), reach: Reach::Elsewhere(session) }
    }

    /// The same for another call.
    pub(crate) const fn again(&mut self) -> Access<'_> {
        let reach = match &mut self.reach {
            Reach::Here(Acts { out, late, queue, cut, points }) => {
                Reach::Here(Acts { out, late, queue, cut, points })
            }
            Reach::Elsewhere(session) => Reach::Elsewhere(*session),
        };
        Access { view: self.view.again(), reach }
    }
}

impl<'a> Reach<'a> {
    #[inline]
    pub(crate) fn send(
        &mut self,
        View { now, place }: &mut View<'a>,
        msg_type: impl AsRef<[u8]>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        match (place, self) {
            (Place::Here(session), Self::Here(acts)) => {
                let queued_bytes = acts.out.len() + acts.late.len();
                if queued_bytes > acts.queue.queued_bytes_max {
                    acts.is_full(queued_bytes)?;
                }
                if session.ready().is_err() {
                    cold_path();
                    return session.send_offline(*now, msg_type, acts.late, fill);
                }
                let sent = session.send(*now, msg_type, acts.out, fill);
                acts.note_encoded(*now, &sent);
                sent
            }
            (Place::Elsewhere(session), _) | (_, Self::Elsewhere(session)) => {
                session.send(msg_type.as_ref(), None, &mut once(fill))
            }
        }
    }

    pub(crate) fn send_with(
        &mut self,
        View { now, place }: &mut View<'a>,
        (msg_type, change): (&[u8], HeaderChange),
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        match (place, self) {
            (Place::Here(session), Self::Here(acts)) => {
                let sent = session.send_with(*now, msg_type, change, acts.out, fill);
                acts.note_encoded(*now, &sent);
                sent
            }
            (Place::Elsewhere(session), _) | (_, Self::Elsewhere(session)) => {
                session.send(msg_type, Some(change), &mut once(fill))
            }
        }
    }

    pub(crate) fn logout(&mut self, View { now, place }: &mut View<'a>, text: &str) {
        match (place, self) {
            (Place::Here(session), Self::Here(acts)) => {
                if !session.logout(*now, text, acts.out) {
                    *acts.cut = Some(Disconnect::Application);
                }
            }
            (Place::Elsewhere(session), _) | (_, Self::Elsewhere(session)) => session.logout(text),
        }
    }

    pub(crate) fn disconnect(&mut self) {
        match self {
            Self::Here(acts) => *acts.cut = Some(Disconnect::Application),
            Self::Elsewhere(session) => session.disconnect(),
        }
    }

    /// Lets the answer to the message come later; `None` where that cannot be.
    pub(crate) fn answer_later(&self) -> Option<Arc<Later>> {
        match self {
            Self::Here(_) => None,
            Self::Elsewhere(session) => session.answer_later(),
        }
    }
}

/// What fills a message once, where the compiler cannot know that it is called once.
fn once(fill: impl FnOnce(&mut Body<'_>)) -> impl FnMut(&mut Body<'_>) {
    let mut fill = Some(fill);
    move |body| {
        if let Some(fill) = fill.take() {
            fill(body);
        }
    }
}
