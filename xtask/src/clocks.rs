//! `cargo xtask clocks`: runs the tests that read the clock at critical times of day.
//!
//! The times are the last seconds of a minute, an hour, a day and a year, a leap day, and a night
//! in which clocks are set back. `faketime` changes the clock only for the test process.

use std::process::Command;

use crate::{Outcome, root};

const USAGE: &str = "usage: cargo xtask clocks [--short]

Needs the program faketime (Debian: faketime), and leaves the time of the machine alone.
--short takes the first two times only.";

/// The times at which the tests start, in UTC.
const TIMES: &[&str] = &[
    "2026-12-31T23:59:54",
    "2026-11-24T12:25:55",
    "2028-02-28T23:59:50",
    "2026-10-25T00:59:56",
    "2026-03-29T00:59:52",
    "2026-11-24T12:59:51",
];
/// Filters for the engine tests whose result could depend on the time of day.
const TESTS: &[&str] = &["schedule::", "the_scheduled_pair"];

/// Runs these tests at each of the `TIMES`.
///
/// # Errors
/// If an argument is wrong, `faketime` is missing, or a test fails. The error names the time.
pub fn run(args: &[String]) -> Outcome {
    let is_short = match args {
        [] => false,
        [flag] if flag == "--short" => true,
        _ => return Err(USAGE.to_owned()),
    };
    if Command::new("faketime").arg("--version").output().is_err() {
        return Err("faketime is not installed (Debian: apt-get install faketime)".to_owned());
    }
    let times = if is_short { &TIMES[..2] } else { TIMES };
    for time in times {
        let status = Command::new(env!("CARGO"))
            // `--workspace` selects the same features as `cargo test --workspace`, so that cargo
            // reuses the build.
            .args(["test", "--quiet", "--workspace", "--test", "all"])
            // Only the test process runs under `faketime`: cargo itself needs the true time,
            // because it compares file ages.
            .args(["--config", &format!("target.'cfg(all())'.runner = 'faketime {time}'")])
            .arg("--")
            .args(TESTS)
            .env("TZ", "UTC")
            .current_dir(root())
            .status()
            .map_err(|error| format!("cargo: {error}"))?;
        if !status.success() {
            return Err(format!("a test failed that began at {time}; see above"));
        }
    }
    Ok(format!("the tests pass at {} times", times.len()))
}
