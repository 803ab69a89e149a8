//! Acceptors of other engines, all of which follow the contract in `bench/peers/README.md`.
//!
//! The manifest `target/peers/acceptors.json` gives the start command and features of each
//! acceptor, so benchmarks need no knowledge of particular engines. Acceptors that could not be
//! built are listed with the reason.

mod build;
mod prove;
mod session;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

pub(super) use build::quickfixj_peer;

use super::{Outcome, target};

/// The manifest entry of an engine; engines that could not be built have an entry too.
struct Engine {
    name: &'static str,
    version: String,
    stores: &'static [&'static str],
    /// Names of the stores from which the engine can resend messages.
    resends: &'static [&'static str],
    validation: &'static [bool],
    modes: &'static [&'static str],
    /// The durability of the engine's file store.
    durability: &'static str,
    note: &'static str,
}

/// Builds the acceptors in `folder` and writes the manifest. Returns one line for each acceptor
/// that could not be built.
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

/// Tests the claims of the manifest for the combinations whose description contains `only`.
pub(super) fn prove(only: &str) -> Outcome<()> {
    let folder = target().join("peers");
    let path = folder.join("acceptors.json");
    let text = fs::read_to_string(&path).map_err(|error| {
        format!("{}: {error}; `cargo xtask peers build` writes it", path.display())
    })?;
    let manifest = serde_json::from_str(&text).map_err(|error| format!("{text}: {error}"))?;
    prove::prove(&manifest, &folder.join("run"), only)
}
