//! Tests the example `conformance` as a separate process, over TCP.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use transfix::clock;
use transfix::{Precision, Tag};
use transfix_codec::{CheckSumPolicy, FieldIndex, Frame, FrameWriter, Limits, Message, frame};

const PATIENCE: Duration = Duration::from_secs(20);

/// The running example program, which is killed when this value is dropped.
struct Program {
    child: Child,
    fix: String,
    control: String,
}

impl Program {
    fn start(variant: &str) -> Self {
        let mut child = Command::new(program())
            .args(["--port", "0", "--control", "0", "--variant", variant])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut after =
            |words: &str| lines.next().unwrap().unwrap().strip_prefix(words).unwrap().to_owned();
        let control = after("control at ");
        let fix = after("listening at ");
        Self { child, fix, control }
    }

    fn connect(&self, begin_string: &'static str, comp_id: &'static str) -> Wire {
        let stream = TcpStream::connect(&self.fix).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Wire {
            stream,
            begin_string,
            comp_id,
            unread: Vec::new(),
            sending_time: String::new(),
            damage: false,
        }
    }

    fn control(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.control).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {request} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the path where cargo builds the example, next to the folder of this test.
fn program() -> PathBuf {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples/conformance");
    // `cargo test --test all conformance` alone does not build the example.
    assert!(path.exists(), "cargo build -p transfix --example conformance first");
    path
}

/// The counterparty's end of a connection to the program.
struct Wire {
    stream: TcpStream,
    begin_string: &'static str,
    comp_id: &'static str,
    unread: Vec<u8>,
    /// SendingTime(52) of the last received message.
    sending_time: String,
    /// True if the next sent message gets a wrong CheckSum(10).
    damage: bool,
}

impl Wire {
    /// Sends the fields of `line`, written as `35=…|34=…|…`; adds the CompIDs and SendingTime(52).
    fn send(&mut self, line: &str) {
        let mut fields = line.split('|').map(|field| field.split_once('=').unwrap());
        let (_, msg_type) = fields.next().unwrap();
        let mut out = Vec::new();
        let begin_string = self.begin_string.as_bytes();
        let mut writer = FrameWriter::new(&mut out, begin_string, msg_type.as_bytes());
        writer.raw(format!("49={}\x0156=ISLD\x01", self.comp_id).as_bytes());
        writer.header_timestamp(Tag(52), clock::now().utc, Precision::Seconds);
        for (tag, value) in fields {
            writer.raw(format!("{tag}={value}\x01").as_bytes());
        }
        writer.finish().unwrap();
        if self.damage {
            let digit = out.len() - 2;
            out[digit] = if out[digit] == b'9' { b'0' } else { out[digit] + 1 };
        }
        self.stream.write_all(&out).unwrap();
    }

    /// Returns the next message without BodyLength(9), CompIDs, SendingTime(52) and CheckSum(10),
    /// or `None` at the end of the stream.
    fn next(&mut self) -> Option<String> {
        loop {
            if let Frame::Whole(end) = frame::split(&self.unread, Limits::default()) {
                let bytes: Vec<u8> = self.unread.drain(..end).collect();
                let mut index = FieldIndex::default();
                let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
                self.sending_time = message.text(Tag(52)).unwrap().to_owned();
                let shown = message.fields().filter(|f| ![8, 9, 10, 49, 52, 56].contains(&f.tag.0));
                let fields: Vec<_> =
                    shown.map(|f| format!("{}={}", f.tag, f.value.escape_ascii())).collect();
                return Some(fields.join("|"));
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer).unwrap() {
                0 => return None,
                n => self.unread.extend_from_slice(&buffer[..n]),
            }
        }
    }

