//! The benchmarks: [`scenarios`], which the program `transfix-bench` runs, and the codec's
//! operations. Slices of the same work by other engines alternate with ours.
//!
//! `cargo bench` and `transfix bench codec` print the figures that [`measure::run`] returns for the
//! codec.

pub mod measure;
pub mod operation;
pub mod ours;
pub mod peer;
pub mod scenarios;
pub mod workload;

/// Returns a line about the build of this program, to print with the figures: figures are valid for
/// one build only.
#[must_use]
pub fn built() -> String {
    let optimized = match (cfg!(debug_assertions), option_env!("TRANSFIX_PROFILED")) {
        (true, _) => "with debug assertions",
        (false, None) => "optimized",
        (false, Some(_)) => "optimized with a profile of its own work",
    };
    // The recorded figures in BENCHMARKS.md come from the profile `dist`.
    match env!("TRANSFIX_PROFILE") {
        "dist" | "debug" => optimized.to_owned(),
        other => format!("{optimized} (cargo's profile {other}; packages have dist)"),
    }
}
