//! The logins of users; a cookie identifies each login.
//!
//! Invariant: only the hash of a cookie is stored, never the cookie itself.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::users::{random_hex, sha256_hex};

/// Maximum number of logins; a further login ends the login that was idle for the longest time.
const LOGINS_MAX: usize = 1_000;
/// Maximum duration of a login, whether active or idle: 12 hours, in nanoseconds.
const LIFE_NS: u64 = 12 * 3_600 * 1_000_000_000;

/// A login of a user.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    pub(crate) name: String,
    /// Hash of the user's password at the time of login; a changed password requires a new login.
    pub(crate) password_hash: String,
    /// Value of the CSRF header that a changing request must send with the cookie.
    pub(crate) csrf: String,
    since_ns: u64,
    last_ns: u64,
}

/// All logins, keyed by the hashes of their cookies.
pub(crate) struct Logins {
    all: Mutex<HashMap<String, Login>>,
    idle_ns: u64,
}

impl Logins {
    pub(crate) fn new(idle: Duration) -> Self {
        Self { all: Mutex::default(), idle_ns: u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX) }
    }

    /// Starts a login and returns the cookie that identifies it.
    pub(crate) fn begin(
        &self,
        name: &str,
        password_hash: &str,
        now_ns: u64,
    ) -> io::Result<(String, Login)> {
        let (cookie, csrf) = (random_hex()?, random_hex()?);
        let (name, password_hash) = (name.to_owned(), password_hash.to_owned());
        let login = Login { name, password_hash, csrf, since_ns: now_ns, last_ns: now_ns };
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, login| self.is_alive(login, now_ns));
        if all.len() >= LOGINS_MAX {
            let idle = all.iter().min_by_key(|(_, login)| login.last_ns);
            if let Some(idle) = idle.map(|(cookie, _)| cookie.clone()) {
                all.remove(&idle);
            }
        }
        all.insert(sha256_hex(&cookie), login.clone());
        Ok((cookie, login))
    }

    /// Returns the login that `cookie` identifies, and marks the login as active.
    pub(crate) fn find(&self, cookie: &str, now_ns: u64) -> Option<Login> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let login = all.get_mut(&sha256_hex(cookie))?;
        if !self.is_alive(login, now_ns) {
            return None;
        }
        login.last_ns = now_ns;
        Some(login.clone())
    }

    pub(crate) fn end(&self, cookie: &str) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&sha256_hex(cookie));
    }

    const fn is_alive(&self, login: &Login, now_ns: u64) -> bool {
        now_ns.saturating_sub(login.last_ns) < self.idle_ns
            && now_ns.saturating_sub(login.since_ns) < LIFE_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_ends_when_it_is_idle_or_old() {
        let (logins, minute) = (Logins::new(Duration::from_mins(30)), 60_000_000_000);
        let (cookie, _) = logins.begin("anna", "", 0).unwrap();
        assert!(logins.find("other", 0).is_none());
        for at in (0..12 * 60).step_by(29) {
            assert!(logins.find(&cookie, at * minute).is_some(), "after {at} min");
        }
        assert!(logins.find(&cookie, 12 * 60 * minute).is_none(), "old");
        let (cookie, _) = logins.begin("anna", "", 0).unwrap();
        assert!(logins.find(&cookie, 30 * minute).is_none(), "idle");
        let (cookie, _) = logins.begin("anna", "", 0).unwrap();
        logins.end(&cookie);
        assert!(logins.find(&cookie, 0).is_none());
    }

    #[test]
    fn logins_are_bounded() {
        let logins = Logins::new(Duration::from_mins(30));
        let (first, _) = logins.begin("anna", "", 0).unwrap();
        for n in 1..=LOGINS_MAX as u64 {
            logins.begin("anna", "", n).unwrap();
        }
        assert_eq!(logins.all.lock().unwrap().len(), LOGINS_MAX);
        assert!(logins.find(&first, 1).is_none());
    }
}
