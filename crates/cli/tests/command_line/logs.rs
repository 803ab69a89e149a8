//! `transfix logs` finds messages in all supported log formats, and prints them in all output
//! forms.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use transfix_codec::FrameWriter;
use transfix_store::{self as store, FileStore, Options, Record, Store};
use transfix_testkit::temp::TempDir;

use crate::command_line::running::{Program, venue};
use crate::command_line::{Run, run_in};

/// Returns a message from A to B with these fields, delimited by `|`.
pub(super) fn message(msg_type: &str, seq: u32, fields: &str) -> Vec<u8> {
    between("A", "B", msg_type, seq, fields)
}

pub(super) fn between(
    sender: &str,
    target: &str,
    msg_type: &str,
    seq: u32,
    fields: &str,
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type.as_bytes());
    let header = format!("34={seq}|49={sender}|56={target}|52=20261121-09:28:{:02}|", seq % 60);
    frame.raw((header + fields).replace('|', "\x01").as_bytes());
    frame.finish().unwrap();
    out
}

/// Returns log lines with these messages; their times are one second apart.
fn lines(messages: &[Vec<u8>]) -> Vec<u8> {
    let line = |(second, message): (usize, &Vec<u8>)| {
        let time = format!("20261121-09:28:{second:02}.000000000 : ");
        [time.as_bytes(), message, b"\n"].concat()
    };
    messages.iter().enumerate().flat_map(line).collect()
}

fn readable(bytes: &[u8], delimiter: &str) -> Vec<u8> {
    let fields: Vec<_> = bytes.split(|b| *b == 1).collect();
    fields.join(delimiter.as_bytes())
}

fn orders() -> Vec<Vec<u8>> {
    let order = |seq, fields: &str| message("D", seq, fields);
    vec![
        order(2, "11=one|55=EU|54=1|60=20261121-09:28:00|38=500|40=2|44=30.5|"),
        order(3, "11=two|55=US|54=2|60=20261121-09:28:01|38=1000|40=2|44=30.50|"),
        order(
            4,
            "11=three|453=2|448=DESK|447=D|452=1|448=TRADER|447=D|452=11|55=EU|54=1|38=5|40=1|",
        ),
        message("8", 5, "37=x|11=one|17=1|150=8|39=8|55=EU|54=1|151=0|14=0|6=0|58=no limit|"),
        // The value of RawData(96) contains text that looks like fields.
        message("B", 6, "148=h|33=1|58=t|95=18|96=44=1|11=inner|55=U|"),
        message("0", 7, "112=PING|"),
    ]
}

pub(super) fn logs(dir: &TempDir, args: &str) -> Run {
    let args: Vec<&str> = args.split(' ').collect();
    run_in(dir.path(), &[&["logs"], &args[..]].concat(), b"")
}

/// Checks, for each delimiter, that `condition` matches `expected` messages of the log.
fn check(dir: &TempDir, condition: &[&str], expected: usize) {
    for file in ["soh.log", "pipe.log", "semicolon.log", "caret.log", "-"] {
        let args = [&["logs", "--count"], condition, &[file]].concat();
        let run = run_in(dir.path(), &args, &lines(&orders()));
        assert_eq!(run.out, format!("{expected}\n"), "{args:?}: {run:?}");
        assert_eq!(run.code, i32::from(expected == 0), "{run:?}");
        assert_eq!(run.err, "", "{args:?}");
    }
}

fn delimited() -> TempDir {
    let dir = TempDir::new();
    let soh = lines(&orders());
    for (name, delimiter) in [("soh", "\x01"), ("pipe", "|"), ("semicolon", ";"), ("caret", "^A")] {
        fs::write(dir.path().join(format!("{name}.log")), readable(&soh, delimiter)).unwrap();
    }
    dir
}

#[test]
fn conditions_in_logs_of_each_delimiter() {
    let dir = delimited();
    for (condition, expected) in [
        ("MsgType=D", 3),
        ("35!=D", 3),
        ("Symbol=EU", 3),
        ("44=30.5", 2),
        ("Price>30.5", 0),
        ("OrderQty>=500", 2),
        ("OrderQty<1000", 2),
        ("Side=BUY", 3),
        ("Side!=BUY", 1),
        // An entry of a group is enough to meet a condition.
        ("PartyID=TRADER", 1),
        ("PartyRole=11", 1),
        ("Text~limit", 1),
        ("SendingTime<=20261121-09:28:03", 2),
        ("BeginString=FIX.4.4", 6),
        ("CheckSum~", 6),
        // Text within the value of RawData(96) meets no condition.
        ("ClOrdID=inner", 0),
        ("RawData~inner", 1),
        ("OrdStatus=REJECTED", 1),
    ] {
        check(&dir, &["--where", condition], expected);
    }
    check(&dir, &["--where", "Symbol=EU", "--where", "OrderQty>=500"], 1);
}

#[test]
fn other_choices() {
    let dir = delimited();
    check(&dir, &["--type", "D,8"], 4);
    check(&dir, &["--type", "NewOrderSingle"], 3);
    check(&dir, &["--text", "no limit"], 1);
    check(&dir, &["--text", "inner\u{1}55"], 1);
    check(&dir, &["--text", "\u{1}44=30.5"], 2);
    check(&dir, &["--text", "nowhere"], 0);
    check(&dir, &["--seq", "3..5"], 3);
    check(&dir, &["--seq", "6.."], 2);
    check(&dir, &["--seq", "..2"], 1);
    check(&dir, &["--seq", "7"], 1);
    // The time of the log line is compared, not SendingTime(52).
    check(&dir, &["--from", "20261121-09:28:01", "--to", "20261121-09:28:02"], 2);
    check(&dir, &["--session", "A-B"], 6);
    check(&dir, &["--session", "FIX.4.4-B-A"], 6);
    check(&dir, &["--session", "B"], 6);
    check(&dir, &["--session", "C"], 0);
    check(&dir, &["--limit", "2"], 2);
}