    fn log_on(&mut self, more: &str) {
        self.send(&format!("35=A|34=1|98=0|108=30{more}"));
        assert_eq!(self.next().unwrap(), format!("35=A|34=1|98=0|108=30{more}"));
    }
}

#[test]
fn every_session_sends_orders_back_and_begins_at_1_again() {
    let program = Program::start("base");
    let order = "11=a|21=1|55=EUR/USD|54=1|38=002000.00|40=1";
    let (old, newer) = (order.to_owned(), format!("{order}|60=20261121-12:00:00"));
    let sessions = [
        ("FIX.4.0", "TW40", "", &old),
        ("FIX.4.1", "TW", "", &old),
        ("FIX.4.2", "TW42", "", &newer),
        ("FIX.4.3", "TW43", "", &newer),
        ("FIX.4.4", "TW44", "", &newer),
        ("FIXT.1.1", "TW50", "|1137=7", &newer),
        ("FIXT.1.1", "TW50SP1", "|1137=8", &newer),
        ("FIXT.1.1", "TW50SP2", "|1137=9", &newer),
        ("FIXT.1.1", "TW", "|1137=8", &newer),
    ];
    let mut kept = Vec::new();
    for (begin_string, comp_id, version, order) in sessions {
        for _ in 0..2 {
            let mut wire = program.connect(begin_string, comp_id);
            wire.log_on(version);
            wire.send(&format!("35=D|34=2|{order}"));
            assert_eq!(wire.next().unwrap(), format!("35=D|34=2|{order}"), "{comp_id}");
            wire.send(&format!("35=D|34=3|97=Y|{order}"));
            wire.send("35=1|34=4|112=x");
            assert_eq!(wire.next().unwrap(), "35=0|34=3|112=x", "seen before: no echo");
            wire.send("35=5|34=5");
            assert_eq!(wire.next().unwrap(), "35=5|34=4");
            assert_eq!(wire.next(), None);
        }
        // The connection stays open while the next sessions connect.
        let mut wire = program.connect(begin_string, comp_id);
        wire.log_on(version);
        kept.push(wire);
    }
    drop(program.connect("FIX.4.4", "TW44"));
    let mut second = program.connect("FIX.4.4", "TW44");
    second.send("35=A|34=1|98=0|108=30");
    assert_eq!(second.next(), None, "the first one stays");
    for mut wire in kept {
        wire.send("35=5|34=2");
        assert_eq!(wire.next().unwrap(), "35=5|34=2");
    }
}

#[test]
fn other_messages_are_refused_or_answered() {
    let program = Program::start("base");
    let mut wire = program.connect("FIX.4.4", "TW");
    wire.log_on("");
    wire.send("35=B|34=2|148=echo: hello|33=1|58=x");
    assert_eq!(wire.next().unwrap(), "35=B|34=2|148=hello");
    wire.send("35=B|34=3|148=no echo|33=1|58=x");
    wire.send("35=H|34=4|37=1|11=a|55=EU|54=1");
    let refused = "35=j|34=3|45=4|372=H|380=3|58=Unsupported message type";
    assert_eq!(wire.next().unwrap(), refused);
    let mut wire = program.connect("FIX.4.4", "NO_CHECK_FIELDS_HAVE_VALUES");
    wire.log_on("");
    wire.send("35=1|34=2|112=");
    assert_eq!(wire.next().unwrap(), "35=0|34=2|112=");
    let mut wire = program.connect("FIX.4.1", "TW41");
    wire.log_on("");
    wire.send("35=H|34=2|37=1|11=a|55=EU|54=1");
    assert_eq!(wire.next().unwrap(), "35=3|34=2|45=2|58=Unsupported message type");
}

#[test]
fn numbers_are_set_from_outside() {
    let program = Program::start("noreset");
    let query = "SESSION=FIX.4.4%3AISLD-%3ETW&NEXTSENDERSEQNUM=2000";
    let answer = program.control(&format!("/seqnum?{query}"));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let mut wire = program.connect("FIX.4.4", "TW");
    wire.send("35=A|34=1|98=0|108=30");
    assert_eq!(wire.next().unwrap(), "35=A|34=2000|98=0|108=30");
    for wrong in ["/", "/seqnum?SESSION=x", "/seqnum?SESSION=FIX.4.4:ISLD->TW&NEXTTARGETSEQNUM=0"] {
        let answer = program.control(wrong);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
}

/// A test case: the variant, BeginString(8), additional fields of the Logon(A), and pairs of sent
/// and expected messages.
type Case = (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str)]);

const LOGON: &str = "35=A|34=1|98=0|108=30";
const LONG_GAP: &str = "35=0|34=4000";

