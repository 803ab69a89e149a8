//! The program as its users call it: what it prints, where, and its exit codes.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod admin;
mod client;
mod client_ends;
mod client_scripts;
mod dynamic;
mod events;
mod exit_codes;
mod foreign;
mod gateway;
mod gateway_faults;
mod gateway_kills;
mod logs;
mod mask;
mod migrate;
mod migrate_cases;
mod password;
mod print;
mod running;
mod settings;
#[cfg(feature = "tls")]
mod settings_truth;
#[cfg(feature = "tls")]
mod tls;
mod two_hosts;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use transfix::store::{FileStore, Kind, Options, Record, Store};
use transfix_testkit::temp::TempDir;

/// What a call printed, and its exit code.
#[derive(Debug)]
struct Run {
    code: i32,
    out: String,
    err: String,
}

fn run_in(dir: &Path, args: &[&str], input: &[u8]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_transfix"))
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Small enough for the pipe; a program that does not read it is free to end first.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    Run { code, out: text(output.stdout), err: text(output.stderr) }
}

fn run(args: &[&str]) -> Run {
    // What it writes is written there, and not into the project.
    run_in(TempDir::new().path(), args, b"")
}

/// Runs it, and holds it to its exit code.
fn expect(code: i32, args: &[&str]) -> Run {
    let run = run(args);
    assert_eq!(run.code, code, "{args:?}: {run:#?}");
    run
}

fn messages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/messages")
}

#[test]
fn help_shows_an_example_of_each_verb() {
    let verbs = [
        "demo",
        "serve",
        "connect",
        "play",
        "run",
        "bench",
        "dictionary",
        "generate",
        "print",
        "logs",
        "check",
        "convert",
    ];
    for verb in verbs {
        let help = expect(0, &[verb, "--help"]).out;
        assert!(help.contains(&format!("\n  transfix {verb}")), "{help}");
    }
    for scenario in ["latency", "hftest"] {
        let help = expect(0, &["bench", scenario, "--help"]).out;
        assert!(help.contains(&format!("\n  transfix bench {scenario}")), "{help}");
    }
    for side in ["server", "client"] {
        let help = expect(0, &["bench", "hftest", side, "--help"]).out;
        assert!(help.contains(&format!("\n  transfix bench hftest {side}")), "{help}");
        assert!(help.contains("\nExit code: 0 done, 1 failed"), "{help}");
    }
    let help = expect(0, &["--help"]).out;
    assert!(help.contains("Exit codes: 0 done, 1 failed, 2 wrong usage or input that"), "{help}");
    assert!(help.starts_with("A FIX engine on the command line\n"), "{help}");
    assert!(expect(0, &["bench", "codec", "--help"]).out.contains("`Fix8 vs QuickFIX`"));
}

#[test]
fn dictionary_answers() {
    let list = expect(0, &["dictionary"]).out;
    for name in ["FIX40", "FIX41", "FIX42", "FIX43", "FIX44", "FIX50SP2", "FIXT11", "FIXLatest"] {
        assert!(list.lines().any(|line| line.trim_start().starts_with(name)), "{name}: {list}");
    }
    let order = expect(0, &["dictionary", "FIX44", "NewOrderSingle"]).out;
    let indent = |name: &str| {
        let line = order.lines().find(|line| line.contains(name)).unwrap();
        line.len() - line.trim_start_matches([' ', '*']).len()
    };
    let nested = ["Parties ", "NoPartyIDs(453)", "PartyID(448)", "NoPartySubIDs(802)"].map(indent);
    assert!(nested.is_sorted_by(|a, b| a < b), "{nested:?}: {order}");
    assert_eq!(order, expect(0, &["dictionary", "FIX44", "D"]).out);
    let price = expect(0, &["dictionary", "FIX44", "44"]).out;
    assert!(price.starts_with("Price(44)"), "{price}");
    assert_eq!(price, expect(0, &["dictionary", "FIX44", "Price"]).out);
}

#[test]
fn what_a_dictionary_lacks_is_1_with_the_nearest_name() {
    let cases = [
        (2, &["dictionary", "Nonsense"][..], "; FIX44 has nothing of this name"),
        (
            2,
            &["store", "import", "none", "--from", "quickfixj", "--to", "new"],
            "no such directory",
        ),
        (1, &["dictionary", "FIX44", "Prise"], "'Price'"),
        (1, &["dictionary", "FIX44", "NewOrderSingel"], "'NewOrderSingle'"),
        (2, &["dictionary", "FIX45"], "'FIX4"),
    ];
    for (code, args, nearest) in cases {
        let run = expect(code, args);
        assert!(run.err.contains(nearest) && run.out.is_empty(), "{run:?}");
    }
}

