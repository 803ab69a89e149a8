//! Foreign data in a store: batches inside messages, segments and stores of other sessions, and
//! misplaced files and batches.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::fs;
use std::path::{Path, PathBuf};

use transfix_store::journal::{self, Direction};
use transfix_store::{
    Damage, Durability, Fault, FileStore, Kind, Options, Record, Store, StoreError, survey,
};
use transfix_testkit::temp::TempDir;

const OWN: &str = "FIX.4.4-VENUE-CLIENT";
const OTHER: &str = "FIX.4.4-VENUE-OTHER";
/// Length of a segment's header, which precedes the first record, in bytes.
const HEADER: usize = 256;
const OPTIONS: Options =
    Options { durability: Durability::Process, segment_bytes_first: 4096, segment_bytes_max: 4096 };

fn open(session: &str, dir: &Path) -> Result<FileStore, StoreError> {
    FileStore::open_for(session, dir, OPTIONS, 5).map(|(store, _)| store)
}

fn segment(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("{number:08}.seg"))
}

fn send(store: &mut FileStore, seqs: std::ops::RangeInclusive<u64>, bytes: &[u8]) {
    for seq in seqs {
        store.put(seq, Record::Outbound { seq, kind: Kind::Application, bytes }).unwrap();
        store.commit().unwrap();
    }
}

/// Fills a store of `session` with messages of 100 bytes, in several segments; returns the paths of
/// the segments.
fn filled(session: &str, dir: &Path, messages: u64) -> Vec<PathBuf> {
    let mut store = open(session, dir).unwrap();
    send(&mut store, 1..=messages, &[b'm'; 100]);
    (0..).map(|n| segment(dir, n)).take_while(|path| path.exists()).collect()
}

/// Returns the sequence numbers of all sent messages, in the order of the journal.
fn sent(dir: &Path) -> Vec<u64> {
    let entries = journal::read(dir).unwrap().map(Result::unwrap);
    let sent = entries.filter_map(|entry| match entry.message() {
        Some((Direction::Outbound, message)) => Some(message.seq),
        _ => None,
    });
    sent.collect()
}

fn refusal(session: &str, dir: &Path) -> (PathBuf, Damage) {
    match open(session, dir).unwrap_err() {
        StoreError::Damaged { path, reason, .. } => (path, reason),
        error => panic!("{error}"),
    }
}

/// Repairs the store; returns the numbers of the messages that remain.
fn repaired(dir: &Path) -> Vec<u64> {
    let new = TempDir::new();
    FileStore::repair(dir, new.path(), None).unwrap();
    assert_eq!(survey(new.path()).unwrap().faults, []);
    open(OWN, new.path()).unwrap();
    sent(new.path())
}

fn seen(faults: &[Fault]) -> Vec<(Damage, &str)> {
    faults.iter().map(|fault| (fault.reason, &*fault.seen)).collect()
}

/// Returns two segments without their header, each with a batch that sets both next numbers far
/// ahead. The first segment has an older format, whose checksums anyone can compute; the second
/// belongs to another store in the current format.
fn planted() -> [Vec<u8>; 2] {
    let dir = TempDir::new();
    let mut store = open(OTHER, dir.path()).unwrap();
    store.put(1, Record::NextOut(900_000)).unwrap();
    // Because its time differs, this number is stored in a record of its own.
    store.put(2, Record::NextIn(800_000)).unwrap();
    store.commit().unwrap();
    drop(store);
    let mut today = fs::read(segment(dir.path(), 0)).unwrap()[HEADER..HEADER + 64].to_vec();
    let theirs = today.clone();
    for record in today.chunks_mut(32) {
        record[28..32].fill(0);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&record[..4]), &record[8..]);
        record[4..8].copy_from_slice(&crc.to_le_bytes());
    }
    [today, theirs]
}

/// Returns a message body with many copies of the batch, so that one copy is at an offset where a
/// record can begin.
fn body(batch: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for n in 0..16 {
        body.extend(std::iter::repeat_n(b'x', n % 8));
        body.extend_from_slice(batch);
    }
    body
}

