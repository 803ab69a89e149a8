//! Commits that a separate thread syncs: with slow and failing syncs, and with a crash at every
//! disk operation. Recovery finds all batches that were reported as safe, and the other batches in
//! order without a gap.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use transfix_store::{
    Committed, Durability, FileStore, Kind, Numbers, Options, Record, Store, StoreError,
};
use transfix_testkit::disk::{Crash, DiskFault, End, SimDisk};
use transfix_testkit::laws::store_laws;
use transfix_testkit::random::Random;

const DIR: &str = "/store";
const TURNS: u64 = 14;

/// Options with segments so small that the workload fills several.
const SMALL: Options =
    Options { durability: Durability::Power, segment_bytes_first: 300, segment_bytes_max: 900 };
/// Options with a segment in which the whole workload fits.
const LARGE: Options =
    Options { durability: Durability::Power, segment_bytes_first: 8192, segment_bytes_max: 8192 };

/// Returns a disk whose stores sync in threads of their own; only the first `syncs` syncs complete.
fn disk(seed: u64, syncs: u64) -> SimDisk {
    let disk = SimDisk::new(Random::new(seed), Box::new(|| ()));
    disk.allow_syncs(syncs);
    disk
}

fn open(disk: &SimDisk, options: Options) -> Result<FileStore<SimDisk>, StoreError> {
    FileStore::open_on(disk.clone(), Path::new(DIR), options, 1).map(|(store, _)| store)
}

/// Puts and commits the records of one turn of a session. Returns the ticket of the commit, or 0 if
/// the batch is safe already.
fn turn(store: &mut FileStore<SimDisk>, turn: u64) -> Result<u64, StoreError> {
    let reset = turn == 9;
    if reset {
        store.put(turn, Record::Reset)?;
    }
    let seq = if reset { 1 } else { store.numbers().next_out };
    // Some of the batches have only one record.
    let bytes = vec![turn as u8; 20 + 30 * (turn as usize % 4)];
    store.put(turn, Record::Outbound { seq, kind: Kind::Application, bytes: &bytes })?;
    if !turn.is_multiple_of(3) {
        store.put(turn, Record::NextIn(turn + 2))?;
        store.put(turn, Record::Queued { ticket: turn, bytes: &bytes })?;
    }
    match store.commit()? {
        Committed::Now => Ok(0),
        Committed::Pending(ticket) => Ok(ticket),
    }
}

/// The complete content of a store.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    numbers: Numbers,
    messages: Vec<Option<Vec<u8>>>,
    waiting: Vec<(u64, Vec<u8>)>,
}

fn found(store: &mut FileStore<SimDisk>) -> Found {
    let messages = (1..=TURNS + 1)
        .map(|seq| store.outbound(seq).unwrap().map(|found| found.bytes.to_vec()))
        .collect();
    let (mut waiting, mut next) = (Vec::new(), 0);
    while let Some(found) = store.queued(next).unwrap() {
        next = found.seq + 1;
        waiting.push((found.seq, found.bytes.to_vec()));
    }
    Found { numbers: store.numbers(), messages, waiting }
}

/// Returns the content of the store after each turn of a run in which no sync completes.
fn undisturbed() -> Vec<Found> {
    let disk = disk(1, 0);
    let mut store = open(&disk, LARGE).unwrap();
    let mut all = vec![found(&mut store)];
    for n in 0..TURNS {
        turn(&mut store, n).unwrap();
        all.push(found(&mut store));
    }
    disk.allow_syncs(u64::MAX);
    all
}

fn wait_for(store: &mut FileStore<SimDisk>, ticket: u64) -> Result<(), StoreError> {
    while store.safe()? < ticket {
        thread::yield_now();
    }
    Ok(())
}

/// The times at which syncs complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// A single sync at a time completes, after turns that the seed determines.
    Chosen,
    /// Syncs complete as the operating system schedules their threads.
    Free,
}

