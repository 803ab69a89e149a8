//! `transfix serve`: runs the small matching venue from a settings file until Ctrl-C or SIGTERM.
//! SIGHUP reloads the settings file.

mod dynamic;

use std::collections::VecDeque;
use std::io::{IsTerminal, stdin};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use transfix::{
    Actor, Admin, Application, Direction, Disconnect, Engine, EngineAction, Outcome, Reloaded,
    Request, SessionId, SessionOutcome, SessionSettings, Settings,
};
use transfix_admin::AdminServer;

use crate::input::failed;
use crate::not_started::NotStarted;
use crate::show::{Bounded, Show, say};
use crate::suits::Runner;
use crate::venue::book::Ids;
use crate::venue::{Venue, Watch};
use crate::{administered, events};

/// Run a small matching venue from a settings file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix serve crates/cli/examples/venue.toml
  transfix connect crates/cli/examples/client.toml      in a second terminal

The screen shows passwords and the fields in `log.mask` of a session as stars. The venue accepts
NewOrderSingle(D) with limit prices and OrderCancelRequest(F). Orders are matched only within their
session. With `keep_inbound = true` the book survives a restart and kill -9. On Ctrl-C or SIGTERM,
or when its terminal is closed, the venue logs out all sessions, waits for the answers, and ends. On
SIGHUP, the venue reads the settings file again: it starts new sessions, ends removed sessions,
restarts changed sessions, and continues the others. If the file has an error, standard error shows
the error, and nothing changes. On SIGUSR1, the venue rotates all logs. With [admin] in the
settings, a browser or `transfix admin` can observe and control the venue over HTTP. `transfix
admin` can also add sessions until the program ends, and remove sessions. [events] sets the
destinations of events.
Exit code: 0 all sessions logged out, 1 not started or a session did not log out in order, 2 wrong
usage or settings that cannot be read.")]
pub(crate) struct Args {
    /// Settings file with acceptor sessions.
    settings: PathBuf,
    /// Don't print the messages.
    #[arg(long)]
    quiet: bool,
}

/// Prints the messages and events of the venue.
struct Printer {
    show: Show,
    /// Rate limit for lines about connections.
    lines: Bounded,
}

impl Printer {
    fn new(show: Show) -> Self {
        Self { show, lines: Bounded::default() }
    }

    /// Prints a line that any client can cause, unless the rate limit is exceeded.
    fn bounded(&mut self, text: String) {
        if let Some(line) = self.lines.line(transfix::clock::monotonic_ns(), text) {
            self.show.line(&line);
        }
    }
}

impl Watch for Printer {
    fn message(&mut self, direction: Direction, frame: &[u8]) {
        self.show.frame(transfix::clock::now().utc, direction, frame);
    }

    fn recovered(&mut self, id: &SessionId, orders: u64) {
        say(&format!("{id}: {orders} orders recovered from the journal"));
    }

    fn not_recovered(&mut self, id: &SessionId, why: &str) {
        say(&format!("{id}: orders are refused until the book is recovered at a logon: {why}"));
    }

    fn logged_on(&mut self, id: &SessionId, peer: Option<SocketAddr>) {
        let from = peer.map(|peer| format!(" from {peer}")).unwrap_or_default();
        self.bounded(format!("{id} logged on{from}"));
    }

    fn ended(&mut self, id: &SessionId, why: Disconnect) {
        self.bounded(format!("{id} ended: {why}"));
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let settings = match Settings::load(&args.settings) {
        Ok(settings) => settings,
        Err(error) => return failed(&error.to_string()),
    };
    if let Some(why) = Runner::Serve.refuses(&args.settings, &settings) {
        return failed(&why);
    }
    match serve(args, settings) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => why.exit("serve"),
    }
}