#[test]
fn print_reads_every_delimiter_from_files_and_pipes() {
    let mut count = 0;
    for entry in fs::read_dir(messages()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let file = path.to_str().unwrap();
        let from_file = run(&["print", file]);
        let garbled = file.contains("garbage");
        assert_eq!(from_file.code, i32::from(garbled), "{from_file:?}");
        let piped = run_in(Path::new("."), &["print", "-"], &bytes);
        assert_eq!((piped.code, &piped.out), (from_file.code, &from_file.out), "{file}");
        // Data fields may hold the other delimiters, or SOH itself.
        if !garbled && !bytes.contains(&b'|') && !file.contains("raw-data") {
            for delimiter in ["|", "^A"] {
                let text = replace_soh(&bytes, delimiter.as_bytes());
                let printed = run_in(Path::new("."), &["print", "-"], &text);
                assert_eq!((printed.code, &printed.out), (0, &from_file.out), "{file} {delimiter}");
            }
        }
        count += 1;
    }
    assert!(count >= 10, "{count} files");
}

fn replace_soh(bytes: &[u8], delimiter: &[u8]) -> Vec<u8> {
    bytes.split(|&b| b == 1).collect::<Vec<_>>().join(delimiter)
}

#[test]
fn print_reads_logs_and_journals() {
    let dir = TempDir::new();
    let order = fs::read(messages().join("fix40-order.fix")).unwrap();
    let order = order.trim_ascii_end();
    let log = [b"20261121-09:28:25.623118000 : ", order, b"\n"].concat().repeat(3);
    fs::write(dir.path().join("FIX.4.0-CLIENT-VENUE.messages.current.log"), log).unwrap();
    let args = ["print", "--one-line", "FIX.4.0-CLIENT-VENUE.messages.current.log"];
    let printed = run_in(dir.path(), &args, b"");
    assert_eq!(printed.code, 0, "{printed:?}");
    assert_eq!(printed.out.matches("NewOrderSingle(D) seq 2 CLIENT->VENUE").count(), 3);

    let (mut store, _) = FileStore::open(&dir.path().join("store"), Options::default(), 0).unwrap();
    let kind = Kind::Application;
    store.put(1, Record::Outbound { seq: 1, kind, bytes: order }).unwrap();
    store.put(1, Record::Inbound { seq: 1, kind, bytes: order }).unwrap();
    store.commit().unwrap();
    let printed = run_in(dir.path(), &["print", "--one-line", "store"], b"");
    assert_eq!(printed.code, 0, "{printed:?}");
    for head in ["out 1 ", "in 1 "] {
        let line = printed.out.lines().find(|line| line.starts_with(head)).unwrap();
        assert!(line.contains("NewOrderSingle(D) seq 2"), "{line}");
    }
    expect(2, &["print", "no/such/file"]);
}

#[test]
fn check_tells_good_from_bad_from_unreadable() {
    for entry in fs::read_dir(messages()).unwrap() {
        let path = entry.unwrap().path();
        let file = path.to_str().unwrap();
        let checked = run(&["check", file]);
        // One has a field of a venue.
        let own = usize::from(file.contains("fix50sp2-trade-capture"));
        assert!(checked.out.contains(&format!(", {own} with errors, ")), "{checked:?}");
        assert_eq!(checked.code, i32::from(own > 0 || file.contains("garbage")), "{checked:?}");
    }
    let log = b"8=FIX.4.4|9=60|35=0|34=2|49=A|56=B|52=20261121-09:28:25|55=EU|44=1|\
        10=000|\n";
    let run = run_in(Path::new("."), &["check", "--all", "-"], log);
    assert_eq!(run.code, 1, "{run:?}");
    for expected in
        ["line 1, byte 0: Heartbeat(0) MsgSeqNum(34)=2", "Symbol(55)=EU: Tag not", "Price(44)=1: "]
    {
        assert!(run.out.contains(expected), "{expected}: {run:?}");
    }
    for args in [&["check", "no/such"][..], &["check", "--dictionary", "FIX45", "-"]] {
        let run = expect(2, args);
        assert_eq!((run.err.lines().count(), &*run.out), (1, ""), "{run:?}");
    }
    for input in ["", "no message\nhere\n"] {
        let run = run_in(Path::new("."), &["check", "-"], input.as_bytes());
        assert_eq!((run.code, &*run.out), (1, ""), "{run:?}");
        assert_eq!(run.err, "transfix: -: no message found\n");
    }
    let wrong = expect(2, &["check", "--off", "nonsense", "-"]);
    assert!(wrong.err.contains("group_counts"), "{wrong:?}");
}

