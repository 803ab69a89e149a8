//! The directory of a store: missing files, files of others, and permissions.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Mutex;

use transfix_store::{
    Damage, Durability, FileStore, Kind, LOGGED_ON, Options, Record, Retention, Store, StoreError,
    journal, lines, survey,
};
use transfix_testkit::temp::TempDir;

const SMALL: Options =
    Options { durability: Durability::Process, segment_bytes_first: 4096, segment_bytes_max: 4096 };

fn open(dir: &Path) -> FileStore {
    FileStore::open(dir, SMALL, 5).unwrap().0
}

fn send(store: &mut FileStore) -> Result<(), StoreError> {
    let seq = store.numbers().next_out;
    store.put(seq, Record::Outbound { seq, kind: Kind::Application, bytes: &[b'm'; 200] })?;
    store.commit().map(drop)
}

/// Sends messages until a send fails, which is at the latest when the next segment is needed.
fn sends_until_it_fails(store: &mut FileStore) -> StoreError {
    (0..40).find_map(|_| send(store).err()).expect("it fails before long")
}

#[test]
fn what_vanishes_is_noticed_at_the_next_segment() {
    type Vanish = fn(&Path);
    let cases: [(&str, Vanish); 4] = [
        ("the directory", |dir| fs::rename(dir, dir.with_extension("away")).unwrap()),
        ("an earlier segment", |dir| fs::remove_file(dir.join("00000000.seg")).unwrap()),
        ("the last segment", |dir| fs::remove_file(dir.join("00000001.seg")).unwrap()),
        ("the lock", |dir| fs::remove_file(dir.join("lock")).unwrap()),
    ];
    for (what, vanish) in cases {
        let dir = TempDir::new();
        let mut store = open(&dir.path().join("store"));
        (0..20).for_each(|_| send(&mut store).unwrap());
        vanish(&dir.path().join("store"));
        let error = sends_until_it_fails(&mut store);
        let StoreError::Io { source, .. } = &error else { panic!("{what}: {error}") };
        assert_eq!(source.kind(), std::io::ErrorKind::NotFound, "{what}");
    }
}

#[test]
fn a_store_that_was_exchanged_for_another_is_not_gone_on_with() {
    let dir = TempDir::new();
    let [ours, theirs, link] = ["ours", "theirs", "link"].map(|name| dir.path().join(name));
    (0..3).for_each(|_| send(&mut open(&theirs)).unwrap());
    fs::create_dir(&ours).unwrap();
    symlink(&ours, &link).unwrap();
    let point_to = |target: &Path| {
        fs::remove_file(&link).unwrap();
        symlink(target, &link).unwrap();
    };
    let mut store = open(&link);
    send(&mut store).unwrap();
    point_to(&theirs);
    let (before, other) = (fs::read(theirs.join("00000000.seg")).unwrap(), open(&theirs));
    let error = sends_until_it_fails(&mut store);
    assert!(matches!(error, StoreError::Damaged { reason: Damage::Replaced, .. }), "{error}");
    assert!(error.to_string().contains("put the store back into its place"), "{error}");
    // Reopening fails while another engine holds the other store, and also when no engine does.
    assert!(matches!(store.reopen(), Err(StoreError::Locked { .. })));
    drop(other);
    let error = store.reopen().unwrap_err();
    assert!(matches!(error, StoreError::Damaged { reason: Damage::Replaced, .. }), "{error}");
    assert!(fs::read(theirs.join("00000000.seg")).unwrap() == before);
    drop(open(&theirs));
    // Our store was not locked in the meantime; if another process has opened it, that process
    // keeps it.
    point_to(&ours);
    let other = open(&ours);
    assert!(matches!(store.reopen(), Err(StoreError::Locked { .. })));
    drop(other);
    store.reopen().unwrap();
    (0..40).for_each(|_| send(&mut store).unwrap());
    assert!(matches!(FileStore::open(&ours, SMALL, 5), Err(StoreError::Locked { .. })));
}

fn put(store: &mut FileStore, record: Record<'_>) {
    store.put(9, record).unwrap();
    store.commit().unwrap();
}

/// Copies the files of the store in their current state.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn exchange(dir: &Path, away: &Path, other: &Path) {
    fs::rename(dir, away).unwrap();
    fs::rename(other, dir).unwrap();
}

