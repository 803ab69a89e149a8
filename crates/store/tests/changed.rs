//! A store whose files are changed while it is open: changed data is reported with its location,
//! and never returned.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use transfix_store::journal::{self, Event};
use transfix_store::{
    Damage, Durability, FileStore, Kind, Options, Record, Store, StoreError, Stored,
};
use transfix_testkit::temp::TempDir;

/// Length of a record's header, which precedes the message, in bytes.
const RECORD_HEADER: usize = 32;
const RECORDS: u64 = 12;

/// The kinds of requests for a message.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Outbound(u64),
    Inbound(u64),
    Queued(u64),
}

impl Ask {
    fn of(self, store: &mut FileStore) -> Result<Option<Stored<'_>>, StoreError> {
        match self {
            Self::Outbound(seq) => store.outbound(seq),
            Self::Inbound(seq) => store.inbound(seq),
            Self::Queued(ticket) => store.queued(ticket),
        }
    }
}

/// A message, with the location of its record.
struct Kept {
    ask: Ask,
    bytes: Vec<u8>,
    segment: PathBuf,
    offset: u64,
    size: usize,
}

/// Returns a store of several segments with messages of every kind.
fn filled(dir: &Path, durability: Durability) -> FileStore {
    let options = Options { durability, segment_bytes_first: 1024, segment_bytes_max: 1024 };
    let (mut store, _) = FileStore::open(dir, options, 1).unwrap();
    for seq in 1..=RECORDS {
        let kind = if seq.is_multiple_of(3) { Kind::Admin } else { Kind::Application };
        let bytes = vec![b'0' + seq as u8; 20 + seq as usize];
        store.put(seq, Record::Outbound { seq, kind, bytes: &bytes }).unwrap();
        store.put(seq, Record::Inbound { seq, kind, bytes: &bytes[1..] }).unwrap();
        store.put(seq, Record::NextIn(seq)).unwrap();
        store.put(seq, Record::Queued { ticket: seq, bytes: &bytes[2..] }).unwrap();
        store.commit().unwrap();
    }
    store
}

fn kept(dir: &Path) -> Vec<Kept> {
    let mut all = Vec::new();
    for entry in journal::read(dir).unwrap().map(Result::unwrap) {
        let (ask, bytes, behind) = match entry.event {
            Event::Outbound(message) => (Ask::Outbound(message.seq), message.bytes, 0),
            // In this store, the next inbound number of 8 bytes follows each inbound record.
            Event::Inbound(message) => (Ask::Inbound(message.seq), message.bytes, 8),
            Event::Queued { ticket, bytes } => (Ask::Queued(ticket), bytes, 0),
            _ => continue,
        };
        let segment = dir.join(format!("{:08}.seg", entry.segment));
        let size = (RECORD_HEADER + bytes.len()).next_multiple_of(8) + behind;
        all.push(Kept { ask, bytes, segment, offset: entry.offset, size });
    }
    all
}

fn flip(file: &File, at: u64) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

/// Changes each byte of each record, one at a time, and checks that the read of that message fails.
fn check(store: &mut FileStore, all: &[Kept]) {
    for one in all {
        let file = OpenOptions::new().read(true).write(true).open(&one.segment).unwrap();
        for n in 0..one.size as u64 {
            flip(&file, one.offset + n);
            match one.ask.of(store) {
                Err(StoreError::Damaged { path, offset, reason }) => {
                    let place = (path, offset, reason);
                    assert_eq!(place, (one.segment.clone(), one.offset, Damage::Changed));
                }
                found => panic!("{:?}, byte {n}: {found:?}", one.ask),
            }
            flip(&file, one.offset + n);
        }
        for other in all {
            let found = other.ask.of(store).unwrap();
            assert_eq!(found.map(|found| found.bytes), Some(&*other.bytes), "{:?}", other.ask);
        }
    }
}

#[test]
fn each_changed_byte_is_found_by_the_read_that_meets_it() {
    for durability in [Durability::Process, Durability::Power] {
        let dir = TempDir::new();
        let mut store = filled(dir.path(), durability);
        while store.safe().unwrap() < RECORDS && durability == Durability::Power {
            std::thread::yield_now();
        }
        let all = kept(dir.path());
        assert_eq!(all.len() as u64, 3 * RECORDS);
        assert_ne!(all[0].segment, all.last().unwrap().segment, "several segments");
        check(&mut store, &all);
        // The check is repeated after the same store is reopened, and after another process opens
        // it.
        store.reopen().unwrap();
        check(&mut store, &all);
        drop(store);
        let options = Options { durability, ..Options::default() };
        let (mut store, _) = FileStore::open(dir.path(), options, 1).unwrap();
        check(&mut store, &all);
    }
}

#[test]
fn the_error_says_where_and_what_to_do() {
    let path = PathBuf::from("store/A/00000001.seg");
    let error = StoreError::Damaged { path, offset: 640, reason: Damage::Changed };
    assert_eq!(
        error.to_string(),
        "store file store/A/00000001.seg at byte 640: this record was changed after it was \
         written; \
         `transfix store verify store/A` lists the losses, `transfix store repair store/A --to \
         NEW` saves the rest"
    );
}