#[test]
fn what_is_wrong_with_a_call_is_said() {
    let dir = delimited();
    for (args, expected) in [
        ("--where MsgTyp=D soh.log", "no dictionary has a field 'MsgTyp'; did you mean 'MsgType'?"),
        ("--where Price soh.log", "write FIELD, an operator"),
        ("--where Price=cheap soh.log", "'cheap' is not a valid value of Price, which is a Price"),
        ("--type NewOrderSingel soh.log", "did you mean 'NewOrderSingle'?"),
        ("--csv Symbl soh.log", "--csv: no dictionary has a field 'Symbl'; did you mean 'Symbol'?"),
        ("--seq 9-5 soh.log", "write numbers as 5..9"),
        ("--from yesterday soh.log", "write a time in UTC"),
        ("--count --json soh.log", "cannot be used with"),
        ("--in --out soh.log", "cannot be used with"),
        ("--follow --count soh.log", "cannot be used with"),
        ("--gaps --type D soh.log", "remove --where, --text, --type and --seq"),
        ("none.log", "none.log: "),
        ("", "required"),
    ] {
        let run = logs(&dir, args.trim());
        assert_eq!((run.code, &*run.out), (2, ""), "{args}: {run:?}");
        assert!(run.err.contains(expected), "{args}: {run:?}");
    }
    // If one file cannot be read, the other files are still searched.
    let run = logs(&dir, "--count none.log soh.log");
    assert_eq!((run.code, &*run.out), (2, "6\n"), "{run:?}");
}

#[test]
fn forms_of_output() {
    let dir = delimited();
    let run = logs(&dir, "--type 8 soh.log");
    let expected =
        "20261121-09:28:03.000000000  ExecutionReport(8) seq 5 A->B  OrderID=x ClOrdID=one";
    assert!(run.out.starts_with(expected), "{run:?}");
    assert_eq!((run.out.lines().count(), &*run.err), (1, "1 of 6 messages\n"), "{run:?}");
    let full = logs(&dir, "--full --type 8 soh.log").out;
    assert!(full.contains("\n    OrdStatus (39): REJECTED (8)\n"), "{full}");
    let raw = logs(&dir, "--raw --type 8 pipe.log").out;
    assert_eq!(raw.as_bytes(), [&orders()[3][..], b"\n"].concat(), "{raw}");
    let csv = logs(&dir, "--csv time,direction,session,ClOrdID,448,58 --type D,8 caret.log").out;
    let expected = "time,direction,session,ClOrdID,448,58\n\
        20261121-09:28:00.000000000,,FIX.4.4:A->B,one,,\n\
        20261121-09:28:01.000000000,,FIX.4.4:A->B,two,,\n\
        20261121-09:28:02.000000000,,FIX.4.4:A->B,three,DESK TRADER,\n\
        20261121-09:28:03.000000000,,FIX.4.4:A->B,one,,no limit\n";
    assert_eq!(csv, expected);
    // The JSON has the form that `convert` writes, so that `convert` can restore the message.
    let json = logs(&dir, "--json soh.log").out;
    let converted = run_in(dir.path(), &["convert", "--to", "json", "soh.log"], b"").out;
    assert_eq!(json.lines().count(), 6, "{json}");
    for ((n, line), message) in json.lines().enumerate().zip(converted.lines()) {
        let time = format!("20261121-09:28:0{n}.000000000");
        let expected = format!(
            r#"{{"time":"{time}","direction":null,"session":"FIX.4.4:A->B","message":{message}}}"#
        );
        assert_eq!(line, expected);
    }
    let back = run_in(dir.path(), &["convert", "--to", "fix", "-"], json.as_bytes());
    assert_eq!((back.code, back.out.as_bytes()), (0, &*orders().concat()), "{back:?}");
    let two = logs(&dir, "--type 0 soh.log pipe.log").out;
    let heads: Vec<_> = two.lines().filter(|line| line.starts_with("==>")).collect();
    assert_eq!(heads, ["==> soh.log <==", "==> pipe.log <=="]);
}

#[test]
fn messages_around_those_that_are_found() {
    let dir = delimited();
    let run = logs(&dir, "--context 1 --where ClOrdID=two soh.log");
    let marks: Vec<_> = run.out.lines().map(|line| &line[..2]).collect();
    assert_eq!(marks, ["  ", "> ", "  "], "{run:?}");
    let run = logs(&dir, "-C 1 --seq 2 soh.log");
    assert_eq!(run.out.lines().count(), 2, "{run:?}");
    let run = logs(&dir, "-C 1 --where 34=2 --raw soh.log pipe.log");
    assert_eq!(run.out.lines().filter(|line| *line == "--").count(), 1, "{run:?}");
    // Where the contexts of two matches overlap, each line is shown once.
    let run = logs(&dir, "-C 2 --type D soh.log");
    let marks: Vec<_> = run.out.lines().map(|line| &line[..2]).collect();
    assert_eq!(marks, ["> ", "> ", "> ", "  ", "  "], "{run:?}");
    // With a limit, the context after the last match is still shown.
    let run = logs(&dir, "-C 1 -n 1 --type D soh.log");
    assert_eq!(run.out.lines().count(), 2, "{run:?}");
}

#[test]
fn secrets_are_stars() {
    let dir = TempDir::new();
    let logon = message("A", 1, "98=0|108=30|553=me|554=hush|1=DESK|");
    fs::write(dir.path().join("a.log"), lines(&[logon.clone(), message("0", 2, "")])).unwrap();
    for form in ["", "--full ", "--raw ", "--json ", "--csv 554,1 "] {
        let run = logs(&dir, &format!("{form}--type A a.log"));
        assert!(!run.out.contains("hush") && run.out.contains("DESK"), "{run:?}");
        let run = logs(&dir, &format!("{form}--type A --mask 1 a.log"));
        assert!(!run.out.contains("DESK"), "{run:?}");
        let run = logs(&dir, &format!("{form}--type A --unmasked a.log"));
        assert!(run.out.contains("hush"), "{run:?}");
    }
    // Conditions are checked against unmasked values.
    assert_eq!(logs(&dir, "--count --where Username=me a.log").out, "1\n");
    let order = message("8", 3, "37=O1|11=one|17=1|150=0|39=0|55=EU|54=1|151=5|14=0|6=0|");
    fs::write(dir.path().join("b.log"), lines(&[order])).unwrap();
    let run = logs(&dir, "--order one --mask 37 b.log");
    assert!(!run.out.contains("O1") && run.out.contains("one"), "{run:?}");
}

/// Writes a log with one message in each direction; `line` formats a line of the log.
fn log_of(name: &str, dir: &TempDir, line: impl Fn(&str, &str) -> String, delimiter: &str) {
    let text = |sender: &str, target: &str, seq| {
        let bytes = between(sender, target, "0", seq, "112=x|");
        String::from_utf8(readable(&bytes, delimiter)).unwrap()
    };
    let mine = line("out", &text("ME", "YOU", 1));
    let theirs = line("in", &text("YOU", "ME", 2));
    fs::write(dir.path().join(name), mine + &theirs).unwrap();
}

