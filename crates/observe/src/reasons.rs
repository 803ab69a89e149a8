//! Counts the reasons of rejects and of ended connections, for all sessions of an engine together.
//!
//! Invariant: the memory is bounded, because there is one counter per possible number of a reason,
//! whatever a counterparty sends.

use std::sync::atomic::{AtomicU64, Ordering};

use transfix_session::Disconnect;

/// The number of SessionRejectReason(373) values with a counter of their own. The counter at this
/// index is for all others.
const REJECTS: usize = 100;
/// The lowest number of a [`Disconnect`] reason.
const ENDS_FIRST: u16 = 100;
/// The maximum number of [`Disconnect`] reasons.
const ENDS: usize = 100;

/// Counts by reason since the start of the engine, for all its sessions together, including removed
/// ones. Reasons that did not occur are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReasonCounts {
    /// Received Reject(3)s by SessionRejectReason(373). `None` stands for a missing field or a
    /// value above 99.
    pub rejects_in: Vec<(Option<u16>, u64)>,
    /// Sent Reject(3)s by SessionRejectReason(373). `None` stands for a missing field or a value
    /// above 99.
    pub rejects_out: Vec<(Option<u16>, u64)>,
    /// Ended connections by [`Disconnect::as_u16`], including those of unknown counterparties that
    /// a template has refused.
    pub disconnects: Vec<(u16, u64)>,
}

/// The counters that all threads update; a snapshot is [`ReasonCounts`]. A usual turn updates none
/// of them.
#[derive(Debug)]
pub struct LiveReasons {
    rejects_in: [AtomicU64; REJECTS + 1],
    rejects_out: [AtomicU64; REJECTS + 1],
    ends: [AtomicU64; ENDS],
}

impl Default for LiveReasons {
    fn default() -> Self {
        Self {
            rejects_in: std::array::from_fn(|_| AtomicU64::new(0)),
            rejects_out: std::array::from_fn(|_| AtomicU64::new(0)),
            ends: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl LiveReasons {
    /// Counts a received Reject(3) with this SessionRejectReason(373).
    pub fn reject_in(&self, reason: Option<&[u8]>) {
        self.rejects_in[place(reason)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a sent Reject(3) with this SessionRejectReason(373).
    pub fn reject_out(&self, reason: Option<&[u8]>) {
        self.rejects_out[place(reason)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that has ended for this reason.
    pub fn ended(&self, why: Disconnect) {
        let place = usize::from(why.as_u16().wrapping_sub(ENDS_FIRST));
        if let Some(count) = self.ends.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the current counts.
    #[must_use]
    pub fn now(&self) -> ReasonCounts {
        let rejects = |counts: &[AtomicU64]| {
            let number = |n: usize| u16::try_from(n).ok().filter(|_| n < REJECTS);
            seen(counts).map(|(n, count)| (number(n), count)).collect()
        };
        let code = |n: usize| ENDS_FIRST + u16::try_from(n).unwrap_or_default();
        ReasonCounts {
            rejects_in: rejects(&self.rejects_in),
            rejects_out: rejects(&self.rejects_out),
            disconnects: seen(&self.ends).map(|(n, count)| (code(n), count)).collect(),
        }
    }
}

/// Returns the counts above 0, each with its index.
fn seen(counts: &[AtomicU64]) -> impl Iterator<Item = (usize, u64)> {
    let counts = counts.iter().map(|count| count.load(Ordering::Relaxed)).enumerate();
    counts.filter(|(_, count)| *count > 0)
}

fn place(reason: Option<&[u8]>) -> usize {
    let text = reason.and_then(|value| std::str::from_utf8(value).ok());
    let number = text.and_then(|text| text.parse::<usize>().ok());
    number.unwrap_or(REJECTS).min(REJECTS)
}

#[cfg(test)]
mod tests {
    use transfix_session::LogonFault;

    use super::*;

    #[test]
    fn whatever_a_counterparty_writes_has_its_place() {
        let reasons = LiveReasons::default();
        let values: [&[u8]; 8] = [b"5", b"99", b"100", b"-1", b"", b"x", b"\xff", b"999999999999"];
        for value in values {
            reasons.reject_in(Some(value));
        }
        reasons.reject_in(None);
        reasons.reject_out(Some(b"05"));
        let now = reasons.now();
        assert_eq!(now.rejects_in, [(Some(5), 1), (Some(99), 1), (None, 7)]);
        assert_eq!(now.rejects_out, [(Some(5), 1)]);
    }

    #[test]
    fn an_end_counts_by_its_number() {
        let reasons = LiveReasons::default();
        let fault = Disconnect::LogonRefused(LogonFault::AnsweredByLogout);
        for why in [Disconnect::LoggedOut, Disconnect::LoggedOut, fault] {
            reasons.ended(why);
        }
        assert_eq!(reasons.now().disconnects, [(101, 2), (fault.as_u16(), 1)]);
    }
}
