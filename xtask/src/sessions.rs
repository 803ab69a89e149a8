//! `cargo xtask sessions N`: how a venue carries many sessions: its start, its memory, its CPU time
//! while nothing but heartbeats comes, a busy session beside the idle ones, its stop.
//!
//! The busy session is measured alone first: an absolute time says nothing on a machine that others
//! use too.
#![allow(clippy::disallowed_methods, reason = "it measures time")]

mod client;

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process, setrlimit};

use crate::{Outcome, root};
use client::Client;

const USAGE: &str = "usage: cargo xtask sessions [N] [--seconds S] [--durability memory|process]

Starts `transfix serve` with N sessions (1,000 by default) on one worker, and a client for each.
Prints how long the start took, from nothing and from the stores that it has left; the memory; one
session that asks again 1 ms after each answer, alone and beside the others; the CPU time of the
worker while each of them sends a heartbeat every 30 s, for S seconds (31 by default); and the
stop.";

/// Seconds between heartbeats, as the Logon(A) has it.
const HEART_BT_INT_S: u64 = 30;
/// Requests of the busy session, and the time from an answer to the next one.
const ASKS: usize = 5_000;
const PACE: Duration = Duration::from_millis(1);

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    sessions: usize,
    seconds: u64,
    durability: String,
}

/// Measures.
///
/// # Errors
/// If an argument is wrong, the program does not build, or a session does not log on.
pub fn run(args: &[String]) -> Outcome {
    let Some(wanted) = parse(args)? else { return Ok(USAGE.to_owned()) };
    // As far as it goes; who has too few hears of it from the system.
    let limit = getrlimit(Resource::Nofile);
    let _ =
        setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
    let program = build()?;
    let dir = std::env::temp_dir().join(format!("transfix-sessions-{}", std::process::id()));
    fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let report = measure(&program, &dir, &wanted);
    // What is left behind lies in the directory for temporary files.
    let _ = fs::remove_dir_all(&dir);
    report
}

fn parse(args: &[String]) -> Result<Option<Wanted>, String> {
    let mut wanted = Wanted { sessions: 1_000, seconds: 31, durability: "process".to_owned() };
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--help" => return Ok(None),
            "--seconds" => wanted.seconds = number(args.next())?,
            "--durability" => {
                let words = ["memory", "process"];
                let word = args.next().filter(|word| words.contains(word)).ok_or(USAGE)?;
                word.clone_into(&mut wanted.durability);
            }
            _ => wanted.sessions = number(Some(arg))? as usize,
        }
    }
    Ok(Some(wanted))
}

fn number(text: Option<&str>) -> Result<u64, String> {
    text.and_then(|text| text.parse().ok()).filter(|n| *n > 0).ok_or_else(|| USAGE.to_owned())
}

fn build() -> Result<PathBuf, String> {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--package", "transfix-cli"])
        .current_dir(root())
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("transfix-cli does not build".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR");
    Ok(target.map_or_else(|| root().join("target"), PathBuf::from).join("release/transfix"))
}

fn settings(dir: &Path, wanted: &Wanted) -> String {
    let mut text = format!(
        "[engine]\nworkers = 1\n\n[defaults]\nrole = \"acceptor\"\nbegin_string = \"FIX.4.4\"\n\
         sender_comp_id = \"VENUE\"\naddress = \"127.0.0.1:0\"\nstore_dir = {:?}\n\
         durability = {:?}\nsending_time_tolerance_s = 0\n",
        dir.join("store"),
        wanted.durability
    );
    for n in 0..wanted.sessions {
        let _ = write!(text, "\n[[session]]\ntarget_comp_id = \"C{n}\"\n");
    }
    text
}

fn measure(program: &Path, dir: &Path, wanted: &Wanted) -> Outcome {
    let file = dir.join("venue.toml");
    fs::write(&file, settings(dir, wanted)).map_err(|error| error.to_string())?;
    let mut report = format!("{} sessions, durability {}\n", wanted.sessions, wanted.durability);
    let mut line = |what: &str, value: String| report += &format!("{what:<44} {value}\n");

    let mut venue = Venue::start(program, &file)?;
    line("start", seconds(venue.start));
    let begun_kib = venue.memory_kib()?;
    line("memory, nobody logged on", format!("{} MiB", begun_kib / 1024));

    let mut busy = Client::log_on(&venue.address, "C0", HEART_BT_INT_S)?;
    let alone = ask(&mut busy, &mut Others::default())?;
    line("busy session alone, p50 / p99", alone.to_string());

    let begin = Instant::now();
    let mut others = Others::log_on(&venue.address, wanted.sessions)?;
    line("logons of all others, one after the other", seconds(begin.elapsed()));
    let memory_kib = venue.memory_kib()?;
    let each = memory_kib.saturating_sub(begun_kib) / wanted.sessions.max(1) as u64;
    line("memory", format!("{} MiB, {each} KiB more for each that logged on", memory_kib / 1024));

    let beside = ask(&mut busy, &mut others)?;
    let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64().max(1e-9);
    let ratios = (ratio(beside.p50, alone.p50), ratio(beside.p99, alone.p99));
    let text = format!("{beside}, {:.2} / {:.2} times as long", ratios.0, ratios.1);
    line("busy session beside them, p50 / p99", text);

    others.all.push(busy);
    let (before, begin) = (venue.worker_cpu()?, Instant::now());
    let until = begin + Duration::from_secs(wanted.seconds);
    while Instant::now() < until {
        others.send_due()?;
        thread::sleep(PACE);
    }
    let used = venue.worker_cpu()? - before;
    let share = used.as_secs_f64() / begin.elapsed().as_secs_f64() * 100.0;
    line("CPU of the worker, heartbeats every 30 s", format!("{share:.2} % of a core"));

    line("stop", seconds(venue.stop(&mut others.all)?));
    let mut again = Venue::start(program, &file)?;
    line("start from the stores of before", seconds(again.start));
    again.stop(&mut [])?;
    Ok(report.trim_end().to_owned())
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// Percentiles of round trips.
#[derive(Clone, Copy)]
struct Percentiles {
    p50: Duration,
    p99: Duration,
}

impl std::fmt::Display for Percentiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let us = |time: Duration| time.as_nanos() as f64 / 1_000.0;
        write!(f, "{:.1} / {:.1} µs", us(self.p50), us(self.p99))
    }
}