#[test]
fn logs_of_other_engines() {
    let dir = TempDir::new();
    let long = |way: &str| if way == "in" { "incoming" } else { "outgoing" };
    let file = "FIX.4.4-ME-YOU.messages.current.log";
    log_of(file, &dir, |_, text| format!("20261121-09:28:25.623118000 : {text}\n"), "\x01");
    // Logs of QuickFIX/J may have no times.
    log_of("FIX.4.4-ME-YOU.messages.log", &dir, |_, text| format!("{text}\n"), "\x01");
    let go = "FIX.4.4-ME-YOU.messages.backup.1.log";
    log_of(go, &dir, |_, text| format!("2026/11/21 09:28:25.623118 {text}\n"), "\x01");
    let screen = |way: &str, text: &str| {
        format!("<20261121-09:28:25.623, FIX.4.4:ME->YOU, {}>\n  ({text})\n", long(way))
    };
    log_of("screen.txt", &dir, screen, "|");
    let screen = |way: &str, text: &str| {
        format!("<20261121-09:28:25, FIX.4.4:ME->YOU, {}> ({text})\r\n", long(way))
    };
    log_of("screen-j.txt", &dir, screen, "|");
    let fix8 =
        |way: &str, text: &str| format!("0000003 A 2026-11-21 09:28:25.623118000 {way} {text}\n");
    log_of("fix8.log", &dir, fix8, "|");
    for name in [file, "FIX.4.4-ME-YOU.messages.log", go, "screen.txt", "screen-j.txt", "fix8.log"]
    {
        for (way, seq) in [("--out", "seq 1 ME->YOU"), ("--in", "seq 2 YOU->ME")] {
            let run = logs(&dir, &format!("{way} {name}"));
            assert!(run.out.contains(seq) && run.out.lines().count() == 1, "{name} {way}: {run:?}");
        }
        let of_line = name != "FIX.4.4-ME-YOU.messages.log";
        let from = if of_line { "20261121-09:28:25" } else { "20261121-09:28:02" };
        let expected = if of_line { 2 } else { 1 };
        let run = logs(&dir, &format!("--count --from {from} {name}"));
        assert_eq!(run.out, format!("{expected}\n"), "{name}: {run:?}");
    }
    // FIX Antenna writes a separate file for each direction.
    let line = |seq| {
        let bytes = String::from_utf8(between("ME", "YOU", "0", seq, "")).unwrap();
        format!("20261121-09:28:25.623 - {bytes}\n")
    };
    fs::write(dir.path().join("ME-YOU.in"), line(1)).unwrap();
    fs::write(dir.path().join("ME-YOU.out"), line(2) + &line(3)).unwrap();
    assert_eq!(logs(&dir, "--count --in ME-YOU.in ME-YOU.out").out, "1\n");
    assert_eq!(logs(&dir, "--count --out ME-YOU.in ME-YOU.out").out, "2\n");
    // The log has no information about the direction.
    log_of("plain.txt", &dir, |_, text| format!("{text}\n"), "|");
    let run = logs(&dir, "--in plain.txt");
    assert_eq!((run.code, &*run.out), (1, ""), "{run:?}");
    assert!(run.err.contains("2 messages left out: neither the log nor its name shows"), "{run:?}");
}

/// Returns time, direction and session of each message as JSON; null if the log does not contain
/// the value.
fn origins(dir: &TempDir, args: &str) -> Vec<[Value; 3]> {
    let run = logs(dir, &format!("--json {args}"));
    let line = |line: &str| -> [Value; 3] {
        let mut line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert!(line["message"].is_object() || line["garbled"].is_string(), "{line}");
        ["time", "direction", "session"].map(|name| line[name].take())
    };
    run.out.lines().map(line).collect()
}

#[test]
fn json_has_what_each_log_tells_of_a_message() {
    let dir = TempDir::new();
    let ours = "FIX.4.4:ME->YOU";
    let both = |time: Option<&str>| {
        vec![[json!(time), json!("out"), json!(ours)], [json!(time), json!("in"), json!(ours)]]
    };
    let file = "FIX.4.4-ME-YOU.messages.current.log";
    let line = |_: &str, text: &str| format!("20261121-09:28:25.623118000 : {text}\n");
    log_of(file, &dir, line, "\x01");
    assert_eq!(origins(&dir, file), both(Some("20261121-09:28:25.623118000")));
    let line = |way: &str, text: &str| format!("20261121-09:28:25.623 {way} : {text}\n");
    log_of("words.log", &dir, line, "\x01");
    assert_eq!(origins(&dir, "words.log"), both(Some("20261121-09:28:25.623000000")));
    // The log has no times, so SendingTime(52) is the time of the message.
    let j = "FIX.4.4-ME-YOU.messages.log";
    log_of(j, &dir, |_, text| format!("{text}\n"), "\x01");
    let times: Vec<_> = origins(&dir, j).into_iter().map(|[time, ..]| time).collect();
    assert_eq!(times, [1, 2].map(|n| json!(format!("20261121-09:28:0{n}.000000000"))));
    // A capture does not show whose log it is, so the session's name begins with the sender.
    log_of("plain.txt", &dir, |_, text| format!("{text}\n"), "|");
    let told: Vec<_> =
        origins(&dir, "plain.txt").into_iter().map(|[_, way, at]| [way, at]).collect();
    let expected = [[json!(null), json!(ours)], [json!(null), json!("FIX.4.4:YOU->ME")]];
    assert_eq!(told, expected);
    // The first line has a message without CompIDs and SendingTime(52), and the second line has no
    // message.
    fs::write(dir.path().join("bare.log"), "8=FIX.4.4|9=5|35=0|10=163|\n").unwrap();
    assert_eq!(origins(&dir, "bare.log"), [[json!(null), json!(null), json!(null)]]);
    let strange = "20261121-09:28:25 in : 8=FIX.4.4|9=5|49=A|10=163|\n";
    fs::write(dir.path().join("strange.log"), strange).unwrap();
    let expected = [[json!("20261121-09:28:25.000000000"), json!("in"), json!(null)]];
    assert_eq!(origins(&dir, "strange.log"), expected);
    // The records of a journal contain the direction.
    let (mut store, _) = FileStore::open(&dir.path().join("store"), Options::default(), 0).unwrap();
    let [sent, received] = [("ME", "YOU"), ("YOU", "ME")].map(|(a, b)| between(a, b, "0", 1, ""));
    let kind = store::Kind::Application;
    store.put(5, Record::Outbound { seq: 1, kind, bytes: &sent }).unwrap();
    store.put(5, Record::Inbound { seq: 1, kind, bytes: &received }).unwrap();
    store.commit().unwrap();
    assert_eq!(origins(&dir, "store"), both(Some("19700101-00:00:00.000000005")));
}

