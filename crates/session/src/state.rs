//! The states of a session and all transitions between them.
//!
//! A session is [`Disconnected`](State::Disconnected) until a connection exists. The initiator then
//! sends its Logon(A) and enters [`LogonSent`](State::LogonSent). The acceptor waits for the
//! Logon(A) in [`LogonAwaited`](State::LogonAwaited). An accepted Logon(A) makes either side
//! [`Active`](State::Active). A side that sends Logout(5) is in [`LogoutSent`](State::LogoutSent)
//! until the connection ends. The end of the connection leads from every state to `Disconnected`.
//!
//! Gaps and unanswered TestRequest(1) messages are not states: they may begin and end while the
//! session is `Active` or `LogoutSent`.

use crate::verdict::SendError;

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// No link.
    Disconnected,
    /// Acceptor: a connection exists, and no Logon(A) has been received.
    LogonAwaited,
    /// Initiator: our Logon(A) has been sent, and is not answered.
    LogonSent,
    /// Logged on: application messages can be sent.
    Active,
    /// Our Logout(5) has been sent, as a request or as the answer to a Logout(5). The session
    /// rejects new application messages in this state.
    LogoutSent,
}

/// The events that can change the state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The acceptor has a new connection.
    LinkAccepted,
    /// The initiator has a new connection and sends its Logon(A).
    LogonSent,
    /// A Logon(A) was received and accepted.
    LogonAccepted,
    /// This side sends a Logout(5).
    LogoutSent,
    /// The connection has ended, through either side or the network.
    LinkClosed,
}

impl State {
    /// All states, in the order of the tables in the documentation.
    pub const ALL: [Self; 5] =
        [Self::Disconnected, Self::LogonAwaited, Self::LogonSent, Self::Active, Self::LogoutSent];

    /// Returns an error if application messages cannot be sent in this state.
    ///
    /// # Errors
    /// [`SendError::LoggingOut`] after our Logout(5), [`SendError::NotLoggedOn`] before the logon.
    pub const fn ready(self) -> Result<(), SendError> {
        match self {
            Self::Active => Ok(()),
            other => Err(other.why_not_ready()),
        }
    }

    #[cold]
    const fn why_not_ready(self) -> SendError {
        match self {
            Self::LogoutSent => SendError::LoggingOut,
            Self::Disconnected | Self::LogonAwaited | Self::LogonSent | Self::Active => {
                SendError::NotLoggedOn
            }
        }
    }

    /// Returns the state after `event`, or `None` if the event cannot happen in this state.
    #[must_use]
    pub const fn on(self, event: Event) -> Option<Self> {
        use State::{Active, Disconnected, LogonAwaited, LogonSent, LogoutSent};
        Some(match (self, event) {
            (Disconnected, Event::LinkAccepted) => LogonAwaited,
            (Disconnected, Event::LogonSent) => LogonSent,
            (LogonAwaited | LogonSent | Active, Event::LogonAccepted) => Active,
            (LogonAwaited | LogonSent | Active | LogoutSent, Event::LogoutSent) => LogoutSent,
            (_, Event::LinkClosed) => Disconnected,
            _ => return None,
        })
    }
}

impl Event {
    /// All events, in the order of the tables in the documentation.
    pub const ALL: [Self; 5] = [
        Self::LinkAccepted,
        Self::LogonSent,
        Self::LogonAccepted,
        Self::LogoutSent,
        Self::LinkClosed,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// Compares all transitions with a snapshot, so that any changed transition fails this test.
    #[test]
    fn matrix() {
        let mut table = String::new();
        for state in State::ALL {
            write!(table, "{state:?}:").unwrap();
            for event in Event::ALL {
                match state.on(event) {
                    Some(next) => write!(table, " {next:?}").unwrap(),
                    None => table.push_str(" -"),
                }
            }
            table.push('\n');
        }
        let expected = "\
Disconnected: LogonAwaited LogonSent - - Disconnected
LogonAwaited: - - Active LogoutSent Disconnected
LogonSent: - - Active LogoutSent Disconnected
Active: - - Active LogoutSent Disconnected
LogoutSent: - - - LogoutSent Disconnected
";
        assert_eq!(table, expected);
    }
}
