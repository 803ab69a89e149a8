//! An acceptor for session-layer conformance checks by other programs.
//!
//! The acceptor is ISLD and accepts a counterparty of each FIX version at one port. The acceptor
//! echoes orders, keeps everything in memory, and runs until SIGTERM or Ctrl-C:
//!
//! ```text
//! cargo run --example conformance -- --port 9880 [--variant base] [--control PORT]
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to its user")]

mod application;
mod control;
mod variant;

use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use transfix::{Engine, SessionId};

use application::Echo;
use variant::Variant;

const USAGE: &str =
    "usage: conformance --port PORT [--variant VARIANT] [--control PORT]   (port 0: any free one)";
const HELP: &str = "
It is ISLD and takes a counterparty of each version; orders are sent back. Ctrl-C ends it.

  --port PORT        for counterparties
  --control PORT     for HTTP requests that set the next numbers of a session:
                     GET /seqnum?SESSION=...&NEXTSENDERSEQNUM=...
  --variant VARIANT  what the sessions differ in, default base

Exit code: 0 ended by a signal, 1 it could not start, 2 wrong usage";
/// The time limit for counterparties to answer the final Logout(5).
const STOP_TIME: Duration = Duration::from_secs(1);

/// The options of the command line.
struct Options {
    port: u16,
    variant: Variant,
    control: Option<u16>,
}

impl Options {
    fn read(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut port, mut variant, mut control) = (None, Variant::Base, None);
        let mut args = args.flat_map(|arg| match arg.split_once('=') {
            Some((key, value)) => vec![key.to_owned(), value.to_owned()],
            None => vec![arg],
        });
        while let Some(key) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("no value for {key}"));
            match key.as_str() {
                "--port" => port = Some(port_of(&value()?)?),
                "--variant" => variant = Variant::named(&value()?)?,
                "--control" => control = Some(port_of(&value()?)?),
                _ => return Err(format!("unknown option {key}")),
            }
        }
        Ok(Self { port: port.ok_or("--port is missing")?, variant, control })
    }
}

fn port_of(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("a port is 0 to 65535, not {text}"))
}

fn main() -> ExitCode {
    if std::env::args().any(|arg| arg == "--help" || arg == "-h") {
        println!("{USAGE}\n{HELP}\nVariants: {}", Variant::names());
        return ExitCode::SUCCESS;
    }
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("conformance: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let (stop, stopped) = channel();
    ctrlc::set_handler(move || _ = stop.send(())).map_err(|error| error.to_string())?;
    let settings = options.variant.settings(&format!("127.0.0.1:{}", options.port));
    let appl_ver_id_max = if options.variant == Variant::Latest { 10 } else { 9 };
    let application =
        |id: &SessionId| Box::new(Echo::new(id, appl_ver_id_max)) as Box<dyn transfix::Application>;
    let engine = Engine::start(&settings, application).map_err(|error| error.to_string())?;
    if let Some(port) = options.control {
        let sessions = engine.sessions().map(|session| (session.id().to_string(), session));
        let address = control::serve(port, sessions.collect())
            .map_err(|error| format!("control channel at port {port}: {error}"))?;
        println!("control at {address}");
    }
    println!("listening at {}", engine.listening()[0]);
    stopped.recv().map_err(|error| error.to_string())?;
    engine.stop(STOP_TIME);
    Ok(())
}
