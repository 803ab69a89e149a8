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
use crate::link::told::SessionEvent;
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
    fn fill_logon(&mut self, logon: &mut Body<'_>, access: Access<'_>);
    fn on_event(&mut self, event: SessionEvent<'_>, access: Access<'_>);
    fn on_resend(&mut self, message: &Message<'_>, access: Access<'_>) -> Resend;
    fn wants_wire(&self) -> bool;
    fn on_wire(&mut self, direction: Direction, frame: &[u8], access: Access<'_>);

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

/// The session while its owner is called.
pub(crate) struct Access<'a> {
    pub(crate) now: Now,
    reach: Reach<'a>,
}

enum Reach<'a> {
    /// The caller has the session in hand. `acts`: none where the owner is only told or asked
    /// something.
    InHand { session: &'a mut Session, acts: Option<Acts<'a>> },
    /// The owner is called in a thread of its own, and the session goes on meanwhile.
    Elsewhere { session: &'a dyn Remote, acts: bool },
}

/// What it takes to send, and to end the connection.
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

impl<'a> Access<'a> {
    /// For a call in which the owner may send.
    pub(crate) const fn act(session: &'a mut Session, now: Now, acts: Acts<'a>) -> Self {
        Self { now, reach: Reach::InHand { session, acts: Some(acts) } }
    }

    /// For a call in which nothing is sent: a frame is being written, or there is no connection.
    pub(crate) const fn look(session: &'a mut Session, now: Now) -> Self {
        Self { now, reach: Reach::InHand { session, acts: None } }
    }

    /// For a call in a thread that does not drive the session. `acts`: the owner may send.
    pub(crate) const fn from_elsewhere(session: &'a dyn Remote, now: Now, acts: bool) -> Self {
        Self { now, reach: Reach::Elsewhere { session, acts } }
    }

    /// The same for another call.
    pub(crate) const fn again(&mut self) -> Access<'_> {
        let reach = match &mut self.reach {
            Reach::InHand { session, acts } => {
                let acts = match acts {
                    Some(Acts { out, late, queue, cut, points }) => {
                        Some(Acts { out, late, queue, cut, points })
                    }
                    None => None,
                };
                Reach::InHand { session, acts }
            }
            Reach::Elsewhere { session, acts } => {
                Reach::Elsewhere { session: *session, acts: *acts }
            }
        };
        Access { now: self.now, reach }
    }

    /// Whether the owner may send.
    pub(crate) const fn may_act(&self) -> bool {
        match &self.reach {
            Reach::InHand { acts, .. } => acts.is_some(),
            Reach::Elsewhere { acts, .. } => *acts,
        }
    }

    pub(crate) fn id(&self) -> &SessionId {
        match &self.reach {
            Reach::InHand { session, .. } => &session.config().id,
            Reach::Elsewhere { session, .. } => session.id(),
        }
    }

    pub(crate) fn state(&self) -> State {
        match &self.reach {
            Reach::InHand { session, .. } => session.state(),
            Reach::Elsewhere { session, .. } => session.state(),
        }
    }

    pub(crate) fn next_numbers(&self) -> (u64, u64) {
        match &self.reach {
            Reach::InHand { session, .. } => (session.next_num_in(), session.next_num_out()),
            Reach::Elsewhere { session, .. } => session.next_numbers(),
        }
    }

    pub(crate) fn appl_ver_id(&self) -> Option<ApplVerId> {
        match &self.reach {
            Reach::InHand { session, .. } => session.appl_ver_id(),
            Reach::Elsewhere { session, .. } => session.appl_ver_id(),
        }
    }

    #[inline]
    pub(crate) fn send(
        &mut self,
        msg_type: impl AsRef<[u8]>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        match &mut self.reach {
            Reach::InHand { session, acts } => {
                let acts = acts.as_mut().ok_or(SendError::NotHere)?;
                let queued_bytes = acts.out.len() + acts.late.len();
                if queued_bytes > acts.queue.queued_bytes_max {
                    acts.is_full(queued_bytes)?;
                }
                if session.ready().is_err() {
                    cold_path();
                    return session.send_offline(self.now, msg_type, acts.late, fill);
                }
                let sent = session.send(self.now, msg_type, acts.out, fill);
                acts.note_encoded(self.now, &sent);
                sent
            }
            Reach::Elsewhere { session, acts: true } => {
                session.send(msg_type.as_ref(), None, &mut once(fill))
            }
            Reach::Elsewhere { acts: false, .. } => Err(SendError::NotHere),
        }
    }

    pub(crate) fn send_with(
        &mut self,
        msg_type: impl AsRef<[u8]>,
        change: HeaderChange,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        match &mut self.reach {
            Reach::InHand { session, acts } => {
                let acts = acts.as_mut().ok_or(SendError::NotHere)?;
                let sent = session.send_with(self.now, msg_type, change, acts.out, fill);
                acts.note_encoded(self.now, &sent);
                sent
            }
            Reach::Elsewhere { session, acts: true } => {
                session.send(msg_type.as_ref(), Some(change), &mut once(fill))
            }
            Reach::Elsewhere { acts: false, .. } => Err(SendError::NotHere),
        }
    }

    pub(crate) fn logout(&mut self, text: &str) -> Result<(), SendError> {
        match &mut self.reach {
            Reach::InHand { session, acts } => {
                let acts = acts.as_mut().ok_or(SendError::NotHere)?;
                if !session.logout(self.now, text, acts.out) {
                    *acts.cut = Some(Disconnect::Application);
                }
                Ok(())
            }
            Reach::Elsewhere { session, acts: true } => {
                session.logout(text);
                Ok(())
            }
            Reach::Elsewhere { acts: false, .. } => Err(SendError::NotHere),
        }
    }

    /// Lets the answer to the message come later; `None` where that cannot be.
    pub(crate) fn answer_later(&self) -> Option<Arc<Later>> {
        match &self.reach {
            Reach::Elsewhere { session, .. } => session.answer_later(),
            Reach::InHand { .. } => None,
        }
    }

    pub(crate) fn disconnect(&mut self) -> Result<(), SendError> {
        match &mut self.reach {
            Reach::InHand { acts, .. } => {
                let acts = acts.as_mut().ok_or(SendError::NotHere)?;
                *acts.cut = Some(Disconnect::Application);
                Ok(())
            }
            Reach::Elsewhere { session, acts: true } => {
                session.disconnect();
                Ok(())
            }
            Reach::Elsewhere { acts: false, .. } => Err(SendError::NotHere),
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
