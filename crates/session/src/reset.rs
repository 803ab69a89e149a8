//! Resets of both numbers by ResetSeqNumFlag(141): the states of a reset and every transition
//! between them, on one page.
//!
//! The side that requests a reset sends a Logon(A) with ResetSeqNumFlag(141)=Y and MsgSeqNum(34) 1.
//! The answer is a Logon(A) of the same kind. We request a reset in three places:
//!
//! - in the Logon(A) that begins a connection ([`Asked`](Reset::Asked));
//! - in our answer to a Logon(A) ([`Answered`](Reset::Answered));
//! - in mid-session ([`UnderWay`](Reset::UnderWay)).
//!
//! An accepted Logon(A) of the counterparty completes the first and the third kind. The
//! counterparty's next message completes the second kind. If the link is lost during a reset in
//! mid-session, we do not know whether the counterparty has applied the reset: the reset is
//! [`Unproven`](Reset::Unproven). The number of the counterparty's next Logon(A) then shows whether
//! the reset was applied.
//!
//! A reset that the counterparty requests has no state, because it takes effect with its Logon(A).

/// The state of a reset that we request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Both sides agree on the numbers, as far as we know.
    Settled,
    /// Our first Logon(A) of a connection requests a reset; no answer has been received.
    Asked,
    /// Our answer to a Logon(A) requests a reset; the counterparty's next message proves the reset.
    Answered,
    /// Our Logon(A) in mid-session requests a reset; no answer has been received.
    UnderWay,
    /// The link was lost while a reset in mid-session was under way.
    Unproven,
}

/// The events of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetEvent {
    /// Our first Logon(A) of a connection requests a reset.
    LogonAsks,
    /// Our answer to a Logon(A) requests a reset.
    AnswerAsks,
    /// Our Logon(A) in mid-session requests a reset.
    Begins,
    /// A Logon(A) of the counterparty was accepted.
    LogonAccepted,
    /// An operator, the schedule or the settings have set or reset the numbers without a Logon(A).
    NumbersSet,
    /// The link is closed, by either side or the network.
    LinkClosed,
}

impl Reset {
    /// All states, in the order of the tables.
    pub const ALL: [Self; 5] =
        [Self::Settled, Self::Asked, Self::Answered, Self::UnderWay, Self::Unproven];

    /// Returns the state after `event`, or `None` if the event cannot happen in this state.
    #[must_use]
    pub const fn on(self, event: ResetEvent) -> Option<Self> {
        use Reset::{Answered, Asked, Settled, UnderWay, Unproven};
        Some(match (self, event) {
            (Settled, ResetEvent::LogonAsks) => Asked,
            (Settled, ResetEvent::AnswerAsks) => Answered,
            (Settled | Answered, ResetEvent::Begins) => UnderWay,
            (_, ResetEvent::LogonAccepted) => Settled,
            (Unproven, ResetEvent::NumbersSet) => Settled,
            (_, ResetEvent::NumbersSet) => self,
            (UnderWay | Unproven, ResetEvent::LinkClosed) => Unproven,
            (_, ResetEvent::LinkClosed) => Settled,
            _ => return None,
        })
    }
}

impl ResetEvent {
    /// All events, in the order of the tables.
    pub const ALL: [Self; 6] = [
        Self::LogonAsks,
        Self::AnswerAsks,
        Self::Begins,
        Self::LogonAccepted,
        Self::NumbersSet,
        Self::LinkClosed,
    ];
}

/// The resets of one session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resets {
    state: Reset,
    /// True if our next Logon(A) is to request a reset.
    pub(crate) is_wanted: bool,
    /// True if a reset at the end of the last connection is still due, because the process ended
    /// first.
    pub(crate) is_due: bool,
    /// The number expected next when the link was lost; valid while a reset is unproven.
    pub(crate) before: u64,
    /// Time of the next configured reset in mid-session, on the monotonic clock.
    pub(crate) begins_at_ns: Option<u64>,
    /// Deadline for the answer to a reset under way, on the monotonic clock.
    answer_until_ns: u64,
}

impl Resets {
    pub(crate) const fn new(is_due: bool) -> Self {
        Self {
            state: Reset::Settled,
            is_wanted: false,
            is_due,
            before: 0,
            begins_at_ns: None,
            answer_until_ns: 0,
        }
    }

    pub(crate) const fn state(&self) -> Reset {
        self.state
    }

    /// Returns the deadline for the answer to a reset under way.
    pub(crate) fn answer_until_ns(&self) -> Option<u64> {
        (self.state == Reset::UnderWay).then_some(self.answer_until_ns)
    }

    /// Begins a reset in mid-session.
    pub(crate) fn begin(&mut self, answer_until_ns: u64) {
        self.transition(ResetEvent::Begins);
        self.answer_until_ns = answer_until_ns;
    }

    /// Notes that a Logon(A) of the counterparty was accepted: both sides agree on the numbers.
    pub(crate) fn settle(&mut self) {
        self.transition(ResetEvent::LogonAccepted);
        self.is_wanted = false;
    }

    /// Notes that the numbers were set or reset without a Logon(A).
    pub(crate) fn numbers_set(&mut self) {
        self.transition(ResetEvent::NumbersSet);
        self.is_due = false;
    }

    pub(crate) fn transition(&mut self, event: ResetEvent) {
        let next = self.state.on(event);
        self.state = next.unwrap_or_else(|| panic!("{event:?} cannot happen in {:?}", self.state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    /// Snapshot of the whole matrix: a changed transition fails this test.
    #[test]
    fn matrix() {
        let mut table = String::new();
        for state in Reset::ALL {
            write!(table, "{state:?}:").unwrap();
            for event in ResetEvent::ALL {
                match state.on(event) {
                    Some(next) => write!(table, " {next:?}").unwrap(),
                    None => table.push_str(" -"),
                }
            }
            table.push('\n');
        }
        let expected = "\
Settled: Asked Answered UnderWay Settled Settled Settled
Asked: - - - Settled Asked Settled
Answered: - - UnderWay Settled Answered Settled
UnderWay: - - - Settled UnderWay Unproven
Unproven: - - - Settled Settled Unproven
";
        assert_eq!(table, expected);
    }
}
