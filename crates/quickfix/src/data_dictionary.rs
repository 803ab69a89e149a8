//! Migrates the keys that name dictionaries.

use std::fs;
use std::path::{Path, PathBuf};

use crate::dictionary::{self, Compared};
use crate::keys::quoted;
use crate::session::Session;
use crate::{Dialect, Fate, Overlay};

/// The names of the versions, each with its ApplVerID(1128) and the name of its standard
/// dictionary.
const VERSIONS: [(&str, u8, &str); 8] = [
    ("FIX.4.0", 2, "FIX40"),
    ("FIX.4.1", 3, "FIX41"),
    ("FIX.4.2", 4, "FIX42"),
    ("FIX.4.3", 5, "FIX43"),
    ("FIX.4.4", 6, "FIX44"),
    ("FIX.5.0", 7, "FIX50"),
    ("FIX.5.0SP1", 8, "FIX50SP1"),
    ("FIX.5.0SP2", 9, "FIX50SP2"),
];

/// The maximum number of differences that the report lists; further differences are only counted.
const SHOWN_MAX: usize = 10;

/// Returns the ApplVerID(1128) of a version, by number or name.
pub(crate) fn appl_ver_id(version: &str) -> Option<u8> {
    let by_name = VERSIONS.iter().find(|(name, _, _)| *name == version).map(|(_, n, _)| *n);
    by_name.or_else(|| version.parse().ok().filter(|n| (2..=10).contains(n)))
}

/// Returns the standard dictionary of a version.
fn standard(version: &str) -> Option<&'static str> {
    let number = appl_ver_id(version)?;
    VERSIONS.iter().find(|(_, n, _)| *n == number).map(|(_, _, name)| *name)
}

const KEYS: [&str; 3] = ["DataDictionary", "TransportDataDictionary", "AppDataDictionary"];

/// Writes `dictionary` and `appl_versions`, and `validate` where QuickFIX does not validate.
pub(crate) fn carry_over(session: &mut Session<'_>) {
    let of_versions: Vec<_> = session.beginning_with("AppDataDictionary.");
    if session.is_no("UseDataDictionary") {
        session.set("validate", "false".to_owned());
        let says = "messages of the session layer are still validated";
        session.tell("UseDataDictionary", Fate::Mapped, "validate = false", says);
        let of_versions = of_versions.iter().map(|entry| &*entry.key);
        for key in KEYS.into_iter().chain(of_versions) {
            session.tell(key, Fate::Ignored, "", "UseDataDictionary=N");
        }
        return;
    }
    session.tell("UseDataDictionary", Fate::Honoured, "", "");
    let begin_string = session.value("BeginString").unwrap_or_default();
    let is_fixt = begin_string == "FIXT.1.1";
    let version = match is_fixt {
        true => session.value("DefaultApplVerID").unwrap_or("9"),
        false => begin_string,
    };
    let (used, unused) = match is_fixt {
        true => ("AppDataDictionary", "DataDictionary"),
        false => ("DataDictionary", "AppDataDictionary"),
    };
    // With FIXT, QuickFIX/n and /J also accept DataDictionary, as the application's dictionary.
    let used = if is_fixt && !session.has(used) && session.has(unused) { unused } else { used };
    for key in KEYS.into_iter().filter(|key| *key != used) {
        if key != "TransportDataDictionary" || !is_fixt {
            session.tell(key, Fate::Ignored, "", "this version of FIX does not use this key");
        }
    }
    match session.value(used) {
        Some(file) => {
            if let Some(value) = one(session, used, file, standard(version)) {
                session.set("dictionary", value);
            }
        }
        None if session.dialect == Dialect::Go => {
            session.set("validate", "false".to_owned());
            let says = "without a dictionary QuickFIX/Go validates nothing; Transfix has the \
                        standard dictionaries built in";
            session.tell_of_session(Fate::Mapped, "validate = false", says);
        }
        None => {
            let says = "the file names no dictionary: Transfix uses its built-in dictionary of \
                        this version, with the project's amendments";
            session.tell_of_session(Fate::Mapped, "", says);
        }
    }
    if is_fixt {
        transport(session);
    }
    versions(session, is_fixt);
}

