//! The certificates that the engine presents: their expiry, and the warnings already logged.
//!
//! Invariants: each warning threshold is logged once per certificate, regardless of how often the
//! file is read and how many sessions use it. Listing the certificates never waits for a file or a
//! session.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use transfix_observe::event;

use crate::io::{Io, System};

const DAY_S: i64 = 24 * 60 * 60;
/// The numbers of days before the expiry of a certificate at which a warning is logged.
const WARN_DAYS: [i64; 3] = [30, 7, 1];
/// The interval, in nanoseconds, at which all certificates are checked even without new
/// connections.
const LOOK_NS: u64 = 3_600_000_000_000;

/// Returns the smallest threshold of [`WARN_DAYS`] that includes the remaining time, or -1 after
/// the expiry. Returns `None` if no warning is due.
pub(crate) fn due_threshold(left_s: i64) -> Option<i64> {
    if left_s < 0 {
        return Some(-1);
    }
    WARN_DAYS.into_iter().filter(|days| left_s <= days * DAY_S).min()
}

/// Returns the whole days until the certificate expires; negative after the expiry.
pub(crate) const fn days_left(not_after_s: i64, now_s: i64) -> i64 {
    (not_after_s - now_s).div_euclid(DAY_S)
}

/// A certificate that the engine presents to counterparties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) file: PathBuf,
    pub(crate) subject: String,
    pub(crate) sha256: String,
    pub(crate) not_after_s: i64,
}

impl fmt::Display for Shown {
    /// Writes owner and fingerprint, which identify the certificate.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (sha256:{})", self.subject, self.sha256)
    }
}

/// A place where certificates are presented: an acceptor's address, or an initiator's destination.
pub(crate) trait Place: Send + Sync {
    /// Reads the certificate files again if they have changed.
    fn renew(&self);

    /// Returns the acceptor's address or the initiator's session to which the place belongs.
    fn whose(&self) -> &str;

    /// Returns the certificates that are presented here. If a changed file was refused, also
    /// returns the reason.
    fn shown(&self) -> (Arc<[Shown]>, Option<String>);
}

/// All places at which an engine presents certificates.
pub(crate) struct OwnCertificates {
    io: Arc<dyn Io>,
    places: Mutex<Vec<Weak<dyn Place>>>,
    /// The smallest warning threshold, in days, that was logged for each certificate, by
    /// fingerprint.
    told: Mutex<HashMap<String, i64>>,
    /// The time of the next check, on the monotonic clock.
    look_ns: AtomicU64,
}

impl Default for OwnCertificates {
    fn default() -> Self {
        Self::new(Arc::new(System))
    }
}

impl OwnCertificates {
    pub(crate) fn new(io: Arc<dyn Io>) -> Self {
        let look_ns = AtomicU64::new(io.monotonic_ns().saturating_add(LOOK_NS));
        Self { io, places: Mutex::default(), told: Mutex::default(), look_ns }
    }

    /// Returns an empty instance with the same clock, for checking settings that may not take
    /// effect.
    pub(crate) fn apart(&self) -> Arc<Self> {
        Arc::new(Self::new(Arc::clone(&self.io)))
    }

    // Without the feature `tls`, nothing calls this function.
    #[cfg_attr(not(feature = "tls"), expect(dead_code))]
    pub(crate) const fn io(&self) -> &Arc<dyn Io> {
        &self.io
    }

    /// Adds a place; the list removes places that no longer exist.
    #[cfg_attr(not(feature = "tls"), expect(dead_code))]
    pub(crate) fn add(&self, place: Weak<dyn Place>) {
        let mut places = self.places();
        places.retain(|place| place.strong_count() > 0);
        places.push(place);
    }

    fn places(&self) -> MutexGuard<'_, Vec<Weak<dyn Place>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the places that still exist.
    pub(crate) fn all(&self) -> Vec<Arc<dyn Place>> {
        self.places().iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns the current time, in seconds of Unix time.
    pub(crate) fn now_s(&self) -> i64 {
        self.io.now().utc.0.div_euclid(1_000_000_000)
    }

    /// Logs the warnings that are due for all places, without reading the files again.
    pub(crate) fn tell_all(&self) {
        self.all().iter().for_each(|place| self.tell(&**place));
    }

    /// Logs due warnings for the certificates of this place.
    pub(crate) fn tell(&self, place: &dyn Place) {
        let (now_s, (shown, _)) = (self.now_s(), place.shown());
        for one in &*shown {
            let Some(threshold) = due_threshold(one.not_after_s - now_s) else { continue };
            if !self.is_unreported(&one.sha256, threshold) {
                continue;
            }
            let days = days_left(one.not_after_s, now_s);
            let (whose, certificate) = (place.whose(), one.to_string());
            let file = one.file.display();
            if days < 0 {
                event!(error, CertificateExpired, whose, certificate, %file);
            } else {
                event!(warn, CertificateExpires, whose, certificate, %file, days);
            }
        }
    }

    fn is_unreported(&self, sha256: &str, days: i64) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match told.get_mut(sha256) {
            Some(known) if *known <= days => false,
            Some(known) => {
                *known = days;
                true
            }
            None => {
                told.insert(sha256.to_owned(), days);
                true
            }
        }
    }

    /// Returns the time of the next [`OwnCertificates::look`], on the monotonic clock; `None`
    /// without places.
    pub(crate) fn looks_at(&self) -> Option<u64> {
        (!self.places().is_empty()).then(|| self.look_ns.load(Ordering::Relaxed))
    }

    /// Checks all places if a check is due: reads changed files again, and logs due warnings.
    pub(crate) fn look(&self) {
        let now_ns = self.io.monotonic_ns();
        if self.looks_at().is_none_or(|at| now_ns < at) {
            return;
        }
        self.look_ns.store(now_ns.saturating_add(LOOK_NS), Ordering::Relaxed);
        self.places().retain(|place| place.strong_count() > 0);
        let all = self.all();
        all.iter().for_each(|place| place.renew());
        self.tell_all();
        // Forgets the thresholds of certificates that are no longer presented, so that the map
        // stays small.
        let shown: Vec<_> = all.iter().map(|place| place.shown().0).collect();
        let is_shown =
            |sha256: &str| shown.iter().flat_map(|all| &**all).any(|s| s.sha256 == sha256);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|sha256, _| is_shown(sha256));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_of_three_times_and_once_more() {
        let days = |days: i64| due_threshold(days * DAY_S);
        assert_eq!(
            [days(31), days(30), days(8), days(7), days(2), days(1), days(0)],
            [None, Some(30), Some(30), Some(7), Some(7), Some(1), Some(1)]
        );
        assert_eq!(due_threshold(-1), Some(-1));
        assert_eq!([days_left(DAY_S, 1), days_left(DAY_S, DAY_S), days_left(9, 10)], [0, 0, -1]);
    }

    #[test]
    fn each_threshold_is_news_once_for_each_certificate() {
        let own = OwnCertificates::default();
        let all = [("a", 30), ("a", 30), ("b", 30), ("a", 7), ("a", 30), ("a", -1), ("b", 1)];
        let news = all.map(|(sha256, days)| own.is_unreported(sha256, days));
        assert_eq!(news, [true, false, true, true, false, true, true]);
    }
}
