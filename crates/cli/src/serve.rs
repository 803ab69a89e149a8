//! `transfix serve`: the small matching venue, from a settings file, until Ctrl-C or SIGTERM.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::channel;

use transfix::{
    Application, Direction, Disconnect, Engine, Outcome, Role, SessionId, SessionSettings, Settings,
};

use crate::input::failed;
use crate::not_started::NotStarted;
use crate::show::{Show, say};
use crate::venue::book::Ids;
use crate::venue::{Venue, Watch};

/// Run a small matching venue from a settings file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix serve crates/cli/examples/venue.toml
  transfix connect crates/cli/examples/client.toml      in a second terminal

On the screen passwords are stars, and so are the fields in `log.mask` of a session.
Takes NewOrderSingle(D) with limit prices and OrderCancelRequest(F); orders of a session match each
other. With `keep_inbound = true` the book outlives a restart, and a kill -9.
Ends on Ctrl-C or SIGTERM: logs out everywhere and waits for the answers.
Exit code: 0 all sessions logged out, 1 not started or a session did not end in order,
2 wrong usage or settings that cannot be read.")]
pub(crate) struct Args {
    /// Settings file with acceptor sessions.
    settings: PathBuf,
    /// Don't print the messages.
    #[arg(long)]
    quiet: bool,
}

/// Prints what the venue sees.
struct Printer {
    show: Show,
}

impl Watch for Printer {
    fn message(&mut self, direction: Direction, frame: &[u8]) {
        self.show.frame(transfix::clock::now().utc, direction, frame);
    }

    fn recovered(&mut self, id: &SessionId, orders: u64) {
        say(&format!("{id}: {orders} orders recovered from the journal"));
    }

    fn not_recovered(&mut self, id: &SessionId, why: &str) {
        say(&format!("{id}: no orders are taken until its book is recovered at a logon: {why}"));
    }

    fn session(&mut self, id: &SessionId, ended: Option<Disconnect>) {
        match ended {
            None => self.show.line(&format!("{id} logged on")),
            Some(reason) => self.show.line(&format!("{id} ended: {reason}")),
        }
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let settings = match Settings::load(&args.settings) {
        Ok(settings) => settings,
        Err(error) => return failed(&error.to_string()),
    };
    if let Some(session) = settings.sessions.iter().find(|s| s.role != Role::Acceptor) {
        let (path, id) = (args.settings.display(), session.id());
        return failed(&format!("{path}: {id} is an initiator; use `transfix connect`"));
    }
    match serve(args, &settings) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => why.exit("serve"),
    }
}

fn serve(args: &Args, settings: &Settings) -> Result<bool, NotStarted> {
    let (stop, stopped) = channel();
    ctrlc::set_handler(move || _ = stop.send(())).map_err(|error| error.to_string())?;
    let (mut venues, start) = (Vec::new(), transfix::clock::now().utc);
    for (n, session) in settings.sessions.iter().enumerate() {
        venues.push(venue(session, Ids::new(start, n), args.quiet)?);
    }
    venues.reverse();
    // Sessions are asked for in the order of the file.
    let engine = Engine::start(settings, |_| match venues.pop() {
        Some(venue) => venue,
        None => unreachable!("there is a venue for each session"),
    })?;
    for address in engine.listening() {
        say(&format!("listening at {address}"));
    }
    stopped.recv().map_err(|error| error.to_string())?;
    say("stopping");
    let mut orderly = true;
    for outcome in engine.stop(10_000) {
        orderly &= matches!(
            outcome.outcome,
            Outcome::NotConnected | Outcome::Ended(Disconnect::LoggedOut)
        );
        let (next_in, next_out) = (outcome.next_num_in, outcome.next_num_out);
        let (id, outcome) = (outcome.id, outcome.outcome);
        say(&format!("{id}: {outcome}, next in {next_in}, next out {next_out}"));
    }
    Ok(orderly)
}

fn venue(session: &SessionSettings, ids: Ids, quiet: bool) -> Result<Box<dyn Application>, String> {
    let version = session.protocol.default_appl_ver_id;
    let show = if quiet { Show::quiet() } else { Show::new(session.begin_string, version, "")? };
    let printer = Printer { show: show.masking(session.mask()) };
    Ok(Box::new(Venue::recover(&session.id(), session.store_path(), ids, printer)))
}
