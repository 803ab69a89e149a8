//! Settings, made by code or read from a TOML file. Unknown keys and wrong values are errors.
//!
//! ```
//! # use std::time::Duration;
//! let settings = transfix_settings::Settings::parse("example.toml", r#"
//!     [engine]
//!     workers = 2
//!
//!     [defaults]
//!     begin_string = "FIX.4.4"
//!     sender_comp_id = "VENUE"
//!     role = "acceptor"
//!     address = "127.0.0.1:9880"
//!
//!     [[session]]
//!     target_comp_id = "CLIENT1"
//!
//!     [[session]]
//!     target_comp_id = "CLIENT2"
//!     heart_bt_int_s = 10
//! "#)?;
//! assert_eq!(settings.sessions.len(), 2);
//! assert_eq!(settings.sessions[0].protocol.heart_bt_int, Duration::from_secs(30));
//! # Ok::<(), transfix_settings::SettingsError>(())
//! ```
//!
//! In code, a time is a `Duration`. In a file, it is a whole number whose key ends with the unit:
//! `heart_bt_int_s` is the field `heart_bt_int`. The engine uses a time from code exactly, even if
//! it is finer than the unit, and rounds it up only to show or check the key. HeartBtInt(108) is
//! sent in whole seconds, so a check refuses any other value.

#![forbid(unsafe_code)]

mod added;
mod admin;
mod allow_from;
mod check;
mod dictionary_choice;
mod dictionary_source;
mod engine;
mod entries;
mod events;
mod failover;
mod file;
mod fix_admin;
mod fleet;
mod form;
mod log;
mod other_engines;
mod password_hash;
mod proxy;
pub mod reference;
mod retention;
pub mod review;
pub mod schedule;
#[cfg(feature = "schema")]
mod schema;
mod secret;
mod session;
mod session_dictionaries;
mod socket;
mod store;
mod template;
pub mod text_file;
mod threads;
mod tls;
mod validation;
mod words;

use std::path::Path;

pub use admin::AdminSettings;
pub use allow_from::Subnet;
pub use dictionary_choice::DictionaryChoice;
pub use dictionary_source::DictionarySource;
pub use engine::{EngineSettings, ThreadLost};
pub use events::{
    EventForm, EventLevel, EventLevels, EventLevelsError, EventSettings, SyslogFacility,
};
pub use failover::{FailoverOrder, FailoverSettings};
pub use file::SettingsError;
pub use file::shown::{Origin, ShownKey, ShownSettings};
pub use fix_admin::FixAdminSettings;
pub use fleet::FleetSettings;
pub use log::{LogDirection, LogSettings};
pub use other_engines::settings_of_another;
pub use password_hash::{HashMemory, hash_password, is_of as is_password_of};
pub use proxy::{ProxyKind, ProxySettings};
pub use retention::{BeyondLimit, RetentionSettings};
pub use session::SessionSettings;
pub use session_dictionaries::SessionDictionaries;
pub use socket::{Backoff, SocketSettings};
pub use store::{Durability, StoreSettings};
pub use threads::{AfterPanic, Mode, SendMode, ThreadSettings};
pub use tls::{CertificateFiles, ClientCertificate, TlsSettings, TlsVersion};
pub use transfix_session::{
    ApplicationSettings, GarbledPolicy, Offline, QueueSettings, QueueWhenFull, SlowConsumer,
    TooLongPolicy, Unavailable, UnavailableAction, Unsent, WhenFull,
};
pub use validation::{ValidateOut, ValidationSettings};

/// The settings of an engine.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The settings of `[engine]`, which all sessions share.
    pub engine: EngineSettings,
    /// The settings of the administration over HTTP and FIX; `None` if it is off.
    pub admin: Option<AdminSettings>,
    /// Destinations and levels of the program's events, if the file has `[events]`.
    pub events: Option<EventSettings>,
    /// The fleet of which this process is a gateway, if the file has `[fleet]`.
    pub fleet: Option<FleetSettings>,
    /// The sessions, in the order of the file.
    pub sessions: Vec<SessionSettings>,
}

impl Settings {
    /// Returns settings with one session. All other keys have their defaults.
    #[must_use]
    pub fn of(session: SessionSettings) -> Self {
        Self { sessions: vec![session], ..Self::default() }
    }

    /// Reads settings from a TOML file, and the files that it includes.
    ///
    /// # Errors
    /// [`SettingsError`] with the file, the line, and the nearest right key.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SettingsError> {
        file::load(path.as_ref())
    }

    /// Returns the effective values of a settings file: each key of `[engine]` and of each session,
    /// with its value and origin. Passwords are hidden.
    ///
    /// # Errors
    /// As [`Settings::load_or_all_errors`].
    pub fn shown(path: impl AsRef<Path>) -> Result<Vec<ShownSettings>, Vec<SettingsError>> {
        file::shown::shown(path.as_ref())
    }

    /// Returns all tables and keys that a settings file may have, as text. For each key, the text
    /// gives its meaning, form, default and bounds. A name, such as `logon`, `heart_bt_int_s` or
    /// `tls.min_version`, selects one table or key.
    ///
    /// # Errors
    /// If the table or key does not exist. The text names the nearest name.
    pub fn reference(of: Option<&str>) -> Result<String, String> {
        reference::text(of)
    }

    /// Returns a JSON Schema (draft 2020-12) for settings files, by which editors complete and
    /// check them.
    #[cfg(feature = "schema")]
    #[must_use]
    pub fn schema() -> String {
        schema::text()
    }

    /// Reads a TOML file like [`Settings::load`], but returns all errors, at most one for each key,
    /// in the order of the lines.
    ///
    /// # Errors
    /// At least one [`SettingsError`].
    pub fn load_or_all_errors(path: impl AsRef<Path>) -> Result<Self, Vec<SettingsError>> {
        file::load_or_all(path.as_ref())
    }

    /// Reads settings from TOML text. `name` is the file's name in errors.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub fn parse(name: &str, text: &str) -> Result<Self, SettingsError> {
        file::parse(Path::new(name), text)
    }
}
