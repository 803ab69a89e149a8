//! `transfix serve`: the small matching venue, from a settings file, until Ctrl-C or SIGTERM. On
//! SIGHUP it goes over to what the file says then.

use std::io::{IsTerminal, stdin};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use transfix::{
    Application, Direction, Disconnect, Engine, Outcome, Role, SessionId, SessionOutcome,
    SessionSettings, Settings,
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
Ends on Ctrl-C or SIGTERM, or when its terminal is closed: logs out everywhere and waits for the
answers. On SIGHUP it reads the
settings file again: sessions that are new, gone or changed begin, end or begin anew, the others go
on; if anything in the file is wrong, it says so and nothing changes.
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

    fn logged_on(&mut self, id: &SessionId, peer: Option<SocketAddr>) {
        let from = peer.map(|peer| format!(" from {peer}")).unwrap_or_default();
        self.show.line(&format!("{id} logged on{from}"));
    }

    fn ended(&mut self, id: &SessionId, why: Disconnect) {
        self.show.line(&format!("{id} ended: {why}"));
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let settings = match Settings::load(&args.settings) {
        Ok(settings) => settings,
        Err(error) => return failed(&error.to_string()),
    };
    if let Err(why) = only_acceptors(args, &settings) {
        return failed(&why);
    }
    match serve(args, settings) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => why.exit("serve"),
    }
}

fn only_acceptors(args: &Args, settings: &Settings) -> Result<(), String> {
    let path = args.settings.display();
    match settings.sessions.iter().find(|session| session.role != Role::Acceptor) {
        None => Ok(()),
        Some(session) => {
            Err(format!("{path}: {} is an initiator; use `transfix connect`", session.id()))
        }
    }
}

fn serve(args: &Args, mut settings: Settings) -> Result<bool, NotStarted> {
    // Before the engine starts: no signal is lost.
    let signals = Signals::new([SIGHUP, SIGINT, SIGTERM]);
    let mut signals = signals.map_err(|error| error.to_string())?;
    let (mut venues, start) = (Vec::new(), transfix::clock::now().utc);
    for (n, session) in settings.sessions.iter().enumerate() {
        venues.push(venue(session, Ids::new(start, n), args.quiet)?);
    }
    venues.reverse();
    // Sessions are asked for in the order of the file.
    let mut engine = Engine::start(&settings, |_| match venues.pop() {
        Some(venue) => venue,
        None => unreachable!("there is a venue for each session"),
    })?;
    for address in engine.listening() {
        say(&format!("listening at {address}"));
    }
    let has_terminal = stdin().is_terminal();
    for signal in signals.forever() {
        // A terminal that has been closed is none any more: that is what the signal says then.
        if signal != SIGHUP || (has_terminal && !stdin().is_terminal()) {
            break;
        }
        match reload(args, &mut engine, &settings) {
            Ok(new) => settings = new,
            Err(why) => say(&format!("{why}\nreload: nothing has changed")),
        }
    }
    say("stopping");
    let mut orderly = true;
    for outcome in engine.stop(LOGOUT_MS) {
        orderly &= is_orderly(&outcome);
        say(&shown(outcome));
    }
    Ok(orderly)
}

/// How long counterparties have to answer a Logout(5).
const LOGOUT_MS: u64 = 10_000;

/// Goes over to what the settings file says now.
fn reload(args: &Args, engine: &mut Engine, from: &Settings) -> Result<Settings, String> {
    let to = Settings::load_or_all_errors(&args.settings).map_err(|errors| {
        let lines = errors.iter().map(|error| format!("reload: {error}"));
        lines.collect::<Vec<_>>().join("\n")
    })?;
    only_acceptors(args, &to)?;
    let start = transfix::clock::now().utc;
    // What can fail is tried before anything is changed.
    let shows: Result<Vec<_>, _> = to.sessions.iter().map(|one| show(one, args.quiet)).collect();
    let mut shows: Vec<_> = shows?.into_iter().map(Some).collect();
    let done = engine.reload(from, &to, LOGOUT_MS, |id| {
        let n = to.sessions.iter().position(|session| session.id() == *id);
        // Of a session that could not begin with its new settings the old ones are asked for.
        let first = n.and_then(|n| Some((&to.sessions[n], shows.get_mut(n)?.take()?)));
        let old = || from.sessions.iter().find(|session| session.id() == *id);
        let (session, show) = match first {
            Some((session, show)) => (Some(session), show),
            None => (
                old(),
                old().and_then(|old| show(old, args.quiet).ok()).unwrap_or_else(Show::quiet),
            ),
        };
        let store = session.map(SessionSettings::store_path).unwrap_or_default();
        let ids = Ids::new(start, n.unwrap_or(to.sessions.len()));
        Box::new(Venue::recover(id, store, ids, Printer { show }))
    });
    let done = done.map_err(|error| format!("reload: {error}"))?;
    done.changes.to_string().lines().for_each(|line| say(&format!("reload: {line}")));
    for outcome in done.ended {
        say(&format!("reload: {}", shown(outcome)));
    }
    for (id, error) in done.failed {
        say(&format!("reload: {id} goes on as before, or not at all: {error}"));
    }
    for address in engine.listening() {
        say(&format!("listening at {address}"));
    }
    Ok(done.settings)
}

fn is_orderly(outcome: &SessionOutcome) -> bool {
    matches!(outcome.outcome, Outcome::NotConnected | Outcome::Ended(Disconnect::LoggedOut))
}

fn shown(outcome: SessionOutcome) -> String {
    let SessionOutcome { id, outcome, next_num_in, next_num_out, .. } = outcome;
    format!("{id}: {outcome}, next in {next_num_in}, next out {next_num_out}")
}

fn show(session: &SessionSettings, quiet: bool) -> Result<Show, String> {
    let version = session.protocol.default_appl_ver_id;
    let show = if quiet { Show::quiet() } else { Show::new(session.begin_string, version, "")? };
    Ok(show.masking(session.mask()))
}

fn venue(session: &SessionSettings, ids: Ids, quiet: bool) -> Result<Box<dyn Application>, String> {
    let printer = Printer { show: show(session, quiet)? };
    Ok(Box::new(Venue::recover(&session.id(), session.store_path(), ids, printer)))
}
