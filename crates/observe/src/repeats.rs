//! Bounds the number of log lines about events that a counterparty, a stranger or a failing disk
//! can repeat.
//!
//! Each cause is allowed a few lines at once, and then one line per interval, with the number of
//! omitted lines.
//!
//! Invariants: the number of lines grows with time, but not with messages, bytes or connections.
//! Omitted lines are reported when their source ends, at the latest.

/// The maximum number of lines that one cause may have at once.
const AT_ONCE: u32 = 10;
/// The interval, in nanoseconds, after which one more line of a cause is allowed.
const ONE_MORE_NS: u64 = 10_000_000_000;

/// Logs an event that can be repeated at will, unless the limit of its cause is reached.
///
/// The arguments are: the counter of lines ([`Repeats`] or the acceptor's `Lines`), the time or
/// address that it needs, the cause, the level, and the code. Then follow the field that names the
/// source, further fields, and the text of an event without a fixed text. The line contains the
/// number of lines omitted before it. The macros of `tracing` know `display` without an import.
#[macro_export]
macro_rules! tell {
    (
        $lines:expr, $at:expr, $cause:ident, $level:ident, $code:ident,
        $who:ident = $name:expr; $words:expr
    ) => {
        if let Some(left_out) = $lines.tell($at, $crate::repeats::Cause::$cause) {
            let left_out = (left_out > 0).then_some(left_out);
            $crate::event!(
                $level, $code, $who = $name, left_out; $words
            );
        }
    };
    (
        $lines:expr, $at:expr, $cause:ident, $level:ident, $code:ident,
        $who:ident = $name:expr $(, $($fields:tt)+)?
    ) => {
        if let Some(left_out) = $lines.tell($at, $crate::repeats::Cause::$cause) {
            let left_out = (left_out > 0).then_some(left_out);
            $crate::event!(
                $level, $code, $who = $name, left_out $(, $($fields)+)?
            );
        }
    };
}

/// The causes of events that a counterparty can repeat at will, or that a lasting fault repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Bytes that are not a message were skipped.
    Garbled,
    /// The session layer has remarked on a received message, for instance that it is not delivered.
    Remark,
    /// A ResendRequest(2) is answered.
    Resend,
    /// The same ResendRequest(2) was received again.
    ResendLoop,
    /// The counterparty has rejected one of our messages.
    Rejected,
    /// A message of the counterparty was not accepted.
    NotTaken,
    /// A message to a third party could not be forwarded to its session.
    NotRouted,
    /// A session has logged on.
    LoggedOn,
    /// A connection has ended, or could not be established.
    Ended,
    /// A connection was refused.
    Refused,
    /// A Logon(A) has to wait until it is checked.
    Held,
    /// A waiting message was not sent.
    NotSent,
    /// The next numbers have changed.
    Numbers,
    /// Fields of the application are missing from our Logon(A), or messages are not validated
    /// because a dictionary is missing.
    Logon,
    /// The store cannot be read or opened.
    Store,
    /// The application or the engine has panicked.
    Panicked,
    /// A file of the protocol log could not be replaced by a new one.
    NotRolled,
    /// Lines of the protocol log were lost.
    NotLogged,
    /// A closed file of the protocol log could not be compressed.
    NotCompressed,
    /// The counterparty reads slowly.
    Slow,
    /// The messages that wait for the application have reached a limit.
    Full,
    /// The counterparty would reject one of our messages as invalid.
    Invalid,
}

impl Cause {
    const COUNT: usize = 22;
    const ALL: [Self; Self::COUNT] = [
        Self::Garbled,
        Self::Remark,
        Self::Resend,
        Self::ResendLoop,
        Self::Rejected,
        Self::NotTaken,
        Self::NotRouted,
        Self::LoggedOn,
        Self::Ended,
        Self::Refused,
        Self::Held,
        Self::NotSent,
        Self::Numbers,
        Self::Logon,
        Self::Store,
        Self::Panicked,
        Self::NotRolled,
        Self::NotLogged,
        Self::NotCompressed,
        Self::Slow,
        Self::Full,
        Self::Invalid,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Garbled => "skipped",
            Self::Remark => "remarks",
            Self::Resend => "resending",
            Self::ResendLoop => "a repeated ResendRequest(2)",
            Self::Rejected => "rejected by the counterparty",
            Self::NotTaken => "a message of the counterparty is refused",
            Self::NotRouted => "a message for another session could not be forwarded",
            Self::LoggedOn => "logged on",
            Self::Ended => "disconnected",
            Self::Refused => "refused a connection",
            Self::Held => "logons that wait",
            Self::NotSent => "a message was not sent, and was returned",
            Self::Numbers => "the numbers have changed",
            Self::Logon => "parts of the Logon(A) are omitted",
            Self::Store => "the store cannot be read or opened",
            Self::Panicked => "panicked",
            Self::NotRolled => "a protocol log cannot be rolled",
            Self::NotLogged => "lines of a protocol log are lost",
            Self::NotCompressed => "a protocol log cannot be compressed",
            Self::Slow => "slow consumers",
            Self::Full => "waits for the application",
            Self::Invalid => "the counterparty would reject the message",
        }
    }
}

/// The counts of log lines for one cause.
#[derive(Clone, Copy, Debug, Default)]
struct Lines {
    /// The number of written lines that still count toward the limit [`AT_ONCE`].
    written: u32,
    /// The monotonic time from which the oldest of these lines counts.
    since_ns: u64,
    /// The number of lines omitted since the last written one.
    left_out: u64,
}

/// The counts of log lines for one source, such as a session, an address or a file.
#[derive(Debug, Default)]
pub struct Repeats {
    lines: [Lines; Cause::COUNT],
    /// The monotonic time at which [`Repeats::take_omitted`] must report omitted lines, unless
    /// another line does so earlier.
    omitted_at_ns: Option<u64>,
}

