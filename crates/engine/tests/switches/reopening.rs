//! A store that fails and is repaired: its session recovers automatically, and the others are not
//! affected.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use transfix::{
    BeginString, BeyondLimit, Durability, Engine, Outcome, RetentionSettings, Settings,
};
use transfix_store::{Committed, MemoryStore, Numbers, Record, Store, StoreError, Stored};
use transfix_testkit::temp::TempDir;

use crate::switches::wire::Wire;
use crate::switches::{Echo, logged_on, venue};

/// A store on a disk that is full while the test says so.
struct Ailing {
    store: MemoryStore,
    is_full: Arc<AtomicBool>,
    failed: bool,
}

impl Ailing {
    fn check(&mut self) -> Result<(), StoreError> {
        self.failed |= self.is_full.load(Ordering::Relaxed);
        match self.failed {
            true => Err(StoreError::Own(io::ErrorKind::StorageFull.into())),
            false => Ok(()),
        }
    }
}

impl Store for Ailing {
    fn numbers(&self) -> Numbers {
        self.store.numbers()
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        self.check()?;
        self.store.put(now_ns, record)
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        self.check()?;
        self.store.commit()
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.outbound(seq)
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.inbound(seq)
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.failed = false;
        self.check()?;
        self.store.reopen()
    }
}

/// Repeats the logon until the session accepts it, and returns the first answer.
pub(crate) fn insist(address: SocketAddr, logon: &str) -> (Wire, String) {
    loop {
        let mut wire = Wire::connect(address, BeginString::Fix44);
        wire.send(logon);
        let answer = wire.next();
        if !answer.is_empty() {
            return (wire, answer);
        }
    }
}

#[test]
fn a_session_comes_back_when_its_store_is_mended() {
    let is_full = Arc::new(AtomicBool::new(false));
    let full = Arc::clone(&is_full);
    let sessions = vec![venue(|_| ()), venue(|s| s.target_comp_id = "OTHER".to_owned())];
    let settings = Settings { sessions, ..Settings::default() };
    let engine = Engine::builder(&settings)
        .stores(move |session, now_ns| {
            let (is_full, store) = (Arc::clone(&full), MemoryStore::new(1 << 20, now_ns));
            let is_ailing = session.target_comp_id == "CLIENT";
            Ok(is_ailing
                .then(|| Box::new(Ailing { store, is_full, failed: false }) as Box<dyn Store>))
        })
        .start(|_| Box::new(Echo))
        .unwrap();
    let address = engine.listening()[0];
    let mut other = Wire::connect(address, BeginString::Fix44);
    other.send("35=A|34=1|49=OTHER|98=0|108=30");
    assert!(other.next().starts_with("35=A|"));
    let mut wire = logged_on(address);
    is_full.store(true, Ordering::Relaxed);
    wire.send("35=D|34=2|11=a");
    assert_eq!(wire.next(), "", "nothing that is not kept is sent");
    is_full.store(false, Ordering::Relaxed);
    let (mut wire, answer) = insist(address, "35=A|34=3|98=0|108=30");
    assert_eq!(answer, "35=A|34=2|98=0|108=30");
    assert_eq!(wire.next(), "35=2|34=3|7=2|16=0", "the order has not been seen");
    wire.send("35=D|34=2|43=Y|122=20261121-09:00:00|11=a");
    assert_eq!(wire.next(), "35=D|34=4|11=a");
    other.send("35=D|34=2|49=OTHER|11=b");
    assert_eq!(other.next(), "35=D|34=2|11=b");
}

fn refusing(dir: &Path, durability: Durability) -> Settings {
    Settings::of(venue(|s| {
        s.store.durability = durability;
        s.store.store_dir = dir.to_path_buf();
        s.store.segment_bytes = 16 << 10;
        s.retention = RetentionSettings {
            bytes_max: 64 << 10,
            when_full: BeyondLimit::Refuse,
            ..RetentionSettings::default()
        };
    }))
}

#[test]
fn a_store_that_is_full_has_room_again_after_a_reset() {
    for durability in [Durability::Memory, Durability::Process] {
        let dir = TempDir::new();
        let engine = Engine::start(&refusing(dir.path(), durability), |_| Box::new(Echo)).unwrap();
        let address = engine.listening()[0];
        let mut wire = logged_on(address);
        let long = "x".repeat(4_000);
        let mut seq = 2;
        loop {
            wire.send(&format!("35=D|34={seq}|11={long}"));
            if wire.next().is_empty() {
                break;
            }
            seq += 1;
        }
        assert!(seq > 10, "{durability:?}: {seq}");
        let (mut wire, answer) = insist(address, "35=A|34=1|98=0|108=30|141=Y");
        assert_eq!(answer, "35=A|34=1|98=0|108=30|141=Y", "{durability:?}");
        wire.send(&format!("35=D|34=2|11={long}"));
        assert_eq!(wire.next(), format!("35=D|34=2|11={long}"));
        drop(wire);
        assert!(!matches!(engine.stop(Duration::from_secs(1))[0].outcome, Outcome::Failed));
    }
}
