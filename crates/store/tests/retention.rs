//! The segments that a store keeps, moves and deletes: with real files, and on a simulated disk
//! that crashes at every operation.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

#[cfg(feature = "zstd")]
use transfix_store::survey;
use transfix_store::{
    Compress, Disk, Durability, FileStore, Kind, MemoryStore, Options, Record, Retention, Store,
    StoreError, WhenFull, journal,
};
use transfix_testkit::disk::{Crash, End, SimDisk};
use transfix_testkit::random::Random;
use transfix_testkit::temp::TempDir;

const DAY_NS: u64 = 86_400_000_000_000;
const BYTES: [u8; 100] = [b'x'; 100];

fn options() -> Options {
    Options {
        durability: Durability::Process,
        segment_bytes_first: 1_000,
        segment_bytes_max: 1_000,
    }
}

fn fail(error: &StoreError) {
    panic!("{error}");
}

fn open(dir: &Path, retention: &Retention, now_ns: u64) -> FileStore {
    let (mut store, _) = FileStore::open(&dir.join("store"), options(), now_ns).unwrap();
    store.retain(retention.clone(), now_ns, fail);
    store
}

/// No segment is left behind, even if the thread that moves segments is slower than the burst that
/// fills them.
#[test]
fn a_burst_leaves_no_segment_behind() {
    static GATE: Mutex<()> = Mutex::new(());
    let dir = TempDir::new();
    let (store_dir, archive) = (dir.path().join("store"), dir.path().join("archive"));
    fs::create_dir(&archive).unwrap();
    // The segment cannot be moved, and the thread waits in the function that reports this error.
    let foreign = archive.join("00000000.seg");
    fs::write(&foreign, b"of somebody else").unwrap();
    let gate = GATE.lock().unwrap();
    let (mut store, _) = FileStore::open(&store_dir, options(), 1).unwrap();
    let retention = Retention { bytes_max: 4_000, ..archiving(dir.path()) };
    store.retain(retention, 1, |_| drop(GATE.lock().unwrap()));
    (0..400).for_each(|n| send(&mut store, n).unwrap());
    fs::remove_file(foreign).unwrap();
    drop(gate);
    drop(store);
    let (archived, kept) = (segments(&archive), segments(&store_dir));
    assert_eq!([archived, kept.clone()].concat(), (0..=kept[3]).collect::<Vec<_>>());
    assert_eq!(kept.len(), 4, "{kept:?}");
}

/// Opens and drops the store, so that it completes its pending work.
fn settle(dir: &Path, retention: &Retention, now_ns: u64) {
    drop(open(dir, retention, now_ns));
}

fn send<D: Disk>(store: &mut FileStore<D>, now_ns: u64) -> Result<(), StoreError> {
    let seq = store.numbers().next_out;
    store.put(now_ns, Record::Outbound { seq, kind: Kind::Application, bytes: &BYTES })?;
    store.commit().map(drop)
}

fn reset(store: &mut FileStore, now_ns: u64) {
    store.put(now_ns, Record::Reset).unwrap();
    store.commit().unwrap();
}

