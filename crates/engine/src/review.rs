//! The review of settings on this machine before an engine starts with them: faults that would stop
//! the start, and sound choices that are dangerous.
//!
//! Invariant: nothing is opened for writing, no port of the settings is listened at, and no
//! counterparty hears of it.

mod choices;
mod start;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use transfix_session::{BeginString, Role};
use transfix_settings::{
    ClientCertificate, DictionaryChoice, Durability, SessionSettings, Settings, TlsSettings,
};

use crate::affinity::Machine;
use crate::assemble::check_rules;
use crate::drive::tls::Doubt;
use crate::drive::{network, tls};
use crate::link::rule_book::RuleBook;

/// The findings of [`Review::of`]. Each text begins with file and line, if the settings have
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Review {
    /// Faults that would keep an engine, or one of its sessions, from its start or from its
    /// counterparty.
    pub errors: Vec<String>,
    /// Choices that work and are dangerous, and those without effect in their place.
    pub warnings: Vec<String>,
    /// Settings for a program of one's own, which no verb of `transfix` can serve: see
    /// [`Review::needs_program`].
    pub needs_program: Vec<String>,
}

impl Review {
    /// Looks at what the settings name: dictionaries, certificates, CPUs, file systems; and for
    /// choices that cost safety. On the machine, and as the user, that the engine is to run on.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let (mut errors, mut warnings) = (Findings::default(), Findings::default());
        let (book, mut seen, mut doors) = (RuleBook::default(), BTreeSet::new(), HashMap::new());
        let machine = Machine::this();
        for session in &settings.sessions {
            if let Some(lack) = machine.lacks(session) {
                errors.add(session, lack);
            }
            if let Err(error) = check_rules(session, &book) {
                errors.add(session, error.to_string());
            }
            start::of_session(session, &mut doors, &mut errors);
            // Sessions at one address share a door.
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
            conditions(session, &mut warnings);
            who_may_read(session, &mut warnings);
            who_may_come(session, &mut warnings);
        }
        choices::review(settings, &mut warnings);
        let of_engine =
            machine.lacks_of_engine(settings).into_iter().chain(start::of_program(settings));
        let errors = of_engine.chain(Self::admin_errors(settings)).chain(errors.texts()).collect();
        let mut warnings = warnings.texts();
        if settings.admin.is_some() && settings.engine.audit_file.as_os_str().is_empty() {
            warnings.insert(0, UNWRITTEN.to_owned());
        }
        Self { errors, warnings, needs_program: Self::needs_program(settings) }
    }

    /// Errors of `[admin]` that would stop the administration at its start: users, certificate,
    /// addresses. A program checks them before its engine listens for counterparties.
    #[must_use]
    pub fn admin_errors(settings: &Settings) -> Vec<String> {
        let users = settings.admin.as_ref().and_then(|admin| lacks_users(&admin.users_file));
        start::of_admin(settings).into_iter().chain(users).collect()
    }

    /// Settings for a program of one's own, which no verb of `transfix` can serve: `mode =
    /// "polled"`, and a store that another process may have written. Each text begins with file and
    /// line, if the settings have them.
    #[must_use]
    pub fn needs_program(settings: &Settings) -> Vec<String> {
        start::needs_program(settings)
    }
}

/// Texts about sessions; sessions of which the same is to be said share one.
#[derive(Default)]
struct Findings {
    /// In the order of the first of each.
    all: Vec<Finding>,
    /// Where they are, by what stands before and after the session's identity.
    by_text: HashMap<[String; 2], usize>,
}

struct Finding {
    id: String,
    others: usize,
    text: [String; 2],
}

impl Findings {
    /// `venue.toml:7: FIX.4.4:A->B: address: what is wrong`.
    fn of(&mut self, session: &SessionSettings, key: &str, what: &str) {
        self.add(session, format!("{}{}: {key}: {what}", session.place(key), session.id()));
    }

    fn add(&mut self, session: &SessionSettings, text: String) {
        let id = session.id().to_string();
        let [before, after] = match text.split_once(&id) {
            Some((before, after)) => [before.to_owned(), after.to_owned()],
            None => [String::new(), format!(": {text}")],
        };
        let text = [before, after];
        match self.by_text.get(&text) {
            Some(at) => self.all[*at].others += 1,
            None => {
                self.by_text.insert(text.clone(), self.all.len());
                self.all.push(Finding { id, others: 0, text });
            }
        }
    }

