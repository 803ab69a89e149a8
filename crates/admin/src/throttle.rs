//! Who guesses passwords waits longer and longer; nobody is locked out.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Failures that cost nothing.
const FREE: u32 = 3;
/// After which time a source is as new, in nanoseconds.
const FORGOTTEN_NS: u64 = 600_000_000_000;
/// The longest wait, in seconds.
const WAIT_MAX_S: u64 = 60;
/// Sources that are remembered; beyond it the oldest goes.
const SOURCES_MAX: usize = 4_096;

/// Failed log-ins, by source.
#[derive(Default)]
pub(crate) struct Throttle {
    failures: Mutex<HashMap<IpAddr, Failures>>,
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    last_ns: u64,
}

impl Throttle {
    /// How long this source still has to wait.
    pub(crate) fn wait(&self, source: IpAddr, now_ns: u64) -> Option<Duration> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let found = failures.get(&network(source))?;
        let over = found.count.checked_sub(FREE)?;
        let wait_s = 1_u64.checked_shl(over).unwrap_or(u64::MAX).min(WAIT_MAX_S);
        let since = Duration::from_nanos(now_ns.saturating_sub(found.last_ns));
        Duration::from_secs(wait_s).checked_sub(since).filter(|wait| !wait.is_zero())
    }

    pub(crate) fn failed(&self, source: IpAddr, now_ns: u64) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let source = network(source);
        if failures.len() >= SOURCES_MAX && !failures.contains_key(&source) {
            failures.retain(|_, found| now_ns.saturating_sub(found.last_ns) < FORGOTTEN_NS);
            let oldest = failures.iter().min_by_key(|(_, found)| found.last_ns).map(|(at, _)| *at);
            if let Some(oldest) = oldest.filter(|_| failures.len() >= SOURCES_MAX) {
                failures.remove(&oldest);
            }
        }
        let found = failures.entry(source).or_insert(Failures { count: 0, last_ns: now_ns });
        if now_ns.saturating_sub(found.last_ns) >= FORGOTTEN_NS {
            found.count = 0;
        }
        found.count = found.count.saturating_add(1);
        found.last_ns = now_ns;
    }

    pub(crate) fn succeeded(&self, source: IpAddr) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(&network(source));
    }
}

/// Of IPv6 a source has a whole network.
pub(crate) fn network(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !u128::from(u64::MAX)).into()),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn waits_grow_and_end() {
        let (throttle, source) = (Throttle::default(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let second = 1_000_000_000;
        let waits: Vec<_> = (0..12)
            .map(|_| {
                throttle.failed(source, second);
                throttle.wait(source, second).map_or(0, |wait| wait.as_secs())
            })
            .collect();
        assert_eq!(waits, [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        assert_eq!(throttle.wait(source, 31 * second).map(|wait| wait.as_secs()), Some(30));
        assert_eq!(throttle.wait(source, 61 * second), None);
        throttle.failed(source, second + FORGOTTEN_NS);
        assert_eq!(throttle.wait(source, second + FORGOTTEN_NS), None, "long forgotten");
        (0..9).for_each(|_| throttle.failed(source, second));
        throttle.succeeded(source);
        assert_eq!(throttle.wait(source, second), None);
    }

    #[test]
    fn sources_are_bounded() {
        let throttle = Throttle::default();
        for n in 0..10_000_u32 {
            throttle.failed(IpAddr::V4(n.into()), u64::from(n));
        }
        assert_eq!(throttle.failures.lock().unwrap().len(), SOURCES_MAX);
        for n in 0..10_u128 {
            throttle.failed(IpAddr::V6(((1 << 64) + n).into()), 10_000);
        }
        let first = IpAddr::V6(((1_u128 << 64) + 77).into());
        assert!(throttle.wait(first, 10_000).is_some(), "one network");
    }
}
