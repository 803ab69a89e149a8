//! The measurements of one side: encoding times, decoding times, and memory.

use std::fmt::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use transfix::{Latency, LatencyHistogram, LatencyStage};

/// Upper limits of the histogram's columns in microseconds; an additional column counts longer
/// times.
const COLUMNS_US: [u64; 8] = [1, 3, 5, 10, 20, 50, 100, 1_000];

/// The text that explains which work the encoding and decoding times include.
pub(super) const EXPLAINED: &str = "\
Decode: of each message that came, those of the session layer too, from the read, or the message
before it, until the application is called: framing, fields, CheckSum(10), session layer and
dictionary (latency points found and session).
Encode, client: an order's values to fields, timed in the program 64 orders at once, and from there
until header, number and CheckSum(10) are written (latency point encoded).
Encode, server: from the callback, or the report before it, until the report is whole: reading the
order and drawing random numbers are in it (latency point encoded).
Messages of the session layer are not in the time of encoding. A time is known to 3 %; while another
program has the CPU it goes on.";

/// A total time and the number of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Timing {
    pub(super) secs: f64,
    pub(super) msgs: u64,
}

impl Timing {
    pub(super) fn of_ns(ns: u64, msgs: u64) -> Self {
        Self { secs: ns as f64 / 1e9, msgs }
    }

    fn of(times: &LatencyHistogram) -> Self {
        let msgs = times.count();
        Self { secs: times.mean_ns() * msgs as f64 / 1e9, msgs }
    }

    /// Returns the microseconds per message of this total.
    pub(super) fn us(self) -> f64 {
        self.secs * 1e6 / self.msgs.max(1) as f64
    }

    /// Adds the time per message of `other` to each message of this total.
    fn with_each(self, other: Self) -> Self {
        Self { secs: self.secs + other.us() / 1e6 * self.msgs as f64, msgs: self.msgs }
    }
}

/// Formats the total like the published page.
impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { secs, msgs } = *self;
        let per_second = if secs > 0.0 { msgs as f64 / secs } else { 0.0 };
        let per_message = self.us() / 1e6;
        write!(
            f,
            "{secs:.6} secs, {msgs} msgs, {per_message:.9} secs/msg, {per_second:.0} msgs/sec"
        )
    }
}

/// The distribution of the times at one latency point.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Spread {
    pub(super) point: String,
    /// Number of times below 1, 3, 5, 10, 20, 50, 100, 1,000 µs, and above.
    pub(super) counts: [u64; COLUMNS_US.len() + 1],
    pub(super) mean_ns: f64,
    /// Median time in nanoseconds.
    pub(super) p50_ns: u64,
}

impl Spread {
    fn of(point: LatencyStage, times: &LatencyHistogram) -> Self {
        let mut counts = [0; COLUMNS_US.len() + 1];
        for (ns, count) in times.buckets() {
            counts[COLUMNS_US.partition_point(|us| us * 1_000 <= ns)] += count;
        }
        let (mean_ns, p50_ns) = (times.mean_ns(), times.percentile_ns(50.0));
        Self { point: point.to_string(), counts, mean_ns, p50_ns }
    }
}

/// The figures of one side, client or server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Side {
    pub(super) encode: Timing,
    pub(super) decode: Timing,
    /// Sum of the medians of the encoding's latency points, in microseconds. Pauses without a CPU
    /// do not change medians.
    pub(super) encode_p50_us: f64,
    pub(super) decode_p50_us: f64,
    pub(super) spreads: Vec<Spread>,
    /// Peak memory of the process, in KiB (VmHWM); 0 if unknown.
    pub(super) memory_max_kib: u64,
}

impl Side {
    /// Computes the figures from the engine's latencies. `fields` is the time for writing fields,
    /// if the engine's times exclude that work.
    pub(super) fn of(latency: &Latency, fields: Timing) -> Self {
        use LatencyStage::{Encoded, Found, Session};
        let timing = |stage| Timing::of(latency.stage(stage));
        let spread = |stage| Spread::of(stage, latency.stage(stage));
        let p50_us = |stage| latency.stage(stage).percentile_ns(50.0) as f64 / 1e3;
        Self {
            encode: timing(Encoded).with_each(fields),
            decode: timing(Found).with_each(timing(Session)),
            encode_p50_us: p50_us(Encoded) + fields.us(),
            decode_p50_us: p50_us(Found) + p50_us(Session),
            spreads: [Encoded, Found, Session].map(spread).to_vec(),
            memory_max_kib: memory_max_kib(),
        }
    }

    /// Returns the two lines of the published page, for encoding and decoding, each after `prefix`.
    pub(super) fn lines(&self, prefix: &str) -> String {
        format!("{prefix}Encode: {}\n{prefix}Decode: {}\n", self.encode, self.decode)
    }

    /// Writes the two lines of the published page into the file `name`.
    pub(super) fn write(&self, dir: &Path, name: &str) -> Result<(), String> {
        let path = dir.join(name);
        std::fs::write(&path, self.lines("")).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// Returns the lines about memory and, if requested, the histogram as a table.
    pub(super) fn rest(&self, prefix: &str, histogram: bool) -> String {
        let mut text = String::new();
        // Writing into a String never fails.
        if histogram {
            for (name, timing) in [("Encode", self.encode), ("Decode", self.decode)] {
                let _ = writeln!(text, "{prefix}{name}: {:.4} usecs/msg", timing.us());
            }
            let _ = write!(text, "{prefix}{:<10}", "usecs");
            COLUMNS_US.iter().for_each(|us| _ = write!(text, "{:>10}", format!("<{us}")));
            let _ = writeln!(text, "{:>10}{:>10}{:>10}", "rest", "mean, ns", "p50, ns");
            for spread in &self.spreads {
                let _ = write!(text, "{prefix}{:<10}", spread.point);
                spread.counts.iter().for_each(|count| _ = write!(text, "{count:>10}"));
                let _ = writeln!(text, "{:>10.1}{:>10}", spread.mean_ns, spread.p50_ns);
            }
        }
        let mib = self.memory_max_kib as f64 / 1_024.0;
        let _ = writeln!(text, "{prefix}Memory: {mib:.0} MiB at most (VmHWM)");
        text
    }
}

/// Returns the peak memory use of this process in KiB, from `/proc/self/status`.
fn memory_max_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_those_of_the_page() {
        let timing = Timing { secs: 1.37, msgs: 500_005 };
        let expected = "1.370000 secs, 500005 msgs, 0.000002740 secs/msg, 364967 msgs/sec";
        assert_eq!(timing.to_string(), expected);
        let none = Timing::default().to_string();
        assert_eq!(none, "0.000000 secs, 0 msgs, 0.000000000 secs/msg, 0 msgs/sec");
    }

    #[test]
    fn what_is_timed_elsewhere_counts_for_each_message() {
        let engine = Timing { secs: 2.0, msgs: 1_000 };
        // The client has written the fields of more orders than it sent.
        let fields = Timing { secs: 1.5, msgs: 1_500 };
        assert_eq!(engine.with_each(fields), Timing { secs: 3.0, msgs: 1_000 });
        assert_eq!(engine.with_each(Timing::default()), engine);
        let side = Side::of(&Latency::default(), fields);
        assert_eq!(side.encode.msgs, 0);
        assert!(side.memory_max_kib > 0);
    }
}
