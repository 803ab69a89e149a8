//! The state that all administrators share, and the check of their logons.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use transfix::{Actor, Admin, clock};

use crate::app::Limits;
use crate::fix::logged_on_users::SharedLoggedOnUsers;
use crate::fix::own::OwnCommands;
use crate::refusals::Refusals;
use crate::throttle::{Throttle, Wait};
use crate::users::{NOBODY, Role, User, UsersFile};

/// The state that the sessions of all administrators share.
pub(crate) struct Administrators {
    pub(crate) admin: Admin,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) users: Arc<UsersFile>,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) own: OwnCommands,
    pub(crate) attendance: SharedLoggedOnUsers,
    pub(crate) limits: Arc<Limits>,
}

/// A user who has logged on over FIX.
#[derive(Clone, Debug)]
pub(super) struct LoggedOnUser {
    pub(super) name: String,
    password_hash: String,
}

/// Returns the address of the peer, or `0.0.0.0` if the address is unknown.
fn source(peer: Option<SocketAddr>) -> IpAddr {
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip())
}

impl Administrators {
    /// Checks the user name and the password, and returns the user.
    ///
    /// # Errors
    /// Returns the text of the Logout(5) for a refused user.
    pub(super) fn log_on(
        &self,
        (name, password): (&str, &str),
        peer: Option<SocketAddr>,
    ) -> Result<LoggedOnUser, String> {
        let from = source(peer);
        // A source with an earlier login of the user is never refused; there, the engine of the
        // administrators delays clients after failed logons.
        if let Wait::Refused(left) = self.throttle.wait(from, name, clock::monotonic_ns()) {
            let seconds = left.as_secs() + 1;
            return Err(format!("too many wrong passwords; try again in {seconds} s"));
        }
        let users = self.users.now();
        let user = users.users.iter().find(|user| user.name == name);
        let hash = user.map_or(NOBODY, |user| &*user.password_hash);
        let is_right = self.admin.is_password_of(hash, password, Some(from));
        let is_right = is_right.map_err(|error| format!("not available: {error}"))?;
        let is_user = user.is_some();
        let Some(user) = user.filter(|user| is_right && user.may_come_from(from)) else {
            self.throttle.failed(from, name, is_user);
            return Err("the user name or the password is wrong".to_owned());
        };
        let at = peer.map_or_else(|| "fix".to_owned(), |peer| format!("fix {peer}"));
        let noted = self.admin.note(&Actor::new(&*user.name, at), "log in", Ok(""));
        noted.map_err(|error| error.to_string())?;
        self.throttle.succeeded(from, name, clock::monotonic_ns());
        tracing::info!(user = user.name, peer = %from, "logged in to the administration");
        Ok(LoggedOnUser { name: user.name.clone(), password_hash: user.password_hash.clone() })
    }

    /// Returns the current role of a user. `None` if the user was removed, has a new password, or
    /// connects from a forbidden address.
    pub(super) fn role(&self, known: &LoggedOnUser, peer: Option<SocketAddr>) -> Option<Role> {
        let is_same = |user: &&User| {
            user.name == known.name
                && user.password_hash == known.password_hash
                && user.may_come_from(source(peer))
        };
        self.users.now().users.iter().find(is_same).map(|user| user.role)
    }
}