/// Migrates the dictionary of the session layer. The standard one is used unless the file adds
/// something.
fn transport(session: &mut Session<'_>) {
    const KEY: &str = "TransportDataDictionary";
    let Some(file) = session.value(KEY).map(str::to_owned) else { return };
    let found = found(session, &file).map(|path| dictionary::compare(&path, "FIXT11"));
    let (fate, says) = match found {
        Some(Ok(Compared { differences, .. })) => match beside_ours(differences) {
            Some(told) => told,
            None => {
                if let Some(value) = one(session, KEY, &file, Some("FIXT11")) {
                    session.set("session_dictionary", value);
                }
                return;
            }
        },
        Some(Err(error)) => (Fate::NotCarriedOver, error),
        None => (
            Fate::Mapped,
            "Transfix uses its own dictionary FIXT11 for the session layer".to_owned(),
        ),
    };
    session.tell(KEY, fate, "", &says);
}

/// Returns the finding about a session-layer dictionary that adds nothing to the standard. Returns
/// `None` if it adds something.
fn beside_ours(differences: Vec<String>) -> Option<(Fate, String)> {
    let is_beyond = |difference: &String| {
        // Additional messages do not count, because the application's dictionary defines messages.
        let is_more = difference.ends_with(" added") || difference.ends_with(" required");
        is_more && !difference.contains("of MsgType(35)")
    };
    match (differences.iter().any(is_beyond), differences.len()) {
        (true, _) => None,
        (false, 0) => Some((
            Fate::Honoured,
            "the file is the same as the built-in dictionary \
            FIXT11"
                .to_owned(),
        )),
        (false, _) => Some((
            Fate::Mapped,
            "Transfix uses its own dictionary FIXT11 for the session layer, \
                                 which allows more than this file"
                .to_owned(),
        )),
    }
}

fn versions(session: &mut Session<'_>, is_fixt: bool) {
    let mut all = Vec::new();
    for entry in session.beginning_with("AppDataDictionary.") {
        let (key, version) =
            (entry.key.clone(), entry.key["AppDataDictionary.".len()..].to_owned());
        let number = appl_ver_id(&version);
        match number.filter(|_| is_fixt) {
            None if !is_fixt => session.tell(
                &key,
                Fate::Ignored,
                "",
                "this version of FIX does \
                not use this key",
            ),
            None => {
                session.tell(&key, Fate::NotCarriedOver, "", &format!("`{version}` is no version"))
            }
            Some(number) => {
                let value = one(session, &key, &entry.value, standard(&version));
                all.extend(value.map(|value| format!("{number} = {value}")));
            }
        }
    }
    if !all.is_empty() {
        session.set("appl_versions", format!("{{ {} }}", all.join(", ")));
    }
}

/// Returns the value of `dictionary` for a dictionary file of QuickFIX, and reports the key.
fn one(
    session: &mut Session<'_>,
    key: &str,
    file: &str,
    base: Option<&'static str>,
) -> Option<String> {
    let Some(path) = found(session, file) else {
        return not_there(session, key, file, base);
    };
    let base = base.unwrap_or("FIXLatest");
    let compared = match dictionary::compare(&path, base) {
        Ok(compared) => compared,
        Err(error) => {
            session.tell(key, Fate::NotCarriedOver, "", &error);
            return None;
        }
    };
    let kept = quoted(&path.display().to_string());
    let (fate, value, says) =
        match (compared.differences.len(), compared.overlay, session.overlays_in) {
            (0, ..) => (
                Fate::Honoured,
                quoted(base),
                "the file is the same as the built-in \
                dictionary of the standard"
                    .to_owned(),
            ),
            (_, Some(text), Some(dir)) => {
                let of = (fs::canonicalize(&path).unwrap_or(path), base);
                let path = overlay_path(session, dir, &of, &text);
                let overlay = quoted(&path.display().to_string());
                let value = format!("{{ base = {}, overlays = [{overlay}] }}", quoted(base));
                session.overlays.push(Overlay { path, text, of });
                (Fate::Mapped, value, shown(&compared.differences))
            }
            (..) => (
                Fate::Honoured,
                kept,
                format!("beside our {base}: {}", shown(&compared.differences)),
            ),
        };
    session.tell(key, fate, &format!("{} = {value}", ours(key)), &says);
    Some(value)
}

