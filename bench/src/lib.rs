//! The benchmarks: [`scenarios`], which the program `transfix-bench` runs, and the codec's
//! operations. The same work of other engines is measured in alternating slices.
//!
//! `cargo bench` and `transfix bench codec` print the result of [`measure::run`].

pub mod measure;
pub mod operation;
pub mod ours;
pub mod peer;
pub mod scenarios;
pub mod workload;

/// Returns a text about the build of this program. Figures are valid for this build only.
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
