//! Plays the scenarios of `testdata/scenarios` in several worlds (implementations of the session
//! under test): `cargo xtask scenarios`.
//!
//! ```text
//! scenarios [--world pure|loopback|quickfix]... [--quickfix PROGRAM] [--filter PART]
//!           [--all-versions]
//! ```
//! Without `--world`: plays all scenarios with the pure session, and a part of them with an engine
//! over loopback.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test program")]

mod application;
mod loopback;
mod pure;
mod quickfix;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use pure::Pieces;
use transfix::clock;
use transfix_testkit::scenario::{Failure, Scenario, Version, play};

/// The longest wait in a scenario that is played in real time.
const REAL_WAIT_MAX: Duration = Duration::from_millis(2_500);
/// The name of the pure world in which each read returns one byte.
const BYTEWISE: &str = "pure, byte by byte";
/// The tolerance of plays in real time. A failed play is void if it took this much longer than its
/// waits, because later timers may have fired.
const LATE: Duration = Duration::from_millis(50);
/// The maximum number of void plays of one file; a further failure counts.
const LATE_PLAYS_MAX: usize = 5;
/// Without options, one scenario in this number is played over loopback.
const SHORT_ONE_IN: usize = 12;

struct Options {
    worlds: Vec<String>,
    filter: String,
    quickfix: PathBuf,
    all_versions: bool,
}

impl Options {
    /// Reads the options. Unknown options such as `--nocapture` belong to another harness; a bare
    /// word is a filter.
    fn read() -> Self {
        let (mut worlds, mut filter, mut quickfix) = (Vec::new(), String::new(), PathBuf::new());
        let mut all_versions = false;
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--world" => worlds.extend(args.next()),
                "--filter" => filter = args.next().unwrap_or_default(),
                "--quickfix" => quickfix = args.next().unwrap_or_default().into(),
                "--all-versions" => all_versions = true,
                _ if arg.starts_with('-') => {}
                _ => filter = arg,
            }
        }
        Self { worlds, filter, quickfix, all_versions }
    }

    fn worlds(&self) -> Vec<&str> {
        self.worlds.iter().map(String::as_str).collect()
    }
}

