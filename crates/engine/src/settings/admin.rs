//! The section `[admin]`: the administration over HTTP.

use std::path::PathBuf;

use serde::Serialize;
use transfix_session::settings_table;

settings_table! {
    /// `[admin]`: the administration over HTTP, which is there if this table is. The library does
    /// not serve it: the crate `transfix-admin` does, and `transfix serve`.
    #[derive(Serialize, PartialEq, Eq)]
    pub struct AdminSettings {
        /// Where to listen, as `host:port`. At another address than one of this machine alone,
        /// `certificate` and `private_key` are needed.
        pub address: String = "127.0.0.1:9890".to_owned(),
        /// File of the users and tokens, made by `transfix admin user add`.
        pub users_file: PathBuf = PathBuf::from("users.toml"),
        /// File of our certificate and those above it, in PEM.
        pub certificate: PathBuf = PathBuf::new(),
        /// File of its private key, in PEM.
        pub private_key: PathBuf = PathBuf::new(),
        /// After how many minutes without a request a user must log in again.
        #[least(1)]
        pub login_idle_min: u32 = 30,
        /// Whether `/metrics` may be read by anybody who reaches the port. Otherwise a token of a
        /// viewer is needed.
        pub open_metrics: bool = false,
    }
}
