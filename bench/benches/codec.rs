//! Measures the cost of the codec's operations, with their floor and the codecs of other engines:
//! `cargo bench -p transfix-bench --bench codec`. Allocations are counted; our codec must make
//! none.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark speaks to its user")]

#[path = "../examples/count/typed.rs"]
mod typed;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use transfix_bench::measure::{self, OURS, Plan, Series, Slice};
use transfix_bench::operation::{Operation, Set};
use transfix_bench::ours::Ours;
use transfix_bench::peer::Peers;
use transfix_testkit::alloc::{Counting, thread_allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PLAN: Plan<'_> =
    Plan { operations: &Operation::ALL, sets: &Set::ALL, slices: 51, slice: Slice::Ns(1_000_000) };

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("codec: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let mut ours = Ours::new()?;
    ours.set_typed(typed::TYPED)?;
    check_allocations(&mut ours)?;
    let mut peers = Peers::start(&peers_folder()?, &ours)?;
    let series = measure::run(&mut ours, &mut peers, PLAN)?;
    println!("ns per operation, median of {} slices; allocations of ours: 0", PLAN.slices);
    println!("{}", table(&series));
    println!("ns for a message of S2b, 13 orders and their 51 reports in turn, FIX42");
    println!("{}", hftest_table(&series));
    for line in &peers.missing {
        println!("{line}");
    }
    Ok(())
}

/// Checks that no operation allocates once its buffers have grown.
fn check_allocations(ours: &mut Ours) -> Result<(), String> {
    for operation in Operation::ALL {
        for set in Set::ALL.into_iter().filter(|set| operation.is_on(*set)) {
            // The first 200 runs let the buffers grow.
            ours.run(operation, set, 200);
            let before = thread_allocations();
            ours.run(operation, set, 200);
            let made = thread_allocations() - before;
            if made > 0 {
                return Err(format!("{} makes {made} allocations in 200", operation.name()));
            }
        }
    }
    Ok(())
}

/// Returns the folder `target/peers`; the running program is in `target/release/deps`.
fn peers_folder() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = program.ancestors().nth(3).map(Path::to_path_buf);
    target.map(|target| target.join("peers")).ok_or_else(|| "no target folder".to_owned())
}

fn table(series: &[Series]) -> String {
    let median = |engine: &str, operation, set| {
        let is_it =
            |s: &&Series| (s.engine.as_str(), s.operation, s.set) == (engine, operation, set);
        series.iter().find(is_it).map(Series::median_ns)
    };
    let mut engines = series.iter().map(|s| s.engine.as_str());
    let first = engines.find(|engine| engine.starts_with("quickfix-cpp"));
    let mut text = format!(
        "{:<19} {:<22} {:>8} {:>8} {:>6} {:>9}\n",
        "operation", "engine", "fixed", "varied", "v/f", "of peer"
    );
    for operation in Operation::ALL {
        let shown = |s: &&Series| {
            (s.operation == operation || is_beside(operation, s)) && s.set == Set::Fixed
        };
        if operation == Operation::Encode {
            continue;
        }
        let mut rows: Vec<&Series> = series.iter().filter(shown).collect();
        rows.sort_by_key(|s| s.engine != OURS);
        for s in rows {
            let fixed = s.median_ns();
            let varied = median(&s.engine, s.operation, Set::Varied);
            let ours = median(OURS, operation, Set::Fixed);
            let ratio = match (s.engine == OURS, ours) {
                (false, Some(ours)) => Some(ours / fixed),
                // If the peers are compared by another operation, the ratios refer to QuickFIX C++
                // with that operation.
                (true, _) if operation != operation.of_peer() => first
                    .and_then(|engine| median(engine, operation.of_peer(), Set::Fixed))
                    .map(|peer| fixed / peer),
                _ => None,
            };
            let compared = ratio.map(of_peer);
            text += &format!(
                "{:<19} {:<22} {fixed:>8.1} {:>8} {:>6} {:>9}\n",
                s.operation.name(),
                s.engine,
                varied.map_or_else(String::new, |v| format!("{v:.1}")),
                varied.map_or_else(String::new, |v| format!("{:.2}", v / fixed)),
                compared.unwrap_or_default(),
            );
        }
    }
    text
}

/// Returns true if the series of a peer is compared with another operation of ours. Peers have no
/// typed messages and no separate templates.
fn is_beside(operation: Operation, series: &Series) -> bool {
    use Operation::{DecodeTypedGroups, Template, TypedEncode, TypedRead};
    matches!(operation, DecodeTypedGroups | Template | TypedEncode | TypedRead)
        && series.engine != OURS
        && series.operation == operation.of_peer()
}

/// Formats the ratio of our time to the peer's: `1/2.5` if our time is shorter, `1.20` if our time
/// is longer.
fn of_peer(ratio: f64) -> String {
    if ratio > 1.0 { format!("{ratio:.2}") } else { format!("1/{:.1}", 1.0 / ratio) }
}

/// Returns the table for the messages of scenario S2b: the time of each engine, and how many times
/// faster our codec is.
fn hftest_table(series: &[Series]) -> String {
    let mut text = format!("{:<23} {:<22} {:>8} {:>9}\n", "operation", "engine", "ns", "of peer");
    let mut rows: Vec<&Series> = series.iter().filter(|s| s.set == Set::Hftest).collect();
    rows.sort_by_key(|s| (s.operation.name(), s.engine != OURS));
    let mut ours = f64::NAN;
    for s in rows {
        let (ns, name) = (s.median_ns(), format!("hftest-{}", s.operation.name()));
        let compared = if s.engine == OURS {
            ours = ns;
            String::new()
        } else {
            of_peer(ours / ns)
        };
        text += &format!("{name:<23} {:<22} {ns:>8.1} {compared:>9}\n", s.engine);
    }
    text
}
