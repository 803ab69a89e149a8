//! The part that users write: an [`Application`] per session, and its means inside a callback.

use std::ops::Deref;
use std::sync::Arc;

use transfix_codec::{Body, Message};
use transfix_session::{
    ApplVerId, BusinessReject, Direction, HeaderChange, LogonRefusal, Now, Resend, SendError,
    SessionId, State,
};

use crate::api::answer::MessageAnswer;
use crate::api::handle::SessionHandle;
use crate::api::logon::LogonAttempt;
use crate::api::options::{AnswerOptions, Opening};
use crate::drive::registry::Registry;
use crate::link::access::SessionAccess;
use crate::link::before_send::BeforeSend;
use crate::link::outbound_filter::OutboundFilter;
use crate::link::session_event::{SessionEvent, SessionNotice};

/// The user's side of one session. Each session has its own instance. One thread at a time calls
/// the instance, in the order of MsgSeqNum(34); the next call may come from another thread.
///
/// Each callback has the session as its last argument: a [`SessionRef`] where it may send, and a
/// [`SessionView`] where it can only look at the session and find others.
pub trait Application: Send {
    /// An application message, in order. Answer with [`SessionRef::send`]; what is sent here is
    /// stored and written together with all else of the same read.
    ///
    /// Each message comes once, as far as the journal reaches. A message is delivered again in two
    /// cases: the process was killed before the end of the turn, or the store failed in it. In both
    /// cases the first answers were never sent. In the second case [`SessionNotice::RolledBack`]
    /// comes before any message comes again. A message at which this method panics counts as
    /// received, and does not come again.
    ///
    /// # Errors
    /// A [`BusinessReject`] is answered by BusinessMessageReject(j), or Reject(3) up to FIX 4.1. A
    /// [`Reject`](transfix_codec::Reject) of a getter, passed on by `?`, is answered by Reject(3).
    /// The message counts as received all the same.
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject>;

    /// Judges the Logon(A) of the counterparty, which the session layer has found good: here belong
    /// Username(553), Password(554) and NewPassword(925). Called before any answer, once for
    /// each Logon(A).
    ///
    /// The thread that calls drives other sessions too. Where a database or a directory has to be
    /// asked, take [`LogonAttempt::answer_later`], and give the answer from another thread.
    ///
    /// # Errors
    /// A [`LogonRefusal`] is answered by Logout(5), and the connection is closed.
    fn judge_logon(
        &mut self,
        logon: &Message<'_>,
        attempt: &mut LogonAttempt<'_>,
    ) -> Result<(), LogonRefusal> {
        let _ = (logon, attempt);
        Ok(())
    }

    /// Adds fields to our Logon(A), behind those of the settings.
    fn fill_logon(&mut self, logon: &mut Body<'_>, session: &SessionView<'_>) {
        let _ = (logon, session);
    }

    /// Receives what happens to the session besides messages, such as a logon or a reject: see
    /// [`SessionEvent`].
    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        let _ = (event, session);
    }

    /// Receives what happens to the session while nothing can be sent, such as the end of the
    /// connection: see [`SessionNotice`].
    fn on_notice(&mut self, notice: SessionNotice<'_>, session: &SessionView<'_>) {
        let _ = (notice, session);
    }

    /// The counterparty asks for this message, which was sent before, again. The answer is to send
    /// it, or to cover it by SequenceReset-GapFill(4): an order that has become stale, for
    /// instance, had better not arrive now.
    fn on_resend(&mut self, message: &Message<'_>, session: &SessionView<'_>) -> Resend {
        let _ = (message, session);
        Resend::Send
    }

    /// The program's own look at each message before it is sent, in place of `toApp` of other
    /// engines: it may change the message or say no. Asked once, at the start. It is an object of
    /// its own, since a message may be sent while the application is called, or by another thread.
    fn before_send(&self) -> Option<Arc<dyn BeforeSend>> {
        None
    }

    /// Returns true if [`Application::on_wire`] is to be called; asked once, at the start.
    fn wants_wire(&self) -> bool {
        false
    }

    /// Every frame of the connection in the order of the wire, for logs: those received that are
    /// sound, and those sent, also of the session layer and resent ones. Stars stand for
    /// passwords, in whatever message; lengths stay, and CheckSum(10) is corrected for them.
    fn on_wire(&mut self, direction: Direction, frame: &[u8], session: &SessionView<'_>) {
        let _ = (direction, frame, session);
    }
}

/// The session inside a callback in which nothing can be sent.
pub struct SessionView<'a> {
    access: SessionAccess<'a>,
    sessions: &'a Registry,
}

impl<'a> SessionView<'a> {
    pub(crate) const fn new(access: SessionAccess<'a>, sessions: &'a Registry) -> Self {
        Self { access, sessions }
    }

