//! Finds errors and dangerous choices in settings, on the machine where they will be used.
//!
//! Invariant: a review creates or changes no file or directory.

mod choices;
mod cpus;

use std::collections::HashMap;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{Access, access};
use transfix_session::{BeginString, Role};

use crate::{
    ClientCertificate, DictionaryChoice, FleetSettings, Mode, SessionSettings, Settings,
    TlsSettings,
};
pub use choices::review as choices;
pub use cpus::Cpus;

/// Findings about sessions, which are merged if only the session differs.
#[derive(Default)]
pub struct Findings {
    /// The findings, in the order of their first sessions.
    all: Vec<Finding>,
    /// For the texts before and after the identity of the session, the index of the finding in
    /// `all`.
    by_text: HashMap<[String; 2], usize>,
}

struct Finding {
    id: String,
    others: usize,
    text: [String; 2],
}

impl Findings {
    /// Adds a finding about a key: `venue.toml:7: FIX.4.4:A->B: address: what is wrong`.
    pub fn of(&mut self, session: &SessionSettings, key: &str, text: &str) {
        self.add(session, format!("{}{}: {key}: {text}", session.place(key), session.id()));
    }

    /// Adds a whole text that contains the identity of the session.
    pub fn add(&mut self, session: &SessionSettings, text: String) {
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

    /// Returns the texts of all findings.
    #[must_use]
    pub fn texts(self) -> Vec<String> {
        let text = |Finding { id, others, text: [before, after] }| match others {
            0 => format!("{before}{id}{after}"),
            1 => format!("{before}{id} and another session{after}"),
            _ => format!("{before}{id} and {others} other sessions{after}"),
        };
        self.all.into_iter().map(text).collect()
    }
}

/// Adds warnings about a session that the table of choices does not contain. They concern messages,
/// passwords and keys that others can read, and ways in which others can impersonate the
/// counterparty.
pub fn dangers(session: &SessionSettings, warnings: &mut Findings) {
    unused_conditions(session, warnings);
    readable_data(session, warnings);
    open_logons(session, warnings);
}

/// Warns if `conditions = true` has no effect, because the dictionary contains no conditions.
fn unused_conditions(session: &SessionSettings, warnings: &mut Findings) {
    if !session.validation.checks.conditions {
        return;
    }
    let version = session.protocol.default_appl_ver_id;
    let wanted = DictionaryChoice::of_session(session.begin_string, version, &session.validation);
    // A dictionary that cannot be read is reported as an error elsewhere.
    let Ok(dictionary) = wanted.dictionary() else { return };
    if dictionary.messages().iter().all(|message| message.conditions.is_empty()) {
        let what = format!(
            "`conditions = true` has no effect: the dictionary {} has no conditions; of the \
             built-in dictionaries FIX42, FIX44 and FIX50SP2 have some",
            dictionary.name()
        );
        warnings.of(session, "checks", &what);
    }
}

/// Warns of messages, keys and passwords that others can read, on the network or on this machine.
fn readable_data(session: &SessionSettings, warnings: &mut Findings) {
    let tls = tls_of(session);
    if tls.is_none() && !is_this_machine(&session.address) {
        let what = "messages and passwords are sent unencrypted; the table `tls` encrypts them";
        warnings.of(session, "address", what);
    }
    let keys = tls
        .into_iter()
        .flat_map(|tls| tls.key.iter().chain(tls.more_certificates.iter().map(|one| &one.key)));
    let keys = keys.map(|key| ("tls", key.as_path(), "the private key"));
    let secrets = session.secret_files().iter();
    let secrets = secrets.map(|file| ("logon", &**file, "the password file"));
    for (key, file, what) in keys.chain(secrets) {
        if let Some(warning) = readable_by_all(what, file) {
            warnings.of(session, key, &warning);
        }
    }
}

/// Returns warnings of messages, passwords and keys of `[fleet]` that others can read.
#[must_use]
pub fn dangers_of_fleet(fleet: &FleetSettings) -> Vec<String> {
    let FleetSettings { credentials, nkey, key, .. } = fleet;
    let passwords = fleet.secret_files.iter().map(|file| ("the password file", file));
    let files = [
        ("the file of credentials", credentials),
        ("the NKEY file", nkey),
        ("the private key", key),
    ];
    let readable = passwords.chain(files).filter_map(|(what, file)| readable_by_all(what, file));
    let readable = readable.map(|what| format!("[fleet]: {what}"));
    let is_set = |path: &Path| !path.as_os_str().is_empty();
    let is_encrypted = fleet.tls || is_set(&fleet.ca) || is_set(&fleet.certificate);
    let is_open = !is_encrypted && !fleet.brokers.iter().all(|broker| is_this_machine(broker));
    let unencrypted = "[fleet]: messages and passwords are sent to the brokers unencrypted; set \
                       `tls = true`, or `ca` and `certificate`";
    is_open.then(|| unencrypted.to_owned()).into_iter().chain(readable).collect()
}

/// Warns of ways in which others can impersonate the counterparty.
fn open_logons(session: &SessionSettings, warnings: &mut Findings) {
    let (tls, logon) = (tls_of(session), &session.logon);
    if session.role == Role::Initiator {
        if tls.is_some_and(|tls| !tls.check_name && tls.peer.is_empty()) {
            let what = "`check_name = false`: anybody with a certificate of a trusted authority \
                        can impersonate the counterparty; list the counterparty's certificate \
                        in `peer`";
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
            "every certificate {of_ca} is accepted for this session; list the counterparty's \
             certificate in `tls.peer`"
        );
        warnings.of(session, "tls", &what);
    }
    if !logon.expects_password() && !shows && !is_this_machine(&session.address) {
        let how = if session.begin_string < BeginString::Fix43 {
            "ask for a certificate (`tls.client_certificate`)"
        } else {
            "set `logon.expected_password_hash`, or require a certificate \
             (`tls.client_certificate`)"
        };
        let who = match &*session.allow_from {
            [] => "anybody who knows the CompIDs".to_owned(),
            from => format!("anybody who knows the CompIDs and connects from {}", from.join(", ")),
        };
        let what = format!("{who} can log on, unless the application checks the Logon(A); {how}");
        warnings.of(session, "logon", &what);
    }
}

fn tls_of(session: &SessionSettings) -> Option<&TlsSettings> {
    session.tls.as_ref().filter(|tls| tls.enabled)
}

/// Returns true if connections to the address stay on this machine. The address is empty for a
/// session without sockets.
fn is_this_machine(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or("", |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.is_empty()
        || host == "localhost"
        || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Returns the warning about a secret file that every user can read.
fn readable_by_all(what: &str, file: &Path) -> Option<String> {
    let is_readable = fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o004 != 0);
    let file = file.display();
    is_readable.then(|| format!("{what} {file} is readable by every user; run `chmod 600 {file}`"))
}

/// Returns the error in the file of users, without which nobody can log in to the administration.
#[must_use]
pub fn users_file(path: &Path) -> Option<String> {
    let shown = path.display();
    match fs::metadata(path) {
        Err(error) => Some(format!(
            "[admin]: users_file {shown}: {error}; `transfix admin user add --file {shown} NAME` \
             creates the file"
        )),
        Ok(found) if found.permissions().mode() & 0o022 != 0 => Some(format!(
            "[admin]: users_file {shown} is writable by other users, who could make themselves \
             administrators; run `chmod go-w {shown}`"
        )),
        Ok(_) => None,
    }
}

/// Returns the settings, session by session, that no command of `transfix` can run.
#[must_use]
pub fn needs_program(settings: &Settings) -> Vec<String> {
    let mut needs = Findings::default();
    for session in &settings.sessions {
        if session.threads.mode == Mode::Polled {
            let what = "\"polled\" works only in a program that calls `Engine::poll`; write \
                        \"pool\", \"dedicated\" or \"spin\"";
            needs.of(session, "mode", what);
        }
        if session.store.refresh_on_logon {
            let what = "the key works only in a program with its own store \
                        (`EngineBuilder::stores`), because the engine's stores have a single \
                        writer; remove the key";
            needs.of(session, "refresh_on_logon", what);
        }
    }
    let mut needs = needs.texts();
    if settings.fleet.is_some() {
        needs.insert(0, NEEDS_FLEET.to_owned());
    }
    needs
}

/// The reason why a process cannot start with `[fleet]`.
pub const NEEDS_FLEET: &str = "[fleet] works only in a program that opens its stores by \
                               `transfix_stores::Fleet`; without it, several gateways would use \
                               one session at the same time";

/// Returns the reason why this process cannot write the file, if there is one.
#[must_use]
pub fn cannot_write_file(file: &Path) -> Option<String> {
    if file.as_os_str().is_empty() {
        return None;
    }
    if file.is_dir() {
        return Some(format!("{} is a directory, not a file", file.display()));
    }
    if file.exists() {
        let shown = file.display();
        if fs::metadata(file).is_ok_and(|found| found.file_type().is_fifo()) {
            return Some(format!("{shown} is a pipe, not a file"));
        }
        let denied = access(file, Access::WRITE_OK).err();
        return denied.map(|error| format!("this user cannot write to {shown}: {error}"));
    }
    cannot_write(file.parent().unwrap_or(Path::new("")))
}

/// Returns the reason why this process cannot create a file in the directory, if there is one. If
/// the directory does not exist, checks the nearest existing parent.
#[must_use]
pub fn cannot_write(dir: &Path) -> Option<String> {
    let there = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."));
    let shown = there.display();
    if !there.is_dir() {
        return Some(format!("{shown} is a file, not a directory"));
    }
    let denied = access(there, Access::WRITE_OK | Access::EXEC_OK).err();
    denied.map(|error| format!("this user cannot create a file in {shown}: {error}"))
}
