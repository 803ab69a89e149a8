//! Files written by earlier versions remain readable, and files of the current version match the
//! documented bytes. `TRANSFIX_BLESS=1 cargo test -p transfix-store --test all golden` rewrites the
//! files.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::path::{Path, PathBuf};
use std::{env, fs};

use transfix_store::journal::{self, Event};
use transfix_store::{
    Damage, Disk, Durability, FileStore, Kind, Options, Record, Store, StoreError, survey,
};
use transfix_testkit::disk::SimDisk;
use transfix_testkit::random::Random;
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

/// Writes six batches: a sent Logon(A); a received one with the next inbound number; two records
/// together; a note; two queued messages; and the removal of one from the queue.
fn write() -> Vec<u8> {
    let (admin, application) = (Kind::Admin, Kind::Application);
    // With a fixed seed, the disk's random numbers are always the same.
    let (disk, dir) = (SimDisk::new(Random::new(1), Box::new(|| ())), Path::new("/store"));
    let opened = FileStore::open_for_on(disk.clone(), "FIX.4.4-A-B", dir, OPTIONS, 1_000);
    let (mut store, _) = opened.unwrap();
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
    disk.open(&dir.join("00000000.seg")).unwrap().to_vec()
}

/// Copies the file, because opening a store writes to it.
fn copy(name: &str) -> TempDir {
    let dir = TempDir::new();
    fs::copy(fixture(name), dir.path().join("00000000.seg")).unwrap();
    dir
}

#[test]
fn todays_bytes_are_those_of_the_fixture() {
    let bytes = write();
    if env::var_os("TRANSFIX_BLESS").is_some() {
        fs::write(fixture("sound-v5.seg"), &bytes).unwrap();
    }
    assert!(fs::read(fixture("sound-v5.seg")).unwrap() == bytes, "the bytes differ");
}

#[test]
fn stores_of_all_formats_are_read_and_written_on_in_todays() {
    // The fixtures of version 3 include one without a recorded segment length, which may thus have
    // any length.
    for name in [
        "sound.seg",
        "sound-v2.seg",
        "sound-v3.seg",
        "sound-v3-length.seg",
        "sound-v4.seg",
        "sound-v5.seg",
    ] {
        let (dir, is_old) = (copy(name), name != "sound-v5.seg");
        let is_keyless = is_old && name != "sound-v4.seg";
        let old = fs::read(fixture(name)).unwrap();
        let before = survey(dir.path()).unwrap();
        assert_eq!((before.faults, before.old_segments), (vec![], u64::from(is_keyless)), "{name}");
        let read = || journal::read(dir.path()).unwrap().map(|entry| entry.unwrap());
        let events: Vec<_> = read().map(|entry| entry.event).collect();
        let opened = FileStore::open_for("FIX.4.4-A-B", dir.path(), OPTIONS, 9);
        let (mut store, found) = opened.unwrap();
        assert_eq!(found.records, events.len() as u64, "{name}");
        assert_eq!((store.numbers().next_in, store.numbers().next_out), (2, 7), "{name}");
        assert_eq!(store.outbound(2).unwrap().unwrap().bytes, ORDER, "{name}");
        if name.contains("v3") || !is_keyless {
            let waiting = store.queued(0).unwrap().unwrap();
            assert_eq!((waiting.seq, waiting.time_ns, waiting.bytes), (2, 6_000, WAITING));
        }
        store.put(8_000, Record::Queued { ticket: 5, bytes: WAITING }).unwrap();
        store.put(8_000, Record::Note("written on")).unwrap();
        store.commit().unwrap();
        drop(store);
        let places: Vec<_> = read().map(|entry| entry.segment).collect();
        let (kept, new) = places.split_at(events.len());
        assert!(kept.iter().all(|&segment| segment == 0), "{name}: {places:?}");
        assert_eq!(new, [u64::from(is_old); 2], "{name}: nothing is written on in an old format");
        let now = fs::read(dir.path().join("00000000.seg")).unwrap();
        assert!(!is_old || now == old, "{name}: the old segment stays as it is");
        let (mut store, _) = FileStore::open(dir.path(), OPTIONS, 9).unwrap();
        assert_eq!(store.queued(5).unwrap().unwrap().bytes, WAITING, "{name}");
        drop(store);
        is_upgraded_by_repair(dir.path(), read().map(|entry| entry.event).collect());
    }
}

/// Checks that `repair` writes the current format and keeps the content.
fn is_upgraded_by_repair(dir: &Path, events: Vec<Event>) {
    let new = TempDir::new();
    FileStore::repair(dir, new.path(), None).unwrap();
    let after = survey(new.path()).unwrap();
    assert_eq!((after.faults, after.old_segments), (vec![], 0));
    assert_eq!(after.session, "FIX.4.4-A-B");
    let read = journal::read(new.path()).unwrap().map(|entry| entry.unwrap().event);
    assert_eq!(read.collect::<Vec<_>>(), events);
    let (store, found) = FileStore::open_for("FIX.4.4-A-B", new.path(), OPTIONS, 9).unwrap();
    assert_eq!((found.records, found.cut_bytes), (events.len() as u64, 0));
    assert_eq!(store.numbers().next_out, 7);
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
