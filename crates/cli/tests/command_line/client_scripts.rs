//! Scripts of `transfix connect`: expected messages, the end of the session, and exit codes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use transfix::clock;
use transfix_testkit::temp::TempDir;

use crate::command_line::client::{ORDER, script};
use crate::command_line::run_in;
use crate::command_line::running::{Program, scripted, venue, write_client};

/// The exit code of an invalid script. A valid script whose expectation fails has the exit code
/// `FAILED`.
const WRONG: i32 = 2;
const FAILED: i32 = 1;

/// A message that the counterparty sends: MsgType(35) and fields.
type Answer = (&'static str, &'static str);

fn logon() -> Vec<Answer> {
    vec![("A", "98=0|108=30|")]
}

/// Returns the answer to our Logout(5).
fn goodbye() -> Vec<Answer> {
    vec![("5", "")]
}

#[test]
fn a_script_ends_with_what_fails_first() {
    let dir = TempDir::new();
    let _venue = venue(&dir, "", &["--quiet"]);
    for (code, commands, said) in [
        (
            FAILED,
            "wait\nexpect QuoteRequest within 0.2\nlunch\n",
            "line 2: not within 0.2 s: QuoteRequest(R); Logon(A) came",
        ),
        (WRONG, "wait\n\nlunch\n", "line 3: unknown command 'lunch'"),
        (
            WRONG,
            "new NewOrderSingel\n",
            "line 1: FIX.4.4 has no message 'NewOrderSingel'; do you mean NewOrderSingle?",
        ),
        (WRONG, "new D\nset Side=1 Sid=1\n", "line 2: FIX.4.4 has no field 'Sid'; do you mean"),
        (WRONG, "new D\nsend\n", "line 2: a value is missing: Symbol(55): a String"),
        (
            WRONG,
            "set Side=1\n",
            "line 1: there is no message to change or send; begin a \
                                 message, such as `new NewOrderSingle`",
        ),
        (
            WRONG,
            "new D\nset Side={last.OrderID} Symbol=x OrdType=1\nsend\n",
            "line 3: the last message that expect found has no OrderID(37)",
        ),
        (WRONG, "expect 8 ClOrdID={sent.ClOrdID}\n", "the last sent message has no ClOrdID(11)"),
        (WRONG, "set\n", "line 1: set lacks FIELD=VALUE (usage: set FIELD=VALUE …)"),
        (WRONG, "load mine\n", "line 1: there is no saved message 'mine'; messages.txt is empty"),
        (
            WRONG,
            "run script.txt\n",
            "script.txt: more than 10 files run each other; remove a \
                                     `run` command",
        ),
        (WRONG, "run none.txt\n", "none.txt: No such file or directory"),
        (WRONG, "replay none.log\n", "none.log"),
        (WRONG, "burst 1 -5\n", "line 1: PER_SECOND: -5 is out of range"),
        (WRONG, "pause x\n", "line 1: SECONDS: x is not a number from 0 to 86400"),
        (WRONG, "logout\nwait\n", "line 2: logged out; `logon` first"),
    ] {
        let run = script(&dir, commands);
        assert_eq!(run.code, code, "{commands}: {run:#?}");
        assert!(run.err.contains(said), "{commands}: {run:#?}");
    }
    let run = run_in(dir.path(), &["connect", "client.toml", "--script", "none.txt"], b"");
    assert_eq!(run.code, WRONG, "{run:?}");
    fs::write(dir.path().join("messages.txt"), "mine\n").unwrap();
    let run = script(&dir, "wait\n");
    assert!(
        run.err.contains(
            "messages.txt, line 1: the line must have the form NAME TYPE \
                              TAG=VALUE|…"
        ),
        "{run:?}"
    );
}

