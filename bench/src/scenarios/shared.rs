//! Parts that the scenarios share: options, lines, directories, and the progress bar.

use std::io::Write;
use std::path::{Path, PathBuf};

use comfy_table::{LineStyle, TableStyle, presets};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use transfix::clock::monotonic_ns;

/// Table style: lines around the header and below the table, none between rows.
pub(super) const TABLE: TableStyle = presets::UTF8_HORIZONTAL_ONLY.row_separator(LineStyle::none());

/// The side of the benchmark that a host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum HostSide {
    Acceptor,
    Initiator,
}

/// Parses a number of at least one.
pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "a number above 0".to_owned())
}

/// Returns the directory with the peers' programs: the user's directory, which must exist, or the
/// default `target/peers`.
pub(super) fn peers_in(named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(dir) = named {
        let shown = dir.display();
        return if dir.is_dir() { Ok(dir.into()) } else { Err(format!("{shown}: no directory")) };
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = program.parent().and_then(Path::parent);
    target.map(|target| target.join("peers")).ok_or_else(|| "name the directory".to_owned())
}

/// Prints a line and flushes the output.
pub(super) fn print_line(line: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{line}").map_err(|error| error.to_string())
}

/// Writes `NAME.json` into a directory. Returns the text of the file.
pub(super) fn save_json(dir: &Path, name: &str, run: &impl Serialize) -> Result<String, String> {
    std::fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let json = serde_json::to_string(run).map_err(|error| error.to_string())?;
    let path = dir.join(format!("{name}.json"));
    std::fs::write(&path, &json).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(json)
}

/// A temporary directory for the stores of a benchmark, removed on drop.
pub(super) struct StoreDir(pub(super) PathBuf);

impl StoreDir {
    pub(super) fn new() -> Result<Self, String> {
        let name = format!("transfix-bench-{}-{}", std::process::id(), monotonic_ns());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for StoreDir {
    fn drop(&mut self) {
        // If the removal fails, the files stay in the directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns a progress bar that is shown only if standard error is a terminal.
pub(super) fn bar(title: &str, steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:30} {elapsed} {msg}") {
        bar.set_style(style);
    }
    bar.with_prefix(title.to_owned())
}
