//! Parses sessions that an administrator adds or changes, in the format of the settings file.
//!
//! Invariant: an administrator's text never makes the program read a file, run a program or show
//! its environment. Settings that refer to files, programs or variables are allowed only in the
//! settings file.

use toml::{Table, Value};
use transfix::{Admin, Role, SessionHandle, SessionSettings, Settings};

/// Name of the administrator's text in error messages, in place of a file name.
const NAME: &str = "settings";

/// States whether a session is new or replaces the settings of an existing session.
#[derive(Clone, Copy)]
pub(crate) enum New<'a> {
    Added,
    InPlaceOf(&'a SessionHandle),
}

/// Keys of a session whose values name files. Each key is given as a path: `tls.ca` is
/// `["tls", "ca"]`.
const FILE_KEYS: &[&[&str]] = &[
    &["store_dir"],
    &["dictionary"],
    &["session_dictionary"],
    &["appl_versions"],
    &["log"],
    &["retention", "archive_dir"],
    &["schedule", "holidays"],
    &["tls", "certificate"],
    &["tls", "key"],
    &["tls", "more_certificates"],
    &["tls", "ca"],
    &["tls", "crl"],
];

/// Parses a text with exactly one `[[session]]` and nothing else. Settings that name files cannot
/// be in the text: a replaced session keeps its values, and a new session copies them from existing
/// sessions.
///
/// # Errors
/// Returns the error of the text, with its line if known.
pub(crate) fn session_of(
    text: &str,
    admin: &Admin,
    new: New<'_>,
) -> Result<SessionSettings, String> {
    let root: Table = text.parse().map_err(|error| format!("{NAME}: {error}"))?;
    if let Some(other) = root.keys().find(|key| *key != "session") {
        return Err(format!(
            "{NAME}: `{other}` is accepted only in the settings file; write only one [[session]] \
             here"
        ));
    }
    let one = match root.get("session") {
        Some(Value::Array(all)) if all.len() == 1 => &all[0],
        _ => return Err(format!("{NAME}: write exactly one [[session]]")),
    };
    of_the_machine(one, &mut Vec::new())?;
    let mut settings = Settings::parse(NAME, text).map_err(|error| error.to_string())?;
    let mut session = settings.sessions.pop().ok_or_else(|| format!("{NAME}: no [[session]]"))?;
    match new {
        New::Added => copy_from_existing(&mut session, admin),
        New::InPlaceOf(old) if old.id() != &session.id() => {
            let why = "the file would replace the session by another; remove the old session, and \
                       add the new session";
            return Err(format!("{NAME}: that is {}, not {}: {why}", session.id(), old.id()));
        }
        New::InPlaceOf(old) => take_over(&mut session, old.settings()),
    }
    Ok(session)
}

/// Rejects keys and values that would make the program read a file, run a program or show its
/// environment.
fn of_the_machine<'a>(value: &'a Value, way: &mut Vec<&'a str>) -> Result<(), String> {
    let name = way.join(".");
    if FILE_KEYS.contains(&&way[..]) {
        return Err(format!(
            "{NAME}: `{name}` names files and is accepted only in the settings file; remove it here"
        ));
    }
    match value {
        Value::String(text) if text.contains("${") => Err(format!(
            "{NAME}: `{name}`: write the value itself; variables of the environment \
                         are accepted only in the settings file"
        )),
        Value::Table(_) if way.last().is_some_and(|key| key.contains("password")) => Err(format!(
            "{NAME}: `{name}`: write the text itself; files, programs and the environment are \
             accepted only in the settings file"
        )),
        Value::Table(table) => table.iter().try_for_each(|(key, value)| {
            way.push(key);
            of_the_machine(value, way)?;
            way.pop();
            Ok(())
        }),
        Value::Array(all) => all.iter().try_for_each(|value| match value {
            // An entry of an array has no key, so the path is copied unchanged.
            Value::Table(_) | Value::Array(_) => of_the_machine(value, &mut way.clone()),
            text => of_the_machine(text, way),
        }),
        _ => Ok(()),
    }
}

/// Sets those settings of a new session that name files. The directories of the store and of the
/// protocol log are those of the first session. An acceptor shares the TLS and proxy settings of
/// the acceptors at its address.
pub(crate) fn copy_from_existing(session: &mut SessionSettings, admin: &Admin) {
    let all = admin.handles();
    if let Some(like) = all.first().map(SessionHandle::settings) {
        session.store.store_dir.clone_from(&like.store.store_dir);
        session.log.clone_from(&like.log);
    }
    let is_there = |one: &&SessionHandle| {
        let there = one.settings();
        there.role == Role::Acceptor && there.address == session.address
    };
    let door = all.iter().find(is_there).filter(|_| session.role == Role::Acceptor);
    if let Some(door) = door.map(SessionHandle::settings) {
        // All sessions at one address use TLS, or none does.
        let peer = session.tls.take().map(|tls| tls.peer);
        session.tls.clone_from(&door.tls);
        if let Some(tls) = &mut session.tls {
            tls.peer = peer.unwrap_or_default();
        }
        session.proxy_protocol_from.clone_from(&door.proxy_protocol_from);
    }
}

