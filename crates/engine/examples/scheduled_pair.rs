//! A server and a client that are connected only at scheduled times. Both sides have the same
//! windows, in cron form. The client connects when a window opens and logs out when the window
//! closes.
//!
//! By default, the window is open for two minutes of every four. In two terminals:
//!
//! ```text
//! cargo run -p transfix --example scheduled_pair server 127.0.0.1:9895
//! cargo run -p transfix --example scheduled_pair client 127.0.0.1:9895
//! cargo run -p transfix --example scheduled_pair server 0.0.0.0:9895 \
//!     '0 8 * * mon-fri' '30 16 * * mon-fri' Europe/London
//! ```
//!
//! `transfix schedule` prints the opening and closing times that follow from a settings file.
#![allow(clippy::print_stdout, reason = "an example talks to the one who runs it")]

use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use transfix::schedule::{ScheduleSettings, WindowSettings};
use transfix::{
    Application, BeginString, BusinessReject, Durability, Engine, EngineError, Message, Role,
    SessionEvent, SessionId, SessionNotice, SessionRef, SessionSettings, SessionView, Settings,
};

/// The default opening time, closing time and time zone.
pub(crate) const HOURS: [&str; 3] = ["*/4 * * * *", "2-58/4 * * * *", "UTC"];

/// Reports when the session logs on and when its connection ends.
struct Watcher {
    events: Sender<String>,
}

impl Application for Watcher {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Err(BusinessReject::unsupported())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            let (next_in, next_out) = session.next_numbers();
            // The send fails only at the end of the program, when the receiver no longer exists.
            let _ = self.events.send(format!("logged on; next numbers {next_in} and {next_out}"));
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            let _ = self.events.send(format!("disconnected: {end}"));
        }
    }
}

/// Returns the settings of one side. The cron texts `open` and `close` determine its window in the
/// time zone `zone`.
pub(crate) fn settings(role: Role, address: &str, [open, close, zone]: [&str; 3]) -> Settings {
    let (sender, target) = match role {
        Role::Acceptor => ("SERVER", "CLIENT"),
        Role::Initiator => ("CLIENT", "SERVER"),
    };
    let id = SessionId::new(BeginString::Fix44, sender, target);
    let mut session = SessionSettings::new(role, &id, address);
    session.store.durability = Durability::Memory;
    let window = WindowSettings {
        open: Some(open.to_owned()),
        close: Some(close.to_owned()),
        ..WindowSettings::default()
    };
    let schedule = ScheduleSettings::in_zone(zone);
    session.schedule = Some(ScheduleSettings { windows: vec![window], ..schedule });
    Settings::of(session)
}

/// Starts one side. The returned receiver gets the events of the session as lines of text.
pub(crate) fn start(settings: &Settings) -> Result<(Engine, Receiver<String>), EngineError> {
    let (sender, events) = channel();
    let engine = Engine::start(settings, |_| Box::new(Watcher { events: sender.clone() }))?;
    Ok((engine, events))
}

fn main() -> Result<(), Box<dyn Error>> {
    // The engine logs through `tracing`; without a subscriber the events are lost.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (role, address, rest) = match args[..] {
        ["server", address, ref rest @ ..] => (Role::Acceptor, address, rest),
        ["client", address, ref rest @ ..] => (Role::Initiator, address, rest),
        _ => return Err("usage: server|client ADDRESS [OPEN CLOSE [ZONE]]".into()),
    };
    let hours = match *rest {
        [] => HOURS,
        [open, close] => [open, close, "UTC"],
        [open, close, zone] => [open, close, zone],
        _ => return Err("OPEN and CLOSE belong together".into()),
    };
    let (engine, events) = start(&settings(role, address, hours))?;
    println!("enter a line to stop");
    std::thread::spawn(move || events.iter().for_each(|event| println!("{event}")));
    std::io::stdin().read_line(&mut String::new())?;
    engine.stop(Duration::from_secs(5));
    Ok(())
}
