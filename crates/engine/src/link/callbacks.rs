//! The calls that a link makes to the owner of its session. The owner is the application behind the
//! public API.

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

/// The owner of one session. [`Application`](crate::Application) documents the methods of the same
/// names.
pub(crate) trait Callbacks: Send {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        access: SessionAccess<'_>,
    ) -> Result<(), BusinessReject>;
    /// `from`: the session, and the address of the peer.
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

    /// Returns the owner's hook for outgoing messages, if the owner has one.
    fn before_send(&self) -> Option<Arc<dyn BeforeSend>>;

    /// Sets the filter that the owner's messages must pass.
    fn set_filter(&mut self, filter: Arc<OutboundFilter>);

    /// Forwards a message of the session `from` to the session of the same version with the
    /// counterparty `target_comp_id`. On return, the target's store has the message. If both are
    /// the same session, the message is stored at the end of the turn.
    fn pass_on(
        &self,
        from_to: (&SessionId, &str),
        msg_type: MsgType<'_>,
        fill: &mut dyn FnMut(&mut Body<'_>),
    ) -> PassedOn;
}

/// The application's answer to a Logon(A).
pub(crate) enum Judgement {
    Now(Answer),
    /// The answer will arrive on this channel. Dropping the sender refuses the logon.
    Later(Receiver<Answer>),
}

/// The result of passing a message on to another session.
pub(crate) enum PassedOn {
    Sent,
    Refused(SendError),
    /// The engine has no session with this counterparty.
    Nobody,
    /// Another thread holds the target session's lock.
    Busy,
}