/// This log was written by two sessions of QuickFIX C++ 1.15.1: one skips numbers, the other
/// requests them.
#[test]
fn a_log_that_quickfix_has_written() {
    let dir = TempDir::new();
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/logs/quickfix-cpp");
    let place = place.to_str().unwrap();
    for (args, expected) in [
        ("--type D", 8),
        ("--type D --out", 8),
        ("--type D --in", 0),
        ("--in", 10),
        ("--where OrderQty>=500 --type D", 2),
        ("--where LeavesQty=500.0", 1),
        ("--where OrdStatus=REJECTED --in", 1),
        ("--text |;^A", 1),
        ("--seq 12.. --out", 3),
        ("--from 20261125-02:20:52.500 --to 20261125-02:20:53", 9),
        ("--session VENUE", 21),
    ] {
        let run = logs(&dir, &format!("--count {args} {place}"));
        assert_eq!(run.out, format!("{expected}\n"), "{args}: {run:?}");
        // The event log of QuickFIX contains no messages, which is reported.
        let note =
            run.err.lines().filter(|line| line.contains("event.current.log: contains no FIX"));
        assert_eq!((note.count(), run.err.lines().count()), (1, 1), "{args}: {run:?}");
    }
    let gaps = logs(&dir, &format!("--gaps {place}")).out;
    for line in [
        "out  gap 8..11 (4), came later",
        "in   ResendRequest(2) 8..0",
        "out  SequenceReset(4) fills 8, next is 12",
        "out  8..12 again (PossDup)",
    ] {
        assert!(gaps.lines().any(|found| found.ends_with(line)), "{line}: {gaps}");
    }
    let told = origins(&dir, place);
    let count = |way: &str| told.iter().filter(|[_, found, _]| *found == json!(way)).count();
    assert_eq!((told.len(), count("in"), count("out")), (21, 10, 11), "{told:?}");
    assert!(told.iter().all(|[time, _, at]| time.is_string() && at == "FIX.4.4:CLIENT->VENUE"));
    let latency = logs(&dir, &format!("--latency {place}"));
    assert!(latency.err.contains("7 requests answered"), "{latency:?}");
    let order = logs(&dir, &format!("--order C7 {place}")).out;
    assert_eq!(order.lines().count(), 4, "{order}");
    assert!(order.contains("NewOrderSingle(D) PossDup") && order.contains("O7 / E7"), "{order}");
}

#[test]
fn damage_is_counted_and_nothing_is_left_out_in_silence() {
    let dir = TempDir::new();
    let all = orders();
    let mut log = lines(&all);
    // A byte of the second order is changed.
    let at = memfind(&log, b"11=two");
    log[at + 3] = b'T';
    // A line of 5 MiB without a message, followed by a truncated last line.
    log.extend(std::iter::repeat_n(b'x', 5 << 20));
    log.extend(b"\r\n");
    log.extend(&lines(&all[..1])[..60]);
    fs::write(dir.path().join("a.log"), &log).unwrap();
    for args in ["--where ClOrdID=Two --csv 11", "--text =Two| --csv 11"] {
        let args = args.replace('|', "\x01");
        let run = logs(&dir, &format!("{args} a.log"));
        assert_eq!((run.code, &*run.out), (0, "11\nTwo\n"), "{run:?}");
        assert!(run.err.starts_with("1 of 6 messages\n2 garbled:\n  line 2, byte"), "{run:?}");
        assert!(run.err.contains("CheckSum(10) differs"), "{run:?}");
        assert!(run.err.contains("line 8, byte") && run.err.contains("ends within"), "{run:?}");
    }
    // Garbled messages are reported, whatever types are selected.
    let run = logs(&dir, "--count --type 0 a.log");
    assert_eq!((run.code, &*run.out), (0, "1\n"), "{run:?}");
    assert!(run.err.starts_with("2 garbled:"), "{run:?}");
    let shown = logs(&dir, "--where ClOrdID=Two a.log").out;
    assert!(
        shown.contains("  note: CheckSum(10) differs from the sum of the bytes: New"),
        "{shown}"
    );
    // A message of 3 MiB is found.
    let text = "y".repeat(3 << 20);
    let long = lines(&[message("B", 9, &format!("148=h|33=1|58={text}|"))]);
    fs::write(dir.path().join("long.log"), [long, lines(&all)].concat()).unwrap();
    assert_eq!(logs(&dir, "--count long.log").out, "7\n");
    assert_eq!(logs(&dir, "--count --text yyyy long.log").out, "1\n");
    // Lines may end with CRLF.
    let windows: Vec<u8> =
        lines(&all).split(|b| *b == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..]);
    for delimiter in ["\x01", "|", "^A"] {
        fs::write(dir.path().join("w.log"), readable(&windows, delimiter)).unwrap();
        let run = logs(&dir, "--count --where ClOrdID=one w.log");
        assert_eq!((&*run.out, &*run.err), ("2\n", ""), "{run:?}");
    }
}

fn memfind(bytes: &[u8], sought: &[u8]) -> usize {
    bytes.windows(sought.len()).position(|window| window == sought).unwrap()
}

#[test]
fn files_of_other_programs() {
    let dir = TempDir::new();
    let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    write("empty.log", b"");
    write("text.log", b"nothing of interest\nhere\n");
    write("program.log", &[b"\x7fELF\0\0\0\0".repeat(1000), vec![0; 10_000]].concat());
    write("a.log.gz", b"\x1f\x8b\x08\x00abc");
    write("a.log.xz", b"\xfd7zXZ\0abc");
    for (name, code, expected) in [
        ("empty.log", 1, "0 of 0 messages\n"),
        ("text.log", 1, "0 of 0 messages\ntext.log: contains no FIX message\n"),
        ("program.log", 2, "transfix: program.log: not a log of FIX messages\n"),
        ("a.log.gz", 2, "transfix: a.log.gz: compressed with gzip; write `zcat a.log.gz |`"),
        ("a.log.xz", 2, "transfix: a.log.xz: compressed with xz; write `xzcat a.log.xz |`"),
    ] {
        let run = logs(&dir, name);
        assert_eq!((run.code, &*run.out), (code, ""), "{name}: {run:?}");
        assert!(run.err.starts_with(expected), "{name}: {run:?}");
    }
    // A directory without readable files is an error.
    fs::create_dir(dir.path().join("none")).unwrap();
    write("none/notes", b"8=FIX");
    let run = logs(&dir, "none");
    assert_eq!(
        (run.code, run.err.contains("none: contains no store and no log")),
        (2, true),
        "{run:?}"
    );
    fs::create_dir(dir.path().join("some")).unwrap();
    write("some/notes", b"8=FIX");
    write("some/a.log", &lines(&orders()));
    let run = logs(&dir, "--count some");
    assert_eq!((run.code, &*run.out), (0, "6\n"), "{run:?}");
    assert!(run.err.contains("skipped 1 other file in the directories"), "{run:?}");
}

