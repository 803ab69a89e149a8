//! `transfix connect` as a test client: messages made by name, kept, sent often, replayed, and
//! scripts that expect something.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use transfix_testkit::temp::TempDir;

use crate::command_line::running::venue;
use crate::command_line::{Run, run_in};

fn script(dir: &TempDir, commands: &str) -> Run {
    fs::write(dir.path().join("script.txt"), commands).unwrap();
    run_in(dir.path(), &["connect", "client.toml", "--quiet", "--script", "script.txt"], b"")
}

/// An order by names, of which the values are made when it is sent.
const ORDER: &str = "new NewOrderSingle\n\
    set Symbol=EU Side=BUY OrderQty=5 OrdType=LIMIT Price=30.5 Text=\"two words\"\n";

#[test]
fn a_script_trades_and_ends_well() {
    let dir = TempDir::new();
    let _venue = venue(&dir, "", &["--quiet"]);
    let run = script(
        &dir,
        &format!(
            "# The morning.\nwait\n{ORDER}show\nsave mine\nsend\n\
             expect ExecutionReport ExecType=NEW|Side=BUY|Price=30.5\n\
             new OrderCancelRequest\n\
             set OrigClOrdID={{last.ClOrdID}} Symbol=EU Side=BUY OrderQty=5\nshow\nsend\n\
             expect ExecutionReport ExecType=CANCELED|OrigClOrdID={{last.ClOrdID}}\n\
             burst 3 0 mine\n{}",
            "expect 8 ClOrdID=*|OrdStatus=NEW within 15\n".repeat(3)
        ),
    );
    assert_eq!((run.code, &*run.err), (0, ""), "{run:#?}");
    assert!(run.out.contains("\n  Side(54)=1   BUY\n"), "{}", run.out);
    assert!(!run.out.contains("\n! "), "nothing is wrong: {}", run.out);
    let kept = fs::read_to_string(dir.path().join("messages.txt")).unwrap();
    let line = "mine D 11={id}|55=EU|54=1|60={now}|40=2|38=5|44=30.5|58=two words\n";
    assert!(kept.ends_with(line), "{kept}");
}

#[test]
fn a_script_ends_with_what_fails_first() {
    let dir = TempDir::new();
    let _venue = venue(&dir, "", &["--quiet"]);
    for (commands, said) in [
        (
            "wait\nexpect QuoteRequest within 0.2\nlunch\n",
            "line 2: not within 0.2 s: QuoteRequest(R); Logon(A) came",
        ),
        ("wait\n\nlunch\n", "line 3: not understood"),
        (
            "new NewOrderSingel\n",
            "line 1: FIX.4.4 has no message 'NewOrderSingel'; do you mean NewOrderSingle?",
        ),
        ("new D\nset Side=1 Sid=1\n", "line 2: FIX.4.4 has no field 'Sid'; do you mean Side?"),
        ("new D\nsend\n", "line 2: a value is missing: Symbol(55): a String"),
        ("set Side=1\n", "line 1: there is no message; `new NewOrderSingle` begins one"),
        (
            "new D\nset Side={last.OrderID} Symbol=x OrdType=1\nsend\n",
            "line 3: what expect has found last has no OrderID(37)",
        ),
        ("set\n", "line 1: usage: set FIELD=VALUE …"),
        ("load mine\n", "line 1: no message 'mine' was saved; messages.txt is empty"),
        ("run script.txt\n", "script.txt: 10 files run each other"),
        ("run none.txt\n", "none.txt: No such file or directory"),
        ("replay none.log\n", "none.log"),
        ("burst 1 -5\n", "line 1: -5 a second is not possible"),
        ("pause x\n", "line 1: x is no number of seconds"),
    ] {
        let run = script(&dir, commands);
        assert_eq!(run.code, 1, "{commands}: {run:#?}");
        assert!(run.err.contains(said), "{commands}: {run:#?}");
    }
    let run = run_in(dir.path(), &["connect", "client.toml", "--script", "none.txt"], b"");
    assert_eq!(run.code, 1, "{run:?}");
    fs::write(dir.path().join("messages.txt"), "mine\n").unwrap();
    let run = script(&dir, "wait\n");
    assert!(run.err.contains("messages.txt, line 1: not NAME TYPE TAG=VALUE|…"), "{run:?}");
}

