//! Runs simulated worlds on all cores: `simulate --seed N --worlds M [--kind K]`. A single world is
//! traced. `cargo xtask simulate` builds and runs this program.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that reports")]

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use transfix_testkit::world::{self, Ground, Summary, Trace, WorldKind};

/// The number of consecutive worlds that a thread claims at once.
const CHUNK: u64 = 64;
/// The number of trace lines that are printed after a failure.
const LINES: usize = 60;

struct Args {
    seed: u64,
    worlds: u64,
    kind: Option<WorldKind>,
    lines: usize,
}

fn parse() -> Option<Args> {
    let mut parsed = Args { seed: 0, worlds: 2_000, kind: None, lines: LINES };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args.next()?;
        match arg.as_str() {
            "--seed" => parsed.seed = value.parse().ok()?,
            "--worlds" => parsed.worlds = value.parse().ok()?,
            "--lines" => parsed.lines = value.parse().ok()?,
            "--kind" => parsed.kind = Some(WorldKind::parse(&value)?),
            _ => return None,
        }
    }
    Some(parsed)
}

/// The broken law, and the first world that broke it.
#[derive(Default)]
struct Found {
    broken: Option<(u64, String)>,
    total: Summary,
}

fn main() -> ExitCode {
    let Some(args) = parse() else {
        eprintln!("usage: simulate [--seed N] [--worlds M] [--kind KIND] [--lines N]");
        return ExitCode::from(2);
    };
    // The panic hook is silent, because the program itself reports a broken law with its seed.
    panic::set_hook(Box::new(|_| ()));
    let begun_ns = transfix::clock::monotonic_ns();
    let ground = Ground::default();
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let found = Mutex::new(Found::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(&args, &ground, &next, &done, &found));
        }
    });
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let done = done.into_inner();
    let seconds = (transfix::clock::monotonic_ns() - begun_ns) as f64 / 1e9;
    eprintln!("\r{done} worlds in {seconds:.1} s, {:.0} each second", done as f64 / seconds);
    println!("{:?}", found.total);
    let Some((seed, why)) = found.broken else { return ExitCode::SUCCESS };
    let kind = args.kind.unwrap_or(WorldKind::of(seed));
    let trace = Trace::last(args.lines);
    let again = caught(&ground, seed, kind, &trace);
    println!("{}", trace.lines().join("\n"));
    println!("seed {seed}, kind {}, after {} worlds: {why}", kind.name(), seed - args.seed + 1);
    if again.is_ok() {
        println!("NOT broken when run again: the world is not repeatable");
    }
    println!("again: cargo xtask simulate --seed {seed} --worlds 1 --kind {}", kind.name());
    ExitCode::FAILURE
}

fn work(args: &Args, ground: &Ground, next: &AtomicU64, done: &AtomicU64, found: &Mutex<Found>) {
    loop {
        let begin = next.fetch_add(CHUNK, Ordering::Relaxed);
        let lowest = || {
            let found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.broken.as_ref().map_or(u64::MAX, |(seed, _)| *seed)
        };
        if begin >= args.worlds || args.seed + begin > lowest() {
            return;
        }
        let mut total = Summary::default();
        for n in begin..(begin + CHUNK).min(args.worlds) {
            let seed = args.seed + n;
            match caught(ground, seed, args.kind.unwrap_or(WorldKind::of(seed)), &Trace::default())
            {
                Ok(summary) => total.add(&summary),
                Err(why) => {
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    if found.broken.as_ref().is_none_or(|(lowest, _)| seed < *lowest) {
                        found.broken = Some((seed, why));
                    }
                    break;
                }
            }
        }
        found.lock().unwrap_or_else(PoisonError::into_inner).total.add(&total);
        let done = done.fetch_add(CHUNK, Ordering::Relaxed) + CHUNK;
        if done.is_multiple_of(CHUNK * 64) {
            eprint!("\r{done} of {} worlds", args.worlds);
        }
    }
}

fn caught(ground: &Ground, seed: u64, kind: WorldKind, trace: &Trace) -> Result<Summary, String> {
    let run = AssertUnwindSafe(|| world::run(ground, seed, kind, trace));
    panic::catch_unwind(run).map_err(|why| {
        let text = why.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| why.downcast_ref::<&str>().copied());
        text.unwrap_or("a panic without a text").to_owned()
    })
}
