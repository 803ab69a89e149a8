//! What the application answers when it is asked.

use std::borrow::Cow;

use transfix_session::SendError;

/// Why the application does not let the counterparty log on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
#[non_exhaustive]
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
#[non_exhaustive]
pub struct BusinessReject {
    /// BusinessRejectReason(380).
    pub reason: u16,
    /// Text(58).
    pub text: Cow<'static, str>,
}

impl BusinessReject {
    /// A refusal with this BusinessRejectReason(380), of the standard or, from 100 on, of your own,
    /// and this Text(58).
    #[must_use]
    pub fn new(reason: u16, text: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, text: text.into() }
    }

    /// The value of BusinessRejectReason(380).
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        self.reason
    }

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
