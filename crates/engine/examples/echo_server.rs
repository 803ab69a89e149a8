//! A server that creates a session for every counterparty that logs on, and echoes each application
//! message. The server can require a user name and a password.
//!
//! ```text
//! cargo run -p transfix --example echo_server [ADDRESS] [USER PASSWORD]    default 127.0.0.1:3000
//! cargo run --release -- connect crates/cli/examples/client.toml           its address changed
//! ```
#![allow(clippy::print_stdout, reason = "an example talks to the one who runs it")]

use std::error::Error;
use std::time::Duration;

use transfix::{
    Application, BeginString, BusinessReject, Durability, Engine, EngineError, Message,
    ResetPolicy, Role, Secret, SessionEvent, SessionId, SessionNotice, SessionRef, SessionSettings,
    SessionView, Settings,
};

/// The application of one session; echoes application messages.
pub(crate) struct Echo;

impl Application for Echo {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(session.send(message.msg_type(), |copy| _ = copy.copy(message)).map(drop)?)
    }

    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            println!("{} is logged on", session.id());
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, session: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            println!("{}: {end}", session.id());
        }
    }
}

/// Returns the settings: SERVER listens at `address` for any counterparty with FIX 4.4. If `user`
/// is given, the Logon(A) must contain this Username(553) and Password(554).
pub(crate) fn settings(address: &str, user: Option<(&str, &str)>) -> Settings {
    // The engine creates a separate session for each counterparty.
    let id = SessionId::new(BeginString::Fix44, "SERVER", "*");
    let mut session = SessionSettings::new(Role::Acceptor, &id, address);
    session.store.durability = Durability::Memory;
    session.protocol.reset_on = ResetPolicy::LOGON;
    if let Some((name, password)) = user {
        session.logon.expected_username = Some(name.to_owned());
        session.logon.expected_password = Some(Secret::new(password.to_owned()));
    }
    Settings::of(session)
}

/// Starts the server, which admits every counterparty.
pub(crate) fn start(settings: &Settings) -> Result<Engine, EngineError> {
    let admit = |_: &SessionId| Some(Box::new(Echo) as Box<dyn Application>);
    Engine::builder(settings).admit(admit).start(|_| Box::new(Echo))
}

fn main() -> Result<(), Box<dyn Error>> {
    // The engine logs through `tracing`; without a subscriber the events are lost.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let address = args.first().map_or("127.0.0.1:3000", String::as_str);
    let user = match &args[..] {
        [_, name, password] => Some((&**name, &**password)),
        _ => None,
    };
    let engine = start(&settings(address, user))?;
    println!("listening at {}; enter a line to stop", engine.listening()[0]);
    std::io::stdin().read_line(&mut String::new())?;
    engine.stop(Duration::from_secs(5));
    Ok(())
}
