//! `transfix run`: a gateway without an application of its own. Messages go from session to session
//! by the rules of a file, and to programs of any language by a Unix socket.

mod bridge;
mod line;
mod port;
mod routes;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, PoisonError, RwLock};

use transfix::{Application, Engine, SessionId, SessionSettings, Settings};

use crate::events;
use crate::input::failed;
use crate::not_started::NotStarted;
use crate::serve::{Asked, LOGOUT_MS, say_where, steer, tell};
use crate::show::say;
use bridge::Bridge;
use port::Ports;
use routes::Routes;

/// Run a gateway: sessions of a settings file, between which rules pass messages on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix run sessions.toml --routes routes.toml
  transfix run sessions.toml --routes routes.toml --check      says what is wrong, and ends

The routes are read in their order; the first that fits a message takes it:
  [[route]]
  from = [\"FIX.4.4:GATE->DESK*\"]          sessions, as `transfix admin` shows them; * at the end
  msg_type = [\"NewOrderSingle\", \"F\"]     left out: all
  when = { Symbol = \"EU*\" }              all of these fields; * at the end
  to = [\"FIX.4.4:GATE->VENUE\"]           the first that is logged on; pick = \"all\" for all
  [[socket]]
  name = \"desk\"                          to = [\"socket:desk\"] sends messages there
  path = \"desk.sock\"
The page \"Gateway\" of the book says what programs speak at a socket.
Ends on Ctrl-C or SIGTERM: logs out everywhere. On SIGHUP it reads both files again.
Exit code: 0 all sessions logged out, 1 not started or a session did not end in order,
2 wrong usage, or files that cannot be read.")]
pub(crate) struct Args {
    /// Settings file with the sessions.
    settings: PathBuf,
    /// File of the routes and sockets.
    #[arg(long, value_name = "FILE", default_value = "routes.toml")]
    routes: PathBuf,
    /// Only say whether both files are right.
    #[arg(long)]
    check: bool,
}

/// Threads that pass messages on, if the settings do not say more.
const APPLICATION_THREADS: usize = 2;

/// The rules in force.
type InForce = Arc<RwLock<Arc<Routes>>>;

pub(crate) fn run(args: &Args) -> ExitCode {
    let settings = match Settings::load(&args.settings) {
        Ok(settings) => with_threads(settings),
        Err(error) => return failed(&error.to_string()),
    };
    let routes = match Routes::read(&args.routes, &settings) {
        Ok(routes) => routes,
        Err(errors) => return failed(&errors.join("\n")),
    };
    if args.check {
        say(&routes.to_string());
        return ExitCode::SUCCESS;
    }
    match serve(args, settings, routes) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => why.exit("run"),
    }
}

/// Messages are passed on in threads that hold no session: so one session may wait for another.
fn with_threads(mut settings: Settings) -> Settings {
    let threads = &mut settings.engine.application_threads;
    *threads = (*threads).max(APPLICATION_THREADS);
    settings
}

fn serve(args: &Args, settings: Settings, routes: Routes) -> Result<bool, NotStarted> {
    // Before the engine starts: no signal is lost.
    let asked = Asked::listen()?;
    events::open(settings.events.as_ref())?;
    let ports = Ports::open(routes.sockets())?;
    say(&routes.to_string());
    let in_force: InForce = Arc::new(RwLock::new(Arc::new(routes)));
    let bridge = |_: &SessionId| Box::new(Bridge::new(&in_force, &ports)) as Box<_>;
    let engine = Engine::start(&settings, bridge)?;
    ports.begin(engine.admin())?;
    let go_over = |engine: &mut Engine, from: &Settings| {
        reload((&args.settings, &args.routes), engine, from, (&in_force, &ports))
    };
    // It is no target of a route: the file of routes does not know it.
    let added = |session: &SessionSettings| {
        let routes = Arc::clone(&in_force.read().unwrap_or_else(PoisonError::into_inner));
        routes.check_added(&session.id())?;
        Ok(Box::new(Bridge::new(&in_force, &ports)) as Box<dyn Application>)
    };
    steer(&args.settings, (engine, settings), asked, go_over, added)
}

/// Goes over to what both files say now.
///
/// # Errors
/// All that is wrong with them; then nothing has changed.
fn reload(
    (settings, routes): (&Path, &Path),
    engine: &mut Engine,
    from: &Settings,
    (in_force, ports): (&InForce, &Ports),
) -> Result<(Settings, String), Vec<String>> {
    let to = Settings::load_or_all_errors(settings);
    let to = to.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let to = with_threads(to);
    let routes = Routes::read(routes, &to)?;
    let now = || Arc::clone(&in_force.read().unwrap_or_else(PoisonError::into_inner));
    if now().sockets() != routes.sockets() {
        return Err(vec!["sockets are opened at the start alone: start the gateway anew".into()]);
    }
    let application = |_: &SessionId| Box::new(Bridge::new(in_force, ports)) as Box<_>;
    let done = engine.reload(from, &to, LOGOUT_MS, application);
    let done = done.map_err(|error| vec![error.to_string()])?;
    tell(&done);
    say_where(engine);
    let changed = *now() != routes;
    *in_force.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(routes);
    let failed = done.failed.iter().map(|(id, error)| format!("\n{id} has failed: {error}"));
    let mut said = done.changes.to_string() + &failed.collect::<String>();
    if changed {
        say("reload: the routes are new");
        said += "\nthe routes are new";
    }
    Ok((done.settings, said))
}