#[test]
fn what_is_wrong_with_a_message_is_shown() {
    let dir = TempDir::new();
    let _venue = venue(&dir, "", &["--quiet"]);
    let commands = "new D\nset Symbol=EU Side=Z OrdType=MARKET OrderQty=5x\nshow\n\
                    unset 54\nadd NoPartyIDs=2 PartyID=A\nshow\n";
    let run = script(&dir, commands);
    assert!(run.out.contains("\n! Side(54)=Z: Value is incorrect"), "{}", run.out);
    assert!(run.out.contains("\n! OrderQty(38)=5x: Incorrect data format"), "{}", run.out);
    assert!(run.out.contains("\n! Side(54): Required tag missing"), "{}", run.out);
    assert!(run.out.contains("NoPartyIDs(453)"), "{}", run.out);
}

#[test]
fn secrets_are_stars_and_what_is_saved_can_be_read_again() {
    let dir = TempDir::new();
    let _venue = venue(&dir, "", &["--quiet"]);
    let logon = "new Logon\nset EncryptMethod=0 HeartBtInt=30 Password=secret\nsave pw\n";
    let run = script(&dir, &format!("{logon}show\nsaved\nload pw\nexpect A 554=secret within 0\n"));
    assert!(!format!("{run:?}").contains("secret"), "{run:?}");
    assert_eq!(run.out.matches("554)=******").count(), 2, "{run:?}");
    assert!(run.out.contains("|554=******"), "{run:?}");
    let file = dir.path().join("messages.txt");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&file).unwrap().contains("554=secret"));
    for (commands, said) in [
        ("new D\nsave #mine\n", "#mine would be a comment"),
        ("new D\nset Text=\"a|b\"\nsave bar\n", "the value of (58) has a bar"),
    ] {
        let run = script(&dir, commands);
        assert!(run.code == 1 && run.err.contains(said), "{run:?}");
    }
    assert_eq!(script(&dir, "wait\nload pw\n").code, 0);
}

#[test]
fn a_log_is_sent_anew() {
    let dir = TempDir::new();
    let venue = venue(&dir, "", &[]);
    let run = script(&dir, &format!("wait\n{ORDER}send\nexpect 8\nsend\nexpect 8\n"));
    assert_eq!(run.code, 0, "{run:#?}");
    // Its own store grows while it is read.
    let store = dir.path().join("client/FIX.4.4-CLIENT-VENUE");
    let run = script(&dir, &format!("wait\nreplay {} 500\nexpect 8\nexpect 8\n", store.display()));
    assert_eq!(run.code, 0, "{run:#?}");
    assert!(run.out.contains("\n2 sent, "), "{}", run.out);
    let log = "8=FIX.4.4|9=1|35=D|34=77|43=Y|49=CLIENT|56=OTHER|52=20260101-00:00:00|11=old|55=EU|\
               54=1|60=20260101-00:00:00|38=5|40=2|44=31|10=000|\n\
               8=FIX.4.4|9=1|35=8|34=5|49=OTHER|56=CLIENT|52=20260101-00:00:00|37=x|10=000|\n";
    fs::write(dir.path().join("old.log"), log).unwrap();
    let run = script(&dir, "wait\nreplay old.log\nexpect 8 ClOrdID=old|Price=31\n");
    assert_eq!(run.code, 0, "{run:#?}");
    assert!(run.out.contains("1 sent, 1 of the session layer or the other side left out"));
    // With a header of its own.
    let line = venue.wait_for("ClOrdID=old");
    assert!(line.contains("CLIENT->VENUE") && !line.contains("seq 77"), "{line}");
}