    fn texts(self) -> Vec<String> {
        let text = |Finding { id, others, text: [before, after] }| match others {
            0 => format!("{before}{id}{after}"),
            1 => format!("{before}{id} and another session{after}"),
            _ => format!("{before}{id} and {others} other sessions{after}"),
        };
        self.all.into_iter().map(text).collect()
    }
}

fn store(session: &SessionSettings, errors: &mut Findings, warnings: &mut Findings) {
    let (settings, path) = (&session.store, session.store_path());
    if settings.durability == Durability::Memory {
        let what = "nothing is stored in files: after a restart messages are lost, and numbers \
                    begin again at 1";
        return warnings.of(session, "durability", what);
    }
    match network::check(&path, settings.allow_network_store) {
        Ok(Some(doubt)) => warnings.of(session, "store_dir", doubt),
        Ok(None) => {}
        Err(error) => errors.of(session, "store_dir", &error.to_string()),
    }
    if network::is_in_memory(&path) {
        let what = "the store lies on a file system in memory (tmpfs): it is lost with the next \
                    start of the machine";
        warnings.of(session, "store_dir", what);
    }
}

/// Conditions of the standard are checked where the dictionary has some.
fn conditions(session: &SessionSettings, warnings: &mut Findings) {
    if !session.validation.checks.conditions {
        return;
    }
    let version = session.protocol.default_appl_ver_id;
    let wanted = DictionaryChoice::of_session(session.begin_string, version, &session.validation);
    // One that cannot be read is an error already.
    let Ok(dictionary) = wanted.dictionary() else { return };
    if dictionary.messages().iter().all(|message| message.conditions.is_empty()) {
        let what = format!(
            "`conditions = true` has no effect: the dictionary {} has no conditions; FIX42, FIX44 \
             and FIX50SP2 have",
            dictionary.name()
        );
        warnings.of(session, "checks", &what);
    }
}

/// Data that others on the way, or on this machine, can read.
fn who_may_read(session: &SessionSettings, warnings: &mut Findings) {
    let tls = tls_of(session);
    if tls.is_none() && !is_this_machine(&session.address) {
        let what = "messages and passwords go over the network as they are; the table `tls` \
                    encrypts them";
        warnings.of(session, "address", what);
    }
    let keys = tls
        .into_iter()
        .flat_map(|tls| tls.key.iter().chain(tls.more_certificates.iter().map(|one| &one.key)));
    let keys = keys.map(|key| ("tls", key.as_path(), "the private key"));
    let secrets = session.secret_files().iter();
    let secrets = secrets.map(|file| ("logon", &**file, "the file with a password"));
    for (key, file, what) in keys.chain(secrets).filter(|(_, file, _)| all_may_read(file)) {
        let file = file.display();
        let what = format!("{what} {file} can be read by every user; `chmod 600 {file}` mends it");
        warnings.of(session, key, &what);
    }
}

/// Ways for others to pass as the counterparty.
fn who_may_come(session: &SessionSettings, warnings: &mut Findings) {
    let (tls, logon) = (tls_of(session), &session.logon);
    if session.role == Role::Initiator {
        if tls.is_some_and(|tls| !tls.check_name && tls.peer.is_empty()) {
            let what = "`check_name = false`: anybody with a certificate of a trusted authority \
                        can pose as the counterparty; name its certificate in `peer`";
            warnings.of(session, "tls", what);
        }
        return;
    }
    let shows = tls.is_some_and(|tls| tls.client_certificate == ClientCertificate::Required);
    if let Some(tls) = tls.filter(|tls| shows && tls.peer.is_empty())
        && !logon.expects_password()
    {
        let of_ca =
            if tls.ca.len() == 1 { "of `tls.ca`" } else { "of the authorities of `tls.ca`" };
        let what = format!(
            "every certificate {of_ca} opens this session; name that of its counterparty in \
             `tls.peer`"
        );
        warnings.of(session, "tls", &what);
    }
    if !logon.expects_password() && !shows && !is_this_machine(&session.address) {
        let how = if session.begin_string < BeginString::Fix43 {
            "ask for a certificate (`tls.client_certificate`)"
        } else {
            "set `logon.expected_password_hash`, or ask for a certificate \
             (`tls.client_certificate`)"
        };
        let who = match &*session.allow_from {
            [] => "anybody who knows the CompIDs".to_owned(),
            from => format!("whoever knows the CompIDs and comes from {}", from.join(", ")),
        };
        let what = format!("{who} can log on, unless the application judges the Logon(A); {how}");
        warnings.of(session, "logon", &what);
    }
}

