//! The state that a store recovers after crashes and damage.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::fs;
use std::path::{Path, PathBuf};

use transfix_store::journal::{self, Entry, Event};
use transfix_store::{
    Damage, Durability, FileStore, Kind, Options, Record, Recovered, Store, StoreError, survey,
};
use transfix_testkit::random::Random;
use transfix_testkit::temp::TempDir;

/// Length of a segment's header, which precedes the first record, in bytes.
const HEADER: usize = 256;

const SMALL: Options =
    Options { durability: Durability::Process, segment_bytes_first: 4096, segment_bytes_max: 4096 };

fn open(dir: &Path) -> (FileStore, Recovered) {
    FileStore::open(dir, SMALL, 5).unwrap()
}

fn refusal(dir: &Path) -> StoreError {
    FileStore::open(dir, SMALL, 5).map(|(_, found)| found).unwrap_err()
}

fn body(seq: u64) -> Vec<u8> {
    vec![seq as u8; 20 + seq as usize % 50]
}

fn send(store: &mut FileStore, seq: u64) {
    let record = Record::Outbound { seq, kind: Kind::Application, bytes: &body(seq) };
    store.put(seq, record).unwrap();
}

fn send_and_commit(store: &mut FileStore, seqs: std::ops::RangeInclusive<u64>) {
    for seq in seqs {
        send(store, seq);
        store.commit().unwrap();
    }
}

/// Returns a number for `next_in` none of whose bytes is zero.
const fn next_in(seq: u64) -> u64 {
    seq * 0x0101_0101_0101_0101
}

/// Writes messages that also set the next inbound number, each in a batch of its own.
fn send_numbered(store: &mut FileStore, seqs: std::ops::RangeInclusive<u64>) {
    for seq in seqs {
        send(store, seq);
        store.put(seq, Record::NextIn(next_in(seq))).unwrap();
        store.commit().unwrap();
    }
}

fn assert_found(store: &mut FileStore, seqs: std::ops::RangeInclusive<u64>) {
    for seq in seqs {
        assert_eq!(store.outbound(seq).unwrap().unwrap().bytes, body(seq), "{seq}");
    }
}

fn segment(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("{number:08}.seg"))
}

fn entries(dir: &Path) -> Vec<Entry> {
    journal::read(dir).unwrap().map(Result::unwrap).collect()
}

#[test]
fn numbers_and_messages_outlive_the_store() {
    let dir = TempDir::new();
    let (mut store, _) = open(dir.path());
    send_and_commit(&mut store, 1..=500);
    store.put(9, Record::NextIn(33)).unwrap();
    store.put(9, Record::Inbound { seq: 32, kind: Kind::Admin, bytes: b"in" }).unwrap();
    store.commit().unwrap();
    let numbers = store.numbers();
    drop(store);
    assert!(segment(dir.path(), 5).exists(), "several segments");
    let (mut store, found) = open(dir.path());
    assert_eq!((found.records, found.cut_bytes), (502, 0));
    assert_eq!(store.numbers(), numbers);
    assert_eq!((numbers.next_in, numbers.next_out, numbers.created_ns), (33, 501, 5));
    assert_found(&mut store, 1..=500);
    assert_eq!(store.inbound(32).unwrap().unwrap().bytes, b"in");
    send_and_commit(&mut store, 501..=600);
    assert_found(&mut store, 1..=600);
}

#[test]
fn a_reset_outlives_the_store_and_spares_reading_what_is_before() {
    let dir = TempDir::new();
    let (mut store, _) = open(dir.path());
    send_and_commit(&mut store, 1..=200);
    store.put(77, Record::Reset).unwrap();
    send_and_commit(&mut store, 1..=200);
    let numbers = store.numbers();
    drop(store);
    assert_eq!(entries(dir.path()).len(), 401);
    let (mut store, _) = open(dir.path());
    assert_eq!(store.numbers(), numbers);
    assert_eq!(numbers.created_ns, 77);
    assert_found(&mut store, 1..=200);
    drop(store);
    fs::remove_file(segment(dir.path(), 0)).unwrap();
    let (mut store, _) = open(dir.path());
    assert_found(&mut store, 1..=200);
}

