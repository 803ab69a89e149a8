//! Options for sending a message.

use transfix_codec::{Body, tag};
use transfix_session::{HeaderChange, SendError, Sent, SessionId};

use crate::api::version::MessageVersion;

/// Options of a [`SessionHandle`](crate::SessionHandle) for sending a message.
///
/// ```
/// use transfix::{SendError, SendOptions, Sent, SessionHandle, msg_type, tag};
///
/// /// Forwards news, possibly again, and returns when the store has them.
/// fn pass_on(to: &SessionHandle, text: &str) -> Result<Sent, SendError> {
///     let options = SendOptions { poss_resend: true, stored: true, ..SendOptions::default() };
///     to.send_with(options, msg_type::NEWS, |news| _ = news.str(tag::TEXT, text))
/// }
/// ```
#[derive(Default)]
pub struct SendOptions<'a> {
    /// The application version of the message on a FIXT session.
    pub version: MessageVersion<'a>,
    /// The message gets PossResend(97)=Y.
    pub poss_resend: bool,
    /// True if the call returns only after the message was stored. The message has a number if the
    /// session is logged on or `offline = "store"`. With `offline = "queue"`, [`Sent::Queued`]
    /// reports that the message waits in the store for a logon. No crash loses a stored message,
    /// within the limits of the store's `durability`. A program that forwards messages between
    /// sessions needs this option, because the receiving session counts a message as received when
    /// the callback returns. The call waits for the session's current turn, and for the disk.
    pub stored: bool,
    /// A function that the engine calls once, when the message has its number and before any answer
    /// can arrive. Data stored here is available when a rejection arrives. The function is also
    /// called for a message that waits in the store for a logon without a number
    /// ([`Sent::Queued`]). After an error that follows the call, the store may have the message or
    /// not. The message is sent as with `stored`.
    ///
    /// The calling thread holds the session's lock during the call. The function must not call any
    /// method of a session, because the call could wait forever. A panic in the function ends the
    /// session.
    pub note: Option<&'a mut dyn FnMut(Sent)>,
}

/// Options of a [`SessionRef`](crate::SessionRef) for sending a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerOptions<'a> {
    /// The application version of the message on a FIXT session.
    pub version: MessageVersion<'a>,
    /// The message gets PossResend(97)=Y.
    pub poss_resend: bool,
    /// Changes to the message's header. A message with a given MsgSeqNum(34) is not stored, and
    /// leaves the next number unchanged. Use this option only for repair, or to test a
    /// counterparty.
    pub header: Option<HeaderChange>,
}

/// The fields that the options put at the beginning of a message's body.
#[derive(Clone, Copy)]
pub(super) struct Opening<'a> {
    version: MessageVersion<'a>,
    poss_resend: bool,
}

impl<'a> Opening<'a> {
    /// # Errors
    /// [`SendError::NoApplVerId`] if the session has no versions.
    pub(super) fn of(
        version: MessageVersion<'a>,
        poss_resend: bool,
        id: &SessionId,
    ) -> Result<Self, SendError> {
        version.check(id)?;
        Ok(Self { version, poss_resend })
    }

    pub(super) fn then(self, fill: impl FnOnce(&mut Body<'_>)) -> impl FnOnce(&mut Body<'_>) {
        move |body: &mut Body<'_>| {
            self.version.write(body);
            if self.poss_resend {
                body.boolean(tag::POSS_RESEND, true);
            }
            fill(body);
        }
    }
}