/// The file name of a closed protocol log.
const CLOSED: &str = "a.in.20261121-092825.000.log";

/// Returns these bytes as a zstd frame (RFC 8878) with a single uncompressed block.
fn zstd_frame(bytes: &[u8]) -> Vec<u8> {
    let count = u32::try_from(bytes.len()).unwrap();
    // The frame header declares one segment with a size of four bytes; the following block is
    // marked as the last.
    let block = (count << 3 | 1).to_le_bytes();
    [&[0x28, 0xb5, 0x2f, 0xfd, 0xa0], &count.to_le_bytes()[..], &block[..3], bytes].concat()
}

fn is_read_if_it_can_be(dir: &TempDir) {
    let run = logs(dir, "--count --in --type D .");
    if cfg!(feature = "zstd") {
        assert_eq!((run.code, &*run.out, &*run.err), (0, "3\n", ""), "{run:?}");
    } else {
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.err.contains("compressed with zstd, which this build cannot read"), "{run:?}");
    }
}

#[test]
fn a_log_that_is_compressed() {
    let dir = TempDir::new();
    let frame = zstd_frame(&lines(&orders()));
    fs::write(dir.path().join(CLOSED).with_extension("log.zst"), frame).unwrap();
    is_read_if_it_can_be(&dir);
}

#[test]
#[ignore = "needs zstd: cargo xtask peers programs"]
fn a_log_that_the_program_zstd_has_compressed() {
    let dir = TempDir::new();
    fs::write(dir.path().join(CLOSED), lines(&orders())).unwrap();
    let mut zstd = Command::new("zstd");
    let status = zstd.args(["-q", "--rm", CLOSED]).current_dir(dir.path()).status();
    assert!(status.expect("zstd; Debian's package zstd has it").success());
    is_read_if_it_can_be(&dir);
}

#[test]
fn the_life_of_an_order() {
    let dir = TempDir::new();
    let report = |seq, fields: &str| between("B", "A", "8", seq, fields);
    let mine = [
        message("D", 2, "11=C1|55=EU|54=1|38=100|40=2|44=30|"),
        message("D", 3, "11=other|55=EU|54=1|38=100|40=2|44=30|"),
        message("G", 4, "11=C2|41=C1|37=O1|55=EU|54=1|38=200|40=2|44=31|"),
        message("F", 6, "11=C3|41=C2|55=EU|54=1|"),
        // The orders in a list are not linked to each other by their common message.
        message("E", 8, "66=L|73=2|11=C3|67=1|55=EU|54=1|11=other|67=2|55=EU|54=1|"),
    ];
    let theirs = [
        report(2, "37=O1|11=C1|17=E1|150=0|39=0|55=EU|54=1|38=100|151=100|14=0|6=0|"),
        report(3, "37=O9|11=other|17=E2|150=0|39=0|55=EU|54=1|38=100|151=100|14=0|6=0|"),
        report(5, "37=O1|11=C2|41=C1|17=E3|150=5|39=0|55=EU|54=1|38=200|151=200|14=0|6=0|"),
        report(6, "37=O1|11=C2|17=E4|150=F|39=1|55=EU|54=1|38=200|32=50|31=31|151=150|14=50|6=31|"),
        report(7, "37=O1|11=C3|41=C2|17=E5|150=4|39=4|55=EU|54=1|38=200|151=0|14=50|6=31|"),
    ];
    // The file with later messages is read first; its message links to the earlier ClOrdID(11).
    let plain = |messages: &[Vec<u8>]| messages.join(&b"\n"[..]);
    fs::write(dir.path().join("FIX.4.4-A-B.out.log"), plain(&mine)).unwrap();
    fs::write(dir.path().join("FIX.4.4-A-B.in.log"), plain(&theirs)).unwrap();
    for id in ["C1", "C2", "C3", "O1"] {
        let run = logs(&dir, &format!("--order {id} ."));
        assert_eq!(run.code, 0, "{run:?}");
        let lines: Vec<_> = run.out.lines().collect();
        let expected = [
            ("out", "NewOrderSingle(D)", "C1"),
            ("in", "ExecutionReport(8)", "O1 / E1"),
            ("out", "OrderCancelReplaceRequest(G)", "C2"),
            ("in", "ExecutionReport(8)", "O1 / E3"),
            ("out", "OrderCancelRequest(F)", "C3"),
            ("in", "ExecutionReport(8)", "O1 / E4"),
            ("in", "ExecutionReport(8)", "O1 / E5"),
            ("out", "NewOrderList(E)", "C3"),
        ];
        assert_eq!(lines.len(), expected.len() + 1, "{id}: {run:#?}");
        // Messages of the same second keep the order of their log.
        let mut rest: Vec<&str> = lines[1..].to_vec();
        for (way, name, id) in expected {
            let at = rest.iter().position(|line| line.contains(id) && line.contains(name));
            let line = rest.remove(at.unwrap_or_else(|| panic!("{id}: {run:#?}")));
            assert!(line.contains(&format!(" {way} ")), "{line}");
        }
        let trade = lines.iter().find(|line| line.contains("E4")).unwrap();
        for word in ["PARTIALLY_FILLED", "TRADE", "50 @ 31", "150"] {
            assert!(trade.contains(word), "{trade}");
        }
        assert!(!run.out.contains("O9"), "{run:?}");
    }
    let times = |run: &Run| run.out.lines().skip(1).map(|line| line[..27].to_owned()).collect();
    let all: Vec<String> = times(&logs(&dir, "--order C2 ."));
    assert!(all.is_sorted(), "{all:?}");
    let none = logs(&dir, "--order C7 .");
    assert_eq!((none.code, &*none.out), (1, ""), "{none:?}");
    // Input from a pipe can be read only once, so the command must keep what it needs.
    let input = [plain(&mine), plain(&theirs)].join(&b"\n"[..]);
    let run = run_in(dir.path(), &["logs", "--order", "C3", "-"], &input);
    assert_eq!((run.code, run.out.lines().count()), (0, 9), "{run:?}");
    // The second log contains the same bytes.
    fs::write(dir.path().join("copy.in.log"), plain(&theirs)).unwrap();
    let run = logs(&dir, "--order C3 .");
    assert_eq!((run.code, run.out.lines().count()), (0, 9), "{run:?}");
    assert!(run.err.contains("4 more copies in other sources, equal in each byte"), "{run:?}");
}

