//! Finds errors that would prevent the start of an engine or its program, in addresses, folders and
//! files.
//!
//! Invariant: these checks create no folder or file, and use no port of the settings.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs as _};
use std::path::Path;

use rustix::process::geteuid;
use transfix_observe::audit;
use transfix_session::{BeginString, Role, SessionId};
use transfix_settings::review::{Findings, cannot_write, cannot_write_file};
use transfix_settings::{AdminSettings, Durability, SessionSettings, Settings, TlsSettings};

use crate::drive::listening::{check_address, check_same_listener};
use crate::drive::{descriptors, routes, tls};

/// Adds the errors that would prevent the start of a session.
pub(super) fn of_session<'s>(
    session: &'s SessionSettings,
    doors: &mut HashMap<&'s str, &'s SessionSettings>,
    errors: &mut Findings,
) {
    let checked = match session.role {
        Role::Initiator => routes::check_sockets(session),
        // A session without an address has no sockets.
        Role::Acceptor if session.address.is_empty() => Ok(()),
        Role::Acceptor => match doors.get(&*session.address) {
            Some(first) => check_same_listener(first, session),
            None => {
                doors.insert(&session.address, session);
                let found = check_address(session);
                found.map(|found| {
                    let wrong = found.into_iter().find_map(|at| cannot_listen(at.ip(), at.port()));
                    wrong.iter().for_each(|what| errors.of(session, "address", what));
                })
            }
        },
    };
    if let Err(error) = checked {
        errors.add(session, error.to_string());
    }
    if session.store.durability != Durability::Memory {
        folder(session, "store_dir", &session.store_path(), errors);
    }
    if let Some(log) = &session.log {
        folder(session, "log", &log.dir, errors);
    }
    if let Some(archive) = &session.retention.archive_dir {
        folder(session, "retention", archive, errors);
    }
}

fn folder(session: &SessionSettings, key: &str, dir: &Path, errors: &mut Findings) {
    if let Some(why) = cannot_write(dir) {
        errors.of(session, key, &why);
    }
}

/// Returns the errors that would prevent the start of the program.
pub(super) fn of_program(settings: &Settings) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut add = |what: &str, why: Option<String>| {
        wrong.extend(why.map(|why| format!("{what}: {why}")));
    };
    let files = descriptors::reserve(settings, false);
    add("[engine]", files.err().map(|error| error.to_string()));
    let audit_file = &settings.engine.audit_file;
    let unsound =
        || audit::check(audit_file).err().map(|error| format!("{}: {error}", audit_file.display()));
    add("[engine] audit_file", cannot_write_file(audit_file).or_else(unsound));
    if let Some(events) = &settings.events {
        add("[events] file", cannot_write_file(&events.file));
    }
    wrong
}

/// Returns the errors that would prevent the start of the administration.
pub(super) fn of_admin(settings: &Settings) -> Vec<String> {
    let Some(admin) = &settings.admin else { return Vec::new() };
    let mut wrong = of_certificate(admin);
    let mut taken: Vec<(String, SocketAddr)> = Vec::new();
    for session in settings.sessions.iter().filter(|one| one.role == Role::Acceptor) {
        let found = session.address.to_socket_addrs().into_iter().flatten();
        taken.extend(found.map(|at| (session.id().to_string(), at)));
    }
    let fix = admin.fix.as_ref().map(|fix| ("[admin.fix] address", &fix.address));
    for (key, address) in [("[admin] address", &admin.address)].into_iter().chain(fix) {
        let found = address.to_socket_addrs().map(|mut found| found.next());
        let why = match found {
            Ok(Some(at)) => {
                let other = taken.iter().find(|(_, other)| is_same_listener(*other, at));
                let why = other.map(|(who, _)| {
                    format!(
                        "{who} already listens there; choose \
                    another port"
                    )
                });
                taken.push((key.to_owned(), at));
                why.or_else(|| cannot_listen(at.ip(), at.port()))
            }
            Ok(None) => Some("no such address".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        wrong.extend(why.map(|why| format!("{key}: {address}: {why}")));
    }
    wrong
}

/// Returns the errors in the certificate files of `[admin]`.
fn of_certificate(admin: &AdminSettings) -> Vec<String> {
    let AdminSettings { certificate, key, .. } = admin;
    let mut wrong = Vec::new();
    for (name, file) in [("certificate", certificate), ("key", key)] {
        let error = fs::File::open(file).err().filter(|_| !file.as_os_str().is_empty());
        wrong.extend(error.map(|error| format!("[admin] {name}: {}: {error}", file.display())));
    }
    if !wrong.is_empty() || certificate.as_os_str().is_empty() || key.as_os_str().is_empty() {
        return wrong;
    }
    // Checks the files with a session, which loads the same files in the same way.
    let id = SessionId::new(BeginString::Fix44, "ADMIN", "*");
    let mut session = SessionSettings::new(Role::Acceptor, &id, &admin.address);
    let (certificate, key) = (Some(certificate.clone()), Some(key.clone()));
    session.tls = Some(TlsSettings { certificate, key, ..TlsSettings::default() });
    let error = tls::review(&session).err().map(|error| error.to_string());
    wrong.extend(error.map(|error| {
        let why = error.split_once(": tls: ").map_or(&*error, |(_, why)| why);
        format!("[admin] certificate: {why}")
    }));
    wrong
}

/// Returns true if only one of two listeners can be bound, because their addresses overlap.
fn is_same_listener(one: SocketAddr, other: SocketAddr) -> bool {
    let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() > 0 && (is_any || one.ip() == other.ip())
}

/// Returns the reason why this machine cannot listen at the address. A port that is in use is no
/// reason, because it may become free.
fn cannot_listen(ip: IpAddr, port: u16) -> Option<String> {
    // Any port of the address suffices: a running engine may use the port of the settings.
    if let Err(error) = TcpListener::bind((ip, 0)) {
        return Some(format!("this machine cannot listen at {ip}: {error}"));
    }
    let free = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let first_free = free.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1_024);
    (port > 0 && port < first_free && !may_take_any_port()).then(|| {
        format!(
            "this user may not listen at port {port}: ports below {first_free} require the \
             capability CAP_NET_BIND_SERVICE"
        )
    })
}

/// Returns true if the process may bind ports below 1024, by the capability CAP_NET_BIND_SERVICE.
fn may_take_any_port() -> bool {
    const NET_BIND_SERVICE: u64 = 1 << 10;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    effective.map_or_else(|| geteuid().is_root(), |bits| bits & NET_BIND_SERVICE != 0)
}
