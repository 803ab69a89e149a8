//! What a link asks of the owner of its session, which is an application behind the public face.

use transfix_codec::{Body, Message, MsgType};
use transfix_session::{
    BeginString, Disconnect, HeaderChange, Now, Outbox, SendError, Session, SessionId,
};

use crate::link::answers::{BusinessReject, Direction, Resend};
use crate::link::judging::Judgement;
use crate::link::points::Points;
use crate::link::told::{Disconnection, Rejected, Undone, Unsendable};

/// The owner of one session. The methods are those of [`Application`](crate::Application), which
/// says what they mean; a link calls them with its session in hand.
pub(crate) trait Callbacks: Send {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        access: Access<'_>,
    ) -> Result<(), BusinessReject>;
    fn judge_logon(&mut self, logon: &Message<'_>, id: &SessionId) -> Judgement;
    fn fill_logon(&mut self, logon: &mut Body<'_>, access: Access<'_>);
    fn on_logon(&mut self, access: Access<'_>);
    fn on_reset(&mut self, access: Access<'_>);
    fn on_reject(&mut self, rejected: &Rejected<'_>, access: Access<'_>);
    fn on_undone(&mut self, undone: &Undone, access: Access<'_>);
    fn on_unsent(&mut self, message: &Unsendable<'_>, access: Access<'_>);
    fn on_disconnect(&mut self, end: &Disconnection<'_>, access: Access<'_>);
    fn on_resend(&mut self, message: &Message<'_>, access: Access<'_>) -> Resend;
    fn on_resend_loop(&mut self, times: u32, access: Access<'_>);
    fn wants_wire(&self) -> bool;
    fn on_wire(&mut self, direction: Direction, frame: &[u8], access: Access<'_>);
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

/// The session while its owner is called.
pub(crate) struct Access<'a> {
    pub(crate) session: &'a mut Session,
    pub(crate) now: Now,
    /// None where the owner is only told or asked something.
    pub(crate) acts: Option<Acts<'a>>,
}

/// What it takes to send, and to end the connection.
pub(crate) struct Acts<'a> {
    pub(crate) out: &'a mut Outbox,
    pub(crate) queued_bytes_max: usize,
    pub(crate) cut: &'a mut Option<Disconnect>,
    pub(crate) points: &'a mut Points,
}

impl<'a> Access<'a> {
    /// For a call in which nothing is sent: a frame is being written, or there is no connection.
    pub(crate) const fn look(session: &'a mut Session, now: Now) -> Self {
        Self { session, now, acts: None }
    }

    /// The same for another call.
    pub(crate) const fn again(&mut self) -> Access<'_> {
        let acts = match &mut self.acts {
            Some(Acts { out, queued_bytes_max, cut, points }) => {
                Some(Acts { out, queued_bytes_max: *queued_bytes_max, cut, points })
            }
            None => None,
        };
        Access { session: self.session, now: self.now, acts }
    }

    pub(crate) fn send(
        &mut self,
        msg_type: impl AsRef<[u8]>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        let acts = self.acts.as_mut().ok_or(SendError::NotHere)?;
        let queued_bytes = acts.out.bytes().len();
        if queued_bytes > acts.queued_bytes_max {
            return Err(SendError::WouldBlock { queued_bytes });
        }
        let sent = self.session.send(self.now, msg_type, acts.out, fill);
        if sent.is_ok() {
            acts.points.encoded(self.now);
        }
        sent
    }

    pub(crate) fn send_with(
        &mut self,
        msg_type: impl AsRef<[u8]>,
        change: HeaderChange,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        let acts = self.acts.as_mut().ok_or(SendError::NotHere)?;
        let sent = self.session.send_with(self.now, msg_type, change, acts.out, fill);
        if sent.is_ok() {
            acts.points.encoded(self.now);
        }
        sent
    }

    pub(crate) fn logout(&mut self, text: &str) -> Result<(), SendError> {
        let acts = self.acts.as_mut().ok_or(SendError::NotHere)?;
        if !self.session.logout(self.now, text, acts.out) {
            *acts.cut = Some(Disconnect::Application);
        }
        Ok(())
    }

    pub(crate) fn disconnect(&mut self) -> Result<(), SendError> {
        let acts = self.acts.as_mut().ok_or(SendError::NotHere)?;
        *acts.cut = Some(Disconnect::Application);
        Ok(())
    }
}