#[test]
fn batches_inside_a_message_that_is_torn_are_the_message() {
    for (form, batch) in planted().into_iter().enumerate() {
        let dir = TempDir::new();
        let mut store = open(OWN, dir.path()).unwrap();
        send(&mut store, 1..=3, b"ours");
        let bytes = &body(&batch)[..];
        let record = Record::Inbound { seq: 1, kind: Kind::Application, bytes };
        store.put(4, record).unwrap();
        // The process ends before the commit, so the length word of the batch is missing.
        drop(store);
        let found = survey(dir.path()).unwrap();
        assert_eq!(found.faults, [], "{form}");
        assert!(found.unfinished_bytes > 1000, "{form}");
        assert_eq!(found.imitations > 0, form == 0, "{form}: {}", found.imitations);
        assert_eq!(sent(dir.path()), [1, 2, 3]);
        let (store, found) = FileStore::open_for(OWN, dir.path(), OPTIONS, 5).unwrap();
        assert!(found.cut_bytes > 1000);
        assert_eq!((store.numbers().next_in, store.numbers().next_out), (1, 4), "{form}");
    }
}

#[test]
fn repair_takes_no_numbers_out_of_the_bodies_of_messages() {
    for (form, batch) in planted().into_iter().enumerate() {
        let dir = TempDir::new();
        let mut store = open(OWN, dir.path()).unwrap();
        let bytes = &body(&batch)[..];
        store.put(4, Record::Inbound { seq: 1, kind: Kind::Application, bytes }).unwrap();
        store.commit().unwrap();
        send(&mut store, 1..=3, b"ours");
        drop(store);
        let mut file = fs::read(segment(dir.path(), 0)).unwrap();
        file[HEADER + 16] ^= 1;
        fs::write(segment(dir.path(), 0), file).unwrap();
        assert_eq!(refusal(OWN, dir.path()), (segment(dir.path(), 0), Damage::Record));
        let found = survey(dir.path()).unwrap();
        assert_eq!(seen(&found.faults), [(Damage::Record, "")], "{form}");
        assert_eq!(found.imitations > 0, form == 0, "{form}");
        let new = TempDir::new();
        FileStore::repair(dir.path(), new.path(), None).unwrap();
        let store = open(OWN, new.path()).unwrap();
        assert_eq!((store.numbers().next_in, store.numbers().next_out), (1, 4), "{form}");
    }
}

#[test]
fn a_store_of_another_session_is_refused_and_stays_as_it_is() {
    let dir = TempDir::new();
    let files = filled(OTHER, dir.path(), 3);
    let before = fs::read(&files[0]).unwrap();
    let error = open(OWN, dir.path()).unwrap_err();
    let said = error.to_string();
    assert!(said.contains(&format!("belongs to the session {OTHER}, not to {OWN}")), "{said}");
    assert!(fs::read(&files[0]).unwrap() == before);
    assert_eq!(survey(dir.path()).unwrap().session, OTHER);
    // A caller that names no session may read and set the numbers; the owner of the store does not
    // change.
    drop(FileStore::open(dir.path(), OPTIONS, 5).unwrap());
    drop(open(OTHER, dir.path()).unwrap());
    // A repair with a new name gives the store to a renamed session.
    let new = TempDir::new();
    FileStore::repair(dir.path(), new.path(), Some(OWN)).unwrap();
    drop(open(OWN, new.path()).unwrap());
    assert!(matches!(open(OTHER, new.path()), Err(StoreError::Foreign { .. })));
    assert_eq!(sent(new.path()), [1, 2, 3]);
}

#[test]
fn a_store_that_is_nobodys_belongs_to_the_session_that_opens_it() {
    let dir = TempDir::new();
    let (mut store, _) = FileStore::open(dir.path(), OPTIONS, 5).unwrap();
    send(&mut store, 1..=3, b"ours");
    drop(store);
    assert_eq!(survey(dir.path()).unwrap().session, "");
    drop(open(OWN, dir.path()).unwrap());
    assert!(matches!(open(OTHER, dir.path()), Err(StoreError::Foreign { .. })));
    assert_eq!(sent(dir.path()), [1, 2, 3]);
}