#[test]
fn a_data_field_of_the_users_dictionary_is_read_by_its_length() {
    let dir = TempDir::new();
    let overlay = "<fix base='FIX44' name='V'><fields><field number='9001' name='OwnLen' \
        type='LENGTH'/><field number='9002' name='Own' type='DATA'/></fields><messages><message \
        name='Heartbeat'><field name='OwnLen'/><field name='Own'/></message></messages></fix>";
    fs::write(dir.path().join("venue.xml"), overlay).unwrap();
    let log = b"8=FIX.4.4\x019=58\x0135=0\x0134=2\x0149=A\x0156=B\x0152=20261121-09:28:25\x01\
        9001=4\x019002=x\x019=\x0110=204\x01";
    let printed = run_in(dir.path(), &["print", "--dictionary", "venue.xml", "-"], log);
    assert!(printed.out.contains("Own (9002): x\\x019=\n"), "{printed:?}");
    let checked = run_in(dir.path(), &["check", "--dictionary", "venue.xml", "-"], log);
    assert_eq!((checked.code, &*checked.out), (0, "1 message, 0 with errors, 0 garbled\n"));
    let convert = ["convert", "--to", "json", "--dictionary", "venue.xml", "-"];
    let json = run_in(dir.path(), &convert, log).out;
    assert!(json.contains(r#""Own":"x\u00019=""#), "{json}");
    let back = ["convert", "--to", "fix", "--dictionary", "venue.xml", "-"];
    assert_eq!(run_in(dir.path(), &back, json.as_bytes()).out.as_bytes(), log);
}

#[test]
fn convert_there_and_back_is_the_same() {
    let here = Path::new(".");
    for entry in fs::read_dir(messages()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        if path.to_str().unwrap().contains("garbage") {
            let json = run_in(here, &["convert", "--to", "json", "-"], &bytes);
            assert_eq!((json.code, json.out.lines().count()), (1, 5), "{json:?}");
            continue;
        }
        for tags in [&["--tags"][..], &[]] {
            let args = [&["convert", "--to", "json", path.to_str().unwrap()], tags].concat();
            let json = expect(0, &args).out;
            assert!(serde_json::from_str::<Value>(&json).is_ok(), "{json}");
            let args = ["convert", "--to", "fix", "-"];
            let again = run_in(here, &args, json.as_bytes());
            assert_eq!((again.code, again.out.as_bytes()), (0, bytes.trim_ascii_end()), "{json}");
        }
    }
    let wrong = run_in(here, &["convert", "--to", "fix", "-"], b"{\n\"Prise\":1}");
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.err.contains("line 2, column 1: no dictionary has a field 'Prise'"), "{wrong:?}");
}

#[test]
fn convert_writes_no_value_that_holds_the_delimiter() {
    let json = br#"{"8":"FIX.4.4","35":"0"}
        {"8":"FIX.4.4","35":"B","58":"a|b"} {"8":"FIX.4.4","35":"1"}"#;
    let convert = |delimiter: &str| {
        let args = ["convert", "--to", "fix", "--delimiter", delimiter, "-"];
        run_in(Path::new("."), &args, json)
    };
    let pipes = convert("pipe");
    assert_eq!((pipes.code, pipes.out.lines().count()), (1, 2), "{pipes:?}");
    assert!(pipes.err.starts_with("line 2: left out: field 58 holds '|'"), "{pipes:?}");
    let carets = convert("caret");
    assert_eq!((carets.code, carets.out.lines().count(), &*carets.err), (0, 3, ""), "{carets:?}");
}

fn session(role: &str, address: &str) -> String {
    format!(
        "[[session]]\nrole = '{role}'\naddress = '{address}'\nbegin_string = 'FIX.4.4'\n\
         sender_comp_id = 'VENUE'\ntarget_comp_id = 'CLIENT'\n"
    )
}

#[test]
fn wrong_settings_are_said_with_line_and_nearest_key() {
    let dir = TempDir::new();
    let write = |name: &str, text: String| fs::write(dir.path().join(name), text).unwrap();
    write("venue.toml", session("acceptor", "127.0.0.1:0"));
    write("client.toml", session("initiator", "127.0.0.1:1"));
    let second = session("acceptor", "127.0.0.1:0").replace("CLIENT", "OTHER");
    write("two.toml", session("acceptor", "127.0.0.1:0") + &second);
    write("wrong.toml", session("acceptor", "127.0.0.1:0") + "heart_bt_int = 5\n");
    let cases = [
        (["serve", "wrong.toml"], 2, "wrong.toml:7: "),
        (["serve", "wrong.toml"], 2, "heart_bt_int_s"),
        (["serve", "none.toml"], 2, "none.toml: cannot be read"),
        (["connect", "none.toml"], 2, "none.toml: cannot be read"),
        (["serve", "client.toml"], 2, "use `transfix connect client.toml`"),
        (["connect", "venue.toml"], 2, "use `transfix serve venue.toml`"),
        (
            ["connect", "two.toml"],
            2,
            "two.toml: 2 sessions, and a client has one; use `transfix serve two.toml`",
        ),
    ];
    for (args, code, expected) in cases {
        let run = run_in(dir.path(), &args, b"");
        assert_eq!(run.code, code, "{run:?}");
        assert!(run.err.contains(expected), "{expected}: {run:?}");
    }
}

#[test]
fn schedule_shows_both_ends_on_both_clocks() {
    let dir = TempDir::new();
    for (zone, name) in [("Europe/Berlin", "CET"), ("+01:00", "+01")] {
        let schedule = format!(
            "schedule = {{ zone = '{zone}', days = 'mon-fri', from = '23:00', to = '08:30' }}\n"
        );
        fs::write(dir.path().join("a.toml"), session("acceptor", "127.0.0.1:0") + &schedule)
            .unwrap();
        let args = ["schedule", "a.toml", "--from", "20261123-12:00:00", "-n", "1"];
        let run = run_in(dir.path(), &args, b"");
        assert_eq!(run.code, 0, "{run:?}");
        let cells: Vec<_> = run.out.lines().nth(2).unwrap().split("  ").map(str::trim).collect();
        let cells: Vec<_> = cells.into_iter().filter(|cell| !cell.is_empty()).collect();
        let expected = [
            &*format!("Mon 2026-11-23 23:00:00 {name}"),
            &*format!("Tue 2026-11-24 08:30:00 {name}"),
            "20261123-22:00:00",
            "20261124-07:30:00",
            "9 h 30 min",
        ];
        assert_eq!(cells, expected, "{run:?}");
    }
}

#[test]
fn a_port_in_use_is_said() {
    let dir = TempDir::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fs::write(dir.path().join("venue.toml"), session("acceptor", &address)).unwrap();
    let run = run_in(dir.path(), &["serve", "venue.toml"], b"");
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains(&format!("listening at {address}")), "{run:?}");
    assert!(run.err.contains("in use"), "{run:?}");
}

