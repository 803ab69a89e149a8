//! What `transfix demo` measures.

use std::path::PathBuf;

use super::page::LATENCY;
use super::trip::{Measured, Work, measure_here};
use super::{plot, report};

/// Measures the round trip of so many orders with two configurations, shows the table, and draws
/// the picture.
///
/// # Errors
/// If a side cannot be started or ends too early, or a file cannot be written.
pub fn demonstrate(messages: usize) -> Result<(), String> {
    println!(
        "\nThe round trip of an order and its report, {messages} times at 1,000 a second, two \
         processes:\n"
    );
    let mut runs: Vec<Measured> = Vec::new();
    for name in ["default", "optimized-hard-spin"] {
        let column = LATENCY.column(name)?;
        runs.push(measure_here(&LATENCY, &column, Work::of(&LATENCY, messages))?);
    }
    println!("{}", report::table(runs.iter().map(|run| &run.report)));
    for sentence in runs.iter().flat_map(|run| run.report.sentences()) {
        println!("{sentence}");
    }
    let series: Vec<(&str, &[u64])> =
        runs.iter().flat_map(|run| &run.raw).map(|(name, raw)| (&**name, &raw[..])).collect();
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
