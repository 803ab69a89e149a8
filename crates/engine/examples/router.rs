//! A router with one session to the client and one to the venue. The router forwards all messages
//! in both directions.
//!
//! If the other side is not logged on, a message is answered with a BusinessMessageReject(j),
//! BusinessRejectReason(380) 4. In three terminals:
//!
//! ```text
//! cargo run -p transfix --example acceptor
//! cargo run -p transfix --example router [LISTEN] [VENUE]    127.0.0.1:9881 127.0.0.1:9880
//! cargo run -p transfix --example initiator 127.0.0.1:9881 ROUTER
//! ```
#![allow(clippy::print_stdout, reason = "an example talks to the one who runs it")]

use std::error::Error;
use std::time::Duration;

use transfix::{
    Application, BeginString, BusinessReject, Durability, Engine, Message, ResetPolicy, Role,
    SendError, SessionEvent, SessionId, SessionNotice, SessionRef, SessionSettings, SessionView,
    Settings,
};

/// The application of one side: forwards every message to the other side.
pub(crate) struct Passage {
    pub(crate) to: SessionId,
}

impl Application for Passage {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let other = session.other(&self.to).ok_or_else(BusinessReject::not_available)?;
        match other.send(message.msg_type(), |copy| _ = copy.copy(message)) {
            Ok(_) => Ok(()),
            Err(SendError::Misuse(misuse)) => Err(BusinessReject::other(misuse.to_string())),
            Err(_) => Err(BusinessReject::not_available()),
        }
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

/// Returns the settings: one session listens at `listen` for CLIENT, and the other connects to
/// VENUE at `venue`.
pub(crate) fn settings(listen: &str, venue: &str) -> Settings {
    let session = |role, counterparty, address| {
        let id = SessionId::new(BeginString::Fix44, "ROUTER", counterparty);
        let mut session = SessionSettings::new(role, &id, address);
        session.store.durability = Durability::Memory;
        session.protocol.reset_on = ResetPolicy::LOGON;
        session
    };
    let sessions =
        vec![session(Role::Acceptor, "CLIENT", listen), session(Role::Initiator, "VENUE", venue)];
    Settings { sessions, ..Settings::default() }
}

/// Starts the router. Each application gets the identity of the session to which it forwards.
pub(crate) fn start(settings: &Settings) -> Result<Engine, transfix::EngineError> {
    let (client, venue) = (settings.sessions[0].id(), settings.sessions[1].id());
    Engine::start(settings, |id| {
        let to = if *id == client { &venue } else { &client };
        Box::new(Passage { to: to.clone() })
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    // The engine logs through `tracing`; without a subscriber the events are lost.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut args = std::env::args().skip(1);
    let listen = args.next().unwrap_or_else(|| "127.0.0.1:9881".to_owned());
    let venue = args.next().unwrap_or_else(|| "127.0.0.1:9880".to_owned());
    let engine = start(&settings(&listen, &venue))?;
    println!("listening at {}; enter a line to stop", engine.listening()[0]);
    std::io::stdin().read_line(&mut String::new())?;
    engine.stop(Duration::from_secs(5));
    Ok(())
}
