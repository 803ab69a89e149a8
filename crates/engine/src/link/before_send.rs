//! The program's own look at what a session sends.

use std::fmt;

use transfix_codec::group::Members;
use transfix_codec::{DraftEntry, Fields, MessageDraft, Misuse, MsgType, Tag};
use transfix_session::SessionId;

/// The program's own look at what a session sends.
///
/// Any closure of that form is one:
///
/// ```
/// use std::sync::Arc;
/// use transfix::{BeforeSend, OutgoingMessage, Veto, msg_type, tag};
///
/// let look: Arc<dyn BeforeSend> = Arc::new(|message: &mut OutgoingMessage<'_>| {
///     if message.msg_type() == msg_type::NEW_ORDER_SINGLE {
///         let quantity = message.fields().decimal(tag::ORDER_QTY).map_err(|_| Veto)?;
///         if quantity.cmp_value(1_000.into()).is_gt() {
///             return Err(Veto);
///         }
///         message.set(tag::ACCOUNT, b"DESK7").map_err(|_| Veto)?;
///     }
///     Ok(())
/// });
/// # drop(look);
/// ```
pub trait BeforeSend: Send + Sync {
    /// A message of the application that is about to be sent, with all fields but those of the
    /// session layer. It may be changed here.
    ///
    /// Called in the thread that sends, by several at once if several send; what is sent from
    /// here comes here again. Not called for what the session layer writes
    /// ([`BeforeSend::before_admin`] is), nor for messages that are sent again
    /// ([`Application::on_resend`](crate::Application::on_resend) is).
    ///
    /// # Errors
    /// With [`Veto`] it is not sent, no number is used, and the sender gets
    /// [`SendError::Vetoed`](crate::SendError::Vetoed).
    fn before_send(&self, message: &mut OutgoingMessage<'_>) -> Result<(), Veto>;

    /// A new administrative message that the session layer is about to send, such as a Logon(A) or
    /// a Heartbeat(0). [`OutgoingMessage::msg_seq_num`] and [`OutgoingMessage::sending_time`] are
    /// those with which it is sent, so that a signature can cover them. Fields may be added or
    /// changed here, as long as both sides still understand the session layer's own.
    ///
    /// Called in the thread that holds the session: its worker, or the thread of an operator.
    /// It must not wait for anything, nor call anything of a session. Not called for messages that
    /// are sent again, nor for the gap fills between them.
    ///
    /// # Errors
    /// With [`Veto`] the message is not sent, no number is used, and the connection ends by
    /// [`Disconnect::Vetoed`](crate::Disconnect::Vetoed).
    fn before_admin(&self, message: &mut OutgoingMessage<'_>) -> Result<(), Veto> {
        let _ = message;
        Ok(())
    }
}

impl<F> BeforeSend for F
where
    F: Fn(&mut OutgoingMessage<'_>) -> Result<(), Veto> + Send + Sync,
{
    fn before_send(&self, message: &mut OutgoingMessage<'_>) -> Result<(), Veto> {
        self(message)
    }
}

/// A message is not to be sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Veto;

impl fmt::Display for Veto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the message is not to be sent")
    }
}

/// The text: what `main` returns is printed so.
impl fmt::Debug for Veto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Veto {}

/// A message that is about to be sent. See [`BeforeSend`].
pub struct OutgoingMessage<'a> {
    session: &'a SessionId,
    draft: &'a mut MessageDraft,
    pub(super) is_changed: bool,
    /// MsgSeqNum(34) and SendingTime(52) of an administrative message.
    pub(super) sent_as: Option<(u64, &'a str)>,
}

impl<'a> OutgoingMessage<'a> {
    pub(super) const fn new(session: &'a SessionId, draft: &'a mut MessageDraft) -> Self {
        Self { session, draft, is_changed: false, sent_as: None }
    }

    /// The session that sends it.
    #[must_use]
    pub const fn session(&self) -> &SessionId {
        self.session
    }

    /// MsgType(35).
    #[must_use]
    pub fn msg_type(&self) -> MsgType<'_> {
        self.draft.msg_type()
    }

    /// MsgSeqNum(34) of an administrative message; `None` for a message of the application, which
    /// gets its number later.
    #[must_use]
    pub fn msg_seq_num(&self) -> Option<u64> {
        self.sent_as.map(|(number, _)| number)
    }

    /// SendingTime(52) of an administrative message, digit for digit as it is sent; `None` for a
    /// message of the application, which gets its time later.
    #[must_use]
    pub fn sending_time(&self) -> Option<&str> {
        self.sent_as.map(|(_, time)| time)
    }

    /// Its fields as they are now.
    #[must_use]
    pub fn fields(&self) -> Fields<'_> {
        self.draft.fields()
    }

    /// The message, to be changed by what the dictionary says of it, as
    /// [`MessageDraft::edit`](transfix_codec::MessageDraft::edit) does.
    pub fn edit<'d, M: Members + ?Sized>(&'d mut self, members: &'d M) -> DraftEntry<'d, M> {
        self.is_changed = true;
        self.draft.edit(members)
    }

    /// Replaces the first occurrence of the field, or appends it. Groups are not known here: in
    /// messages with groups use [`OutgoingMessage::edit`].
    ///
    /// # Errors
    /// The value is empty or has a delimiter, or the session layer writes the field; the message is
    /// as before then.
    pub fn set(&mut self, tag: Tag, value: &[u8]) -> Result<(), Misuse> {
        self.is_changed = true;
        self.draft.set(tag, value)
    }

    /// Removes the first occurrence of the field; returns whether it was there.
    pub fn remove(&mut self, tag: Tag) -> bool {
        self.is_changed = true;
        self.draft.remove(tag)
    }
}

impl fmt::Debug for OutgoingMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingMessage").field("session", self.session).finish_non_exhaustive()
    }
}
