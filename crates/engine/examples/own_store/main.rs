//! A venue with its own implementation of a store: a plain file to which each commit appends one
//! batch.
//!
//! Two processes may use the file in turn: with `refresh_on_logon` each continues from the other's
//! state. A production store also needs checksums and syncs.
//!
//! ```text
//! cargo run -p transfix --example own_store [ADDRESS]    default 127.0.0.1:9880
//! ```
#![allow(clippy::print_stdout, reason = "an example talks to the one who runs it")]

mod plain;

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use plain::PlainStore;
use transfix::{
    Application, BeginString, BusinessReject, Engine, EngineError, Message, Role, SessionId,
    SessionRef, SessionSettings, Settings,
};

/// The application of the session: accepts orders and sends no answers.
struct Venue;

impl Application for Venue {
    fn on_message(
        &mut self,
        order: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        println!("{}: {} from the counterparty", session.id(), order.msg_type());
        Ok(())
    }
}

fn start(address: &str, dir: &Path) -> Result<Engine, EngineError> {
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    let mut session = SessionSettings::new(Role::Acceptor, &id, address);
    session.store.refresh_on_logon = true;
    let dir = dir.to_path_buf();
    Engine::builder(&Settings::of(session))
        .stores(move |session, now_ns| {
            let name = format!("{}.journal", session.target_comp_id);
            Ok(Some(Box::new(PlainStore::open(&dir.join(name), now_ns)?)))
        })
        .start(|_| Box::new(Venue))
}

fn main() -> Result<(), Box<dyn Error>> {
    // The engine logs through `tracing`; without a subscriber the events are lost.
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9880".to_owned());
    let engine = start(&address, Path::new("."))?;
    println!("listening at {}; enter a line to stop", engine.listening()[0]);
    std::io::stdin().read_line(&mut String::new())?;
    engine.stop(Duration::from_secs(5));
    Ok(())
}
