//! The section `[admin]`: the administration over HTTP, and over FIX.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use transfix_session::settings_table;

use crate::fix_admin::FixAdminSettings;

settings_table! {
    /// `[admin]`: the administration over HTTP, which is on if this table is present. The crate
    /// `transfix-admin` and `transfix serve` provide it; the library alone does not.
    #[derive(Serialize, PartialEq, Eq)]
    pub struct AdminSettings {
        /// Address at which the administration listens, as `host:port`. An address that other
        /// machines can reach needs `certificate` and `key`.
        pub address: String = "127.0.0.1:9890".into(),
        /// File of users and tokens, which `transfix admin user add` creates.
        pub users_file: PathBuf = "users.toml".into(),
        /// File of the server's certificate and its intermediate certificates, in PEM. Needs `key`.
        pub certificate: PathBuf = PathBuf::new(),
        /// File of the private key of `certificate`, in PEM.
        pub key: PathBuf = PathBuf::new(),
        /// Time without a request after which a user must log in again.
        #[least(1)]
        #[mins("login_idle_min")]
        pub login_idle: Duration = 30,
        /// If true, `/metrics` needs no login: every client that can connect to the port can read
        /// it. If false, it needs a token of a viewer.
        pub open_metrics: bool = false,
        /// Administration over FIX sessions, as a table. See [`FixAdminSettings`].
        pub fix: Option<FixAdminSettings> = None,
    }
}

impl AdminSettings {
    /// Returns an error with the invalid key, if there is one.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let empty = |path: &PathBuf| path.as_os_str().is_empty();
        if empty(&self.certificate) != empty(&self.key) {
            let why = "[admin] needs both certificate and key, or neither".to_owned();
            let there = if empty(&self.certificate) { "key" } else { "certificate" };
            return Err((there, why));
        }
        // `login_idle_min` is the only key with bounds.
        self.check_ranges().map_err(|wrong| ("login_idle_min", format!("[admin]: {wrong}")))?;
        let has_tls = !empty(&self.certificate);
        if let Some(Err(why)) = self.fix.as_ref().map(|fix| fix.check(has_tls)) {
            return Err(("fix", why));
        }
        if !has_tls && !is_of_this_machine(&self.address) {
            return Err((
                "address",
                format!(
                    "address = \"{}\" of [admin] is reachable from other machines: set \
                     certificate and key too, or listen at 127.0.0.1",
                    self.address
                ),
            ));
        }
        Ok(())
    }
}

/// Returns true if an address, as `host:port`, can be reached from this machine alone.
pub(super) fn is_of_this_machine(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or("", |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
