//! Passwords of a settings file, and hashes of them: the text itself, an environment variable, or
//! the first line of a file.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The keys of `logon` that take a password in these forms.
const KEYS: [&str; 4] = ["expected_password", "expected_password_hash", "password", "new_password"];

/// Puts the text in place of what names it; the error has the offset of the value. Returns the
/// files in which a password stands: this one, or one that it names.
pub(crate) fn read(logon: &mut DeTable<'_>, path: &Path) -> Result<Vec<PathBuf>, (usize, String)> {
    let mut files = Vec::new();
    for key in KEYS {
        if let Some(value) = logon.get_mut(key) {
            let text = text(value.get_ref()).map_err(|what| (value.span().start, what))?;
            let named = value.get_ref().as_table().map(|table| table.get("file"));
            let file = named.map_or(Some(path), |file| file?.get_ref().as_str().map(Path::new));
            files.extend(file.map(Path::to_owned));
            *value = Spanned::new(value.span(), DeValue::String(text.into()));
        }
    }
    Ok(files)
}

fn text(value: &DeValue<'_>) -> Result<String, String> {
    let forms = || "write the text, { env = \"NAME\" } or { file = \"PATH\" }".to_owned();
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    let table = value.as_table().filter(|table| table.len() == 1).ok_or_else(forms)?;
    let named = |key: &str| table.get(key).and_then(|value| value.get_ref().as_str());
    match (named("env"), named("file")) {
        (Some(name), _) => std::env::var(name).map_err(|error| {
            let is_missing = error == std::env::VarError::NotPresent;
            let why = if is_missing { "is not set" } else { "is no text" };
            format!("the environment variable {name} {why}")
        }),
        (_, Some(file)) => {
            let text = std::fs::read_to_string(file);
            let text = text.map_err(|error| format!("the file {file}: {error}"))?;
            Ok(text.lines().next().unwrap_or_default().to_owned())
        }
        _ => Err(forms()),
    }
}
