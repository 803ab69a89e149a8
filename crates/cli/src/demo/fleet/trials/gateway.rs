//! A gateway of the demo: a process of its own with one session, which answers each order.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use transfix::{Engine, Settings};
use transfix_stores::Fleet;

use super::venue::Venue;

/// Time limit for the logout at the end.
const LOGOUT: Duration = Duration::from_secs(2);

/// The line of output with which a gateway reports that it has joined the fleet.
const READY: &str = "ready";

/// Returns the path of the notes of the gateway with this settings file.
pub(super) fn notes_path(settings: &Path) -> PathBuf {
    settings.with_extension("notes")
}

/// Runs a gateway until its standard input ends.
pub(super) fn run(path: &Path) -> ExitCode {
    match serve(path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("transfix demo fleet: {why}");
            ExitCode::FAILURE
        }
    }
}

fn serve(path: &Path) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut settings = Settings::load(path).map_err(|error| text(&error))?;
    let fleet = Fleet::join(&mut settings).map_err(|error| text(&error))?;
    let venue = Venue::noting_in(&notes_path(path))?;
    let engine = Engine::builder(&settings).stores(fleet.stores());
    let engine = engine.start(|_| Box::new(venue.clone()));
    let engine = engine.map_err(|error| text(&error))?;
    fleet.begin(&engine).map_err(|error| text(&error))?;
    for address in engine.listening() {
        println!("listening at {address}");
    }
    println!("{READY}");
    let _ = std::io::stdin().read(&mut [0]);
    engine.stop(LOGOUT);
    Ok(())
}

/// A running gateway process, killed when dropped.
pub(super) struct Gateway {
    settings: PathBuf,
    process: Child,
    /// The address at which the gateway listens; `None` if it connects.
    pub(super) address: Option<String>,
}

impl Gateway {
    /// Starts a gateway, and waits until it is ready.
    pub(super) fn start(settings: &Path) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.args(["--verbose", "demo", "fleet-gateway"]).arg(settings);
        let log = settings.with_extension("log");
        let log = File::options().create(true).append(true).open(log);
        command.stderr(log.map_err(|error| error.to_string())?);
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = process.map_err(|error| error.to_string())?;
        let lines = process.stdout.take().map(|output| BufReader::new(output).lines());
        let lines = lines.into_iter().flatten().map_while(Result::ok);
        let mut gateway = Self { settings: settings.to_owned(), process, address: None };
        for line in lines {
            match line.strip_prefix("listening at ") {
                Some(address) => gateway.address = Some(address.to_owned()),
                None if line == READY => return Ok(gateway),
                None => {}
            }
        }
        Err(format!("the gateway {} has not started", settings.display()))
    }

    /// Starts the gateway again, after it was killed.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        self.kill();
        *self = Self::start(&self.settings)?;
        Ok(())
    }

    /// Kills the process, as `kill -9` does.
    pub(super) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Pauses or continues the process.
    pub(super) fn pause(&self, is_paused: bool) -> Result<(), String> {
        let signal = if is_paused { "-STOP" } else { "-CONT" };
        let done = Command::new("kill").args([signal, &self.process.id().to_string()]).status();
        match done {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("kill: {status}")),
            Err(error) => Err(format!("kill: {error}")),
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill();
    }
}