/// Runs the workload until the disk ends the process. Returns the numbers of turns that were
/// completed and that were reported as safe.
fn work(disk: &SimDisk, options: Options, pace: Pace, seed: u64) -> (usize, usize) {
    let (mut random, mut done, mut safe) = (Random::new(seed), 0, 0);
    let Ok(mut store) = open(disk, options) else { return (0, 0) };
    let mut tickets = Vec::new();
    for n in 0..TURNS {
        let Ok(ticket) = turn(&mut store, n) else { break };
        if disk.has_ended() {
            break;
        }
        done += 1;
        tickets.push(ticket);
        if pace == Pace::Chosen && random.below(2) == 0 {
            let next = store.safe().unwrap() + 1;
            disk.allow_more_syncs(1);
            wait_for(&mut store, next).unwrap();
        }
        let ticket = store.safe().unwrap();
        if disk.has_ended() {
            break;
        }
        safe = tickets.iter().take_while(|one| **one <= ticket).count();
    }
    disk.allow_syncs(u64::MAX);
    (done, safe)
}

fn crash_everywhere(options: Options, pace: Pace, crash: Crash, seeds: u64) {
    let expected = undisturbed();
    let syncs = if pace == Pace::Chosen { 0 } else { u64::MAX };
    let mut behind = 0;
    for seed in 0..seeds {
        let whole = disk(seed, syncs);
        work(&whole, options, pace, seed);
        for event in 1..=whole.events() {
            for end in [End::Before, End::Torn, End::After] {
                let what = format!("{options:?} {pace:?} {crash:?} {event} {end:?} seed {seed}");
                let disk = disk(seed, syncs);
                disk.arm(event, end);
                let (done, safe) = work(&disk, options, pace, seed);
                disk.restart(crash);
                let mut store = open(&disk, options).unwrap_or_else(|e| panic!("{what}: {e}"));
                let now = found(&mut store);
                let at = expected.iter().position(|one| *one == now);
                let at = at.unwrap_or_else(|| panic!("{what}: no prefix: {now:?}"));
                assert!(safe <= at && at <= done + 1, "{what}: {safe} {at} {done}");
                behind += usize::from(at < done);
                if (at as u64) < TURNS {
                    turn(&mut store, at as u64).unwrap();
                }
                drop(store);
                disk.restart(Crash::Power);
                let mut again = open(&disk, options).unwrap_or_else(|e| panic!("{what}: {e}"));
                let next = (at + 1).min(TURNS as usize);
                assert_eq!(found(&mut again), expected[next], "{what}, again");
            }
        }
    }
    assert!(behind > 0, "each crash has found everything on the device");
}

#[test]
fn what_was_safe_outlives_the_power() {
    crash_everywhere(LARGE, Pace::Chosen, Crash::Power, 12);
}

#[test]
fn what_was_safe_outlives_the_process() {
    crash_everywhere(LARGE, Pace::Chosen, Crash::Process, 4);
}

#[test]
fn what_was_safe_outlives_the_power_where_segments_end() {
    crash_everywhere(SMALL, Pace::Free, Crash::Power, 6);
}

#[test]
fn the_laws_of_stores_hold_while_every_sync_hangs() {
    let mut disks = Vec::new();
    store_laws(1, || {
        let disk = disk(1, 0);
        disks.push(disk.clone());
        // The workload fits in one segment: at the end of a segment, the store would wait for the
        // previous sync, which hangs.
        let (durability, segment_bytes_first) = (Durability::Power, 1 << 20);
        let options = Options { durability, segment_bytes_first, ..Options::default() };
        let store = open(&disk, options).unwrap();
        // While syncs hang, dropping the store would wait forever.
        Box::new(Hanging { store, disk })
    });
}

/// A store whose disk completes the hanging syncs when the store is dropped.
struct Hanging {
    store: FileStore<SimDisk>,
    disk: SimDisk,
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.disk.allow_syncs(u64::MAX);
    }
}

impl Store for Hanging {
    fn numbers(&self) -> Numbers {
        self.store.numbers()
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        self.store.put(now_ns, record)
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        self.store.commit()
    }

