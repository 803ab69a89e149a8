//! `cargo xtask instructions hostile`: limits the cost of hostile input.
//!
//! Invariant: for the input of a counterparty or a settings file, the work grows no faster than the
//! number of bytes. Each shape of input runs in two sizes. A shape fails if the cost per byte
//! exceeds its limit, or is higher for the larger size.

use std::fmt::Write;
use std::path::Path;

use super::collected;
use crate::Outcome;

/// The ratio of the larger input size to the smaller input size.
const LARGER: u64 = 4;
/// The maximum cost per byte for the larger input, in percent of the cost for the smaller input.
/// Quadratic work would reach 400.
const GROWTH_PERCENT: u64 = 150;

/// A shape of hostile input, for the command `count hostile NAME BYTES`.
struct Shape {
    name: &'static str,
    /// The size of the smaller input, in bytes.
    bytes: u64,
    /// The maximum number of instructions per byte, which is about twice the measured number.
    limit: u64,
}

const fn shape(name: &'static str, bytes: u64, limit: u64) -> Shape {
    Shape { name, bytes, limit }
}

const SHAPES: [Shape; 16] = [
    shape("secrets-masked", 250_000, 140),
    shape("secrets-logon", 250_000, 160),
    shape("byte-by-byte", 4_000, 3000),
    shape("starts", 125_000, 150),
    shape("wrong-check-sums", 125_000, 22),
    shape("nested", 250_000, 105),
    shape("chained", 250_000, 100),
    shape("fields", 250_000, 80),
    shape("entries", 250_000, 115),
    shape("entries-miscounted", 250_000, 360),
    shape("log-line", 125_000, 210),
    shape("logged-secrets", 250_000, 105),
    shape("logged-starts", 125_000, 215),
    shape("settings", 100_000, 900),
    shape("store-tail", 250_000, 215),
    shape("store-opened", 250_000, 220),
];

/// Counts the instructions for all shapes, and checks the limits.
///
/// # Errors
/// Returns the shapes above their limits, or a failure to count.
pub(super) fn run(program: &Path) -> Outcome {
    let mut table =
        format!("{:<20} {:>10} {:>10} {:>7}\n", "instructions", "a byte", "larger", "limit");
    let mut failed = Vec::new();
    for Shape { name, bytes, limit } in SHAPES {
        let (small, large) = (count(program, name, bytes)?, count(program, name, bytes * LARGER)?);
        let _ = writeln!(table, "{name:<20} {small:>10} {large:>10} {limit:>7}");
        failed.extend(complaint(name, (small, large), limit));
    }
    let table = table.trim_end();
    if failed.is_empty() {
        return Ok(table.to_owned());
    }
    Err(format!(
        "{table}\n{}\nfind what has grown, or what takes more than one look",
        failed.join("\n")
    ))
}

/// Returns the number of instructions per byte, rounded up.
fn count(program: &Path, name: &str, bytes: u64) -> Result<u64, String> {
    let only = ["--collect-atstart=no", "--toggle-collect=*hostile*measured*"];
    let all = collected(program, &only, &["hostile", name, &bytes.to_string()])?;
    Ok(all.div_ceil(bytes))
}

/// Returns an error message if the costs per byte in the two sizes exceed a limit.
fn complaint(name: &str, (small, large): (u64, u64), limit: u64) -> Option<String> {
    if small.max(large) > limit {
        return Some(format!("{name}: a byte costs more than {limit} instructions"));
    }
    // A difference of up to two instructions per byte is a rounding error.
    (large > (small * GROWTH_PERCENT / 100).max(small + 2))
        .then(|| format!("{name}: a byte costs more the more there are"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_with_the_square_fails() {
        assert_eq!(complaint("even", (10, 10), 20), None);
        assert_eq!(complaint("rounded", (1, 3), 20), None);
        assert!(complaint("dear", (21, 20), 20).is_some());
        assert!(complaint("dearer", (10, 21), 20).is_some());
        assert!(complaint("quadratic", (4, 16), 20).is_some());
    }
}
