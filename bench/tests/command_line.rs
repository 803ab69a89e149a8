//! Tests the benchmark program as users call it: output, streams, and exit codes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use transfix_testkit::temp::TempDir;

/// The output and exit code of one call of the program.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn run_in(dir: &Path, args: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transfix-bench"));
    let output = command.args(args).current_dir(dir).stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    Run { code, out: text(output.stdout), err: text(output.stderr) }
}

/// Runs the program and asserts that its exit code is `code`.
fn expect(code: i32, args: &[&str]) -> Run {
    // The program writes its files to a temporary directory, not into the project.
    let run = run_in(TempDir::new().path(), args);
    assert_eq!(run.code, code, "{args:?}: {run:#?}");
    run
}

#[test]
fn an_unknown_configuration_lists_the_known() {
    let run = expect(2, &["latency", "--self", "--config", "nonsense"]);
    for name in CONFIGURATIONS {
        assert!(run.err.contains(name), "{name}: {run:?}");
    }
}

const CONFIGURATIONS: [&str; 4] = ["default", "aggressive", "balanced", "optimized-hard-spin"];

const FIGURES: [&str; 9] = [
    "n",
    "min_ns",
    "p50_ns",
    "p95_ns",
    "p99_ns",
    "p999_ns",
    "max_ns",
    "mean_ns",
    "cpu_ns_per_message",
];

#[test]
fn bench_prints_one_json_object() {
    for name in CONFIGURATIONS {
        let dir = TempDir::new();
        let args = ["latency", "--self", "--messages", "50", "--json", "--config", name];
        let run = run_in(dir.path(), &args);
        assert_eq!(run.code, 0, "{run:?}");
        let report: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(report["scenario"], "S1");
        assert_eq!(report["configuration"], name);
        for series in ["engine", "floor"] {
            for figure in FIGURES {
                assert!(report[series][figure].is_u64(), "{series}.{figure}: {report}");
            }
        }
        assert_eq!(report["engine"]["n"], 50);
        assert!(report["ratio"]["p50"].is_number() && report["ratio"]["p99"].is_number());
        assert!(report["machine"].is_object() && report["settings"].is_object(), "{report}");
        let kinds = [0, 1].map(|n| report["series"][n]["kind"].clone());
        assert_eq!(kinds, ["floor", "engine"], "{report}");
        assert_written(&dir.path().join("bench-out"));
    }
}

#[test]
fn each_scenario_of_round_trips_writes_its_files() {
    let dir = TempDir::new();
    for (scenario, id, configurations) in
        [("echo", "S4a", ["memory", "file"]), ("round-trip", "S5", ["balanced", "optimized"])]
    {
        let args = [scenario, "--self", "--messages", "40", "--warmup", "5", "--json"];
        let run = run_in(dir.path(), &args);
        assert_eq!(run.code, 0, "{run:?}");
        let reports: Vec<Value> =
            run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(reports.len(), 2, "{run:?}");
        for (report, configuration) in reports.iter().zip(configurations) {
            assert_eq!(
                (&report["scenario"], &report["configuration"]),
                (&Value::from(id), &Value::from(configuration))
            );
            assert_eq!(report["engine"]["n"], 40);
            let name = format!("bench-out/{scenario}-{configuration}");
            let saved = fs::read_to_string(dir.path().join(format!("{name}.json"))).unwrap();
            let saved: Value = serde_json::from_str(&saved).unwrap();
            assert!(!saved["series"][1]["seen"].as_array().unwrap().is_empty());
            let hgrm = format!("{name}-{configuration}.hgrm");
            let hgrm = fs::read_to_string(dir.path().join(hgrm)).unwrap();
            assert!(hgrm.contains("Total count    =           40"), "{hgrm}");
        }
        let csv = dir.path().join(format!("bench-out/{scenario}.csv"));
        assert_eq!(fs::read_to_string(csv).unwrap().lines().count(), 1 + 4 * 40);
    }
    let args = "router --self --json --no-rate --slices 1 --slice-ms 50 --rows";
    let args: Vec<&str> = args.split(' ').chain(["1x2@1000,3x2@500"]).collect();
    let run = run_in(dir.path(), &args);
    assert_eq!(run.code, 0, "each message once, to each its share, in order: {run:?}");
    let report: Value = serde_json::from_str(&run.out).unwrap();
    for row in report["rows"].as_array().unwrap() {
        assert_eq!(row["routers"].as_array().unwrap().len(), 3, "floor and both modes: {row}");
        for router in row["routers"].as_array().unwrap() {
            assert!(router["half_trip_p50_ns"].as_u64().unwrap() > 0, "{row}");
        }
        assert!(row["routers"][1]["socket_to_callback_p50_ns"].is_u64(), "{row}");
        assert!(row["routers"][1]["put_to_socket_p50_ns"].is_u64(), "{row}");
    }
    for args in
        ["codec --messages 100 --runs 1", "validation --launches 1", "hftest --self --orders 100"]
    {
        let run = run_in(dir.path(), &args.split(' ').collect::<Vec<_>>());
        assert_eq!(run.code, 0, "{run:?}");
    }
    // A comparison of a run with itself finds only noise: p50 and p99 of four configurations,
    // validation against two dictionaries, six figures of hftest. The codec and the router had only
    // one round, which is too few.
    let run = run_in(dir.path(), &["compare", "bench-out", "bench-out"]);
    let found = ["noise", "too few rounds"].map(|word| run.out.matches(word).count());
    assert_eq!((run.code, found), (0, [8 + 2 + 6, 4 + 4]), "{run:?}");
}