fn serve(args: &Args, settings: Settings) -> Result<bool, NotStarted> {
    // Signals are caught before the engine starts, so that none is lost.
    let asked = RequestQueue::listen()?;
    events::open(settings.events.as_ref())?;
    administered::check(&args.settings, &settings)?;
    let (mut venues, start) = (Vec::new(), transfix::clock::now().utc);
    for (n, session) in settings.sessions.iter().enumerate() {
        venues.push(venue(session, Ids::new(start, n), args.quiet)?);
    }
    venues.reverse();
    // `Engine::start` requests the applications in the order of the sessions in the file.
    let engine = Engine::start(&settings, |_| match venues.pop() {
        Some(venue) => venue,
        None => unreachable!("each session has a venue"),
    })?;
    let mut added = settings.sessions.len();
    let application = |session: &SessionSettings| {
        added += 1;
        venue(session, Ids::new(start, added), args.quiet)
    };
    let go_over = |engine: &mut Engine, from: &Settings| reload(args, engine, from);
    steer(&args.settings, (engine, settings), asked, go_over, application)
}

/// Runs the engine until a stop is requested. `go_over` applies the changed settings file;
/// `application` creates the application of an added session.
pub(crate) fn steer(
    path: &Path,
    (mut engine, mut settings): (Engine, Settings),
    mut asked: RequestQueue,
    mut go_over: impl FnMut(&mut Engine, &Settings) -> Result<(Settings, String), Vec<String>>,
    mut application: impl FnMut(&SessionSettings) -> Result<Box<dyn Application>, String>,
) -> Result<bool, NotStarted> {
    say_where(&engine);
    let console = administered::start(path, &settings, &engine)?;
    let admin = engine.admin();
    events::rotate_with(&admin);
    asked.take_requests(&admin);
    let signal = Actor::new("signal", "SIGHUP");
    supervisor(&[NotifyState::Ready]);
    loop {
        let (action, by) = match asked.next() {
            OutsideRequest::Stop => break,
            OutsideRequest::Reload => (EngineAction::Reload, None),
            OutsideRequest::RequestQueue(request)
                if matches!(request.action, EngineAction::Stop) =>
            {
                request.answer(Ok("stopping".to_owned()));
                break;
            }
            OutsideRequest::RequestQueue(request) => (request.action.clone(), Some(request)),
        };
        let mut act = || match &action {
            EngineAction::Reload => {
                reloaded((&mut engine, &mut settings), &mut go_over, console.as_ref())
            }
            other => dynamic::carry_out((&mut engine, &mut settings), other, &mut application),
        };
        match by {
            // The administration has already recorded this request in the audit.
            Some(request) => request.answer(act()),
            // The result is dropped, because the audit and the log report errors.
            None => drop(admin.audited(&signal, &action, act)),
        }
        asked.is_busy.store(false, Ordering::Release);
    }
    say("stopping");
    supervisor(&[NotifyState::Stopping]);
    // The console is closed first, which sends the answer to the operator who requested the stop.
    drop(console);
    let mut orderly = true;
    for outcome in engine.stop(LOGOUT_TIME) {
        orderly &= is_orderly(&outcome);
        say(&shown(&outcome));
    }
    Ok(orderly)
}

/// Reads the settings file again, and applies the changes. Returns a description of the changes.
///
/// # Errors
/// Returns all errors of the file; then nothing has changed.
fn reloaded(
    (engine, settings): (&mut Engine, &mut Settings),
    go_over: &mut impl FnMut(&mut Engine, &Settings) -> Result<(Settings, String), Vec<String>>,
    console: Option<&AdminServer>,
) -> Result<String, String> {
    let since = NotifyState::monotonic_usec_now().ok();
    let reloading: Vec<_> = [NotifyState::Reloading].into_iter().chain(since).collect();
    supervisor(&reloading);
    // The certificate is read before anything changes, because reading may fail.
    let certificate = console.map_or(Ok(None), AdminServer::read_certificate);
    let done = certificate.map_err(|error| vec![error.to_string()]).and_then(|certificate| {
        let (new, mut done) = go_over(engine, settings)?;
        *settings = new;
        if events::reload(settings.events.as_ref()) {
            done += "\n[events]: the levels of the settings are in force again";
        }
        if let (Some(console), Some(fresh)) = (console, certificate) {
            console.show(fresh);
            done += "\n[admin]: a new certificate is in use";
        }
        Ok(done)
    });
    let done = done.map_err(|why| {
        complain(why.iter().map(String::as_str).chain(["nothing has changed"]));
        why.join("\n")
    });
    supervisor(&[NotifyState::Ready]);
    done
}

