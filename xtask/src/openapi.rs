//! `cargo xtask openapi`: the fuzzer schemathesis reads openapi.json from a running venue, and
//! sends valid requests and many invalid requests.
//!
//! Checks for each role (viewer, operator, administrator): every response agrees with openapi.json,
//! no response is a server error, invalid requests are refused, and valid requests succeed.
//! Afterwards the venue still runs without a panic, and its audit file is complete.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::served::{Dir, ROLES, Served, Trader, program, target};

const USAGE: &str = "usage: cargo xtask openapi [--time SECONDS] [--seed N]

Asks a venue that runs all that its openapi.json allows, and more, for 60 s if nothing is said.
Needs python3 with venv (Debian: python3-venv), and fetches schemathesis once.";

/// The tested version of schemathesis.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";
const CONFIG: &str = include_str!("openapi/schemathesis.toml");
/// Minimum number of requests; a run with fewer requests fails, because its results prove little.
const REQUESTS_MIN: u64 = 100;
/// Paths that are not tested: the first response never ends, and the second request stops the
/// venue.
const LEFT_OUT: [&str; 2] = ["/api/events/stream", "/api/engine/stop"];

const SESSIONS: &str = "address = \"127.0.0.1:0\"\n\n\
    [[session]]\ntarget_comp_id = \"DESK\"\nkeep_inbound = true\n\n\
    [[session]]\ntarget_comp_id = \"FUND\"\nkeep_inbound = true\n";

/// Starts a venue and runs the fuzzer once for each role.
///
/// # Errors
/// Returns the fault that schemathesis has found, with the request that shows the fault.
pub fn run(args: &[String]) -> Outcome {
    let (mut seconds, mut seed) = (60_u64, 1_u64);
    for pair in args.chunks(2) {
        match pair {
            [flag, value] if flag == "--time" => seconds = value.parse().map_err(|_| USAGE)?,
            [flag, value] if flag == "--seed" => seed = value.parse().map_err(|_| USAGE)?,
            _ => return Err(USAGE.to_owned()),
        }
    }
    let (fuzzer, program) = (fuzzer()?, program()?);
    let dir = Dir::new("openapi")?;
    let mut served = Served::start(&program, &dir, SESSIONS)?;
    // A counterparty trades during the test, so that the sessions have data.
    let client = Trader::start(&program, &dir, &served.listens[0])?;
    let config = dir.write("schemathesis.toml", CONFIG)?;
    let each = seconds.div_ceil(ROLES.len() as u64).max(1).to_string();
    let mut report = Vec::new();
    for (role, token) in ROLES.iter().zip(served.tokens.clone()) {
        let output = Command::new(&fuzzer)
            .arg("--no-color")
            .arg("--config-file")
            .arg(&config)
            .args(["run", &format!("http://{}/api/openapi.json", served.admin)])
            .args(["--header", &format!("Authorization: Bearer {token}")])
            .args(LEFT_OUT.iter().flat_map(|path| ["--exclude-path", path]))
            .args(["--max-time", &each, "--seed", &seed.to_string(), "--warnings", "off"])
            .current_dir(dir.path())
            .output()
            .map_err(|error| format!("{}: {error}", fuzzer.display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        served.is_sound()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("as {role}, with --seed {seed}:\n{text}{said}"));
        }
        let requests = requests(&text).filter(|count| *count >= REQUESTS_MIN);
        let requests = requests.ok_or_else(|| format!("as {role}: hardly a request:\n{text}"))?;
        report.push(format!("as {role}: {requests} requests, all answered as described"));
    }
    drop(client);
    report.push(audit(&program, dir.path())?);
    Ok(report.join("\n"))
}

/// Returns the number of generated requests, the first number of a text such as
/// `123 generated, 120 passed`.
fn requests(text: &str) -> Option<u64> {
    let at = text.find(" generated")?;
    text[..at].rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Returns the path of schemathesis, which is installed once in its own Python environment.
fn fuzzer() -> Result<PathBuf, String> {
    let dir = target().join("schemathesis");
    let program = dir.join("bin/schemathesis");
    let has_it = Command::new(dir.join("bin/pip")).args(["freeze"]).output();
    if has_it.is_ok_and(|all| String::from_utf8_lossy(&all.stdout).contains(SCHEMATHESIS)) {
        return Ok(program);
    }
    let python = "python3 -m venv failed; install Debian's packages python3 and python3-venv";
    let made = Command::new("python3").args(["-m", "venv"]).arg(&dir).output();
    if !made.is_ok_and(|made| made.status.success()) {
        return Err(python.to_owned());
    }
    let pip = Command::new(dir.join("bin/pip"))
        .args(["install", "--quiet", SCHEMATHESIS])
        .output()
        .map_err(|error| format!("pip: {error}; {python}"))?;
    match pip.status.success() {
        true => Ok(program),
        false => {
            let why = String::from_utf8_lossy(&pip.stderr).into_owned();
            Err(format!("pip install {SCHEMATHESIS}: {why}"))
        }
    }
}

/// Checks that the audit file records all actions, and that no line was changed.
fn audit(program: &Path, dir: &Path) -> Outcome {
    let file = dir.join("audit.jsonl");
    let verified = Command::new(program).args(["audit", "verify"]).arg(&file).output();
    let verified = verified.map_err(|error| format!("transfix audit verify: {error}"))?;
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    let lines = said.split(';').next().unwrap_or_default().to_owned();
    match verified.status.success() && !lines.starts_with("0 lines") {
        true => Ok(format!("the audit is whole: {lines}")),
        false => Err(format!("transfix audit verify: {said}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_from_what_it_says() {
        assert_eq!(requests("Test cases:\n  2668 generated, 2 found\n"), Some(2_668));
        assert_eq!(requests("No operations"), None);
    }
}
