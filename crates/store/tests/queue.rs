//! Messages that wait to be sent, across resets, retention and repair.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::fs;
use std::path::Path;

use transfix_store::{Durability, FileStore, Kind, Options, Record, Retention, Store, survey};
use transfix_testkit::temp::TempDir;

const BYTES: [u8; 100] = [b'x'; 100];

fn open(dir: &Path) -> FileStore {
    let options = Options {
        durability: Durability::Process,
        segment_bytes_first: 1_000,
        segment_bytes_max: 1_000,
    };
    FileStore::open(dir, options, 1).unwrap().0
}

fn commit(store: &mut FileStore, record: Record<'_>) {
    store.put(7, record).unwrap();
    store.commit().unwrap();
}

fn send(store: &mut FileStore, count: u64) {
    for _ in 0..count {
        let seq = store.numbers().next_out;
        commit(store, Record::Outbound { seq, kind: Kind::Admin, bytes: &BYTES });
    }
}

/// Returns the tickets of the waiting messages.
fn tickets(store: &mut FileStore) -> Vec<u64> {
    let (mut all, mut next) = (Vec::new(), 0);
    while let Some(found) = store.queued(next).unwrap() {
        assert_eq!(found.bytes, found.seq.to_string().as_bytes());
        next = found.seq + 1;
        all.push(found.seq);
    }
    all
}

fn queue(store: &mut FileStore, ticket: u64) {
    commit(store, Record::Queued { ticket, bytes: ticket.to_string().as_bytes() });
}

fn segments(dir: &Path) -> usize {
    let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|end| end == "seg")).count()
}

/// Returns a store that keeps most of its segments only because a message in the first segment
/// still waits.
fn long_waiting(dir: &Path) -> FileStore {
    let mut store = open(dir);
    queue(&mut store, 1);
    send(&mut store, 20);
    commit(&mut store, Record::Reset);
    queue(&mut store, 2);
    send(&mut store, 20);
    commit(&mut store, Record::Reset);
    send(&mut store, 20);
    store
}

#[test]
fn what_waits_is_kept_and_what_lies_around_it_is_not_found() {
    let dir = TempDir::new();
    let mut store = long_waiting(dir.path());
    assert_eq!(tickets(&mut store), [1, 2]);
    drop(store);
    let mut store = open(dir.path());
    assert_eq!(tickets(&mut store), [1, 2]);
    assert_eq!(store.numbers().next_out, 21);
    assert!((1..=20).all(|seq| store.outbound(seq).unwrap().is_some()));
    assert_eq!(store.outbound(21).unwrap(), None);
    assert_eq!(survey(dir.path()).unwrap().waiting, 2);
    commit(&mut store, Record::Unqueued(1));
    assert_eq!(tickets(&mut store), [2]);
    assert_eq!(survey(dir.path()).unwrap().waiting, 1);
}

#[test]
fn segments_are_archived_when_nothing_waits_in_them_any_more() {
    let (dir, archive) = (TempDir::new(), TempDir::new());
    let settle = |dir: &Path| {
        let retention =
            Retention { archive_dir: Some(archive.path().to_path_buf()), ..Retention::default() };
        let mut store = open(dir);
        send(&mut store, 10);
        store.retain(retention, 7, |error| panic!("{error}"));
        drop(store);
        segments(archive.path())
    };
    let mut store = long_waiting(dir.path());
    let all = segments(dir.path());
    assert_eq!(tickets(&mut store), [1, 2]);
    drop(store);
    assert_eq!(settle(dir.path()), 0);
    let mut store = open(dir.path());
    commit(&mut store, Record::Unqueued(1));
    drop(store);
    let archived = settle(dir.path());
    assert!(archived > 2 && archived < all / 2 + 2, "{archived} of {all}");
    let mut store = open(dir.path());
    assert_eq!(tickets(&mut store), [2]);
    commit(&mut store, Record::Unqueued(2));
    drop(store);
    assert!(settle(dir.path()) > archived);
    assert_eq!(tickets(&mut open(dir.path())), [0_u64; 0]);
}

#[test]
fn a_limit_forgets_messages_and_nothing_that_waits() {
    let dir = TempDir::new();
    let mut store = open(dir.path());
    let retention = Retention { bytes_max: 3_000, ..Retention::default() };
    store.retain(retention, 7, |error| panic!("{error}"));
    queue(&mut store, 1);
    send(&mut store, 100);
    assert_eq!(tickets(&mut store), [1]);
    assert!(store.outbound(1).unwrap().is_none() && store.outbound(100).unwrap().is_some());
    drop(store);
    let mut store = open(dir.path());
    assert_eq!((tickets(&mut store), store.numbers().next_out), (vec![1], 101));
}

#[test]
fn repair_keeps_what_waits() {
    let (dir, new, again) = (TempDir::new(), TempDir::new(), TempDir::new());
    drop(long_waiting(dir.path()));
    assert_eq!(FileStore::repair(dir.path(), new.path(), None).unwrap().segments, 0, "it is sound");
    let path = dir.path().join("00000001.seg");
    let mut bytes = fs::read(&path).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(FileStore::repair(dir.path(), again.path(), None).unwrap().segments > 0);
    for dir in [new.path(), again.path()] {
        let mut store = open(dir);
        assert_eq!((tickets(&mut store), store.numbers().next_out), (vec![1, 2], 21));
    }
}
