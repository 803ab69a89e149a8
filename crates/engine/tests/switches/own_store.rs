//! Tests custom stores: the example's store passes the tests for stores, and two engines use it
//! alternately.

#[path = "../../examples/own_store/plain.rs"]
mod plain;

use std::cell::Cell;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plain::PlainStore;
use transfix::{
    Action, BeginString, Disconnect, Engine, EngineError, FleetSettings, LogonRefusal, Review,
    Role, SessionId, SessionSettings, Settings,
};
use transfix_store::{Committed, MemoryStore, Numbers, Record, Store, StoreError, Stored};
use transfix_testkit::app::App;
use transfix_testkit::laws::{lasting_store_laws, store_laws};
use transfix_testkit::temp::TempDir;

use crate::switches::dynamic::until;
use crate::switches::wire::Wire;
use crate::switches::{LONG, echo, venue};

#[test]
fn the_store_of_the_example_obeys_the_laws() {
    let (dir, count) = (TempDir::new(), Cell::new(0));
    let path = || {
        count.set(count.get() + 1);
        dir.path().join(count.get().to_string())
    };
    let open = |path: &PathBuf| Box::new(PlainStore::open(path, 7).unwrap()) as Box<dyn Store>;
    store_laws(7, || open(&path()));
    lasting_store_laws(7, || {
        let path = path();
        move || open(&path)
    });
}

#[test]
fn what_another_process_writes_is_neither_cut_nor_written_over() {
    let dir = TempDir::new();
    let path = dir.path().join("journal");
    let mut one = PlainStore::open(&path, 7).unwrap();
    one.put(8, Record::NextIn(2)).unwrap();
    one.commit().unwrap();
    let whole = fs::read(&path).unwrap();
    let mut standby = PlainStore::open(&path, 9).unwrap();
    // The file ends with a part of a batch, by a process that is writing or was killed.
    fs::write(&path, [&whole[..], &[9, 0, 0]].concat()).unwrap();
    let other = PlainStore::open(&path, 9).unwrap();
    assert_eq!((other.numbers().next_in, fs::read(&path).unwrap().len()), (2, whole.len() + 3));
    one.put(8, Record::NextIn(3)).unwrap();
    one.commit().unwrap();
    standby.put(9, Record::NextIn(9)).unwrap();
    assert!(matches!(standby.commit(), Err(StoreError::Own(_))));
    assert!(matches!(standby.put(9, Record::Reset), Err(StoreError::Poisoned)));
    assert!(matches!(standby.commit(), Err(StoreError::Poisoned)));
    standby.reopen().unwrap();
    standby.put(9, Record::NextOut(5)).unwrap();
    standby.commit().unwrap();
    let numbers = PlainStore::open(&path, 9).unwrap().numbers();
    assert_eq!((numbers.next_in, numbers.next_out), (3, 5));
}

fn start(session: SessionSettings, path: &Path) -> Result<Engine, EngineError> {
    let path = path.to_path_buf();
    Engine::builder(&Settings::of(session))
        .stores(move |_, now_ns| Ok(Some(Box::new(PlainStore::open(&path, now_ns)?))))
        .start(|_| Box::new(echo()))
}

/// Logs on with the number `seq`, sends one order, and logs out. Returns the three answers.
fn day(address: SocketAddr, seq: u64) -> [String; 3] {
    let mut wire = Wire::connect(address, BeginString::Fix44);
    wire.send(&format!("35=A|34={seq}|98=0|108=30"));
    let logon = wire.next();
    wire.send(&format!("35=D|34={}|11=a", seq + 1));
    let echo = wire.next();
    wire.send(&format!("35=5|34={}", seq + 2));
    [logon, echo, wire.next()]
}

#[test]
fn a_session_goes_on_where_another_process_has_left_the_store() {
    for refresh_on_logon in [true, false] {
        let dir = TempDir::new();
        let path = dir.path().join("journal");
        let settings = venue(|s| s.store.refresh_on_logon = refresh_on_logon);
        // Both engines run during the whole test.
        let one = start(settings.clone(), &path).unwrap();
        let other = start(settings, &path).unwrap();
        let [logon, echo, _] = day(one.listening()[0], 1);
        assert_eq!((&*logon, &*echo), ("35=A|34=1|98=0|108=30", "35=D|34=2|11=a"));
        let [logon, next, _] = day(other.listening()[0], 4);
        match refresh_on_logon {
            true => {
                assert_eq!((&*logon, &*next), ("35=A|34=4|98=0|108=30", "35=D|34=5|11=a"));
                assert_eq!(other.sessions().next().unwrap().next_numbers(), (7, 7));
            }
            // The engine does not know of the first day, and its store refuses all records.
            false => assert_eq!((&*logon, &*next), ("", "")),
        }
    }
}

/// Returns an application that refuses all counterparties except FRIEND.
fn choosy() -> App {
    echo().judge_logon(|_, attempt| {
        let id = attempt.id();
        match &*id.target_comp_id {
            "FRIEND" => Ok(()),
            _ => Err(LogonRefusal::new("who are you?")),
        }
    })
}

