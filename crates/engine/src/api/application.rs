//! The trait [`Application`], which users implement, and the session types that its callbacks
//! receive.

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

/// The application of one session, which users implement. Each session has its own instance. One
/// thread at a time calls the instance, in the order of MsgSeqNum(34); the next call may come from
/// another thread.
///
/// The last argument of most callbacks is the session: a [`SessionRef`] if the callback may send,
/// or a [`SessionView`] if it may only read.
pub trait Application: Send {
    /// Receives an application message. Answer with [`SessionRef::send`]: the engine reads several
    /// messages at once, then stores and writes all answers together.
    ///
    /// The engine delivers each message once, as far as the journal reaches. A message is delivered
    /// again if the process was killed, or the store failed, before the answers were stored. These
    /// answers were never sent. After a failure of the store, the engine reports
    /// [`SessionNotice::RolledBack`] before it delivers a message again. If this method panics, the
    /// message counts as received and is not delivered again.
    ///
    /// # Errors
    /// A [`BusinessReject`] makes the session send BusinessMessageReject(j), or Reject(3) up to FIX
    /// 4.1. A [`Reject`](transfix_codec::Reject) of a getter, returned by `?`, makes it send
    /// Reject(3). The message counts as received in both cases.
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject>;

    /// Judges the Logon(A) of the counterparty after the session layer has accepted it. Check
    /// Username(553), Password(554) and NewPassword(925) here. The engine calls this method once
    /// for each Logon(A), before it answers.
    ///
    /// The calling thread also drives other sessions, so this method must not block. To ask a
    /// database or a directory, call [`LogonAttempt::answer_later`] and answer from another thread.
    ///
    /// # Errors
    /// A [`LogonRefusal`] makes the session send Logout(5) and close the connection.
    fn judge_logon(
        &mut self,
        logon: &Message<'_>,
        attempt: &mut LogonAttempt<'_>,
    ) -> Result<(), LogonRefusal> {
        let _ = (logon, attempt);
        Ok(())
    }

    /// Adds fields to our Logon(A), after the fields of the settings.
    fn fill_logon(&mut self, logon: &mut Body<'_>, session: &SessionView<'_>) {
        let _ = (logon, session);
    }

    /// Receives events of the session other than messages, such as a logon or a reject: see
    /// [`SessionEvent`].
    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        let _ = (event, session);
    }

    /// Receives events during which the session cannot send, such as the end of the connection: see
    /// [`SessionNotice`].
    fn on_notice(&mut self, notice: SessionNotice<'_>, session: &SessionView<'_>) {
        let _ = (notice, session);
    }

    /// Decides about a sent message that the counterparty requests again. [`Resend::Send`] sends
    /// the message again; [`Resend::Skip`] replaces it by a SequenceReset-GapFill(4). Skip a
    /// message that has become stale, such as an old order.
    fn on_resend(&mut self, message: &Message<'_>, session: &SessionView<'_>) -> Resend {
        let _ = (message, session);
        Resend::Send
    }

    /// Returns a hook that sees each message before it is sent, and may change or refuse the
    /// message, like `toApp` of other engines. The engine calls this method once, at the start. The
    /// hook is a separate object, because other threads may send while a callback of the
    /// application runs.
    fn before_send(&self) -> Option<Arc<dyn BeforeSend>> {
        None
    }

    /// Returns true if the engine is to call [`Application::on_wire`]. The engine calls this method
    /// once, at the start.
    fn wants_wire(&self) -> bool {
        false
    }

    /// Receives every frame of the connection in wire order, for logs: valid received frames and
    /// all sent frames, including resent frames and those of the session layer. Stars replace
    /// passwords. Lengths stay the same, and CheckSum(10) is correct for the stars.
    fn on_wire(&mut self, direction: Direction, frame: &[u8], session: &SessionView<'_>) {
        let _ = (direction, frame, session);
    }
}

/// The session in a callback that may read but not send.
pub struct SessionView<'a> {
    access: SessionAccess<'a>,
    sessions: &'a Registry,
}

impl<'a> SessionView<'a> {
    pub(crate) const fn new(access: SessionAccess<'a>, sessions: &'a Registry) -> Self {
        Self { access, sessions }
    }

    /// Returns the identity of this session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        self.access.id()
    }

    /// Returns the state of this session.
    #[must_use]
    pub fn state(&self) -> State {
        self.access.state()
    }

    /// Returns the MsgSeqNum(34) expected next from the counterparty, and that of the next message
    /// to send, like [`SessionHandle::next_numbers`].
    #[must_use]
    pub fn next_numbers(&self) -> (u64, u64) {
        self.access.next_numbers()
    }

    /// Returns the DefaultApplVerID(1137) in force, from the Logon(A) or else from the settings.
    /// Returns `None` before FIXT.1.1.
    #[must_use]
    pub fn appl_ver_id(&self) -> Option<ApplVerId> {
        self.access.appl_ver_id()
    }

    /// Returns the time at which the engine read the bytes that it is processing.
    #[must_use]
    pub const fn now(&self) -> Now {
        self.access.now
    }

    /// Returns a handle to another session of the same engine, for example to send a message there.
    #[must_use]
    pub fn other(&self, id: &SessionId) -> Option<SessionHandle> {
        self.sessions.find(id).map(SessionHandle::of)
    }
}

/// The session inside a callback that may send. Sending uses no queue and no lock.
///
/// [`SessionRef`] has all methods of [`SessionView`].
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

    /// Sends an application message of type `msg_type`; `fill` writes its fields. Returns the
    /// MsgSeqNum(34) of the message.
    ///
    /// `send` fails only if the program makes a mistake, the store has failed, or the engine has
    /// ended. If the session cannot write now, the message gets its number and is stored; the
    /// counterparty requests it after the next logon. A counterparty that does not read loses its
    /// connection, but no answer. A callback can send at most 64 MiB more than `queued_bytes_max`.
    ///
    /// # Errors
    /// [`SendError`]: the message was not sent and used no number.
    pub fn send(
        &mut self,
        msg_type: impl AsRef<[u8]>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        self.send_changed(None, msg_type, fill)
    }

    /// Sends an application message like [`SessionRef::send`], with options.
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

    /// Defers the answer to this message; any thread gives the answer later. The application may
    /// ask a database or another program meanwhile, and no thread waits. Returns `None` if the
    /// application has no threads of its own (`application_threads`), and in all callbacks but
    /// [`Application::on_message`].
    ///
    /// After `answer_later`, an `Ok` returned by `on_message` does not answer the message; an error
    /// does. Until the answer, the message does not count as received, and the engine delivers no
    /// further message of this session. Therefore limit the time until the answer. After a crash,
    /// the engine delivers an unanswered message again.
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
    #[must_use = "an answer dropped without a result says \"not available\""]
    pub fn answer_later(&mut self) -> Option<MessageAnswer> {
        self.view.access.answer_later().map(MessageAnswer::new)
    }

    /// Starts an orderly logout: sends Logout(5) with this Text(58).
    pub fn logout(&mut self, text: &str) {
        self.view.access.logout(text);
    }

    /// Closes the connection without Logout(5), after all sent messages are written.
    pub fn disconnect(&mut self) {
        self.view.access.disconnect();
    }
}