/// Returns the numbers of the segments in the directory.
fn segments(dir: &Path) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut numbers: Vec<_> =
        names.filter_map(|name| name.strip_suffix(".seg")?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

fn archiving(dir: &Path) -> Retention {
    Retention { archive_dir: Some(dir.join("archive")), ..Retention::default() }
}

#[test]
fn only_segments_from_before_the_last_reset_are_archived() {
    let dir = TempDir::new();
    let (at, retention) = (dir.path(), archiving(dir.path()));
    let mut store = open(at, &retention, 1);
    (0..30).for_each(|n| send(&mut store, n).unwrap());
    drop(store);
    let all = segments(&at.join("store"));
    assert!(all.len() > 4, "{all:?}");
    assert_eq!(segments(&at.join("archive")), [0_u64; 0], "a resend may need any");

    let mut store = open(at, &retention, 40);
    reset(&mut store, 40);
    drop(store);
    assert_eq!(segments(&at.join("archive")), [0_u64; 0], "opening still needs them");
    let mut store = open(at, &retention, 41);
    (0..10).for_each(|n| send(&mut store, n).unwrap());
    drop(store);
    settle(at, &retention, 42);
    let archived = segments(&at.join("archive"));
    assert_eq!(archived, all[..archived.len()]);
    assert!(archived.len() >= all.len() - 1, "{archived:?}");

    let mut store = open(at, &retention, 50);
    assert_eq!(store.numbers().next_out, 11);
    for seq in 1..=10 {
        assert_eq!(store.outbound(seq).unwrap().unwrap().bytes, BYTES);
    }
    // The archive can be read as a journal.
    let entries = journal::read(&at.join("archive")).unwrap().map(Result::unwrap);
    assert!(entries.count() >= 24);
}

/// Returns the number of files in the directory whose names end with `ending`.
#[cfg(feature = "zstd")]
fn ending(dir: &Path, ending: &str) -> usize {
    let all = fs::read_dir(dir).unwrap();
    all.filter(|e| e.as_ref().unwrap().file_name().to_str().unwrap().ends_with(ending)).count()
}

#[cfg(feature = "zstd")]
#[test]
fn what_is_not_needed_is_compressed_read_and_deleted() {
    for archives in [true, false] {
        let dir = TempDir::new();
        let at = dir.path();
        let kept = if archives { at.join("archive") } else { at.join("store") };
        let retention = Retention {
            archive_dir: archives.then(|| kept.clone()),
            compress: Compress::Zstd,
            delete_after: Duration::from_hours(72),
            ..Retention::default()
        };
        let mut store = open(at, &retention, DAY_NS);
        for _ in 0..3 {
            (0..30).for_each(|_| send(&mut store, DAY_NS).unwrap());
            reset(&mut store, DAY_NS);
        }
        (0..30).for_each(|_| send(&mut store, DAY_NS).unwrap());
        drop(store);
        let read = |dir: &Path| journal::read(dir).unwrap().map(Result::unwrap).count();
        settle(at, &retention, DAY_NS);
        let (compressed, entries) = (ending(&kept, ".seg.zst"), read(&kept));
        assert!(compressed > 8 && entries > 80, "{compressed} {entries}");
        let plain = ending(&kept, ".seg");
        assert_eq!(plain > 0, !archives, "what is needed stays as it is");
        assert_eq!(survey(&kept).unwrap().faults, []);

        // Both files exist if a process is killed between copying and removing a segment.
        let first = fs::read(kept.join("00000000.seg.zst")).unwrap();
        fs::write(kept.join("00000000.seg"), zstd::decode_all(&first[..]).unwrap()).unwrap();
        assert_eq!(read(&kept), entries);
        settle(at, &retention, DAY_NS);
        assert_eq!((ending(&kept, ".seg.zst"), ending(&kept, ".seg")), (compressed, plain));

        let mut store = open(at, &retention, DAY_NS);
        assert_eq!(store.numbers().next_out, 31);
        assert_eq!(store.outbound(30).unwrap().unwrap().bytes, BYTES);
        drop(store);
        settle(at, &retention, 5 * DAY_NS);
        assert_eq!(ending(&kept, ".seg.zst"), 0, "old enough to be deleted");
    }
}

#[cfg(not(feature = "zstd"))]
#[test]
fn without_the_feature_nothing_is_compressed_and_nothing_lost() {
    let dir = TempDir::new();
    let (at, mut retention) = (dir.path(), archiving(dir.path()));
    let mut store = open(at, &retention, 1);
    (0..30).for_each(|n| send(&mut store, n).unwrap());
    reset(&mut store, 40);
    (0..30).for_each(|n| send(&mut store, n).unwrap());
    drop(store);
    settle(at, &retention, 42);
    let archived = segments(&at.join("archive"));
    retention.compress = Compress::Zstd;
    let (mut store, _) = FileStore::open(&at.join("store"), options(), 43).unwrap();
    store.retain(retention, 43, |error| assert!(error.to_string().contains("feature `zstd`")));
    drop(store);
    assert!(!archived.is_empty());
    assert_eq!(segments(&at.join("archive")), archived);
    fs::write(at.join("archive").join("00000009.seg.zst"), b"compressed elsewhere").unwrap();
    let found = journal::read_file(&at.join("archive").join("00000009.seg.zst"));
    assert!(found.err().unwrap().to_string().contains("feature `zstd`"));
}

#[test]
fn what_is_old_enough_and_not_needed_is_deleted() {
    for archives in [true, false] {
        let dir = TempDir::new();
        let at = dir.path();
        let kept = if archives { at.join("archive") } else { at.join("store") };
        let archive_dir = archives.then(|| kept.clone());
        let retention = Retention {
            archive_dir,
            delete_after: Duration::from_hours(72),
            ..Retention::default()
        };
        let mut store = open(at, &retention, DAY_NS);
        for day in 1..=5 {
            (0..14).for_each(|_| send(&mut store, day * DAY_NS).unwrap());
        }
        let all = segments(&at.join("store"));
        reset(&mut store, 5 * DAY_NS);
        (0..14).for_each(|_| send(&mut store, 5 * DAY_NS).unwrap());
        drop(store);
        settle(at, &retention, 5 * DAY_NS);
        let newest = |number: &u64| {
            let path = [at.join("store"), kept.clone()].map(|d| d.join(format!("{number:08}.seg")));
            let path = path.iter().find(|path| path.exists())?;
            journal::read_file(path).unwrap().last().map(|entry| entry.unwrap().time_ns / DAY_NS)
        };
        let old: Vec<_> = all.iter().map(newest).collect();
        assert_eq!(old[0], None, "day 1 is more than three days before day 5: {old:?}");
        assert!(old.contains(&Some(2)) && !old.contains(&Some(1)), "{old:?}");

        // Years later, every unneeded segment is deleted, and no other segment.
        let store = open(at, &retention, 5_000 * DAY_NS);
        assert_eq!(store.numbers().next_out, 15);
        drop(store);
        let needed = segments(&at.join("store"));
        assert!(needed.first() >= all.last(), "{needed:?} after {all:?}");
        let mut store = open(at, &retention, 5_001 * DAY_NS);
        assert!((1..15).all(|seq| store.outbound(seq).unwrap().is_some()));
    }
}

#[test]
fn a_new_day_begins_a_new_segment() {
    let dir = TempDir::new();
    let retention = Retention { rotate_every: Duration::from_hours(24), ..Retention::default() };
    let mut store = open(dir.path(), &retention, DAY_NS);
    for (day, count) in [(1, 1), (1, 1), (2, 2), (2, 2), (4, 3)] {
        send(&mut store, day * DAY_NS + 5).unwrap();
        assert_eq!(segments(&dir.path().join("store")).len(), count, "day {day}");
    }
    drop(store);
    let mut store = open(dir.path(), &retention, 4 * DAY_NS);
    send(&mut store, 4 * DAY_NS + 9).unwrap();
    assert_eq!(segments(&dir.path().join("store")).len(), 3);
    send(&mut store, 5 * DAY_NS).unwrap();
    assert_eq!(segments(&dir.path().join("store")).len(), 4);
    assert!((1..=7).all(|seq| store.outbound(seq).unwrap().is_some()));
}

#[test]
fn beyond_the_limit_the_oldest_messages_are_forgotten() {
    let dir = TempDir::new();
    let (at, mut retention) = (dir.path(), archiving(dir.path()));
    retention.bytes_max = 3_500;
    let mut store = open(at, &retention, 1);
    for seq in 1..=100_u64 {
        // This message is put late: its number is lower than numbers in older segments.
        if seq % 10 == 0 {
            let late = Record::Inbound { seq: 200 - seq, kind: Kind::Admin, bytes: &BYTES };
            store.put(seq, late).unwrap();
        }
        send(&mut store, seq).unwrap();
        assert_eq!(store.outbound(seq).unwrap().unwrap().bytes, BYTES);
    }
    let found = |store: &mut FileStore| -> (Vec<u64>, Vec<u64>) {
        let out = (1..=100).filter(|seq| store.outbound(*seq).unwrap().is_some()).collect();
        (out, (1..=200).filter(|seq| store.inbound(*seq).unwrap().is_some()).collect())
    };
    let before = found(&mut store);
    let (first, last) = (before.0[0], before.0[before.0.len() - 1]);
    assert_eq!((last, (last - first + 1) as usize), (100, before.0.len()), "no gaps: {before:?}");
    assert!((10..=21).contains(&before.0.len()), "{before:?}");
    let numbers = store.numbers();
    drop(store);
    settle(at, &retention, 2);
    assert!(segments(&at.join("store")).len() <= 3);

    let mut store = open(at, &retention, 2);
    assert_eq!((found(&mut store), store.numbers()), (before.clone(), numbers));
    drop(store);
    let repaired = FileStore::repair(&at.join("store"), &at.join("repaired"), None).unwrap();
    assert_eq!((repaired.segments, repaired.lost_bytes), (0, 0), "it is sound as it is");
    let (mut store, _) = FileStore::open(&at.join("repaired"), options(), 2).unwrap();
    assert_eq!(found(&mut store), before);
}

#[test]
fn beyond_the_limit_messages_are_refused_until_the_next_reset() {
    let dir = TempDir::new();
    let (bytes_max, when_full) = (4_500, WhenFull::Refuse);
    let retention = Retention { bytes_max, when_full, ..Retention::default() };
    let mut store = open(dir.path(), &retention, 1);
    let mut sent = 0;
    let error = loop {
        match send(&mut store, 1) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { bytes_max: 4_500 }), "{error}");
    assert!((18..=24).contains(&sent), "{sent}");
    drop(store);
    let mut store = open(dir.path(), &retention, 2);
    assert!((1..=sent).all(|seq| store.outbound(seq).unwrap().is_some()));
    reset(&mut store, 2);
    (0..12).for_each(|_| send(&mut store, 3).unwrap());
}