#[test]
fn what_is_not_committed_is_cut() {
    let dir = TempDir::new();
    let (mut store, _) = open(dir.path());
    send_and_commit(&mut store, 1..=3);
    (4..=6).for_each(|seq| send(&mut store, seq));
    drop(store);
    assert_eq!(entries(dir.path()).len(), 3);
    let (mut store, found) = open(dir.path());
    assert_eq!(found.records, 3);
    assert!(found.cut_bytes > 60);
    assert_eq!(store.outbound(4).unwrap(), None);
    send_and_commit(&mut store, 4..=9);
    drop(store);
    let (mut store, found) = open(dir.path());
    assert_eq!((found.records, found.cut_bytes), (9, 0));
    assert_found(&mut store, 1..=9);
}

/// The form of the last of three batches in the test.
#[derive(Clone, Copy, Debug)]
enum Last {
    /// Messages only.
    Plain,
    /// Each message is stored with the next inbound number.
    Numbered,
}

/// Writes three batches; returns the file's bytes. The last batch, of three messages, lies between
/// the two returned offsets.
fn three_batches(dir: &Path, form: Last) -> (Vec<u8>, usize, usize) {
    let (mut store, _) = open(dir);
    send_and_commit(&mut store, 1..=2);
    let path = segment(dir, 0);
    let used = |bytes: &[u8]| bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    let start = used(&fs::read(&path).unwrap()).next_multiple_of(8);
    for seq in 3..=5 {
        send(&mut store, seq);
        if let Last::Numbered = form {
            store.put(seq, Record::NextIn(next_in(seq))).unwrap();
        }
    }
    store.commit().unwrap();
    drop(store);
    let bytes = fs::read(path).unwrap();
    let end = used(&bytes);
    (bytes, start, end)
}

fn assert_cut(dir: &Path, bytes: &[u8], case: &str) {
    fs::write(segment(dir, 0), bytes).unwrap();
    assert_eq!(entries(dir).len(), 2, "{case}");
    let (mut store, found) = open(dir);
    assert_eq!(found.records, 2, "{case}");
    assert_eq!((store.numbers().next_in, store.numbers().next_out), (1, 3), "{case}");
    send_and_commit(&mut store, 3..=3);
    drop(store);
    let (mut store, found) = open(dir);
    assert_eq!((found.records, found.cut_bytes), (3, 0), "{case}");
    assert_found(&mut store, 1..=3);
    drop(store);
    drop(fs::remove_file(segment(dir, 1)));
}

#[test]
fn a_batch_torn_at_any_byte_is_cut_whole() {
    for form in [Last::Plain, Last::Numbered] {
        let dir = TempDir::new();
        let (bytes, start, end) = three_batches(dir.path(), form);
        for at in start..end {
            let mut zeroed = bytes.clone();
            zeroed[at..].fill(0);
            assert_cut(dir.path(), &zeroed, &format!("{form:?}: zero from {at}"));
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x40;
            assert_cut(dir.path(), &flipped, &format!("{form:?}: flipped at {at}"));
            let mut late = bytes.clone();
            late[start..=at].fill(0);
            assert_cut(dir.path(), &late, &format!("{form:?}: zero up to {at}"));
        }
    }
}

