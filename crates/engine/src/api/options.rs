//! How a message is sent, where it is not sent as usual.

use transfix_codec::{Body, tag};
use transfix_session::{HeaderChange, SendError, Sent, SessionId};

use crate::api::version::MessageVersion;

/// How a [`SessionHandle`](crate::SessionHandle) sends a message.
///
/// ```
/// use transfix::{SendError, SendOptions, Sent, SessionHandle, msg_type, tag};
///
/// /// Passes news on, which may have been passed on before, and returns when they are safe.
/// fn pass_on(to: &SessionHandle, text: &str) -> Result<Sent, SendError> {
///     let options = SendOptions { poss_resend: true, stored: true, ..SendOptions::default() };
///     to.send_with(options, msg_type::NEWS, |news| _ = news.str(tag::TEXT, text))
/// }
/// ```
#[derive(Default)]
pub struct SendOptions<'a> {
    /// The version of the message.
    pub version: MessageVersion<'a>,
    /// The message gets PossResend(97)=Y.
    pub poss_resend: bool,
    /// True if the call returns when the message is safe in the store, with its number where there
    /// is a logon or `offline = "store"`. No crash loses the message, as far as the store's
    /// `durability` goes. A program that passes messages on from one session to another needs this:
    /// the message counts as taken there when the callback returns. The call waits for the end of
    /// the session's turn, and for the disk; [`Sent::Queued`] says that the message waits in the
    /// store for a logon (`offline = "queue"`).
    pub stored: bool,
    /// Called once, when the message has its number and before any answer can arrive: what is
    /// noted here is there when a rejection comes. A message that waits in the store for a logon
    /// without a number is reported too ([`Sent::Queued`]). With an error after the call the store
    /// may have the message, or not. The message is sent as with `stored`.
    ///
    /// The call comes while the thread holds the session: it must not call anything of a session,
    /// which could wait for ever, and a panic in it ends the session.
    pub note: Option<&'a mut dyn FnMut(Sent)>,
}

/// How a callback sends a message by its [`SessionRef`](crate::SessionRef).
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerOptions<'a> {
    /// The version of the message.
    pub version: MessageVersion<'a>,
    /// The message gets PossResend(97)=Y.
    pub poss_resend: bool,
    /// Another header than the next in turn. With a MsgSeqNum(34) of its own it is no new message:
    /// it is not stored, and the next number stays as it is. Only for repair, and for tests of a
    /// counterparty.
    pub header: Option<HeaderChange>,
}

/// The beginning of a message, whoever sends it.
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