/// Copies the settings that name files from the replaced session.
fn take_over(session: &mut SessionSettings, old: &SessionSettings) {
    session.store.store_dir.clone_from(&old.store.store_dir);
    session.log.clone_from(&old.log);
    session.retention.archive_dir.clone_from(&old.retention.archive_dir);
    session.validation.dictionary.clone_from(&old.validation.dictionary);
    session.validation.session_dictionary.clone_from(&old.validation.session_dictionary);
    session.validation.appl_versions.clone_from(&old.validation.appl_versions);
    if let (Some(new), Some(old)) = (&mut session.schedule, &old.schedule) {
        new.holidays.clone_from(&old.holidays);
    }
    if let (Some(new), Some(old)) = (&mut session.tls, &old.tls) {
        new.certificate.clone_from(&old.certificate);
        new.key.clone_from(&old.key);
        new.more_certificates.clone_from(&old.more_certificates);
        new.ca.clone_from(&old.ca);
        new.crl.clone_from(&old.crl);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::FILE_KEYS;

    /// Keys of a session that accept any text but never name a file, a program or a variable.
    /// Passwords, which can name files, are checked by [`super::of_the_machine`].
    const OF_NO_FILES: &[&str] = &[
        "address",
        "allow_from",
        "body_fields",
        "failover.addresses",
        "header_fields",
        "local_address",
        "logon.default_cstm_appl_ver_id",
        "logon.expected_username",
        "logon.fields",
        "logon.username",
        "proxy.address",
        "proxy.username",
        "proxy_protocol_from",
        "qualifier",
        "reset_at",
        "reset_at_zone",
        "schedule.days",
        "schedule.from",
        "schedule.outside.reject",
        "schedule.to",
        "schedule.windows.close",
        "schedule.windows.days",
        "schedule.windows.from",
        "schedule.windows.open",
        "schedule.windows.to",
        "schedule.zone",
        "sender_comp_id",
        "sender_location_id",
        "sender_sub_id",
        "target_comp_id",
        "target_location_id",
        "target_sub_id",
        "throttles.msg_type",
        "tls.peer",
        "tls.server_name",
    ];

    /// Collects the keys of a schema that accept any text, any table, or a referenced definition.
    fn texts(schema: &Value, way: &mut Vec<String>, found: &mut Vec<String>) {
        if schema.get("enum").is_some() || schema.get("pattern").is_some() {
            return;
        }
        let is_open = schema["type"] == "object"
            && schema.get("properties").is_none()
            && schema.get("additionalProperties").is_none();
        if is_open || schema["type"] == "string" || schema.get("$ref").is_some() {
            return found.push(way.join("."));
        }
        let any_of = schema["anyOf"].as_array().into_iter().flatten();
        let entries =
            ["items", "additionalProperties"].into_iter().filter_map(|key| schema.get(key));
        any_of.chain(entries).for_each(|inner| texts(inner, way, found));
        for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
            way.push(key.clone());
            texts(inner, way, found);
            way.pop();
        }
    }

    #[test]
    fn each_key_that_takes_a_text_is_known_to_name_files_or_not() {
        let schema: Value = serde_json::from_str(&transfix::Settings::schema()).unwrap();
        let mut found = Vec::new();
        texts(&schema["$defs"]["session"], &mut Vec::new(), &mut found);
        found.retain(|way| !way.contains("password"));
        let of_files: Vec<String> = FILE_KEYS.iter().map(|way| way.join(".")).collect();
        // Returns true if the path `way` equals `key` or is inside the table `key`.
        let is_in = |way: &str, key: &str| {
            way.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        for way in &found {
            let names_files = of_files.iter().any(|key| is_in(way, key));
            let is_harmless = OF_NO_FILES.contains(&&**way);
            assert!(names_files != is_harmless, "`{way}` belongs in FILE_KEYS or OF_NO_FILES");
        }
        let listed = of_files.iter().map(|key| &**key).chain(OF_NO_FILES.iter().copied());
        let gone: Vec<&str> =
            listed.filter(|key| !found.iter().any(|way| is_in(way, key))).collect();
        assert!(gone.is_empty(), "a session has no such keys: {gone:?}");
    }
}