#[test]
fn the_next_inbound_number_of_a_message_is_a_record_to_readers() {
    let dir = TempDir::new();
    let (mut store, _) = open(dir.path());
    send_numbered(&mut store, 1..=200);
    // The next inbound number is put alone, at another time than the message, twice, and after a
    // reset.
    store.put(201, Record::NextIn(7)).unwrap();
    store.commit().unwrap();
    send(&mut store, 201);
    store.put(202, Record::NextIn(8)).unwrap();
    store.put(202, Record::NextIn(9)).unwrap();
    store.commit().unwrap();
    store.put(203, Record::Reset).unwrap();
    store.put(203, Record::NextIn(3)).unwrap();
    store.put(203, Record::NextIn(4)).unwrap();
    store.commit().unwrap();
    let numbers = store.numbers();
    assert_eq!((numbers.next_in, numbers.next_out, numbers.created_ns), (4, 1, 203));
    drop(store);
    let all = entries(dir.path());
    let next: Vec<_> = all
        .iter()
        .filter_map(|entry| match entry.event {
            Event::NextIn(next) => Some((entry.time_ns, next)),
            _ => None,
        })
        .collect();
    let numbered = (1..=200).map(|seq| (seq, next_in(seq)));
    let rest = [(201, 7), (202, 8), (202, 9), (203, 3), (203, 4)];
    assert_eq!(next, numbered.chain(rest).collect::<Vec<_>>());
    let places = all
        .windows(2)
        .map(|two| (two[0].segment, two[0].offset).cmp(&(two[1].segment, two[1].offset)).is_lt());
    assert!(places.into_iter().all(|is_ascending| is_ascending));
    let survey = survey(dir.path()).unwrap();
    assert_eq!((survey.outbound, survey.marks), (201, 206), "{survey:?}");
    assert_eq!((survey.numbers, survey.faults), (Some(numbers), vec![]));
    let new = TempDir::new();
    let repaired = FileStore::repair(dir.path(), new.path(), None).unwrap();
    assert_eq!(repaired.records, all.len() as u64);
    assert_eq!(entries(new.path()), all);
    for dir in [dir.path(), new.path()] {
        let (store, _) = open(dir);
        assert_eq!(store.numbers(), numbers);
    }
}

#[test]
fn a_file_that_has_lost_its_end_is_refused_and_repaired() {
    let dir = TempDir::new();
    let (bytes, start, _) = three_batches(dir.path(), Last::Plain);
    for len in (HEADER..bytes.len()).step_by(8) {
        fs::write(segment(dir.path(), 0), &bytes[..len]).unwrap();
        let StoreError::Damaged { offset, reason, .. } = refusal(dir.path()) else { panic!() };
        assert_eq!((offset, reason), (len as u64, Damage::Short));
        let faults = survey(dir.path()).unwrap().faults;
        assert_eq!((faults.len(), faults[0].reason, faults[0].is_all_known), (1, reason, false));
        let last = journal::read(dir.path()).unwrap().last().unwrap();
        assert!(matches!(last, Err(StoreError::Damaged { reason: Damage::Short, .. })));
        let new = TempDir::new();
        let repaired = FileStore::repair(dir.path(), new.path(), None).unwrap();
        assert_eq!(repaired.lost_bytes, faults[0].lost_bytes, "{len}");
        let (mut store, found) = open(new.path());
        assert_eq!(found.cut_bytes, 0);
        assert!(len < start || store.numbers().next_out >= 3, "{len}");
        let next = store.numbers().next_out;
        send_and_commit(&mut store, next..=next);
        let repaired = fs::metadata(segment(new.path(), 0)).unwrap();
        assert_eq!(repaired.len(), bytes.len() as u64);
    }
}

