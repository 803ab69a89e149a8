//! Resets of both numbers by ResetSeqNumFlag(141): the states of a reset and every transition
//! between them, on one page.
//!
//! The side that asks for a reset sends a Logon(A) with ResetSeqNumFlag(141)=Y and MsgSeqNum(34)
//! 1; the answer is a Logon(A) of the same kind. We ask in three places: in the Logon(A) that
//! begins a connection ([`Asked`](Reset::Asked)), in our answer to one
//! ([`Answered`](Reset::Answered)), and in mid-session ([`UnderWay`](Reset::UnderWay)). A Logon(A)
//! that the counterparty sends and we accept settles the first and the last; its next message
//! settles the second. If the link is lost while one is under way, nobody knows whether the
//! counterparty has taken it: it is [`Unproven`](Reset::Unproven), and the number of the
//! counterparty's next Logon(A) tells.
//!
//! A reset that the counterparty asks for is no state: it is taken with its Logon(A).

/// Where a reset of ours stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Both sides agree on the numbers, as far as we know.
    Settled,
    /// Our first Logon(A) of a connection asks for one; the answer has not come yet.
    Asked,
    /// Our Logon(A) in answer to another asks for one, which the next message proves.
    Answered,
    /// Our Logon(A) in mid-session asks for one; the answer has not come yet.
    UnderWay,
    /// The link was lost while one was under way.
    Unproven,
}

/// The events of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetEvent {
    /// Our first Logon(A) of a connection asks.
    LogonAsks,
    /// Our Logon(A) in answer to another asks.
    AnswerAsks,
    /// Our Logon(A) in mid-session asks.
    Begins,
    /// A Logon(A) of the counterparty was accepted.
    LogonAccepted,
    /// The numbers were set or reset otherwise: by an operator, a schedule, the settings.
    NumbersSet,
    /// The link is closed, by either side or the network.
    LinkClosed,
}

impl Reset {
    /// All states, for tables.
    pub const ALL: [Self; 5] =
        [Self::Settled, Self::Asked, Self::Answered, Self::UnderWay, Self::Unproven];

    /// The state after `event`; `None` where the event cannot happen.
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
    /// All events, for tables.
    pub const ALL: [Self; 6] = [
        Self::LogonAsks,
        Self::AnswerAsks,
        Self::Begins,
        Self::LogonAccepted,
        Self::NumbersSet,
        Self::LinkClosed,
    ];
}

/// All that a session knows of its resets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resets {
    state: Reset,
    /// True if our next Logon(A) is to ask for a reset.
    pub(crate) is_wanted: bool,
    /// True if the last process ended in a connection whose end should have reset the numbers.
    pub(crate) is_due: bool,
    /// While a reset is unproven: the number that was expected next when the link was lost.
    pub(crate) before: u64,
    /// When the settings want a reset in mid-session, on the monotonic clock.
    pub(crate) begins_at_ns: Option<u64>,
    /// Until when the answer to a reset under way may come, on the monotonic clock.
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

    /// Until when the answer to a reset under way may come.
    pub(crate) fn answer_until_ns(&self) -> Option<u64> {
        (self.state == Reset::UnderWay).then_some(self.answer_until_ns)
    }

    /// A reset begins in mid-session.
    pub(crate) fn begin(&mut self, answer_until_ns: u64) {
        self.transition(ResetEvent::Begins);
        self.answer_until_ns = answer_until_ns;
    }

    /// A Logon(A) of the counterparty was accepted: both numbers stand as agreed.
    pub(crate) fn settle(&mut self) {
        self.transition(ResetEvent::LogonAccepted);
        self.is_wanted = false;
    }

    /// The numbers were set or reset by other means than a Logon(A).
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

    /// The whole matrix: a changed transition must be seen here.
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
