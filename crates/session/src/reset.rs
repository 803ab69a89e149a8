//! Resets of both sequence numbers by ResetSeqNumFlag(141): the states of a reset and all
//! transitions between them.
//!
//! The side that requests a reset sends a Logon(A) with ResetSeqNumFlag(141)=Y and MsgSeqNum(34) 1.
//! The other side answers with a Logon(A) of the same kind. We request a reset in three situations:
//!
//! - in the Logon(A) that begins a connection ([`Asked`](Reset::Asked));
//! - in our answer to a Logon(A) ([`Answered`](Reset::Answered));
//! - in mid-session ([`UnderWay`](Reset::UnderWay)).
//!
//! In the first and third situation, an accepted Logon(A) of the counterparty completes the reset.
//! In the second, the counterparty's next message completes it. If the connection is lost during a
//! reset while logged on, we do not know whether the counterparty has applied the reset: it is
//! [`Unproven`](Reset::Unproven). The number of the counterparty's next Logon(A) then shows whether
//! the reset was applied.
//!
//! A reset that the counterparty requests has no state, because it takes effect with its Logon(A).

/// The state of a reset that this side requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Both sides agree on the numbers, as far as this side knows.
    Settled,
    /// Our first Logon(A) of the connection has requested a reset and is not answered.
    Asked,
    /// Our answer to a Logon(A) has requested a reset; the counterparty's next message will prove
    /// the reset.
    Answered,
    /// A Logon(A) that we sent while logged on has requested a reset and is not answered.
    UnderWay,
    /// The connection was lost after we requested a reset while logged on and before the answer.
    Unproven,
}

/// The events that change the state of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetEvent {
    /// Our first Logon(A) of the connection requests a reset.
    LogonAsks,
    /// Our answer to a Logon(A) requests a reset.
    AnswerAsks,
    /// A Logon(A) that we send while logged on requests a reset.
    Begins,
    /// A Logon(A) of the counterparty was accepted.
    LogonAccepted,
    /// An operator, the schedule or the settings have set or reset the numbers without a Logon(A).
    NumbersSet,
    /// The connection has ended, through either side or the network.
    LinkClosed,
}

impl Reset {
    /// All states, in the order of the tables in the documentation.
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
    /// All events, in the order of the tables in the documentation.
    pub const ALL: [Self; 6] = [
        Self::LogonAsks,
        Self::AnswerAsks,
        Self::Begins,
        Self::LogonAccepted,
        Self::NumbersSet,
        Self::LinkClosed,
    ];
}

/// The state of all resets of one session: requested, due and in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resets {
    state: Reset,
    /// True if our next Logon(A) must request a reset.
    pub(crate) is_wanted: bool,
    /// True if the reset at the end of the last connection must still be made, because the process
    /// ended first.
    pub(crate) is_due: bool,
    /// The number expected next when the connection was lost; valid while a reset is unproven.
    pub(crate) before: u64,
    /// Time of the next configured reset while logged on, on the monotonic clock.
    pub(crate) begins_at_ns: Option<u64>,
    /// Deadline for the answer to the reset in progress, on the monotonic clock.
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

    /// Returns the deadline for the answer to the reset in progress, on the monotonic clock.
    pub(crate) fn answer_until_ns(&self) -> Option<u64> {
        (self.state == Reset::UnderWay).then_some(self.answer_until_ns)
    }

    /// Begins a reset while logged on.
    pub(crate) fn begin(&mut self, answer_until_ns: u64) {
        self.transition(ResetEvent::Begins);
        self.answer_until_ns = answer_until_ns;
    }

    /// Records that a Logon(A) of the counterparty was accepted, so that both sides agree on the
    /// numbers.
    pub(crate) fn settle(&mut self) {
        self.transition(ResetEvent::LogonAccepted);
        self.is_wanted = false;
    }

    /// Records that the numbers were set or reset without a Logon(A).
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

    /// Compares all transitions with a snapshot, so that any changed transition fails this test.
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
