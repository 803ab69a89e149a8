//! `transfix run`: a gateway without an application of its own. Messages go from session to
//! session by the rules of a file, to programs of any language by a Unix socket, into files and out
//! of them.

mod asked;
mod bridge;
mod choices;
mod copy;
mod files;
mod held;
mod line;
mod mark;
mod origins;
mod port;
mod program;
mod routes;
mod sending;
mod stored;
mod told;
mod written;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use transfix::{Admin, Application, Engine, SessionSettings, Settings, Tag};

use crate::input::failed;
use crate::not_started::NotStarted;
use crate::serve::{Asked, LOGOUT_TIME, say_where, steer, tell};
use crate::show::say;
use crate::suits::Runner;
use crate::{administered, events};
use bridge::Bridge;
use choices::Choices;
use files::{Drains, Sources};
use held::Held;
use origins::Origins;
use port::Ports;
use routes::Routes;
use told::Told;

/// Run the sessions of any settings file, also a migrated one; rules can pass messages on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix run sessions.toml                             whatever sessions the file has
  transfix run sessions.toml --routes routes.toml
  transfix run sessions.toml --routes routes.toml --check      says what is wrong, and ends

The routes are read in their order; the first that fits a message takes it:
  [[route]]
  from = [\"FIX.4.4:GATE->DESK*\"]          sessions, as `transfix admin` shows them; * at the end
  msg_type = [\"NewOrderSingle\", \"F\"]     left out: all
  when = { Symbol = \"EU*\" }              all of these fields; * at the end
  to = [\"FIX.4.4:GATE->VENUE\"]           the first that is logged on; pick = \"all\" for all
  set = { Account = \"HOUSE\" }            remove = [\"Text\"]
  [[socket]]
  name = \"desk\"                          to = [\"socket:desk\"] sends messages there
  path = \"desk.sock\"
  [[file]]
  name = \"reports\"                       to = [\"file:reports\"] writes them there
  path = \"reports.jsonl\"                 mode = \"read\": what is in it is sent
The page \"Gateway\" of the book has all keys, and what programs speak at a socket.
Ends on Ctrl-C or SIGTERM: logs out everywhere. On SIGHUP it reads both files again.
Exit code: 0 all sessions logged out, 1 not started or a session did not end in order,
2 wrong usage, or files that cannot be read.")]
pub(crate) struct Args {
    /// Settings file with the sessions.
    settings: PathBuf,
    /// File of the routes, sockets and files. Default: routes.toml, if it is there; without any
    /// route the sessions run, and messages of the application are refused.
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Only say whether both files are right.
    #[arg(long)]
    check: bool,
}

/// Threads that pass messages on, if the settings do not say more.
const APPLICATION_THREADS: usize = 2;

/// The rules in force.
type InForce = Arc<RwLock<Arc<Routes>>>;

/// The state that all sessions of a gateway share. A clone is the same.
#[derive(Clone)]
struct Gateway {
    routes: InForce,
    ports: Ports,
    drains: Drains,
    origins: Origins,
    /// For whom messages are.
    choices: Choices,
    /// Fields that sessions add to what they send.
    added: Arc<BTreeSet<Tag>>,
    /// Messages that can neither be passed on nor be refused.
    held: Held,
    told: Told,
    /// As soon as the engine runs.
    admin: Arc<OnceLock<Admin>>,
}

impl Gateway {
    /// Opens the sockets and files.
    fn open(routes: Routes, settings: &Settings) -> Result<Self, String> {
        // Before the engine opens the stores: nothing of this start is among what they have.
        let (choices, held) = (Choices::read(settings)?, Held::begin()?);
        let added = Arc::new(stored::added_tags(settings));
        let (origins, told) = (Origins::default(), Told::begin()?);
        let drains = Drains::open(&routes.files)?;
        let ports = Ports::open(&routes.sockets, &origins, &told)?;
        let routes = Arc::new(RwLock::new(Arc::new(routes)));
        let admin = Arc::default();
        Ok(Self { routes, ports, drains, origins, choices, added, held, told, admin })
    }

    fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn put_in_force(&self, routes: Arc<Routes>) {
        *self.routes.write().unwrap_or_else(PoisonError::into_inner) = routes;
    }

    fn bridge(&self) -> Box<dyn Application> {
        Box::new(Bridge::new(self))
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let (settings, routes) = match read(args) {
        Ok(read) => read,
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

/// Reads the settings and the routes.
///
/// # Errors
/// All that is wrong with the settings, or else all that is wrong with the routes.
fn read(args: &Args) -> Result<(Settings, Routes), Vec<String>> {
    let settings = Settings::load_or_all_errors(&args.settings);
    let mut settings =
        settings.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    // Messages are passed on in threads that hold no session: so one session may wait for another.
    let threads = &mut settings.engine.application_threads;
    *threads = (*threads).max(APPLICATION_THREADS);
    if let Some(why) = Runner::Run.refuses(&args.settings, &settings) {
        return Err(vec![why]);
    }
    let usual = PathBuf::from(ROUTES);
    let path = args.routes.clone().or_else(|| usual.exists().then_some(usual));
    let routes = match path {
        Some(path) => written::read(&path, &settings)?,
        None => Routes::default(),
    };
    Ok((settings, routes))
}

/// The file of routes that is taken if it is there.
const ROUTES: &str = "routes.toml";

fn serve(args: &Args, settings: Settings, routes: Routes) -> Result<bool, NotStarted> {
    // Before the engine starts: no signal is lost.
    let asked = Asked::listen()?;
    events::open(settings.events.as_ref())?;
    administered::check(&args.settings, &settings)?;
    say(&routes.to_string());
    let gateway = Gateway::open(routes, &settings)?;
    let admitted = gateway.clone();
    let engine = Engine::builder(&settings)
        .admit(move |_| Some(admitted.bridge()))
        .start(|_| gateway.bridge())?;
    let admin = engine.admin();
    // It is set once.
    let _ = gateway.admin.set(admin.clone());
    gateway.ports.begin(&admin)?;
    let sources = Sources::begin(&gateway.routes().files, &gateway.origins, &admin)?;
    let go_over = |engine: &mut Engine, from: &Settings| reload(args, engine, from, &gateway);
    let added = |session: &SessionSettings| {
        gateway.routes().check_added(session)?;
        Ok(gateway.bridge())
    };
    let orderly = steer(&args.settings, (engine, settings), asked, go_over, added);
    drop(sources);
    gateway.held.end();
    orderly
}

/// Goes over to what both files say now.
///
/// # Errors
/// All that is wrong with them; then nothing has changed.
fn reload(
    args: &Args,
    engine: &mut Engine,
    from: &Settings,
    gateway: &Gateway,
) -> Result<(Settings, String), Vec<String>> {
    let (to, routes) = read(args)?;
    let before = gateway.routes();
    if routes == Routes::default() && *before != routes {
        let why = "the file of routes is missing or has no route: the routes of before stay";
        return Err(vec![why.into()]);
    }
    if !before.same_places(&routes) {
        let why = "sockets and files are opened at the start alone: start the gateway anew";
        return Err(vec![why.into()]);
    }
    let (changed, routes) = (*before != routes, Arc::new(routes));
    // New sessions begin under the new routes.
    gateway.put_in_force(Arc::clone(&routes));
    let done = engine.reload(from, &to, LOGOUT_TIME, |_| gateway.bridge());
    let done = done.map_err(|error| {
        gateway.put_in_force(before);
        vec![error.to_string()]
    })?;
    tell(&done);
    say_where(engine);
    let mut said = done.changes.to_string();
    for (id, error) in &done.failed {
        said += &format!("\n{id} has failed: {error}");
        if routes.name(id) {
            said += "; routes name it: their messages are not available until it is there";
        }
    }
    if changed {
        say("reload: the routes are new");
        said += "\nthe routes are new";
    }
    Ok((done.settings, said))
}