impl Repeats {
    /// Counts a line about `cause`. If the line may be written, returns the number of lines omitted
    /// before it; otherwise `None`.
    pub fn tell(&mut self, now_ns: u64, cause: Cause) -> Option<u64> {
        let lines = &mut self.lines[cause as usize];
        lines.age(now_ns);
        if lines.written == AT_ONCE {
            lines.left_out += 1;
            self.omitted_at_ns = earliest(self.omitted_at_ns, lines.since_ns);
            return None;
        }
        if lines.written == 0 {
            lines.since_ns = now_ns;
        }
        lines.written += 1;
        Some(std::mem::take(&mut lines.left_out))
    }

    /// Takes the omitted lines that were not reported yet, as pairs of cause and count, for causes
    /// that are allowed a line now.
    pub fn take_omitted(&mut self, now_ns: u64) -> Vec<(&'static str, u64)> {
        let mut untold = Vec::new();
        if self.omitted_at_ns.is_none_or(|at| now_ns < at) {
            return untold;
        }
        self.omitted_at_ns = None;
        for cause in Cause::ALL {
            let lines = &mut self.lines[cause as usize];
            lines.age(now_ns);
            if lines.left_out > 0 && lines.written < AT_ONCE {
                if lines.written == 0 {
                    lines.since_ns = now_ns;
                }
                lines.written += 1;
                untold.push((cause.name(), std::mem::take(&mut lines.left_out)));
            } else if lines.left_out > 0 {
                self.omitted_at_ns = earliest(self.omitted_at_ns, lines.since_ns);
            }
        }
        untold
    }

    /// Takes all omitted lines that were not reported yet, because the source ends.
    pub fn take_rest(&mut self) -> Vec<(&'static str, u64)> {
        self.omitted_at_ns = None;
        let counts = Cause::ALL.into_iter().zip(&mut self.lines);
        let counts =
            counts.map(|(cause, lines)| (cause.name(), std::mem::take(&mut lines.left_out)));
        counts.filter(|(_, left_out)| *left_out > 0).collect()
    }

    /// Returns the time of the next [`Repeats::take_omitted`], on the monotonic clock.
    pub const fn deadline(&self) -> Option<u64> {
        self.omitted_at_ns
    }

    /// Returns true if no omitted line waits to be reported, and no written line counts toward a
    /// limit.
    pub fn is_quiet(&mut self, now_ns: u64) -> bool {
        self.lines.iter_mut().all(|lines| {
            lines.age(now_ns);
            lines.written == 0 && lines.left_out == 0
        })
    }
}

/// Returns the earlier of two times: `moment`, and the time at which a line that counts since
/// `since_ns` no longer does.
fn earliest(moment: Option<u64>, since_ns: u64) -> Option<u64> {
    let other = since_ns + ONE_MORE_NS;
    Some(moment.map_or(other, |moment| moment.min(other)))
}

impl Lines {
    /// Removes lines from the count that are older than their interval.
    fn age(&mut self, now_ns: u64) {
        let gone = now_ns.saturating_sub(self.since_ns) / ONE_MORE_NS;
        if gone > 0 {
            self.written = self.written.saturating_sub(u32::try_from(gone).unwrap_or(u32::MAX));
            self.since_ns += gone * ONE_MORE_NS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_one_in_a_while_with_the_count() {
        let mut repeats = Repeats::default();
        let at_once = (0..1_000).filter(|_| repeats.tell(5, Cause::Garbled).is_some()).count();
        assert_eq!(at_once, AT_ONCE as usize);
        assert_eq!(repeats.tell(6, Cause::Refused), Some(0), "another cause");
        assert_eq!(repeats.tell(4 + ONE_MORE_NS, Cause::Garbled), None);
        assert_eq!(repeats.tell(5 + ONE_MORE_NS, Cause::Garbled), Some(991));
        assert_eq!(repeats.tell(6 + ONE_MORE_NS, Cause::Garbled), None);
        assert_eq!(repeats.take_omitted(7 + ONE_MORE_NS), [], "not yet");
        assert_eq!(repeats.deadline(), Some(5 + 2 * ONE_MORE_NS));
        assert_eq!(repeats.take_omitted(5 + 2 * ONE_MORE_NS), [("skipped", 1)]);
        assert_eq!(repeats.deadline(), None);
        assert_eq!(repeats.take_omitted(5 + 9 * ONE_MORE_NS), [], "once");
        assert_eq!(repeats.tell(21 * ONE_MORE_NS, Cause::Garbled), Some(0));
    }

    #[test]
    fn the_end_tells_all_that_was_left_out() {
        let mut repeats = Repeats::default();
        for _ in 0..1_000 {
            repeats.tell(5, Cause::Garbled);
            repeats.tell(5, Cause::NotSent);
        }
        let rest = [("skipped", 990), ("a message was not sent, and was returned", 990)];
        assert_eq!(repeats.take_rest(), rest);
        assert_eq!((repeats.take_rest(), repeats.deadline()), (Vec::new(), None));
    }

    #[test]
    fn each_cause_has_its_own_place() {
        assert!(Cause::ALL.iter().enumerate().all(|(at, cause)| *cause as usize == at));
    }

    #[test]
    fn lines_grow_with_time_alone() {
        let mut repeats = Repeats::default();
        let hour_ns = 3_600_000_000_000;
        let lines = (0..hour_ns)
            .step_by(1_000_000)
            .filter(|at| repeats.tell(*at, Cause::Ended).is_some())
            .count() as u64;
        assert_eq!(lines, u64::from(AT_ONCE) + (hour_ns - 1) / ONE_MORE_NS);
    }
}
