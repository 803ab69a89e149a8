//! Tries faults in a fleet on this machine, and measures the recovery.

mod brokers;
mod cost;
mod counterparty;
mod gateway;
mod history;
mod relay;
mod sizing;
mod stage;
mod venue;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use comfy_table::{Table, presets};

use super::Args;
use super::fault::{Fault, Role};
use brokers::Brokers;
use counterparty::HEART_BT_INT;
use history::Violations;
use stage::Stage;

/// Runs a gateway of the demo.
pub(crate) fn gateway(settings: &Path) -> ExitCode {
    gateway::run(settings)
}

pub(super) fn run(args: &Args) -> ExitCode {
    let done = check_program(&args.nats_server).and_then(|()| show(args));
    match done {
        Ok(true) => {
            println!("all checks passed");
            ExitCode::SUCCESS
        }
        Ok(false) => {
            eprintln!("transfix demo fleet: a check has failed");
            ExitCode::FAILURE
        }
        Err(why) => {
            eprintln!("transfix demo fleet: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Waits before the next look at a process or a network, which reports no event.
fn pause(time: Duration) {
    #[expect(clippy::disallowed_methods, reason = "a process or a network reports no event")]
    std::thread::sleep(time);
}

/// Checks that the program runs.
fn check_program(program: &Path) -> Result<(), String> {
    let shown = program.display();
    let run = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    match run {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown} --version: {status}")),
        Err(error) => Err(format!(
            "{shown}: {error}; install nats-server from \
             https://github.com/nats-io/nats-server/releases or by `go install \
             github.com/nats-io/nats-server/v2@latest`, and name it by --nats-server"
        )),
    }
}

/// The result of all trials of a fault.
struct Row {
    fault: Fault,
    role: Role,
    recoveries: Vec<Duration>,
    orders: u64,
    violations: Violations,
}

fn show(args: &Args) -> Result<bool, String> {
    if args.cost {
        let costs = in_folder("cost", |dir| {
            let brokers = Brokers::start(&args.nats_server, dir)?;
            stage::connect(&brokers)?;
            brokers.settle()?;
            cost::measure(&brokers)
        })?;
        println!("{costs}");
        return Ok(true);
    }
    if args.sizing {
        let text = in_folder("sizing", |dir| {
            let brokers = Brokers::start(&args.nats_server, dir)?;
            stage::connect(&brokers)?;
            brokers.settle()?;
            sizing::measure(&brokers, dir)
        })?;
        println!("{text}");
        return Ok(true);
    }
    let mut faults = args.fault.clone();
    if faults.contains(&Fault::All) {
        faults = Fault::each().collect();
    }
    let mut rows = Vec::new();
    for fault in faults {
        println!("{}: {}", fault.name(), fault.about());
        for role in &args.role {
            let name = format!("{}-{}", fault.name(), role.name());
            let row = in_folder(&name, |dir| trials(args, (fault, *role), dir));
            let row = row.map_err(|why| format!("{name}: {why}"))?;
            println!("{}", summary(&row));
            rows.push(row);
        }
    }
    if rows.len() > 1 {
        println!("{}", table(&rows));
    }
    Ok(rows.iter().all(|row| row.violations == Violations::default()))
}

/// Calls `act` with a new folder, which is kept only if `act` fails.
fn in_folder<T>(name: &str, act: impl FnOnce(&Path) -> Result<T, String>) -> Result<T, String> {
    let name = format!("transfix-fleet-{}-{name}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let done = act(&dir);
    if done.is_err() {
        eprintln!("  the logs and stores are in {}", dir.display());
    } else {
        // If the removal fails, the files stay in the system's temporary directory.
        let _ = std::fs::remove_dir_all(&dir);
    }
    done
}

/// Tries one fault in a fleet of its own.
fn trials(args: &Args, (fault, role): (Fault, Role), dir: &Path) -> Result<Row, String> {
    println!("  the gateways are the {}", role.name());
    let mut stage = Stage::start(&args.nats_server, role, dir)?;
    let says_all = args.trials == 1;
    if says_all {
        println!("The gateways, as `transfix fleet status` shows them:\n{}", stage.status()?);
    }
    let mut recoveries = Vec::new();
    for trial in 1..=args.trials {
        let recovery = stage.inject(fault, Duration::from_secs(args.pause))?;
        if !says_all {
            println!("  trial {trial}: {} ms without an answer", recovery.as_millis());
        }
        recoveries.push(recovery);
    }
    if says_all {
        println!("After the fault:\n{}", stage.status()?);
    }
    let (orders, violations) = stage.finish()?;
    recoveries.sort();
    Ok(Row { fault, role, recoveries, orders, violations })
}

/// Returns the value that this part of the sorted values does not exceed.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted[at.min(sorted.len() - 1)]
}

fn summary(row: &Row) -> String {
    let Violations { lost, doubled, reused } = row.violations;
    let [p50, p99] = [50, 99].map(|percent| percentile(&row.recoveries, percent).as_millis());
    let recovery = match row.recoveries.len() {
        1 => format!("longest time without an answer: {p99} ms"),
        trials => format!("without an answer in {trials} trials: p50 {p50} ms, p99 {p99} ms"),
    };
    format!(
        "  {} orders; {recovery}\n  acknowledged messages lost: {lost}; messages doubled: \
         {doubled}; numbers with two contents: {reused}\n",
        row.orders
    )
}

fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    let header =
        ["fault", "role", "trials", "p50 ms", "p99 ms", "orders", "lost", "doubled", "reused"];
    table.load_style(presets::NOTHING).set_header(header);
    for row in rows {
        let Violations { lost, doubled, reused } = row.violations;
        let [p50, p99] = [50, 99].map(|percent| percentile(&row.recoveries, percent).as_millis());
        let numbers = [p50, p99, u128::from(row.orders), lost as u128];
        let counts = [doubled as u128, reused as u128];
        let numbers = numbers.into_iter().chain(counts).map(|number| number.to_string());
        let start =
            [row.fault.name(), row.role.name().to_owned(), row.recoveries.len().to_string()];
        table.add_row(start.into_iter().chain(numbers));
    }
    format!("{table}\n\nHeartBtInt(108) of the session: {} s", HEART_BT_INT.as_secs())
}