#[test]
fn the_life_of_an_order_in_each_form() {
    let dir = TempDir::new();
    let order = |id: &str, seq| message("D", seq, &format!("11={id}|55=EU|54=1|38=1|40=1|"));
    let report =
        between("B", "A", "8", 2, "37=O1|11=C1|17=E1|150=0|39=0|55=EU|54=1|151=1|14=0|6=0|");
    // The file with the answer is read before the file with the order.
    fs::write(dir.path().join("a.in.log"), lines(&[order("x", 9), report])).unwrap();
    let later = lines(&[order("C1", 2), order("x", 3), order("O1", 4)]);
    fs::write(dir.path().join("a.out.log"), later).unwrap();
    let run = logs(&dir, "--order C1 --json .");
    assert_eq!(run.code, 0, "{run:?}");
    let told: Vec<Value> =
        run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> =
        told.iter().map(|one| (one["direction"].clone(), one["time"].clone())).collect();
    let at = |way: &str, second: u32| {
        (json!(way), json!(format!("20261121-09:28:{second:02}.000000000")))
    };
    assert_eq!(told, [at("out", 0), at("in", 1), at("out", 2)], "{run:?}");
    assert!(run.err.starts_with("3 of 5 messages\n"), "{run:?}");
    // A message is printed as in a search that finds only this message.
    for form in ["--json", "--full", "--raw", "--csv time,direction,11"] {
        let life = logs(&dir, &format!("--order C1 {form} ."));
        let mut parts = String::new();
        for (n, found) in ["--out --seq 2", "--in --seq 2", "--out --seq 4"].iter().enumerate() {
            let one = logs(&dir, &format!("{form} {found} .")).out;
            let one = one.split_inclusive('\n').filter(|line| !line.starts_with("==>"));
            let is_heading = form.starts_with("--csv") && n > 0;
            parts.extend(one.skip(usize::from(is_heading)));
        }
        assert_eq!((life.code, &life.out), (0, &parts), "{form}");
    }
    let count = logs(&dir, "--order C1 --count .");
    assert_eq!((count.code, &*count.out, &*count.err), (0, "3\n", ""), "{count:?}");
    // The search is for an order that is not in the log.
    for (form, out) in [("", ""), ("--json ", ""), ("--csv 11 ", "11\n"), ("--count ", "0\n")] {
        let none = logs(&dir, &format!("{form}--order 99 ."));
        assert_eq!((none.code, &*none.out), (1, out), "{none:?}");
        let first = if form.contains("count") { "" } else { "0 of 5 messages\n" };
        let note = "no message has 99 as ClOrdID(11), OrigClOrdID(41) or OrderID(37)\n";
        assert_eq!(none.err, format!("{first}{note}"), "{form}");
    }
    let refused = logs(&dir, "--order C1 --gaps .");
    assert!(refused.code == 2 && refused.err.contains("cannot be used with"), "{refused:?}");
}

/// If the user names both the log and the journal of a session, each message is shown once.
#[test]
fn what_two_logs_show_by_one_message_is_one_line() {
    let dir = TempDir::new();
    let beat = |seq| message("0", seq, "");
    let again = |seq| message("0", seq, "43=Y|122=20261121-09:28:00|");
    let sent = [
        beat(1),
        message("2", 2, "7=1|16=0|"),
        beat(5),
        again(3),
        message("4", 4, "43=Y|123=Y|36=5|"),
        beat(5),
        message("3", 6, "45=2|58=no such tag|"),
        // A message that appears twice in one log is shown twice.
        message("3", 6, "45=2|58=no such tag|"),
        message("4", 7, "36=20|"),
        beat(20),
        message("A", 1, "98=0|108=30|141=Y|"),
        beat(2),
        beat(4),
    ];
    let received = [between("B", "A", "2", 1, "7=1|16=0|"), between("B", "A", "0", 3, "")];
    fs::write(dir.path().join("FIX.4.4-A-B.out.log"), lines(&sent)).unwrap();
    fs::write(dir.path().join("FIX.4.4-A-B.in.log"), lines(&received)).unwrap();
    let (mut store, _) = FileStore::open(&dir.path().join("store"), Options::default(), 0).unwrap();
    let kind = store::Kind::Application;
    let logon = sent.len() as u64 - 3;
    for (n, bytes) in (0..).zip(&sent) {
        if n == logon {
            store.put(n, Record::Reset).unwrap();
        }
        let seq = if n < logon { n + 1 } else { n - logon + 1 };
        store.put(n, Record::Outbound { seq, kind, bytes }).unwrap();
    }
    for (seq, bytes) in (1..).zip(&received) {
        store.put(seq, Record::Inbound { seq, kind, bytes }).unwrap();
    }
    store.commit().unwrap();
    drop(store);
    let table = |run: &Run| {
        let rows = run.out.lines().take_while(|line| !line.is_empty());
        let what = |line: &str| line.split_once("FIX.4.4").unwrap().1.to_owned();
        let mut rows: Vec<_> = rows.skip(1).map(what).collect();
        rows.sort();
        rows
    };
    let logged = logs(&dir, "--gaps FIX.4.4-A-B.out.log FIX.4.4-A-B.in.log");
    let stored = logs(&dir, "--gaps store");
    assert_eq!(table(&logged).len(), 13, "{logged:#?}");
    assert_eq!(table(&logged), table(&stored), "{stored:#?}");
    let both = logs(&dir, "--gaps .");
    assert_eq!(table(&both), table(&logged), "{both:#?}");
    assert!(both.err.contains("13 lines omitted: another log has the same message"), "{both:?}");
    assert!(!logged.err.contains("omitted"), "{logged:?}");
    // Each of the logs has a summary line of its own.
    assert_eq!(both.out.lines().filter(|line| line.contains(" missing (")).count(), 4, "{both:#?}");
    assert_eq!((both.code, logged.code), (1, 1));
}

