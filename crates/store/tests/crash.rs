//! A workload that crashes at every disk operation, in every way. Recovery finds everything that
//! the durability promises.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::path::Path;

use transfix_store::{
    Disk, Durability, FileStore, Kind, Numbers, Options, Record, Store, StoreError,
};
use transfix_testkit::disk::{Crash, DiskFault, End, SimDisk};
use transfix_testkit::laws::store_laws;
use transfix_testkit::random::Random;

const DIR: &str = "/store";
const TURNS: u64 = 14;

fn options(durability: Durability) -> Options {
    Options { durability, segment_bytes_first: 300, segment_bytes_max: 900 }
}

fn open(disk: &SimDisk, durability: Durability) -> Result<FileStore<SimDisk>, StoreError> {
    let opened = FileStore::open_on(disk.clone(), Path::new(DIR), options(durability), 1);
    opened.map(|(store, _)| store)
}

/// Returns bytes, as sent by a counterparty, that imitate a batch: it sets the next numbers, and
/// has all checksums that an outsider can compute.
fn planted(turn: u64) -> Vec<u8> {
    let mut record = vec![0; 32];
    record[0] = 32;
    record[8..16].copy_from_slice(&(900_000 + turn).to_le_bytes());
    record[16] = turn as u8;
    (record[24], record[26]) = (4, 3);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&record[..4]), &record[8..]);
    record[4..8].copy_from_slice(&crc.to_le_bytes());
    record
}

/// Puts the records of one turn of a session, and commits them.
fn turn(store: &mut FileStore<SimDisk>, turn: u64) -> Result<(), StoreError> {
    let seq = store.numbers().next_out;
    if turn == 9 {
        store.put(turn, Record::Note("reset by the schedule"))?;
        store.put(turn, Record::Reset)?;
    }
    let bytes = planted(turn).repeat(1 + turn as usize % 4);
    let kind = if turn.is_multiple_of(2) { Kind::Admin } else { Kind::Application };
    let seq = if turn == 9 { 1 } else { seq };
    store.put(turn, Record::Outbound { seq, kind, bytes: &bytes })?;
    store.put(turn, Record::Inbound { seq: turn + 1, kind, bytes: &bytes })?;
    // In some turns this number is stored with the message; in others its time differs, so it needs
    // a record of its own.
    store.put(turn + u64::from(turn % 3 == 1), Record::NextIn(turn + 2))?;
    match turn % 5 {
        // Two messages are queued; two turns later, one of the two is sent.
        0 => (0..2).try_for_each(|n| {
            store.put(turn, Record::Queued { ticket: 2 * turn + n + 1, bytes: &bytes })
        })?,
        2 => store.put(turn, Record::Unqueued(2 * turn - 3))?,
        _ => {}
    }
    store.commit().map(drop)
}

/// The complete content of a store.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    numbers: Numbers,
    messages: Vec<Option<Vec<u8>>>,
    waiting: Vec<(u64, Vec<u8>)>,
}

fn found(store: &mut FileStore<SimDisk>) -> Found {
    let bytes = |found: Option<transfix_store::Stored<'_>>| found.map(|f| f.bytes.to_vec());
    let mut messages = Vec::new();
    for seq in 1..=TURNS + 1 {
        messages.push(bytes(store.outbound(seq).unwrap()));
        messages.push(bytes(store.inbound(seq).unwrap()));
    }
    let (mut waiting, mut next) = (Vec::new(), 0);
    while let Some(found) = store.queued(next).unwrap() {
        next = found.seq + 1;
        waiting.push((found.seq, found.bytes.to_vec()));
    }
    Found { numbers: store.numbers(), messages, waiting }
}

/// Returns the content of the store after each turn, if there is no crash.
fn undisturbed(durability: Durability) -> (Vec<Found>, u64) {
    let disk = SimDisk::new(Random::new(1), Box::new(|| ()));
    let mut store = open(&disk, durability).unwrap();
    let mut all = vec![found(&mut store)];
    for n in 0..TURNS {
        turn(&mut store, n).unwrap();
        all.push(found(&mut store));
    }
    (all, disk.events())
}

