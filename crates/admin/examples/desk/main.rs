//! A venue for trying out the console: sessions that trade, and sessions with problems.
//!
//! ```text
//! cargo run -p transfix-admin --example desk -- --sessions 40
//! ```
//!
//! The program prints the address and the password of the console. It ends when its standard input
//! ends, or when an administrator stops it in the console. `cargo xtask console` runs a browser
//! against the program.
#![allow(clippy::print_stdout, reason = "an example talks to the one who runs it")]

mod counterparties;
mod line;
mod venue;

use std::convert::Infallible;
use std::error::Error;
use std::io::{Read as _, stdin};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use transfix::{AdminSettings, Engine, EngineAction, Request, Settings};
use transfix_admin::users::{Role, Users};
use transfix_admin::{AdminServer, EventFilter, EventRing, Extras, FleetStatus};
use transfix_testkit::temp::TempDir;

use crate::counterparties::Counterparties;
use crate::venue::Venue;

/// The password of the three users viewer, operator and administrator.
const PASSWORD: &str = "correct horse battery";
/// The time limit for sessions to log out when an engine stops.
const LOGOUT_TIME: Duration = Duration::from_secs(1);

/// Events for which the main thread waits.
enum News {
    Asked(Request),
    InputEnded,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => 40,
        (Some("--sessions"), Some(count)) => count.parse()?,
        _ => return Err("usage: desk [--sessions N]".into()),
    };
    let events = EventRing::default();
    tracing_subscriber::registry().with(events.layer()).init();
    let dir = TempDir::new();
    let broker = counterparties::broker()?;
    let file = venue::settings(dir.path(), count, &broker.listening()[0].to_string())?;
    let mut settings = Settings::load(&file)?;
    let mut venue = Engine::start(&settings, |_| Box::new(Venue::default()))?;
    let (sender, news) = channel();
    take_requests(&venue, sender.clone());
    let server = console(&venue, dir.path(), &file, events)?;
    let counterparties = Counterparties::start(&venue, count)?;
    println!("console at {}", server.url());
    println!("log in as viewer, operator or administrator, with the password: {PASSWORD}");
    thread::spawn(move || {
        let _ = stdin().read_to_end(&mut Vec::new());
        let _ = sender.send(News::InputEnded);
    });
    while let Ok(News::Asked(request)) = news.recv() {
        match &request.action {
            EngineAction::Reload => {
                let done = reload(&mut venue, &mut settings, &file);
                request.answer(done);
            }
            EngineAction::Stop => {
                request.answer(Ok("all sessions are logged out".to_owned()));
                break;
            }
            EngineAction::Remove { id, text } => {
                let (id, done) = (id.clone(), venue.remove(id, text, LOGOUT_TIME));
                settings.sessions.retain(|session| session.id() != id);
                request.answer(match done {
                    Ok(_) => Ok(format!("{id}: removed")),
                    Err(error) => Err(error.to_string()),
                });
            }
            _ => request.answer(Err("the desk has only reload, remove and stop".to_owned())),
        }
    }
    counterparties.stop();
    drop(server);
    venue.stop(LOGOUT_TIME);
    broker.stop(LOGOUT_TIME);
    Ok(())
}

fn take_requests(venue: &Engine, to: Sender<News>) {
    venue.admin().take_requests(move |request| {
        // During shutdown the main thread receives no requests; the sender of a request gets an
        // error.
        let _ = to.send(News::Asked(request));
    });
}

fn reload(venue: &mut Engine, settings: &mut Settings, file: &Path) -> Result<String, String> {
    let to = Settings::load(file).map_err(|error| error.to_string())?;
    let done = venue.reload(settings, &to, LOGOUT_TIME, |_| Box::new(Venue::default()));
    *settings = done.map_err(|error| error.to_string())?.settings;
    Ok("the settings file is in force".to_owned())
}

fn console(
    venue: &Engine,
    dir: &Path,
    file: &Path,
    events: EventRing,
) -> Result<AdminServer, Box<dyn Error>> {
    let mut users = Users::default();
    for role in [Role::Viewer, Role::Operator, Role::Administrator] {
        users.set_user(role.as_str(), role, PASSWORD)?;
    }
    let users_file = dir.join("users.toml");
    users.save(&users_file)?;
    let address = "127.0.0.1:0".to_owned();
    let admin = AdminSettings { address, users_file, ..AdminSettings::default() };
    let mut extras = Extras::new(events);
    extras.filter = Some(EventFilter::new("info".parse()?));
    extras.settings_file = Some(file.to_owned());
    extras.audit_file = Some(dir.join("audit.jsonl"));
    extras.fleet = Some(FleetStatus::new(|| Ok::<_, Infallible>(gateways())));
    Ok(AdminServer::start(&admin, &venue.admin(), extras)?)
}

/// Returns a fleet for the page of the console, because no broker runs here.
fn gateways() -> Vec<Value> {
    let session = |number: usize, is_owner: bool| {
        json!({
            "session": format!("FIX.4.4:VENUE->FIRM{number:04}"),
            "is_owner": is_owner,
            "is_logged_on": is_owner && number != 7,
            "next_num_in": 100 + number,
            "next_num_out": 200 + number,
        })
    };
    let gateway = |name: &str, is_drained: bool, rest: usize| {
        let sessions: Vec<_> = (1..40).map(|n| session(n, !is_drained && n % 3 == rest)).collect();
        json!({ "gateway": name, "is_drained": is_drained, "sessions": sessions })
    };
    vec![gateway("gw1", false, 0), gateway("gw2", false, 1), gateway("gw3", true, 2)]
}
