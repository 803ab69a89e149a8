//! Commands that add, change and remove sessions.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Answer, Failure, To, asked, encoded, said};

/// Add a session, which exists until it is removed or the program ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix admin add new-desk.toml

The file contains exactly one [[session]], as in a settings file. Keys that name files are not
accepted. The store and the protocol log use the directories of the first session. An acceptor with
the address of other sessions also uses their TLS settings. The settings file of the program is not
changed, and a reload keeps the new session.
Exit code: 0 done, 1 refused or not reached, 2 wrong usage, or the file cannot be read.")]
pub(crate) struct Add {
    /// File with the session.
    file: PathBuf,
    #[command(flatten)]
    to: To,
}

/// Change the settings of a session: the session logs out and restarts from its store.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix admin change 'FIX.4.4:VENUE->DESK' desk.toml

The file has the form for `transfix admin add`, with all keys of the session; keys that name files
keep their old values. For a session of the settings file, the change lasts until the next reload or
start.
Exit code: 0 done, 1 refused or not reached, 2 wrong usage, or the file cannot be read.")]
pub(crate) struct Change {
    /// The session's identity.
    id: String,
    /// File with the session.
    file: PathBuf,
    #[command(flatten)]
    to: To,
}

/// Log a session out and remove it; its store is kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix admin remove 'FIX.4.4:VENUE->DESK' --text 'good bye' --confirm 'FIX.4.4:VENUE->DESK'

The next reload or start restores a session of the settings file.
Exit code: 0 done, 1 refused or not reached, 2 wrong usage.")]
pub(crate) struct Remove {
    /// The session's identity.
    id: String,
    /// Text(58) of the Logout(5) that the engine sends.
    #[arg(long, default_value = "")]
    text: String,
    /// The session's identity again, as a confirmation.
    #[arg(long, value_name = "ID")]
    confirm: Option<String>,
    #[command(flatten)]
    to: To,
}

pub(super) fn add(args: &Add) -> Answer {
    asked(&args.to, "/api/sessions", &body(&args.file)?)
}

pub(super) fn change(args: &Change) -> Answer {
    let path = format!("/api/sessions/{}", encoded(&args.id));
    Ok(said(&args.to.json("PUT", &path, Some(&body(&args.file)?))?))
}

pub(super) fn remove(args: &Remove) -> Answer {
    let mut path = format!("/api/sessions/{}?text={}", encoded(&args.id), encoded(&args.text));
    if let Some(confirm) = &args.confirm {
        path += &format!("&confirm={}", encoded(confirm));
    }
    Ok(said(&args.to.json("DELETE", &path, None)?))
}

fn body(file: &Path) -> Result<Value, Failure> {
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))?;
    Ok(json!({ "settings": text }))
}
