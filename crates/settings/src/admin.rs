//! The section `[admin]`: the administration over HTTP, and over FIX.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use transfix_session::settings_table;

use crate::fix_admin::FixAdminSettings;

settings_table! {
    /// `[admin]`: the administration over HTTP, which is there if this table is. The library does
    /// not serve it: the crate `transfix-admin` does, and `transfix serve`.
    #[derive(Serialize, PartialEq, Eq)]
    pub struct AdminSettings {
        /// Where to listen, as `host:port`. At another address than one of this machine alone,
        /// `certificate` and `key` are needed.
        pub address: String = "127.0.0.1:9890".into(),
        /// File of the users and tokens, made by `transfix admin user add`.
        pub users_file: PathBuf = "users.toml".into(),
        /// File of our certificate and those above it, in PEM.
        pub certificate: PathBuf = PathBuf::new(),
        /// File of its private key, in PEM.
        pub key: PathBuf = PathBuf::new(),
        /// Time without a request after which a user must log in again.
        #[least(1)]
        #[mins("login_idle_min")]
        pub login_idle: Duration = 30,
        /// If true, `/metrics` may be read by anybody who reaches the port. Otherwise a token of a
        /// viewer is needed.
        pub open_metrics: bool = false,
        /// The administration over sessions of FIX, as a table. See [`FixAdminSettings`].
        pub fix: Option<FixAdminSettings> = None,
    }
}

impl AdminSettings {
    /// The key that is wrong, and what is wrong with it.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        let empty = |path: &PathBuf| path.as_os_str().is_empty();
        if empty(&self.certificate) != empty(&self.key) {
            let why = "certificate and key of [admin] belong together".to_owned();
            let there = if empty(&self.certificate) { "key" } else { "certificate" };
            return Err((there, why));
        }
        // The one key that has bounds.
        self.check_ranges().map_err(|wrong| ("login_idle_min", format!("[admin]: {wrong}")))?;
        let has_tls = !empty(&self.certificate);
        if let Some(Err(why)) = self.fix.as_ref().map(|fix| fix.check(has_tls)) {
            return Err(("fix", why));
        }
        if !has_tls && !is_of_this_machine(&self.address) {
            return Err((
                "address",
                format!(
                    "address = \"{}\" of [admin] can be reached from other machines: set \
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
