//! Several threads open many stores: each session gets its own store.

use std::time::Duration;

use transfix::{BeginString, Engine, Offline, Role, SessionId, SessionSettings, Settings, tag};
use transfix_store::{FileStore, Options};
use transfix_testkit::app::App;
use transfix_testkit::temp::TempDir;

const SESSIONS: u64 = 200;
/// The number of the session whose store another process has already open.
const LOCKED: u64 = 77;

fn start(dir: &TempDir) -> Engine {
    let session = |n: u64| {
        let id = SessionId::new(BeginString::Fix44, "VENUE", &format!("C{n}"));
        let mut settings = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
        settings.store.store_dir = dir.path().to_owned();
        settings.queue.offline = Offline::Store;
        settings
    };
    let sessions = (0..SESSIONS).map(session).collect();
    Engine::start(&Settings { sessions, ..Settings::default() }, |_| Box::new(App::silent()))
        .unwrap()
}

#[test]
fn each_session_has_its_own_store() {
    let dir = TempDir::new();
    let engine = start(&dir);
    for (n, session) in (0..).zip(engine.sessions()) {
        for _ in 0..=n {
            session.send("B", |news| _ = news.str(tag::TEXT, "x")).unwrap();
        }
    }
    engine.stop(Duration::from_secs(10));
    let path = dir.path().join(format!("FIX.4.4-VENUE-C{LOCKED}"));
    let (held, _) = FileStore::open(&path, Options::default(), 0).unwrap();
    let engine = start(&dir);
    for (n, session) in (0..).zip(engine.sessions()) {
        let expected = if n == LOCKED { 1 } else { n + 2 };
        assert_eq!(session.next_numbers().1, expected, "{}", session.id());
        let sent = session.send("B", |news| _ = news.str(tag::TEXT, "x"));
        assert_eq!(sent.is_ok(), n != LOCKED, "{}", session.id());
    }
    drop(held);
}