/// Runs the workload until the crash at the `event`-th disk operation. Returns the disk and the
/// number of completed turns.
fn work_until(durability: Durability, (event, end): (u64, End), seed: u64) -> (SimDisk, usize) {
    let disk = SimDisk::new(Random::new(seed), Box::new(|| ()));
    disk.arm(event, end);
    let mut done = 0;
    if let Ok(mut store) = open(&disk, durability) {
        for n in 0..TURNS {
            if disk.has_ended() || turn(&mut store, n).is_err() {
                break;
            }
            done += usize::from(!disk.has_ended());
        }
    }
    assert!(disk.has_ended(), "{durability:?}, event {event} {end:?}");
    (disk, done)
}

/// Crashes at the `event`-th disk operation, and checks that the recovered store has the state
/// before or after the interrupted turn.
fn crash_at(durability: Durability, crash: Crash, (event, end): (u64, End), seed: u64) {
    let (expected, _) = undisturbed(durability);
    let (disk, done) = work_until(durability, (event, end), seed);
    let what = format!("{durability:?} {crash:?} event {event} {end:?} seed {seed}, {done} turns");
    disk.restart(crash);
    let mut store = open(&disk, durability).unwrap_or_else(|error| panic!("{what}: {error}"));
    let now = found(&mut store);
    let next = expected.get(done + 1);
    assert!(now == expected[done] || Some(&now) == next, "{what}: {now:?}");
    // The store continues from the recovered state, and survives a second crash.
    let after = expected.iter().position(|e| *e == now).unwrap_or_default() as u64;
    if after < TURNS {
        turn(&mut store, after).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    drop(store);
    // The recovered state may not yet be on the device, so the second crash loses as much as it
    // can.
    disk.restart(match durability {
        Durability::Power => Crash::Power,
        _ => Crash::Process,
    });
    let mut again =
        open(&disk, durability).unwrap_or_else(|error| panic!("{what}, again: {error}"));
    assert_eq!(
        found(&mut again),
        expected[(after as usize + 1).min(TURNS as usize)],
        "{what}, again"
    );
}

fn crash_everywhere(durability: Durability, crash: Crash, seeds: u64) {
    let (_, events) = undisturbed(durability);
    assert!(events > 30, "the workload touches the disk only {events} times");
    for event in 1..=events {
        for end in [End::Before, End::Torn, End::After] {
            for seed in 0..seeds {
                crash_at(durability, crash, (event, end), seed);
            }
        }
    }
}

#[test]
fn process_durability_outlives_the_process() {
    crash_everywhere(Durability::Process, Crash::Process, 6);
}

#[test]
fn power_durability_outlives_the_process() {
    crash_everywhere(Durability::Power, Crash::Process, 6);
}

#[test]
fn power_durability_outlives_the_power() {
    crash_everywhere(Durability::Power, Crash::Power, 24);
}

/// Process durability does not promise that commits survive a power failure. Even then, a store
/// opens with a complete committed state or is refused, and never returns wrong data.
#[test]
fn process_durability_is_refused_or_older_after_the_power() {
    let durability = Durability::Process;
    let (expected, events) = undisturbed(durability);
    let (mut older, mut refused) = (0, 0);
    for (event, end, seed) in (1..=events)
        .flat_map(|event| [End::Before, End::Torn, End::After].map(|end| (event, end)))
        .flat_map(|(event, end)| (0..24).map(move |seed| (event, end, seed)))
    {
        let (disk, done) = work_until(durability, (event, end), seed);
        disk.restart(Crash::Power);
        match open(&disk, durability) {
            Ok(mut store) => {
                let now = found(&mut store);
                assert!(
                    expected[..=(done + 1).min(TURNS as usize)].contains(&now),
                    "event {event} {end:?} seed {seed}, {done} turns: {now:?}"
                );
                older += usize::from(now != expected[done]);
            }
            Err(StoreError::Damaged { .. } | StoreError::Io { .. }) => refused += 1,
            Err(error) => panic!("event {event} {end:?} seed {seed}: {error}"),
        }
    }
    assert!(older > 100 && refused > 10, "{older} {refused}");
}

#[test]
fn the_laws_of_stores_hold_on_this_disk() {
    store_laws(1, || {
        let disk = SimDisk::new(Random::new(1), Box::new(|| ()));
        Box::new(open(&disk, Durability::Power).unwrap())
    });
}

/// If the disk fails, the error is reported and no commit is lost. After the disk is repaired, the
/// store can be opened and continues.
#[test]
fn an_ailing_disk_is_told_and_left() {
    for disk_fault in
        [DiskFault::Full, DiskFault::FailingSync, DiskFault::ReadOnly, DiskFault::Gone]
    {
        let (expected, _) = undisturbed(Durability::Power);
        let disk = SimDisk::new(Random::new(1), Box::new(|| ()));
        let mut store = open(&disk, Durability::Power).unwrap();
        turn(&mut store, 0).unwrap();
        disk.set_fault(Some(disk_fault));
        let mut done = 1;
        let error = loop {
            match turn(&mut store, done) {
                Ok(()) => done += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, StoreError::Io { .. }), "{disk_fault:?}: {error}");
        assert!(matches!(store.commit(), Err(StoreError::Poisoned)), "{disk_fault:?}");
        drop(store);
        disk.set_fault(None);
        disk.restart(Crash::Power);
        let mut store = open(&disk, Durability::Power).unwrap();
        let at = done as usize;
        let now = found(&mut store);
        assert!(now == expected[at] || now == expected[at + 1], "{disk_fault:?}: {now:?}");
    }
}

/// If the disk fails and the store is reopened without being dropped, the store continues where it
/// was, or reports the error again.
#[test]
fn a_store_is_open_again_once_its_disk_is_mended() {
    for durability in [Durability::Process, Durability::Power] {
        for disk_fault in
            [DiskFault::Full, DiskFault::FailingSync, DiskFault::ReadOnly, DiskFault::Gone]
        {
            if (durability, disk_fault) == (Durability::Process, DiskFault::FailingSync) {
                continue;
            }
            let (expected, _) = undisturbed(durability);
            let disk = SimDisk::new(Random::new(1), Box::new(|| ()));
            let mut store = open(&disk, durability).unwrap();
            let mut done = 0;
            for ails_at in [1, 4, 8] {
                while done < ails_at {
                    turn(&mut store, done).unwrap();
                    done += 1;
                }
                disk.set_fault(Some(disk_fault));
                while turn(&mut store, done).is_ok() {
                    done += 1;
                }
                assert!(matches!(store.commit(), Err(StoreError::Poisoned)), "{disk_fault:?}");
                if store.reopen().is_ok() {
                    // Reopening may succeed because it creates no file, but making the next segment
                    // fails again.
                    while turn(&mut store, done).is_ok() {
                        done += 1;
                    }
                }
                disk.set_fault(None);
                store.reopen().unwrap_or_else(|error| panic!("{disk_fault:?}: {error}"));
                let (now, at) = (found(&mut store), done as usize);
                // The batch whose sync failed may be in the store or not.
                assert!(now == expected[at] || now == expected[at + 1], "{disk_fault:?}: {now:?}");
                done += u64::from(now != expected[at]);
            }
            while done < TURNS {
                turn(&mut store, done).unwrap();
                done += 1;
            }
            drop(store);
            disk.restart(if durability == Durability::Power {
                Crash::Power
            } else {
                Crash::Process
            });
            let mut store = open(&disk, durability).unwrap();
            assert_eq!(found(&mut store), expected[TURNS as usize], "{disk_fault:?}");
        }
    }
}

#[test]
fn a_store_has_one_writer() {
    let disk = SimDisk::new(Random::new(1), Box::new(|| ()));
    let store = open(&disk, Durability::Process).unwrap();
    assert!(matches!(open(&disk, Durability::Process), Err(StoreError::Locked { .. })));
    drop(store);
    assert!(open(&disk, Durability::Process).is_ok());
    assert!(!disk.makes_ahead());
}
