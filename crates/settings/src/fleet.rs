//! The section `[fleet]`: several gateways have the same sessions, in a stream of NATS JetStream.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use transfix_session::{Secret, settings_table};

use crate::check::host_and_port;
use crate::{SettingsError, file};

settings_table! {
    /// `[fleet]`: this process is one of several gateways with the same sessions. The sessions are
    /// in a stream of NATS JetStream, so the loss of a gateway loses no session. The crate
    /// `transfix-stores` provides fleets; the library alone does not.
    #[derive(Serialize, PartialEq, Eq)]
    pub struct FleetSettings {
        /// Name of this gateway, different from the names of all other gateways.
        pub gateway: String,
        /// Addresses of the NATS servers, each as `host:port`.
        pub brokers: Vec<String>,
        /// Name of the stream with the sessions of the fleet, which `transfix fleet create`
        /// creates. A session has one subject of the stream.
        pub stream: String = "FIX".into(),
        /// Number of NATS servers that have a copy of the stream: 1, 3 or 5. With 3, the loss of
        /// one server loses nothing. 1 is only for tests.
        #[least(1)]
        #[most(5)]
        pub replicas: u32 = 3,
        /// Maximum time for a gateway to answer another gateway that wants one of its sessions. A
        /// gateway that does not answer loses the session.
        #[least(100)]
        #[millis("answer_ms")]
        pub answer: Duration = 1_000,
        /// Time after which the messages of a session that trades are deleted from the stream. A
        /// resend replaces them by a SequenceReset-GapFill(4). A reset deletes the messages before
        /// it at once. 0 = never.
        #[days("delete_after_days")]
        pub delete_after: Duration = 0,
        /// User name, if the servers require one.
        pub user: Option<String> = None,
        /// Password of `user`. As for passwords of `logon`, also `{ env = "NAME" }`, `{ file =
        /// "PATH" }` or `{ command = ["PROGRAM", "ARGUMENT"] }`.
        #[serde(skip_serializing)]
        pub password: Option<Secret> = None,
        /// File with a JWT and a seed (`.creds`), if the servers require them.
        pub credentials: PathBuf = PathBuf::new(),
        /// File with the seed of an NKEY, which begins with `SU`, if the servers require one.
        pub nkey: PathBuf = PathBuf::new(),
        /// If true, connections to the servers use TLS. `ca` and `certificate` imply this.
        pub tls: bool = false,
        /// File of trusted authorities in PEM. Empty = the authorities of the system.
        pub ca: PathBuf = PathBuf::new(),
        /// File of the certificate that this gateway presents to the servers, in PEM. Needs `key`.
        pub certificate: PathBuf = PathBuf::new(),
        /// File of the private key of `certificate`, in PEM.
        pub key: PathBuf = PathBuf::new(),
        and {
            /// The files that contain `password`: the settings file, or the file that it names.
            /// Empty if the settings were made by code.
            #[serde(skip)]
            pub secret_files: Vec<PathBuf>,
        }
    }
}

impl FleetSettings {
    /// Reads `[fleet]` of a settings file; `None` if the file has none. Other sections are not
    /// read, and the file may have no session, as on the machine of an operator.
    ///
    /// # Errors
    /// [`SettingsError`] with the file and the line.
    pub fn load(path: impl AsRef<Path>) -> Result<Option<Self>, SettingsError> {
        file::load_fleet(path.as_ref())
    }

