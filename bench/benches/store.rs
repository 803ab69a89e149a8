//! Measures the cost of the file store, with its floor and the stores of other engines:
//! `cargo bench -p transfix-bench --bench store`; `cargo xtask peers build` builds the other
//! engines. `-- --messages N` sets the size of the opened store, 10,000,000 by default.
//!
//! The floor of appending copies the same bytes into a mapped file with all pages written. The
//! floor of durable commits is one fdatasync of one page, by one thread and by one thread per
//! session. Slices of the store and of the floor alternate.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks to its user")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use transfix_store::{Committed, Disk, Durability, FileStore, Files, Kind, Options, Record, Store};
use transfix_testkit::temp::TempDir;

const MESSAGE: [u8; 200] = [b'x'; 200];
const SLICE: u64 = 2_000;
const SLICES: usize = 101;
/// Number of messages in a turn that one sync makes durable.
const GROUP: u64 = 64;
const PEER_MESSAGES: &str = "200000";
/// Number of sessions that one thread drives, each with its own store.
const SESSIONS: usize = 32;
/// Length of a slice for figures in messages per second.
const COUNTED: Duration = Duration::from_millis(500);

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let messages = match (args.next().as_deref(), args.next().map(|n| n.parse::<u64>())) {
        (None, _) => 10_000_000,
        (Some("--messages"), Some(Ok(n))) => n,
        _ => panic!("usage: store [--messages N]"),
    };
    let dir = TempDir::new();
    let (append, copy, checked) = append(dir.path());
    println!(
        "append 200 bytes, process: {append:.0} ns; floor, copied: {copy:.0} ns: {:.2} x; copied, \
         and its checksum read from there: {checked:.0} ns: {:.2} x",
        append / copy,
        append / checked
    );
    let (group, sync) = power(dir.path());
    println!(
        "append {GROUP} of them, power: {:.1} us; floor, one fdatasync: {:.1} us: {:.2} x",
        group / 1e3,
        sync / 1e3,
        group / sync
    );
    side_by_side(dir.path());
    println!("read 1,000 for a resend: {:.0} ns each", read(dir.path()));
    open(dir.path(), messages);
    peers(dir.path());
}

fn options(durability: Durability) -> Options {
    // A segment is so large that none is created during the measurement, as the settings recommend.
    let segment = 256 << 20;
    Options { durability, segment_bytes_first: segment, segment_bytes_max: segment }
}

fn fresh(dir: &Path, name: &str, options: Options) -> FileStore {
    FileStore::open(&dir.join(name), options, 0).unwrap().0
}

