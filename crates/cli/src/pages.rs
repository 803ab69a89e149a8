//! Information about the program: shell completions, manual pages and build details.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;
use transfix_dictionary::STANDARD;

use crate::input::answered;

/// Print completions for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix completions bash > /etc/bash_completion.d/transfix
  transfix completions zsh > ~/.zfunc/_transfix
  transfix completions fish > ~/.config/fish/completions/transfix.fish

Exit code: 0 done, 2 wrong usage.")]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

/// Write the manual pages.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix man --to /usr/local/share/man/man1

Exit code: 0 done, 1 a file cannot be written, 2 wrong usage.")]
pub(crate) struct Man {
    /// The directory for the pages, created if it is missing.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

pub(crate) fn completions(args: &Completions, mut command: Command) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "transfix", &mut text);
    answered(&String::from_utf8_lossy(&text))
}

pub(crate) fn man(args: &Man, command: Command) -> ExitCode {
    let made = fs::create_dir_all(&args.to);
    match made.and_then(|()| clap_mangen::generate_to(command, &args.to)) {
        Ok(()) => answered(&format!("written: {}/transfix*.1\n", args.to.display())),
        Err(error) => {
            eprintln!("transfix man: {}: {error}", args.to.display());
            ExitCode::FAILURE
        }
    }
}

const fn built() -> &'static str {
    match (cfg!(debug_assertions), option_env!("TRANSFIX_PROFILED")) {
        (true, _) => "with debug assertions",
        (false, None) => "optimized",
        (false, Some(_)) => "optimized with a profile from its own runs",
    }
}

/// Prints build details if the arguments are `--version --verbose`. Returns `None` for other
/// arguments.
pub(crate) fn version() -> Option<ExitCode> {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let has = |names: &[&str]| args.iter().any(|arg| names.iter().any(|name| arg == *name));
    let is_all = args.len() == 2 && has(&["--version", "-V"]) && has(&["--verbose", "-v"]);
    if !is_all {
        return None;
    }
    let features = [("tls", cfg!(feature = "tls")), ("zstd", cfg!(feature = "zstd"))];
    let features: Vec<_> = features.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
    let text = format!(
        "transfix {}\nfeatures: {}\nbuilt for: {} {}, {}\nRust: {} or newer\ndictionaries: {}\n\
         licence: {}\n",
        env!("CARGO_PKG_VERSION"),
        if features.is_empty() { "none".to_owned() } else { features.join(", ") },
        std::env::consts::ARCH,
        std::env::consts::OS,
        built(),
        env!("CARGO_PKG_RUST_VERSION"),
        STANDARD.join(", "),
        env!("CARGO_PKG_LICENSE"),
    );
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Some(ExitCode::FAILURE),
        _ => Some(ExitCode::SUCCESS),
    }
}
