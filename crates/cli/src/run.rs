//! `transfix run`: a gateway without its own application. Rules in a file route messages between
//! sessions, programs at a Unix socket, and files.

use std::path::PathBuf;
use std::process::ExitCode;

use transfix::{Engine, Settings};
use transfix_gateway::{Gateway, Renewed, Routes};

use crate::input::failed;
use crate::not_started::NotStarted;
use crate::serve::{LOGOUT_TIME, RequestQueue, say_where, steer, tell};
use crate::show::say;
use crate::suits::Runner;
use crate::{administered, events};

/// Run the sessions of any settings file, and forward their messages by rules.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix run sessions.toml                             all sessions of the file
  transfix run sessions.toml --routes routes.toml
  transfix run sessions.toml --routes routes.toml --check      only reports errors

The first route whose conditions match a message forwards the message:
  [[route]]
  from = [\"FIX.4.4:GATE->DESK*\"]          identities as in `transfix admin`; * at the end
  msg_type = [\"NewOrderSingle\", \"F\"]     optional; default: all
  when = { Symbol = \"EU*\" }              all these fields must match; * at the end
  to = [\"FIX.4.4:GATE->VENUE\"]           the first session logged on; pick = \"all\": all
  set = { Account = \"HOUSE\" }            remove = [\"Text\"]
  [[socket]]
  name = \"desk\"                          to = [\"socket:desk\"] sends messages there
  path = \"desk.sock\"
  [[file]]
  name = \"reports\"                       to = [\"file:reports\"] writes them there
  path = \"reports.jsonl\"                 mode = \"read\" sends the content of the file
The page \"Gateway\" of the book describes all keys, and the protocol at a socket. On Ctrl-C or
SIGTERM, the program logs out all sessions and ends. On SIGHUP, it reads both files again.
Exit code: 0 all sessions logged out, 1 not started or a session did not log out in order, 2 wrong
usage, or files that cannot be read.")]
pub(crate) struct Args {
    /// Settings file with the sessions.
    settings: PathBuf,
    /// File with the routes, sockets and files. Default: routes.toml, if that file exists. Without
    /// routes the sessions run, but reject application messages.
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Only check both files and report errors.
    #[arg(long)]
    check: bool,
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

/// Reads and checks the settings and the routes, or returns all errors.
///
/// # Errors
/// Returns all errors of the settings, or else all errors of the routes.
fn read(args: &Args) -> Result<(Settings, Routes), Vec<String>> {
    let settings = Settings::load_or_all_errors(&args.settings);
    let mut settings =
        settings.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    transfix_gateway::prepare(&mut settings);
    if let Some(why) = Runner::Run.refuses(&args.settings, &settings) {
        return Err(vec![why]);
    }
    let usual = PathBuf::from(ROUTES);
    let path = args.routes.clone().or_else(|| usual.exists().then_some(usual));
    let routes = match path {
        Some(path) => Routes::read(&path, &settings)?,
        None => Routes::default(),
    };
    Ok((settings, routes))
}

/// Default name of the file with the routes, used if the file exists.
const ROUTES: &str = "routes.toml";

fn serve(args: &Args, settings: Settings, routes: Routes) -> Result<bool, NotStarted> {
    // Signals are caught before the engine starts, so that none is lost.
    let asked = RequestQueue::listen()?;
    events::open(settings.events.as_ref())?;
    administered::check(&args.settings, &settings)?;
    say(&routes.to_string());
    let gateway = Gateway::open(routes, &settings, say)?;
    let engine = gateway.start(&settings)?;
    let sources = gateway.begin(&engine.admin())?;
    let go_over = |engine: &mut Engine, from: &Settings| reload(args, engine, from, &gateway);
    let added = |session: &_| gateway.application_of_added(session);
    let orderly = steer(&args.settings, (engine, settings), asked, go_over, added);
    drop(sources);
    gateway.end();
    orderly
}

/// Reads the settings and the routes again, and applies the changes.
///
/// # Errors
/// Returns all errors of both files; then nothing has changed.
fn reload(
    args: &Args,
    engine: &mut Engine,
    from: &Settings,
    gateway: &Gateway,
) -> Result<(Settings, String), Vec<String>> {
    let (to, routes) = read(args)?;
    let done = gateway.reload(engine, (from, &to), routes, LOGOUT_TIME);
    let Renewed { engine: done, routes_changed, .. } = done.map_err(|why| vec![why])?;
    tell(&done);
    say_where(engine);
    let mut said = done.changes.to_string();
    for (id, error) in &done.failed {
        said += &format!("\n{id} has failed: {error}");
        if gateway.routes().name(id) {
            said += "; routes use this session: messages cannot be passed to it until it runs";
        }
    }
    if routes_changed {
        say("reload: the routes were changed");
        said += "\nthe routes were changed";
    }
    Ok((done.settings, said))
}
