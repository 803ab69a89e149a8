//! How each engine's acceptor is built, and what is known of the engine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::super::{Outcome, root};
use super::Engine;

const FILE_AND_MEMORY: &[&str] = &["memory", "file"];
const BOTH: &[bool] = &[true, false];
const DEFAULT_AND_POLLING: &[&str] = &["default", "polling"];

/// All engines, each with the command that starts its acceptor, or why there is none.
pub(super) fn all(folder: &Path) -> Vec<(Engine, Outcome<Vec<String>>)> {
    let mut all = vec![quickfix(folder)];
    for (_, command) in &mut all {
        // `pinned` takes the option `--cpu` away, and does what it says.
        *command = pinned(folder).and_then(|pinned| {
            let mut words = vec![pinned];
            words.append(command.as_mut().map_err(|error| error.clone())?);
            Ok(words)
        });
    }
    all
}

/// Copies the script that pins a process.
fn pinned(folder: &Path) -> Outcome<String> {
    let to = folder.join("pinned");
    let failed = |error| format!("{}: {error}", to.display());
    fs::copy(root().join("bench/peers/pinned.sh"), &to).map_err(failed)?;
    fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    Ok(to.display().to_string())
}

/// The first line that a program prints; empty if there is none.
fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

/// QuickFIX C++ of the system, which the counterparties have been built with before.
fn quickfix(folder: &Path) -> (Engine, Outcome<Vec<String>>) {
    let package = first_line("dpkg-query", &["-W", "-f", "${Version}", "libquickfix-dev"]);
    let version = package.split(['+', '-']).next().unwrap_or_default().to_owned();
    let engine = Engine {
        name: "QuickFIX C++",
        version,
        stores: FILE_AND_MEMORY,
        validation: BOTH,
        modes: DEFAULT_AND_POLLING,
        durability: "write(2) of each message and of both numbers, no fsync",
        note: "select(2); more than 180 sessions in the mode default get a thread each",
    };
    (engine, Ok(vec![folder.join("qf_throughput").display().to_string()]))
}