    fn safe(&mut self) -> Result<u64, StoreError> {
        let safe = self.store.safe()?;
        assert_eq!(safe, 0, "no sync has taken place");
        Ok(safe)
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<transfix_store::Stored<'_>>, StoreError> {
        self.store.outbound(seq)
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<transfix_store::Stored<'_>>, StoreError> {
        self.store.inbound(seq)
    }

    fn queued(&mut self, ticket: u64) -> Result<Option<transfix_store::Stored<'_>>, StoreError> {
        self.store.queued(ticket)
    }
}

#[test]
fn one_sync_serves_all_that_was_committed_meanwhile() {
    let disk = disk(1, 0);
    let mut store = open(&disk, LARGE).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let called = Arc::clone(&calls);
    store.wake_by(Arc::new(move || _ = called.fetch_add(1, Ordering::SeqCst)));
    let tickets: Vec<u64> = (0..9).map(|n| turn(&mut store, n).unwrap()).collect();
    assert_eq!(tickets, (1..=9).collect::<Vec<_>>(), "a commit waits for nothing");
    assert_eq!(store.safe().unwrap(), 0);
    disk.allow_syncs(1);
    wait_for(&mut store, 1).unwrap();
    assert_eq!(store.safe().unwrap(), 1);
    disk.allow_syncs(1);
    wait_for(&mut store, 9).unwrap();
    assert_eq!(store.commit().unwrap(), Committed::Now, "all is safe");
    drop(store);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[test]
fn after_a_failed_sync_nothing_is_safe_any_more() {
    let expected = undisturbed();
    let disk = disk(1, u64::MAX);
    let mut store = open(&disk, LARGE).unwrap();
    let ticket = turn(&mut store, 0).unwrap();
    wait_for(&mut store, ticket).unwrap();
    disk.allow_syncs(0);
    disk.set_fault(Some(DiskFault::FailingSync));
    let tickets = [1, 2, 3].map(|n| turn(&mut store, n).unwrap());
    disk.allow_syncs(u64::MAX);
    let error = wait_for(&mut store, tickets[0]).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    // The disk is repaired, so a second sync would succeed, although the data of the first one is
    // lost.
    disk.set_fault(None);
    for _ in 0..3 {
        assert!(matches!(store.safe(), Err(StoreError::Poisoned)));
        assert!(matches!(store.commit(), Err(StoreError::Poisoned)));
    }
    store.reopen().unwrap();
    let now = found(&mut store);
    assert!(now == expected[1] || now == expected[2], "{now:?}");
    let after = if now == expected[1] { 1 } else { 2 };
    let ticket = turn(&mut store, after).unwrap();
    assert!(ticket > tickets[2], "tickets ascend");
    wait_for(&mut store, ticket).unwrap();
    disk.restart(Crash::Power);
    drop(store);
    let mut store = open(&disk, LARGE).unwrap();
    assert_eq!(found(&mut store), expected[after as usize + 1]);
}

/// A store that is dropped holds its lock until a hanging sync has ended, and completes its
/// commits.
#[test]
fn the_end_of_a_store_waits_for_its_syncs() {
    let expected = undisturbed();
    let disk = disk(1, 0);
    let mut store = open(&disk, LARGE).unwrap();
    for n in 0..TURNS {
        turn(&mut store, n).unwrap();
    }
    thread::scope(|scope| {
        let end = scope.spawn(move || drop(store));
        assert!(matches!(open(&disk, LARGE), Err(StoreError::Locked { .. })));
        disk.allow_syncs(u64::MAX);
        end.join().unwrap();
    });
    disk.restart(Crash::Power);
    assert_eq!(found(&mut open(&disk, LARGE).unwrap()), expected[TURNS as usize]);
}

#[test]
fn a_segment_ends_when_all_of_it_is_on_the_device() {
    let disk = disk(1, u64::MAX);
    let mut store = open(&disk, SMALL).unwrap();
    let mut ticket = 0;
    for n in 0..TURNS {
        ticket = turn(&mut store, n).unwrap();
    }
    wait_for(&mut store, ticket).unwrap();
    disk.restart(Crash::Power);
    drop(store);
    assert_eq!(found(&mut open(&disk, SMALL).unwrap()), undisturbed()[TURNS as usize]);
}
