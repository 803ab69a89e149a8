//! Files written by earlier versions stay readable, and today's bytes are the documented ones.
//! `TRANSFIX_BLESS=1 cargo test -p transfix-store --test golden` writes the files anew.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::{env, fs};

use transfix_store::journal::{self, Event};
use transfix_store::{Damage, Durability, FileStore, Kind, Options, Record, Store, StoreError};
use transfix_testkit::temp::TempDir;

const LOGON: &[u8] = b"8=FIX.4.4\x019=63\x0135=A\x0134=1\x0149=A\x0156=B\x01\
    52=20260105-08:00:00.000\x0198=0\x01108=30\x0110=167\x01";
const ORDER: &[u8] = b"8=FIX.4.4\x019=5\x0135=D\x0110=181\x01";

const WAITING: &[u8] = b"35=D\x0111=a\x01";

const OPTIONS: Options =
    Options { durability: Durability::Process, segment_bytes_first: 1024, segment_bytes_max: 1024 };

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/store").join(name)
}

/// Six batches: a sent Logon(A), a received one, two records at once, a note, two messages that
/// wait, the end of one wait.
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
    store.put(5_000, Record::Note("logged on")).unwrap();
    store.commit().unwrap();
    for ticket in [1, 2] {
        store.put(6_000, Record::Queued { ticket, bytes: WAITING }).unwrap();
    }
    store.commit().unwrap();
    store.put(7_000, Record::Unqueued(1)).unwrap();
    store.commit().unwrap();
    drop(store);
    fs::read(dir.join("00000000.seg")).unwrap()
}

/// Opens a copy of the fixture, since opening writes.
fn copy(name: &str) -> TempDir {
    let dir = TempDir::new();
    fs::copy(fixture(name), dir.path().join("00000000.seg")).unwrap();
    dir
}

#[test]
fn todays_bytes_are_those_of_the_fixture() {
    let dir = TempDir::new();
    let bytes = write(dir.path());
    if env::var_os("TRANSFIX_BLESS").is_some() {
        fs::write(fixture("sound-v3-length.seg"), &bytes).unwrap();
    }
    assert!(fs::read(fixture("sound-v3-length.seg")).unwrap() == bytes, "the bytes differ");
    // The older one has no length in its header, and so may have any.
    for name in ["sound-v3.seg", "sound-v3-length.seg"] {
        let mut store = FileStore::open(copy(name).path(), OPTIONS, 9).unwrap().0;
        let waiting = store.queued(0).unwrap().unwrap();
        assert_eq!((waiting.seq, waiting.time_ns, waiting.bytes), (2, 6_000, WAITING));
    }
}

#[test]
fn what_waits_goes_into_a_segment_whose_version_knows_it() {
    let dir = copy("sound-v2.seg");
    let file = File::options().write(true).open(dir.path().join("00000000.seg")).unwrap();
    file.set_len(1024).unwrap();
    let (mut store, found) = FileStore::open(dir.path(), OPTIONS, 9).unwrap();
    assert_eq!((found.records, store.numbers().next_out), (6, 7));
    store.put(6_000, Record::Note("still in the old one")).unwrap();
    store.commit().unwrap();
    store.put(6_000, Record::Queued { ticket: 1, bytes: WAITING }).unwrap();
    store.commit().unwrap();
    drop(store);
    let places = journal::read(dir.path()).unwrap().map(|entry| entry.unwrap().segment);
    assert_eq!(places.collect::<Vec<_>>(), [0, 0, 0, 0, 0, 0, 0, 1]);
    let (mut store, _) = FileStore::open(dir.path(), OPTIONS, 9).unwrap();
    assert_eq!(store.queued(1).unwrap().unwrap().bytes, WAITING);
}

#[test]
fn a_note_goes_into_a_segment_whose_version_knows_it() {
    let dir = copy("sound.seg");
    let (mut store, _) = FileStore::open(dir.path(), OPTIONS, 9).unwrap();
    store.put(5_000, Record::NextIn(3)).unwrap();
    store.put(5_000, Record::Note("reset")).unwrap();
    store.commit().unwrap();
    store.put(6_000, Record::Note("again")).unwrap();
    store.commit().unwrap();
    drop(store);
    let old = fs::read(dir.path().join("00000000.seg")).unwrap();
    let sound = fs::read(fixture("sound.seg")).unwrap();
    assert!(old.starts_with(&sound) && old[sound.len()..].iter().all(|&byte| byte == 0));
    let places: Vec<_> = journal::read(dir.path()).unwrap().map(|entry| entry.unwrap()).collect();
    let places: Vec<_> = places.iter().map(|entry| entry.segment).collect();
    assert_eq!(places, [0, 0, 0, 0, 0, 1, 1, 1]);
    let (store, found) = FileStore::open(dir.path(), OPTIONS, 9).unwrap();
    assert_eq!((found.records, store.numbers().next_in), (8, 3));
}

#[test]
fn a_sound_file_is_read() {
    let dir = copy("sound.seg");
    let (mut store, found) = FileStore::open(dir.path(), OPTIONS, 9).unwrap();
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
    assert!(said.contains("`transfix store repair /"), "{said}");
}