#[test]
fn a_router_that_dies_costs_its_row_alone() {
    let dir = TempDir::new();
    let args = "router --self --mode a --json --no-rate --slices 1 --slice-ms 400 --rows";
    let mut command = Command::new(env!("CARGO_BIN_EXE_transfix-bench"));
    command.args(args.split(' ')).arg("1x1@100,1x2@50").current_dir(dir.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let bench = command.spawn().unwrap();
    let path = format!("/proc/{0}/task/{0}/children", bench.id());
    let children = || fs::read_to_string(&path).unwrap_or_default();
    // Four child processes, which are the floor and the router with one client each, show that the
    // first row is being measured.
    while children().split_whitespace().count() < 4 {
        std::thread::yield_now();
    }
    let floor = children().split_whitespace().next().unwrap().parse().unwrap();
    kill_process(Pid::from_raw(floor).unwrap(), Signal::KILL).unwrap();
    let output = bench.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let saved = fs::read(dir.path().join("bench-out/router.json")).unwrap();
    assert_eq!(output.stdout.trim_ascii_end(), saved);
    let report: Value = serde_json::from_slice(&saved).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[0]["receivers"]), (1, &Value::from(2)), "{report}");
    assert_eq!(rows[0]["rounds"]["kept"], 1);
    let not_run = report["not_run"][0].as_str().unwrap();
    assert!(not_run.starts_with("1x1@100: "), "{not_run}");
}

