//! Delays clients that guess passwords. The delay doubles with each further failure, up to a limit.
//!
//! Failures are counted by source and name. Invariants: failures with one name delay no other name.
//! A user at a source with an earlier login waits for a bounded time and is never refused, whatever
//! other clients guess there. One password is checked at a time for each source and name; further
//! attempts wait in line. Unknown names are counted like known names. The memory is bounded.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use transfix::clock;

use crate::seldom::RateLimit;
use crate::turns::{Turn, Turns};

/// Number of failed logins that cause no delay.
const FREE: u32 = 3;
/// Time after which failures are forgotten, in nanoseconds.
const FORGOTTEN_NS: u64 = 600_000_000_000;
/// Maximum delay, in seconds.
const WAIT_MAX_S: u64 = 60;
/// Maximum delay at a source with an earlier login of the user, in seconds.
const KNOWN_WAIT_MAX_S: u64 = 5;
/// Maximum number of remembered pairs of source and name. Beyond the limit, the oldest pair without
/// a login is removed first, then the oldest pair with a login.
const PAIRS_MAX: usize = 4_096;

/// A source and the hash of a name. The name is hashed, because it may be a mistyped password.
type Pair = (IpAddr, u64);

/// The failed logins by source and name, and the delays that result from them.
#[derive(Default)]
pub(crate) struct Throttle {
    pairs: Mutex<HashMap<Pair, Failures>>,
    lines: RateLimit,
    turns: Turns<Pair>,
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    last_ns: u64,
    /// True if the user has logged in from this source before.
    is_known: bool,
}

/// The delay that a client must accept before its password is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// No delay: the password is checked at once.
    No,
    /// The check, and therefore the answer, is delayed by this time.
    Here(Duration),
    /// The client is refused and may retry after this time.
    Refused(Duration),
}

impl Throttle {
    fn pairs(&self) -> MutexGuard<'_, HashMap<Pair, Failures>> {
        self.pairs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the password for this name may be checked for this source. The next client waits
    /// until the turn is dropped, so the caller holds the turn until the outcome is counted.
    ///
    /// # Errors
    /// Returns the time after which the source may retry.
    pub(crate) async fn enter(&self, source: IpAddr, name: &str) -> Result<Turn, Duration> {
        let wait = || match self.wait(source, name, clock::monotonic_ns()) {
            Wait::No => Ok(Duration::ZERO),
            Wait::Here(time) => Ok(time),
            Wait::Refused(left) => Err(left),
        };
        wait()?;
        let turn = self.turns.wait(pair(source, name)).await;
        // The delay is read again, because earlier clients in the line may have failed in the
        // meantime.
        tokio::time::sleep(wait()?).await;
        Ok(turn)
    }

    /// Returns the delay that this source must accept before a password for this name is checked.
    pub(crate) fn wait(&self, source: IpAddr, name: &str, now_ns: u64) -> Wait {
        let Some(found) = self.pairs().get(&pair(source, name)).copied() else { return Wait::No };
        let since_ns = now_ns.saturating_sub(found.last_ns);
        let Some(over) = found.count.checked_sub(FREE).filter(|_| since_ns < FORGOTTEN_NS) else {
            return Wait::No;
        };
        let wait_s = 1_u64.checked_shl(over).unwrap_or(u64::MAX);
        if found.is_known {
            return Wait::Here(Duration::from_secs(wait_s.min(KNOWN_WAIT_MAX_S)));
        }
        let left = Duration::from_secs(wait_s.min(WAIT_MAX_S));
        let left = left.saturating_sub(Duration::from_nanos(since_ns));
        if left.is_zero() { Wait::No } else { Wait::Refused(left) }
    }

    /// Counts a failed login; `is_user` is true if a user has this name.
    pub(crate) fn failed(&self, source: IpAddr, name: &str, is_user: bool) {
        self.failed_at(source, name, clock::monotonic_ns());
        // An unknown name may be a mistyped password, so the log omits it.
        let user = if is_user { name } else { "a name without a user" };
        if let Some(left_out) = self.lines.tell() {
            let peer = source;
            tracing::warn!(%user, %peer, left_out, "a login to the administration failed");
        }
    }

    fn failed_at(&self, source: IpAddr, name: &str, now_ns: u64) {
        let (mut pairs, pair) = (self.pairs(), pair(source, name));
        make_room(&mut pairs, pair, now_ns);
        let new = Failures { count: 0, last_ns: now_ns, is_known: false };
        let found = pairs.entry(pair).or_insert(new);
        if now_ns.saturating_sub(found.last_ns) >= FORGOTTEN_NS {
            found.count = 0;
        }
        found.count = found.count.saturating_add(1);
        found.last_ns = now_ns;
    }

    pub(crate) fn succeeded(&self, source: IpAddr, name: &str, now_ns: u64) {
        let (mut pairs, pair) = (self.pairs(), pair(source, name));
        make_room(&mut pairs, pair, now_ns);
        pairs.insert(pair, Failures { count: 0, last_ns: now_ns, is_known: true });
    }
}

fn make_room(pairs: &mut HashMap<Pair, Failures>, new: Pair, now_ns: u64) {
    if pairs.len() < PAIRS_MAX || pairs.contains_key(&new) {
        return;
    }
    let is_young = |found: &Failures| now_ns.saturating_sub(found.last_ns) < FORGOTTEN_NS;
    pairs.retain(|_, found| found.is_known || is_young(found));
    let oldest = pairs.iter().min_by_key(|(_, found)| (found.is_known, found.last_ns));
    if let Some(oldest) = oldest.map(|(at, _)| *at).filter(|_| pairs.len() >= PAIRS_MAX) {
        pairs.remove(&oldest);
    }
}

