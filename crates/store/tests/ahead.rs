//! The next segment is made in advance, and a store does not wait for a segment that is late.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fs::{self, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use transfix_store::{
    Disk, Durability, FileLock, FileMap, FileStore, Files, Helpers, Kind, Options, Record, Store,
};
use transfix_testkit::temp::TempDir;

/// A file system on which helper threads wait at a gate before they make a segment. The test's own
/// thread never waits.
#[derive(Clone, Debug)]
struct Slow {
    gate: Arc<Gate>,
    makes_ahead: bool,
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_open: bool,
    /// The number of threads that wait at the gate.
    waiting: usize,
    /// The lengths of the segments that the test's own thread has made.
    made_by_test: Vec<usize>,
}

impl Slow {
    fn new(makes_ahead: bool) -> Self {
        Self { gate: Arc::default(), makes_ahead }
    }

    fn open_gate(&self) {
        self.gate.state.lock().unwrap().is_open = true;
        self.gate.changed.notify_all();
    }

    /// Waits until a helper thread has begun to make a segment.
    fn wait_for_maker(&self) {
        let state = self.gate.state.lock().unwrap();
        drop(self.gate.changed.wait_while(state, |state| state.waiting == 0).unwrap());
    }

    fn made_by_test(&self) -> Vec<usize> {
        self.gate.state.lock().unwrap().made_by_test.clone()
    }
}

impl Disk for Slow {
    type Map = FileMap;
    type Lock = FileLock;

    fn makes_ahead(&self) -> bool {
        self.makes_ahead
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        Files.create_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<FileLock, TryLockError> {
        Files.lock(path)
    }

    fn is_locked_at(&self, lock: &FileLock, path: &Path) -> io::Result<bool> {
        Files.is_locked_at(lock, path)
    }

    fn is_at(&self, map: &FileMap, path: &Path) -> io::Result<bool> {
        Files.is_at(map, path)
    }

    fn random(&self) -> u64 {
        Files.random()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        Files.list(dir)
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        Files.len(path)
    }

    fn make(&self, path: &Path, bytes: usize, durability: Durability) -> io::Result<FileMap> {
        let mut state = self.gate.state.lock().unwrap();
        if std::thread::current().name() == Some("store-segment") {
            state.waiting += 1;
            self.gate.changed.notify_all();
            state = self.gate.changed.wait_while(state, |state| !state.is_open).unwrap();
            state.waiting -= 1;
        } else {
            state.made_by_test.push(bytes);
        }
        drop(state);
        Files.make(path, bytes, durability)
    }

    fn make_over(&self, path: &Path, bytes: usize) -> io::Result<FileMap> {
        Files.make_over(path, bytes)
    }

    fn open(&self, path: &Path) -> io::Result<FileMap> {
        Files.open(path)
    }

    fn clear(
        &self,
        path: &Path,
        map: &mut FileMap,
        start: usize,
        durability: Durability,
    ) -> io::Result<()> {
        Files.clear(path, map, start, durability)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Files.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Files.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Files.sync_dir(dir)
    }
}

const SECOND: u64 = 1_000_000_000;

/// Puts and commits one message of 1,000 bytes.
fn put(store: &mut FileStore<Slow>, now_ns: u64) {
    let seq = store.numbers().next_out;
    let bytes = &[b'x'; 1_000];
    store.put(now_ns, Record::Outbound { seq, kind: Kind::Application, bytes }).unwrap();
    store.commit().unwrap();
}

fn segments(dir: &Path) -> Vec<u64> {
    let all = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let mut all: Vec<_> = all.filter(|entry| entry.file_name() != "lock").collect();
    all.sort_by_key(fs::DirEntry::file_name);
    all.iter().map(|entry| entry.metadata().unwrap().len()).collect()
}

#[test]
fn a_segment_that_is_not_there_in_time_is_not_waited_for() {
    let (dir, disk) = (TempDir::new(), Slow::new(true));
    let options = Options { segment_bytes_first: 1 << 20, ..Options::default() };
    let (mut store, _) = FileStore::open_on(disk.clone(), dir.path(), options, 0).unwrap();
    // At 1 MB per second, the store requests the next segment when half of the first is filled.
    let mut now_ns = 0;
    let mut fill = |store: &mut FileStore<Slow>, messages| {
        for _ in 0..messages {
            now_ns += SECOND / 1_000;
            put(store, now_ns);
        }
    };
    fill(&mut store, 600);
    disk.wait_for_maker();
    fill(&mut store, 1_000);
    assert_eq!(disk.made_by_test(), [1 << 20, 256 << 10, 256 << 10, 256 << 10], "short ones");
    disk.open_gate();
    // All messages are found, in short segments and in long ones, and also by the next process.
    fill(&mut store, 1_000);
    drop(store);
    let (mut store, found) = FileStore::open(dir.path(), options, 0).unwrap();
    assert_eq!(found.cut_bytes, 0);
    for seq in 1..=2_600 {
        assert_eq!(store.outbound(seq).unwrap().unwrap().bytes, [b'x'; 1_000], "{seq}");
    }
    assert_eq!(store.numbers().next_out, 2_601);
}

#[test]
fn segments_are_as_long_as_what_comes_asks_for() {
    let lengths = |messages: u64, step_ns: u64| {
        let (dir, disk) = (TempDir::new(), Slow::new(false));
        let (mut store, _) = FileStore::open_on(disk, dir.path(), Options::default(), 0).unwrap();
        (0..messages).for_each(|n| put(&mut store, n * step_ns));
        drop(store);
        segments(dir.path())
    };
    let [kib, mib] = [1 << 10, 1 << 20];
    // Little traffic.
    let idle = lengths(3_000, SECOND);
    // After the third segment, a segment is as long as the data in the store.
    assert_eq!(idle[..4], [8 * kib, 128 * kib, mib, mib + 136 * kib], "{idle:?}");
    // Traffic of 100 MB per second.
    let busy = lengths(20_000, SECOND / 100_000);
    assert!(busy[2] > mib && busy[3] > 8 * mib, "{busy:?}");
}

/// Returns the nice value of a thread of this process.
#[cfg(target_os = "linux")]
fn nice_of(thread: &Path) -> i32 {
    let stat = fs::read_to_string(thread.join("stat")).unwrap();
    // The name of the thread may contain any characters; its state follows as the third field.
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    rest.split(' ').nth(19 - 3).unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn threads_that_make_segments_give_way_to_those_of_sessions() {
    let (sender, started) = std::sync::mpsc::channel();
    let this = || Path::new("/proc").join(fs::read_link("/proc/thread-self").unwrap());
    let helpers = Helpers::new(2, move || sender.send(this()).unwrap());
    helpers.start();
    let own = nice_of(&this());
    for thread in [started.recv().unwrap(), started.recv().unwrap()] {
        // Each thread reports its start before it lowers its priority.
        while nice_of(&thread) != (own + 10).min(19) {
            std::thread::yield_now();
        }
    }
    assert_eq!(nice_of(&this()), own);
}
