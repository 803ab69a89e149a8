//! Stores that cannot be opened at the start, stores of other sessions, and system limits.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use std::{env, fs};

use rustix::process::{Resource, Rlimit, setrlimit};
use transfix::{
    Application, BeginString, BusinessReject, Durability, Engine, EngineError, Message, Offline,
    Role, SendOptions, SessionEvent, SessionId, SessionRef, SessionSettings, Settings, tag,
};
use transfix_store::{FileStore, survey};
use transfix_testkit::temp::TempDir;

use crate::LONG;

/// An application that reports each logon to the test.
struct Teller(Sender<String>);

impl Application for Teller {
    fn on_event(&mut self, event: SessionEvent<'_>, session: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            self.0.send(session.id().target_comp_id.to_string()).unwrap_or_default();
        }
    }

    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }
}

const CLIENTS: [&str; 2] = ["CLIENT", "OTHER"];

fn venue(dir: &Path) -> Settings {
    let mut sessions = CLIENTS.map(|client| {
        let id = SessionId::new(BeginString::Fix44, "VENUE", client);
        let mut session = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
        session.store.store_dir = dir.to_path_buf();
        session
    });
    let [first, second] = &mut sessions;
    let mut settings = Settings::of(first.clone());
    settings.sessions.push(second.clone());
    settings
}

fn clients(address: &str, told: &Sender<String>) -> Engine {
    let mut sessions = CLIENTS.map(|client| {
        let id = SessionId::new(BeginString::Fix44, client, "VENUE");
        let mut session = SessionSettings::new(Role::Initiator, &id, address);
        session.store.durability = Durability::Memory;
        session.socket.reconnect_interval = Duration::from_millis(50);
        session
    });
    let [first, second] = &mut sessions;
    let mut settings = Settings::of(first.clone());
    settings.sessions.push(second.clone());
    Engine::start(&settings, |_| Box::new(Teller(told.clone()))).unwrap()
}

fn start(settings: &Settings, told: &Sender<String>) -> Result<Engine, EngineError> {
    Engine::start(settings, |_| Box::new(Teller(told.clone())))
}

/// Creates the stores and damages the store of this client.
fn damaged(dir: &Path, client: &str) -> std::path::PathBuf {
    let (told, _) = channel();
    start(&venue(dir), &told).unwrap().stop(Duration::ZERO);
    let store = dir.join(format!("FIX.4.4-VENUE-{client}"));
    let segment = store.join("00000000.seg");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[40] ^= 1;
    fs::write(&segment, bytes).unwrap();
    store
}

#[test]
fn a_damaged_store_keeps_its_session_down_alone_until_it_is_repaired() {
    let dir = TempDir::new();
    let store = damaged(dir.path(), "OTHER");
    let (told, logons) = channel();
    let engine = start(&venue(dir.path()), &told).unwrap();
    let failures = || engine.sessions().map(|s| s.store_failure()).collect::<Vec<_>>();
    let [None, Some(why)] = &failures()[..] else { panic!("{:?}", failures()) };
    assert!(why.contains("unsound segment header; `transfix store verify"), "{why}");
    let (theirs, _) = channel();
    let clients = clients(&engine.listening()[0].to_string(), &theirs);
    assert_eq!(logons.recv_timeout(LONG).unwrap(), "CLIENT");
    let repaired = dir.path().join("repaired");
    FileStore::repair(&store, &repaired, None).unwrap();
    fs::rename(&store, dir.path().join("damaged")).unwrap();
    fs::rename(&repaired, &store).unwrap();
    assert_eq!(logons.recv_timeout(LONG).unwrap(), "OTHER");
    assert_eq!(failures(), [None, None]);
    drop(clients);
    engine.stop(Duration::ZERO);
    assert_eq!(survey(&store).unwrap().session, "FIX.4.4-VENUE-OTHER");
}

#[test]
fn an_engine_without_a_single_store_does_not_start() {
    let dir = TempDir::new();
    for client in CLIENTS {
        damaged(dir.path(), client);
        let (told, _) = channel();
        match (client, start(&venue(dir.path()), &told)) {
            ("CLIENT", Ok(engine)) => drop(engine.stop(Duration::ZERO)),
            ("OTHER", Err(EngineError::Store { id, .. })) => {
                assert_eq!(id.target_comp_id.to_string(), "CLIENT");
            }
            (_, started) => panic!("{client}: {:?}", started.err()),
        }
        // In the second round, both stores are damaged.
        let sound = dir.path().join("FIX.4.4-VENUE-CLIENT/00000000.seg");
        assert!(sound.exists());
    }
}

#[test]
fn the_store_of_another_session_is_not_taken() {
    let dir = TempDir::new();
    let (told, _) = channel();
    start(&venue(dir.path()), &told).unwrap().stop(Duration::ZERO);
    let [own, other] = CLIENTS.map(|client| dir.path().join(format!("FIX.4.4-VENUE-{client}")));
    fs::rename(&own, dir.path().join("away")).unwrap();
    fs::rename(&other, &own).unwrap();
    let engine = start(&venue(dir.path()), &told).unwrap();
    let why = engine.sessions().next().unwrap().store_failure().unwrap();
    assert!(why.contains("belongs to the session FIX.4.4-VENUE-OTHER, not to"), "{why}");
    assert!(engine.sessions().nth(1).unwrap().store_failure().is_none(), "a new one was made");
}

const DIR: &str = "TRANSFIX_LIMITED_STORE";

/// The child process: stores messages until a file would exceed the system's size limit. Does
/// nothing if the test program was started normally.
#[test]
fn child_with_a_limit() {
    let Some(dir) = env::var_os(DIR) else { return };
    let bytes = Some(200 << 10);
    setrlimit(Resource::Fsize, Rlimit { current: bytes, maximum: bytes }).unwrap();
    let mut settings = venue(dir.as_ref());
    settings.sessions.truncate(1);
    settings.sessions[0].queue.offline = Offline::Store;
    let (told, _) = channel();
    let engine = start(&settings, &told).unwrap();
    let session = engine.sessions().next().unwrap();
    let text = "x".repeat(60_000);
    let stored = || SendOptions { stored: true, ..SendOptions::default() };
    let send = || session.send_with(stored(), "B", |news| _ = news.str(tag::TEXT, &text));
    let sent = (0..60).find(|_| send().is_err());
    assert!(sent.is_some_and(|sent| sent > 0), "{sent:?}");
    println!("refused: {}", session.store_failure().unwrap());
}

#[test]
fn a_limit_on_the_length_of_files_is_an_error_of_the_session() {
    let dir = TempDir::new();
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "stores::child_with_a_limit", "--nocapture"])
        .env(DIR, dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{:?}: {said}", child.status);
    assert!(said.contains("refused: store file ") && said.contains(".new"), "{said}");
    let left = fs::read_dir(dir.path().join("FIX.4.4-VENUE-CLIENT")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    let whole = |name: &&std::ffi::OsString| name.to_string_lossy().ends_with(".seg");
    assert_eq!(left.iter().filter(whole).count() + 1, left.len(), "no part of one: {left:?}");
}