/// The counts of played scenarios in one world.
#[derive(Default)]
struct Tally {
    files: usize,
    plays: usize,
    failed: usize,
    /// The number of skipped scenarios: not chosen in this run, with a wait that is too long, or
    /// not supported by this world.
    others: usize,
    late: usize,
    excused: usize,
    unable: usize,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, plays, failed, .. } = self;
        write!(f, "{files} files, {plays} plays, {failed} failed")?;
        let left_out = [
            (self.excused, "say why they cannot be played"),
            (self.unable, "have settings that are unknown there"),
            (self.late, "wait too long"),
            (self.others, "have no turn"),
        ];
        for (count, why) in left_out.iter().filter(|(count, _)| *count > 0) {
            write!(f, "; {count} {why}")?;
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let options = Options::read();
    let scenarios: Vec<Scenario> =
        all().into_iter().filter(|scenario| scenario.name.contains(&options.filter)).collect();
    let mut failed = 0;
    let mut run = |world: &str, one_in: usize, play: &mut Player<'_>| {
        failed += run(world, (&options, &scenarios), one_in, play).failed;
    };
    let pure = pure::Pure::default();
    let is_short = options.worlds.is_empty();
    let worlds = if is_short { vec!["pure", "loopback"] } else { options.worlds() };
    for world in worlds {
        match world {
            "pure" => {
                run(world, 1, &mut |s, v| play(s, v, &mut pure.world(s, v, Pieces::Whole)));
                run(BYTEWISE, 1, &mut |s, v| play(s, v, &mut pure.world(s, v, Pieces::Bytes)));
            }
            "loopback" => {
                let one_in = if is_short { SHORT_ONE_IN } else { 1 };
                run(world, one_in, &mut |s, v| play(s, v, &mut loopback::Loopback::new(s, v)));
            }
            "quickfix" => {
                let mut quickfixes = quickfix::QuickFixes::new(&options.quickfix);
                run(world, 1, &mut |s, v| play(s, v, &mut quickfixes.world(s, v)));
            }
            _ => {
                println!("no such world: {world}; there are pure, loopback and quickfix");
                return ExitCode::from(2);
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

type Player<'p> = dyn FnMut(&Scenario, Version) -> Result<(), Failure> + 'p;

fn run(
    world: &str,
    (options, scenarios): (&Options, &[Scenario]),
    one_in: usize,
    play: &mut Player<'_>,
) -> Tally {
    let is_real = !["pure", BYTEWISE].contains(&world);
    let mut tally = Tally::default();
    for (n, scenario) in scenarios.iter().enumerate() {
        let is_late = is_real && scenario.waits() > REAL_WAIT_MAX;
        let excused = scenario.excuse(if is_real { world } else { "pure" }).is_some();
        if !n.is_multiple_of(one_in) || is_late || excused {
            let why = match (excused, is_late) {
                (true, _) => &mut tally.excused,
                (_, true) => &mut tally.late,
                _ => &mut tally.others,
            };
            *why += 1;
            continue;
        }
        let can = |v: &&Version| world != "quickfix" || quickfix::excuse(scenario, **v).is_none();
        let versions: Vec<Version> = scenario.versions.iter().filter(can).copied().collect();
        if versions.is_empty() {
            tally.unable += 1;
            continue;
        }
        tally.files += 1;
        let plays = choose(world, options, n, (scenario, &versions));
        for (scenario, version) in &plays {
            tally.plays += 1;
            let mut late_plays = if is_real { LATE_PLAYS_MAX } else { 0 };
            let played = loop {
                let begin_ns = clock::monotonic_ns();
                let played = play(scenario, *version);
                let took = Duration::from_nanos(clock::monotonic_ns() - begin_ns);
                let is_late = |failure: &Failure| took > failure.waited + LATE;
                if late_plays == 0 || !played.as_ref().is_err_and(is_late) {
                    break played;
                }
                late_plays -= 1;
            };
            if let Err(failure) = played {
                tally.failed += 1;
                let (name, side) = (&scenario.name, scenario.side);
                println!("{world}: {name} in {version} as {side:?}: {failure}\n");
            }
        }
    }
    println!("{world}: {tally}");
    tally
}

/// Chooses the plays of a file. In the pure world, these are all versions and both roles; in other
/// worlds, one version and one role in turn.
fn choose(
    world: &str,
    options: &Options,
    n: usize,
    (scenario, versions): (&Scenario, &[Version]),
) -> Vec<(Scenario, Version)> {
    let mut sides = scenario.sides();
    let mut versions = versions.to_vec();
    if world != "pure" && !options.all_versions {
        versions = vec![versions[n % versions.len()]];
        sides = vec![sides[n % sides.len()].clone()];
    }
    if world == "quickfix" {
        // QuickFIX's initiator needs a second or two for each connection.
        sides = vec![scenario.clone()];
    }
    let plays = sides.iter().flat_map(|side| versions.iter().map(|v| (side.clone(), *v)));
    plays.collect()
}

fn all() -> Vec<Scenario> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/scenarios");
    let mut files = Vec::new();
    list(&folder, &mut files);
    files.sort();
    let read = |file: &PathBuf| {
        let name = file.strip_prefix(&folder).unwrap().with_extension("").display().to_string();
        let text = fs::read_to_string(file).unwrap();
        Scenario::parse(&name, &text).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    files.iter().map(read).collect()
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list(&path, files);
        } else if path.extension().is_some_and(|end| end == "fix") {
            files.push(path);
        }
    }
}

/// Returns the settings of the session under test.
fn settings(scenario: &Scenario, version: Version, address: &str) -> transfix::Settings {
    let text = scenario.settings(version, address);
    let settings = transfix::Settings::parse(&scenario.name, &text);
    settings.unwrap_or_else(|error| panic!("{error}\n{text}"))
}