#[test]
fn benchmarks_leave_no_files_behind() {
    let dir = TempDir::new();
    let temporary = dir.path().join("tmp");
    fs::create_dir(&temporary).unwrap();
    for args in [
        "latency --self --config default,optimized-hard-spin --messages 20",
        "router --self --no-rate --slices 1 --slice-ms 20 --rows 1x1@100",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transfix-bench"));
        command.args(args.split(' ')).current_dir(dir.path()).env("TMPDIR", &temporary);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let left: Vec<_> = fs::read_dir(&temporary).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_benchmark_over_two_hosts_can_be_run_again() {
    let dir = TempDir::new();
    // The test needs two adjacent ports without listeners, because the floor uses the port after
    // the engine's.
    let address = (0..100)
        .find_map(|_| {
            let engine = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let above = engine.port().checked_add(1)?;
            TcpListener::bind(("127.0.0.1", above)).ok()?;
            Some(engine.to_string())
        })
        .unwrap();
    let side = |role: &str| {
        let args = "latency --config default --messages 20 --slices 2 --json --address";
        let mut command = Command::new(env!("CARGO_BIN_EXE_transfix-bench"));
        command.args(args.split(' ')).args([&address, "--role", role]).current_dir(dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    };
    let mut acceptor = side("acceptor").spawn().unwrap();
    let mut line = String::new();
    BufReader::new(acceptor.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("default: engine at 127.0.0.1:"), "{line}");
    for _ in 0..2 {
        let output = side("initiator").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&report["engine"]["n"], &report["settings"]["hosts"]),
            (&Value::from(20), &Value::from(2))
        );
    }
    acceptor.kill().unwrap();
    acceptor.wait().unwrap();
    for wrong in ["--role initiator", "--role acceptor --address h:65535 --config default"] {
        let args: Vec<&str> = ["latency"].into_iter().chain(wrong.split(' ')).collect();
        assert_eq!(run_in(dir.path(), &args).code, 2, "{wrong}");
    }
}

#[test]
fn a_configuration_is_a_file_and_may_be_the_users_own() {
    let dir = TempDir::new();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shipped = shipped.join("configurations/latency/aggressive.toml");
    let text = fs::read_to_string(shipped).unwrap();
    fs::write(dir.path().join("own.toml"), text.replace("process", "memory")).unwrap();
    let args = "latency --self --messages 20 --json --config own.toml";
    let args: Vec<&str> = args.split(' ').collect();
    let run = run_in(dir.path(), &args);
    assert_eq!(run.code, 0, "{run:?}");
    let report: Value = serde_json::from_str(&run.out).unwrap();
    let configuration = &report["settings"]["configuration"];
    assert_eq!(configuration["acceptor"]["durability"], "memory", "{report}");
    // The output names each scenario that this configuration cannot run.
    let args = ["latency", "--self", "--config", "optimized-hard"];
    let run = run_in(dir.path(), &args);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("needs OpenOnload"), "{run:?}");
}

#[test]
fn bench_throughput_measures_all_sides_by_the_number_of_sessions() {
    let dir = TempDir::new();
    let args = "throughput --self --sessions 1,3 --slices 1 --slice-ms 50 --rate 1000";
    let args: Vec<&str> = args.split(' ').collect();
    let run = run_in(dir.path(), &[&args[..], &["--json"]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["scenario"], "throughput");
    for (n, sessions) in [(0, 1), (1, 3)] {
        let of = &report["runs"][n];
        assert_eq!(of["sessions"], sessions);
        for side in ["floor", "transfix-file", "transfix-memory"] {
            for load in ["full", "paced"] {
                for figure in ["orders_per_s", "cpu_ns_per_order", "p50_ns", "p999_ns"] {
                    let figure = &of["sides"][side][load][figure];
                    assert!(figure.as_f64().unwrap() > 0.0, "{side} {load}: {report}");
                }
            }
        }
        let ratio = &of["sides"]["transfix-file"]["ratio"];
        assert!(ratio["orders"].is_number() && ratio["orders_between"][1].is_number(), "{report}");
        assert_eq!(of["rounds"]["kept"], 1);
    }
    assert!(
        fs::read_to_string(dir.path().join("bench-out/throughput.svg")).unwrap().contains("<svg")
    );
    // The output names the features that the other engine does not support; everything else is
    // measured.
    let none = dir.path().to_str().unwrap();
    let run = run_in(dir.path(), &[&args[..], &["--peers", none]].concat());
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains("not run: QuickFIX C++, file store: "), "{run:?}");
    assert!(run.out.contains("qf_throughput is not there"), "{run:?}");
}

#[test]
fn peers_in_a_directory_that_is_not_there_are_an_error() {
    for scenario in
        [&["codec"][..], &["validation"], &["echo", "--self"], &["throughput", "--self"]]
    {
        let args = [scenario, &["--peers", "no/such/directory"]].concat();
        let run = expect(1, &args);
        assert!(run.err.contains("no/such/directory: no directory"), "{run:?}");
        assert_eq!((run.err.lines().count(), &*run.out), (1, ""), "{run:?}");
    }
}

/// Creates a codec peer that reports a second for each task; the programs of all other peers are
/// missing.
fn slow_peer(dir: &Path) {
    peer_that(dir, "while read -r line; do echo 1000000000; done");
}

