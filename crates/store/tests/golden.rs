//! Files written by earlier versions stay readable, and today's bytes are the documented ones.
//! `TRANSFIX_BLESS=1 cargo test -p transfix-store --test golden` writes the files anew.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::path::{Path, PathBuf};
use std::{env, fs};

use transfix_store::journal::{self, Event};
use transfix_store::{Damage, Durability, FileStore, Kind, Options, Record, Store, StoreError};
use transfix_testkit::temp::TempDir;

const LOGON: &[u8] = b"8=FIX.4.4\x019=63\x0135=A\x0134=1\x0149=A\x0156=B\x01\
    52=20260105-08:00:00.000\x0198=0\x01108=30\x0110=167\x01";
const ORDER: &[u8] = b"8=FIX.4.4\x019=5\x0135=D\x0110=181\x01";

const OPTIONS: Options =
    Options { durability: Durability::Process, segment_bytes_first: 1024, segment_bytes_max: 1024 };

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/store").join(name)
}

/// Three batches: a sent Logon(A), a received one, two messages at once.
fn write(dir: &Path) -> Vec<u8> {
    let (admin, application) = (Kind::Admin, Kind::Application);
    let (mut store, _) = FileStore::open(dir, OPTIONS, 1_000).unwrap();
    store.put(2_000, Record::Outbound { seq: 1, kind: admin, bytes: LOGON }).unwrap();
    store.commit().unwrap();
    store.put(3_000, Record::Inbound { seq: 1, kind: admin, bytes: LOGON }).unwrap();
    store.put(3_000, Record::NextIn(2)).unwrap();
    store.commit().unwrap();
    store.put(4_000, Record::Outbound { seq: 2, kind: application, bytes: ORDER }).unwrap();
    store.put(4_000, Record::NextOut(7)).unwrap();
    store.commit().unwrap();
    drop(store);
    let mut bytes = fs::read(dir.join("00000000.seg")).unwrap();
    let used = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    bytes.truncate(used.next_multiple_of(8));
    bytes
}

/// Opens a copy of the fixture, since opening writes.
fn copy(name: &str) -> TempDir {
    let dir = TempDir::new();
    fs::copy(fixture(name), dir.path().join("00000000.seg")).unwrap();
    dir
}

#[test]
fn todays_bytes_are_those_of_the_fixtures() {
    let dir = TempDir::new();
    let sound = write(dir.path());
    let torn = &sound[..sound.len() - 8];
    let mut damaged = sound.clone();
    damaged[100] ^= 1;
    for (name, bytes) in [("sound.seg", &sound[..]), ("torn.seg", torn), ("damaged.seg", &damaged)]
    {
        if env::var_os("TRANSFIX_BLESS").is_some() {
            fs::write(fixture(name), bytes).unwrap();
        }
        assert!(fs::read(fixture(name)).unwrap() == bytes, "{name} differs");
    }
}

#[test]
fn a_sound_file_is_read() {
    let dir = copy("sound.seg");
    let (store, found) = FileStore::open(dir.path(), OPTIONS, 9).unwrap();
    assert_eq!((found.records, found.cut_bytes), (5, 0));
    let numbers = store.numbers();
    assert_eq!((numbers.next_in, numbers.next_out, numbers.created_ns), (2, 7, 1_000));
    let order = store.outbound(2).unwrap().unwrap();
    assert_eq!((order.kind, order.time_ns, order.bytes), (Kind::Application, 4_000, ORDER));
    assert_eq!(store.inbound(1).unwrap().unwrap().bytes, LOGON);
    let entries = journal::read_file(&fixture("sound.seg")).unwrap();
    let entries: Vec<_> = entries.map(|entry| entry.unwrap().event).collect();
    assert_eq!((&entries[2], &entries[4]), (&Event::NextIn(2), &Event::NextOut(7)));
}

#[test]
fn a_torn_file_loses_its_last_batch() {
    let dir = copy("torn.seg");
    let (store, found) = FileStore::open(dir.path(), OPTIONS, 9).unwrap();
    assert_eq!((found.records, store.numbers().next_out), (3, 2));
    assert!(found.cut_bytes > 0);
}

#[test]
fn a_damaged_file_is_refused() {
    let dir = copy("damaged.seg");
    let error = FileStore::open(dir.path(), OPTIONS, 9).unwrap_err();
    let StoreError::Damaged { offset, reason, .. } = &error else { panic!("{error}") };
    assert_eq!((*offset, *reason), (64, Damage::Record));
    let said = error.to_string();
    assert!(said.ends_with("copy the directory, then repair it"), "{said}");
}