    /// Returns an error with the invalid key, if there is one.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        self.check_ranges().map_err(|wrong| (wrong.key, format!("[fleet]: {wrong}")))?;
        let wrong = |key, why: &str| Err((key, format!("[fleet]: {why}")));
        if !is_name(&self.gateway) {
            return wrong("gateway", "gateway must have letters, digits, `-` and `_` only");
        }
        if !is_name(&self.stream) {
            return wrong("stream", "stream must have letters, digits, `-` and `_` only");
        }
        if self.brokers.is_empty() {
            return wrong("brokers", "brokers must name at least one server, as host:port");
        }
        for broker in &self.brokers {
            // An address of NATS may contain a password, so the error does not repeat the address.
            if broker.contains(['/', '@']) || host_and_port("brokers", broker).is_err() {
                return wrong(
                    "brokers",
                    "each of brokers must be host:port, such as n1.example:4222; for a login and \
                     TLS use the keys user, password and tls",
                );
            }
        }
        if self.replicas.is_multiple_of(2) {
            return wrong("replicas", "replicas must be 1, 3 or 5, because a majority decides");
        }
        let is_set = |path: &PathBuf| !path.as_os_str().is_empty();
        if is_set(&self.certificate) != is_set(&self.key) {
            let key = if is_set(&self.key) { "key" } else { "certificate" };
            return wrong(key, "certificate and key need each other");
        }
        if self.password.is_some() && self.user.is_none() {
            return wrong("password", "password needs user");
        }
        let logins = [self.user.is_some(), is_set(&self.credentials), is_set(&self.nkey)];
        if logins.iter().filter(|login| **login).count() > 1 {
            let key = if is_set(&self.nkey) { "nkey" } else { "credentials" };
            return wrong(key, "user, credentials and nkey exclude each other");
        }
        Ok(())
    }
}