/// Returns the path for the overlay of a dictionary. Dictionaries of the same name get the name of
/// their folder too, such as `b2-FIX44.overlay.xml`. An existing file with another text is not
/// replaced, because it may belong to other settings.
fn overlay_path(
    session: &Session<'_>,
    dir: &Path,
    of: &(PathBuf, &'static str),
    text: &str,
) -> PathBuf {
    let known = || session.overlays_known.iter().chain(&session.overlays);
    if let Some(overlay) = known().find(|overlay| overlay.of == *of) {
        return overlay.path.clone();
    }
    let mut name = of.0.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let folders = of.0.ancestors().skip(1).filter_map(Path::file_name);
    let mut folders = folders.map(|folder| folder.to_string_lossy());
    loop {
        let path = dir.join(format!("{name}.overlay.xml"));
        let is_free = !path.exists() || fs::read(&path).is_ok_and(|there| there == text.as_bytes());
        if is_free && known().all(|overlay| overlay.path != path) {
            return path;
        }
        let folder = folders.next().unwrap_or_else(|| of.1.into());
        name = format!("{folder}-{name}");
    }
}

/// Returns the Transfix key for this key.
fn ours(key: &str) -> String {
    if key == "TransportDataDictionary" {
        return "session_dictionary".to_owned();
    }
    let version = key.strip_prefix("AppDataDictionary.").and_then(appl_ver_id);
    version.map_or_else(|| "dictionary".to_owned(), |number| format!("appl_versions.{number}"))
}

/// Returns the value for a dictionary file that is missing, and reports the key. QuickFIX/J has the
/// standard files among its classes.
fn not_there(
    session: &mut Session<'_>,
    key: &str,
    file: &str,
    base: Option<&'static str>,
) -> Option<String> {
    let stem = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
    let is_standard = base.is_some_and(|base| stem.eq_ignore_ascii_case(base));
    let (fate, says) = match (is_standard, session.dialect) {
        (true, Dialect::Java) => (
            Fate::Mapped,
            "Transfix uses its built-in dictionary instead of \
            the one that QuickFIX/J contains",
        ),
        (true, _) => (
            Fate::NotCarriedOver,
            "the file is missing: Transfix uses its built-in \
            dictionary instead",
        ),
        (false, _) => (
            Fate::NotCarriedOver,
            "the file is missing: Transfix uses the standard \
            dictionary instead",
        ),
    };
    let value = base.filter(|_| is_standard).map(quoted);
    let becomes = value.iter().map(|value| format!("{} = {value}", ours(key))).collect::<String>();
    session.tell(key, fate, &becomes, says);
    value
}

/// Returns the path of an existing file, which is relative to the working directory or to the
/// settings file.
pub(crate) fn found(session: &Session<'_>, file: &str) -> Option<PathBuf> {
    let here = PathBuf::from(file);
    let beside = session.path.parent().unwrap_or(Path::new("")).join(file);
    [here, beside].into_iter().find(|path| path.is_file())
}

fn shown(differences: &[String]) -> String {
    let count = differences.len();
    let some = differences[..count.min(SHOWN_MAX)].join("; ");
    let what = if count == 1 { "difference" } else { "differences" };
    let more = count.saturating_sub(SHOWN_MAX);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{count} {what}: {some}{more}")
}