#[test]
fn no_store_is_opened_for_strangers() {
    let dir = TempDir::new();
    let template = venue(|s| {
        s.target_comp_id = "*".to_owned();
        s.store.refresh_on_logon = true;
    });
    let path = dir.path().to_path_buf();
    let engine = Engine::builder(&Settings::of(template))
        .stores(move |session, now_ns| {
            let path = path.join(&session.target_comp_id);
            Ok(Some(Box::new(PlainStore::open(&path, now_ns)?)))
        })
        .admit(|_| Some(Box::new(choosy())))
        .start(|_| Box::new(echo()))
        .unwrap();
    for (name, answer) in [("STRANGER", "35=5|34=1|58=who are you?"), ("FRIEND", "35=A|34=1|")] {
        let mut wire = Wire::connect(engine.listening()[0], BeginString::Fix44);
        wire.send(&format!("35=A|34=1|49={name}|98=0|108=30"));
        let said = wire.next();
        assert!(said.starts_with(answer), "{said}");
        assert_eq!(dir.path().join(name).exists(), name == "FRIEND");
    }
}

#[test]
fn refreshing_needs_a_store_of_ones_own() {
    let settings = Settings::of(venue(|s| s.store.refresh_on_logon = true));
    let refused = Engine::start(&settings, |_| Box::new(echo())).err().unwrap().to_string();
    let why = "refresh_on_logon requires a store of your own, because only this engine writes its \
               own stores";
    assert_eq!(refused, format!("FIX.4.4:VENUE->CLIENT: {why}"));
}

#[test]
fn a_fleet_needs_its_stores() {
    let mut settings = Settings::of(venue(|_| ()));
    settings.fleet = Some(FleetSettings::default());
    let refused = Engine::start(&settings, |_| Box::new(echo())).err().unwrap().to_string();
    assert!(refused.starts_with("[fleet] works only in a program that"), "{refused}");
    assert_eq!(Review::needs_program(&settings), [refused]);
}

#[test]
fn a_store_that_cannot_be_opened_keeps_the_engine_from_starting() {
    let engine = Engine::builder(&Settings::of(venue(|_| ())))
        .stores(|_, _| Err(StoreError::Own(io::Error::other("the database is not there"))))
        .start(|_| Box::new(echo()));
    let said = engine.err().unwrap().to_string();
    assert_eq!(said, "the store of FIX.4.4:VENUE->CLIENT: the database is not there");
}

/// A store whose session another process may use.
struct SharedStore {
    store: MemoryStore,
    is_used: Arc<AtomicBool>,
}

impl Store for SharedStore {
    fn numbers(&self) -> Numbers {
        self.store.numbers()
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        self.store.put(now_ns, record)
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        self.store.commit()
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.outbound(seq)
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.inbound(seq)
    }

    fn refresh(&mut self) -> Result<(), StoreError> {
        if self.is_used.load(Ordering::Acquire) {
            return Err(StoreError::InUse { session: "it".into(), by: "another".into() });
        }
        Ok(())
    }
}

/// Starts an engine whose session another process may use.
fn start_shared(session: SessionSettings, is_used: &Arc<AtomicBool>) -> Engine {
    let is_used = Arc::clone(is_used);
    Engine::builder(&Settings::of(session))
        .stores(move |_, now_ns| {
            let (store, is_used) = (MemoryStore::new(1 << 20, now_ns), Arc::clone(&is_used));
            Ok(Some(Box::new(SharedStore { store, is_used })))
        })
        .start(|_| Box::new(echo()))
        .unwrap()
}

#[test]
fn a_session_in_use_elsewhere_is_refused_and_its_store_does_not_fail() {
    let is_used = Arc::new(AtomicBool::new(true));
    let acceptor = start_shared(venue(|s| s.store.refresh_on_logon = true), &is_used);
    let address = acceptor.listening()[0];
    let session = acceptor.sessions().next().unwrap();
    let end = || session.status().last_end.map(|end| end.reason);
    for _ in 0..3 {
        let mut wire = Wire::connect(address, BeginString::Fix44);
        wire.send("35=A|34=1|98=0|108=30");
        assert_eq!(wire.next(), "");
        until(|| end() == Some(Disconnect::InUse));
    }
    assert_eq!(session.store_failure(), None);

    let id = SessionId::new(BeginString::Fix44, "CLIENT", "VENUE");
    let mut settings = SessionSettings::new(Role::Initiator, &id, &address.to_string());
    settings.store.refresh_on_logon = true;
    settings.socket.reconnect_interval = LONG / 100;
    let initiator_waits = Arc::new(AtomicBool::new(true));
    let initiator = start_shared(settings, &initiator_waits);
    let client = initiator.sessions().next().unwrap();
    until(|| client.status().last_end.is_some_and(|end| end.reason == Disconnect::InUse));
    assert_eq!(client.store_failure(), None);
    is_used.store(false, Ordering::Release);
    initiator_waits.store(false, Ordering::Release);
    until(|| client.is_logged_on() && session.is_logged_on());
}

#[test]
fn a_session_that_starts_disabled_connects_when_an_operator_wants_it() {
    let acceptor = start_shared(venue(|s| s.socket.start_disabled = true), &Arc::default());
    let address = acceptor.listening()[0];
    let id = SessionId::new(BeginString::Fix44, "CLIENT", "VENUE");
    let mut settings = SessionSettings::new(Role::Initiator, &id, &address.to_string());
    settings.socket.start_disabled = true;
    settings.socket.reconnect_interval = LONG / 100;
    let initiator = start_shared(settings, &Arc::default());
    assert_eq!(day(address, 1), ["", "", ""]);
    let (session, client) = (acceptor.sessions().next().unwrap(), initiator.sessions().next());
    let client = client.unwrap();
    assert!(!session.status().enabled && !client.status().enabled);
    session.operate(&Action::LogOn {}).unwrap();
    assert_eq!((client.status().last_end, session.counters().logons), (None, 0));
    client.operate(&Action::LogOn {}).unwrap();
    until(|| client.is_logged_on() && session.is_logged_on());
}
