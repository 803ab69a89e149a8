//! Answers of the application to messages of the counterparty.

use std::borrow::Cow;

use transfix_codec::{Reject, RejectReason};

use crate::SendError;

/// The reason why the application refuses a Logon(A).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogonRefusal {
    /// Text(58) of the Logout(5) with which the session refuses the Logon(A).
    pub text: Cow<'static, str>,
}

impl LogonRefusal {
    /// Creates a refusal with this Text(58). The counterparty can read the text: include no
    /// internal details.
    #[must_use]
    pub fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Self { text: text.into() }
    }
}

/// The application's decision about a message that the counterparty requests again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resend {
    /// The message is resent with PossDupFlag(43)=Y.
    #[default]
    Send,
    /// The message is not resent; a gap fill covers its number.
    Skip,
}

/// The direction of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the counterparty.
    Inbound,
    /// To the counterparty.
    Outbound,
}

/// The reason why the application refuses a message that the session layer accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BusinessReject {
    /// BusinessRejectReason(380).
    pub reason: u16,
    /// Text(58).
    pub text: Cow<'static, str>,
    /// The reason why the application's own answer could not be sent. The reason appears only in
    /// the log of this side.
    pub cause: Option<SendError>,
    /// The invalid field of the message. If set, the answer is a Reject(3) that names this field.
    pub fault: Option<Reject>,
}

impl BusinessReject {
    /// Creates a refusal with this BusinessRejectReason(380) and Text(58). Reasons of 100 and above
    /// are user-defined.
    #[must_use]
    pub fn new(reason: u16, text: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, text: text.into(), cause: None, fault: None }
    }

    /// Returns the value of BusinessRejectReason(380).
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        self.reason
    }

    /// Creates a refusal with reason 3: the application does not support this MsgType(35).
    #[must_use]
    pub const fn unsupported() -> Self {
        let text = Cow::Borrowed("Unsupported message type");
        Self { reason: 3, text, cause: None, fault: None }
    }

    /// Creates a refusal with reason 4: the application is not available. The settings decide
    /// whether the message is delivered again, rejected or skipped.
    #[must_use]
    pub const fn not_available() -> Self {
        let text = Cow::Borrowed("Application not available");
        Self { reason: 4, text, cause: None, fault: None }
    }

    /// Returns true if the session sends no rejection, because the application's own answer could
    /// not be sent. The application may have executed the message, so a rejection would be wrong.
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

    /// Creates a refusal with reason 0 (other) and this Text(58).
    #[must_use]
    pub fn other(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(0, text)
    }
}

/// Converts the error of a typed getter: a field of the message is missing or has a wrong value.
/// The session answers the message with Reject(3), which has RefTagID(371) and
/// SessionRejectReason(373). Reject(3) must name the number of the message. If the numbers have
/// been reset since the message, the session sends BusinessMessageReject(j) instead.
impl From<Reject> for BusinessReject {
    fn from(fault: Reject) -> Self {
        let missing = fault.reason == RejectReason::RequiredTagMissing;
        // BusinessRejectReason(380): 5 is "conditionally required field missing".
        let reject = Self::new(if missing { 5 } else { 0 }, fault.to_string());
        Self { fault: Some(fault), ..reject }
    }
}

/// Allows `?` after a `send` in `Application::on_message`. A mistake of the application, such as
/// [`SendError::Misuse`], rejects the message with reason 0. After any other failure no rejection
/// is sent, because the application may have executed the message. In both cases the error is
/// logged, and the counterparty receives no details.
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
