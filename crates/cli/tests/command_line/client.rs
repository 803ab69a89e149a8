//! `transfix connect` as a test client: messages are built by name, saved, sent repeatedly and
//! replayed.

use std::collections::HashSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use transfix_testkit::temp::TempDir;

use crate::command_line::running::{Program, venue, write_client};
use crate::command_line::{Run, run_in};

pub(crate) fn script(dir: &TempDir, commands: &str) -> Run {
    fs::write(dir.path().join("script.txt"), commands).unwrap();
    run_in(dir.path(), &["connect", "client.toml", "--quiet", "--script", "script.txt"], b"")
}

/// Commands that build an order by field names; values of missing fields are generated at sending.
pub(crate) const ORDER: &str = "new NewOrderSingle\n\
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
            "expect 8 ClOrdID=* OrdStatus=NEW within 100\n".repeat(3)
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
        ("new D\nset Text=\"a|b\"\nsave bar\n", "the value of tag 58 has a bar"),
    ] {
        let run = script(&dir, commands);
        assert!(run.code == 2 && run.err.contains(said), "{run:?}");
    }
    assert_eq!(script(&dir, "wait\nload pw\n").code, 0);
}

#[test]
fn a_log_is_sent_anew() {
    let dir = TempDir::new();
    let venue = venue(&dir, "", &[]);
    let run = script(&dir, &format!("wait\n{ORDER}send\nexpect 8\nsend\nexpect 8\n"));
    assert_eq!(run.code, 0, "{run:#?}");
    // The replay reads the client's own store, which grows by the replayed messages.
    let store = dir.path().join("client/FIX.4.4-CLIENT-VENUE");
    let run = script(&dir, &format!("wait\nreplay {} 500\nexpect 8\nexpect 8\n", store.display()));
    assert_eq!(run.code, 0, "{run:#?}");
    assert!(run.out.contains("\nmessages: 2 sent, "), "{}", run.out);
    let log = "8=FIX.4.4|9=1|35=D|34=77|43=Y|49=CLIENT|56=OTHER|52=20260101-00:00:00|11=old|55=EU|\
               54=1|60=20260101-00:00:00|38=5|40=2|44=31|10=000|\n\
               8=FIX.4.4|9=1|35=8|34=5|49=OTHER|56=CLIENT|52=20260101-00:00:00|37=x|10=000|\n";
    fs::write(dir.path().join("old.log"), log).unwrap();
    let run = script(&dir, "wait\nreplay old.log\nexpect 8 ClOrdID=old|Price=31\n");
    assert_eq!(run.code, 0, "{run:#?}");
    assert!(run.out.contains("messages: 1 sent, 1 skipped (session layer or other side)"));
    // The replayed message has a new header, with another MsgSeqNum(34).
    let line = venue.wait_for("ClOrdID=old");
    assert!(line.contains("CLIENT->VENUE") && !line.contains("seq 77"), "{line}");
}

#[test]
fn what_was_written_into_the_file_of_messages_by_hand_stays() {
    let dir = TempDir::new();
    let _venue = venue(&dir, "", &["--quiet"]);
    let file = dir.path().join("messages.txt");
    let own =
        "# Ours.\n\nnews B Headline=by hand\n  # In between.\nmine D 55=EU|54=1\nold D 55=X\n";
    fs::write(&file, own).unwrap();
    let commands = "load mine\nset Symbol=US\nsave mine\nsave more\nforget old\n";
    let run = script(&dir, &format!("wait\n{commands}"));
    assert_eq!(run.code, 0, "{run:#?}");
    let expected = "# Ours.\n\nnews B Headline=by hand\n  # In between.\nmine D 55=US|54=1\n\
                    more D 55=US|54=1\n";
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
    // An edit of the file while the client runs is kept when the client saves a message.
    let mut client = Program::start(&dir, &["connect", "client.toml", "--quiet"]);
    client.wait_for("logged on");
    fs::write(&file, "# Edited.\nother D 55=EU\n").unwrap();
    writeln!(client.commands, "load mine\nsave mine\nsaved").unwrap();
    client.wait_for("other D 55=EU");
    let edited = "# Edited.\nother D 55=EU\nmine D 55=US|54=1\n";
    assert_eq!(fs::read_to_string(&file).unwrap(), edited);
    for (wrong, said) in [
        (
            "half\n",
            "nothing is changed: messages.txt, line 1: the line must have the form NAME \
                    TYPE TAG=VALUE|…",
        ),
        (
            "a D 55=1\na D 55=2\n",
            "messages.txt, line 2: 'a' appears twice: line 1 has the same \
                                  name; rename one of them",
        ),
    ] {
        fs::write(&file, wrong).unwrap();
        writeln!(client.commands, "save mine").unwrap();
        client.wait_for(said);
        assert_eq!(fs::read_to_string(&file).unwrap(), wrong);
    }
    writeln!(client.commands, "quit").unwrap();
    assert_eq!(client.ended().0, Some(0));
    let run = script(&dir, "wait\n");
    assert!(
        run.code == 1
            && run.err.contains(
                "'a' appears twice: line 1 has the same name; \
        rename one of them"
            ),
        "{run:?}"
    );
}

#[test]
fn names_are_new_in_each_run() {
    let dir = TempDir::new();
    let venue = venue(&dir, "", &[]);
    let mut names = HashSet::new();
    for _ in 0..3 {
        let commands = format!("wait\n{ORDER}set ClOrdID=c{{id}}\nsave mine\nburst 3 0 mine\n");
        let run = script(&dir, &(commands + "expect 8 ClOrdID={sent.ClOrdID}\nforget mine\n"));
        assert_eq!(run.code, 0, "{run:#?}");
        for _ in 0..3 {
            let line = venue.wait_for("<- NewOrderSingle(D)");
            let name = line.split("ClOrdID=").nth(1).unwrap().split(' ').next().unwrap();
            assert!(name.starts_with('c') && name.len() <= 12, "{name}");
            assert!(names.insert(name.to_owned()), "{name} twice");
        }
    }
    // ClOrdID(11)s that are no numbers do not affect the numbers that `buy` assigns.
    let run = script(&dir, "wait\nbuy 1 EU 2\nexpect 8 ClOrdID=1\nexpect 8 within 0\n");
    assert!(run.code == 1 && run.err.contains("line 4"), "{run:#?}");
}