fn tls_of(session: &SessionSettings) -> Option<&TlsSettings> {
    session.tls.as_ref().filter(|tls| tls.enabled)
}

/// Returns true if what is sent stays on this machine; a session without sockets has no address.
fn is_this_machine(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or("", |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.is_empty()
        || host == "localhost"
        || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

fn all_may_read(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o004 != 0)
}

/// The risk of an administration without an audit.
const UNWRITTEN: &str = "[admin]: what operators do is written nowhere but in the log; set \
                         audit_file of [engine]";

/// Why nobody could log in to the administration.
fn lacks_users(path: &Path) -> Option<String> {
    let shown = path.display();
    match fs::metadata(path) {
        Err(error) => Some(format!(
            "[admin]: users_file {shown}: {error}; `transfix admin user add --file {shown} NAME` \
             makes it"
        )),
        Ok(found) if found.permissions().mode() & 0o022 != 0 => Some(format!(
            "[admin]: users_file {shown}: others may write it, and so become administrators; \
             `chmod go-w {shown}`"
        )),
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use transfix_testkit::temp::TempDir;

    use super::*;
    #[cfg(feature = "tls")]
    use transfix_observe::clock;

    const DEFAULTS: &str = "[defaults]\nrole = 'acceptor'\nbegin_string = 'FIX.4.4'\n\
         sender_comp_id = 'VENUE'\naddress = '127.0.0.1:0'\n[[session]]\ntarget_comp_id = 'A'\n";

    /// Returns the findings for a file of two sessions with these lines in the first.
    fn review(dir: &TempDir, lines: &str) -> Review {
        let path = dir.path().join("a.toml");
        let text = format!("{DEFAULTS}{lines}\n[[session]]\ntarget_comp_id = 'B'\n");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        Review::of(&Settings::load(&path).unwrap())
    }

    /// Returns the findings for the first session only, from its key on. Findings about the file
    /// system are left out, because the tests run on any.
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
        assert!(review().errors[0].contains("others may write it"));
        fs::set_permissions(&users, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(review().errors, [""; 0]);
        assert!(review().warnings[0].contains("set audit_file of [engine]"));
    }

    #[test]
    fn what_is_dangerous_is_said_with_its_remedy() {
        let dir = TempDir::new();
        let all = [
            ("durability = 'memory'", "durability: nothing is stored in files"),
            ("address = '0.0.0.0:9880'", "address: messages and passwords go over the network"),
            ("address = '[::]:9880'", "logon: anybody who knows the CompIDs can log on"),
            (
                "address = '[::]:9880'\nallow_from = ['10.1.0.0/16', '::1']",
                "logon: whoever knows the CompIDs and comes from 10.1.0.0/16, ::1 can log on",
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
            let expected_text = format!("password {} can be read by every user", secret.display());
            assert_eq!(said.contains(&expected_text), expected, "{said}");
            assert!(!said.contains("sesame"), "{said}");
        }
        // In the settings file itself.
        let settings = dir.path().join("a.toml");
        let inline = "logon.expected_password = 'x'";
        assert_eq!(said(&review(&dir, inline).warnings), "", "it is private");
        fs::set_permissions(&settings, Permissions::from_mode(0o604)).unwrap();
        let open = Review::of(&Settings::load(&settings).unwrap());
        assert!(said(&open.warnings).contains("a.toml can be read by every user"), "{open:?}");
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
            let remedy = "have a new one signed and put it in this place";
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
        let expected = "tls: every certificate of `tls.ca` opens this session";
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
