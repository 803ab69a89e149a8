//! `cargo xtask sessions N`: measures what N sessions cost a venue: start, memory, files, CPU time
//! with heartbeats only, round trips of a busy session beside idle sessions, and stop. A further
//! part measures a million messages.
//!
//! Absolute times mean little on a shared machine. Each time is therefore printed beside that of a
//! floor: a bare echo server with the same number of sockets, measured in turns with the venue.
#![allow(clippy::disallowed_methods, reason = "it measures time")]

mod client;
mod files;
mod million;
mod others;
mod server;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Outcome;
use crate::served::dist_program;
use client::Client;
use others::Others;
use server::{Server, disk_kib};

const USAGE: &str = "usage: cargo xtask sessions [N] [--seconds S] [--durability memory|process]
                            [--messages M]

Starts `transfix serve` with N sessions (1,000 by default) on one worker, a floor (a bare server
that sends the same bytes back), and a client for each of their sockets.
Prints how long the start took, from nothing and from the stores that it has left; memory, disk,
descriptors and mappings of a session; one session that asks again 1 ms after each answer, alone
and beside the others; the CPU time while each of them sends a heartbeat every 30 s, for S seconds
(31 by default); the stop; and what M orders (1,000,000 by default) through one session take.";

/// HeartBtInt(108) of all sessions, in seconds.
const HEART_BT_INT_S: u64 = 30;
/// Number of requests of the busy session; the number of slices in which venue and floor alternate;
/// and the pause between an answer and the next request.
const ASKS: usize = 5_000;
const SLICES: usize = 10;
const PACE: Duration = Duration::from_millis(1);
/// Number of files that this process may have open in addition to its clients' sockets.
const OPEN_BESIDE: usize = 64;

/// The options of the command line.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    sessions: usize,
    seconds: u64,
    durability: String,
    messages: u64,
}

/// Measures the cost of N sessions.
///
/// # Errors
/// If an argument is wrong, the program does not build, or a session does not log on.
pub fn run(args: &[String]) -> Outcome {
    let Some(wanted) = parse(args)? else { return Ok(USAGE.to_owned()) };
    // The limit of open files is raised to its maximum, because each client needs a socket.
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let of_floor = floor_sessions(getrlimit(Resource::Nofile).current, wanted.sessions)?;
    let program = dist_program()?;
    let dir = std::env::temp_dir().join(format!("transfix-sessions-{}", std::process::id()));
    fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let report = measure(&program, &dir, &wanted, of_floor);
    // If removal fails, the files stay in the directory for temporary files.
    let _ = fs::remove_dir_all(&dir);
    report
}

/// Returns the number of the floor's sockets: equal to the venue's sessions, or limited by the
/// files that this process may still open.
///
/// # Errors
/// If the limit is too low even for the venue.
fn floor_sessions(limit: Option<u64>, sessions: usize) -> Result<usize, String> {
    let Some(limit) = limit else { return Ok(sessions) };
    let room = (limit as usize).saturating_sub(sessions + OPEN_BESIDE);
    if room < sessions / 2 {
        return Err(format!(
            "the clients of {sessions} sessions, and of a floor beside them, need up to {} open \
             files, and the process may have {limit}; raise the limit (ulimit -n), or ask for \
             fewer sessions",
            2 * sessions + OPEN_BESIDE
        ));
    }
    Ok(room.min(sessions))
}