#[test]
fn what_came_before_the_last_message_answers_nothing() {
    let accepted = vec![("8", "37=V1|11=1|17=E1|150=0|39=0|55=EU|54=1|151=5|14=0|6=0|")];
    let rejected =
        vec![("8", "37=V2|11=2|17=E2|150=8|39=8|55=EU|54=1|151=0|14=0|6=0|58=no money|")];
    let run = |commands: &str| {
        let dir = TempDir::new();
        let answers = vec![logon(), accepted.clone(), rejected.clone(), goodbye()];
        write_client(&dir, &scripted(answers), "");
        script(&dir, commands)
    };
    let orders = "wait\nbuy 5 EU 30\nexpect 8 ClOrdID={sent.ClOrdID} OrdStatus=NEW\n\
                  buy 5 EU 30\n";
    let ended = run(&format!("{orders}expect 8 OrdStatus=NEW within 1\n"));
    assert_eq!(ended.code, FAILED, "{ended:#?}");
    let said = "script.txt, line 5: not within 1 s: ExecutionReport(8) OrdStatus(39)=0; \
                ExecutionReport(8) OrdStatus(39)=8 Text(58)=no money came";
    assert!(ended.err.contains(said), "{ended:#?}");
    // The report for the first order arrived before the last order was sent, so `expect` does not
    // find it.
    let ended = run("wait\nbuy 5 EU 30\npause 1\nbuy 5 EU 30\nexpect 8 OrdStatus=NEW within 1\n");
    assert_eq!(ended.code, FAILED, "{ended:#?}");
    let said = "Text(58)=no money came; a matching message arrived before the last message was \
                sent, and does not";
    assert!(ended.err.contains(said), "{ended:#?}");
    // The reject refers to the order that was sent last.
    let ended = run(&format!("{orders}expect 8 11={{sent.11}}|39=8|58=no money\n"));
    assert_eq!((ended.code, &*ended.err), (0, ""), "{ended:#?}");
}

#[test]
fn a_condition_names_what_was_sent() {
    let dir = TempDir::new();
    let _venue = venue(&dir, "", &["--quiet"]);
    let sent = "expect 8 ClOrdID={sent.ClOrdID} Symbol={sent.Symbol} Side={sent.54} within 100\n";
    let run = script(
        &dir,
        &format!(
            "wait\nbuy 5 EU 30\n{sent}{ORDER}send\n{sent}\
             send D ClOrdID=o{{id}} Symbol=EU Side=BUY TransactTime={{now}} OrdType=LIMIT \
             OrderQty=2 Price=3\n{sent}\
             send D 11=bars|55=EU|54=1|60={{now}}|40=2|38=1|44=2|58=a b=c\n{sent}\
             new OrderCancelRequest\nset OrigClOrdID={{sent.ClOrdID}} Symbol=EU Side=BUY \
             OrderQty=5\nsend\nexpect 8 OrigClOrdID={{sent.OrigClOrdID}} ExecType=CANCELED\n\
             send D 11=x\nexpect 3 RefSeqNum={{sent.MsgSeqNum}} RefMsgType={{sent.MsgType}}\n"
        ),
    );
    assert_eq!((run.code, &*run.err), (0, ""), "{run:#?}");
}

#[test]
fn a_script_ends_at_once_when_its_session_does() {
    let long = "within 86400\n";
    let farewell = || vec![("5", "58=account is blocked|")];
    for (answers, commands, said) in [
        // The counterparty ends the session when it receives the first order.
        (
            vec![logon(), farewell()],
            format!("wait\nbuy 1 EU 2\nexpect 8 OrdStatus=NEW {long}"),
            "line 3: the connection ended (logged out; the counterparty says: account is \
             blocked) before the message arrived: ExecutionReport(8) OrdStatus(39)=0; Logout(5) \
             Text(58)=account is blocked came",
        ),
        // The counterparty refuses the logon.
        (
            vec![farewell()],
            "wait\nbuy 1 EU 2\n".to_owned(),
            "line 1: not logged on; the last connection ended: ",
        ),
        (vec![farewell()], format!("expect 8 {long}"), "line 1: the connection ended ("),
    ] {
        let dir = TempDir::new();
        write_client(&dir, &scripted(answers), "reconnect_interval_ms = 600000\n");
        let run = script(&dir, &commands);
        assert_eq!(run.code, FAILED, "{run:#?}");
        assert!(run.err.contains(said), "{run:#?}");
        assert!(run.err.contains("account is blocked"), "{run:#?}");
    }
    // A Logout(5) that the script expects is no error.
    let dir = TempDir::new();
    write_client(&dir, &scripted(vec![logon(), farewell()]), "reconnect_interval_ms = 600000\n");
    let run = script(&dir, &format!("wait\nbuy 1 EU 2\nexpect Logout {long}"));
    assert_eq!(run.code, 0, "{run:#?}");
}