#[test]
fn each_command_says_how_it_is_used() {
    let dir = TempDir::new();
    write_client(&dir, "127.0.0.1:1", "");
    let commands = [
        ("help", "{sent.FIELD}"),
        ("help expect", "example: expect ExecutionReport ClOrdID={sent.ClOrdID}"),
        ("help nonsense", "'nonsense'; `help` lists the commands"),
        ("snd", "unknown command 'snd'; do you mean `send`? `help` lists the commands"),
        ("buy 1 EU", "buy lacks PRICE (usage: buy QUANTITY SYMBOL PRICE)"),
        ("buy 1 EU x", "PRICE: x is not a number (usage: buy QUANTITY SYMBOL PRICE)"),
        ("cancel x", "NUMBER: x is not the number of an order (usage: cancel NUMBER)"),
        ("new", "new lacks MESSAGE (usage: new MESSAGE)"),
        ("set Side", "write FIELD=VALUE, not Side (usage: set FIELD=VALUE …)"),
        ("send D", "NewOrderSingle(D) needs fields here"),
        ("send D Side", "write FIELD=VALUE, not Side (usage: send [NAME | MESSAGE FIELD=VALUE …])"),
        ("burst 3 x", "PER_SECOND: x is not a number (usage: burst N [PER_SECOND] [NAME])"),
        ("burst x", "N: x is not a whole number of messages (usage: burst N [PER_SECOND] [NAME])"),
        ("burst 3 0 x", "there is no saved message 'x'"),
        (
            "burst 1 2 x y",
            "burst does not accept the words 'y' (usage: burst N [PER_SECOND] \
                           [NAME])",
        ),
        ("replay", "replay lacks FILE (usage: replay FILE [PER_SECOND])"),
        ("expect", "expect lacks MESSAGE (usage: expect MESSAGE [FIELD=VALUE …] [within"),
        ("expect 8 within x", "SECONDS: x is not a number from 0 to 86400 (usage: expect MESSAGE"),
        ("expect 8 11={id}", "{id} is a new number, which no received message has"),
        ("pause", "pause lacks SECONDS (usage: pause SECONDS)"),
        ("wait now", "wait does not accept the words 'now' (usage: wait)"),
        ("quit now", "quit does not accept the words 'now' (usage: quit)"),
        ("run", "run lacks FILE (usage: run FILE)"),
    ];
    let mut input: String = commands.iter().map(|(command, _)| format!("{command}\n")).collect();
    input += "quit\n";
    let run = run_in(dir.path(), &["connect", "client.toml", "--quiet"], input.as_bytes());
    let mut rest = &*run.out;
    for (command, said) in commands {
        let at = rest.find(said).unwrap_or_else(|| panic!("{command}: no '{said}' in {rest}"));
        rest = &rest[at + said.len()..];
    }
}

/// A dictionary with a message, a field with codes, and a data field that no standard version has.
const OVERLAY: &str = "<fix base='FIX44' name='V'>
  <fields>
    <field number='9001' name='DeskNote' type='STRING'/>
    <field number='9002' name='DeskMood' type='CHAR'>
      <value enum='c' description='CALM'/>
    </field>
    <field number='9003' name='DeskDataLen' type='LENGTH'/>
    <field number='9004' name='DeskData' type='DATA'/>
  </fields>
  <messages>
    <message name='NewOrderSingle'><field name='DeskNote'/><field name='DeskMood'/></message>
    <message name='DeskHail' msgtype='UH' msgcat='app'>
      <field name='DeskNote'/><field name='DeskDataLen'/><field name='DeskData'/>
    </message>
  </messages>
</fix>";

#[test]
fn both_sides_show_names_of_the_sessions_own_dictionary() {
    let dir = TempDir::new();
    fs::write(dir.path().join("v.xml"), OVERLAY).unwrap();
    let own = "dictionary = { base = 'FIX44', overlays = ['v.xml'] }\n";
    let venue = venue(&dir, own, &[]);
    let settings = fs::read_to_string(dir.path().join("client.toml")).unwrap();
    fs::write(dir.path().join("client.toml"), settings + own).unwrap();
    let commands = format!(
        "wait\n{ORDER}set DeskNote=hello DeskMood=CALM\nshow\nsend\nexpect ExecutionReport\n\
         send DeskHail DeskNote=hail|DeskDataLen=3|DeskData=x y\nexpect BusinessMessageReject\n"
    );
    fs::write(dir.path().join("script.txt"), commands).unwrap();
    let run = run_in(dir.path(), &["connect", "client.toml", "--script", "script.txt"], b"");
    assert_eq!((run.code, &*run.err), (0, ""), "{run:#?}");
    assert!(!run.out.contains("\n! "), "nothing is wrong: {}", run.out);
    let hail = "DeskHail(UH) seq 3 CLIENT->VENUE  DeskNote=hail DeskDataLen=3 DeskData=x y";
    let named = "DeskNote=hello DeskMood=CALM";
    assert!(run.out.contains(named) && run.out.contains(hail), "{}", run.out);
    let line = venue.wait_for("NewOrderSingle(D) seq 2");
    assert!(line.contains(named), "{line}");
    venue.wait_for(hail);
}