#[test]
fn connect_takes_commands_from_a_pipe() {
    let dir = TempDir::new();
    let text = session("initiator", "127.0.0.1:1");
    fs::write(dir.path().join("client.toml"), text).unwrap();
    for input in ["", "quit\n", "buy 1 EU 3\nnonsense\r\n\nburst 5\nhelp"] {
        let run = run_in(dir.path(), &["connect", "client.toml", "--quiet"], input.as_bytes());
        assert_eq!(run.code, 1, "{run:?}");
        assert!(!run.out.contains('>'), "a prompt: {run:?}");
        let expected = ["connection failed", "never logged on"];
        let is_expected = |line: &str| expected.iter().any(|text| line.contains(text));
        assert!(run.err.lines().all(is_expected), "{run:?}");
        let lines = run.out.lines().filter(|line| line.contains("not logged on")).count();
        assert_eq!(lines, if input.contains("burst") { 2 } else { 0 }, "{run:?}");
    }
}

#[test]
fn an_unknown_configuration_lists_the_known() {
    let run = expect(2, &["bench", "latency", "--self", "--config", "nonsense"]);
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
        let args = ["bench", "latency", "--self", "--messages", "50", "--json", "--config", name];
        let run = run_in(dir.path(), &args, b"");
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
        let args = ["bench", scenario, "--self", "--messages", "40", "--warmup", "5", "--json"];
        let run = run_in(dir.path(), &args, b"");
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
    let args = "bench router --self --json --no-rate --slices 1 --slice-ms 50 --rows";
    let args: Vec<&str> = args.split(' ').chain(["1x2@1000,3x2@500"]).collect();
    let run = run_in(dir.path(), &args, b"");
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
    for args in [
        "bench codec --messages 100 --runs 1",
        "bench validation --launches 1",
        "bench hftest --self --orders 100",
    ] {
        let run = run_in(dir.path(), &args.split(' ').collect::<Vec<_>>(), b"");
        assert_eq!(run.code, 0, "{run:?}");
    }
    all_make_one_page(dir.path());
}

