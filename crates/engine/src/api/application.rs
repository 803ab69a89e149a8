//! What users write: an [`Application`] per session, and what it may do inside a callback.

use std::borrow::Cow;

use transfix_codec::{Body, Message};
use transfix_session::{Disconnect, HeaderChange, Now, Outbox, SendError, Session, SessionId};

use crate::handle::{Registry, SessionHandle};
use crate::told::{Disconnection, Rejected, Undone};

/// The user's side of one session. Each session has an instance of its own, called by one thread
/// at a time and in the order of MsgSeqNum(34).
pub trait Application: Send {
    /// An application message, in order. Answer with [`SessionRef::send`]; what is sent here is
    /// stored and written together with all else of the same read.
    ///
    /// Each message comes once, as far as the journal reaches. It comes again in two cases, and
    /// what was answered the first time never left then: the process was killed before the end of
    /// the turn, or the store failed in it. In the second case [`Application::on_undone`] tells so
    /// before any message comes again. A message at which this method panics counts as received,
    /// and does not come again.
    ///
    /// # Errors
    /// A [`BusinessReject`] is answered by BusinessMessageReject(j), or Reject(3) up to FIX 4.1.
    /// The message counts as received all the same.
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject>;

    /// Judges the Logon(A) of the counterparty, which the session layer has found good: here belong
    /// Username(553), Password(554) and NewPassword(925). Called before any answer, once for each
    /// Logon(A).
    ///
    /// # Errors
    /// A [`LogonRefusal`] is answered by Logout(5), and the connection is closed.
    fn judge_logon(&mut self, logon: &Message<'_>, id: &SessionId) -> Result<(), LogonRefusal> {
        let _ = (logon, id);
        Ok(())
    }

    /// Adds fields to our Logon(A), behind those of the settings.
    fn fill_logon(&mut self, logon: &mut Body<'_>, id: &SessionId) {
        let _ = (logon, id);
    }

    /// The session is logged on: application messages may be sent from now on. Called once a
    /// logon; a reset of the numbers while logged on calls [`Application::on_reset`].
    fn on_logon(&mut self, session: &mut SessionRef<'_>) {
        let _ = session;
    }

    /// Both numbers have begun again at 1 while the session is logged on, and it stays so: a
    /// Logon(A) with ResetSeqNumFlag(141)=Y came, or answered one of ours.
    fn on_reset(&mut self, session: &mut SessionRef<'_>) {
        let _ = session;
    }

    /// The counterparty has rejected a message of ours, by Reject(3) or by
    /// BusinessMessageReject(j). The latter is an application message, and comes to
    /// [`Application::on_message`] too.
    fn on_reject(&mut self, rejected: &Rejected<'_>, session: &mut SessionRef<'_>) {
        let _ = (rejected, session);
    }

    /// The session goes on from what its store has, after the store failed or the application
    /// panicked in the middle of a turn: forget what the messages in `undone` have led to, or build
    /// it anew from the journal. After a panic it is called in any case, since what the application
    /// itself has in memory may be half changed. Called before the session connects again.
    fn on_undone(&mut self, id: &SessionId, undone: &Undone) {
        let _ = (id, undone);
    }

    /// A message that was handed over cannot be sent, or is given back at the end of a connection
    /// (`unsent = "return"`): `body` holds its fields.
    fn on_unsent(&mut self, id: &SessionId, msg_type: &[u8], body: &[u8], why: SendError) {
        let _ = (id, msg_type, body, why);
    }

    /// The session has no connection any more; it may log on again later. Called also for a
    /// connection that never logged on.
    fn on_disconnect(&mut self, id: &SessionId, end: &Disconnection<'_>) {
        let _ = (id, end);
    }

    /// The counterparty asks for this message, which was sent before, again. Whether it is sent, or
    /// covered by SequenceReset-GapFill(4): an order that has become stale, for instance, had
    /// better not arrive now.
    fn on_resend(&mut self, message: &Message<'_>, id: &SessionId) -> Resend {
        let _ = (message, id);
        Resend::Send
    }

    /// The counterparty has sent the same ResendRequest(2) once more, now `times` in a row: what it
    /// gets makes no progress. Called from the second one on, before it is answered;
    /// [`SessionRef::disconnect`] ends it here, `resend.same_requests_max` in the settings by
    /// itself.
    fn on_resend_loop(&mut self, times: u32, session: &mut SessionRef<'_>) {
        let _ = (times, session);
    }

    /// Whether [`Application::on_wire`] is to be called; asked once, at the start.
    fn wants_wire(&self) -> bool {
        false
    }