/// Creates a codec peer: a shell script that reports to be ready and then runs the commands `does`.
fn peer_that(dir: &Path, does: &str) {
    use std::os::unix::fs::PermissionsExt;

    let program = dir.join("qf_codec");
    let script = format!(
        "#!/bin/sh\n\
         [ -s \"$1/fixed\" ] && [ -s \"$1/FIX44.xml\" ] || exit 1\n\
         echo ready quickfix-cpp-0 encode build-encode decode validate-fix42\n\
         {does}\n"
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn bench_codec_prints_the_page_s_table() {
    let dir = TempDir::new();
    slow_peer(dir.path());
    let peers = dir.path().to_str().unwrap();
    let args = ["codec", "--messages", "200", "--runs", "2", "--peers", peers];
    let text = expect(0, &args).out;
    assert!(text.contains("transfix: to string - 0.0"), "{text}");
    let line = "quickfix-cpp-0: from string - 1.000000 seconds\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("not run: QuickFIX/J"), "{text}");
    let json = expect(0, &[&args[..], &["--json"]].concat()).out;
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&report["scenario"], &report["message_bytes"]), (&"S2a".into(), &222.into()));
    let rows = report["rows"].as_array().unwrap();
    let faster = |row: &&Value| row["throughput_ratio"].as_f64().is_some_and(|ratio| ratio > 1.0);
    let floor = (&report["floor_ns"], &report["rounds"]["kept"]);
    assert!(floor.0.as_f64() > Some(0.0) && floor.1 == 2, "{report}");
    let words = "quickfix-cpp-0, from string: ";
    let line = text.lines().find(|line| line.starts_with(words)).unwrap();
    assert!(line.contains(" (95 % between ") && line.ends_with(") ours"), "{text}");
    // The peer supports three of the four operations, so it adds three rows.
    assert_eq!((rows.len(), rows.iter().filter(faster).count()), (4 + 3, 3), "{report}");
}

/// If a peer fails during the run, its figures are omitted with the reason, and all others are
/// shown.
#[test]
fn another_engine_that_fails_in_the_middle_falls_out() {
    let dir = TempDir::new();
    peer_that(dir.path(), "for n in 1 2 3 4 5 6 7; do read -r line; echo 1000000000; done");
    let peers = dir.path().to_str().unwrap();
    for scenario in ["codec --messages 200 --runs 2", "hftest --self --orders 50 --rounds 1"] {
        let args = format!("{scenario} --peers {peers}");
        let run = run_in(dir.path(), &args.split(' ').collect::<Vec<_>>());
        assert_eq!(run.code, 0, "{run:?}");
        let why = "not measured to its end: quickfix-cpp-0";
        assert!(run.out.contains(why), "{run:?}");
        assert_eq!(run.out.matches("quickfix-cpp-0").count(), 1, "{run:?}");
        assert!(run.out.contains("\ntransfix, ") && !run.out.contains("NaN"), "{run:?}");
    }
}

#[test]
fn bench_validation_starts_processes() {
    let dir = TempDir::new();
    slow_peer(dir.path());
    let peers = dir.path().to_str().unwrap();
    let args = ["validation", "--launches", "2", "--json", "--peers", peers];
    let report: Value = serde_json::from_str(&expect(0, &args).out).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let named = |row: &Value| format!("{} {}", row["method"], row["runtime"]).replace('"', "");
    let names: Vec<String> = rows.iter().map(named).collect();
    assert_eq!(names, ["FIX42 transfix", "FIX42 quickfix-cpp-0", "FIX44 transfix"]);
    assert!(rows.iter().all(|row| row["median_ns"].as_f64().is_some_and(|ns| ns > 0.0)));
    let text = expect(0, &["validation", "--launches", "1"]).out;
    assert!(text.contains("Median") && text.contains("LaunchCount=1"), "{text}");
    assert!(text.contains("transfix, FIX42: ") && text.contains(") the floor\n"), "{text}");
    assert!(text.contains("15 rounds in which all took turns; "), "{text}");
}

fn assert_written(dir: &Path) {
    let csv = fs::read_to_string(dir.join("latency.csv")).unwrap();
    assert!(csv.starts_with("series,i,ns\n") && csv.lines().count() > 50);
    assert!(fs::read_to_string(dir.join("latency.svg")).unwrap().contains("<svg"));
}