/// Of runs of echo and round trip in two configurations each, router, codec, validation, hftest.
fn all_make_one_page(dir: &Path) {
    // It needs nothing from elsewhere.
    let run = run_in(dir, &["bench", "report"], b"");
    assert_eq!((run.code, &*run.out), (0, "bench-out/report.html\n"), "{run:?}");
    let page = fs::read_to_string(dir.join("bench-out/report.html")).unwrap();
    for expected in [
        "Echo (S4a)",
        "Round trip (S5)",
        "Order codec (S2a)",
        "hftest (S2b)",
        "<th>of ours in the engine</th>",
        "those of bare sockets",
        "Validation (S4b)",
        "Router (S3)",
        "floor of memory",
        "FIX Antenna Java",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    assert_eq!(page.matches("<svg").count(), 5, "two a page, one of the router's last row");
    for forbidden in ["http://", "https://", "<script", "NaN"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    // A run beside itself has not moved: p50 and p99 of four configurations, validation against two
    // dictionaries, six figures of hftest. The codec and the router had one round.
    let run = run_in(dir, &["bench", "compare", "bench-out", "bench-out"], b"");
    let found = ["noise", "too few rounds"].map(|word| run.out.matches(word).count());
    assert_eq!((run.code, found), (0, [8 + 2 + 6, 4 + 4]), "{run:?}");
}

#[test]
fn a_router_that_dies_costs_its_row_alone() {
    let dir = TempDir::new();
    let args = "bench router --self --mode a --json --no-rate --slices 1 --slice-ms 400 --rows";
    let mut command = Command::new(env!("CARGO_BIN_EXE_transfix"));
    command.args(args.split(' ')).arg("1x1@100,1x2@50").current_dir(dir.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let bench = command.spawn().unwrap();
    let path = format!("/proc/{0}/task/{0}/children", bench.id());
    let children = || fs::read_to_string(&path).unwrap_or_default();
    // The floor with its client, the router with its own: the first row begins.
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
        "bench latency --self --config default,optimized-hard-spin --messages 20",
        "bench router --self --no-rate --slices 1 --slice-ms 20 --rows 1x1@100",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transfix"));
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
    // Two ports next to each other that nobody listens at.
    let address = (0..100)
        .find_map(|_| {
            let engine = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let above = engine.port().checked_add(1)?;
            TcpListener::bind(("127.0.0.1", above)).ok()?;
            Some(engine.to_string())
        })
        .unwrap();
    let side = |role: &str| {
        let args = "bench latency --config default --messages 20 --slices 2 --json --address";
        let mut command = Command::new(env!("CARGO_BIN_EXE_transfix"));
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
        let args: Vec<&str> = ["bench", "latency"].into_iter().chain(wrong.split(' ')).collect();
        assert_eq!(run_in(dir.path(), &args, b"").code, 2, "{wrong}");
    }
}

#[test]
fn a_configuration_is_a_file_and_may_be_the_users_own() {
    let dir = TempDir::new();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shipped = shipped.join("../../bench/configurations/latency/aggressive.toml");
    let text = fs::read_to_string(shipped).unwrap();
    fs::write(dir.path().join("own.toml"), text.replace("process", "memory")).unwrap();
    let args = "bench latency --self --messages 20 --json --config own.toml";
    let args: Vec<&str> = args.split(' ').collect();
    let run = run_in(dir.path(), &args, b"");
    assert_eq!(run.code, 0, "{run:?}");
    let report: Value = serde_json::from_str(&run.out).unwrap();
    let configuration = &report["settings"]["configuration"];
    assert_eq!(configuration["acceptor"]["durability"], "memory", "{report}");
    // What cannot be run here is said, not passed over.
    let args = ["bench", "latency", "--self", "--config", "optimized-hard"];
    let run = run_in(dir.path(), &args, b"");
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("needs OpenOnload"), "{run:?}");
}

fn assert_written(dir: &Path) {
    let csv = fs::read_to_string(dir.join("latency.csv")).unwrap();
    assert!(csv.starts_with("series,i,ns\n") && csv.lines().count() > 50);
    assert!(fs::read_to_string(dir.join("latency.svg")).unwrap().contains("<svg"));
}

#[test]
fn bench_throughput_measures_all_sides_by_the_number_of_sessions() {
    let dir = TempDir::new();
    let args = "bench throughput --self --sessions 1,3 --slices 1 --slice-ms 50 --rate 1000";
    let args: Vec<&str> = args.split(' ').collect();
    let run = run_in(dir.path(), &[&args[..], &["--json"]].concat(), b"");
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
    // What another engine cannot is told, and the rest is measured.
    let none = dir.path().to_str().unwrap();
    let run = run_in(dir.path(), &[&args[..], &["--peers", none]].concat(), b"");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains("not run: QuickFIX C++, file store: "), "{run:?}");
    assert!(run.out.contains("qf_throughput is not there"), "{run:?}");
}

#[test]
fn demo_loses_nothing() {
    let dir = TempDir::new();
    let run = run_in(dir.path(), &["demo", "--burst", "500", "--messages", "100"], b"");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.out.matches("lost 0 ").count(), 2, "{}", run.out);
    assert_written(dir.path());
}

