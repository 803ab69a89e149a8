//! `transfix logs --latency` pairs requests with their answers, and reports the times between them.

use std::fs;

use transfix_testkit::temp::TempDir;

use crate::command_line::logs::{between, logs, message};

/// Returns a log line with this message; the time is 09:28 plus `ms` milliseconds.
fn at(ms: u32, message: &[u8]) -> Vec<u8> {
    let time = format!("20261121-09:28:{:02}.{:03}000000 : ", ms / 1000, ms % 1000);
    [time.as_bytes(), message, b"\n"].concat()
}

fn order(seq: u32, id: &str) -> Vec<u8> {
    message("D", seq, &format!("11={id}|55=EU|54=1|38=5|40=1|"))
}

fn report(seq: u32, id: &str) -> Vec<u8> {
    between("B", "A", "8", seq, &format!("37=x|11={id}|17={seq}|150=0|39=0|55=EU|54=1|"))
}

/// Returns the rows of `--latency --csv`: ClOrdID(11), MsgType(35) of the answer, and nanoseconds.
fn latencies(dir: &TempDir, args: &str) -> Vec<[String; 3]> {
    let run = logs(dir, &format!("--latency --csv ClOrdID,answer,latency_ns {args}"));
    assert!(run.out.starts_with("ClOrdID,answer,latency_ns\n"), "{run:?}");
    // The command fails with exit code 1 if no request has an answer.
    let has_answer = run.out.lines().skip(1).any(|line| !line.ends_with(",,"));
    assert_eq!(run.code, i32::from(!has_answer), "{run:?}");
    let row = |line: &str| -> [String; 3] {
        let cells: Vec<_> = line.split(',').map(str::to_owned).collect();
        cells.try_into().unwrap()
    };
    run.out.lines().skip(1).map(row).collect()
}

fn rows<const N: usize>(rows: [(&str, &str, &str); N]) -> Vec<[String; 3]> {
    rows.map(|(id, answer, ns)| [id, answer, ns].map(str::to_owned)).to_vec()
}

const NEW: &str = "ExecutionReport(8)";

