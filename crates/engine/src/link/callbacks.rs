//! The calls that a link makes of the owner of its session, which is an application behind the
//! public face.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use transfix_codec::{Body, Message, MsgType};
use transfix_session::core::judging::Answer;
use transfix_session::{BusinessReject, Direction, Resend, SendError, SessionId};

use crate::link::access::SessionAccess;
use crate::link::before_send::BeforeSend;
use crate::link::outbound_filter::OutboundFilter;
use crate::link::session_event::{SessionEvent, SessionNotice};

/// The owner of one session. The methods are those of [`Application`](crate::Application), which
/// says what they mean.
pub(crate) trait Callbacks: Send {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        access: SessionAccess<'_>,
    ) -> Result<(), BusinessReject>;
    /// `from`: the session, and the other end of the connection.
    fn judge_logon(
        &mut self,
        logon: &Message<'_>,
        from: (&SessionId, Option<SocketAddr>),
    ) -> Judgement;
    fn fill_logon(&mut self, logon: &mut Body<'_>, access: SessionAccess<'_>);
    fn on_event(&mut self, event: SessionEvent<'_>, access: SessionAccess<'_>);
    fn on_notice(&mut self, notice: SessionNotice<'_>, access: SessionAccess<'_>);
    fn on_resend(&mut self, message: &Message<'_>, access: SessionAccess<'_>) -> Resend;
    fn wants_wire(&self) -> bool;
    fn on_wire(&mut self, direction: Direction, frame: &[u8], access: SessionAccess<'_>);

    /// The owner's look at what is sent, if it has one.
    fn before_send(&self) -> Option<Arc<dyn BeforeSend>>;

    /// Messages of the owner pass here.
    fn set_filter(&mut self, filter: Arc<OutboundFilter>);

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

/// The application's answer when it is asked about a Logon(A).
pub(crate) enum Judgement {
    Now(Answer),
    /// The answer comes this way; none will come if the other end has gone.
    Later(Receiver<Answer>),
}

/// The fate of a message that was to be passed on to another session.
pub(crate) enum PassedOn {
    Sent,
    Refused(SendError),
    /// There is no such session.
    Nobody,
    /// Another thread has that session at this moment.
    Busy,
}