#[test]
fn peers_in_a_directory_that_is_not_there_are_an_error() {
    for scenario in
        [&["codec"][..], &["validation"], &["echo", "--self"], &["throughput", "--self"]]
    {
        let args = [&["bench"][..], scenario, &["--peers", "no/such/directory"]].concat();
        let run = expect(1, &args);
        assert!(run.err.contains("no/such/directory: no directory"), "{run:?}");
        assert_eq!((run.err.lines().count(), &*run.out), (1, ""), "{run:?}");
    }
}

/// A peer that takes a second for anything; the others are missing.
fn slow_peer(dir: &Path) {
    peer_that(dir, "while read -r line; do echo 1000000000; done");
}

/// A codec of another engine, which does this when it is ready.
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
    let args = ["bench", "codec", "--messages", "200", "--runs", "2", "--peers", peers];
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
    // Of the four operations the peer knows three.
    assert_eq!((rows.len(), rows.iter().filter(faster).count()), (4 + 3, 3), "{report}");
}

/// Its figures are not told, why is, and all others are.
#[test]
fn another_engine_that_fails_in_the_middle_falls_out() {
    let dir = TempDir::new();
    peer_that(dir.path(), "for n in 1 2 3 4 5 6 7; do read -r line; echo 1000000000; done");
    let peers = dir.path().to_str().unwrap();
    for scenario in ["codec --messages 200 --runs 2", "hftest --self --orders 50 --rounds 1"] {
        let args = format!("bench {scenario} --peers {peers}");
        let run = run_in(dir.path(), &args.split(' ').collect::<Vec<_>>(), b"");
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
    let args = ["bench", "validation", "--launches", "2", "--json", "--peers", peers];
    let report: Value = serde_json::from_str(&expect(0, &args).out).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let named = |row: &Value| format!("{} {}", row["method"], row["runtime"]).replace('"', "");
    let names: Vec<String> = rows.iter().map(named).collect();
    assert_eq!(names, ["FIX42 transfix", "FIX42 quickfix-cpp-0", "FIX44 transfix"]);
    assert!(rows.iter().all(|row| row["median_ns"].as_f64().is_some_and(|ns| ns > 0.0)));
    let text = expect(0, &["bench", "validation", "--launches", "1"]).out;
    assert!(text.contains("Median") && text.contains("LaunchCount=1"), "{text}");
    assert!(text.contains("transfix, FIX42: ") && text.contains(") the floor\n"), "{text}");
    assert!(text.contains("15 rounds in which all took turns; "), "{text}");
}