#[test]
fn an_older_copy_of_the_store_is_not_gone_on_with() {
    type Change = fn(&mut FileStore);
    let cases: [(&str, u64, Change, &str); 6] = [
        ("sent", 3, |store| send(store).unwrap(), "next_out 4, but next_in 1, next_out 5"),
        (
            "nothing before",
            0,
            |store| send(store).unwrap(),
            "next_out 1, but next_in 1, next_out 2",
        ),
        (
            "sent into other segments",
            3,
            |store| (0..60).for_each(|_| send(store).unwrap()),
            "next_out 4, but next_in 1, next_out 64",
        ),
        (
            "received",
            3,
            |store| put(store, Record::NextIn(5)),
            "next_in 1, next_out 4, but next_in 5, next_out 4",
        ),
        (
            "queued",
            3,
            |store| put(store, Record::Queued { ticket: 1, bytes: b"35=D" }),
            "next_out 4, but next_in 1, next_out 4",
        ),
        (
            "reset",
            3,
            |store| put(store, Record::Reset),
            "next_out 4 of another reset, but next_in 1, next_out 1",
        ),
    ];
    for (what, before, change, numbers) in cases {
        let dir = TempDir::new();
        let [at, older, away] = ["store", "older", "away"].map(|name| dir.path().join(name));
        let mut store = open(&at);
        (0..before).for_each(|_| send(&mut store).unwrap());
        copy(&at, &older);
        change(&mut store);
        let committed = store.numbers();
        exchange(&at, &away, &older);
        let mut refused = || {
            let error = store.reopen().expect_err(what);
            assert!(matches!(error, StoreError::Older { .. }), "{what}: {error}");
            assert!(error.to_string().contains(numbers), "{what}: {error}");
            assert!(matches!(send(&mut store), Err(StoreError::Poisoned)), "{what}");
        };
        refused();
        // A second attempt to reopen fails too.
        refused();
        exchange(&at, &older, &away);
        store.reopen().unwrap();
        assert_eq!(store.numbers(), committed, "{what}");
        send(&mut store).unwrap();
        drop(store);
        // A new process cannot know that the copy which the operator installed is older.
        drop(open(&older));
    }
}

#[test]
fn a_repaired_store_and_one_that_an_operator_has_set_are_gone_on_with() {
    let dir = TempDir::new();
    let [at, new, away] = ["store", "new", "away"].map(|name| dir.path().join(name));
    let mut store = open(&at);
    (0..30).for_each(|_| send(&mut store).unwrap());
    // The damage is in the middle of the file, so a repair moves the records after it.
    let path = at.join("00000001.seg");
    let mut bytes = fs::read(&path).unwrap();
    bytes[400] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(matches!(store.reopen(), Err(StoreError::Damaged { .. })));
    FileStore::repair(&at, &new, None).unwrap();
    exchange(&at, &away, &new);
    store.reopen().unwrap();
    send(&mut store).unwrap();
    assert_eq!(store.numbers().next_out, 32);
    // An operator may set lower numbers in the store, which then still contains everything that was
    // committed.
    put(&mut store, Record::NextOut(40));
    // Reopening ends the thread of the first store, which must not make a segment in place of the
    // other store's segment.
    store.reopen().unwrap();
    fs::remove_file(at.join("lock")).unwrap();
    let mut other = open(&at);
    for record in [Record::NextOut(7), Record::Reset] {
        put(&mut other, record);
    }
    (0..40).for_each(|_| send(&mut other).unwrap());
    let numbers = other.numbers();
    drop(other);
    store.reopen().unwrap();
    assert_eq!(store.numbers(), numbers);
}

#[test]
fn remains_of_segments_go_and_files_of_others_stay() {
    let dir = TempDir::new();
    drop(open(dir.path()));
    let [ours, others] = [
        ["00000001.new", "00000007.new", "00000000.seg.new"],
        ["notes.new", "1.new", "000000001.new"],
    ]
    .map(|names| names.map(|name| dir.path().join(name)));
    for path in ours.iter().chain(&others) {
        fs::write(path, "part").unwrap();
    }
    drop(open(dir.path()));
    assert!(ours.iter().all(|path| !path.exists()) && others.iter().all(|path| path.exists()));
}

static REPORTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn a_segment_that_cannot_be_made_beforehand_is_told_at_once() {
    let dir = TempDir::new();
    let mut store = open(dir.path());
    store.report_to(|error| REPORTS.lock().unwrap().push(error.to_string()));
    let obstacle = dir.path().join("00000001.new");
    fs::create_dir(&obstacle).unwrap();
    while store.numbers().next_out < 12 {
        send(&mut store).unwrap();
    }
    while REPORTS.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    drop(store);
    let reports = REPORTS.lock().unwrap();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].contains("00000001.new"), "{reports:?}");
}

#[test]
fn stores_are_their_owners_alone() {
    let dir = TempDir::new();
    let at = dir.path().join("deep/store");
    let mut store = open(&at);
    (0..40).for_each(|_| send(&mut store).unwrap());
    drop(store);
    let new = dir.path().join("new");
    FileStore::repair(&at, &new, None).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for dir in [&at, &new] {
        assert_eq!(mode(dir), 0o700);
        let files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() > 2);
        for path in files {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
    }
    assert_eq!(mode(at.parent().unwrap()), 0o700);
}

#[cfg(target_os = "linux")]
#[test]
fn an_archive_on_another_file_system_gets_copies() {
    let dir = TempDir::new();
    let memory = Path::new("/dev/shm").join(format!("transfix-archive-{}", std::process::id()));
    fs::create_dir(&memory).unwrap();
    let device = |path: &Path| fs::metadata(path).unwrap().dev();
    assert_ne!(device(&memory), device(dir.path()), "the test needs two file systems");
    let retention = Retention {
        archive_dir: Some(memory.join("archive")),
        bytes_max: 9_000,
        ..Retention::default()
    };
    let mut store = open(dir.path());
    store.retain(retention.clone(), 1, |error| panic!("{error}"));
    (0..100).for_each(|_| send(&mut store).unwrap());
    drop(store);
    // The next opening moves the segments that the slow thread has left.
    let mut store = open(dir.path());
    store.retain(retention.clone(), 2, |error| panic!("{error}"));
    drop(store);
    let names = |dir: &Path| {
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    let archived = names(&memory.join("archive"));
    assert!(archived.len() > 1 && archived.iter().all(|name| name.ends_with(".seg")));
    assert!(archived.iter().all(|name| !names(dir.path()).contains(name)), "{archived:?}");
    let read = || journal::read(&memory.join("archive")).unwrap();
    let count = read().map(Result::unwrap).count();
    assert!(count > 15);
    // If a process is killed between copying and removing a file, the next opening completes the
    // move.
    let left = dir.path().join(&archived[0]);
    fs::copy(memory.join("archive").join(&archived[0]), &left).unwrap();
    let mut store = open(dir.path());
    store.retain(retention, 3, |error| panic!("{error}"));
    drop(store);
    assert!(!left.exists() && read().count() == count);
    fs::remove_dir_all(memory).unwrap();
}

#[test]
fn next_place_is_where_the_next_message_goes() {
    const MESSAGES: u64 = 100;
    let dir = TempDir::new();
    let mut store = open(dir.path());
    let mut there = 0;
    for seq in 1..=MESSAGES {
        let place = store.next_place().as_ptr_range();
        send(&mut store).unwrap();
        let kept = store.outbound(seq).unwrap().unwrap().bytes.as_ptr();
        there += u64::from(place.contains(&kept));
    }
    // The remaining messages are the first of new segments, which hold about 16 messages each.
    assert!((MESSAGES * 9 / 10..MESSAGES).contains(&there), "{there} of {MESSAGES}");
}

/// After its directory is removed, a store accepts commits for at most one second.
#[test]
fn a_store_that_is_removed_is_noticed_within_a_second() {
    for removed in ["", "lock", "00000000.seg"] {
        let dir = TempDir::new();
        let (mut store, _) = FileStore::open(dir.path(), Options::default(), 0).unwrap();
        let mut put = |now_ns| {
            store.put(now_ns, Record::NextIn(2))?;
            store.commit()
        };
        put(1).unwrap();
        match removed {
            "" => fs::remove_dir_all(dir.path()).unwrap(),
            file => fs::remove_file(dir.path().join(file)).unwrap(),
        }
        put(2).unwrap();
        let error = put(1_000_000_001).unwrap_err().to_string();
        assert!(error.contains("No such file"), "{removed}: {error}");
        put(1_000_000_002).unwrap_err();
        // If the clock is set back, the loss is noticed nevertheless.
        assert!(matches!(put(3), Err(StoreError::Poisoned)));
    }
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_an_error_and_nobody_waits_for_it() {
    for name in ["00000000.seg", "00000001.seg", "lock"] {
        let dir = TempDir::new();
        let (mut store, _) = FileStore::open(dir.path(), Options::default(), 0).unwrap();
        store.put(1, Record::NextIn(2)).unwrap();
        store.commit().unwrap();
        drop(store);
        make_pipe(&dir.path().join(name));
        let opened = FileStore::open(dir.path(), Options::default(), 0).map(|_| ());
        opened.unwrap_err();
        let _ = FileStore::is_open(dir.path());
        let read = journal::read(dir.path()).map(Iterator::count);
        assert!(read.is_err() || name == "lock" || name == "00000001.seg", "{name}");
        let _ = survey(dir.path());
    }
    // The state file next to a store, and files of lines, are tested too.
    let dir = TempDir::new();
    let (place, kept) = (dir.path().join("store"), dir.path().join("store.numbers"));
    make_pipe(&dir.path().join("store.numbers.new"));
    let (mut store, _) = FileStore::open(&place, Options::default(), 0).unwrap();
    assert_eq!(store.keep_numbers_in(kept.clone()).unwrap(), None);
    make_pipe(&kept);
    store.keep_numbers_in(kept).unwrap_err();
    let log = dir.path().join("log");
    make_pipe(&log);
    lines::open(&log, 0o600).unwrap_err();
}

/// Replaces the file with a pipe.
fn make_pipe(path: &Path) {
    drop(fs::remove_file(path));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

#[test]
fn a_damaged_lock_file_is_reported_once() {
    for (bytes, is_damage) in
        [(&b"garbage"[..], true), (&[7; 28], true), (&[0; 28], false), (&[], false)]
    {
        let dir = TempDir::new();
        let open = || FileStore::open(dir.path(), Options::default(), 0).unwrap();
        let (mut store, _) = open();
        store.put(1, Record::NextIn(2)).unwrap();
        store.commit().unwrap();
        drop(store);
        fs::write(dir.path().join("lock"), bytes).unwrap();
        let (store, recovered) = open();
        assert_eq!((recovered.note_damaged, store.numbers().next_in), (is_damage, 2), "{bytes:?}");
        drop(store);
        assert!(!open().1.note_damaged, "{bytes:?}");
    }
}

#[test]
fn an_older_copy_is_told_from_what_was_closed() {
    let dir = TempDir::new();
    let (place, kept) = (dir.path().join("store"), dir.path().join("store.numbers"));
    let open = |now_ns| {
        let (mut store, _) = FileStore::open(&place, Options::default(), now_ns).unwrap();
        let had = store.keep_numbers_in(kept.clone()).unwrap();
        (store, had.map(|had| (had.next_in, had.next_out)))
    };
    let day = |next_in| {
        let (mut store, had) = open(1);
        store.put(1, Record::NextIn(next_in)).unwrap();
        store.commit().unwrap();
        had
    };
    assert_eq!(day(5), None);
    let copy = dir.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()) {
        fs::copy(&file, copy.join(file.file_name().unwrap())).unwrap();
    }
    assert_eq!(day(9), None);
    fs::remove_dir_all(&place).unwrap();
    fs::rename(&copy, &place).unwrap();
    assert_eq!(open(1).1, Some((9, 1)), "it was closed with 9, and has 5");
    assert_eq!(open(1).1, None, "it is told once");
    // A store that was reset, or newly created, is not reported as an older copy.
    let (mut store, _) = open(1);
    store.put(7, Record::Reset).unwrap();
    store.commit().unwrap();
    drop(store);
    assert_eq!(open(1).1, None);
    fs::remove_dir_all(&place).unwrap();
    assert_eq!(open(8).1, None);
}

#[test]
fn numbers_that_were_set_back_are_no_older_copy() {
    let dir = TempDir::new();
    let (place, kept) = (dir.path().join("store"), dir.path().join("store.numbers"));
    let open = || {
        let (mut store, _) = FileStore::open(&place, Options::default(), 1).unwrap();
        let had = store.keep_numbers_in(kept.clone()).unwrap();
        (store, had)
    };
    for (next_in, next_out) in [(9, 9), (3, 9), (9, 9), (9, 3)] {
        let (mut store, had) = open();
        assert_eq!(had, None, "before {next_in}/{next_out}");
        store.put(1, Record::NextIn(next_in)).unwrap();
        store.put(1, Record::NextOut(next_out)).unwrap();
        store.commit().unwrap();
        // Higher numbers are written to the state file only when the store is closed; lower numbers
        // are written at once, because they must survive a kill.
        let is_lower = next_in < 9 || next_out < 9;
        let text = fs::read_to_string(&kept).unwrap();
        let is_kept = text.contains(&format!("next_in = {next_in}\nnext_out = {next_out}\n"));
        assert_eq!(is_kept, is_lower, "{text}");
    }
}

/// If the last batch is damaged, the next opening removes it as an unfinished batch; the state file
/// reveals the loss.
#[test]
fn a_batch_that_was_damaged_and_cut_shows_in_the_numbers() {
    let dir = TempDir::new();
    let (place, kept) = (dir.path().join("store"), dir.path().join("store.numbers"));
    let open = || FileStore::open(&place, Options::default(), 1).unwrap().0;
    let mut store = open();
    store.keep_numbers_in(kept.clone()).unwrap();
    send(&mut store).unwrap();
    let segment = place.join("00000000.seg");
    let bytes = fs::read(&segment).unwrap();
    let at = bytes.windows(9).position(|part| part == b"mmmmmmmmm").unwrap();
    let file = OpenOptions::new().write(true).open(&segment).unwrap();
    file.write_all_at(b"x", at as u64).unwrap();
    assert!(store.outbound(1).is_err());
    let noted = fs::read(&kept).unwrap();
    drop(store);
    // The file is restored to its state after the failed read, as if the process had been killed
    // then.
    fs::write(&kept, noted).unwrap();
    let mut store = open();
    assert_eq!(store.numbers().next_out, 1);
    let had = store.keep_numbers_in(kept).unwrap();
    assert_eq!(had.map(|had| had.next_out), Some(2));
}

#[test]
fn the_state_beside_a_store_can_be_read() {
    let dir = TempDir::new();
    let (place, kept) = (dir.path().join("store"), dir.path().join("store.numbers"));
    let open = || {
        let session = "FIX.4.4-VENUE-CLIENT";
        let opened = FileStore::open_for(session, &place, Options::default(), 1_000_000_000);
        let (mut store, _) = opened.unwrap();
        assert_eq!(store.keep_numbers_in(kept.clone()).unwrap(), None);
        store
    };
    let state = || {
        let text = fs::read_to_string(&kept).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut store = open();
    let fresh = [
        "session = \"FIX.4.4-VENUE-CLIENT\"",
        "next_in = 1",
        "next_out = 1",
        "last_reset = 1970-01-01T00:00:01.000000000Z",
    ];
    assert_eq!(state(), fresh);
    store.put(2_000_000_000, Record::Note(LOGGED_ON)).unwrap();
    store.put(2_000_000_000, Record::NextIn(5)).unwrap();
    store.commit().unwrap();
    store.put(3_000_000_000, Record::Note("logged on again, says somebody")).unwrap();
    store.commit().unwrap();
    assert_eq!(state(), fresh, "while it is open the file is older");
    drop(store);
    let after = [
        "session = \"FIX.4.4-VENUE-CLIENT\"",
        "next_in = 5",
        "next_out = 1",
        "last_reset = 1970-01-01T00:00:01.000000000Z",
        "last_logon = 1970-01-01T00:00:02.000000000Z",
    ];
    assert_eq!(state(), after);
    // If the state file is lost, it is written again from the store.
    fs::remove_file(&kept).unwrap();
    drop(open());
    assert_eq!(state(), after);
    // The content is in the format of older versions.
    fs::write(&kept, "1000000000 7 1\n").unwrap();
    let (mut store, _) = FileStore::open(&place, Options::default(), 1).unwrap();
    let had = store.keep_numbers_in(kept.clone()).unwrap().unwrap();
    assert_eq!((had.next_in, had.next_out), (7, 1));
    drop(store);
    assert_eq!(state(), after);
}