    /// Every frame of the connection in the order of the wire, for logs: those received that are
    /// sound, and those sent, also of the session layer and resent ones. Stars stand for
    /// passwords, in whatever message; lengths stay, and CheckSum(10) is corrected for them.
    fn on_wire(&mut self, direction: Direction, frame: &[u8]) {
        let _ = (direction, frame);
    }

    /// An administrative message of the counterparty, after the session layer has dealt with it.
    fn on_admin(&mut self, message: &Message<'_>, session: &mut SessionRef<'_>) {
        let _ = (message, session);
    }
}

/// Why the application does not let the counterparty log on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogonRefusal {
    /// Text(58) of the Logout(5).
    pub text: Cow<'static, str>,
}

impl LogonRefusal {
    /// A refusal with this Text(58). Say no more than the counterparty may know.
    #[must_use]
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into() }
    }
}

/// What becomes of a message that the counterparty asks for again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resend {
    /// It is sent with PossDupFlag(43)=Y.
    #[default]
    Send,
    /// It is left out: a gap fill covers its number.
    Skip,
}

/// Which way a frame went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the counterparty.
    Inbound,
    /// To the counterparty.
    Outbound,
}

/// Why the application does not take a message that the session layer found sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusinessReject {
    /// BusinessRejectReason(380).
    pub reason: u8,
    /// Text(58).
    pub text: Cow<'static, str>,
}

impl BusinessReject {
    /// Reason 3: the application does not take this MsgType(35).
    #[must_use]
    pub const fn unsupported() -> Self {
        Self { reason: 3, text: Cow::Borrowed("Unsupported message type") }
    }

    /// Reason 4: what the application needs is not available. By the settings the message is
    /// offered again, rejected, or passed over.
    #[must_use]
    pub const fn not_available() -> Self {
        Self { reason: 4, text: Cow::Borrowed("Application not available") }
    }

    pub(crate) const fn is_not_available(&self) -> bool {
        self.reason == 4
    }

    /// Reason 0, explained by `text`.
    #[must_use]
    pub fn other(text: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: 0, text: text.into() }
    }
}

/// A message that lacks a field, or has a wrong value, for what the application wants of it.
impl From<transfix_codec::Reject> for BusinessReject {
    fn from(reject: transfix_codec::Reject) -> Self {
        let missing = reject.reason == transfix_codec::RejectReason::RequiredTagMissing;
        // BusinessRejectReason(380): 5 is "conditionally required field missing".
        Self { reason: if missing { 5 } else { 0 }, text: Cow::Owned(reject.to_string()) }
    }
}

/// What could not be sent in answer is refused for another reason, with the error's text.
impl From<SendError> for BusinessReject {
    fn from(error: SendError) -> Self {
        Self::other(error.to_string())
    }
}

/// The session inside a callback: sends without any queue or lock.
pub struct SessionRef<'a> {
    pub(crate) session: &'a mut Session,
    pub(crate) out: &'a mut Outbox,
    pub(crate) registry: &'a Registry,
    pub(crate) now: Now,
    pub(crate) queued_bytes_max: usize,
    pub(crate) cut: &'a mut Option<Disconnect>,
}

impl SessionRef<'_> {
    /// Identity of this session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.session.config().id
    }

    /// The session layer: state and numbers.
    #[must_use]
    pub const fn session(&self) -> &Session {
        self.session
    }

    /// The moment at which the bytes now being handled were read.
    #[must_use]
    pub const fn now(&self) -> Now {
        self.now
    }

    /// Sends an application message of type `msg_type`; `fill` writes its fields. Returns its
    /// MsgSeqNum(34).
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent then, and no number used.
    pub fn send(
        &mut self,
        msg_type: &str,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        let queued_bytes = self.out.bytes().len();
        if queued_bytes > self.queued_bytes_max {
            return Err(SendError::WouldBlock { queued_bytes });
        }
        self.session.send(self.now, msg_type.as_bytes(), self.out, fill)
    }

    /// Sends an application message with another header than the next in turn: see
    /// [`HeaderChange`] and [`Session::send_with`].
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent then.
    pub fn send_with(
        &mut self,
        msg_type: &str,
        change: HeaderChange,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        self.session.send_with(self.now, msg_type.as_bytes(), change, self.out, fill)
    }

    /// Another session of the same engine, to send into it from here.
    #[must_use]
    pub fn other(&self, id: &SessionId) -> Option<SessionHandle> {
        self.registry.find(id)
    }

    /// Begins an orderly end of the session: Logout(5) with this Text(58).
    pub fn logout(&mut self, text: &str) {
        if !self.session.logout(self.now, text, self.out) {
            self.disconnect();
        }
    }

    /// Closes the connection without a word, after what has been sent.
    pub fn disconnect(&mut self) {
        *self.cut = Some(Disconnect::Application);
    }
}
