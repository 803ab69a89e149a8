//! Tests that run the program as its users do, and check output and exit codes.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod admin;
mod bench;
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
mod latency;
mod logs;
mod mask;
mod migrate;
mod migrate_cases;
mod parquet;
mod password;
mod print;
mod quick_start;
mod running;
mod settings;
#[cfg(feature = "tls")]
mod settings_truth;
#[cfg(feature = "tls")]
mod tls;

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use transfix_store::{FileStore, Kind, Options, Record, Store};
use transfix_testkit::temp::TempDir;

/// The output and exit code of one run of the program.
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
    // The write may fail, because the program may exit without reading its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    Run { code, out: text(output.stdout), err: text(output.stderr) }
}

fn run(args: &[&str]) -> Run {
    // The program runs in a temporary directory, so that its files do not get into the project.
    run_in(TempDir::new().path(), args, b"")
}

/// Runs the program and checks its exit code.
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
    let help = expect(0, &["--help"]).out;
    assert!(help.contains("Exit codes: 0 done, 1 failed, 2 wrong usage or input that"), "{help}");
    assert!(help.starts_with("A FIX engine on the command line\n"), "{help}");
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
        (
            2,
            &["dictionary", "Nonsense"][..],
            "; FIX44 has no message, component or field of \
            this name",
        ),
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
        // Samples whose data fields contain the delimiter are skipped.
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
        // One of the samples has a field that only a venue defines.
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
            "two.toml: the file has 2 sessions, but the test client needs exactly one; use \
             `transfix serve two.toml`",
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

fn assert_written(dir: &Path) {
    let csv = fs::read_to_string(dir.join("latency.csv")).unwrap();
    assert!(csv.starts_with("series,i,ns\n") && csv.lines().count() > 50);
    assert!(fs::read_to_string(dir.join("latency.svg")).unwrap().contains("<svg"));
}

#[test]
fn demo_loses_nothing() {
    let dir = TempDir::new();
    let run = run_in(dir.path(), &["demo", "--burst", "500", "--messages", "100"], b"");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.out.matches("lost 0 ").count(), 2, "{}", run.out);
    assert_written(dir.path());
}