fn put(store: &mut FileStore, seq: u64) {
    store.put(seq, Record::Outbound { seq, kind: Kind::Application, bytes: &MESSAGE }).unwrap();
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns three figures in nanoseconds per message: committed by the store; copied into a mapped
/// file; and copied with the CRC32C that any store with checksums needs.
fn append(dir: &Path) -> (f64, f64, f64) {
    let mut store = fresh(dir, "process", options(Durability::Process));
    let mut floor = Mapped::new(&dir.join("floor"));
    let (mut ours, mut copied, mut checked) = (Vec::new(), Vec::new(), Vec::new());
    let mut seq = 0;
    for _ in 0..SLICES {
        let begun = Instant::now();
        for _ in 0..SLICE {
            seq += 1;
            put(&mut store, seq);
            store.commit().unwrap();
        }
        ours.push(begun.elapsed().as_nanos() as f64 / SLICE as f64);
        let begun = Instant::now();
        for _ in 0..SLICE {
            floor.copy(black_box(&MESSAGE));
        }
        copied.push(begun.elapsed().as_nanos() as f64 / SLICE as f64);
        let begun = Instant::now();
        for _ in 0..SLICE {
            let copy = floor.copy(black_box(&MESSAGE));
            let crc = crc32c::crc32c(copy).to_le_bytes();
            copy[..4].copy_from_slice(&crc);
        }
        checked.push(begun.elapsed().as_nanos() as f64 / SLICE as f64);
    }
    (median(ours), median(copied), median(checked))
}

/// A mapped file with all pages already written.
struct Mapped {
    map: <Files as Disk>::Map,
    at: usize,
}

impl Mapped {
    fn new(path: &Path) -> Self {
        Self { map: Files.make(path, 64 << 20, Durability::Process).unwrap(), at: 0 }
    }

    #[inline]
    fn copy(&mut self, bytes: &[u8]) -> &mut [u8] {
        let end = self.at + bytes.len();
        if end > self.map.len() {
            self.at = 0;
        }
        let copy = &mut self.map[self.at..][..bytes.len()];
        copy.copy_from_slice(bytes);
        self.at += bytes.len();
        copy
    }
}

/// Returns two figures in nanoseconds: a turn of `GROUP` messages with one sync, and one sync of
/// one page.
fn power(dir: &Path) -> (f64, f64) {
    let mut store = fresh(dir, "power", options(Durability::Power));
    let worker = thread::current();
    store.wake_by(Arc::new(move || worker.unpark()));
    let mut file = File::create_new(dir.join("page")).unwrap();
    file.write_all(&vec![0; 64 << 20]).unwrap();
    file.sync_all().unwrap();
    let (mut ours, mut floor, mut seq, mut at) = (Vec::new(), Vec::new(), 0, 0);
    for _ in 0..SLICES * 3 {
        let begun = Instant::now();
        for _ in 0..GROUP {
            seq += 1;
            put(&mut store, seq);
        }
        if let Committed::Pending(ticket) = store.commit().unwrap() {
            while store.safe().unwrap() < ticket {
                thread::park();
            }
        }
        ours.push(begun.elapsed().as_nanos() as f64);
        let begun = Instant::now();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&[1; 4096]).unwrap();
        file.sync_data().unwrap();
        floor.push(begun.elapsed().as_nanos() as f64);
        at += 16 << 10;
    }
    (median(ours), median(floor))
}

/// Prints the messages per second of one session, and of several sessions of one thread, with the
/// disk's own rate. Each message is synced before the session's next message.
fn side_by_side(dir: &Path) {
    let (mut ours, mut floor) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..7 {
        for (at, sessions) in [1, SESSIONS].into_iter().enumerate() {
            let dir = dir.join(format!("side-{round}-{sessions}"));
            ours[at].push(messages_a_second(&dir, sessions));
            floor[at].push(syncs_a_second(&dir, sessions));
            fs::remove_dir_all(dir).unwrap();
        }
    }
    let [[one, many], [floor_one, floor_many]] = [ours, floor].map(|both| both.map(median));
    println!(
        "a message at a time, power, one thread: {one:.0}/s with 1 session, {many:.0}/s with \
         {SESSIONS}: {:.1} x; floor, fdatasync in 1 and {SESSIONS} threads: {floor_one:.0}/s, \
         {floor_many:.0}/s: {:.1} x; ours of the floor: {:.2}, {:.2}",
        many / one,
        floor_many / floor_one,
        one / floor_one,
        many / floor_many
    );
}