#[test]
fn gaps_and_repeats() {
    let dir = TempDir::new();
    let beat = |seq| message("0", seq, "");
    let again = |seq| message("0", seq, "43=Y|122=20261121-09:28:00|");
    let sent = [
        message("A", 1, "98=0|108=30|"),
        beat(2),
        beat(3),
        beat(7),
        beat(8),
        again(4),
        again(5),
        message("4", 6, "43=Y|123=Y|36=9|"),
        beat(9),
        beat(9),
        beat(12),
        message("4", 13, "36=20|"),
        beat(20),
        message("3", 21, "45=2|58=no such tag|"),
        message("A", 1, "98=0|108=30|141=Y|"),
        beat(2),
    ];
    let received = [
        between("B", "A", "A", 1, "98=0|108=30|"),
        between("B", "A", "2", 2, "7=4|16=0|"),
        between("B", "A", "0", 3, ""),
    ];
    fs::write(dir.path().join("FIX.4.4-A-B.out.log"), lines(&sent)).unwrap();
    fs::write(dir.path().join("FIX.4.4-A-B.in.log"), lines(&received)).unwrap();
    let run = logs(&dir, "--gaps .");
    // Messages 10 and 11 are missing in the log.
    assert_eq!(run.code, 1, "{run:?}");
    let expected = [
        ("01", "in", "ResendRequest(2) 4..0"),
        ("03", "out", "gap 4..6 (3), came later"),
        ("05", "out", "4..8 again (PossDup)"),
        ("07", "out", "SequenceReset(4) fills 6, next is 9"),
        ("09", "out", "9 again, expected 10"),
        ("10", "out", "gap 10..11 (2), never came"),
        ("11", "out", "SequenceReset(4) to 20"),
        ("13", "out", "Reject(3) of 2: no such tag"),
        ("14", "out", "the numbers start again at 1"),
    ];
    let lines: Vec<_> = run.out.lines().collect();
    for (line, (second, way, what)) in lines[1..].iter().zip(expected) {
        let words: Vec<_> = line.splitn(4, "  ").map(str::trim).filter(|w| !w.is_empty()).collect();
        assert!(line.trim_start().starts_with(&format!("20261121-09:28:{second}")), "{line}");
        assert!(line.ends_with(what) && line.contains(&format!(" {way} ")), "{what}: {words:?}");
    }
    let sums: Vec<_> = lines[expected.len() + 2..].to_vec();
    assert!(sums[0].starts_with("FIX.4.4:A->B in: 3 messages, numbers 1..3, 0 missing"), "{run:?}");
    assert!(sums[1].starts_with("FIX.4.4:A->B out: 16 messages, numbers 1..21, 2 missing"));
    // The selected time contains no gap.
    let run = logs(&dir, "--gaps --to 20261121-09:28:00 .");
    assert_eq!((run.code, run.out.lines().count()), (0, 2), "{run:?}");
}

/// The exit code of `--gaps` shows scripts if a number is missing.
#[test]
fn the_exit_code_of_gaps_says_whether_a_number_is_missing() {
    let dir = TempDir::new();
    let beat = |seq| message("0", seq, "");
    let again = |seq| message("0", seq, "43=Y|122=20261121-09:28:00|");
    let fill = |seq, new| message("4", seq, &format!("43=Y|123=Y|36={new}|"));
    let damaged = {
        let mut bytes = beat(2);
        let at = bytes.len() - 20;
        bytes[at] ^= 1;
        bytes
    };
    let table = [
        ("each number once", 0, vec![beat(1), beat(2)]),
        ("a log that begins anywhere", 0, vec![beat(7), beat(8)]),
        ("one missing", 1, vec![beat(1), beat(3)]),
        ("missing and sent again", 0, vec![beat(1), beat(3), again(2)]),
        ("missing and half sent again", 1, vec![beat(1), beat(4), again(2)]),
        ("missing and filled", 0, vec![beat(1), beat(4), fill(2, 4)]),
        ("one too many", 0, vec![beat(1), beat(1), beat(2)]),
        ("a ResendRequest(2)", 0, vec![beat(1), message("2", 2, "7=1|16=0|")]),
        ("a Reject(3)", 0, vec![beat(1), message("3", 2, "45=1|58=no|")]),
        ("a reset", 0, vec![beat(1), message("4", 2, "36=20|"), beat(20)]),
        ("a new beginning", 0, vec![beat(1), beat(2), message("A", 1, "98=0|108=30|141=Y|")]),
        ("missing before a new beginning", 1, vec![beat(1), beat(3), message("A", 1, "98=0|")]),
        ("a damaged message that has its number", 0, vec![beat(1), damaged, beat(3)]),
        ("no message", 1, vec![]),
    ];
    for (name, code, messages) in table {
        fs::write(dir.path().join("a.log"), lines(&messages)).unwrap();
        let run = logs(&dir, "--gaps a.log");
        assert_eq!(run.code, code, "{name}: {run:#?}");
    }
    fs::write(dir.path().join("a.log"), lines(&[beat(1), beat(2)])).unwrap();
    // A session that is not found and a file that cannot be read are both failures.
    let run = logs(&dir, "--gaps --session NOBODY a.log");
    assert_eq!((run.code, &*run.out), (1, ""), "{run:?}");
    assert!(run.err.contains("no message to examine"), "{run:?}");
    assert_eq!(logs(&dir, "--gaps a.log none.log").code, 2);
}

/// Creates the logs and journals of a venue and its client after trades.
fn traded() -> TempDir {
    let dir = TempDir::new();
    let keys = "keep_inbound = true\nlog = { dir = 'log' }\n";
    let mut venue = venue(&dir, keys, &["--quiet"]);
    let settings = dir.path().join("client.toml");
    let words = "log = { dir = 'words', direction = 'words' }\n";
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text + words).unwrap();
    let input = b"wait\nbuy 5 EU 30\nsell 2 EU 30\ncancel 1\nquit\n";
    let run = run_in(dir.path(), &["connect", "client.toml", "--quiet"], input);
    assert_eq!(run.code, 0, "{run:?}");
    venue.signal();
    assert_eq!(venue.ended(), (Some(0), String::new()));
    dir
}

