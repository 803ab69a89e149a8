//! The states of a session and every transition between them, on one page.
//!
//! A session is [`Disconnected`](State::Disconnected) until a link is up. The initiator then sends
//! its Logon(A) and is in [`LogonSent`](State::LogonSent); the acceptor waits for one in
//! [`LogonAwaited`](State::LogonAwaited). The accepted Logon(A) makes both
//! [`Active`](State::Active). The side that sends Logout(5) first is in
//! [`LogoutSent`](State::LogoutSent) until the answer comes or the time for it is over. Losing the
//! link leads back to `Disconnected` from everywhere.
//!
//! Gaps and unanswered TestRequest(1)s are no states: they come and go while the session is
//! `Active` or `LogoutSent`.

use crate::verdict::SendError;

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// No link.
    Disconnected,
    /// Acceptor: a link is up, the Logon(A) has not come yet.
    LogonAwaited,
    /// Initiator: our Logon(A) is under way, the answer has not come yet.
    LogonSent,
    /// Logged on: application messages flow.
    Active,
    /// We sent Logout(5): first, and wait for the answer, or as the answer, and the connection ends
    /// at once. No new application message is taken.
    LogoutSent,
}

/// The events that can change the state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The acceptor has a link.
    LinkAccepted,
    /// The initiator has a link and sends its Logon(A).
    LogonSent,
    /// A Logon(A) was received and accepted.
    LogonAccepted,
    /// We send Logout(5) of our own accord.
    LogoutSent,
    /// The link is closed, by either side or the network.
    LinkClosed,
}

impl State {
    /// All states, for tables.
    pub const ALL: [Self; 5] =
        [Self::Disconnected, Self::LogonAwaited, Self::LogonSent, Self::Active, Self::LogoutSent];

    /// Checks that a session in this state takes application messages.
    ///
    /// # Errors
    /// Why not.
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

    /// The state after `event`; `None` where the event cannot happen.
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
    /// All events, for tables.
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

    /// The whole matrix: a changed transition must be seen here.
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
