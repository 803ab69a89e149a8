//! `cargo xtask figures`: maintains the measured figures in README.md, BENCHMARKS.md and COMPARE.md
//! from one source.
//!
//! `bench/results` contains the records of benchmarks. The pages contain generated blocks between
//! markers: `cargo xtask docs` writes the blocks, and `cargo test` compares them with the records.
//! Invariant: each figure in a block comes from a record.

mod compare;
mod record;
mod scenarios;
mod tables;

use std::fs;

use serde_json::Value;

use crate::{Outcome, root};
pub(crate) use record::text as record_text;

/// The pages that contain generated blocks.
const PAGES: [&str; 3] = ["README.md", "BENCHMARKS.md", "COMPARE.md"];
const INSTRUCTIONS: &str = "bench/instructions.txt";

const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end of figures -->";

const USAGE: &str = "usage: cargo xtask figures [--write | --record all|NAME... [--short]]
names: latency, codec, echo, round-trip, router, hftest, throughput";

/// Returns the path of the record of a benchmark.
fn path(name: &str) -> String {
    format!("bench/results/{name}.json")
}

/// Reads the record of a benchmark.
fn read(name: &str) -> Result<Value, String> {
    let path = path(name);
    let text =
        fs::read_to_string(root().join(&path)).map_err(|error| format!("{path}: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))
}

/// All records of benchmarks, from which the blocks are generated.
struct Records {
    latency: Value,
    codec: Value,
    echo: Value,
    round_trip: Value,
    router: Value,
    hftest: Value,
    hftest_codec: Value,
    throughput: Value,
    /// The number of instructions that one turn of a link executes.
    turn: u64,
    /// The distribution of the turn's instructions over functions.
    profile: Value,
}

impl Records {
    fn read() -> Result<Self, String> {
        let turn = fs::read_to_string(root().join(INSTRUCTIONS));
        let turn = turn.map_err(|error| format!("{INSTRUCTIONS}: {error}"))?;
        let turn = turn.split_whitespace().nth(1).and_then(|count| count.parse().ok());
        Ok(Self {
            latency: read("latency")?,
            codec: read("codec")?,
            echo: read("echo")?,
            round_trip: read("round-trip")?,
            router: read("router")?,
            hftest: read("hftest")?,
            hftest_codec: read("hftest-codec")?,
            throughput: read("throughput")?,
            profile: read("turn")?,
            turn: turn
                .ok_or_else(|| format!("{INSTRUCTIONS} does not begin with `turn: COUNT`"))?,
        })
    }

    /// Returns the text of the block with this name.
    fn block(&self, name: &str) -> Result<String, String> {
        let block = match name {
            "latency" => tables::latency(&self.latency),
            "latency in short" => tables::latency_in_short(&self.latency),
            "codec" => tables::codec(&self.codec),
            "turn" => Some(tables::turn(self.turn)),
            "turn by function" => tables::profile(&self.profile),
            "echo" => scenarios::trips(&self.echo),
            "round-trip" => scenarios::trips(&self.round_trip),
            "router" => scenarios::router(&self.router),
            "hftest" => scenarios::hftest(&self.hftest),
            "hftest codec" => tables::hftest_codec(&self.hftest_codec),
            "throughput" => scenarios::throughput(&self.throughput),
            "ahead" => compare::ahead(self),
            "not run" => compare::not_run(&[&self.echo, &self.round_trip, &self.throughput]),
            _ => return Err(format!("there is no block of figures `{name}`")),
        };
        block.ok_or_else(|| format!("the records lack what the block `{name}` shows"))
    }

    /// Returns the text of the page, with all blocks generated again.
    fn page(&self, page: &str) -> Result<String, String> {
        let (mut written, mut rest) = (String::new(), page);
        while let Some((before, block)) = rest.split_once(BEGIN) {
            let wrong = "a block of figures without name or end";
            let (name, block) = block.split_once(" -->").ok_or(wrong)?;
            let (_, after) = block.split_once(END).ok_or(wrong)?;
            let figures = self.block(name)?;
            written += &format!("{before}{BEGIN}{name} -->\n{figures}\n{END}");
            rest = after;
        }
        Ok(written + rest)
    }
}

/// Writes the generated blocks into the pages.
///
/// # Errors
/// If a page or a record cannot be read or written.
pub fn write() -> Outcome {
    let records = Records::read()?;
    for page in PAGES {
        let path = root().join(page);
        let text = fs::read_to_string(&path).map_err(|error| format!("{page}: {error}"))?;
        let text = records.page(&text).map_err(|error| format!("{page}: {error}"))?;
        fs::write(&path, text).map_err(|error| format!("{page}: {error}"))?;
    }
    Ok(format!("written: {}", PAGES.join(", ")))
}

/// Checks that the blocks in the pages agree with the records.
///
/// # Errors
/// If a page has other figures, or no blocks.
pub fn check() -> Outcome {
    let records = Records::read()?;
    for page in PAGES {
        let text = fs::read_to_string(root().join(page)).map_err(|e| format!("{page}: {e}"))?;
        let wanted = records.page(&text).map_err(|error| format!("{page}: {error}"))?;
        if !text.contains(BEGIN) {
            return Err(format!("{page} has no block of figures"));
        }
        if text != wanted {
            let same = text.lines().zip(wanted.lines()).take_while(|(has, wants)| has == wants);
            let line = same.count() + 1;
            return Err(format!("{page}:{line}: not as recorded; run `cargo xtask docs`"));
        }
    }
    Ok("the pages have the recorded figures".to_owned())
}

/// Runs `cargo xtask figures [--write | --record all|NAME... [--short]]`.
///
/// # Errors
/// If the pages differ from the records, or a measurement fails.
pub fn run(args: &[String]) -> Outcome {
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => check(),
        ["--write"] => write(),
        ["--record", ref names @ .., "--short"] => record::run(names, true),
        ["--record", ref names @ ..] => record::run(names, false),
        _ => Err(USAGE.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_written_anew_and_nothing_else() {
        let records = Records::read().unwrap_or_else(|error| panic!("{error}"));
        let page = format!("before\n{BEGIN}turn -->\nold\n{END}\nafter\n");
        let written = records.page(&page);
        let turn = tables::turn(records.turn);
        assert_eq!(written, Ok(format!("before\n{BEGIN}turn -->\n{turn}\n{END}\nafter\n")));
        assert!(records.page(&format!("{BEGIN}nonsense -->{END}")).is_err());
        assert!(records.page(&format!("{BEGIN}turn -->")).is_err());
    }
}