#[test]
fn nothing_in_the_archive_is_written_over() {
    let dir = TempDir::new();
    let (at, mut retention) = (dir.path(), archiving(dir.path()));
    retention.bytes_max = 2_000;
    fs::create_dir(at.join("archive")).unwrap();
    let taken = at.join("archive/00000000.seg");
    fs::write(&taken, "of another store").unwrap();
    let (mut store, _) = FileStore::open(&at.join("store"), options(), 1).unwrap();
    store.retain(retention, 1, |error| {
        assert!(error.to_string().contains("archive/00000000.seg"), "{error}");
    });
    (0..50).for_each(|n| send(&mut store, n).unwrap());
    drop(store);
    assert_eq!(fs::read(taken).unwrap(), b"of another store");
    assert!(at.join("store/00000000.seg").exists());
}

#[test]
fn memory_refuses_what_would_push_out_a_message() {
    let mut store = MemoryStore::bounded(1_000, WhenFull::Refuse, 1);
    let put = |store: &mut MemoryStore, seq| {
        store.put(1, Record::Outbound { seq, kind: Kind::Application, bytes: &BYTES })
    };
    for seq in 1..=10 {
        put(&mut store, seq).unwrap();
        store.commit().unwrap();
    }
    assert!(matches!(put(&mut store, 11), Err(StoreError::Full { bytes_max: 1_000 })));
    assert!((1..=10).all(|seq| store.outbound(seq).unwrap().is_some()));
    store.put(1, Record::Reset).unwrap();
    store.commit().unwrap();
    for seq in 1..=10 {
        put(&mut store, seq).unwrap();
        store.commit().unwrap();
    }
}

