//! The maintenance tasks of the project, with one module for each command of `cargo xtask`.
#![forbid(unsafe_code)]

pub mod book;
pub mod campaign;
pub mod clocks;
pub mod console;
pub mod crash;
pub mod dictionaries;
pub mod docs;
pub mod figures;
pub mod fleet;
pub mod fuzz;
pub mod hostile;
pub mod instructions;
pub mod journald;
pub mod metrics;
pub mod openapi;
pub mod package;
pub mod peers;
pub mod pgo;
pub mod sanitize;
pub mod scenarios;
mod served;
pub mod sessions;
pub mod simulate;
pub mod tidy;

use std::path::{Path, PathBuf};

/// The outcome of a command: its report, or its error message.
pub type Outcome = Result<String, String>;

/// Returns the root directory of the project.
#[must_use]
pub fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_owned()
}

/// Returns the path relative to the root of the project, for messages.
fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
