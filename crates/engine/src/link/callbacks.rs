//! What a link asks of the owner of its session, which is an application behind the public face.

use transfix_codec::{Body, Message, MsgType};
use transfix_session::{
    BeginString, Disconnect, HeaderChange, Now, Outbox, SendError, Session, SessionId,
};

use crate::link::answers::{BusinessReject, Direction, Resend};
use crate::link::judging::Judgement;
use crate::link::told::{Disconnection, Rejected, Undone};

/// The owner of one session. The methods are those of [`Application`](crate::Application), which
/// says what they mean; a link calls them with its session in hand.
pub(crate) trait Callbacks: Send {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        access: Access<'_>,
    ) -> Result<(), BusinessReject>;
    fn judge_logon(&mut self, logon: &Message<'_>, id: &SessionId) -> Judgement;
    fn fill_logon(&mut self, logon: &mut Body<'_>, id: &SessionId);
    fn on_logon(&mut self, access: Access<'_>);
    fn on_reset(&mut self, access: Access<'_>);
    fn on_reject(&mut self, rejected: &Rejected<'_>, access: Access<'_>);
    fn on_undone(&mut self, id: &SessionId, undone: &Undone);
    fn on_unsent(&mut self, id: &SessionId, msg_type: MsgType<'_>, body: &[u8], why: SendError);
    fn on_disconnect(&mut self, id: &SessionId, end: &Disconnection<'_>);
    fn on_resend(&mut self, message: &Message<'_>, id: &SessionId) -> Resend;
    fn on_resend_loop(&mut self, times: u32, access: Access<'_>);
    fn wants_wire(&self) -> bool;
    fn on_wire(&mut self, direction: Direction, frame: &[u8]);
    fn on_admin(&mut self, message: &Message<'_>, access: Access<'_>);

    /// Sends a message into the session of this version with that counterparty; `None` if there is
    /// none.
    fn pass_on(
        &self,
        to: (BeginString, &str),
        msg_type: MsgType<'_>,
        fill: &mut dyn FnMut(&mut Body<'_>),
    ) -> Option<Result<(), SendError>>;
}

/// The session while its owner is called: it may send, and end the connection.
pub(crate) struct Access<'a> {
    pub(crate) session: &'a mut Session,
    pub(crate) out: &'a mut Outbox,
    pub(crate) now: Now,
    pub(crate) queued_bytes_max: usize,
    pub(crate) cut: &'a mut Option<Disconnect>,
}

impl Access<'_> {
    /// The same for another call.
    pub(crate) const fn again(&mut self) -> Access<'_> {
        Access {
            session: self.session,
            out: self.out,
            now: self.now,
            queued_bytes_max: self.queued_bytes_max,
            cut: self.cut,
        }
    }

    pub(crate) fn send(
        &mut self,
        msg_type: impl AsRef<[u8]>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        let queued_bytes = self.out.bytes().len();
        if queued_bytes > self.queued_bytes_max {
            return Err(SendError::WouldBlock { queued_bytes });
        }
        self.session.send(self.now, msg_type, self.out, fill)
    }

    pub(crate) fn send_with(
        &mut self,
        msg_type: impl AsRef<[u8]>,
        change: HeaderChange,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        self.session.send_with(self.now, msg_type, change, self.out, fill)
    }

    pub(crate) fn logout(&mut self, text: &str) {
        if !self.session.logout(self.now, text, self.out) {
            *self.cut = Some(Disconnect::Application);
        }
    }
}
