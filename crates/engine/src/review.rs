//! Reviews settings on this machine before an engine starts. Finds errors that would prevent the
//! start, and choices that are valid but dangerous.
//!
//! Invariant: a review opens nothing for writing, uses no port of the settings, and contacts no
//! counterparty.

mod start;

use std::collections::{BTreeSet, HashMap};

use transfix_session::Role;
use transfix_settings::review::{self, Cpus, Findings};
use transfix_settings::{Durability, SessionSettings, Settings};
use transfix_store::file_system;

use crate::assemble::check_rules;
use crate::drive::tls;
use crate::drive::tls::Doubt;
use crate::link::rule_book::RuleBook;

/// The findings of [`Review::of`]. Each text begins with file and line, if the settings come from a
/// file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Review {
    /// Errors that would prevent the start of the engine or a session, or the connection to a
    /// counterparty.
    pub errors: Vec<String>,
    /// Choices that are valid but dangerous, or have no effect.
    pub warnings: Vec<String>,
    /// Settings that no command of `transfix` can run, but only a custom program. See
    /// [`Review::needs_program`].
    pub needs_program: Vec<String>,
}

impl Review {
    /// Checks what the settings name: dictionaries, certificates, CPUs, file systems. Finds unsafe
    /// choices too. Run the review on the engine's machine and as the engine's user.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let (mut errors, mut warnings) = (Findings::default(), Findings::default());
        let (book, mut seen, mut doors) = (RuleBook::default(), BTreeSet::new(), HashMap::new());
        let machine = Cpus::of_this_machine();
        for session in &settings.sessions {
            if let Some(lack) = machine.error_of(session) {
                errors.add(session, lack);
            }
            if let Err(error) = check_rules(session, &book) {
                errors.add(session, error.to_string());
            }
            start::of_session(session, &mut doors, &mut errors);
            // Checks each address once, because sessions at the same address share a listener.
            if session.role == Role::Initiator || seen.insert(&session.address) {
                match tls::review(session) {
                    Ok(doubts) => doubts.into_iter().for_each(|doubt| match doubt {
                        Doubt::Error(what) => errors.add(session, what),
                        Doubt::Warning(what) => warnings.add(session, what),
                    }),
                    Err(error) => errors.add(session, error.to_string()),
                }
            }
            store(session, &mut errors, &mut warnings);
            review::dangers(session, &mut warnings);
        }
        review::choices(settings, &mut warnings);
        let of_engine =
            machine.errors_of_engine(settings).into_iter().chain(start::of_program(settings));
        let errors = of_engine.chain(Self::admin_errors(settings)).chain(errors.texts()).collect();
        let of_fleet = settings.fleet.iter().flat_map(review::dangers_of_fleet);
        let mut warnings: Vec<_> = of_fleet.chain(warnings.texts()).collect();
        if settings.admin.is_some() && settings.engine.audit_file.as_os_str().is_empty() {
            warnings.insert(0, UNWRITTEN.to_owned());
        }
        Self { errors, warnings, needs_program: Self::needs_program(settings) }
    }

    /// Returns the errors in the users, certificate and addresses of `[admin]` that would prevent
    /// the start of the administration. A program checks these before its engine listens for
    /// counterparties.
    #[must_use]
    pub fn admin_errors(settings: &Settings) -> Vec<String> {
        let users = settings.admin.as_ref().and_then(|admin| review::users_file(&admin.users_file));
        start::of_admin(settings).into_iter().chain(users).collect()
    }

    /// Returns settings that only a custom program can run, and no command of `transfix`: `mode =
    /// "polled"`, and a store that another process may write. Each text begins with file and line,
    /// if the settings come from a file.
    #[must_use]
    pub fn needs_program(settings: &Settings) -> Vec<String> {
        review::needs_program(settings)
    }
}