#[test]
fn a_segment_of_another_store_is_refused_and_left_out() {
    for session in [OTHER, OWN] {
        let (dir, other) = (TempDir::new(), TempDir::new());
        let (files, theirs) = (filled(OWN, dir.path(), 120), filled(session, other.path(), 120));
        assert!(files.len() > 4);
        let all = sent(dir.path());
        let own: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
        for n in 0..files.len() {
            fs::copy(&theirs[n], &files[n]).unwrap();
            let (path, reason) = match (open(OWN, dir.path()), n + 1 == files.len()) {
                // When a store is opened, the owner is checked in the newest segment only.
                (Err(StoreError::Foreign { .. }), true) if session == OTHER => {
                    (files[n].clone(), Damage::Store)
                }
                (Err(StoreError::Damaged { path, reason, .. }), _) => (path, reason),
                (opened, _) => panic!("{n}: {opened:?}"),
            };
            assert_eq!(reason, Damage::Store, "{n}");
            assert!(path == files[n] || path == files[n + 1], "{n}: {path:?}");
            let found = survey(dir.path()).unwrap();
            let words = if session == OTHER {
                format!("the segment belongs to a store of the session {OTHER}")
            } else {
                format!("the segment belongs to a store of the session {OWN}")
            };
            assert_eq!(seen(&found.faults)[0], (Damage::Store, &*words), "{n}");
            assert_eq!(found.faults[0].path, files[n]);
            let last = journal::read(dir.path()).unwrap().last().unwrap();
            assert!(matches!(last, Err(StoreError::Damaged { reason: Damage::Store, .. })), "{n}");
            let kept = repaired(dir.path());
            assert!(kept.len() < all.len() && kept.iter().all(|seq| all.contains(seq)), "{n}");
            assert!(kept.is_sorted(), "{n}: nothing twice");
            fs::write(&files[n], &own[n]).unwrap();
        }
        assert_eq!(repaired(dir.path()), all);
    }
}

#[test]
fn two_segments_exchanged_are_refused_named_and_repaired_without_loss() {
    let dir = TempDir::new();
    let files = filled(OWN, dir.path(), 120);
    let all = sent(dir.path());
    let exchange = |one: usize, other: usize| {
        let spare = dir.path().join("spare");
        fs::rename(&files[one], &spare).unwrap();
        fs::rename(&files[other], &files[one]).unwrap();
        fs::rename(&spare, &files[other]).unwrap();
    };
    for one in 0..files.len() {
        for other in 0..one {
            exchange(one, other);
            assert_eq!(refusal(OWN, dir.path()).1, Damage::Name);
            let found = survey(dir.path()).unwrap();
            let words = [one, other].map(|n| format!("it is segment {n}"));
            let expected = [(Damage::Name, &*words[1]), (Damage::Name, &*words[0])];
            let mut told = seen(&found.faults);
            told.sort_by_key(|(_, seen)| *seen);
            assert_eq!(told, expected);
            assert!(found.faults.iter().all(|fault| fault.is_all_known && fault.lost_bytes == 0));
            assert!(found.faults.iter().all(|fault| fault.lost_outbound.is_none()));
            assert_eq!(repaired(dir.path()), all, "{one} and {other}");
            exchange(one, other);
        }
    }
    // If a copy of one segment replaces another, the replaced segment is lost, and no message
    // appears twice.
    fs::copy(&files[1], &files[3]).unwrap();
    let found = survey(dir.path()).unwrap();
    assert_eq!(seen(&found.faults)[0], (Damage::Name, "the file is a copy of segment 1"));
    let kept = repaired(dir.path());
    assert!(kept.is_sorted() && kept.len() < all.len());
}

/// Returns the offsets at which the batches of the file begin and end.
fn batches(dir: &Path, file: &Path) -> Vec<usize> {
    let entries = journal::read(dir).unwrap().map(Result::unwrap);
    let entries = entries.filter(|entry| segment(dir, entry.segment as usize) == *file);
    entries.map(|entry| entry.offset as usize).collect()
}

