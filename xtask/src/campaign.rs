//! `cargo xtask campaign`: runs the long checks one after another. Each check also has its own
//! xtask command. `--short` runs a short form of each check. `--since REV`, which `.ci/run` uses,
//! skips checks whose subject has not changed since the revision.
//!
//! Invariants: with an unknown revision, no check is skipped. The last output lines of each failed
//! check are repeated at the end.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::process::Command;
use std::time::Instant;

use crate::{Outcome, root};

/// One of the long checks, with the conditions for running it.
struct Check {
    name: &'static str,
    /// The path prefixes of the files that the check tests.
    about: &'static [&'static str],
    /// The cargo commands of the short form. An empty list means that the check has no short form.
    short: &'static [&'static str],
    long: &'static [&'static str],
}

/// All long checks, beginning with the fastest.
const CHECKS: &[Check] = &[
    Check {
        name: "tests without the feature zstd",
        about: &["crates/store", "crates/observe", "crates/engine/tests/files"],
        short: &["test -p transfix-store --test all retention"],
        long: &["test -p transfix-store --test all retention", "test -p transfix --test files log"],
    },
    Check {
        name: "tests of what the feature parquet adds",
        about: &["crates/cli/src/convert.rs", "crates/text/src/input", "crates/text/src/logs"],
        short: PARQUET,
        long: PARQUET,
    },
    Check {
        name: "tests at bad times of day",
        about: &[
            "crates/settings/src/schedule",
            "crates/engine/src/link/hours.rs",
            "crates/engine/tests",
            "xtask/src/clocks.rs",
        ],
        short: &["xtask clocks --short"],
        long: &["xtask clocks"],
    },
    Check {
        name: "strangers and lying counterparties",
        about: &[
            "crates/codec",
            "crates/session",
            "crates/transport",
            "crates/engine/src/drive",
            "crates/engine/src/link",
            "xtask/src/hostile",
            "xtask/src/served.rs",
        ],
        short: &["xtask hostile --short"],
        long: &["xtask hostile"],
    },
    Check {
        name: "the administration under a fuzzer, and read by Prometheus",
        about: &[
            "crates/admin",
            "crates/cli/src/serve.rs",
            "crates/engine/src/admin",
            "crates/observe",
            "packaging",
            "xtask/src/openapi",
            "xtask/src/metrics",
            "xtask/src/served.rs",
        ],
        short: &["xtask openapi --time 30", "xtask metrics"],
        long: &["xtask openapi --time 600", "xtask metrics"],
    },
    Check {
        name: "events told to a real journald",
        about: &["crates/cli/src/events", "crates/cli/src/events.rs", "xtask/src/journald.rs"],
        short: &["xtask journald"],
        long: &["xtask journald"],
    },
    Check {
        name: "processes killed under load",
        about: &[
            "crates/store",
            "crates/settings",
            "crates/observe",
            "crates/engine",
            "crates/gateway",
            "crates/cli",
            "xtask/src/crash.rs",
            "xtask/src/served.rs",
        ],
        short: &["xtask crash --loops 20"],
        long: &["xtask crash --loops 1000"],
    },
    Check {
        name: "simulated worlds",
        about: &[
            "crates/codec",
            "crates/session",
            "crates/store",
            "crates/transport",
            "crates/settings",
            "crates/observe",
            "crates/engine",
            "crates/testkit",
        ],
        short: &["xtask simulate --worlds 10000"],
        long: &["xtask simulate --worlds 200000"],
    },
    Check {
        name: "simulated worlds of a fleet",
        about: &["stores/src/jetstream"],
        // `xtask peers stores` runs 200 worlds.
        short: &[],
        long: &["xtask simulate --kind fleet --worlds 20000"],
    },
    Check {
        name: "scenarios of the session layer in three worlds",
        about: &[
            "crates/codec",
            "crates/session",
            "crates/settings",
            "crates/observe",
            "crates/engine",
            "testdata/scenarios",
        ],
        short: &["xtask scenarios"],
        long: &["xtask scenarios"],
    },
    Check {
        name: "S1 beside its floor and its peer",
        about: &["crates/session", "crates/store", "crates/transport", "crates/engine", "bench"],
        // The short form is empty, because the instruction counts already detect a loss of speed at
        // each change.
        short: &[],
        long: &[
            DIST,
            "run --profile dist -p transfix-cli --features transfix-cli/parquet -- bench latency \
             --config optimized-hard-spin --self --peers",
        ],
    },
    Check {
        name: "acceptors of other engines",
        about: &["bench/peers", "xtask/src/peers"],
        short: &["xtask peers build", "xtask peers acceptors"],
        long: &["xtask peers build", "xtask peers acceptors"],
    },
    Check {
        name: "settings migrated from QuickFIX, which trade with it",
        about: &[
            "bench/peers",
            "xtask/src/peers",
            "crates/settings",
            "crates/quickfix",
            "crates/cli/src/migrate.rs",
            "testdata/quickfix",
        ],
        short: &["xtask peers migrate"],
        long: &["xtask peers migrate"],
    },
    Check {
        name: "TLS with QuickFIX/J and openssl",
        about: &[
            "crates/transport/src/tls",
            "crates/engine/src/drive/tls",
            "crates/engine/src/drive/acceptor",
            "crates/settings/src/tls.rs",
            "crates/quickfix",
            "xtask/src/peers",
        ],
        short: &["xtask peers tls"],
        long: &["xtask peers tls"],
    },
    Check {
        name: "the codec beside its floor and its peers",
        about: &["crates/codec", "crates/dictionary", "dictionaries", "bench"],
        short: &[],
        long: &[
            "bench -p transfix-bench --bench codec",
            DIST,
            "run --profile dist -p transfix-cli --features transfix-cli/parquet -- bench codec \
             --peers",
            "run --profile dist -p transfix-cli --features transfix-cli/parquet -- bench \
             validation --peers",
        ],
    },
    Check {
        name: "unsafe code under sanitizers, on AArch64, and interpreted",
        about: &[
            "crates/codec",
            "crates/codec/tests",
            "crates/store/src/map",
            "crates/store/src/map.rs",
            "xtask/src/sanitize.rs",
        ],
        short: &["xtask sanitize --short"],
        long: &["xtask sanitize"],
    },
    Check {
        name: "fuzzing",
        // The build of this check takes minutes, so only changes of these crates run the short
        // form. The long form also covers other crates.
        about: &["crates/codec", "crates/dictionary", "fuzz"],
        short: &["xtask fuzz --seconds 10"],
        long: &["xtask fuzz --seconds 1800"],
    },
    Check {
        name: "recovery of a fleet",
        about: &[
            "stores/src",
            "stores/Cargo",
            "crates/cli/src/demo/fleet",
            "crates/engine/src/link/executor/refresh.rs",
            "xtask/src/fleet.rs",
        ],
        short: &["xtask fleet --short"],
        long: &["xtask fleet"],
    },
    Check { name: "deliberate faults", about: &[], short: &[], long: &["xtask simulate --faults"] },
];