#[test]
fn last_segments_that_are_gone_are_missed() {
    let dir = TempDir::new();
    let (mut store, _) = open(dir.path());
    send_and_commit(&mut store, 1..=200);
    let newest = store.numbers();
    drop(store);
    let all: Vec<_> =
        (0..).map(|n| segment(dir.path(), n)).take_while(|path| path.exists()).collect();
    assert!(all.len() > 3);
    for (n, path) in all.iter().enumerate().rev() {
        fs::remove_file(path).unwrap();
        let StoreError::Damaged { path: told, reason, .. } = refusal(dir.path()) else { panic!() };
        let first = if n == 0 { &all[all.len() - 1] } else { path };
        assert_eq!((&told, reason), (first, Damage::Missing));
        let survey = survey(dir.path()).unwrap();
        let fault = survey.faults.last().unwrap();
        assert_eq!((&fault.path, fault.reason, fault.is_all_known), (first, reason, false));
        if n == 0 {
            break;
        }
        let last = journal::read(dir.path()).unwrap().last().unwrap();
        assert!(matches!(last, Err(StoreError::Damaged { reason: Damage::Missing, .. })));
        let new = TempDir::new();
        FileStore::repair(dir.path(), new.path(), None).unwrap();
        let (mut store, _) = open(new.path());
        let next = store.numbers().next_out;
        assert!(1 < next && next < newest.next_out);
        assert_found(&mut store, 1..=next - 1);
        drop(store);
        open(new.path());
    }
}

#[test]
fn what_the_lock_file_cannot_tell_is_no_damage() {
    let dir = TempDir::new();
    let (mut store, _) = open(dir.path());
    send_and_commit(&mut store, 1..=200);
    drop(store);
    let lock = dir.path().join("lock");
    let noted = fs::read(&lock).unwrap();
    let mut torn = noted.clone();
    torn[0] ^= 0x10;
    for bytes in [&torn[..], &[], &[0; 12], &noted[..11]] {
        fs::write(&lock, bytes).unwrap();
        assert_eq!(survey(dir.path()).unwrap().faults, []);
        let (mut store, _) = open(dir.path());
        assert_found(&mut store, 1..=200);
        assert!(fs::read(&lock).unwrap() == noted, "it is noted again");
    }
    fs::remove_file(&lock).unwrap();
    open(dir.path());
    assert!(fs::read(&lock).unwrap() == noted);
}

#[test]
fn damage_before_a_sound_batch_is_refused_and_repaired_on_request() {
    let dir = TempDir::new();
    let (bytes, start, _) = three_batches(dir.path(), Last::Plain);
    for at in HEADER..start {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        fs::write(segment(dir.path(), 0), &flipped).unwrap();
        let error = refusal(dir.path());
        let StoreError::Damaged { path, offset, reason } = error else { panic!("{error}") };
        assert_eq!((path, reason), (segment(dir.path(), 0), Damage::Record));
        assert!(offset as usize <= at && at < offset as usize + 88, "{offset} for {at}");
        let last = journal::read(dir.path()).unwrap().last().unwrap();
        assert!(matches!(last, Err(StoreError::Damaged { .. })));
        let new = TempDir::new();
        let repaired = FileStore::repair(dir.path(), new.path(), None).unwrap();
        assert_eq!((repaired.segments, repaired.records), (1, 4), "{at}");
        assert!(repaired.lost_bytes >= 40);
        assert_eq!(fs::read(segment(dir.path(), 0)).unwrap(), flipped, "the original stays");
        let survey = survey(dir.path()).unwrap();
        let fault = &survey.faults[0];
        assert_eq!((fault.offset, fault.reason), (offset, Damage::Record));
        assert_eq!(fault.lost_bytes, repaired.lost_bytes);
        assert!(fault.lost_outbound.is_some_and(|(first, last)| first <= last && last <= 2));
        let (mut store, found) = open(new.path());
        assert_eq!((found.records, store.numbers().next_out), (4, 6), "{at}");
        assert_found(&mut store, 3..=5);
    }
}

#[test]
fn a_damaged_header_is_refused_and_repaired() {
    let dir = TempDir::new();
    let (bytes, _, _) = three_batches(dir.path(), Last::Plain);
    for at in 0..HEADER {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        fs::write(segment(dir.path(), 0), &flipped).unwrap();
        assert!(matches!(refusal(dir.path()), StoreError::Damaged { offset: 0, .. }), "{at}");
        let new = TempDir::new();
        let repaired = FileStore::repair(dir.path(), new.path(), None).unwrap();
        assert_eq!((repaired.segments, repaired.lost_bytes), (1, 0), "{at}");
        assert_found(&mut open(new.path()).0, 1..=5);
    }
}

