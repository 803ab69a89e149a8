//! Stores of the user's own: that of the example obeys the laws, and engines take turns on it.

#[path = "../../examples/own_store/plain.rs"]
mod plain;

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use plain::PlainStore;
use transfix::store::{Store, StoreError};
use transfix::{BeginString, Engine, EngineError, SessionSettings, Settings};
use transfix_testkit::laws::{lasting_store_laws, store_laws};
use transfix_testkit::temp::TempDir;

use crate::wire::Wire;
use crate::{Echo, venue};

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

fn start(session: SessionSettings, path: &Path) -> Result<Engine, EngineError> {
    let path = path.to_path_buf();
    Engine::builder(&Settings::of(session))
        .stores(move |_, now_ns| Ok(Some(Box::new(PlainStore::open(&path, now_ns)?))))
        .start(|_| Box::new(Echo))
}

/// Logs on with this number, sends one order, logs out. Answers with what came.
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
        let settings = venue(|s| s.refresh_on_logon = refresh_on_logon);
        // Both are there from the beginning.
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
            // It knows nothing of the first day.
            false => {
                assert_eq!((&*logon, &*next), ("35=A|34=1|98=0|108=30", "35=2|34=2|7=1|16=0"));
            }
        }
    }
}

#[test]
fn refreshing_needs_a_store_of_ones_own() {
    let settings = Settings::of(venue(|s| s.refresh_on_logon = true));
    let refused = Engine::start(&settings, |_| Box::new(Echo)).err().unwrap().to_string();
    let why = "refresh_on_logon needs a store of your own: nobody else writes the engine's";
    assert_eq!(refused, format!("FIX.4.4:VENUE->CLIENT: {why}"));
}

#[test]
fn a_store_that_cannot_be_opened_keeps_the_engine_from_starting() {
    let engine = Engine::builder(&Settings::of(venue(|_| ())))
        .stores(|_, _| Err(StoreError::Own(io::Error::other("the database is not there"))))
        .start(|_| Box::new(Echo));
    let said = engine.err().unwrap().to_string();
    assert_eq!(said, "the store of FIX.4.4:VENUE->CLIENT: the database is not there");
}
