//! Acceptors of other engines, one contract for all of them: `bench/peers/README.md` has it.
//!
//! `target/peers/acceptors.json` says how each is started and what it can do, so that a benchmark
//! knows no engine by name. One that cannot be built is listed there with the reason.

mod build;
mod prove;
mod session;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

pub(super) use build::quickfixj_peer;

use super::{Outcome, target};

/// An engine's entry, for engines that could be built and for others.
struct Engine {
    name: &'static str,
    version: String,
    stores: &'static [&'static str],
    /// The stores whose messages it can send again.
    resends: &'static [&'static str],
    validation: &'static [bool],
    modes: &'static [&'static str],
    /// The durability of its file store.
    durability: &'static str,
    note: &'static str,
}

/// Builds the acceptors into `folder`, and writes the manifest; one line for each that is missing.
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

/// Proves what the manifest says, of the lines that contain `only`.
pub(super) fn prove(only: &str) -> Outcome<()> {
    let folder = target().join("peers");
    let path = folder.join("acceptors.json");
    let text = fs::read_to_string(&path).map_err(|error| {
        format!("{}: {error}; `cargo xtask peers build` writes it", path.display())
    })?;
    let manifest = serde_json::from_str(&text).map_err(|error| format!("{text}: {error}"))?;
    prove::prove(&manifest, &folder.join("run"), only)
}