#[test]
fn a_logon_may_come_after_the_end() {
    let dir = TempDir::new();
    let _venue = venue(&dir, "", &["--quiet"]);
    let again =
        "logout\nexpect Logout\nlogon\nexpect Logon within 20\nwait\nbuy 1 EU 2\nexpect 8\n";
    let run = script(&dir, &format!("wait\nexpect Logon\n{again}{again}"));
    assert_eq!((run.code, &*run.err), (0, ""), "{run:#?}");
    let run = script(&dir, "wait\nlogout\nexpect Logout\nbuy 1 EU 2\n");
    // The connection may still exist for a moment after the Logout(5), so two errors are possible.
    let says = |said| run.err.contains(&format!("line 4: {said}"));
    let is_off = says("not logged on") || says("the session is logging out");
    assert!(run.code == FAILED && is_off, "{run:#?}");
}

#[test]
fn a_signal_in_the_middle_of_a_script_is_no_good_end() {
    let dir = TempDir::new();
    let _venue = venue(&dir, "", &["--quiet"]);
    fs::write(dir.path().join("script.txt"), "wait\nexpect QuoteRequest within 86400\n").unwrap();
    let args = ["connect", "client.toml", "--quiet", "--script", "script.txt"];
    let mut client = Program::start(&dir, &args);
    client.wait_for("logged on");
    client.signal();
    let (code, errors) = client.ended();
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("a signal ended the script before its last command"), "{errors}");
}

/// If a counterparty accepts the logon but never reads, a signal ends the blocked send.
#[test]
fn a_send_to_a_counterparty_that_does_not_read_can_be_ended() {
    let dir = TempDir::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let keys = "queued_bytes_max = 100000\nslow_consumer_ms = 0\n";
    write_client(&dir, &listener.local_addr().unwrap().to_string(), keys);
    let mut client = Program::start(&dir, &["connect", "client.toml", "--quiet"]);
    let (mut stream, _) = listener.accept().unwrap();
    let read = stream.read(&mut [0; 4_096]).unwrap();
    assert!(read > 0);
    stream.write_all(&logon_frame()).unwrap();
    client.wait_for("logged on");
    writeln!(client.commands, "burst 1000000000").unwrap();
    let line = client.wait_for("waiting to send: ");
    assert!(line.contains("bytes wait, because the counterparty does not read"), "{line}");
    // Without a signal, the send would wait for its time limit.
    client.signal();
    let (code, errors) = client.ended();
    assert_eq!(code, Some(1), "{errors}");
}

fn logon_frame() -> Vec<u8> {
    let time = clock::now().utc;
    let mut out = Vec::new();
    let mut frame = transfix_codec::FrameWriter::new(&mut out, b"FIX.4.4", b"A");
    let fields = format!("34=1|49=VENUE|52={time}|56=CLIENT|98=0|108=30|");
    frame.raw(fields.replace('|', "\x01").as_bytes());
    frame.finish().unwrap();
    out
}

/// A failed script stops the following scripts only with --fail-fast; the exit code is the worst of
/// all scripts.
#[test]
fn several_scripts_are_played_and_told_of() {
    let dir = TempDir::new();
    let _venue = venue(&dir, "", &["--quiet"]);
    let holds = "wait\nbuy 5 EU 30.5\nexpect 8 ClOrdID={sent.ClOrdID} ExecType=NEW\n";
    let fails = "wait\nbuy 5 EU 30.5\nexpect 8 ExecType=REJECTED within 0.2\n";
    for (name, text) in [("holds", holds), ("fails", fails), ("wrong", "wait\nlunch\n")] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let play = |args: &[&str]| run_in(dir.path(), &[&["play", "client.toml"], args].concat(), b"");
    let run = play(&["holds", "holds"]);
    assert_eq!((run.code, &*run.out), (0, "ok      holds\nok      holds\n2 of 2 scripts hold\n"));
    let run = play(&["fails", "holds"]);
    assert_eq!(run.code, FAILED, "{run:?}");
    let failed = "FAILED  fails\n        transfix connect: fails, line 3: not within 0.2 s: ";
    assert!(run.out.starts_with(failed), "{run:?}");
    assert!(run.out.ends_with("\nok      holds\n1 of 2 scripts hold\n"), "{run:?}");
    let run = play(&["fails", "wrong", "holds"]);
    assert_eq!(run.code, WRONG, "{run:?}");
    let run = play(&["--fail-fast", "fails", "holds"]);
    assert_eq!(run.code, FAILED);
    assert!(!run.out.contains("ok  ") && run.out.ends_with("\n0 of 2 scripts hold\n"), "{run:?}");
    let run = play(&["holds", "none"]);
    assert!(run.code == 2 && run.err.contains("none: No such file"), "{run:?}");
}
