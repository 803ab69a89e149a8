//! The test suite for every `Store` (`transfix_testkit::laws`), and the absence of allocations per
//! message.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use transfix_store::{Durability, FileStore, Kind, MemoryStore, Options, Record, Store};
use transfix_testkit::alloc::{thread_allocations, thread_largest_allocation};
use transfix_testkit::delayed::Delayed;
use transfix_testkit::laws::{lasting_store_laws, store_laws};
use transfix_testkit::temp::TempDir;

#[test]
fn memory() {
    store_laws(7, || Box::new(MemoryStore::new(64 << 10, 7)));
    // Commits are visible even if they never become safe.
    store_laws(7, || {
        let store = MemoryStore::new(64 << 10, 7);
        Box::new(Delayed::new(store, Arc::default()).unwrap())
    });
}

fn file_laws(options: Options) {
    let (dir, count) = (TempDir::new(), AtomicU64::new(0));
    store_laws(7, || {
        let name = count.fetch_add(1, Ordering::Relaxed).to_string();
        let (store, found) = FileStore::open(&dir.path().join(name), options, 7).unwrap();
        assert_eq!((found.records, found.cut_bytes), (0, 0));
        Box::new(store)
    });
    lasting_store_laws(7, || {
        let path = dir.path().join(count.fetch_add(1, Ordering::Relaxed).to_string());
        move || Box::new(FileStore::open(&path, options, 7).unwrap().0)
    });
}

#[test]
fn file() {
    file_laws(Options { segment_bytes_first: 64 << 10, ..Options::default() });
}

#[test]
fn file_with_tiny_segments() {
    for segment_bytes_max in [100, 300, 1000] {
        let durability = Durability::Process;
        file_laws(Options { durability, segment_bytes_first: 100, segment_bytes_max });
    }
}

#[test]
fn file_with_power_durability() {
    file_laws(Options {
        durability: Durability::Power,
        segment_bytes_first: 4000,
        segment_bytes_max: 9000,
    });
}

fn allocations(store: &mut dyn Store) -> u64 {
    let mut next = 1;
    let mut turn = |store: &mut dyn Store| {
        for _ in 0..3 {
            let record = Record::Outbound { seq: next, kind: Kind::Application, bytes: &[1; 200] };
            store.put(next, record).unwrap();
            let record = Record::Inbound { seq: next, kind: Kind::Application, bytes: &[2; 150] };
            store.put(next, record).unwrap();
            store.put(next, Record::NextIn(next + 1)).unwrap();
            next += 1;
        }
        store.commit().unwrap();
        assert!(store.outbound(next - 1).unwrap().is_some());
    };
    turn(store);
    let before = thread_allocations();
    (0..300).for_each(|_| turn(store));
    thread_allocations() - before
}

#[test]
fn messages_do_not_allocate() {
    assert_eq!(allocations(&mut MemoryStore::new(64 << 10, 7)), 0);
    let dir = TempDir::new();
    let options = Options { segment_bytes_first: 4 << 20, ..Options::default() };
    let (mut store, _) = FileStore::open(dir.path(), options, 7).unwrap();
    assert_eq!(allocations(&mut store), 0, "as long as no segment is made");
}

/// The cost of a message does not grow with the number of messages: no put moves or reallocates all
/// others.
#[test]
fn what_a_put_allocates_is_bounded() {
    const MESSAGES: u64 = 300_000;
    // A single put may allocate a chunk of the index for each direction, the list of the chunks,
    // and a new segment.
    const AT_ONCE_MAX: u64 = 40;
    const LARGEST_MAX: usize = 64 << 10;
    let dir = TempDir::new();
    let (mut store, _) = FileStore::open(dir.path(), Options::default(), 7).unwrap();
    let _ = thread_largest_allocation();
    for seq in 1..=MESSAGES {
        let before = thread_allocations();
        store.put(7, Record::Outbound { seq, kind: Kind::Admin, bytes: b"35=0" }).unwrap();
        store.put(7, Record::Inbound { seq, kind: Kind::Admin, bytes: b"35=0" }).unwrap();
        store.commit().unwrap();
        let (made, largest) = (thread_allocations() - before, thread_largest_allocation());
        assert!(made <= AT_ONCE_MAX, "{made} allocations at {seq}");
        assert!(largest <= LARGEST_MAX, "{largest} bytes at {seq}");
    }
}
