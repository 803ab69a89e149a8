//! The program's hook for outgoing messages: [`BeforeSend`].

use std::fmt;

use transfix_codec::group::Members;
use transfix_codec::{DraftEntry, Fields, MessageDraft, Misuse, MsgType, Tag};
use transfix_session::SessionId;

/// A hook that may check, change or veto each outgoing message of a session.
///
/// Closures of the following form implement [`BeforeSend`]:
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
    /// Checks an application message before it is sent, and may change its fields. The message
    /// contains all fields except those of the session layer.
    ///
    /// The engine calls this method in the sending thread, so several threads may call it at the
    /// same time. Messages sent by this method pass through it too. Administrative messages go
    /// through [`BeforeSend::before_admin`] instead, and resends through
    /// [`Application::on_resend`](crate::Application::on_resend).
    ///
    /// # Errors
    /// On [`Veto`], the engine does not send the message and uses no number. The sender receives
    /// [`SendError::Vetoed`](crate::SendError::Vetoed).
    fn before_send(&self, message: &mut OutgoingMessage<'_>) -> Result<(), Veto>;

    /// Checks a new administrative message, such as a Logon(A) or a Heartbeat(0), before the
    /// session layer sends it. [`OutgoingMessage::msg_seq_num`] and
    /// [`OutgoingMessage::sending_time`] return the final values, so that a signature can cover
    /// them. Fields may be added or changed, if both sides still understand the fields of the
    /// session layer.
    ///
    /// The engine calls this method in the thread that holds the session, which is the session's
    /// worker or an operator's thread. The method must not block, and must not call methods of a
    /// session. The engine does not call it for resends, or for gap fills between resends.
    ///
    /// # Errors
    /// On [`Veto`], the engine does not send the message and uses no number. The connection ends
    /// with [`Disconnect::Vetoed`](crate::Disconnect::Vetoed).
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

/// The error by which a [`BeforeSend`] hook refuses an outgoing message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Veto;

impl fmt::Display for Veto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the message must not be sent")
    }
}

/// Writes the same text as `Display`, because Rust prints an error returned by `main` with `Debug`.
impl fmt::Debug for Veto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Veto {}

/// A message that is about to be sent, as [`BeforeSend`] receives it.
pub struct OutgoingMessage<'a> {
    session: &'a SessionId,
    draft: &'a mut MessageDraft,
    pub(super) is_changed: bool,
    /// MsgSeqNum(34) and SendingTime(52) of an administrative message; `None` for an application
    /// message.
    pub(super) sent_as: Option<(u64, &'a str)>,
}

impl<'a> OutgoingMessage<'a> {
    pub(super) const fn new(session: &'a SessionId, draft: &'a mut MessageDraft) -> Self {
        Self { session, draft, is_changed: false, sent_as: None }
    }

    /// Returns the session that sends the message.
    #[must_use]
    pub const fn session(&self) -> &SessionId {
        self.session
    }

    /// Returns MsgType(35).
    #[must_use]
    pub fn msg_type(&self) -> MsgType<'_> {
        self.draft.msg_type()
    }

    /// Returns MsgSeqNum(34) of an administrative message. Returns `None` for an application
    /// message, which receives its number later.
    #[must_use]
    pub fn msg_seq_num(&self) -> Option<u64> {
        self.sent_as.map(|(number, _)| number)
    }

    /// Returns SendingTime(52) of an administrative message, with exactly the digits that are sent.
    /// Returns `None` for an application message, which receives its SendingTime(52) later.
    #[must_use]
    pub fn sending_time(&self) -> Option<&str> {
        self.sent_as.map(|(_, time)| time)
    }

    /// Returns the current fields of the message.
    #[must_use]
    pub fn fields(&self) -> Fields<'_> {
        self.draft.fields()
    }

    /// Opens the message for editing, like
    /// [`MessageDraft::edit`](transfix_codec::MessageDraft::edit). `members` is the message's
    /// definition in the dictionary.
    pub fn edit<'d, M: Members + ?Sized>(&'d mut self, members: &'d M) -> DraftEntry<'d, M> {
        self.is_changed = true;
        self.draft.edit(members)
    }

    /// Replaces the first occurrence of the field `tag`, or appends the field. Repeating groups are
    /// not considered: in messages with groups, use [`OutgoingMessage::edit`].
    ///
    /// # Errors
    /// The value is empty or contains a delimiter, or the session layer writes the field. The
    /// message stays unchanged.
    pub fn set(&mut self, tag: Tag, value: &[u8]) -> Result<(), Misuse> {
        self.is_changed = true;
        self.draft.set(tag, value)
    }

    /// Removes the first occurrence of the field `tag`. Returns true if the message had the field.
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