    /// Identity of this session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        self.access.id()
    }

    /// Where the session stands.
    #[must_use]
    pub fn state(&self) -> State {
        self.access.state()
    }

    /// The next numbers, as [`SessionHandle::next_numbers`] has them: the one expected from the
    /// counterparty, and ours.
    #[must_use]
    pub fn next_numbers(&self) -> (u64, u64) {
        self.access.next_numbers()
    }

    /// DefaultApplVerID(1137) in force: agreed in the Logon(A), or of the settings; `None` before
    /// FIXT.1.1.
    #[must_use]
    pub fn appl_ver_id(&self) -> Option<ApplVerId> {
        self.access.appl_ver_id()
    }

    /// The moment at which the bytes now being handled were read.
    #[must_use]
    pub const fn now(&self) -> Now {
        self.access.now
    }

    /// Another session of the same engine, to send into it from here.
    #[must_use]
    pub fn other(&self, id: &SessionId) -> Option<SessionHandle> {
        self.sessions.find(id).map(SessionHandle::of)
    }
}

/// The session inside a callback in which it may send: without any queue or lock.
///
/// The methods of [`SessionView`] are here too.
pub struct SessionRef<'a> {
    view: SessionView<'a>,
    filter: Option<&'a OutboundFilter>,
}

impl<'a> Deref for SessionRef<'a> {
    type Target = SessionView<'a>;

    fn deref(&self) -> &SessionView<'a> {
        &self.view
    }
}

impl<'a> SessionRef<'a> {
    pub(crate) const fn new(
        access: SessionAccess<'a>,
        filter: Option<&'a OutboundFilter>,
        sessions: &'a Registry,
    ) -> Self {
        Self { view: SessionView::new(access, sessions), filter }
    }

    /// Sends an application message of type `msg_type`; `fill` writes its fields. Returns its
    /// MsgSeqNum(34).
    ///
    /// It fails only for a mistake of the program, or because the store has failed or the engine
    /// has ended. Where the session cannot write now, the message gets its number and is stored,
    /// and the counterparty asks for it after the next logon. A counterparty that does not read
    /// loses its connection and not its answers. One callback sends at most 64 MiB more than
    /// `queued_bytes_max`.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent then, and no number used.
    pub fn send(
        &mut self,
        msg_type: impl AsRef<[u8]>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        self.send_changed(None, msg_type, fill)
    }

    /// Sends an application message in another way than [`SessionRef::send`] does.
    ///
    /// # Errors
    /// As [`SessionRef::send`]; [`SendError::NoApplVerId`] for a version before FIXT.1.1.
    pub fn send_with(
        &mut self,
        options: AnswerOptions<'_>,
        msg_type: impl AsRef<[u8]>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        let AnswerOptions { version, poss_resend, header } = options;
        let fill = Opening::of(version, poss_resend, self.id())?.then(fill);
        self.send_changed(header, msg_type, fill)
    }

    #[inline]
    fn send_changed(
        &mut self,
        change: Option<HeaderChange>,
        msg_type: impl AsRef<[u8]>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        let access = &mut self.view.access;
        let Some(filter) = self.filter else { return access.send(msg_type, change, fill) };
        let msg_type = msg_type.as_ref();
        filter.through(msg_type, fill, |body| {
            access.send(msg_type, change, |whole| _ = whole.fields_unchecked(body))
        })
    }

    /// Defers the answer to this message; any thread gives the answer later. The application must
    /// be called in threads of its own (`application_threads`). It may ask a database or another
    /// program meanwhile, and no thread waits. `None` where it is not, and in all callbacks but
    /// [`Application::on_message`].
    ///
    /// The value that `on_message` returns then is no answer yet, unless it is an error. Until the
    /// answer is given, the message does not count as taken, and no further one of this session
    /// comes: who takes the answer bounds the time for it. A message that came before a crash, and
    /// was not answered, comes again.
    ///
    /// ```
    /// use transfix::{BusinessReject, Message, SessionRef};
    ///
    /// # fn ask_elsewhere(_order: Vec<u8>) -> bool { true }
    /// fn on_message(
    ///     message: &Message<'_>,
    ///     session: &mut SessionRef<'_>,
    /// ) -> Result<(), BusinessReject> {
    ///     let answer = session.answer_later().ok_or_else(BusinessReject::not_available)?;
    ///     let order = message.bytes().to_vec();
    ///     std::thread::spawn(move || match ask_elsewhere(order) {
    ///         true => answer.give(Ok(())),
    ///         false => answer.give(Err(BusinessReject::other("no credit"))),
    ///     });
    ///     Ok(())
    /// }
    /// ```
    #[must_use = "dropped without an answer, it says \"not available\""]
    pub fn answer_later(&mut self) -> Option<MessageAnswer> {
        self.view.access.answer_later().map(MessageAnswer::new)
    }

    /// Begins an orderly end of the session: Logout(5) with this Text(58).
    pub fn logout(&mut self, text: &str) {
        self.view.access.logout(text);
    }

    /// Closes the connection without a word, after what has been sent.
    pub fn disconnect(&mut self) {
        self.view.access.disconnect();
    }
}
