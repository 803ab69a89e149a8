//! Acceptors of other engines, with one contract for all in `bench/peers/README.md`.
//!
//! `target/peers/acceptors.json` has the start command and the features of each, so benchmarks know
//! no engine by name. Acceptors that cannot be built are listed with the reason.

mod build;
mod prove;
mod session;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

pub(super) use build::quickfixj_peer;

use super::{Outcome, target};

/// An engine's manifest entry, also for engines that could not be built.
struct Engine {
    name: &'static str,
    version: String,
    stores: &'static [&'static str],
    /// Stores whose messages the engine can resend.
    resends: &'static [&'static str],
    validation: &'static [bool],
    modes: &'static [&'static str],
    /// The durability of its file store.
    durability: &'static str,
    note: &'static str,
}

/// Builds the acceptors into `folder` and writes the manifest. Returns one line for each missing
/// acceptor.
pub(super) fn build(folder: &Path) -> Outcome<Vec<String>> {
    let (mut manifest, mut missing) = (Vec::new(), Vec::new());
    for (engine, command) in build::all(folder) {
        let mut entry = json!({"engine": engine.name, "version": engine.version});
        match command {
            Ok(command) => {
                entry["command"] = json!(command);
                entry["stores"] = json!(engine.stores);
                entry["resends"] = json!(engine.resends);
                entry["validation"] = json!(engine.validation);
                entry["answers"] = json!(["report", "echo"]);
                entry["modes"] = json!(engine.modes);
                entry["durability"] = json!(engine.durability);
                entry["note"] = json!(engine.note);
            }
            Err(why) => {
                let name = format!("{} {}", engine.name, engine.version);
                missing.push(format!("missing: {}: {why}", name.trim_end()));
                entry["missing"] = json!(why);
            }
        }
        manifest.push(entry);
    }
    let path = folder.join("acceptors.json");
    let text = format!("{:#}\n", Value::from(manifest));
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(missing)
}

/// Proves the manifest's claims in lines that contain `only`.
pub(super) fn prove(only: &str) -> Outcome<()> {
    let folder = target().join("peers");
    let path = folder.join("acceptors.json");
    let text = fs::read_to_string(&path).map_err(|error| {
        format!("{}: {error}; `cargo xtask peers build` writes it", path.display())
    })?;
    let manifest = serde_json::from_str(&text).map_err(|error| format!("{text}: {error}"))?;
    prove::prove(&manifest, &folder.join("run"), only)
}
