//! `transfix print` selects files and messages, and formats the messages.

use std::fs;

use transfix_codec::FrameWriter;
use transfix_testkit::temp::TempDir;

use crate::command_line::{Run, run_in};

/// Returns a message of this type with these fields, which `|` separates.
fn message(msg_type: &str, seq: u32, time: &str, fields: &str) -> Vec<u8> {
    message_of(msg_type, seq, time, &fields.replace('|', "\x01"))
}

/// Returns a message of this type with these fields, which are already delimited by SOH.
fn message_of(msg_type: &str, seq: u32, time: &str, fields: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type.as_bytes());
    frame.raw(format!("34={seq}\x0149=A\x0156=B\x0152={time}\x01").as_bytes());
    frame.raw(fields.as_bytes());
    frame.finish().unwrap();
    out
}

/// Creates two files, one with orders and one with reports, in which each line has a time.
fn files() -> TempDir {
    let dir = TempDir::new();
    let line = |second: u32, message: Vec<u8>| {
        let time = format!("20261121-09:28:{second:02}.000000000 : ");
        [time.as_bytes(), &message, b"\n"].concat()
    };
    let at = "20261121-09:28:00";
    let orders = [
        line(1, message("D", 2, at, "11=one|55=EU|54=1|38=5|40=2|44=30|60=20261121-09:28:00|")),
        line(2, message("D", 3, at, "11=two|55=US|54=2|38=5|40=2|44=31|60=20261121-09:28:00|")),
    ];
    fs::write(dir.path().join("orders.log"), orders.concat()).unwrap();
    let reports = [
        line(3, message("8", 2, at, "37=x|11=one|17=1|150=0|39=0|55=EU|54=1|151=5|14=0|6=0|")),
        line(4, message("3", 3, at, "45=3|371=44|372=D|58=Required tag missing, tag 44|")),
    ];
    fs::write(dir.path().join("reports.log"), reports.concat()).unwrap();
    dir
}

fn print(dir: &TempDir, args: &[&str]) -> Run {
    run_in(dir.path(), &[&["print", "--one-line"], args].concat(), b"")
}

