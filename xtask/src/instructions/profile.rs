//! `cargo xtask instructions profile`: shows how the instructions and cache misses of a turn are
//! distributed over compiled functions and source files.
//!
//! Callgrind simulates the machine's first-level caches. In a sequence of turns the caches are
//! warm, so there are few misses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::TURNS;
use crate::{Outcome, root};

const RECORD: &str = "bench/results/turn.json";
/// The number of bytes in a cache line.
const LINE: u64 = 64;
/// The minimum number of instructions per turn for a separate row. Functions and files below the
/// minimum are summed up in one row.
const SHOWN_MIN: f64 = 100.0;

/// The costs of a function or file: instructions, data reads and writes, first-level code misses,
/// first-level data misses.
type Costs = [i64; 4];

/// The results of a callgrind run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    by_function: BTreeMap<String, Costs>,
    by_file: BTreeMap<String, Costs>,
    /// The number of executions of each instruction, by program or library and by address.
    by_place: BTreeMap<(String, u64), i64>,
}

/// Runs callgrind and prints the tables of functions and files. If `records` is true, records the
/// table of functions instead.
///
/// # Errors
/// If valgrind fails, or its output cannot be parsed.
pub(super) fn run(program: &Path, records: bool) -> Outcome {
    let (many, few) = (counted(program, 2 * TURNS)?, counted(program, TURNS)?);
    let lines = many.lines(2 * TURNS);
    let functions = rows(&many.by_function, &few.by_function);
    if !records {
        let files = rows(&many.by_file, &few.by_file);
        let way = format!("{lines} lines of {LINE} bytes of code");
        let (functions, files) = (shown("function", &functions), shown("file", &files));
        return Ok(format!("{functions}\n\n{files}\n\neach turn walks through {way}"));
    }
    let record = json!({ "functions": functions, "lines": lines });
    let text = crate::figures::record_text(&record) + "\n";
    fs::write(root().join(RECORD), text).map_err(|error| format!("{RECORD}: {error}"))?;
    Ok(format!("recorded in {RECORD}; `cargo xtask docs` writes the pages"))
}

fn counted(program: &Path, turns: u64) -> Result<Counted, String> {
    let path = std::env::temp_dir().join(format!("transfix-turn-{}", std::process::id()));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--cache-sim=yes", "--compress-pos=no", "--compress-strings=no"])
        .arg("--dump-instr=yes")
        .args(["--collect-atstart=no", "--toggle-collect=*Probe*turn*"])
        .arg(format!("--callgrind-out-file={}", path.display()))
        .arg(program)
        .args(["turn", &turns.to_string()])
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let text = fs::read_to_string(&path);
    // The output file is removed even if the run has failed.
    let _ = fs::remove_file(&path);
    let text = text.map_err(|error| {
        format!("{}: {error}\n{}", path.display(), String::from_utf8_lossy(&output.stderr))
    })?;
    parse(&text, &root().display().to_string())
}

/// Parses the output of callgrind. Returns the costs of each function and file, without the
/// functions that they call. The prefix `root` is removed from file names.
fn parse(text: &str, root: &str) -> Result<Counted, String> {
    let mut counted = Counted::default();
    let (mut places, mut function, mut file) = (Vec::new(), String::new(), String::new());
    let mut object = String::new();
    let mut is_of_call = false;
    for line in text.lines() {
        if let Some(events) = line.strip_prefix("events: ") {
            places = places_of(events)?;
        } else if let Some(name) = line.strip_prefix("fn=") {
            function = without_hash(name).to_owned();
        } else if let Some(name) =
            ["fl=", "fi=", "fe="].iter().find_map(|prefix| line.strip_prefix(prefix))
        {
            file = part_of(name, root);
        } else if let Some(name) = line.strip_prefix("ob=") {
            name.clone_into(&mut object);
        } else if line.starts_with("calls=") {
            is_of_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit()) {
            // The line contains the cost of the called function, which also has its own entry.
            if std::mem::take(&mut is_of_call) {
                continue;
            }
            let mut words = line.split(' ');
            let address = words.next().and_then(|word| word.strip_prefix("0x"));
            let address = address.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            let address = address.ok_or_else(|| format!("no address: {line}"))?;
            // The first word is the source line, and the costs follow.
            let numbers: Vec<i64> = words.skip(1).map_while(|number| number.parse().ok()).collect();
            let executed = counted.by_place.entry((object.clone(), address)).or_default();
            *executed += places[0].iter().filter_map(|place| numbers.get(*place)).sum::<i64>();
            for (all, key) in [(&mut counted.by_function, &function), (&mut counted.by_file, &file)]
            {
                let costs = all.entry(key.clone()).or_default();
                for (cost, places) in costs.iter_mut().zip(&places) {
                    // Callgrind omits trailing zeros, so a missing number counts as 0.
                    *cost += places.iter().filter_map(|place| numbers.get(*place)).sum::<i64>();
                }
            }
        }
    }
    if counted.by_function.is_empty() {
        return Err("callgrind has counted nothing".to_owned());
    }
    Ok(counted)
}

