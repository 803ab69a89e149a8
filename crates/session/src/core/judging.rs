//! The application's decision on a Logon(A), which may be made later.

use crate::answers::LogonRefusal;

/// The application's decision on a Logon(A).
pub type Answer = Result<(), LogonRefusal>;

/// Returns the refusal that replaces a missing answer of the application.
pub fn not_available() -> LogonRefusal {
    LogonRefusal::new("not available")
}

/// When the application was asked about a Logon(A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Before the session was created.
    Before,
    /// In the turn that receives the answer.
    Now,
    /// In an earlier turn.
    Earlier,
}

/// The state of the decision on a Logon(A).
#[derive(Default)]
pub enum Judging {
    /// No Logon(A) was received, or the application was not asked.
    #[default]
    Open,
    /// The application has not answered yet. The value is the deadline on the monotonic clock.
    Asked(u64),
    Answered(Answer, Asked),
    /// The application has accepted the Logon(A), and the store reads what another process has
    /// written. The value is the deadline on the monotonic clock.
    Refreshing(u64),
}

impl Judging {
    /// Returns true if the application was asked.
    pub const fn has_begun(&self) -> bool {
        !matches!(self, Self::Open)
    }

    /// Returns true if the application was asked in an earlier turn of this connection.
    pub const fn has_asked(&self) -> bool {
        matches!(self, Self::Asked(_) | Self::Answered(_, Asked::Earlier) | Self::Refreshing(_))
    }

    /// Returns true if the application has still to answer.
    pub const fn awaits_answer(&self) -> bool {
        matches!(self, Self::Asked(_))
    }

    /// Returns true if the application has answered.
    pub const fn has_answer(&self) -> bool {
        matches!(self, Self::Answered(..))
    }

    /// Sets the awaited answer.
    pub fn answer(&mut self, answer: Answer) {
        *self = Self::Answered(answer, Asked::Earlier);
    }

    /// Returns the deadline for the awaited answer or refresh, on the monotonic clock.
    pub const fn deadline(&self) -> Option<u64> {
        match self {
            Self::Asked(until_ns) | Self::Refreshing(until_ns) => Some(*until_ns),
            Self::Open | Self::Answered(..) => None,
        }
    }

    /// Returns the deadline for a refresh of the store, if the refresh has begun.
    pub const fn refreshes_until_ns(&self) -> Option<u64> {
        match self {
            Self::Refreshing(until_ns) => Some(*until_ns),
            Self::Open | Self::Asked(_) | Self::Answered(..) => None,
        }
    }

    /// Refuses the Logon(A) if the application has not answered in time. Returns true if the
    /// Logon(A) was refused.
    pub fn give_up(&mut self, now_ns: u64) -> bool {
        let is_late = matches!(self, Self::Asked(until_ns) if now_ns >= *until_ns);
        if is_late {
            self.answer(Err(not_available()));
        }
        is_late
    }

    /// Removes and returns the answer.
    pub fn take(&mut self) -> Option<Answer> {
        match std::mem::take(self) {
            Self::Answered(answer, _) => Some(answer),
            Self::Refreshing(_) => Some(Ok(())),
            other => {
                *self = other;
                None
            }
        }
    }
}
