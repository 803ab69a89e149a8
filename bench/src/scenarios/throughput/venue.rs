//! This engine as the side under test: an acceptor whose sessions share one pool thread. The
//! acceptor validates each order, stores the order and its report, and sends the report.

use std::path::Path;
use std::time::Duration;

use transfix::{BeginString, Durability, Engine, Role, SessionId, SessionSettings, Settings};

use super::super::s1::{Receiver, ReportForm};
use super::orders::{VENUE, client};

/// Prints the listening address, and serves until standard input ends.
pub(super) fn run(
    (address, sessions): (&str, usize),
    durability: Durability,
    store: &Path,
    cpu: Option<usize>,
) -> Result<(), String> {
    let mut settings = Settings::default();
    settings.engine.workers = 1;
    settings.engine.cpus = cpu.into_iter().collect();
    // All connections come from one address, so the limit of pending connections must allow all
    // sessions.
    settings.engine.pending_connections_max = sessions.max(1_000);
    settings.engine.pending_per_address_max = sessions.max(1_000);
    for n in 0..sessions {
        let id = SessionId::new(BeginString::Fix42, VENUE, &client(n));
        let mut session = SessionSettings::new(Role::Acceptor, &id, address);
        session.store.durability = durability;
        session.store.store_dir = store.to_owned();
        settings.sessions.push(session);
    }
    let application = |_: &SessionId| -> Box<dyn transfix::Application> {
        Box::new(Receiver::new(true, ReportForm::Valid))
    };
    let engine = Engine::start(&settings, application).map_err(|error| error.to_string())?;
    println!("{}", engine.listening()[0]);
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    engine.stop(Duration::ZERO);
    Ok(())
}
