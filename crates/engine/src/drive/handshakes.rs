//! Limits how much time of the accepting thread the TLS handshakes of one source may use.
//!
//! Beginning a handshake costs the client nothing, but costs this thread a signature and more.
//! Invariants: a source that has used its share must wait, and its connections cost almost nothing
//! meanwhile. Each source has its own share, so no source uses the share of another.

use std::collections::HashMap;

use crate::link::failed_logons::Source;

/// The divisor of the thread's time that one source may use: a quarter.
const PARTS: u64 = 4;
/// The time, in nanoseconds, that one source may use in a burst: about a hundred handshakes.
const AT_ONCE_NS: u64 = 50_000_000;
/// The minimum time, in nanoseconds, that a connection rests while its source has no share left.
const REST_NS: u64 = 20_000_000;
/// The maximum number of sources with a share of their own; further sources use one share together.
const SOURCES_MAX: usize = 1_000;

/// The time used by each source.
#[derive(Default)]
pub(crate) struct Handshakes {
    /// The time at which the share of each source is full again.
    full_at: HashMap<Source, u64>,
    others_full_at: u64,
}

impl Handshakes {
    /// Returns the time until which a connection of this source must rest, if the source has used
    /// its share.
    pub(crate) fn rest(&self, source: Source, now_ns: u64) -> Option<u64> {
        let full_at = self.full_at.get(&source).copied();
        let full_at = full_at.unwrap_or(if self.is_full() { self.others_full_at } else { 0 });
        let again_at = full_at.saturating_sub(AT_ONCE_NS * PARTS);
        (again_at > now_ns).then(|| again_at.max(now_ns + REST_NS))
    }

    /// Records that a handshake of this source took `ns` nanoseconds.
    pub(crate) fn took(&mut self, source: Source, now_ns: u64, ns: u64) {
        if self.is_full() {
            self.full_at.retain(|_, full_at| *full_at > now_ns);
        }
        let is_counted_alone = self.full_at.contains_key(&source) || !self.is_full();
        let full_at = match is_counted_alone {
            true => self.full_at.entry(source).or_default(),
            false => &mut self.others_full_at,
        };
        *full_at = (*full_at).max(now_ns).saturating_add(ns.saturating_mul(PARTS));
    }

    fn is_full(&self) -> bool {
        self.full_at.len() >= SOURCES_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const MS: u64 = 1_000_000;

    fn source(n: u32) -> Source {
        Some(IpAddr::V4(Ipv4Addr::from(n)))
    }

    #[test]
    fn a_source_has_its_share_and_takes_nothing_from_others() {
        let mut handshakes = Handshakes::default();
        let (loud, other, begin) = (source(1), source(2), 1_000 * MS);
        for n in 0..50 {
            assert_eq!(handshakes.rest(loud, begin), None, "after {n} ms");
            handshakes.took(loud, begin, MS);
        }
        assert_eq!(handshakes.rest(loud, begin), None);
        handshakes.took(loud, begin, 10 * MS);
        assert_eq!(handshakes.rest(loud, begin), Some(begin + 40 * MS));
        assert_eq!(handshakes.rest(loud, begin + 39 * MS), Some(begin + 39 * MS + REST_NS));
        assert_eq!(handshakes.rest(loud, begin + 40 * MS), None);
        assert_eq!(handshakes.rest(other, begin), None);
    }

    #[test]
    fn many_sources_are_counted_together_and_forgotten_in_time() {
        let mut handshakes = Handshakes::default();
        for n in 0..10_000 {
            handshakes.took(source(n), MS, MS);
        }
        assert_eq!(handshakes.full_at.len(), SOURCES_MAX);
        assert!(handshakes.rest(source(20_000), MS).is_some(), "they have had it together");
        assert_eq!(handshakes.rest(source(1), MS), None);
        handshakes.took(source(20_000), 10 * MS, MS);
        assert_eq!(handshakes.full_at.len(), 1);
    }
}