/// Returns the messages per second. One thread drives all sessions, as a worker does, and skips
/// sessions whose commit is not durable yet.
fn messages_a_second(dir: &Path, sessions: usize) -> f64 {
    let segment = 1 << 20;
    let options = Options {
        durability: Durability::Power,
        segment_bytes_first: segment,
        segment_bytes_max: segment,
    };
    let worker: Thread = thread::current();
    let mut stores: Vec<_> = (0..sessions)
        .map(|n| {
            let mut store = fresh(dir, &n.to_string(), options);
            let worker = worker.clone();
            store.wake_by(Arc::new(move || worker.unpark()));
            // Each entry holds the store, the pending ticket, the next number, and the number of
            // durable messages.
            (store, None, 1, 0_u64)
        })
        .collect();
    let begun = Instant::now();
    while begun.elapsed() < COUNTED {
        let mut is_idle = true;
        for (store, waits, seq, safe) in &mut stores {
            match *waits {
                Some(ticket) if store.safe().unwrap() < ticket => continue,
                Some(_) => *safe += 1,
                None => {}
            }
            is_idle = false;
            put(store, *seq);
            *seq += 1;
            *waits = match store.commit().unwrap() {
                Committed::Pending(ticket) => Some(ticket),
                Committed::Now => {
                    *safe += 1;
                    None
                }
            };
        }
        if is_idle {
            thread::park();
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    stores.iter().map(|(.., safe)| *safe).sum::<u64>() as f64 / seconds
}

/// Returns the syncs per second of `threads` threads; each thread repeatedly writes and syncs one
/// page of its own file.
fn syncs_a_second(dir: &Path, threads: usize) -> f64 {
    let files: Vec<_> = (0..threads)
        .map(|n| {
            let mut file = File::create_new(dir.join(format!("floor{n}"))).unwrap();
            file.write_all(&vec![0; 1 << 20]).unwrap();
            file.sync_all().unwrap();
            file
        })
        .collect();
    let begun = Instant::now();
    let syncs: u64 = thread::scope(|scope| {
        let count = |mut file: File| {
            let mut syncs = 0;
            while begun.elapsed() < COUNTED {
                file.seek(SeekFrom::Start(syncs % 256 * 4096)).unwrap();
                file.write_all(&MESSAGE).unwrap();
                file.sync_data().unwrap();
                syncs += 1;
            }
            syncs
        };
        let all: Vec<_> = files.into_iter().map(|file| scope.spawn(move || count(file))).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    syncs as f64 / begun.elapsed().as_secs_f64()
}

/// Returns the nanoseconds per message when a resend reads 1,000 consecutive messages.
fn read(dir: &Path) -> f64 {
    let mut store = fresh(dir, "process", options(Durability::Process));
    let last = store.numbers().next_out - 1_000;
    let times = (0..SLICES as u64).map(|n| {
        let begin = 1 + n * 1_009 % last;
        let begun = Instant::now();
        for seq in begin..begin + 1_000 {
            let stored = store.outbound(seq).unwrap().unwrap();
            black_box(stored.bytes.iter().fold(0_u8, |sum, b| sum.wrapping_add(*b)));
        }
        begun.elapsed().as_nanos() as f64 / 1_000.0
    });
    median(times.collect())
}

/// Measures how long a store of `messages` messages takes to open from the page cache.
fn open(dir: &Path, messages: u64) {
    let mut store = fresh(dir, "large", Options::default());
    for seq in 1..=messages {
        put(&mut store, seq);
        if seq % GROUP == 0 {
            store.commit().unwrap();
        }
    }
    store.commit().unwrap();
    drop(store);
    let files = fs::read_dir(dir.join("large")).unwrap();
    let bytes: u64 = files.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    let begun = Instant::now();
    let store = fresh(dir, "large", Options::default());
    let seconds = begun.elapsed().as_secs_f64();
    assert_eq!(store.numbers().next_out, messages + 1);
    let gigabytes = bytes as f64 / 1e9;
    println!(
        "open {messages} messages, {gigabytes:.1} GB: {seconds:.2} s, {:.1} GB/s",
        gigabytes / seconds
    );
}

/// Measures appends and reads of the same messages with the file stores of QuickFIX.
fn peers(dir: &Path) {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/peers"));
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let folder = target.map_or(folder, |target| target.join("peers"));
    let jar = folder.join("quickfixj.jar");
    let java = |sync: &str| {
        let mut java = Command::new("java");
        java.arg("-cp").arg(&jar).args(["StoreBench"]).arg(dir.join(format!("j{sync}")));
        java.args([if sync == "Y" { "2000" } else { PEER_MESSAGES }, sync]);
        java
    };
    let mut cpp = Command::new(folder.join("qf_store"));
    cpp.arg(dir.join("cpp")).arg(PEER_MESSAGES);
    for (name, file, mut command) in [
        ("QuickFIX C++ FileStore (flushes, never syncs)", folder.join("qf_store"), cpp),
        ("QuickFIX/J FileStore, FileStoreSync=N", jar.clone(), java("N")),
        ("QuickFIX/J FileStore, FileStoreSync=Y", jar.clone(), java("Y")),
    ] {
        if !file.exists() {
            println!("{name}: not run, `cargo xtask peers build` makes it");
            continue;
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut figures = text.split_whitespace().map(|n| n.parse::<f64>().unwrap());
        match (figures.next(), figures.next()) {
            (Some(append), Some(read)) => {
                println!("{name}: append {append:.0} ns, read {read:.0} ns each");
            }
            _ => println!("{name}: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }
}