#[test]
fn a_missing_segment_is_refused_and_bridged() {
    let dir = TempDir::new();
    let (mut store, _) = open(dir.path());
    send_and_commit(&mut store, 1..=300);
    let numbers = store.numbers();
    drop(store);
    fs::remove_file(segment(dir.path(), 2)).unwrap();
    let StoreError::Damaged { path, reason, .. } = refusal(dir.path()) else { panic!() };
    assert_eq!((path, reason), (segment(dir.path(), 2), Damage::Missing));
    let last = journal::read(dir.path()).unwrap().last().unwrap();
    assert!(matches!(last, Err(StoreError::Damaged { reason: Damage::Missing, .. })));
    let faults = survey(dir.path()).unwrap().faults;
    assert_eq!((faults.len(), faults[0].reason), (1, Damage::Missing));
    assert!(!faults[0].is_all_known);
    let (first, last) = faults[0].lost_outbound.unwrap();
    assert!(20 < first && first < last && last < 250, "{faults:?}");
    let (new, again) = (TempDir::new(), TempDir::new());
    assert_eq!(FileStore::repair(dir.path(), new.path(), None).unwrap().segments, 2);
    let (mut store, _) = open(new.path());
    assert_eq!(store.numbers(), numbers);
    assert_found(&mut store, 1..=20);
    assert_found(&mut store, 250..=300);
    assert!(matches!(store.outbound(first), Ok(None)) && matches!(store.outbound(last), Ok(None)));
    drop(store);
    let repaired = FileStore::repair(new.path(), again.path(), None).unwrap();
    assert_eq!(repaired.segments, 0, "a sound store is copied");
    assert_eq!(survey(new.path()).unwrap().faults, []);
    let into_itself = FileStore::repair(new.path(), again.path(), None).unwrap_err();
    assert!(matches!(into_itself, StoreError::Io { .. }), "never over another store");
}

#[test]
fn one_store_at_a_time() {
    let dir = TempDir::new();
    let (store, _) = open(dir.path());
    assert!(matches!(refusal(dir.path()), StoreError::Locked { .. }));
    let new = TempDir::new();
    let repaired = FileStore::repair(dir.path(), new.path(), None);
    assert!(matches!(repaired, Err(StoreError::Locked { .. })));
    assert!(FileStore::is_open(dir.path()).unwrap());
    drop(store);
    assert!(!FileStore::is_open(dir.path()).unwrap() && !FileStore::is_open(new.path()).unwrap());
    open(dir.path());
}

#[test]
fn a_journal_is_read_while_it_is_written() {
    let dir = TempDir::new();
    let (mut store, _) = open(dir.path());
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || send_and_commit(&mut store, 1..=3000));
        while !writer.is_finished() {
            for (entry, seq) in journal::read(dir.path()).unwrap().zip(1..) {
                let Event::Outbound(message) = entry.unwrap().event else { panic!() };
                assert_eq!((message.seq, message.bytes), (seq, body(seq)));
            }
        }
    });
    assert_eq!(entries(dir.path()).len(), 3000);
    assert!(journal::read_file(&segment(dir.path(), 3)).unwrap().count() > 10);
    let listed = journal::segments(dir.path()).unwrap();
    assert!(listed.contains(&segment(dir.path(), 3)) && listed.is_sorted(), "the oldest first");
    let of_each = listed.iter().map(|path| journal::read_file(path).unwrap().count());
    assert_eq!(of_each.sum::<usize>(), 3000, "together they are all of it");
}