/// The arguments of the release build, which is made once for all checks that run its programs.
const DIST: &str =
    "build --profile dist -p transfix-cli -p transfix-bench --features transfix-cli/parquet";

// The arguments of the Parquet tests. `--workspace` allows cargo to reuse the build of
// `cargo test --workspace`.
const PARQUET: &[&str] = &["test --workspace --features transfix-cli/parquet --test all parquet::"];

/// The number of output lines of each failed check that are repeated at the end.
const LAST_LINES: usize = 40;
/// The path prefixes of files whose change makes all checks necessary.
const EVERYTHING: &[&str] = &["Cargo.toml", "Cargo.lock", ".cargo", "rust-toolchain"];

/// The directory of a crate's integration tests.
const TESTS: &str = "/tests";

/// Returns true if `cargo test` or `cargo xtask tidy` already covers this file, so that a change
/// needs no long check. An exception is a check that names the tests themselves.
fn is_run_already(file: &str) -> bool {
    let has = |part: &str| file.contains(part);
    file.ends_with(".md") || has("/tests/") || file.ends_with("/tests.rs") || has("/examples/")
}

const USAGE: &str = "usage: cargo xtask campaign [--short [--since REVISION]] [NAME...]";

/// The choice of checks on the command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    is_short: bool,
    since: Option<String>,
    /// Parts of check names. An empty list selects all checks.
    names: Vec<String>,
}