fn pair(source: IpAddr, name: &str) -> Pair {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    (network(source), hasher.finish())
}

/// Returns the source under which failures are counted: a /64 network for IPv6, the address for
/// IPv4.
pub(crate) fn network(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !u128::from(u64::MAX)).into()),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn refused(seconds: u64) -> Wait {
        Wait::Refused(Duration::from_secs(seconds))
    }

    #[test]
    fn waits_grow_and_end() {
        let throttle = Throttle::default();
        let waits = [0; 10].map(|_| {
            throttle.failed_at(HERE, "anna", SECOND_NS);
            throttle.wait(HERE, "anna", SECOND_NS)
        });
        let grown = [1, 2, 4, 8, 16, 32, 60, 60].map(refused);
        assert_eq!(waits[..2], [Wait::No; 2]);
        assert_eq!(waits[2..], grown);
        assert_eq!(throttle.wait(HERE, "anna", 31 * SECOND_NS), refused(30));
        assert_eq!(throttle.wait(HERE, "anna", 61 * SECOND_NS), Wait::No);
        throttle.failed_at(HERE, "anna", SECOND_NS + FORGOTTEN_NS);
        assert_eq!(throttle.wait(HERE, "anna", SECOND_NS + FORGOTTEN_NS), Wait::No, "forgotten");
    }

    #[test]
    fn failures_hold_up_their_name_alone() {
        let throttle = Throttle::default();
        (0..1_000).for_each(|n| throttle.failed_at(HERE, &format!("name {n}"), SECOND_NS));
        (0..1_000).for_each(|_| throttle.failed_at(HERE, "anna", SECOND_NS));
        assert_eq!(throttle.wait(HERE, "anna", SECOND_NS), refused(60));
        assert_eq!(throttle.wait(HERE, "bert", SECOND_NS), Wait::No);
    }

    #[test]
    fn where_a_user_has_logged_in_nobody_locks_the_user_out() {
        let throttle = Throttle::default();
        throttle.succeeded(HERE, "anna", SECOND_NS);
        (0..1_000).for_each(|_| throttle.failed_at(HERE, "anna", SECOND_NS));
        let here = Wait::Here(Duration::from_secs(KNOWN_WAIT_MAX_S));
        assert_eq!(throttle.wait(HERE, "anna", SECOND_NS), here);
        let elsewhere = IpAddr::V4(Ipv4Addr::from(7));
        assert_eq!(throttle.wait(elsewhere, "anna", SECOND_NS), Wait::No);
        throttle.succeeded(HERE, "anna", SECOND_NS);
        assert_eq!(throttle.wait(HERE, "anna", SECOND_NS), Wait::No);
    }

    /// If 32 clients guess concurrently at a source with an earlier login of the user, one password
    /// is checked at a time.
    #[tokio::test(start_paused = true)]
    async fn guesses_of_one_source_at_one_name_come_one_by_one() {
        let throttle = Arc::<Throttle>::default();
        throttle.succeeded(HERE, "anna", clock::monotonic_ns());
        (0..10).for_each(|_| throttle.failed(HERE, "anna", true));
        let begin = tokio::time::Instant::now();
        let guesses: Vec<_> = (0..32)
            .map(|_| {
                let throttle = Arc::clone(&throttle);
                tokio::spawn(async move {
                    let _turn = throttle.enter(HERE, "anna").await.expect("it is never refused");
                    throttle.failed(HERE, "anna", true);
                    begin.elapsed().as_secs()
                })
            })
            .collect();
        // An attempt with another name does not wait for these guesses.
        drop(throttle.enter(HERE, "bert").await.unwrap());
        assert!(begin.elapsed().is_zero());
        for (n, guess) in guesses.into_iter().enumerate() {
            assert_eq!(guess.await.unwrap(), (n as u64 + 1) * KNOWN_WAIT_MAX_S);
        }
        drop(throttle.enter(HERE, "bert").await.unwrap());
        assert_eq!(throttle.turns.count(), 1, "names that nobody guesses are forgotten");
    }

    /// Clients from an unknown source that wait in line are refused as soon as the first clients
    /// have failed too often.
    #[tokio::test(start_paused = true)]
    async fn strangers_in_line_are_refused_when_it_is_too_much() {
        let throttle = Arc::<Throttle>::default();
        let guesses: Vec<_> = (0..32)
            .map(|_| {
                let throttle = Arc::clone(&throttle);
                tokio::spawn(async move {
                    let Ok(_turn) = throttle.enter(HERE, "anna").await else { return false };
                    // This yield stands for a password check that takes some time.
                    tokio::task::yield_now().await;
                    throttle.failed(HERE, "anna", true);
                    true
                })
            })
            .collect();
        let mut checked = 0;
        for guess in guesses {
            checked += u32::from(guess.await.unwrap());
        }
        assert_eq!(checked, FREE);
    }

    #[test]
    fn the_memory_is_bounded_and_keeps_who_has_logged_in() {
        let throttle = Throttle::default();
        throttle.succeeded(HERE, "anna", 0);
        for n in 0..10_000_u32 {
            throttle.failed_at(IpAddr::V4(n.into()), "anna", u64::from(n));
            throttle.failed_at(HERE, &n.to_string(), u64::from(n));
        }
        assert_eq!(throttle.pairs().len(), PAIRS_MAX);
        assert!(throttle.pairs()[&pair(HERE, "anna")].is_known);
        for n in 0..10_u128 {
            throttle.failed_at(IpAddr::V6(((1 << 64) + n).into()), "anna", 10_000);
        }
        let first = IpAddr::V6(((1_u128 << 64) + 77).into());
        assert_ne!(throttle.wait(first, "anna", 10_000), Wait::No, "one network");
    }
}