fn store(session: &SessionSettings, errors: &mut Findings, warnings: &mut Findings) {
    let (settings, path) = (&session.store, session.store_path());
    if settings.durability == Durability::Memory {
        let what = "messages are not stored in files: after a restart messages are lost, and the \
                    numbers start again at 1";
        return warnings.of(session, "durability", what);
    }
    match file_system::check(&path, settings.allow_network_store) {
        Ok(Some(doubt)) => warnings.of(session, "store_dir", doubt),
        Ok(None) => {}
        Err(error) => errors.of(session, "store_dir", &error.to_string()),
    }
    if file_system::is_in_memory(&path) {
        let what = "the store lies on a file system in memory (tmpfs), and is lost when the \
                    machine restarts";
        warnings.of(session, "store_dir", what);
    }
}

/// The warning about an administration without an audit file.
const UNWRITTEN: &str = "[admin]: the actions of operators are recorded only in the log; set \
                         audit_file in [engine]";

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    #[cfg(feature = "tls")]
    use std::path::Path;

    use transfix_testkit::temp::TempDir;

    use super::*;
    #[cfg(feature = "tls")]
    use transfix_observe::clock;

    const DEFAULTS: &str = "[defaults]\nrole = 'acceptor'\nbegin_string = 'FIX.4.4'\n\
         sender_comp_id = 'VENUE'\naddress = '127.0.0.1:0'\n[[session]]\ntarget_comp_id = 'A'\n";

    /// Returns the findings about a file with two sessions, of which the first has these lines.
    fn review(dir: &TempDir, lines: &str) -> Review {
        let path = dir.path().join("a.toml");
        let text = format!("{DEFAULTS}{lines}\n[[session]]\ntarget_comp_id = 'B'\n");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        Review::of(&Settings::load(&path).unwrap())
    }

    /// Returns the findings about the first session only, from its key on. Findings about its file
    /// system are left out, because the tests may run on any.
    fn said(texts: &[String]) -> String {
        let about = |text: &&String| text.contains("a.toml") && text.contains("VENUE->A");
        let from_key =
            |text: &String| text.split_once("VENUE->A: ").map(|(_, what)| what.to_owned());
        let said = texts.iter().filter(about).filter_map(from_key);
        said.filter(|what| !what.starts_with("store_dir: ")).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn what_is_sound_and_safe_is_not_spoken_of() {
        let dir = TempDir::new();
        assert!(review(&dir, "").errors.is_empty());
        assert_eq!(said(&review(&dir, "").warnings), "");
    }

    #[test]
    fn an_administration_needs_users_and_an_audit() {
        let dir = TempDir::new();
        let users = dir.path().join("users.toml");
        let review = || {
            let text = format!("[admin]\nusers_file = '{}'\n{DEFAULTS}", users.display());
            Review::of(&Settings::parse("a.toml", &text).unwrap())
        };
        let missing = review().errors.concat();
        assert!(missing.contains("`transfix admin user add --file /"), "{missing}");
        fs::write(&users, "").unwrap();
        fs::set_permissions(&users, Permissions::from_mode(0o620)).unwrap();
        assert!(review().errors[0].contains("is writable by other users"));
        fs::set_permissions(&users, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(review().errors, [""; 0]);
        assert!(review().warnings[0].contains("set audit_file in [engine]"));
    }

    #[test]
    fn what_is_dangerous_is_said_with_its_remedy() {
        let dir = TempDir::new();
        let all = [
            ("durability = 'memory'", "durability: messages are not stored in files"),
            ("address = '0.0.0.0:9880'", "address: messages and passwords are sent unencrypted"),
            ("address = '[::]:9880'", "logon: anybody who knows the CompIDs can log on"),
            (
                "address = '[::]:9880'\nallow_from = ['10.1.0.0/16', '::1']",
                "logon: anybody who knows the CompIDs and connects from 10.1.0.0/16, ::1 can \
                 log on",
            ),
        ];
        for (line, expected) in all {
            let said = said(&review(&dir, line).warnings);
            assert!(said.contains(expected), "{line}: {said}");
        }
        for line in ["address = 'localhost:9880'", "address = '[::1]:9880'"] {
            assert_eq!(said(&review(&dir, line).warnings), "", "{line}");
        }
    }

    #[test]
    fn a_secret_that_all_may_read_is_said_of_the_file_in_which_it_stands() {
        let dir = TempDir::new();
        let secret = dir.path().join("password");
        fs::write(&secret, "open sesame\n").unwrap();
        let line = format!("logon.expected_password = {{ file = '{}' }}", secret.display());
        for (mode, expected) in [(0o644, true), (0o640, false)] {
            fs::set_permissions(&secret, Permissions::from_mode(mode)).unwrap();
            let said = said(&review(&dir, &line).warnings);
            let expected_text =
                format!("password file {} is readable by every user", secret.display());
            assert_eq!(said.contains(&expected_text), expected, "{said}");
            assert!(!said.contains("sesame"), "{said}");
        }
        // The password is in the settings file itself.
        let settings = dir.path().join("a.toml");
        let inline = "logon.expected_password = 'x'";
        assert_eq!(said(&review(&dir, inline).warnings), "", "it is private");
        fs::set_permissions(&settings, Permissions::from_mode(0o604)).unwrap();
        let open = Review::of(&Settings::load(&settings).unwrap());
        assert!(said(&open.warnings).contains("a.toml is readable by every user"), "{open:?}");
    }

    #[test]
    fn secrets_of_a_fleet_that_others_can_read_are_warned_of() {
        let dir = TempDir::new();
        let (settings, secret) = (dir.path().join("a.toml"), dir.path().join("secret"));
        fs::write(&secret, "open sesame\n").unwrap();
        let warnings = |keys: &str, modes: [u32; 2]| {
            let fleet = format!("[fleet]\ngateway = 'a'\n{keys}\n");
            fs::write(&settings, format!("{fleet}{DEFAULTS}")).unwrap();
            for (file, mode) in [&settings, &secret].into_iter().zip(modes) {
                fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
            }
            let all = Review::of(&Settings::load(&settings).unwrap()).warnings;
            let of_fleet = all.into_iter().filter(|text| text.starts_with("[fleet]: "));
            of_fleet.collect::<Vec<_>>().join("|")
        };
        let (here, file) = ("brokers = ['127.0.0.1:4222']\n", secret.display());
        for (keys, what) in [
            (format!("user = 'a'\npassword = {{ file = '{file}' }}"), "the password file"),
            (format!("credentials = '{file}'"), "the file of credentials"),
            (format!("nkey = '{file}'"), "the NKEY file"),
            (format!("certificate = 'c.pem'\nkey = '{file}'"), "the private key"),
        ] {
            let keys = format!("{here}{keys}");
            let expected =
                format!("[fleet]: {what} {file} is readable by every user; run `chmod 600 {file}`");
            assert_eq!(warnings(&keys, [0o644, 0o604]), expected);
            assert_eq!(warnings(&keys, [0o644, 0o640]), "", "{keys}");
        }
        let inline = format!("{here}user = 'a'\npassword = 'sesame'");
        assert!(warnings(&inline, [0o604, 0o600]).contains("a.toml is readable by every user"));
        assert_eq!(warnings(&inline, [0o600, 0o604]), "");
        let elsewhere = "brokers = ['127.0.0.1:4222', 'n1:4222']";
        let unencrypted = "[fleet]: messages and passwords are sent to the brokers unencrypted";
        assert!(warnings(elsewhere, [0o600; 2]).starts_with(unencrypted));
        assert_eq!(warnings(&format!("{elsewhere}\ntls = true"), [0o600; 2]), "");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn certificates_are_read_and_their_end_is_said() {
        use transfix_testkit::certificates::{Authority, Valid};

        let dir = TempDir::new();
        let authority = Authority::new(dir.path(), "ca");
        let lines = |certificate: &Path, key: &Path, more: &str| {
            fs::set_permissions(key, Permissions::from_mode(0o600)).unwrap();
            let (certificate, key) = (certificate.display(), key.display());
            format!(
                "address = '127.0.0.1:1'\n[session.tls]\ncertificate = '{certificate}'\n\
                 key = '{key}'\n{more}"
            )
        };
        let good = authority.sign(&["localhost"], 7, Valid::Now);
        let old = authority.sign(&["localhost"], 1, Valid::Before);
        let later = authority.sign(&["localhost"], 2, Valid::Later);
        let soon_s = clock::now().utc.0.unsigned_abs() / 1_000_000_000 + 1_000;
        let soon = authority.sign(&["localhost"], 3, Valid::Until(soon_s));
        let itself = authority.itself();
        // Each of several certificates is checked.
        let more = format!(
            "more_certificates = [{{ certificate = '{}', key = '{}' }}]\n",
            old.certificate.display(),
            old.key.display()
        );
        for (signed, more, errors, warnings) in [
            (&good, "", "", ""),
            (&old, "", "tls: our certificate has expired: CN=localhost (sha256:", ""),
            (&later, "", "tls: our certificate is not valid yet, or the clock of this", ""),
            (&soon, "", "", "tls: our certificate ends within a day: CN=localhost (sha256:"),
            (&itself, "", "", "tls: our certificate is that of an authority (CA:TRUE), such"),
            (&good, &*more, "tls: our certificate has expired: ", ""),
            (&soon, &*more, "tls: our certificate has expired: ", "tls: our certificate ends"),
        ] {
            let found = review(&dir, &lines(&signed.certificate, &signed.key, more));
            for (texts, expected) in [(&found.errors, errors), (&found.warnings, warnings)] {
                let said = said(texts);
                assert!(said.starts_with(expected), "{said}");
                assert_eq!(said.is_empty(), expected.is_empty(), "{said}");
            }
            let remedy = "have a new certificate signed and replace the file";
            assert_eq!(said(&found.errors).contains(remedy), !errors.is_empty(), "{found:?}");
        }
        let found = said(&review(&dir, &lines(&itself.certificate, &itself.key, "")).warnings);
        assert!(found.contains("counterparties that use rustls, Transfix among them"), "{found}");
        let found = said(&review(&dir, &lines(Path::new("no/such.pem"), &old.key, "")).errors);
        assert!(found.contains("no/such.pem"), "{found}");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn an_acceptor_whose_name_is_not_checked_is_spoken_of_unless_its_certificate_is_named() {
        let dir = TempDir::new();
        let expected = "tls: `check_name = false`: anybody with a certificate";
        for (more, is_said) in [("", true), (", peer = ['fix.bank.example']", false)] {
            let lines = format!("role = 'initiator'\ntls = {{ check_name = false{more} }}");
            let found = said(&review(&dir, &lines).warnings);
            assert_eq!(found.contains(expected), is_said, "{found}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_certificate_that_is_asked_for_and_not_named_is_spoken_of() {
        let dir = TempDir::new();
        let expected = "tls: every certificate of `tls.ca` is accepted for this session";
        let password = "\nlogon.expected_password = 'x'";
        for (peer, more, is_said) in
            [("", "", true), (", peer = ['fund.example']", "", false), ("", password, false)]
        {
            let lines = format!(
                "tls = {{ certificate = 'a.pem', key = 'a.key', ca = ['ca.pem'], \
                 client_certificate = 'required'{peer} }}{more}"
            );
            let found = said(&review(&dir, &lines).warnings);
            assert_eq!(found.contains(expected), is_said, "{lines}: {found}");
        }
    }

    #[test]
    fn sessions_of_which_the_same_is_to_be_said_share_a_line() {
        let text = DEFAULTS.replace("127.0.0.1:0", "0.0.0.0:9880")
            + "[[session]]\ntarget_comp_id = 'B'\n[[session]]\ntarget_comp_id = 'C'\n";
        let review = Review::of(&Settings::parse("a.toml", &text).unwrap());
        let of_address = review.warnings.iter().filter(|text| text.contains(": address: "));
        let of_address: Vec<_> = of_address.collect();
        assert_eq!(of_address.len(), 1, "{review:?}");
        let begin = "a.toml:5: FIX.4.4:VENUE->A and 2 other sessions: address: messages";
        assert!(of_address[0].starts_with(begin), "{of_address:?}");
    }
}
