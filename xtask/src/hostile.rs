//! `cargo xtask hostile`: attacks a real server as strangers and counterparties would, over plain
//! TCP and TLS, while an honest counterparty trades.
//!
//! Checks: the server survives. The honest counterparty gets each answer, in order. Each attack has
//! its expected result, and a counterparty can log on right afterwards. At the end, memory, file
//! descriptors and threads are freed, and the log has a limited number of lines.
//!
//! The response time of the honest counterparty is measured in alternating periods with and without
//! attacks. The run fails if p99 with attacks exceeds 1.5 times p99 without attacks, both for the
//! median of all pairs and for its whole interval. With `--each`, each attack has its own period,
//! and attacks beyond the limit are listed. A listed attack does not fail the run, because other
//! programs may have disturbed a single pair. If the machine has at least two CPUs, the honest
//! counterparty and the attackers use separate CPUs.
#![allow(clippy::disallowed_methods, reason = "what a real process does takes real time")]

mod administrators;
mod counterparties;
mod honest;
mod line;
mod server;
mod strangers;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::nice;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::served::release_program;
use honest::Honest;
use line::Line;
use server::{PASSWORD, Place, Server, Usage, text_of, usage_of};

/// The result of a step, with the reason for a failure as its error.
type Outcome<T> = Result<T, String>;

const USAGE: &str = "usage: cargo xtask hostile [--list] [--only TEXT] [--plain | --tls] [--short]

  --list        the attacks, and what must come of each
  --only TEXT   those whose name has this text
  --plain       over plain TCP alone
  --tls         over TLS alone
  --short       each third attack
  --each        measures the honest counterparty at each attack, not at some together, and names
                the attacks during which its p99 is more than 1.5 times as long

The run fails if the server, the honest counterparty or an attack's result fails. It also fails if
the honest p99 is more than 1.5 times as long with attacks as without: the median of all pairs of
turns must be above 1.5, and its 95 % interval too. A single attack above 1.5 fails no run, and
neither does a run of fewer than 12 pairs, such as a short one.
It needs openssl, and builds the server.";

/// The maximum number of log lines that an attack may cause: a burst of lines for each of two or
/// three causes.
const LINES_MAX: usize = 60;
/// The number of attacks between two pauses, in which only the honest counterparty is active.
const IN_A_SLICE: usize = 12;
/// The maximum ratio of p99 with attacks to p99 without attacks, for the honest counterparty. The
/// run fails if the median ratio exceeds the limit; a single attack beyond the limit is only
/// reported.
const SLOWED: f64 = 1.5;
/// The minimum number of period pairs for a judgment of the ratio. A short run has fewer pairs,
/// because it shares its machine with other checks.
const JUDGED: usize = 12;
/// The duration of a pause between attacks.
const PAUSE: Duration = Duration::from_millis(1_500);
/// The time limit for the release of an attack's resources. An idle blocking thread of the server
/// lives for 10 s.
const SETTLED: Duration = Duration::from_secs(20);
/// The memory that the server may have gained at the end, in KiB.
const GROWTH_KIB: u64 = 24 << 10;
/// The number of bytes that the venue and its store keep for each order of the honest counterparty.
const ORDER_BYTES: u64 = 500;

/// The port of the server that an attack targets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Both,
    Plain,
    Tls,
}

/// An attack, with its name and expected result.
struct Attack {
    name: String,
    on: On,
    /// The description of the expected result.
    expects: String,
    run: Box<Run>,
}

