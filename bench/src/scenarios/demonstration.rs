//! What `transfix demo` measures.

use std::path::PathBuf;

use super::latency::{Measured, Work, measure_in_child};
use super::s1::{Configuration, ReportForm};
use super::{plot, report};

/// How often a configuration is measured again that met noise.
const REPEATS_MAX: usize = 2;

/// Measures, and again while the floor comes out slower than the engine: the run with the least
/// noise counts.
fn measure_quietly(config: Configuration, work: Work) -> Result<Measured, String> {
    let mut best = measure_in_child(config, work)?;
    for _ in 0..REPEATS_MAX {
        if !best.report.ratio.is_noise() {
            break;
        }
        println!("  the machine was disturbed while {} was measured; once more", config.name);
        let again = measure_in_child(config, work)?;
        if again.report.ratio.least() > best.report.ratio.least() {
            best = again;
        }
    }
    Ok(best)
}

/// Measures the round trip of so many orders with two configurations, shows the table, and draws
/// the picture.
///
/// # Errors
/// If a side cannot be started or ends too early, or a file cannot be written.
pub fn demonstrate(messages: usize) -> Result<(), String> {
    println!(
        "\nThe round trip of an order and its report, {} times at 1,000 a second, two processes:\n",
        messages
    );
    let mut runs = Vec::new();
    for name in ["default", "optimized-hard-spin"] {
        let (rate, report) = (1_000, ReportForm::Valid);
        let work = Work { messages, rate, report, log: false };
        runs.push(measure_quietly(Configuration::named(name)?, work)?);
    }
    println!("{}", report::table(runs.iter().map(|run| &run.report)));
    if runs.iter().any(|run| run.report.ratio.is_noise()) {
        println!("{}\n", report::NOISE_EXPLAINED);
    }
    let names: Vec<_> = runs.iter().map(Measured::names).collect();
    let series: Vec<(&str, &[u64])> = runs
        .iter()
        .zip(&names)
        .flat_map(|(run, (engine, floor))| {
            [(engine.as_str(), &run.engine[..]), (floor.as_str(), &run.floor[..])]
        })
        .collect();
    let (csv, svg) = (PathBuf::from("latency.csv"), PathBuf::from("latency.svg"));
    report::write_csv(&csv, &series).map_err(|error| format!("{}: {error}", csv.display()))?;
    plot::draw(
        &svg,
        "Order round trip (S1): NewOrderSingle(D) to ExecutionReport(8), loopback",
        &series,
    )?;
    println!("Raw values: {}; picture of the distribution: {}", csv.display(), svg.display());
    Ok(())
}