#[test]
fn help_shows_an_example_of_each_scenario() {
    for scenario in ["latency", "hftest"] {
        let help = expect(0, &[scenario, "--help"]).out;
        assert!(help.contains(&format!("\n  transfix bench {scenario}")), "{help}");
        assert!(help.contains(&format!("Usage: transfix bench {scenario}")), "{help}");
    }
    for side in ["server", "client"] {
        let help = expect(0, &["hftest", side, "--help"]).out;
        assert!(help.contains(&format!("\n  transfix bench hftest {side}")), "{help}");
        assert!(help.contains("\nExit code: 0 done, 1 failed"), "{help}");
    }
    assert!(expect(0, &["codec", "--help"]).out.contains("`Fix8 vs QuickFIX`"));
    let help = expect(0, &["--help"]).out;
    assert!(help.contains("\n  transfix bench latency --self"), "{help}");
    assert!(!help.contains("completions"), "{help}");
    assert_eq!(expect(2, &[]).out, "");
    assert!(expect(0, &["--version"]).out.starts_with("transfix-bench "));
}

#[test]
fn pages_of_each_scenario_are_written() {
    let dir = TempDir::new();
    assert_eq!(run_in(dir.path(), &["man", "--to", "pages"]).code, 0);
    for page in ["transfix-bench.1", "transfix-bench-latency.1", "transfix-bench-hftest-client.1"] {
        assert!(dir.path().join("pages").join(page).exists(), "{page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(expect(0, &["completions", shell]).out.contains("round-trip"), "{shell}");
    }
}

/// Calls of the program with their expected exit codes.
const CALLS: &[(i32, &str)] = &[
    (2, "latency --config nonsense"),
    (2, "latency"),
    (1, "latency --self --peers no/such/directory"),
    (2, "echo --messages none"),
    (1, "echo --self --peers no/such/directory"),
    (2, "round-trip --self --config nonsense"),
    (2, "compare one"),
    (1, "compare no/such no/other"),
    (2, "router"),
    (2, "router --self --rows 1x0@5"),
    (1, "router --role initiator --address 127.0.0.1:1"),
    (1, "router --self --config no/such"),
    (2, "throughput"),
    (2, "throughput --self --sessions none"),
    (2, "throughput --self --role acceptor"),
    (1, "throughput --role acceptor --address 192.0.2.1:9880"),
    (1, "throughput --self --peers no/such/directory"),
    (2, "hftest"),
    (2, "hftest --self --orders 0"),
    (2, "hftest client --preload 10000001"),
    (1, "hftest client --address 127.0.0.1:1"),
    (1, "hftest server --address 192.0.2.1:11002"),
    (0, "hftest --self --orders 20 --rounds 1"),
    (2, "hftest --self --rounds 0"),
    (1, "hftest --self --peers no/such/directory"),
    (2, "codec --messages x"),
    (1, "codec --peers no/such/directory"),
    (2, "validation --launches x"),
    (1, "validation --peers no/such/directory"),
];

/// Returns the leading words of `call`, which name the scenario.
fn scenario(call: &str) -> &str {
    call.split(' ').next().unwrap()
}

#[test]
fn every_scenario_ends_as_its_help_says() {
    let help = expect(0, &["--help"]).out;
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let lines = list.lines().take_while(|line| !line.is_empty());
    let entries = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: BTreeSet<_> = entries.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        let help = expect(0, &[name, "--help"]).out;
        let (_, codes) = help.split_once("Exit code").unwrap_or_else(|| panic!("{name}: {help}"));
        let codes = codes.split([' ', '\n']).filter_map(|word| word.parse().ok());
        let codes: BTreeSet<i32> = codes.filter(|code| (0..=2).contains(code)).collect();
        assert!(codes.contains(&0) && codes.contains(&2), "{name}: {codes:?}");
        let mut calls = CALLS.iter().filter(|(_, call)| scenario(call) == name).peekable();
        assert!(calls.peek().is_some(), "no call of {name}");
        for (code, call) in calls {
            assert!(codes.contains(code), "{call} ends with {code}, the help says {codes:?}");
        }
    }
    for (code, call) in CALLS {
        let run = expect(*code, &call.split(' ').collect::<Vec<_>>());
        assert!(*code == 0 || !(run.err.is_empty() && run.out.is_empty()), "{call} says nothing");
        assert!(!run.err.contains("panicked"), "{call}: {run:#?}");
    }
}