/// Maximum time for counterparties to answer a Logout(5).
pub(crate) const LOGOUT_TIME: Duration = Duration::from_secs(10);

/// Reports the program's state to systemd. Has no effect if systemd did not start the program.
fn supervisor(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the program could not report its state to systemd");
    }
}

/// A request by a signal or an operator.
#[derive(Debug)]
enum OutsideRequest {
    /// SIGHUP.
    Reload,
    /// An operator's request from the administration.
    RequestQueue(Request),
    /// SIGINT, SIGTERM, or SIGHUP after the terminal was closed.
    Stop,
}

/// Queue of signals and operators' requests. A separate thread receives the signals, so that a stop
/// signal during a reload or logout is acknowledged at once.
pub(crate) struct RequestQueue {
    wishes: Receiver<OutsideRequest>,
    to: Sender<OutsideRequest>,
    /// Received requests that have not been performed yet.
    later: VecDeque<OutsideRequest>,
    is_busy: Arc<AtomicBool>,
}

impl RequestQueue {
    pub(crate) fn listen() -> Result<Self, String> {
        let signals = Signals::new([SIGHUP, SIGINT, SIGTERM]);
        let mut signals = signals.map_err(|error| error.to_string())?;
        let (to, wishes) = channel();
        let is_busy = Arc::new(AtomicBool::new(false));
        let (busy, of_signals) = (Arc::clone(&is_busy), to.clone());
        let has_terminal = stdin().is_terminal();
        let listen = move || {
            for signal in signals.forever() {
                // If the terminal was closed, standard input is no longer a terminal, and SIGHUP
                // requests a stop instead of a reload.
                let is_closed = has_terminal && !stdin().is_terminal();
                let is_reload = signal == SIGHUP && !is_closed;
                let wish = if is_reload { OutsideRequest::Reload } else { OutsideRequest::Stop };
                if !is_reload && busy.load(Ordering::Acquire) {
                    say("the program stops when the current request is finished");
                }
                if of_signals.send(wish).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(listen);
        thread.map(drop).map_err(|error| format!("thread signals: {error}"))?;
        Ok(Self { wishes, to, later: VecDeque::new(), is_busy })
    }

    /// Passes the operators' requests from the administration to the queue.
    fn take_requests(&self, admin: &Admin) {
        let to = self.to.clone();
        // If the program is ending, the send fails and the operator receives an error.
        admin.take_requests(move |request| drop(to.send(OutsideRequest::RequestQueue(request))));
    }

    /// Waits for the next request and returns it. A stop comes before other requests.
    fn next(&mut self) -> OutsideRequest {
        self.later.extend(self.wishes.try_iter());
        if self.later.is_empty() {
            // `self` holds a sender, so the channel is never closed and the receive never fails.
            self.later.extend(self.wishes.recv());
            self.later.extend(self.wishes.try_iter());
        }
        if self.later.iter().any(|wish| matches!(wish, OutsideRequest::Stop)) {
            return OutsideRequest::Stop;
        }
        let wish = self.later.pop_front().unwrap_or(OutsideRequest::Stop);
        self.is_busy.store(true, Ordering::Release);
        wish
    }
}

/// Reports the errors of a reload as events, so that a slow reader of standard error cannot block
/// the program.
fn complain<'a>(why: impl Iterator<Item = &'a str>) {
    why.for_each(|why| tracing::error!("reload: {why}"));
}

/// Prints the addresses on which the engine listens.
pub(crate) fn say_where(engine: &Engine) {
    for address in engine.listening() {
        let with = if engine.listens_with_tls(*address) { " with TLS" } else { "" };
        say(&format!("listening at {address}{with}"));
    }
}

/// Reads the settings file again, and applies the changes to the venue's sessions.
///
/// # Errors
/// Returns all errors of the file; then nothing has changed.
fn reload(
    args: &Args,
    engine: &mut Engine,
    from: &Settings,
) -> Result<(Settings, String), Vec<String>> {
    let one = |error: String| vec![error];
    let to = Settings::load_or_all_errors(&args.settings);
    let to = to.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    Runner::Serve.refuses(&args.settings, &to).map_or(Ok(()), |why| Err(one(why)))?;
    let start = transfix::clock::now().utc;
    // The printers are created before anything changes, because their dictionaries may be
    // unreadable.
    let shows: Result<Vec<_>, _> = to.sessions.iter().map(|one| show(one, args.quiet)).collect();
    let mut shows: Vec<_> = shows.map_err(one)?.into_iter().map(Some).collect();
    let done = engine.reload(from, &to, LOGOUT_TIME, |id| {
        let n = to.sessions.iter().position(|session| session.id() == *id);
        // The first request for a session uses its new settings. A second request means that the
        // start failed, so the session starts again with its old settings.
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
        Box::new(Venue::recover(id, store, ids, Printer::new(show)))
    });
    let done = done.map_err(|error| one(error.to_string()))?;
    tell(&done);
    say_where(engine);
    let failed = done.failed.iter().map(|(id, error)| format!("\n{id} has failed: {error}"));
    let said = done.changes.to_string() + &failed.collect::<String>();
    Ok((done.settings, said))
}

/// Prints the changes and the failures of a reload.
pub(crate) fn tell(done: &Reloaded) {
    let has_failed = |id: &SessionId| done.failed.iter().any(|(failed, _)| failed == id);
    let mut changes = done.changes.clone();
    changes.added.retain(|id| !has_failed(id));
    changes.changed.retain(|(id, _)| !has_failed(id));
    if !changes.is_empty() || done.failed.is_empty() {
        changes.to_string().lines().for_each(|line| say(&format!("reload: {line}")));
    }
    for outcome in &done.ended {
        say(&format!("reload: {}", shown(outcome)));
    }
    let failed = done.failed.iter().map(|(id, error)| {
        let goes_on = done.settings.sessions.iter().any(|session| session.id() == *id);
        let was_there = done.changes.changed.iter().any(|(changed, _)| changed == id);
        match (goes_on, was_there) {
            (true, _) => format!("{id}: continues with its old settings: {error}"),
            (false, true) => format!(
                "{id}: stopped, because its new and its old settings both \
                                      failed: {error}"
            ),
            (false, false) => format!("{id}: not added: {error}"),
        }
    });
    complain(failed.collect::<Vec<_>>().iter().map(String::as_str));
}

fn is_orderly(outcome: &SessionOutcome) -> bool {
    matches!(outcome.outcome, Outcome::NotConnected | Outcome::Ended(Disconnect::LoggedOut))
}

fn shown(outcome: &SessionOutcome) -> String {
    let SessionOutcome { id, outcome, next_num_in, next_num_out, .. } = outcome;
    format!("{id}: {outcome}, next in {next_num_in}, next out {next_num_out}")
}

fn show(session: &SessionSettings, quiet: bool) -> Result<Show, String> {
    if quiet { Ok(Show::quiet()) } else { Show::new(session, "") }
}

fn venue(session: &SessionSettings, ids: Ids, quiet: bool) -> Result<Box<dyn Application>, String> {
    let printer = Printer::new(show(session, quiet)?);
    Ok(Box::new(Venue::recover(&session.id(), session.store_path(), ids, printer)))
}