/// Runs the selected checks.
///
/// # Errors
/// If an argument is wrong, or a check fails. The error names all failed checks.
pub fn run(args: &[String]) -> Outcome {
    let wanted = parse(args)?;
    let changed = wanted.since.as_deref().and_then(changed_since);
    let (mut told, mut failed, mut last_lines) = (Vec::new(), Vec::new(), Vec::new());
    for check in CHECKS {
        let is_named = wanted.names.is_empty()
            || wanted.names.iter().any(|name| check.name.contains(name.as_str()));
        if !is_named || (wanted.is_short && check.short.is_empty()) {
            continue;
        }
        if changed.as_ref().is_some_and(|files| !check.concerns(files)) {
            told.push(format!("{:<60} left out: nothing of it has changed", check.name));
            continue;
        }
        let begin = now();
        let commands = if wanted.is_short { check.short } else { check.long };
        let ended = commands.iter().try_for_each(|command| cargo(check.name, command));
        let seconds = begin.elapsed().as_secs();
        told.push(format!(
            "{:<60} {} in {seconds} s",
            check.name,
            if ended.is_ok() { "passed" } else { "FAILED" }
        ));
        if let Err(lines) = ended {
            last_lines.push(format!("== {}\n{lines}", check.name));
            failed.push(check.name);
        }
    }
    match (told.is_empty(), failed.is_empty()) {
        (true, _) => Err(format!("no check has such a name; there are: {}", names().join("; "))),
        (_, true) => Ok(told.join("\n")),
        (_, false) => Err(format!(
            "the last lines of what failed\n{}\n\n{}\nfailed: {}",
            last_lines.join("\n"),
            told.join("\n"),
            failed.join("; ")
        )),
    }
}

fn names() -> Vec<&'static str> {
    CHECKS.iter().map(|check| check.name).collect()
}

fn parse(args: &[String]) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--short" => wanted.is_short = true,
            "--since" => wanted.since = Some(args.next().ok_or(USAGE)?.clone()),
            flag if flag.starts_with('-') => return Err(USAGE.to_owned()),
            name => wanted.names.push(name.to_owned()),
        }
    }
    // `--since` requires `--short`: the long form runs before a release, and must be complete.
    if wanted.since.is_some() && !wanted.is_short { Err(USAGE.to_owned()) } else { Ok(wanted) }
}

impl Check {
    /// Returns true if the check must run because of a change in these files.
    fn concerns(&self, files: &[String]) -> bool {
        let is_about = |file: &str, beginning: &str| {
            file.starts_with(beginning) && (beginning.contains(TESTS) || !is_run_already(file))
        };
        let beginnings = || self.about.iter().chain(EVERYTHING);
        files.iter().any(|file| beginnings().any(|beginning| is_about(file, beginning)))
    }
}

/// Returns the files that differ from a revision, or `None` if git does not know the revision.
fn changed_since(revision: &str) -> Option<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["diff", "--name-only", revision, "--"]).current_dir(root());
    let output = git.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.lines().map(str::to_owned).collect())
}

#[allow(clippy::disallowed_methods, reason = "a person waits")]
fn now() -> Instant {
    Instant::now()
}

/// Runs cargo and prints its output. `arguments` are separated by blanks. On failure, returns the
/// last output lines.
fn cargo(name: &str, arguments: &str) -> Result<(), String> {
    let _ = writeln!(io::stderr(), "\n== {name}: cargo {arguments}");
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments.split_whitespace()).current_dir(root());
    show(command).unwrap_or_else(|error| Err(format!("cannot run it: {error}")))
}

