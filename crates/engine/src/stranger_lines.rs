//! Bounds the lines of the log about strangers.
//!
//! Invariants: each address has a bound of its own, so that one which floods the log hides no
//! other; all together have one too, so that many addresses are no way around it.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::clock;
use crate::repeats::{Cause, Repeats};
use crate::waiting_room::source;

/// Addresses whose lines are counted one by one; those of further ones are counted together.
const ADDRESSES_MAX: usize = 1_000;
/// Lines of all addresses that are written at once.
const AT_ONCE: u64 = 100;
/// Time after which one more line may be written.
const ONE_MORE_NS: u64 = 100_000_000;

/// Lines about strangers: by address, or /64 network of IPv6.
#[derive(Default)]
pub(crate) struct Lines {
    of: HashMap<IpAddr, Repeats>,
    others: Repeats,
    /// When as many lines as ever may be written again.
    full_at_ns: u64,
    /// Lines left out for the bound of all, since the last one.
    left_out: u64,
}

impl Lines {
    /// Whether a line about this address may be written; if so, how many were left out before.
    pub(crate) fn tell(&mut self, address: Option<IpAddr>, cause: Cause) -> Option<u64> {
        self.tell_at(clock::monotonic_ns(), address, cause)
    }

    fn tell_at(&mut self, now_ns: u64, address: Option<IpAddr>, cause: Cause) -> Option<u64> {
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

    /// Lines that a thousand new addresses make at this moment.
    fn flood(lines: &mut Lines, now_ns: u64, from: u32) -> usize {
        let address = |i: u32| Some(IpAddr::V4(Ipv4Addr::from(from + i)));
        let told = (0..1_000).map(|i| lines.tell_at(now_ns, address(i), Cause::Garbled));
        told.flatten().count()
    }

    #[test]
    fn many_addresses_have_few_lines_together() {
        let mut lines = Lines::default();
        assert_eq!(flood(&mut lines, SECOND_NS, 0), 100);
        assert_eq!(lines.tell_at(SECOND_NS + ONE_MORE_NS, None, Cause::Refused), Some(900));
        assert_eq!(flood(&mut lines, SECOND_NS + ONE_MORE_NS, 1_000), 0);
        assert_eq!(flood(&mut lines, 2 * SECOND_NS, 2_000), 9);
    }

    #[test]
    fn one_address_leaves_lines_to_the_others() {
        let mut lines = Lines::default();
        let (flooding, other) = ("2001:db8::1".parse().unwrap(), "192.0.2.1".parse().unwrap());
        let all = (0..10_000).map(|_| lines.tell_at(0, Some(flooding), Cause::Refused));
        assert_eq!(all.flatten().count(), 10);
        let same_network = "2001:db8::2:1".parse().unwrap();
        assert_eq!(lines.tell_at(0, Some(same_network), Cause::Refused), None);
        assert_eq!(lines.tell_at(0, Some(other), Cause::Refused), Some(0));
    }
}