/// A crash at each disk operation loses nothing. Recovery finds every message that the retention
/// keeps, whichever segments were moved before the crash.
#[test]
fn a_crash_while_segments_are_forgotten_and_moved_costs_nothing() {
    const TURNS: u64 = 30;
    let dir = Path::new("/store");
    for (durability, crash) in [
        (Durability::Process, Crash::Process),
        (Durability::Power, Crash::Process),
        (Durability::Power, Crash::Power),
    ] {
        let options = Options { durability, ..options() };
        let retention = Retention {
            archive_dir: Some("/archive".into()),
            compress: Compress::Never,
            delete_after: Duration::from_nanos(5),
            rotate_every: Duration::from_nanos(7),
            bytes_max: 2_500,
            when_full: WhenFull::Forget,
        };
        let open = |disk: &SimDisk, now_ns| {
            let opened = FileStore::open_on(disk.clone(), dir, options, now_ns);
            opened.map(|(mut store, _)| {
                store.retain(retention.clone(), now_ns, |_| ());
                store
            })
        };
        let disk = SimDisk::new(Random::new(1), Box::new(|| ()));
        let found = |store: &mut FileStore<SimDisk>| -> Vec<u64> {
            (1..=TURNS).filter(|seq| store.outbound(*seq).unwrap().is_some()).collect()
        };
        let mut store = open(&disk, 1).unwrap();
        let mut undisturbed = vec![Vec::new()];
        for n in 1..=TURNS {
            send(&mut store, n).unwrap();
            undisturbed.push(found(&mut store));
        }
        drop(store);
        let events = disk.events();
        assert!(events > 60, "{events}");
        for (event, end, seed) in (1..=events)
            .flat_map(|event| [End::Before, End::Torn, End::After].map(|end| (event, end)))
            .flat_map(|(event, end)| (0..4).map(move |seed| (event, end, seed)))
        {
            let disk = SimDisk::new(Random::new(seed), Box::new(|| ()));
            disk.arm(event, end);
            let mut done = 0;
            if let Ok(mut store) = open(&disk, 1) {
                while done < TURNS && !disk.has_ended() && send(&mut store, done + 1).is_ok() {
                    done += u64::from(!disk.has_ended());
                }
            }
            let what = format!("{durability:?} {crash:?} event {event} {end:?} seed {seed}");
            disk.restart(crash);
            let mut store = open(&disk, TURNS).unwrap_or_else(|error| panic!("{what}: {error}"));
            let kept = store.numbers().next_out - 1;
            assert!((done..=done + 1).contains(&kept), "{what}: {kept} after {done}");
            let mut expected = undisturbed[kept as usize].clone();
            if kept == done && done < TURNS {
                // The interrupted turn may have removed segments already.
                let last = &undisturbed[done as usize + 1];
                expected.retain(|seq| last.contains(seq));
            }
            let found = found(&mut store);
            assert!(expected.iter().all(|seq| found.contains(seq)), "{what}: {found:?}");
            (0..20).for_each(|_| send(&mut store, TURNS).unwrap());
        }
    }
}