/// Runs a command and prints its output. On failure, returns the last output lines.
fn show(mut command: Command) -> io::Result<Result<(), String>> {
    let (prints, printed) = io::pipe()?;
    command.stdout(printed.try_clone()?).stderr(printed);
    let mut child = command.spawn()?;
    // The command holds the write ends of the pipes. They are dropped here, so that the pipes end
    // when the child process ends.
    drop(command);
    let mut last = VecDeque::new();
    for line in BufReader::new(prints).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        let _ = writeln!(io::stderr(), "{line}");
        last.push_back(line);
        if last.len() > LAST_LINES {
            last.pop_front();
        }
    }
    let is_good = child.wait()?.success();
    Ok(if is_good { Ok(()) } else { Err(Vec::from(last).join("\n")) })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn parsed(args: &str) -> Result<Wanted, String> {
        parse(&args.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments() {
        let all = parsed("--short --since HEAD~3 fuzz worlds").unwrap();
        assert!(all.is_short && all.names == ["fuzz", "worlds"]);
        assert_eq!(all.since.as_deref(), Some("HEAD~3"));
        assert_eq!(parsed(""), Ok(Wanted::default()));
        assert!(parsed("--since HEAD").is_err() && parsed("--since").is_err());
        assert!(parsed("--quick").is_err());
    }

    /// Each test filter in the short checks names an existing module, because a filter without a
    /// match would run nothing and succeed.
    #[test]
    fn each_filter_of_the_gate_fits_a_module() {
        let gate = fs::read_to_string(root().join(".ci/run")).unwrap();
        let all = CHECKS.iter().flat_map(|check| check.short.iter().chain(check.long));
        let all: Vec<_> = all.copied().chain(gate.lines()).collect();
        for (command, main, module) in [
            ("-p transfix-store --test all retention", "crates/store/tests/main.rs", "retention"),
            ("-p transfix --test files log", "crates/engine/tests/files/main.rs", "log"),
            ("--test all parquet::", "crates/cli/tests/command_line/mod.rs", "parquet"),
            ("--test all quick_start", "crates/cli/tests/command_line/mod.rs", "quick_start"),
        ] {
            assert!(all.iter().any(|one| one.ends_with(command)), "nothing runs {command}");
            let text = fs::read_to_string(root().join(main)).unwrap();
            assert!(text.contains(&format!("mod {module};")), "{main} has no {module}");
        }
    }

    #[test]
    fn a_change_concerns_what_is_about_it() {
        let concerned = |file: &str| -> Vec<&str> {
            let files = [file.to_owned()];
            CHECKS.iter().filter(|check| check.concerns(&files)).map(|check| check.name).collect()
        };
        assert_eq!(concerned("README.md"), [""; 0]);
        assert_eq!(concerned("Cargo.lock").len(), CHECKS.len());
        let store = concerned("crates/store/src/file.rs");
        assert!(store.contains(&"simulated worlds") && !store.contains(&"fuzzing"));
        assert!(concerned("crates/codec/src/frame.rs").contains(&"fuzzing"));
        let bytes = concerned("crates/codec/tests/bytes.rs");
        assert!(bytes.iter().any(|name| name.contains("sanitizers")));
        // `cargo test` has already run these tests. Only the check that runs clock tests at other
        // times of day needs to repeat them.
        assert_eq!(concerned("crates/engine/tests/trade.rs"), ["tests at bad times of day"]);
        assert_eq!(concerned("crates/session/src/state/tests.rs"), [""; 0]);
        assert_eq!(concerned("crates/store/README.md"), [""; 0]);
        assert!(!store.contains(&"the codec beside its floor and its peers"));
    }

    #[test]
    fn the_last_lines_of_what_failed_are_kept() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            show(command)
        };
        assert_eq!(shell("echo good").unwrap(), Ok(()));
        let last = shell("seq 1000; echo not found >&2; exit 1").unwrap().unwrap_err();
        assert!(last.starts_with("962\n") && last.ends_with("1000\nnot found"), "{last}");
    }

    #[test]
    fn what_git_does_not_know_leaves_nothing_out() {
        assert_eq!(changed_since("no-such-revision"), None);
    }
}
