//! `transfix play`: runs scripts of the test client and reports which scripts succeed.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::input::failed;
use crate::show::{count, say};

/// Run scripts of the test client, and report which scripts succeed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix play client.toml logon.txt orders.txt cancels.txt

A separate test client runs each script, as `transfix connect SETTINGS --script FILE` does: it logs
on, runs the commands of the script, and logs out. The scripts run one after the other and share a
store, so sequence numbers continue. The page \"Test client\" of the book describes the commands.
Prints a line for each script: `ok` or `FAILED`, and the file. Below a failed script, prints the
error with the received messages.
Exit code: 0 all scripts succeeded, 1 a script failed, 2 wrong usage, or invalid settings or
scripts.")]
pub(crate) struct Args {
    /// Settings file with one initiator session.
    settings: PathBuf,
    /// Script files, with one command of the test client in each line.
    #[arg(required = true)]
    scripts: Vec<PathBuf>,
    /// Stop after the first script that fails.
    #[arg(long)]
    fail_fast: bool,
    /// File for the messages of the command `save`.
    #[arg(long, value_name = "FILE", default_value = "messages.txt")]
    messages: PathBuf,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    // All scripts are opened before the first script runs, so that a missing file is reported at
    // once.
    for script in &args.scripts {
        if let Err(error) = std::fs::File::open(script) {
            return failed(&format!("{}: {error}", script.display()));
        }
    }
    let (mut held, mut worst) = (0, 0);
    for script in &args.scripts {
        let code = match play(args, script) {
            Ok(code) => code,
            Err(why) => return failed(&why),
        };
        worst = worst.max(code);
        held += u64::from(code == 0);
        if code != 0 && args.fail_fast {
            break;
        }
    }
    say(&format!("{held} of {} hold", count(args.scripts.len() as u64, "script")));
    ExitCode::from(worst)
}

/// Runs a script in its own test client. Returns the client's exit code.
fn play(args: &Args, script: &Path) -> Result<u8, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let client = Command::new(program)
        .arg("connect")
        .arg(&args.settings)
        .args(["--quiet", "--script"])
        .arg(script)
        .arg("--messages")
        .arg(&args.messages)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("the test client could not be started: {error}"))?;
    let code = client.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    let shown = script.display();
    say(&if code == 0 { format!("ok      {shown}") } else { format!("FAILED  {shown}") });
    if code != 0 {
        let said = String::from_utf8_lossy(&client.stderr);
        said.lines().for_each(|line| say(&format!("        {line}")));
    }
    Ok(code)
}
