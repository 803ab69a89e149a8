//! The answers of the application.

use std::borrow::Cow;

use transfix_codec::{Reject, RejectReason};

use crate::SendError;

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

/// The fate of a message that the counterparty asks for again.
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
    /// For the log of this side alone: why no answer could be sent.
    pub cause: Option<SendError>,
    /// A field of the message is wrong: Reject(3) answers it.
    pub fault: Option<Reject>,
}

impl BusinessReject {
    /// A refusal with this BusinessRejectReason(380), of the standard or, from 100 on, of your own,
    /// and this Text(58).
    #[must_use]
    pub fn new(reason: u16, text: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, text: text.into(), cause: None, fault: None }
    }

    /// The value of BusinessRejectReason(380).
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        self.reason
    }

    /// Reason 3: the application does not take this MsgType(35).
    #[must_use]
    pub const fn unsupported() -> Self {
        let text = Cow::Borrowed("Unsupported message type");
        Self { reason: 3, text, cause: None, fault: None }
    }

    /// Reason 4: what the application needs is not available. By the settings the message is
    /// offered again, rejected, or passed over.
    #[must_use]
    pub const fn not_available() -> Self {
        let text = Cow::Borrowed("Application not available");
        Self { reason: 4, text, cause: None, fault: None }
    }

    /// Returns true if nothing is sent for it: the answer failed for a reason that is not the
    /// program's. The program may have executed the message, so that a rejection would be wrong.
    pub const fn is_silent(&self) -> bool {
        matches!(
            self.cause,
            Some(
                SendError::NotLoggedOn
                    | SendError::LoggingOut
                    | SendError::WouldBlock { .. }
                    | SendError::Failed
                    | SendError::Closed
            )
        )
    }

    pub(crate) const fn is_not_available(&self) -> bool {
        self.reason == 4
    }

    /// Reason 0, explained by `text`.
    #[must_use]
    pub fn other(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(0, text)
    }
}

/// A message that lacks a field, or has a wrong value in it: a typed getter says so. The message is
/// answered by Reject(3) with RefTagID(371) and SessionRejectReason(373). A Reject(3) must name the
/// message by its number: if the numbers have begun again since it came, it is answered by
/// BusinessMessageReject(j) with this reason.
impl From<Reject> for BusinessReject {
    fn from(fault: Reject) -> Self {
        let missing = fault.reason == RejectReason::RequiredTagMissing;
        // BusinessRejectReason(380): 5 is "conditionally required field missing".
        let reject = Self::new(if missing { 5 } else { 0 }, fault.to_string());
        Self { fault: Some(fault), ..reject }
    }
}

/// `?` may stand behind a `send` in `Application::on_message`. A mistake of the program, such as
/// [`SendError::Misuse`], refuses the message for another reason (0). Any other failure sends
/// nothing: the program may have executed the message. An event of the log reports both, and the
/// counterparty learns no details.
impl From<SendError> for BusinessReject {
    fn from(error: SendError) -> Self {
        let text = Cow::Borrowed("The answer could not be sent");
        Self { reason: 0, text, cause: Some(error), fault: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfix_codec::{Misuse, tag};

    #[test]
    fn a_counterparty_learns_nothing_of_what_went_wrong_here() {
        for error in [
            SendError::NotLoggedOn,
            SendError::WouldBlock { queued_bytes: 4_711 },
            SendError::TooLong { bytes_max: 100 },
            SendError::Misuse(Misuse::EmptyValue(tag::TEXT)),
            SendError::Failed,
            SendError::Closed,
        ] {
            let reject = BusinessReject::from(error);
            assert_eq!((reject.as_u16(), &*reject.text), (0, "The answer could not be sent"));
            let is_mistake = matches!(error, SendError::TooLong { .. } | SendError::Misuse(_));
            assert_eq!(reject.is_silent(), !is_mistake, "{error}");
        }
    }
}
