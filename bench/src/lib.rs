//! The benchmarks: [`scenarios`], which the program `transfix-bench` runs, and the codec's
//! operations with their messages, measured beside the same work of other engines, slice by slice.
//!
//! `cargo bench` and `transfix bench codec` print what [`measure::run`] returns.

pub mod measure;
pub mod operation;
pub mod ours;
pub mod peer;
pub mod scenarios;
pub mod workload;

/// How this program was built, in words: what its figures hold for.
#[must_use]
pub fn built() -> String {
    let optimized = match (cfg!(debug_assertions), option_env!("TRANSFIX_PROFILED")) {
        (true, _) => "with debug assertions",
        (false, None) => "optimized",
        (false, Some(_)) => "optimized with a profile of its own work",
    };
    // Recorded figures come from the profile `dist`.
    match env!("TRANSFIX_PROFILE") {
        "dist" | "debug" => optimized.to_owned(),
        other => format!("{optimized} (cargo's profile {other}; packages have dist)"),
    }
}
