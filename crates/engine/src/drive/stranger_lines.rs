//! Limits the log lines about unknown peers.
//!
//! Invariants: each address has its own limit, so an address that causes many lines hides no other.
//! All addresses also share a limit, so that many addresses cannot flood the log.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use transfix_observe::repeats::{Cause, Repeats};

use crate::drive::new_connections::source;

/// The maximum number of addresses with their own count; further addresses are counted together.
const ADDRESSES_MAX: usize = 1_000;
/// The maximum number of lines that all addresses together may cause at once.
const AT_ONCE: u64 = 100;
/// The time, in nanoseconds, after which one more line is allowed.
const ONE_MORE_NS: u64 = 100_000_000;
/// The time, in nanoseconds, after which omitted lines are reported if no later line has reported
/// them.
const UNTOLD_NS: u64 = 10_000_000_000;

/// Lines about unknown peers, by address or /64 network of IPv6.
#[derive(Default)]
pub(crate) struct Lines {
    of: HashMap<IpAddr, Repeats>,
    others: Repeats,
    /// The monotonic time at which the common limit allows a full burst again.
    full_at_ns: u64,
    /// Lines omitted because of the common limit, since the last line.
    left_out: u64,
    /// The time at which [`Lines::take_omitted`] must be called next, on the monotonic clock.
    omitted_at_ns: Option<u64>,
}

impl Lines {
    /// Counts a line about this address. If the line may be written, returns the number of lines
    /// omitted before it; otherwise `None`.
    pub(crate) fn tell(
        &mut self,
        (now_ns, address): (u64, Option<IpAddr>),
        cause: Cause,
    ) -> Option<u64> {
        let told = self.counted(now_ns, address, cause);
        if told.is_none() {
            self.omitted_at_ns.get_or_insert(now_ns + UNTOLD_NS);
        }
        told
    }

    /// Returns the monotonic time at which omitted lines must be reported.
    pub(crate) const fn deadline(&self) -> Option<u64> {
        self.omitted_at_ns
    }

    /// Takes the omitted lines that were not reported yet, as pairs of cause and count. Counts
    /// cover all addresses together, so that the report stays short.
    pub(crate) fn take_omitted(&mut self) -> Vec<(&'static str, u64)> {
        self.omitted_at_ns = None;
        let mut counts = BTreeMap::new();
        for lines in self.of.values_mut().chain([&mut self.others]) {
            for (what, left_out) in lines.take_rest() {
                *counts.entry(what).or_default() += left_out;
            }
        }
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            counts.insert("lines of all kinds", left_out);
        }
        counts.into_iter().collect()
    }

    fn counted(&mut self, now_ns: u64, address: Option<IpAddr>, cause: Cause) -> Option<u64> {
        let full_at_ns = self.full_at_ns.max(now_ns) + ONE_MORE_NS;
        if full_at_ns > now_ns + AT_ONCE * ONE_MORE_NS {
            self.left_out += 1;
            return None;
        }
        if self.of.len() >= ADDRESSES_MAX {
            self.of.retain(|_, lines| !lines.is_quiet(now_ns));
        }
        let address = address.map(source);
        let known = address.filter(|a| self.of.contains_key(a) || self.of.len() < ADDRESSES_MAX);
        let lines = match known {
            Some(address) => self.of.entry(address).or_default(),
            None => &mut self.others,
        };
        let left_out = lines.tell(now_ns, cause)?;
        self.full_at_ns = full_at_ns;
        Some(left_out + std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Returns how many lines are written for a thousand new addresses at this time.
    fn flood(lines: &mut Lines, now_ns: u64, from: u32) -> usize {
        let address = |i: u32| Some(IpAddr::V4(Ipv4Addr::from(from + i)));
        let told = (0..1_000).map(|i| lines.tell((now_ns, address(i)), Cause::Garbled));
        told.flatten().count()
    }

    #[test]
    fn many_addresses_have_few_lines_together() {
        let mut lines = Lines::default();
        assert_eq!(flood(&mut lines, SECOND_NS, 0), 100);
        assert_eq!(lines.tell((SECOND_NS + ONE_MORE_NS, None), Cause::Refused), Some(900));
        assert_eq!(flood(&mut lines, SECOND_NS + ONE_MORE_NS, 1_000), 0);
        assert_eq!(flood(&mut lines, 2 * SECOND_NS, 2_000), 9);
    }

    #[test]
    fn one_address_leaves_lines_to_the_others() {
        let mut lines = Lines::default();
        let (flooding, other) = ("2001:db8::1".parse().unwrap(), "192.0.2.1".parse().unwrap());
        let all = (0..10_000).map(|_| lines.tell((0, Some(flooding)), Cause::Refused));
        assert_eq!(all.flatten().count(), 10);
        let same_network = "2001:db8::2:1".parse().unwrap();
        assert_eq!(lines.tell((0, Some(same_network)), Cause::Refused), None);
        assert_eq!(lines.tell((0, Some(other)), Cause::Refused), Some(0));
    }

    #[test]
    fn what_was_left_out_of_all_addresses_is_told_together_and_leaves_room_for_others() {
        let mut lines = Lines::default();
        assert_eq!(lines.deadline(), None);
        for n in 0..10 {
            let address = Some(IpAddr::V4(Ipv4Addr::from(n)));
            let told = (0..11).map(|_| lines.tell((SECOND_NS, address), Cause::Garbled));
            assert_eq!(told.flatten().count(), 10);
        }
        assert_eq!(lines.deadline(), Some(SECOND_NS + UNTOLD_NS));
        assert_eq!(lines.take_omitted(), [("lines of all kinds", 1), ("skipped", 9)]);
        assert_eq!((lines.take_omitted(), lines.deadline()), (Vec::new(), None));
        assert!(lines.of.values_mut().all(|lines| lines.is_quiet(u64::MAX)), "forgotten in time");
    }
}