#[test]
fn two_batches_exchanged_are_refused_named_and_repaired_without_loss() {
    let dir = TempDir::new();
    let files = filled(OWN, dir.path(), 60);
    let all = sent(dir.path());
    for file in [&files[0], files.last().unwrap()] {
        let (sound, places) = (fs::read(file).unwrap(), batches(dir.path(), file));
        let size = places[1] - places[0];
        for (one, other) in [(0, 1), (0, places.len() - 1), (places.len() - 2, places.len() - 1)] {
            let (one, other) = (places[one], places[other]);
            let mut bytes = sound.clone();
            bytes[one..one + size].copy_from_slice(&sound[other..other + size]);
            bytes[other..other + size].copy_from_slice(&sound[one..one + size]);
            fs::write(file, &bytes).unwrap();
            assert_eq!(refusal(OWN, dir.path()), (file.clone(), Damage::Record));
            let found = survey(dir.path()).unwrap();
            let words = [other, one].map(|at| format!("the record belongs at byte {at}"));
            let expected = words.each_ref().map(|words| (Damage::Moved, &**words));
            assert_eq!(seen(&found.faults), expected);
            assert!(found.faults.iter().all(|fault| fault.lost_bytes == 0));
            assert_eq!(repaired(dir.path()), all, "{one} and {other}");
            // If a copy of one batch replaces another, the replaced batch is lost.
            let mut bytes = sound.clone();
            bytes[one..one + size].copy_from_slice(&sound[other..other + size]);
            fs::write(file, &bytes).unwrap();
            assert_eq!(refusal(OWN, dir.path()).1, Damage::Record);
            assert_eq!(repaired(dir.path()).len(), all.len() - 1);
        }
        fs::write(file, sound).unwrap();
    }
}

#[test]
fn records_behind_a_header_that_is_gone_are_still_checked() {
    let dir = TempDir::new();
    let files = filled(OWN, dir.path(), 120);
    let all = sent(dir.path());
    for file in &files {
        let sound = fs::read(file).unwrap();
        let mut bytes = sound.clone();
        bytes[..HEADER].fill(0);
        fs::write(file, &bytes).unwrap();
        assert_eq!(refusal(OWN, dir.path()).1, Damage::Header);
        let found = survey(dir.path()).unwrap();
        assert_eq!(seen(&found.faults), [(Damage::Header, "")]);
        assert!(found.faults[0].is_all_known && found.session == OWN);
        assert_eq!(repaired(dir.path()), all, "{}", file.display());
        // If a batch is damaged too, only this batch is lost.
        bytes[HEADER + 8] ^= 1;
        fs::write(file, &bytes).unwrap();
        assert_eq!(repaired(dir.path()).len(), all.len() - 1, "{}", file.display());
        fs::write(file, sound).unwrap();
    }
}

#[test]
fn the_lock_file_of_another_store_is_told() {
    let (dir, other) = (TempDir::new(), TempDir::new());
    filled(OWN, dir.path(), 3);
    filled(OWN, other.path(), 3);
    fs::copy(other.path().join("lock"), dir.path().join("lock")).unwrap();
    assert_eq!(refusal(OWN, dir.path()), (segment(dir.path(), 0), Damage::Store));
    let found = survey(dir.path()).unwrap();
    assert_eq!(seen(&found.faults), [(Damage::Store, "the lock file belongs to another store")]);
    assert_eq!(repaired(dir.path()), [1, 2, 3]);
}

#[test]
fn a_flipped_version_word_is_damage_and_no_newer_program() {
    let dir = TempDir::new();
    let files = filled(OWN, dir.path(), 3);
    for version in [0, 3, 6, 200] {
        let mut bytes = fs::read(&files[0]).unwrap();
        bytes[8] = version;
        fs::write(&files[0], &bytes).unwrap();
        let said = open(OWN, dir.path()).unwrap_err().to_string();
        assert!(said.contains("unsound segment header; `transfix store verify"), "{said}");
        assert_eq!(seen(&survey(dir.path()).unwrap().faults), [(Damage::Header, "")]);
        assert_eq!(repaired(dir.path()), [1, 2, 3]);
        // A header that a newer program has written has a valid checksum.
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..HEADER]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        fs::write(&files[0], &bytes).unwrap();
        let is_newer = version != 3;
        assert_eq!(refusal(OWN, dir.path()).1 == Damage::Version, is_newer, "{version}");
        assert_eq!(survey(dir.path()).is_err(), is_newer, "{version}");
    }
}