/// A log and its expected rows.
type Case = (&'static str, Vec<Vec<u8>>, Vec<[String; 3]>);

fn check(cases: Vec<Case>) {
    let dir = TempDir::new();
    for (name, log, expected) in cases {
        fs::write(dir.path().join("a.log"), log.concat()).unwrap();
        assert_eq!(latencies(&dir, "a.log"), expected, "{name}");
    }
}

#[test]
fn what_counts_as_the_answer_to_a_request() {
    let theirs = |msg_type: &str, fields: &str| between("B", "A", msg_type, 9, fields);
    check(vec![
        (
            "the first report, and no later one",
            vec![at(1, &order(2, "a")), at(3, &report(2, "a")), at(9, &report(3, "a"))],
            rows([("a", NEW, "2000000")]),
        ),
        (
            "in the order of the answers",
            vec![
                at(1, &order(2, "a")),
                at(2, &order(3, "b")),
                at(3, &report(2, "b")),
                at(7, &report(3, "a")),
            ],
            rows([("b", NEW, "1000000"), ("a", NEW, "6000000")]),
        ),
        (
            "a cancel that is refused",
            vec![
                at(1, &message("F", 2, "11=c|41=a|")),
                at(2, &theirs("9", "37=x|11=c|41=a|39=0|434=1|")),
            ],
            rows([("c", "OrderCancelReject(9)", "1000000")]),
        ),
        (
            "a Reject(3) by its number",
            vec![at(1, &order(2, "a")), at(2, &order(3, "b")), at(4, &theirs("3", "45=03|"))],
            rows([("b", "Reject(3)", "2000000"), ("a", "", "")]),
        ),
        (
            "a BusinessMessageReject(j) by ID, and one by number",
            vec![
                at(1, &order(2, "a")),
                at(1, &order(3, "b")),
                at(2, &theirs("j", "372=D|379=b|380=3|")),
                at(3, &theirs("j", "45=2|372=D|380=3|")),
            ],
            rows([
                ("b", "BusinessMessageReject(j)", "1000000"),
                ("a", "BusinessMessageReject(j)", "2000000"),
            ]),
        ),
    ]);
}

#[test]
fn what_counts_as_a_request_and_what_does_not_answer_it() {
    let again = |id: &str| message("D", 2, &format!("11={id}|43=Y|122=20261121-09:28:00|"));
    check(vec![
        (
            "no answer from the same side, of another session, or before the request",
            vec![
                at(1, &report(2, "a")),
                at(2, &order(2, "a")),
                at(3, &message("8", 3, "37=x|11=a|")),
                at(4, &between("B", "C", "8", 3, "37=x|11=a|")),
            ],
            rows([("a", "", "")]),
        ),
        (
            "an ID again when the first one has its answer",
            vec![
                at(1, &order(2, "a")),
                at(2, &report(2, "a")),
                at(3, &message("H", 3, "11=a|55=EU|54=1|")),
                at(7, &report(3, "a")),
            ],
            rows([("a", NEW, "1000000"), ("a", NEW, "4000000")]),
        ),
        (
            "no request that was sent again",
            vec![at(1, &order(2, "a")), at(2, &report(2, "a")), at(3, &again("a"))],
            rows([("a", NEW, "1000000")]),
        ),
        (
            "each order of a list",
            vec![
                at(1, &message("E", 2, "66=L|73=2|11=a|67=1|11=b|67=2|")),
                at(2, &report(2, "a")),
                at(4, &report(3, "b")),
            ],
            rows([("a b", NEW, "1000000"), ("a b", NEW, "3000000")]),
        ),
        (
            "both sides may ask with the same ID",
            vec![
                at(1, &order(2, "a")),
                at(2, &between("B", "A", "D", 2, "11=a|")),
                at(5, &report(2, "a")),
                at(6, &message("8", 3, "37=x|11=a|")),
            ],
            rows([("a", NEW, "4000000"), ("a", NEW, "4000000")]),
        ),
    ]);
}

/// Answers are found in another file, even if that file comes first by name.
#[test]
fn requests_and_answers_in_files_of_their_own() {
    let dir = TempDir::new();
    let write = |name: &str, lines: &[Vec<u8>]| {
        fs::write(dir.path().join(name), lines.concat()).unwrap();
    };
    write("a.in.20261121-092825.000.log", &[at(2, &report(2, "a")), at(3, &report(3, "b"))]);
    write("a.in.log", &[at(9, &report(4, "c"))]);
    write("a.out.log", &[at(1, &order(2, "a")), at(3, &order(3, "b")), at(4, &order(4, "c"))]);
    let expected = rows([("a", NEW, "1000000"), ("b", NEW, "0"), ("c", NEW, "5000000")]);
    assert_eq!(latencies(&dir, "."), expected);
    // A copied log counts as a separate log; its requests are paired with its own answers.
    fs::create_dir(dir.path().join("copy")).unwrap();
    write("copy/a.in.log", &[at(7, &report(2, "a"))]);
    write("copy/a.out.log", &[at(1, &order(2, "a"))]);
    let all = latencies(&dir, ".");
    assert_eq!(all.len(), 4, "{all:?}");
    assert_eq!(all[3], ["a", NEW, "6000000"].map(str::to_owned), "{all:?}");
    let run = logs(&dir, "--latency .");
    let lines: Vec<_> = run.out.lines().map(str::trim_start).collect();
    assert!(lines[1].starts_with("FIX.4.4:A->B  out  NewOrderSingle(D)         3"), "{run:#?}");
    assert!(lines[2].ends_with("copy/a") && lines[3].starts_with("all "), "{run:#?}");
    // Filter options select requests, never answers.
    assert_eq!(latencies(&dir, "--out --where ClOrdID=c ."), rows([("c", NEW, "5000000")]));
    let run = logs(&dir, "--latency --in .");
    assert_eq!((run.code, &*run.out), (1, ""), "{run:?}");
}

#[test]
fn percentiles_the_slowest_and_those_without_an_answer() {
    let dir = TempDir::new();
    let mut log = Vec::new();
    for n in 1..=1000 {
        let id = format!("N{n}");
        log.extend(at(0, &order(n, &id)));
        log.extend(at(n, &report(n, &id)));
        // The clock is set back before the next message.
    }
    log.extend(at(0, &order(1001, "lost")));
    fs::write(dir.path().join("a.log"), &log).unwrap();
    let run = logs(&dir, "--latency --limit 2 a.log");
    assert_eq!(run.code, 0, "{run:?}");
    let words: Vec<Vec<_>> =
        run.out.lines().map(|line| line.split_whitespace().collect()).collect();
    let expected = [
        "FIX.4.4:A->B",
        "NewOrderSingle(D)",
        "1000",
        "500000.000",
        "900000.000",
        "990000.000",
        "999000.000",
        "1000000.000",
        "1",
        "a",
    ];
    assert_eq!(words[1], expected, "{run:#?}");
    let slowest: Vec<_> = words[4..].iter().map(|line| (line[1], line[4])).collect();
    assert_eq!(slowest, [("1000000.000", "N1000"), ("999000.000", "N999")], "{run:#?}");
    assert!(run.err.contains("1000 requests answered, 1 without an answer"), "{run:?}");
    let all = latencies(&dir, "a.log");
    assert_eq!((all.len(), &*all[1000][0], &*all[1000][2]), (1001, "lost", ""));
    // Masked IDs are shown as stars, but two different IDs remain distinguishable.
    let run = logs(&dir, "--latency --limit 1 --mask 11 a.log");
    assert!(!run.out.contains("N1000") && run.out.contains("*****"), "{run:?}");
}

#[test]
fn what_cannot_be_measured_is_counted_and_said() {
    let dir = TempDir::new();
    let write = |log: Vec<u8>| fs::write(dir.path().join("a.log"), log).unwrap();
    let none = [order(2, "a"), report(2, "a")].join(&b"\n"[..]);
    for (log, expected) in [
        (none, "1 request not measured: the line of the log has no time"),
        ([at(9, &order(2, "a")), at(1, &report(2, "a"))].concat(), "the clock was set back"),
        (
            [at(1, &order(2, "a")), at(2, &order(3, "a")), at(0, &report(2, "z"))].concat(),
            "1 request not measured: PossDupFlag(43)=Y, or the ClOrdID(11) of a",
        ),
        // A log with sent messages only, like a store without `keep_inbound`.
        (
            [at(1, &order(2, "a")), at(2, &order(3, "b"))].concat(),
            "2 requests not measured: the log has no answers of this counterparty",
        ),
        (at(1, &message("0", 2, "")), "0 requests answered, 0 without an answer"),
    ] {
        write(log);
        let run = logs(&dir, "--latency a.log");
        assert_eq!(run.code, 1, "{expected}: {run:?}");
        assert!(run.err.contains(expected), "{expected}: {run:?}");
    }
    // A damaged answer still counts as an answer, and is reported.
    let mut damaged = report(2, "a");
    let place = damaged.len() - 20;
    damaged[place] ^= 1;
    write([at(1, &order(2, "a")), at(2, &damaged), b"8=FIX.4.4\x019=5".to_vec()].concat());
    let run = logs(&dir, "--latency a.log");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.err.contains("2 garbled:\n  a.log: line 2, byte"), "{run:?}");
    let run = logs(&dir, "--latency a.log none.log");
    assert_eq!((run.code, run.out.lines().count()), (2, 5), "{run:?}");
    for (args, expected) in [
        ("--csv latency_ns a.log", "'latency_ns' is a column of --latency"),
        ("--latency --csv latency_ns --limit 3 a.log", "--latency --csv writes all requests"),
        ("--latency --follow a.log", "cannot be used with"),
        ("--latency --json a.log", "cannot be used with"),
    ] {
        let run = logs(&dir, args);
        assert_eq!((run.code, &*run.out), (2, ""), "{args}: {run:?}");
        assert!(run.err.contains(expected), "{args}: {run:?}");
    }
}