#[test]
fn logs_and_journals_of_this_engine() {
    let dir = traded();
    // The places are the venue's log, the client's log, and both journals.
    for (place, received, sent) in
        [("log", 2, 0), ("words", 0, 2), ("venue", 2, 0), ("client", 0, 2)]
    {
        for (way, expected) in [("--in", received), ("--out", sent)] {
            let run = logs(&dir, &format!("--count --type D {way} {place}"));
            assert_eq!(run.out, format!("{expected}\n"), "{place} {way}: {run:?}");
        }
        let run = logs(&dir, &format!("--where ClOrdID~ --where Side=SELL --type D {place}"));
        assert!(run.out.contains("Side=SELL"), "{place}: {run:?}");
        // The client's journal lacks received messages; this is not reported as a gap.
        let run = logs(&dir, &format!("--gaps {place}"));
        assert!(!run.out.contains("gap "), "{place}: {run:#?}");
        assert!(!run.out.contains("expected"), "{place}: {run:#?}");
        assert!(run.out.contains(" 0 missing "), "{place}: {run:#?}");
    }
    let id = logs(&dir, "--csv ClOrdID --type D --where Side=BUY words").out;
    let id = id.lines().nth(1).unwrap();
    let run = logs(&dir, &format!("--order {id} words"));
    assert_eq!(run.code, 0, "{run:?}");
    for word in ["NewOrderSingle(D)", "ExecutionReport(8)", "OrderCancelRe", "PARTIALLY_FILLED"] {
        assert!(run.out.contains(word), "{word}: {run:#?}");
    }
    // Two orders and a cancel request are found with their answers, which the venue's log, the
    // venue's journal and the client's log contain.
    for place in ["log", "venue", "words"] {
        let run = logs(&dir, &format!("--latency {place}"));
        assert_eq!(run.code, 0, "{place}: {run:#?}");
        let said = "3 requests answered, 0 without an answer";
        assert!(run.err.contains(said), "{place}: {run:#?}");
        let out = place == "words";
        let way = if out { " out " } else { " in " };
        let requests = run.out.lines().filter(|line| line.contains("NewOrderSingle(D)"));
        assert!(requests.clone().all(|line| line.contains(way)), "{place}: {run:#?}");
        assert_eq!(requests.count(), 3, "{place}: {run:#?}");
    }
    let nothing = logs(&dir, "--from 20991231-00:00:00 log words venue client");
    assert_eq!((nothing.code, &*nothing.out), (1, ""), "{nothing:?}");
}

/// Settings, administration, logs and stores show the same name for a session.
#[test]
fn a_session_has_one_name() {
    let dir = traded();
    let name = "FIX.4.4:VENUE->CLIENT";
    let of = |args: &[&str], key: &str| {
        let run = run_in(dir.path(), args, b"");
        let line = run.out.lines().next().unwrap_or_else(|| panic!("{run:?}"));
        serde_json::from_str::<Value>(line).unwrap()[key].clone()
    };
    for (n, store) in
        ["venue/FIX.4.4-VENUE-CLIENT", "client/FIX.4.4-CLIENT-VENUE"].iter().enumerate()
    {
        let expected = [name, "FIX.4.4:CLIENT->VENUE"][n];
        assert_eq!(of(&["store", "show", "--json", store], "session"), expected);
        assert_eq!(of(&["logs", "--json", store], "session"), expected);
        let shown = run_in(dir.path(), &["store", "show", store], b"").out;
        assert!(shown.contains(expected), "{shown}");
    }
    assert_eq!(of(&["logs", "--json", "log"], "session"), name);
    let checked = run_in(dir.path(), &["settings", "check", "venue.toml"], b"");
    assert!(checked.out.contains(name), "{checked:?}");
}

#[test]
fn following_over_the_rolling_of_files() {
    let dir = TempDir::new();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("log")).unwrap();
    let line = |id: &str| lines(&[message("D", 2, &format!("11={id}|55=EU|54=1|38=1|40=1|"))]);
    let append = |name: &str, bytes: &[u8]| {
        let mut file = OpenOptions::new().create(true).append(true).open(path(name)).unwrap();
        file.write_all(bytes).unwrap();
    };
    for what in ["log", "log/a.in.log"] {
        append("log/a.in.log", &line("first"));
        let mut follower = Program::start(&dir, &["logs", "--follow", "--type", "D", what]);
        follower.wait_for("ClOrdID=first");
        append("log/a.in.log", &line("second"));
        follower.wait_for("ClOrdID=second");
        // An incomplete line is not shown until its rest has been written.
        let (half, rest) = (&line("third")[..70], &line("third")[70..]);
        append("log/a.in.log", half);
        append("log/a.in.log", rest);
        follower.wait_for("ClOrdID=third");
        append("log/a.in.log", &line("fourth"));
        fs::rename(path("log/a.in.log"), path("log/a.in.20261121-092825.000.log")).unwrap();
        append("log/a.in.log", &line("fifth"));
        follower.wait_for("ClOrdID=fourth");
        follower.wait_for("ClOrdID=fifth");
        append("log/a.in.log", &line("sixth"));
        follower.wait_for("ClOrdID=sixth");
        if what == "log" {
            append("log/b.in.log", &line("seventh"));
            follower.wait_for("ClOrdID=seventh");
        }
        follower.signal();
        let rest = follower.rest();
        assert!(!rest.contains("ClOrdID"), "{what}: {rest}");
        follower.ended();
        fs::remove_dir_all(path("log")).unwrap();
        fs::create_dir(path("log")).unwrap();
    }
}

#[test]
fn following_a_running_engine() {
    let dir = TempDir::new();
    let keys = "keep_inbound = true\nlog = { dir = 'log' }\n";
    let mut venue = venue(&dir, keys, &["--quiet"]);
    let followers = ["log", "venue"].map(|what| {
        Program::start(&dir, &["logs", "--follow", "--type", "D", "--limit", "2", what])
    });
    for order in ["buy 5 EU 30", "sell 2 US 30"] {
        let input = format!("wait\n{order}\nquit\n");
        let run = run_in(dir.path(), &["connect", "client.toml", "--quiet"], input.as_bytes());
        assert_eq!(run.code, 0, "{run:?}");
        let symbol = if order.contains("EU") { "Symbol=EU" } else { "Symbol=US" };
        followers.iter().for_each(|follower| _ = follower.wait_for(symbol));
    }
    // With a limit, each `--follow` ends after the requested number of messages.
    for mut follower in followers {
        follower.rest();
        assert_eq!(follower.ended().0, Some(0));
    }
    venue.signal();
    assert_eq!(venue.ended().0, Some(0));
}

#[test]
fn nobody_reads_on() {
    let dir = delimited();
    for args in [&["soh.log"][..], &["--follow", "soh.log"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_transfix"))
            .arg("logs")
            .args(args)
            .current_dir(dir.path() as &Path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {err}");
        assert!(!err.contains("transfix:"), "{args:?}: {err}");
    }
}