fn parse(args: &[String]) -> Result<Option<Wanted>, String> {
    let durability = "process".to_owned();
    let mut wanted = Wanted { sessions: 1_000, seconds: 31, durability, messages: 1_000_000 };
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--help" => return Ok(None),
            "--seconds" => wanted.seconds = number(args.next())?,
            "--messages" => wanted.messages = number(args.next())?,
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

/// Name of the busy session's store.
const BUSY: &str = "FIX.4.4-VENUE-C0";

/// The lines printed so far.
struct Report(String);

impl Report {
    fn line(&mut self, what: &str, value: &str) {
        let _ = writeln!(self.0, "{what:<44} {value}");
    }

    /// Prints a figure of the venue beside that of the floor.
    fn beside(&mut self, what: &str, venue: Percentiles, floor: Percentiles) {
        let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64().max(1e-9);
        let (p50, p99) = (ratio(venue.p50, floor.p50), ratio(venue.p99, floor.p99));
        self.line(what, &format!("{venue}; floor {floor}; ratio {p50:.2} / {p99:.2}"));
    }
}

/// Returns the path of `transfix-bench`, which contains the floor and the order client, in the
/// directory of `transfix`.
fn bench(program: &Path) -> PathBuf {
    program.with_file_name("transfix-bench")
}

fn measure(program: &Path, dir: &Path, wanted: &Wanted, of_floor: usize) -> Outcome {
    let file = dir.join("venue.toml");
    fs::write(&file, settings(dir, wanted)).map_err(|error| error.to_string())?;
    let title = format!("{} sessions, durability {}\n", wanted.sessions, wanted.durability);
    let mut report = Report(title);
    if of_floor < wanted.sessions {
        let text = format!("{of_floor}: the command may open no more files (ulimit -n)");
        report.line("sessions of the floor", &text);
    }

    let (one, n) = (alone(program, dir, wanted)?, wanted.sessions);
    let mut servers = [Server::venue(program, &file)?, Server::floor(&bench(program))?];
    let bare = files::make_and_read(&dir.join("bare"), n).map_err(|error| error.to_string())?;
    let than = |start, bare| format!("{}; floor, bare files {}", seconds(start), seconds(bare));
    report.line("start from nothing", &than(servers[0].start, bare[0]));
    let text = format!("{} KiB; floor {} KiB", one[0], one[1]);
    report.line("memory of the program with one session", &text);
    let begun_kib = servers[0].memory_kib("VmRSS")?;
    report.line("memory of a session before its first logon", &kib(each(begun_kib, one[0], n)));
    let disk = disk_kib(&dir.join("store")) as f64 / n as f64;
    report.line("disk of a session before its first logon", &kib(disk));

    let counts = [n, of_floor];
    let mut others = log_on(&mut report, &servers, counts)?;
    let (before, begin) = (cpu(&servers)?, Instant::now());
    let until = begin + Duration::from_secs(wanted.seconds);
    while Instant::now() < until {
        others.iter_mut().try_for_each(Others::send_due)?;
        thread::sleep(PACE);
    }
    let (after, elapsed) = (cpu(&servers)?, begin.elapsed().as_secs_f64());
    let share = |k: usize| (after[k] - before[k]).as_secs_f64() / elapsed * 100.0;
    // The floor may have fewer sessions, so its value is scaled to the venue's number of sessions.
    let (venue, floor) = (share(0), share(1) * n as f64 / of_floor as f64);
    let ratio = venue / floor.max(1e-9);
    let text = format!("{venue:.2} % of a core; floor {floor:.2} %; ratio {ratio:.2}");
    report.line("CPU, each sends a heartbeat every 30 s", &text);
    sizes(&mut report, &servers, counts, one)?;
    let busy_kib = disk_kib(&dir.join("store").join(BUSY));
    let disk = each(disk_kib(&dir.join("store")), busy_kib, n);
    report.line("disk of an idle session then", &kib(disk));

    let [venue, floor] = &mut servers;
    report.line("stop", &seconds(venue.stop(&mut others[0].all)?));
    floor.end();
    let mut again = Server::venue(program, &file)?;
    report.line("start from the stores of before", &than(again.start, bare[1]));
    again.stop(&mut [])?;
    for (what, value) in million::measure(&bench(program), dir, wanted.messages)? {
        report.line(&what, &value);
    }
    Ok(report.0.trim_end().to_owned())
}

/// Returns the cost per idle session: the total without the busy session's cost, divided by the
/// other sessions. Returns NaN if there is no other session.
fn each(all: u64, of_busy: u64, sessions: usize) -> f64 {
    match sessions {
        1 => f64::NAN,
        _ => all.saturating_sub(of_busy) as f64 / (sessions - 1) as f64,
    }
}

fn kib(kib: f64) -> String {
    if kib.is_nan() { "none".to_owned() } else { format!("{kib:.1} KiB") }
}

/// Returns the memory of the venue and of the floor with one logged-on session, in KiB.
fn alone(program: &Path, dir: &Path, wanted: &Wanted) -> Result<[u64; 2], String> {
    let one = Wanted { sessions: 1, durability: wanted.durability.clone(), ..*wanted };
    let (file, dir) = (dir.join("one.toml"), dir.join("one"));
    fs::write(&file, settings(&dir, &one)).map_err(|error| error.to_string())?;
    let mut servers = [Server::venue(program, &file)?, Server::floor(&bench(program))?];
    let log_on = |n: usize| Client::log_on(&servers[n].address, "C0", HEART_BT_INT_S);
    let (client, _of_floor) = (log_on(0)?, log_on(1)?);
    let memory = [servers[0].memory_kib("VmRSS")?, servers[1].memory_kib("VmRSS")?];
    servers[0].stop(&mut [client])?;
    Ok(memory)
}

/// Logs on all sessions of venue and floor. Round trips of the busy sessions are measured before
/// and after.
fn log_on(
    report: &mut Report,
    servers: &[Server; 2],
    sessions: [usize; 2],
) -> Result<[Others; 2], String> {
    let busy = |n: usize| Client::log_on(&servers[n].address, "C0", HEART_BT_INT_S);
    let mut busy = [busy(0)?, busy(1)?];
    let [venue, floor] = ask(&mut busy, &mut [Others::default(), Others::default()])?;
    report.beside("busy session alone, p50 / p99", venue, floor);
    let begin = Instant::now();
    let of_venue = Others::log_on(&servers[0].address, sessions[0], HEART_BT_INT_S)?;
    let took = begin.elapsed();
    let begin = Instant::now();
    let of_floor = Others::log_on(&servers[1].address, sessions[1], HEART_BT_INT_S)?;
    let text = format!("{}; floor {}", seconds(took), seconds(begin.elapsed()));
    report.line("logons of all others, one after the other", &text);
    let mut others = [of_venue, of_floor];
    let [venue, floor] = ask(&mut busy, &mut others)?;
    report.beside("busy session beside them, p50 / p99", venue, floor);
    for (others, busy) in others.iter_mut().zip(busy) {
        others.all.push(busy);
    }
    Ok(others)
}

/// Measures the memory, file descriptors and memory mappings of the logged-on sessions.
fn sizes(
    report: &mut Report,
    [venue, floor]: &[Server; 2],
    [n, n_floor]: [usize; 2],
    one: [u64; 2],
) -> Result<(), String> {
    let [all, of_floor] = [venue.memory_kib("VmRSS")?, floor.memory_kib("VmRSS")?];
    let of_busy = venue.mapped_kib(BUSY)?;
    let (memory, of_floor) = (each(all, one[0] + of_busy, n), each(of_floor, one[1], n_floor));
    let mapped = each(venue.mapped_kib("")?, of_busy, n);
    let text = format!(
        "{}, of which mapped files {}; floor {}; all {} MiB",
        kib(memory),
        kib(mapped),
        kib(of_floor),
        all / 1024
    );
    report.line("memory of an idle session", &text);
    let share = |count: usize, n: usize| format!("{:.2}", count as f64 / n as f64);
    let of_floor = share(floor.descriptors()?, n_floor);
    let text = format!("{}; floor {of_floor}", share(venue.descriptors()?, n));
    report.line("descriptors of a session", &text);
    report.line("memory mappings of a session", &share(venue.mappings()?, n));
    Ok(())
}

fn cpu(servers: &[Server; 2]) -> Result<[Duration; 2], String> {
    Ok([servers[0].cpu()?, servers[1].cpu()?])
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// Percentiles of round-trip times.
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

/// Measures round trips of venue and floor in turns, while the other sessions send heartbeats.
fn ask(busy: &mut [Client; 2], others: &mut [Others; 2]) -> Result<[Percentiles; 2], String> {
    let mut all = [Vec::with_capacity(ASKS), Vec::with_capacity(ASKS)];
    for slice in 0..2 * SLICES {
        for _ in 0..ASKS / SLICES {
            others.iter_mut().try_for_each(Others::send_due)?;
            thread::sleep(PACE);
            all[slice % 2].push(busy[slice % 2].ask()?);
        }
    }
    all.iter_mut().for_each(|times| times.sort_unstable());
    Ok(all.map(|times| Percentiles { p50: times[ASKS / 2], p99: times[ASKS * 99 / 100] }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busy_session_counts_for_nobody() {
        assert_eq!(kib(each(1_000, 100, 10)), "100.0 KiB");
        assert_eq!(kib(each(1_000, 2_000, 10)), "0.0 KiB");
        assert_eq!(kib(each(1_000, 100, 1)), "none");
    }

    #[test]
    fn the_floor_gets_what_the_limit_leaves() {
        assert_eq!(floor_sessions(None, 10_000), Ok(10_000));
        assert_eq!(floor_sessions(Some(20_000), 10_000), Ok(9_936));
        assert_eq!(floor_sessions(Some(65_536), 10_000), Ok(10_000));
        let error = floor_sessions(Some(12_000), 10_000).unwrap_err();
        assert!(error.contains("need up to 20064 open files, and the process may have 12000"));
    }

    #[test]
    fn arguments() {
        let parsed =
            |text: &str| parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let wanted = parsed("200 --seconds 5 --durability memory --messages 7").unwrap().unwrap();
        assert_eq!((wanted.sessions, wanted.seconds, wanted.messages), (200, 5, 7));
        assert_eq!(wanted.durability, "memory");
        assert_eq!(parsed("--help"), Ok(None));
        for wrong in ["0", "many", "--seconds", "--durability power"] {
            assert_eq!(parsed(wrong), Err(USAGE.to_owned()), "{wrong}");
        }
    }
}
