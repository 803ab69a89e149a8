//! Kills a real process while it writes: no record that it has reported as stored may be lost.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, io};

use transfix_store::{Durability, FileStore, Kind, Options, Record, Store};
use transfix_testkit::random::Random;
use transfix_testkit::temp::TempDir;

const DIR: &str = "TRANSFIX_KILLED_STORE";
const ROUNDS: usize = 20;

const OPTIONS: Options = Options {
    durability: Durability::Process,
    segment_bytes_first: 64 << 10,
    segment_bytes_max: 64 << 10,
};

fn body(seq: u64) -> Vec<u8> {
    vec![seq as u8; 100 + seq as usize % 200]
}

/// The process that is killed: writes batches of three records, and sometimes reports that they are
/// stored. In a normal test run it does nothing.
#[test]
fn child() {
    let Some(dir) = env::var_os(DIR) else { return };
    let (mut store, _) = FileStore::open(Path::new(&dir), OPTIONS, 0).unwrap();
    let mut out = io::stdout().lock();
    for batch in 1_u64.. {
        let first = store.numbers().next_out;
        for seq in first..first + 3 {
            let (kind, bytes) = (Kind::Application, &body(seq)[..]);
            store.put(seq, Record::Outbound { seq, kind, bytes }).unwrap();
            store.put(seq, Record::NextIn(seq * 2)).unwrap();
        }
        store.commit().unwrap();
        if batch.is_multiple_of(10) {
            // If the parent process ends, this write fails and ends the child too.
            writeln!(out, "kept {}", first + 2).unwrap();
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_it_said_was_kept() {
    let dir = TempDir::new();
    let mut random = Random::new(1);
    for round in 0..ROUNDS {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut kept = 0;
        let stop_after = 1 + random.below(40);
        let mut said = |line: io::Result<String>| {
            let line = line.ok()?;
            kept = line.strip_prefix("kept ")?.parse().ok()?;
            Some(())
        };
        lines.by_ref().filter_map(&mut said).take(stop_after).for_each(drop);
        child.kill().unwrap();
        // The child may have written more reports before it was killed.
        lines.filter_map(&mut said).for_each(drop);
        child.wait().unwrap();
        assert!(kept > 0, "round {round}: the child said nothing");
        let (mut store, _) = FileStore::open(dir.path(), OPTIONS, 0).unwrap();
        let numbers = store.numbers();
        assert!(numbers.next_out > kept, "round {round}: {kept} kept, {numbers:?}");
        assert_eq!(numbers.next_out % 3, 1, "round {round}: a whole batch or nothing");
        assert_eq!(numbers.next_in, (numbers.next_out - 1) * 2, "round {round}");
        for seq in 1..numbers.next_out {
            assert_eq!(store.outbound(seq).unwrap().unwrap().bytes, body(seq), "{seq}");
        }
    }
}