#[test]
fn a_failed_write_poisons_until_the_store_is_opened_again() {
    let dir = TempDir::new();
    let (there, gone) = (dir.path().join("there"), dir.path().join("gone"));
    let (mut store, _) = open(&there);
    send_and_commit(&mut store, 1..=2);
    fs::rename(&there, &gone).unwrap();
    let mut sent = 2;
    let error = loop {
        let record = Record::Outbound { seq: sent + 1, kind: Kind::Admin, bytes: &body(sent + 1) };
        match store.put(1, record).and_then(|()| store.commit()) {
            Ok(_) => sent += 1,
            Err(error) => break error,
        }
    };
    let StoreError::Io { path, .. } = &error else { panic!("{error}") };
    assert!(path.starts_with(&there), "{error}");
    assert!(matches!(store.put(1, Record::Reset), Err(StoreError::Poisoned)));
    assert!(matches!(store.commit(), Err(StoreError::Poisoned)));
    assert!(matches!(store.outbound(1), Err(StoreError::Poisoned)));
    drop(store);
    fs::rename(&gone, &there).unwrap();
    let (mut store, found) = open(&there);
    assert_eq!(found.records, sent);
    send_and_commit(&mut store, sent + 1..=sent + 100);
    assert_found(&mut store, 1..=sent + 100);
}

#[test]
fn a_batch_longer_than_a_segment_moves_seldom() {
    let dir = TempDir::new();
    let (mut store, _) = open(dir.path());
    for seq in 1..=2_000 {
        send(&mut store, seq);
    }
    store.commit().unwrap();
    drop(store);
    let files = fs::read_dir(dir.path()).unwrap().count();
    assert!(files < 12, "{files} files for one batch");
    let (mut store, found) = open(dir.path());
    assert_eq!(found.cut_bytes, 0);
    assert_found(&mut store, 1..=2_000);
}

#[test]
fn too_large_a_record_changes_nothing() {
    let dir = TempDir::new();
    let (mut store, _) = open(dir.path());
    let bytes = vec![1; 16 << 20];
    let record = Record::Outbound { seq: 1, kind: Kind::Admin, bytes: &bytes };
    assert!(matches!(store.put(1, record), Err(StoreError::TooLarge { .. })));
    send_and_commit(&mut store, 1..=1);
    assert_found(&mut store, 1..=1);
}

#[test]
fn random_damage_never_panics_and_can_always_be_repaired() {
    let dir = TempDir::new();
    let (mut store, _) = open(dir.path());
    send_and_commit(&mut store, 1..=60);
    store.put(3, Record::Reset).unwrap();
    send_and_commit(&mut store, 1..=60);
    send_numbered(&mut store, 61..=100);
    drop(store);
    let files: Vec<_> =
        (0..3).map(|number| fs::read(segment(dir.path(), number)).unwrap()).collect();
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let dir = TempDir::new();
        for (number, file) in files.iter().enumerate() {
            let mut bytes = file.clone();
            for _ in 0..random.below(4) {
                let start = random.below(bytes.len());
                let end = bytes.len().min(start + 1 + random.below(40));
                match random.below(4) {
                    0 => bytes[start..end].fill_with(|| random.next() as u8),
                    1 => bytes[start] ^= 1 << random.below(8),
                    2 => bytes.truncate(end),
                    _ => bytes[start..end].fill(0),
                }
            }
            if random.below(20) > 0 {
                fs::write(segment(dir.path(), number as u32), bytes).unwrap();
            }
        }
        if let Ok(journal) = journal::read(dir.path()) {
            journal.for_each(drop);
        }
        let (new, mut place) = (TempDir::new(), dir.path());
        let surveyed = survey(place).unwrap();
        if FileStore::open(place, SMALL, 5).is_err() {
            assert!(!surveyed.faults.is_empty(), "seed {seed}");
            FileStore::repair(place, new.path(), None).unwrap();
            place = new.path();
        }
        let again = FileStore::open(place, SMALL, 5);
        let (mut store, _) = again.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let next = store.numbers().next_out;
        send(&mut store, next);
        store.commit().unwrap();
        assert_found(&mut store, next..=next);
    }
}