impl Counted {
    /// Returns the number of code cache lines that contain an instruction executed in each of the
    /// `turns` turns.
    fn lines(&self, turns: u64) -> usize {
        let usual = self.by_place.iter().filter(|(_, times)| times.unsigned_abs() >= turns);
        usual.map(|((object, address), _)| (object, address / LINE)).collect::<BTreeSet<_>>().len()
    }
}

/// Returns, for each of the [`Costs`], the indexes of the callgrind columns whose sum is the cost.
fn places_of(events: &str) -> Result<Vec<Vec<usize>>, String> {
    let events: Vec<&str> = events.split(' ').collect();
    let place = |name: &&str| events.iter().position(|event| event == name);
    let groups: [&[&str]; 4] = [&["Ir"], &["Dr", "Dw"], &["I1mr"], &["D1mr", "D1mw"]];
    let places = groups.map(|names| names.iter().map(place).collect::<Option<Vec<_>>>());
    let places = places.into_iter().collect::<Option<Vec<_>>>();
    places.ok_or_else(|| format!("callgrind counts other events: {}", events.join(" ")))
}

/// Returns the name of a function without the hash that the compiler adds.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((rest, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            rest
        }
        _ => name,
    }
}

/// Returns the path of a file of this project, or the name of the library for any other file.
fn part_of(file: &str, root: &str) -> String {
    if let Some(own) = file.strip_prefix(root) {
        return own.trim_start_matches('/').to_owned();
    }
    match file {
        file if file.starts_with("crates/") || file.starts_with("bench/") => file.to_owned(),
        file if file.contains("/library/") => "standard library of Rust".to_owned(),
        file if file.contains("/registry/src/") => "libraries".to_owned(),
        _ => "C library".to_owned(),
    }
}

/// Returns the costs of one turn by function or file, in descending order. The costs are the
/// difference between a run with many turns and a run with few.
fn rows(many: &BTreeMap<String, Costs>, few: &BTreeMap<String, Costs>) -> Vec<Value> {
    let none = Costs::default();
    let each = many.iter().map(|(name, many)| {
        let few = few.get(name).unwrap_or(&none);
        let costs = [0, 1, 2, 3].map(|n| (many[n] - few[n]) as f64 / TURNS as f64);
        (name.clone(), costs)
    });
    let (mut shown, others): (Vec<_>, Vec<_>) = each.partition(|(_, costs)| costs[0] >= SHOWN_MIN);
    shown.sort_by(|a, b| b.1[0].total_cmp(&a.1[0]));
    let sum = |all: &[(String, [f64; 4])]| {
        [0, 1, 2, 3].map(|n| all.iter().map(|(_, costs)| costs[n]).sum::<f64>())
    };
    let (rest, total) = (sum(&others), sum(&[&shown[..], &others[..]].concat()));
    shown.push((format!("{} others", others.len()), rest));
    shown.push(("all".to_owned(), total));
    // The difference may be negative because the memory addresses of the two runs differ, so it is
    // limited to 0.
    let rounded = |number: f64| ((number * 100.0).round() / 100.0).max(0.0);
    let row = |(name, [instructions, data, code_misses, data_misses]): (String, [f64; 4])| {
        json!({
            "name": name,
            "instructions": instructions.round() as i64,
            "data": data.round() as i64,
            "code_misses": rounded(code_misses),
            "data_misses": rounded(data_misses),
        })
    };
    shown.into_iter().map(row).collect()
}

