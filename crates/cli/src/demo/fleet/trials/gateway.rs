//! A gateway of the demo: a process of its own with one acceptor, which answers each order.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use transfix::{Application, BusinessReject, Engine, Message, SessionRef, Settings, tag};
use transfix_stores::Fleet;

/// Time limit for the logout at the end.
const LOGOUT: Duration = Duration::from_secs(2);

/// Answers each order with a report, whose ExecID(17) is new in each process.
struct Venue {
    run: String,
    reports: u64,
}

impl Application for Venue {
    fn on_message(
        &mut self,
        order: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let id = order.text(tag::CL_ORD_ID)?;
        self.reports += 1;
        let exec_id = format!("{}-{}", self.run, self.reports);
        let sent = session.send("8", |report| {
            report.str(tag::ORDER_ID, id).str(tag::CL_ORD_ID, id).str(tag::EXEC_ID, &exec_id);
        });
        // An order without its answer is refused, so that the counterparty sees the fault.
        sent.map(drop).map_err(|_| BusinessReject::other("the answer cannot be sent"))
    }
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
    let venue = |_: &_| -> Box<dyn Application> {
        let run = format!("{}.{}", std::process::id(), transfix::clock::now().utc.0);
        Box::new(Venue { run, reports: 0 })
    };
    let engine = Engine::builder(&settings).stores(fleet.stores()).start(venue);
    let engine = engine.map_err(|error| text(&error))?;
    fleet.begin(&engine).map_err(|error| text(&error))?;
    for address in engine.listening() {
        println!("listening at {address}");
    }
    let _ = std::io::stdin().read(&mut [0]);
    engine.stop(LOGOUT);
    Ok(())
}

/// A running gateway process, killed when dropped.
pub(super) struct Gateway {
    settings: PathBuf,
    process: Child,
    pub(super) address: String,
}

impl Gateway {
    /// Starts a gateway, and waits until it listens.
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
        let mut lines = lines.into_iter().flatten().map_while(Result::ok);
        let address = lines.find_map(|line| Some(line.strip_prefix("listening at ")?.to_owned()));
        let Some(address) = address else {
            let _ = process.kill();
            let _ = process.wait();
            return Err(format!("the gateway {} has not started", settings.display()));
        };
        Ok(Self { settings: settings.to_owned(), process, address })
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