/// Asks again and again, while the others send what is due.
fn ask(busy: &mut Client, others: &mut Others) -> Result<Percentiles, String> {
    let mut all = Vec::with_capacity(ASKS);
    for _ in 0..ASKS {
        others.send_due()?;
        thread::sleep(PACE);
        all.push(busy.ask()?);
    }
    all.sort_unstable();
    Ok(Percentiles { p50: all[ASKS / 2], p99: all[ASKS * 99 / 100] })
}

/// The clients that do nothing but live.
#[derive(Default)]
struct Others {
    all: Vec<Client>,
    /// Whose heartbeat is next.
    next: usize,
    due: Option<Instant>,
}

impl Others {
    fn log_on(address: &str, sessions: usize) -> Result<Self, String> {
        let log_on = |n| Client::log_on(address, &format!("C{n}"), HEART_BT_INT_S);
        let all: Result<Vec<_>, _> = (1..sessions).map(log_on).collect();
        Ok(Self { all: all?, next: 0, due: Some(Instant::now()) })
    }

    /// Their heartbeats lie evenly between two of the same client.
    fn send_due(&mut self) -> Result<(), String> {
        let Some(mut due) = self.due.filter(|_| !self.all.is_empty()) else { return Ok(()) };
        let step = Duration::from_secs(HEART_BT_INT_S) / self.all.len() as u32;
        while due <= Instant::now() {
            self.all[self.next].beat()?;
            self.next = (self.next + 1) % self.all.len();
            due += step;
        }
        self.due = Some(due);
        Ok(())
    }
}

/// The program under test.
struct Venue {
    child: Child,
    address: String,
    /// From its start to the moment at which it listens.
    start: Duration,
}

impl Venue {
    fn start(program: &Path, settings: &Path) -> Result<Self, String> {
        let begin = Instant::now();
        let child = Command::new(program)
            .args(["serve", "--quiet"])
            .arg(settings)
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.map_err(|error| format!("{}: {error}", program.display()))?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let address = loop {
            let Some(Ok(line)) = lines.next() else {
                let _ = child.wait();
                return Err("the venue did not start".to_owned());
            };
            if let Some(address) = line.strip_prefix("listening at ") {
                break address.to_owned();
            }
        };
        // It ends with the program.
        thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, address, start: begin.elapsed() })
    }

    fn read(&self, file: &str) -> Result<String, String> {
        let path = format!("/proc/{}/{file}", self.child.id());
        fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
    }

    fn memory_kib(&self) -> Result<u64, String> {
        let status = self.read("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        kib.ok_or_else(|| "no VmRSS".to_owned())
    }

    /// CPU time of the threads that drive sessions.
    fn worker_cpu(&self) -> Result<Duration, String> {
        let tasks = format!("/proc/{}/task", self.child.id());
        let mut ns = 0;
        for task in fs::read_dir(tasks).map_err(|error| error.to_string())?.flatten() {
            let read = |file| fs::read_to_string(task.path().join(file)).unwrap_or_default();
            if read("comm").starts_with("tfx-pool") {
                // proc(5): the first number is the time on a CPU, in nanoseconds.
                let text = read("schedstat");
                ns += text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
            }
        }
        Ok(Duration::from_nanos(ns))
    }

    /// Asks it to stop, and answers for these clients. Returns how long that took.
    fn stop(&mut self, clients: &mut [Client]) -> Result<Duration, String> {
        let begin = Instant::now();
        let pid = Pid::from_raw(self.child.id() as i32).ok_or("no process")?;
        kill_process(pid, Signal::TERM).map_err(|error| error.to_string())?;
        for client in clients {
            client.answer_logout()?;
        }
        let status = self.child.wait().map_err(|error| error.to_string())?;
        match status.success() {
            true => Ok(begin.elapsed()),
            false => Err(format!("the venue ended with {status}")),
        }
    }
}

impl Drop for Venue {
    fn drop(&mut self) {
        // After an error; one that was stopped has gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let parsed =
            |text: &str| parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let wanted = parsed("200 --seconds 5 --durability memory").unwrap().unwrap();
        assert_eq!((wanted.sessions, wanted.seconds), (200, 5));
        assert_eq!(wanted.durability, "memory");
        assert_eq!(parsed("--help"), Ok(None));
        for wrong in ["0", "many", "--seconds", "--durability power"] {
            assert_eq!(parsed(wrong), Err(USAGE.to_owned()), "{wrong}");
        }
    }
}
