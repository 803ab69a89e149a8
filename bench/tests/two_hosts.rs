//! Tests benchmarks with the acceptor on another host: the acceptor starts processes on request,
//! and ends them when the initiator ends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use transfix::clock::monotonic_ns;
use transfix_testkit::temp::TempDir;

use crate::command_line::{Run, run_in};

/// Time limit for the start and the end of processes, in nanoseconds.
const PATIENCE_NS: u64 = 30_000_000_000;

/// A running `--role acceptor` process with its own directory for stores and files.
struct Acceptor {
    child: Child,
    address: String,
    stores: TempDir,
}

impl Acceptor {
    fn start(scenario: &str, more: &[&str]) -> Self {
        let stores = TempDir::new();
        let mut child = Command::new(env!("CARGO_BIN_EXE_transfix-bench"))
            .args([scenario, "--role", "acceptor", "--address", "127.0.0.1:0"])
            .args(more)
            .env("TMPDIR", stores.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split(' ').nth(2).unwrap().to_owned();
        assert!(line.starts_with("Waits at 127.0.0.1:"), "{line}");
        Self { child, address, stores }
    }

    fn initiate(&self, dir: &Path, args: &str) -> Run {
        let args: Vec<&str> = args.split(' ').collect();
        let role = ["--role", "initiator", "--json", "--address", &self.address];
        run_in(dir, &[&args[..], &role].concat())
    }

    /// Returns the number of running child processes that the acceptor has started.
    fn parts(&self) -> usize {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let stats = all.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        // According to proc(5), the state and the parent's process id follow the name in brackets.
        let parents = stats
            .filter_map(|stat| stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok());
        parents.filter(|parent| *parent == self.child.id()).count()
    }

    fn waits_for_its_parts(&self) {
        let until = monotonic_ns() + PATIENCE_NS;
        let stores = || fs::read_dir(self.stores.path()).unwrap().count();
        while self.parts() + stores() > 0 {
            assert!(monotonic_ns() < until, "{} parts", self.parts());
            std::thread::yield_now();
        }
    }

    /// Sends `lines` to the acceptor over a new connection, as a stranger could, and returns its
    /// whole answer.
    fn answers(&self, lines: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        // The write may fail, because the acceptor may have closed the connection already.
        let _ = stream.write_all(lines.as_bytes());
        let _ = stream.shutdown(Shutdown::Write);
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn throughput_is_measured_from_another_host() {
    let (dir, acceptor) = (TempDir::new(), Acceptor::start("throughput", &[]));
    for _ in 0..2 {
        let args = "throughput --sessions 2 --slices 1 --slice-ms 50 --rate 1000";
        let run = acceptor.initiate(dir.path(), args);
        assert_eq!(run.code, 0, "{run:?}");
        let report: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(report["settings"]["hosts"], 2);
        let side = &report["runs"][0]["sides"]["transfix-file"]["full"];
        for figure in ["orders_per_s", "cpu_ns_per_order"] {
            assert!(side[figure].as_f64().unwrap() > 0.0, "{report}");
        }
        acceptor.waits_for_its_parts();
    }
}

#[test]
fn a_router_is_measured_from_another_host() {
    let (dir, acceptor) = (TempDir::new(), Acceptor::start("router", &[]));
    let args = "router --rows 2x2@100 --slices 1 --slice-ms 100 --no-rate";
    let run = acceptor.initiate(dir.path(), args);
    assert_eq!(run.code, 0, "{run:?}");
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["settings"]["transport"], "TCP, two hosts");
    let routers = report["rows"][0]["routers"].as_array().unwrap();
    assert_eq!(routers.len(), 3, "{report}");
    assert!(routers.iter().all(|router| router["half_trip_p50_ns"].as_f64().unwrap() > 0.0));
    acceptor.waits_for_its_parts();
    // The initiator rejects a configuration file of its user, because the acceptor has not been
    // started with that file.
    let own = dir.path().join("own.toml");
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::copy(shipped.join("configurations/router/mode-a.toml"), &own).unwrap();
    let own = own.to_str().unwrap();
    let args = format!("{args} --config {own}");
    let run = acceptor.initiate(dir.path(), &args);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("the acceptor needs the same --config"), "{run:?}");
    let acceptor = Acceptor::start("router", &["--config", own]);
    let run = acceptor.initiate(dir.path(), &args);
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn an_initiator_that_dies_takes_its_parts_with_it() {
    let (dir, acceptor) = (TempDir::new(), Acceptor::start("throughput", &[]));
    let mut initiator = Command::new(env!("CARGO_BIN_EXE_transfix-bench"))
        .args(["throughput", "--role", "initiator", "--sessions", "1"])
        .args(["--address", &acceptor.address])
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = monotonic_ns() + PATIENCE_NS;
    while acceptor.parts() < 3 {
        assert!(monotonic_ns() < until, "{} parts", acceptor.parts());
        std::thread::yield_now();
    }
    initiator.kill().unwrap();
    initiator.wait().unwrap();
    acceptor.waits_for_its_parts();
}

#[test]
fn a_stranger_starts_nothing_but_parts_of_the_scenario() {
    let acceptor = Acceptor::start("throughput", &[]);
    let start = |part: &str| format!("{{\"start\":{part}}}\n");
    for (lines, answer) in [
        ("no JSON\n".to_owned(), ""),
        ("\"line\"\n".to_owned(), "no part was started"),
        (start("{\"kind\":\"quickfix-file\",\"sessions\":1}"), "it serves the floor and Transfix"),
        (start("{\"kind\":\"floor\",\"sessions\":100001}"), "up to 100,000 sessions"),
        (start("{\"kind\":\"floor\",\"sessions\":1}").repeat(2), "one part for each connection"),
        ("x".repeat(1 << 20), ""),
    ] {
        let said = acceptor.answers(&lines);
        assert!(said.contains(answer), "{answer}: {said}");
        assert!(!answer.is_empty() || said.is_empty(), "{said}");
    }
    acceptor.waits_for_its_parts();
    let cpus = acceptor.answers("\"cpus\"\n");
    assert!(cpus.starts_with("{\"Ok\":"), "{cpus}");
}