/// Returns true if the text can be a part of a subject of NATS.
fn is_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !text.is_empty() && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use transfix_testkit::temp::TempDir;

    use super::*;
    use crate::{Settings, ShownSettings};

    const FLEET: &str = "[fleet]\ngateway = 'a'\nbrokers = ['n1:4222', '[::1]:4222']\n";
    const SESSION: &str = "[[session]]\nrole = 'acceptor'\nbegin_string = 'FIX.4.4'\n\
        sender_comp_id = 'A'\ntarget_comp_id = 'B'\naddress = '127.0.0.1:0'\n";

    fn parse(keys: &str) -> Result<FleetSettings, String> {
        let settings = Settings::parse("my.toml", &format!("{FLEET}{keys}\n{SESSION}"));
        settings.map(|all| all.fleet.unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_of_a_fleet_are_read() {
        let read = parse("answer_ms = 500\nuser = 'desk'\npassword = 'sesame'\nca = 'ca.pem'");
        let fleet = read.unwrap();
        assert_eq!((&*fleet.stream, fleet.replicas), ("FIX", 3));
        assert_eq!((fleet.answer, fleet.ca), (Duration::from_millis(500), "ca.pem".into()));
        assert_eq!(fleet.password.as_ref().map(Secret::reveal), Some("sesame"));
        let own = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let fleet = parse(&format!("user = 'desk'\npassword = {{ file = '{own}' }}")).unwrap();
        assert_eq!(fleet.password.as_ref().map(Secret::reveal), Some("[package]"));
        assert!(Settings::parse("my.toml", SESSION).unwrap().fleet.is_none());
    }

    #[test]
    fn the_section_of_a_fleet_is_read_alone() {
        let dir = TempDir::new();
        let path = dir.path().join("operator.toml");
        let load = |text: &str| {
            std::fs::write(&path, text).unwrap();
            FleetSettings::load(&path).map_err(|error| error.to_string())
        };
        // No sessions, and sessions with a password that this machine does not have.
        let password = "logon.password = { env = 'NO_SUCH_VARIABLE' }";
        for text in [FLEET.to_owned(), format!("{FLEET}{SESSION}{password}\n")] {
            assert_eq!(load(&text).unwrap().unwrap().gateway, "a", "{text}");
            assert!(Settings::load(&path).is_err(), "{text}");
        }
        let of_password = load(&format!("{FLEET}user = 'desk'\npassword = 'sesame'\n"));
        assert_eq!(of_password.unwrap().unwrap().secret_files, std::slice::from_ref(&path));
        assert_eq!(load(SESSION), Ok(None));
        let shown = path.display();
        for (text, expected) in [
            (format!("{FLEET}replicas = 2\n"), "4: [fleet]: replicas must be 1, 3 or 5"),
            (format!("{FLEET}[sesion]\n"), "4: unknown section `sesion`"),
        ] {
            let error = load(&text).unwrap_err();
            assert!(error.starts_with(&format!("{shown}:{expected}")), "{error}");
        }
    }

    #[test]
    fn wrong_keys_of_a_fleet_are_told_with_their_lines() {
        for (keys, expected) in [
            ("stream = 'a.b'", "4: [fleet]: stream must have letters, digits, `-` and `_` only"),
            ("replicas = 2", "4: [fleet]: replicas must be 1, 3 or 5, because a majority decides"),
            ("replicas = 7", "4: [fleet]: replicas is between 1 and 5, not 7"),
            ("answer_ms = 0", "4: [fleet]: answer_ms must be at least 100, not 0"),
            ("key = 'k.pem'", "4: [fleet]: certificate and key need each other"),
            ("certificate = 'c.pem'", "4: [fleet]: certificate and key need each other"),
            ("password = 'sesame'", "4: [fleet]: password needs user"),
            (
                "nkey = 'u.nk'\nuser = 'desk'",
                "4: [fleet]: user, credentials and nkey exclude each other",
            ),
            (
                "user = 'desk'\ncredentials = 'u.creds'",
                "5: [fleet]: user, credentials and nkey exclude each other",
            ),
            ("stram = 'FIX'", "4: unknown key `stram`; did you mean `stream`?"),
            (
                "user = 'desk'\npassword = { env = 'NO_SUCH_VARIABLE' }",
                "5: the environment variable NO_SUCH_VARIABLE is not set",
            ),
        ] {
            assert_eq!(parse(keys), Err(format!("my.toml:{expected}")), "{keys}");
        }
    }

    #[test]
    fn wrong_names_and_addresses_of_a_fleet_are_told_with_their_lines() {
        let name = "2: [fleet]: gateway must have letters, digits, `-` and `_` only";
        let address = "3: [fleet]: each of brokers must be host:port, such as n1.example:4222; \
                       for a login and TLS use the keys user, password and tls";
        for (gateway, brokers, expected) in [
            ("a b", "['n1:4222']", name),
            ("", "['n1:4222']", name),
            ("a", "[]", "3: [fleet]: brokers must name at least one server, as host:port"),
            ("a", "['n1:4222', 'n2']", address),
            ("a", "['nats://desk:sesame@n1:4222']", address),
        ] {
            let text = format!("[fleet]\ngateway = '{gateway}'\nbrokers = {brokers}\n{SESSION}");
            let error = Settings::parse("my.toml", &text).unwrap_err().to_string();
            assert_eq!(error, format!("my.toml:{expected}"), "{text}");
        }
    }

    #[test]
    fn sections_are_shown_without_passwords() {
        let dir = TempDir::new();
        let path = dir.path().join("a.toml");
        let shown = |password: &str| -> Vec<ShownSettings> {
            let keys = format!("user = 'desk'\npassword = {password}\ntls = true\n");
            let text = format!("[events]\nlevels = 'warn'\n{FLEET}{keys}{SESSION}");
            std::fs::write(&path, &text).unwrap();
            let debug = format!("{:?}", Settings::load(&path).unwrap());
            assert!(debug.contains("desk") && !debug.contains("sesame"), "{debug}");
            Settings::shown(&path).unwrap()
        };
        let all = shown("'sesame'");
        let headings: Vec<_> = all.iter().map(|one| one.heading).collect();
        assert_eq!(headings, ["[engine]", "[events]", "[fleet]", "[[session]]"]);
        let value = |of: &ShownSettings, key: &str| {
            let found = of.keys.iter().find(|one| one.key == key).unwrap();
            assert_eq!(found.table, "", "{key}");
            found.value.clone()
        };
        assert_eq!(value(&all[1], "levels").as_deref(), Some("\"warn\""));
        for (key, expected) in
            [("user", "\"desk\""), ("answer_ms", "1000"), ("password", "\"***\""), ("tls", "true")]
        {
            assert_eq!(value(&all[2], key).as_deref(), Some(expected), "{key}");
        }
        assert_eq!(all[1].keys.len(), crate::EventSettings::KEYS.len());
        assert_eq!(all[2].keys.len(), FleetSettings::KEYS.len());
        let all = shown("{ command = ['printf', 'sesame'] }");
        let command = "{ command = [\"printf\", \"***\"] }";
        assert_eq!(value(&all[2], "password").as_deref(), Some(command));
    }
}
