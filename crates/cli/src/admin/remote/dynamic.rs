//! Commands that add, change and remove sessions.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Answer, Failure, To, asked, encoded, said};

/// Add a session, which exists until it is removed or the program ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix admin add new-desk.toml

The file has one [[session]] as a settings file has it, and nothing else. Keys that name files are
left out: the store and the protocol log stand where those of the first session do, and an acceptor
at an address where others listen shares their TLS. The settings file of the program does not get
it, and a reload leaves it alone.
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

The file is one as for `transfix admin add`, with all keys that the session is to have; what names
files stays as it was. For a session of the settings file it holds until the next reload or start.
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

A session of the settings file comes back with the next reload or start.
Exit code: 0 done, 1 refused or not reached, 2 wrong usage.")]
pub(crate) struct Remove {
    /// The session's identity.
    id: String,
    /// Text(58) of our Logout(5).
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