const CASES: &[Case] = &[
    ("base", "FIX.4.4", "", &[(LOGON, LOGON), (LONG_GAP, "35=2|34=2|7=2|16=0")]),
    ("resend-chunk", "FIX.4.4", "", &[(LOGON, LOGON), (LONG_GAP, "35=2|34=2|7=2|16=6")]),
    ("last-processed", "FIX.4.4", "", &[(LOGON, "35=A|34=1|369=1|98=0|108=30")]),
    ("next-expected", "FIX.4.4", "|789=1", &[(LOGON, "35=A|34=1|98=0|108=30|789=2")]),
    ("latest", "FIXT.1.1", "|1137=10", &[(LOGON, "35=A|34=1|98=0|108=30|1137=10")]),
    (
        "latest",
        "FIXT.1.1",
        "|1137=99",
        &[(LOGON, "35=5|34=1|58=Logon(A) refused: DefaultApplVerID(1137) is unknown")],
    ),
    (
        "sub-ids",
        "FIX.4.2",
        "",
        &[
            (
                LOGON,
                "35=A|50=SENDERSUB|142=SENDERLOC|57=TARGETSUB|143=TARGETLOC|34=1|369=1|98=0|\
                     108=30",
            ),
            (
                LONG_GAP,
                "35=2|50=SENDERSUB|142=SENDERLOC|57=TARGETSUB|143=TARGETLOC|34=2|369=1|7=2|\
                     16=2501",
            ),
        ],
    ),
    (
        "enhanced-resend",
        "FIX.4.4",
        "",
        &[(LOGON, "35=A|34=1|369=1|98=0|108=30"), (LONG_GAP, "35=2|34=2|369=1|7=2|16=11")],
    ),
    ("noreset", "FIX.4.4", "|141=Y", &[(LOGON, "35=A|34=1|98=0|108=30|141=Y")]),
];

#[test]
fn each_variant_differs_from_the_base_in_one_point() {
    for (variant, begin_string, more, exchange) in CASES {
        let program = Program::start(variant);
        let mut wire = program.connect(begin_string, "TW");
        for (n, (sent, answer)) in exchange.iter().enumerate() {
            let more = if n == 0 { more } else { "" };
            wire.send(&format!("{sent}{more}"));
            assert_eq!(wire.next().unwrap(), *answer, "{variant}");
        }
    }
}

#[test]
fn times_of_nanoseconds() {
    let program = Program::start("nanos");
    let mut wire = program.connect("FIX.4.4", "TW");
    wire.send("35=A|34=1|98=0|108=30");
    wire.next().unwrap();
    assert_eq!(wire.sending_time.len(), "20261121-12:00:00.123456789".len());
}

#[test]
fn garbled_messages_are_rejected_or_taken() {
    for (variant, answer) in [
        ("base", "35=2|34=2|7=2|16=0"),
        ("no-checksum", "35=0|34=2|112=x"),
        ("reject-garbled", "35=3|34=2|45=2|371=10|372=1|373="),
    ] {
        let program = Program::start(variant);
        let mut wire = program.connect("FIX.4.4", "TW");
        wire.log_on("");
        wire.damage = true;
        wire.send("35=1|34=2|112=x");
        wire.damage = false;
        wire.send("35=1|34=3|112=y");
        let next = wire.next().unwrap();
        assert!(next.starts_with(answer), "{variant}: {next}");
    }
}

/// A connection that has not logged on does not change the numbers that the control channel sets.
#[test]
fn numbers_set_while_a_connection_waits() {
    let program = Program::start("next-expected");
    let mut wire = program.connect("FIX.4.4", "TW");
    let query = "SESSION=FIX.4.4%3AISLD-%3ETW&NEXTSENDERSEQNUM=2000";
    assert!(program.control(&format!("/seqnum?{query}")).starts_with("HTTP/1.1 200 OK\r\n"));
    wire.send("35=A|34=1|98=0|108=30|789=1990");
    assert_eq!(wire.next().unwrap(), "35=A|34=2000|98=0|108=30|789=2");
    let fill = wire.next().unwrap();
    assert!(fill.starts_with("35=4|34=1990|43=Y|122=") && fill.ends_with("|123=Y|36=2001"));
}

#[test]
fn a_wrong_call_says_why() {
    for (args, why) in [
        (&["--port", "x"][..], "a port is 0 to 65535, not x"),
        (&[][..], "--port is missing"),
        (&["--port", "0", "--variant", "bas"][..], "unknown variant bas; known are base, "),
        (&["--prot", "0"][..], "unknown option --prot"),
    ] {
        let output = Command::new(program()).args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(said.starts_with(&format!("conformance: {why}")), "{said}");
    }
}

#[test]
fn it_ends_with_sigterm() {
    let mut program = Program::start("base");
    let mut wire = program.connect("FIX.4.4", "TW");
    wire.log_on("");
    let id = Pid::from_child(&program.child);
    kill_process(id, Signal::TERM).unwrap();
    assert_eq!(wire.next().unwrap(), "35=5|34=2");
    wire.send("35=5|34=2");
    assert!(program.child.wait().unwrap().success());
}