fn shown(what: &str, rows: &[Value]) -> String {
    let head = ["instr.", "data", "I1 miss", "D1 miss"];
    let mut text = format!("{:>8} {:>8} {:>8} {:>8}  {what}", head[0], head[1], head[2], head[3]);
    for row in rows {
        let number = |name: &str| row[name].as_f64().unwrap_or_default();
        text += &format!(
            "\n{:>8} {:>8} {:>8.2} {:>8.2}  {}",
            number("instructions"),
            number("data"),
            number("code_misses"),
            number("data_misses"),
            row["name"].as_str().unwrap_or_default()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
events: Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw
ob=/p/target/count
fl=/p/crates/session/src/lib.rs
fn=transfix_session::turn::h0123456789abcdef
0x1000 12 10 3 2 1 1
fi=/rustc/1/library/core/src/slice.rs
0x103f 40 5
fe=/p/crates/session/src/lib.rs
0x1040 13 1
cfi=/p/crates/store/src/lib.rs
cfn=transfix_store::append::h0123456789abcdef
calls=2 7
0x1044 14 900 300 200 9 9 9
0x1048 15 4
fl=/p/crates/store/src/lib.rs
fn=transfix_store::append::h0123456789abcdef
0x2000 7 900 300 200 0 2 3
ob=/lib/libc.so.6
fl=???
fn=memcpy
0x2004 0 4
";

    #[test]
    fn costs_go_to_their_function_and_to_the_file_of_their_line() {
        let counted = parse(SAID, "/p").unwrap();
        let functions = [
            ("transfix_session::turn", [20, 5, 1, 1]),
            ("transfix_store::append", [900, 500, 0, 5]),
            ("memcpy", [4, 0, 0, 0]),
        ];
        let files = [
            ("crates/session/src/lib.rs", [15, 5, 1, 1]),
            ("crates/store/src/lib.rs", [900, 500, 0, 5]),
            ("standard library of Rust", [5, 0, 0, 0]),
            ("C library", [4, 0, 0, 0]),
        ];
        let map = |all: &[(&str, Costs)]| {
            all.iter().map(|(name, costs)| ((*name).to_owned(), *costs)).collect()
        };
        assert_eq!((&counted.by_function, &counted.by_file), (&map(&functions), &map(&files)));
        let lines = [1, 4, 5, 10, 900].map(|turns| counted.lines(turns));
        assert_eq!(lines, [4, 4, 2, 2, 1], "one line of the program holds two instructions");
        assert!(parse("events: Cy\n", "/p").is_err() && parse("", "/p").is_err());
    }

    #[test]
    fn a_row_is_one_turn() {
        let turns = TURNS as i64;
        let of = |n: i64| {
            let large = ("large".to_owned(), [n * 700 * turns, n * turns, 0, n * turns / 4]);
            let small = ("small".to_owned(), [n * 5 * turns, 0, 0, 0]);
            BTreeMap::from([large, small])
        };
        let rows = rows(&of(2), &of(1));
        let large = json!({ "name": "large", "instructions": 700, "data": 1, "code_misses": 0.0,
                            "data_misses": 0.25 });
        assert_eq!(rows[0], large);
        let others = (&rows[1]["name"], &rows[1]["instructions"]);
        assert_eq!(others, (&json!("1 others"), &json!(5)));
        assert_eq!((&rows[2]["name"], &rows[2]["instructions"]), (&json!("all"), &json!(705)));
        let text = shown("function", &rows);
        assert!(text.contains("\n     700        1     0.00     0.25  large\n"), "{text}");
    }
}