#[test]
fn many_files_one_after_the_other() {
    let dir = files();
    let run = print(&dir, &["orders.log", "reports.log"]);
    assert_eq!(run.code, 0, "{run:?}");
    let lines: Vec<_> = run.out.lines().collect();
    assert_eq!(lines.len(), 6, "{run:?}");
    assert_eq!((lines[0], lines[3]), ("==> orders.log <==", "==> reports.log <=="));
    let end = "RefTagID=Price(44) RefMsgType=NewOrderSingle(D) \
        Text=Required tag missing, tag Price(44)";
    assert!(lines[5].ends_with(end), "{run:?}");
    assert_eq!(run.err, "4 messages\n");
    // An unreadable file is reported, and the other files are printed.
    let run = print(&dir, &["orders.log", "none.log", "reports.log"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert_eq!(run.out.lines().count(), 7, "{run:?}");
    assert!(run.err.contains("none.log: No such file"), "{run:?}");
}

#[test]
fn only_the_messages_asked_for() {
    let dir = files();
    for (args, expected) in [
        (&["--type", "D"][..], &[2, 3][..]),
        (&["--type", "8,Reject"], &[2, 3]),
        (&["--type", "NewOrderSingle", "--where", "55=US"], &[3]),
        (&["--where", "Side=BUY"], &[2, 2]),
        (&["--where", "54=1", "--where", "OrderQty=5"], &[2]),
        (&["--where", "Symbol=none"], &[]),
        (&["--from", "20261121-09:28:02", "--to", "20261121-09:28:03"], &[3, 2]),
        (&["--from", "20261121-09:28:04"], &[3]),
        (&["--to", "20261121-09:28:00"], &[]),
    ] {
        let run = print(&dir, &[args, &["orders.log", "reports.log"]].concat());
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
        let numbers = run.out.lines().filter_map(|line| line.split_once(" seq "));
        let numbers: Vec<usize> =
            numbers.map(|(_, seq)| seq.split(' ').next().unwrap().parse().unwrap()).collect();
        assert_eq!(numbers, expected, "{args:?}: {run:?}");
        assert_eq!(run.err, format!("{} of 4 messages\n", expected.len()), "{args:?}");
    }
    for args in [&["--where", "Sidde=1"][..], &["--where", "54"], &["--from", "today"], &[]] {
        let files: &[&str] = if args.is_empty() { &[] } else { &["orders.log"] };
        let run = print(&dir, &[args, files].concat());
        assert_eq!((run.code, &*run.out), (2, ""), "{args:?}: {run:?}");
    }
}

#[test]
fn a_type_that_nothing_has_is_said() {
    let dir = files();
    let run = print(&dir, &["--type", "NewOrderSingel", "orders.log"]);
    assert_eq!((run.code, &*run.out), (2, ""), "{run:?}");
    assert!(run.err.ends_with("did you mean 'NewOrderSingle'?\n"), "{run:?}");
    let run = print(&dir, &["--where", "Sidde=1", "orders.log"]);
    assert!(
        run.err.ends_with("no dictionary has a field 'Sidde'; did you mean 'Side'?\n"),
        "{run:?}"
    );
    let run = print(&dir, &["--type", "ZZ", "orders.log"]);
    let note = "transfix: --type: no dictionary has a message of the type 'ZZ'\n";
    assert_eq!((run.code, run.err), (0, format!("{note}0 of 2 messages\n")));
}

#[test]
fn a_delimiter_within_a_value_is_read_or_named() {
    let dir = TempDir::new();
    let print_text = |text: &str, by: &str| {
        let bytes = message_of("B", 5, "20261121-09:28:00", &format!("148=x\x0158={text}\x01"));
        let capture = String::from_utf8(bytes).unwrap().replace('\x01', by) + "\n";
        fs::write(dir.path().join("capture"), capture).unwrap();
        let run = print(&dir, &["capture"]);
        let check = run_in(dir.path(), &["check", "capture"], b"");
        (run, check)
    };
    for by in [";", "|"] {
        let (run, check) = print_text(&format!("a{by}b"), by);
        assert!(run.code == 0 && run.out.ends_with(&format!("Text=a{by}b\n")), "{run:?}");
        assert!(!check.out.contains("CheckSum"), "{check:?}");
        let (run, check) = print_text(&format!("a{by}7=b"), by);
        let said = format!("CheckSum(10) is right only if 1 of the '{by}' belong to values");
        assert!(run.code == 1 && run.out.contains(&said), "{run:?}");
        assert!(check.out.contains(&said), "{check:?}");
    }
}

#[test]
fn times_come_from_the_message_where_no_log_has_them() {
    let dir = TempDir::new();
    let messages = ["20261121-09:00:00", "20261121-10:00:00"].map(|time| message("0", 1, time, ""));
    fs::write(dir.path().join("capture"), messages.concat()).unwrap();
    let run = print(&dir, &["--from", "20261121-09:30:00", "capture"]);
    assert_eq!((run.code, run.out.lines().count()), (0, 1), "{run:?}");
}

#[test]
fn colours_when_asked_for() {
    let dir = files();
    // Standard output is a pipe, so `auto` uses no colors.
    for (args, is_coloured) in
        [(&[][..], false), (&["--color", "never"], false), (&["--color", "always"], true)]
    {
        let run = print(&dir, &[args, &["orders.log"]].concat());
        assert_eq!((run.code, run.out.contains('\x1b')), (0, is_coloured), "{run:?}");
    }
}

#[test]
fn no_value_forges_a_line() {
    let dir = TempDir::new();
    let bidi = "58=1\u{202e}2|";
    let texts = [
        "58=a\n20261121-09:28:25.000000000 : Heartbeat(0) seq 9 A->B|",
        "58=a\r\nHeartbeat(0) seq 9 A->B|",
        "58=\u{2028}Heartbeat(0) seq 9|",
        bidi,
        "58=\x1b[2J|",
        "354=27|355=\nHeartbeat(0) seq 9 A->B 1234|",
    ];
    let messages = texts.map(|text| message("B", 5, "20261121-09:28:00", text));
    for delimiter in ["\x01", "|", ";", "^A"] {
        let capture = messages.concat();
        let capture = String::from_utf8(capture).unwrap().replace('\x01', delimiter);
        fs::write(dir.path().join("capture"), capture).unwrap();
        for form in [&["--one-line"][..], &[]] {
            let run = run_in(dir.path(), &[&["print"], form, &["capture"]].concat(), b"");
            let is_forged = |line: &str| {
                let line = line.trim_start();
                line.starts_with("Heartbeat") || line.starts_with("2026")
            };
            assert!(!run.out.lines().any(is_forged), "{delimiter:?}: {run:?}");
            let is_hidden =
                |c: char| c != '\n' && (c.is_control() || "\u{202e}\u{2028}".contains(c));
            assert!(!run.out.contains(is_hidden), "{delimiter:?}: {run:?}");
            assert!(run.out.contains(r"1\u{202E}2"), "{run:?}");
        }
    }
}