/// The function that performs an attack. It returns an error if the result is not the expected one.
type Run = dyn Fn(&Field<'_>) -> Outcome<()> + Sync;

fn attack(
    name: &str,
    expects: &str,
    run: impl Fn(&Field<'_>) -> Outcome<()> + Sync + 'static,
) -> Attack {
    on(On::Both, name, expects, run)
}

fn on(
    on: On,
    name: &str,
    expects: &str,
    run: impl Fn(&Field<'_>) -> Outcome<()> + Sync + 'static,
) -> Attack {
    Attack { name: name.to_owned(), on, expects: expects.to_owned(), run: Box::new(run) }
}

/// The server under attack, as an attack sees it.
struct Field<'s> {
    plain: &'s str,
    tls: &'s str,
    is_tls: bool,
    /// The address of the admin interface over HTTP. The next fields are its address over FIX and
    /// the token of an operator.
    admin: &'s str,
    fix_admin: &'s str,
    token: &'s str,
    process: u32,
    log: &'s Path,
}

impl<'s> Field<'s> {
    fn of(place: &'s Place, is_tls: bool) -> Self {
        let Place { plain, tls, admin, fix_admin, token, process, log } = place;
        let process = *process;
        Self { plain, tls, is_tls, admin, fix_admin, token, process, log }
    }

    /// Returns the memory in use by the server, in KiB.
    fn memory_kib(&self) -> Outcome<u64> {
        usage_of(self.process).map(|usage| usage.memory_kib)
    }

    /// Returns the text that the server has logged so far.
    fn log(&self) -> String {
        text_of(self.log)
    }

    fn address(&self) -> &str {
        if self.is_tls { self.tls } else { self.plain }
    }

    /// Returns the suffix that the names of this port's sessions have.
    fn mark(&self) -> &'static str {
        if self.is_tls { "T" } else { "" }
    }

    /// Opens a connection and sends nothing.
    fn stranger(&self, name: &str) -> Outcome<Line> {
        let name = format!("{name}{}", self.mark());
        if self.is_tls { Line::tls(self.tls, &name) } else { Line::plain(self.plain, &name) }
    }

    /// Connects and logs on as a hostile counterparty.
    fn liar(&self) -> Outcome<Line> {
        self.logged_on("LIAR")
    }

    /// Logs on to the session `name` as soon as its previous connection has ended.
    fn logged_on(&self, name: &str) -> Outcome<Line> {
        let until = Instant::now() + line::PATIENCE;
        loop {
            let mut line = self.stranger(name)?;
            match line.log_on("141=Y|") {
                Ok(()) => return Ok(line),
                Err(why) if Instant::now() > until => return Err(format!("no logon: {why}")),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Checks that another counterparty can still log on and out.
    fn probe(&self) -> Outcome<()> {
        let mut line = self.logged_on("PROBE").map_err(|why| format!("PROBE: {why}"))?;
        line.say("5", "");
        line.hears("|35=5|").map(drop)
    }
}

/// The command-line options of `cargo xtask hostile`.
#[derive(Default)]
struct Wanted {
    lists: bool,
    only: Option<String>,
    plain: bool,
    tls: bool,
    short: bool,
    each: bool,
}

impl Wanted {
    fn of(args: &[String]) -> Outcome<Self> {
        let (mut wanted, mut args) = (Self::default(), args.iter());
        while let Some(arg) = args.next() {
            match &**arg {
                "--list" => wanted.lists = true,
                "--plain" => wanted.plain = true,
                "--tls" => wanted.tls = true,
                "--short" => wanted.short = true,
                "--each" => wanted.each = true,
                "--only" => wanted.only = Some(args.next().ok_or(USAGE)?.clone()),
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(wanted)
    }

    const fn in_a_slice(&self) -> usize {
        if self.each { 1 } else { IN_A_SLICE }
    }

    fn attacks(&self) -> Vec<Attack> {
        let all = strangers::all().into_iter().chain(counterparties::all());
        let all = all.chain(administrators::all());
        let only = |attack: &Attack| match &self.only {
            None => true,
            Some(text) => attack.name.contains(&**text),
        };
        let all = all.filter(only).enumerate();
        all.filter(|(n, _)| !self.short || n % 3 == 0).map(|(_, attack)| attack).collect()
    }
}

/// Runs the command `cargo xtask hostile`.
///
/// # Errors
/// Returns the checks that failed.
pub fn run(args: &[String]) -> crate::Outcome {
    let wanted = Wanted::of(args)?;
    let attacks = wanted.attacks();
    if wanted.lists {
        let line = |attack: &Attack| format!("{:55} {}", attack.name, attack.expects);
        let lines: Vec<_> = attacks.iter().map(line).collect();
        return Ok(format!("{}\n{} attacks", lines.join("\n"), lines.len()));
    }
    if attacks.is_empty() {
        return Err("no attack has this name; --list shows all".to_owned());
    }
    let program = release_program()?;
    let mut report = String::new();
    for is_tls in [false, true] {
        if (wanted.plain && is_tls) || (wanted.tls && !is_tls) {
            continue;
        }
        report += &over(&program, &attacks, is_tls, wanted.in_a_slice())?;
    }
    Ok(report)
}

/// Runs all attacks over plain TCP or over TLS.
fn over(program: &Path, attacks: &[Attack], is_tls: bool, in_a_slice: usize) -> Outcome<String> {
    let dir = Folder::new()?;
    let mut server = Server::start(program, &dir.0)?;
    let place = server.place.clone();
    let field = Field::of(&place, is_tls);
    let honest = Honest::start(field.plain)?;
    field.probe()?;
    // The first password check allocates memory that the server keeps. It takes place before the
    // measurement of memory begins.
    Line::plain(field.plain, "HASHED")?.log_on(&format!("141=Y|554={PASSWORD}|"))?;
    thread::sleep(PAUSE);
    let before = server.usage()?;
    let skipped = if is_tls { On::Plain } else { On::Tls };
    let attacks: Vec<_> = attacks.iter().filter(|attack| attack.on != skipped).collect();
    let (mut failed, mut most) = (Vec::new(), (0, String::new()));
    for (n, slice) in attacks.chunks(in_a_slice).enumerate() {
        // Odd slice numbers mark the periods with attacks.
        honest.slice(2 * n + 1);
        for attack in slice {
            let begin = server.log().lines().count();
            let mut outcome = from_elsewhere(|| (attack.run)(&field).and_then(|()| field.probe()));
            outcome = server.lives().and(outcome);
            let lines = server.log().lines().count() - begin;
            if lines > most.0 {
                most = (lines, attack.name.clone());
            }
            if lines > LINES_MAX {
                outcome = outcome.and(Err(format!("{lines} lines of the log")));
            }
            if !honest.goes_on() {
                outcome = outcome.and(Err("the honest counterparty has lost its session".into()));
            }
            let told =
                outcome.as_ref().map_or_else(|why| format!("FAILED: {why}"), |()| "ok".into());
            let over = if is_tls { "tls  " } else { "plain" };
            // The result is ignored, because an error only means that the reader has closed the
            // output.
            let _ =
                writeln!(std::io::stderr(), "{over} {:55} {lines:3} lines  {told}", attack.name);
            failed.extend(outcome.err().map(|why| format!("{}: {why}", attack.name)));
            if !honest.goes_on() || server.lives().is_err() {
                break;
            }
        }
        honest.slice(2 * n + 2);
        thread::sleep(PAUSE);
    }
    let times = honest.stop();
    let orders = times.as_ref().map_or(0, Vec::len) as u64;
    let allowed_kib = GROWTH_KIB + orders * ORDER_BYTES / 1024;
    let (after, grown) = settled(&server, before, allowed_kib)?;
    failed.extend(times.as_ref().err().cloned());
    failed.extend(grown);
    failed.extend(control_characters(&server.log()));
    let over = if is_tls { "TLS" } else { "plain TCP" };
    let mut report = format!("over {over}: {} attacks\n", attacks.len());
    let _ = writeln!(report, "  most lines of the log: {} by {}", most.0, most.1);
    let _ = writeln!(report, "  before: {before:?}\n  after:  {after:?}");
    let times = times.unwrap_or_default();
    report += &compared(&times);
    failed.extend(too_slow(&ratios(&times, 99)));
    if in_a_slice == 1 {
        let names: Vec<_> = attacks.iter().map(|attack| &*attack.name).collect();
        report += &slowed(&times, &names);
    }
    let _ = writeln!(report, "  {} failed", failed.len());
    match failed.is_empty() {
        true => Ok(report),
        false => Err(format!("{report}{}", failed.join("\n"))),
    }
}

/// Runs an attack at the lowest priority, so that it uses only spare CPU time, as if it came from
/// another machine. The server's work for the attack has normal priority.
fn from_elsewhere(attack: impl FnOnce() -> Outcome<()> + Send) -> Outcome<()> {
    thread::scope(|scope| {
        let attacker = scope.spawn(|| {
            // On Linux, the nice value belongs to the thread, and threads started by it inherit the
            // value.
            nice(19).map_err(|error| format!("nice: {error}"))?;
            stay(Machine::OfAttackers)?;
            attack()
        });
        attacker.join().unwrap_or_else(|_| Err("the attack has panicked".to_owned()))
    })
}

/// The simulated machine to which a thread belongs, which determines its CPUs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Machine {
    OfHonest,
    OfAttackers,
}

/// Pins the thread and its children to the CPUs of this machine. The honest counterparty has the
/// last CPU, the attackers have the other CPUs, and the server may use all. Without the separation,
/// the start and end of attack programs would delay the measuring thread, because a non-preemptive
/// kernel then blocks other threads for milliseconds.
fn stay(machine: Machine) -> Outcome<()> {
    let failed = |error| format!("CPUs: {error}");
    let mut cpus = sched_getaffinity(None).map_err(failed)?;
    let Some(last) = (0..CpuSet::MAX_CPU).rev().find(|cpu| cpus.is_set(*cpu)) else {
        return Ok(());
    };
    if cpus.count() < 2 {
        return Ok(());
    }
    match machine {
        Machine::OfAttackers => cpus.unset(last),
        Machine::OfHonest => {
            cpus.clear();
            cpus.set(last);
        }
    }
    sched_setaffinity(None, &cpus).map_err(failed)
}

/// A directory that is removed with its contents on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Outcome<Self> {
        let path = std::env::temp_dir().join(format!("transfix-hostile-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits until the server has released all resources, for `SETTLED` at most. Returns the resource
/// usage, and descriptions of the resources that are still in use.
fn settled(server: &Server, before: Usage, allowed_kib: u64) -> Outcome<(Usage, Vec<String>)> {
    let until = Instant::now() + SETTLED;
    loop {
        let after = server.usage()?;
        let grown = growth(before, after, allowed_kib);
        if grown.is_empty() || Instant::now() > until {
            return Ok((after, grown));
        }
        thread::sleep(PAUSE);
    }
}

/// Returns descriptions of the resources that the server has not released.
fn growth(before: Usage, after: Usage, allowed_kib: u64) -> Vec<String> {
    let mut grown = Vec::new();
    if after.memory_kib > before.memory_kib + allowed_kib {
        let (from, to) = (before.memory_kib, after.memory_kib);
        grown.push(format!("memory has grown from {from} to {to} KiB"));
    }
    if after.descriptors > before.descriptors + 2 {
        let (from, to) = (before.descriptors, after.descriptors);
        grown.push(format!("there were {from} descriptors, and are {to}"));
    }
    if after.threads > before.threads + 2 {
        grown.push(format!("there were {} threads, and are {}", before.threads, after.threads));
    }
    grown
}

/// Returns the first log line with control characters, which could manipulate the terminal of a
/// reader.
fn control_characters(log: &str) -> Option<String> {
    let is_bad = |c: char| c.is_control() && c != '\n' && c != '\t';
    let line = log.lines().find(|line| line.chars().any(is_bad))?;
    Some(format!("the log has control characters: {}", line.escape_debug()))
}

/// Returns the `percent` quantile of the response times in this slice.
fn quantile(times: &[(usize, Duration)], slice: usize, percent: usize) -> Option<Duration> {
    let mut all: Vec<_> = times.iter().filter(|(n, _)| *n == slice).map(|(_, t)| *t).collect();
    all.sort_unstable();
    all.get((all.len() * percent / 100).min(all.len().saturating_sub(1))).copied()
}

/// Returns the names of the attacks that slowed down the honest counterparty. Each attack has its
/// own slice.
fn slowed(times: &[(usize, Duration)], names: &[&str]) -> String {
    let mut text = String::new();
    for (n, name) in names.iter().enumerate() {
        let (with, alone) = (quantile(times, 2 * n + 1, 99), quantile(times, 2 * n + 2, 99));
        let Some((with, alone)) = with.zip(alone) else { continue };
        let ratio = with.as_secs_f64() / alone.as_secs_f64();
        if ratio > SLOWED {
            let _ = writeln!(text, "  {name}: p99 {with:?}, {ratio:.2} times {alone:?}");
        }
    }
    text
}

/// A pair of slices, the first with attacks and the next without: the ratio, the response time with
/// attacks, the response time without.
type Pair = (f64, Duration, Duration);

/// Returns the pairs of all slices for this percentile, in ascending order of the ratio.
fn ratios(times: &[(usize, Duration)], percent: usize) -> Vec<Pair> {
    let slices = times.iter().map(|(slice, _)| *slice).max().unwrap_or_default();
    let of = |slice: usize| quantile(times, slice, percent);
    let pair = |slice: usize| {
        let (with, alone) = (of(slice)?, of(slice + 1)?);
        Some((with.as_secs_f64() / alone.as_secs_f64(), with, alone))
    };
    let mut pairs: Vec<_> = (1..slices).step_by(2).filter_map(pair).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    pairs
}

/// Returns the 95 % confidence interval of the median ratio, or `None` if there are fewer than 6
/// pairs.
fn interval(pairs: &[Pair]) -> Option<(f64, f64)> {
    let count = pairs.len();
    // The ranks around the median follow from the normal approximation of the sign test.
    let half_width = 1.96 * (count as f64).sqrt() / 2.0;
    let below = (count as f64 / 2.0 - half_width).floor();
    (count >= 6).then(|| {
        let low = below.max(0.0) as usize;
        (pairs[low].0, pairs[count - 1 - low].0)
    })
}

/// Returns an error message if the attacks slowed down the honest counterparty too much in the
/// whole run.
fn too_slow(pairs: &[Pair]) -> Option<String> {
    let median = pairs.get(pairs.len() / 2)?.0;
    let (low, high) = interval(pairs)?;
    (pairs.len() >= JUDGED && median > SLOWED && low > SLOWED).then(|| {
        format!(
            "the honest p99 is {median:.2} times as long with attacks (median of {} pairs, 95 %: \
             {low:.2} to {high:.2}), and {SLOWED} times at most is allowed",
            pairs.len()
        )
    })
}

/// Returns a text that compares the response times of the honest counterparty with and without
/// attacks.
fn compared(times: &[(usize, Duration)]) -> String {
    let mut text = String::new();
    for percent in [50, 99] {
        let pairs = ratios(times, percent);
        let Some((ratio, with, alone)) = pairs.get(pairs.len() / 2) else { continue };
        let _ = write!(
            text,
            "  honest p{percent}: {with:?} with attacks, {alone:?} alone: {ratio:.2} times \
             (median of {} pairs",
            pairs.len()
        );
        let _ = match interval(&pairs) {
            Some((low, high)) => writeln!(text, ", 95 %: {low:.2} to {high:.2})"),
            None => writeln!(text, ", too few for an interval)"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the response times of a run whose pairs have these ratios of p99.
    fn run_of(ratios: &[f64]) -> Vec<(usize, Duration)> {
        let alone = Duration::from_micros(100);
        let pair =
            |(n, ratio): (usize, &f64)| [(2 * n + 1, alone.mul_f64(*ratio)), (2 * n + 2, alone)];
        ratios.iter().enumerate().flat_map(pair).collect()
    }

    #[test]
    fn a_run_fails_by_its_median_with_its_interval_and_by_no_single_attack() {
        let mixed = |slow: usize, fast: usize| [vec![2.0; slow], vec![1.0; fast]].concat();
        for (what, ratios, fails) in [
            ("none", vec![], false),
            ("too few pairs to say", vec![9.0; 11], false),
            ("all slow", vec![2.0; 12], true),
            ("none slow", vec![1.0; 100], false),
            ("at the limit", vec![1.5; 100], false),
            ("some attacks are very slow", [vec![50.0; 10], vec![1.0; 90]].concat(), false),
            ("the median is, and its interval is not", mixed(52, 48), false),
            ("the median is, and its interval too", mixed(70, 30), true),
        ] {
            let times = run_of(&ratios);
            let pairs = super::ratios(&times, 99);
            assert_eq!(pairs.len(), ratios.len(), "{what}");
            assert_eq!(too_slow(&pairs).is_some(), fails, "{what}");
        }
    }

    #[test]
    fn single_attacks_are_named() {
        let times = run_of(&[1.0, 3.0, 1.2]);
        let named = slowed(&times, &["a", "b", "c"]);
        assert_eq!(named.lines().count(), 1, "{named}");
        assert!(named.starts_with("  b: p99 300"), "{named}");
    }

    #[test]
    fn the_interval_lies_around_the_median() {
        let pairs: Vec<Pair> =
            (0..100).map(|n| (f64::from(n), Duration::ZERO, Duration::ZERO)).collect();
        assert_eq!(interval(&pairs), Some((40.0, 59.0)));
        assert_eq!(interval(&pairs[..6]), Some((0.0, 5.0)));
        assert_eq!(interval(&pairs[..5]), None);
    }
}
