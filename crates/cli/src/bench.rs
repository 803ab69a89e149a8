//! `transfix bench`: runs the program `transfix-bench`, in the same way as cargo runs its
//! subcommands.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

const PROGRAM: &str = "transfix-bench";

/// Measure the performance of Transfix and other engines in a scenario, with the program
/// transfix-bench.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// The scenario and its options: `transfix bench --help` lists them.
    #[arg(value_name = "SCENARIO", trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// Replaces this process by `transfix-bench` from the directory of this program, or else from PATH.
pub(crate) fn run(args: &Args, is_verbose: bool) -> ExitCode {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&in_path).map(|dir| dir.join(PROGRAM));
    let mut places = beside.iter().cloned().chain(in_path);
    let Some(program) = places.find(|place| place.is_file()) else {
        let beside = beside.unwrap_or_else(|| PathBuf::from(PROGRAM));
        eprintln!(
            "transfix bench: the program {PROGRAM} is missing: it is neither {} nor in PATH; in a \
             checkout of Transfix, build the program with `cargo build --release -p {PROGRAM}`",
            beside.display()
        );
        return ExitCode::FAILURE;
    };
    let mut command = Command::new(&program);
    command.args(&args.rest).args(is_verbose.then_some("--verbose"));
    failed(&program.display().to_string(), &command.exec())
}

/// Prints the reason why the program could not be started.
fn failed(program: &str, error: &io::Error) -> ExitCode {
    let why = match error.kind() {
        ErrorKind::PermissionDenied => {
            "this user may not run the program; check its permissions".to_owned()
        }
        _ => error.to_string(),
    };
    eprintln!("transfix bench: {program}: {why}");
    ExitCode::FAILURE
}
