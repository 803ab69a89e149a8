//! The application's decision whether to accept a Logon(A); the answer may come later.

use crate::answers::LogonRefusal;

/// The application's decision whether to accept a Logon(A).
pub type Answer = Result<(), LogonRefusal>;

/// Returns the refusal that is used if the application gives no answer.
pub fn not_available() -> LogonRefusal {
    LogonRefusal::new("not available")
}

/// The time at which the application was asked about a Logon(A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Before the session was created.
    Before,
    /// In the turn of the session in which the answer arrives.
    Now,
    /// In an earlier turn of the session.
    Earlier,
}

/// The progress of the decision whether to accept a Logon(A).
#[derive(Default)]
pub enum LogonDecision {
    /// No Logon(A) has been received, or the application has not been asked about it.
    #[default]
    Open,
    /// The application was asked and has not answered. The value is the deadline for its answer, on
    /// the monotonic clock.
    Asked(u64),
    Answered(Answer, Asked),
    /// The application has accepted the Logon(A), and the store is reading what another process has
    /// written. The value is the deadline for the refresh, on the monotonic clock.
    Refreshing(u64),
}

impl LogonDecision {
    /// Returns true if the application was asked about the Logon(A).
    pub const fn has_begun(&self) -> bool {
        !matches!(self, Self::Open)
    }

    /// Returns true if the application was asked in an earlier turn of this connection.
    pub const fn has_asked(&self) -> bool {
        matches!(self, Self::Asked(_) | Self::Answered(_, Asked::Earlier) | Self::Refreshing(_))
    }

    /// Returns true if the application was asked and has not answered.
    pub const fn awaits_answer(&self) -> bool {
        matches!(self, Self::Asked(_))
    }

    /// Returns true if the application has answered.
    pub const fn has_answer(&self) -> bool {
        matches!(self, Self::Answered(..))
    }

    /// Records the application's answer, for which the session was waiting.
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

    /// Returns the deadline for the refresh of the store on the monotonic clock, if the refresh has
    /// begun.
    pub const fn refreshes_until_ns(&self) -> Option<u64> {
        match self {
            Self::Refreshing(until_ns) => Some(*until_ns),
            Self::Open | Self::Asked(_) | Self::Answered(..) => None,
        }
    }

    /// Records a refusal if the application has not answered in time. Returns true in this case.
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
