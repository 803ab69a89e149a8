//! The application's judgement of a Logon(A), which may come later.

use crate::answers::LogonRefusal;

/// The application's judgement of a Logon(A).
pub type Answer = Result<(), LogonRefusal>;

/// The answer where the application gives none.
pub fn not_available() -> LogonRefusal {
    LogonRefusal::new("not available")
}

/// When the application was asked about a Logon(A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Before the session was made.
    Before,
    /// In the turn that has its answer.
    Now,
    /// In an earlier turn.
    Earlier,
}

/// Where a session stands with the judgement of its Logon(A).
#[derive(Default)]
pub enum Judging {
    /// There is no Logon(A), or the application was not asked.
    #[default]
    Open,
    /// The application answers later, at this moment of the monotonic clock at the latest.
    Asked(u64),
    Answered(Answer, Asked),
    /// The application has accepted it, and the store takes over what another process has written,
    /// until this moment of the monotonic clock at the latest.
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

    /// Returns true if the application is to answer.
    pub const fn awaits_answer(&self) -> bool {
        matches!(self, Self::Asked(_))
    }

    /// Returns true if the application has answered.
    pub const fn has_answer(&self) -> bool {
        matches!(self, Self::Answered(..))
    }

    /// The answer that was waited for.
    pub fn answer(&mut self, answer: Answer) {
        *self = Self::Answered(answer, Asked::Earlier);
    }

    /// When no answer is waited for any longer, on the monotonic clock.
    pub const fn deadline(&self) -> Option<u64> {
        match self {
            Self::Asked(until_ns) | Self::Refreshing(until_ns) => Some(*until_ns),
            Self::Open | Self::Answered(..) => None,
        }
    }

    /// Until when the store may be refreshed, if that has begun.
    pub const fn refreshes_until_ns(&self) -> Option<u64> {
        match self {
            Self::Refreshing(until_ns) => Some(*until_ns),
            Self::Open | Self::Asked(_) | Self::Answered(..) => None,
        }
    }

    /// Refuses in place of an application that has not answered in time. Returns whether it did.
    pub fn give_up(&mut self, now_ns: u64) -> bool {
        let is_late = matches!(self, Self::Asked(until_ns) if now_ns >= *until_ns);
        if is_late {
            self.answer(Err(not_available()));
        }
        is_late
    }

    /// The answer, once.
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
