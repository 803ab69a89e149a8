//! `transfix run` under faults: kills, silent programs, and targets that reject or are down. A
//! fault of one target affects no other target. No message is lost, and none is duplicated without
//! PossResend(97).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write as _;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::command_line::gateway::{DESK, Port, Street, VENUE, session};
use crate::command_line::run_in;
use crate::command_line::running::Program;

/// Returns the ClOrdID(11) of each order in the journal `store` that meets the condition; an empty
/// condition selects all.
pub(super) fn orders(street: &Street, store: &str, condition: &str) -> Vec<String> {
    let mut args = vec!["print", "--one-line", "--type", "D", store];
    args.extend(["--where", condition].into_iter().filter(|_| !condition.is_empty()));
    let run = run_in(street.dir.path(), &args, b"");
    let id = |line: &str| Some(line.split_once("ClOrdID=")?.1.split(' ').next()?.to_owned());
    run.out.lines().filter_map(id).collect()
}

/// Returns the ClOrdID(11)s at the venue, each with the number of arrivals without PossResend(97).
/// Checks that this number is at most one.
pub(super) fn at_the_venue(street: &Street) -> BTreeMap<String, u32> {
    let mut unmarked: BTreeMap<_, u32> = BTreeMap::new();
    for id in orders(street, AT_THE_VENUE, "") {
        *unmarked.entry(id).or_default() += 1;
    }
    for id in orders(street, AT_THE_VENUE, "97=Y") {
        *unmarked.entry(id).or_default() -= 1;
    }
    let silent: Vec<_> = unmarked.iter().filter(|(_, count)| **count > 1).collect();
    assert!(silent.is_empty(), "there twice, and the second does not say so: {silent:?}");
    unmarked
}

/// Returns an order as a line of a file that the gateway sends.
fn order(id: &str) -> String {
    let fields = json!([
        [11, id],
        [55, "EU"],
        [54, "1"],
        [60, "20260101-00:00:00"],
        [38, "5"],
        [40, "2"],
        [44, "30.5"]
    ]);
    json!({ "ref": id, "session": VENUE, "msg_type": "D", "fields": fields }).to_string()
}

const AT_THE_DESK: &str = "DESK-GATE/FIX.4.4-DESK-GATE";
pub(super) const AT_THE_VENUE: &str = "VENUE-GATE/FIX.4.4-VENUE-GATE";

/// Returns the ClOrdID(11)s of the refused orders; a BusinessMessageReject(j) identifies its order
/// by MsgSeqNum(34).
pub(super) fn refused(street: &Street) -> BTreeSet<String> {
    let print = |kind| {
        let args = ["print", "--one-line", "--type", kind, AT_THE_DESK];
        run_in(street.dir.path(), &args, b"").out
    };
    let field = |line: &str, name: &str| {
        Some(line.split_once(name)?.1.split([' ', '|']).next()?.to_owned())
    };
    let sent = print("D");
    let by_seq: BTreeMap<_, _> = sent
        .lines()
        .filter_map(|line| Some((field(line, " seq ")?, field(line, "ClOrdID=")?)))
        .collect();
    let refused = print("j");
    let seqs = refused.lines().filter_map(|line| field(line, "RefSeqNum="));
    seqs.filter_map(|seq| by_seq.get(&seq).cloned()).collect()
}

/// Checks that each sent order either arrived at the venue or was refused, but not both. A repeated
/// order must have PossResend(97). Returns the number of sent orders.
pub(super) fn nothing_is_lost(street: &Street) -> usize {
    let sent = orders(street, AT_THE_DESK, "");
    let arrived: BTreeSet<_> = at_the_venue(street).into_keys().collect();
    let refused = refused(street);
    let lost: Vec<_> =
        sent.iter().filter(|id| !arrived.contains(*id) && !refused.contains(*id)).collect();
    assert!(lost.is_empty(), "lost: {lost:?} of {}, {} refused", sent.len(), refused.len());
    let both: Vec<_> = arrived.intersection(&refused).collect();
    assert!(both.is_empty(), "refused, and at the venue: {both:?}");
    sent.len()
}

/// The test runs for each way of passing messages to the venue's session: direct, queued, and
/// stored without a logon.
#[test]
fn kills_under_load_lose_no_order_and_double_none_unmarked() {
    for (desk, to_venue) in [("", ""), ("", "send = 'queued'\n"), ("", "offline = 'store'\n")] {
        let street = Street::with(desk, to_venue);
        for round in 0..3 {
            let gate = street.gate();
            let mut client = Program::start(&street.dir, &["connect", "client.toml", "--quiet"]);
            client.wait_for("logged on");
            writeln!(client.commands, "burst 400 2000").unwrap();
            (0..60 + 50 * round).for_each(|_| drop(street.venue.wait_for("<- NewOrderSingle(D)")));
            gate.send(Signal::KILL);
            drop(gate);
            // The client must log out and restart, because the restarted gateway has another port.
            writeln!(client.commands, "quit").unwrap();
            let _ = client.ended();
        }
        let _gate = street.gate();
        street.trades("wait\nbuy 1 LAST 7\nexpect 8 Symbol=LAST within 100\n");
        assert!(nothing_is_lost(&street) > 200);
    }
}

/// The venue stops under load, then the gateway is killed. Messages that the gateway accepted are
/// in the store; all others are refused.
#[test]
fn a_target_that_goes_away_before_a_kill_loses_nothing() {
    for (to_venue, refuses) in [("send = 'queued'\n", true), ("offline = 'store'\n", false)] {
        let mut street = Street::with("", to_venue);
        let gate = street.gate();
        let mut client = Program::start(&street.dir, &["connect", "client.toml"]);
        client.wait_for("logged on");
        writeln!(client.commands, "burst 600 3000").unwrap();
        (0..60).for_each(|_| drop(street.venue.wait_for("<- NewOrderSingle(D)")));
        street.venue.send(Signal::KILL);
        gate.wait_for(&format!("{VENUE} ended"));
        if refuses {
            client.wait_for("BusinessMessageReject(j)");
        }
        writeln!(client.commands, "buy 5 BEFORE 30.5").unwrap();
        gate.send(Signal::KILL);
        drop(gate);
        writeln!(client.commands, "quit").unwrap();
        let _ = client.ended();
        street.venue_again();
        let _gate = street.gate();
        street.trades("wait\nbuy 1 LAST 7\nexpect 8 Symbol=LAST within 100\n");
        assert!(nothing_is_lost(&street) > 60);
    }
}

/// A silent program has open messages of two sessions, which block all their threads. The desk's
/// session still trades.
#[test]
fn a_program_that_says_nothing_holds_up_its_own_sessions_alone() {
    let street = Street::new();
    let gate_toml = street.dir.path().join("gate.toml");
    let others = fs::read_to_string(&gate_toml).unwrap()
        + &session("acceptor", "GATE", "ONE", "127.0.0.1:0")
        + &session("acceptor", "GATE", "TWO", "127.0.0.1:0");
    fs::write(gate_toml, others).unwrap();
    street.routes(&format!(
        "[[route]]\nfrom = ['FIX.4.4:GATE->ONE', 'FIX.4.4:GATE->TWO']\nto = ['socket:desk']\n\
         [[route]]\nfrom = ['{DESK}']\nto = ['{VENUE}']\n\
         [[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n\
         [[socket]]\nname = 'desk'\npath = 'desk.sock'\nanswer_ms = 60000\n"
    ));
    let mut gate = street.gate();
    let mut port = Port::new(&street);
    assert!(port.hears("hello").is_object());
    let client = fs::read_to_string(street.dir.path().join("client.toml")).unwrap();
    let mut others = Vec::new();
    for name in ["ONE", "TWO"] {
        let file = format!("{name}.toml");
        let own = client.replace("DESK", name);
        fs::write(street.dir.path().join(&file), own).unwrap();
        let mut other = Program::start(&street.dir, &["connect", &file]);
        other.wait_for("logged on");
        writeln!(other.commands, "buy 5 EU 30.5").unwrap();
        others.push((other, port.hears("message")["id"].clone()));
    }
    street.trades("wait\nbuy 5 EU 30.5\nexpect 8 ExecType=NEW\n");
    // The program answers late, but the answer is still valid.
    port.say(&json!({ "refuse": { "id": others[0].1, "text": "too late" } }));
    others[0].0.wait_for("too late");
    port.say(&json!({ "take": others[1].1 }));
    for (mut other, _) in others {
        writeln!(other.commands, "quit").unwrap();
        other.ended();
    }
    gate.signal();
    assert_eq!(gate.ended().0, Some(0));
}

/// A program writes but does not read. The gateway waits at most `answer_ms` for the program to
/// read, and other sessions trade meanwhile.
#[test]
fn a_program_that_does_not_read_is_cut_off() {
    let street = Street::new();
    street.routes(&format!(
        "[[route]]\nfrom = ['{DESK}']\nto = ['{VENUE}']\n\
         [[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n\
         [[socket]]\nname = 'desk'\npath = 'desk.sock'\nanswer_ms = 300\n"
    ));
    let mut gate = street.gate();
    let mut port = Port::new(&street);
    let wrong = json!({ "send": {
        "ref": "x".repeat(10_000), "session": "NONE", "msg_type": "8", "fields": [],
    } });
    let line = format!("{wrong}\n");
    let written =
        (0..10_000).take_while(|_| port.stream.write_all(line.as_bytes()).is_ok()).count();
    assert!(written < 10_000);
    gate.wait_for_error("does not read");
    street.trades("wait\nbuy 5 EU 30.5\nexpect 8 ExecType=NEW\n");
    let mut next = Port::new(&street);
    assert!(next.hears("hello").is_object());
}

/// A reject by the target is forwarded with the MsgSeqNum(34) that the desk used.
#[test]
fn who_sent_it_hears_that_the_target_rejects_it() {
    let street = Street::with("validate = false\n", "");
    street.routes(&format!(
        "[[route]]\nfrom = ['{DESK}']\nmsg_type = ['D', 'B']\nto = ['{VENUE}']\n\
         [[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n"
    ));
    let _gate = street.gate();
    // The gateway refuses this message, so that the sequence numbers of desk and venue differ
    // afterwards.
    let order = "ClOrdID=1|Symbol=EU|TransactTime={now}|OrderQty=5|OrdType=LIMIT|Price=3";
    street.trades(&format!(
        "wait\nsend U1 Text=nobody\nexpect j BusinessRejectReason=3|RefSeqNum=2\n\
         send B Headline=unsupported|NoLinesOfText=1|Text=x\nexpect j RefSeqNum=3|RefMsgType=B\n\
         send D {order}|Side=Z\n\
         expect j RefSeqNum=4|RefMsgType=D|BusinessRejectReason=0\n"
    ));
    let args = ["print", "--one-line", "--type", "j", AT_THE_DESK];
    let rejects = run_in(street.dir.path(), &args, b"").out;
    assert!(rejects.contains("rejected by VENUE: "), "{rejects}");
}

/// A program gets the reject of its message with its own reference, after the line that confirms
/// the sending.
#[test]
fn a_program_hears_that_the_target_rejects_what_it_sent() {
    let street = Street::new();
    street.routes(&format!(
        "[[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n\
         [[socket]]\nname = 'desk'\npath = 'desk.sock'\n"
    ));
    let _gate = street.gate();
    let mut port = Port::new(&street);
    let fields = json!([[11, "p1"], [55, "EU"], [54, "Z"], [60, "20260101-00:00:00"], [40, "2"]]);
    let count = 200;
    for n in 0..count {
        let order = json!({ "ref": n, "session": VENUE, "msg_type": "D", "fields": fields });
        port.say(&json!({ "send": order }));
    }
    let (mut sent, mut rejected) = (Vec::new(), Vec::new());
    while rejected.len() < count {
        let line = port.next();
        if let Some(line) = line.get("sent") {
            assert_eq!(line["ref"], sent.len());
            sent.push(line["seq"].clone());
        } else if let Some(line) = line.get("rejected") {
            let of = rejected.len();
            assert_eq!((&line["ref"], line["session"].as_str()), (&json!(of), Some(VENUE)));
            assert_eq!(Some(&line["seq"]), sent.get(of), "before it is said that it was sent");
            rejected.push(of);
        } else {
            assert!(line.is_object() && line.get("error").is_none(), "{line}");
        }
    }
}

#[test]
fn fields_are_set_removed_and_choose_the_target() {
    let street = Street::new();
    let dir = street.dir.path();
    street.routes(&format!(
        "[[route]]\nfrom = ['{DESK}']\nmsg_type = ['D']\npick = 'hash'\nhash = 'Symbol'\n\
         to = ['file:one', 'file:two']\n\
         [[route]]\nfrom = ['{DESK}']\nset = {{ Account = 'HOUSE', 50 = 'SUB' }}\n\
         remove = ['Text']\nto = ['file:all', '{VENUE}']\npick = 'all'\n\
         [[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n\
         [[file]]\nname = 'one'\npath = 'one.jsonl'\n[[file]]\nname = 'two'\npath = 'two.jsonl'\n\
         [[file]]\nname = 'all'\npath = 'all.jsonl'\n"
    ));
    // The file ends with half a line, as a crash may leave it.
    fs::write(dir.join("one.jsonl"), "{\"session\": \"x\"}\n{\"half").unwrap();
    let mut gate = street.gate();
    let mut orders = String::new();
    (0..40).for_each(|n| orders += &format!("buy 1 S{} 7\n", n % 8));
    street.trades(&format!(
        "wait\n{orders}send F OrigClOrdID=1|ClOrdID=2|Symbol=EU|Side=BUY|TransactTime={{now}}\
         |Account=OWN|Text=secret\nexpect 9 ClOrdID=2\n"
    ));
    let lines = |name: &str| -> Vec<Value> {
        let text = fs::read_to_string(dir.join(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let symbols = |name: &str| -> BTreeSet<String> {
        let symbol = |line: &Value| {
            let fields = line["fields"].as_array()?;
            fields.iter().find(|field| field[0] == 55)?[1].as_str().map(str::to_owned)
        };
        lines(name).iter().filter_map(symbol).collect()
    };
    let (one, two) = (symbols("one.jsonl"), symbols("two.jsonl"));
    assert_eq!(lines("one.jsonl").len() + lines("two.jsonl").len(), 41);
    assert!(one.is_disjoint(&two) && one.len() + two.len() == 8, "{one:?} {two:?}");
    assert_eq!(lines("all.jsonl")[0]["msg_type"], "F");
    let args = ["print", "--one-line", "--type", "F", "--where", "50=SUB", AT_THE_VENUE];
    let cancel = run_in(dir, &args, b"").out;
    assert!(cancel.contains("Account=HOUSE"), "{cancel}");
    assert!(!cancel.contains("secret") && !cancel.contains("OWN"), "{cancel}");
    gate.signal();
    assert_eq!(gate.ended().0, Some(0));
}

/// The lines of a file are sent once, in order. After a kill, the first line may be repeated and
/// has PossResend(97); after a normal stop, no line has PossResend(97).
#[test]
fn a_file_is_sent_once() {
    let street = Street::new();
    let dir = street.dir.path();
    street.routes(&format!(
        "[[route]]\nfrom = ['{VENUE}']\nto = ['file:reports']\n\
         [[file]]\nname = 'reports'\npath = 'reports.jsonl'\n\
         [[file]]\nname = 'orders'\npath = 'orders.jsonl'\nmode = 'read'\n"
    ));
    let append = |name: &str, text: &str| {
        let file = OpenOptions::new().append(true).create(true).open(dir.join(name));
        file.unwrap().write_all(text.as_bytes()).unwrap();
    };
    append("orders.jsonl", &format!("{}\nnonsense\n\n{}", order("a"), order("b")));
    let gate = street.gate();
    let wait = |text: &str| {
        let path = dir.join("orders.jsonl.answers");
        let until_ns = transfix::clock::monotonic_ns() + 20_000_000_000;
        while !fs::read_to_string(&path).unwrap_or_default().contains(text) {
            assert!(transfix::clock::monotonic_ns() < until_ns, "no {text}");
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
    };
    wait("expected");
    assert!(!fs::read_to_string(dir.join("orders.jsonl.answers")).unwrap().contains("\"b\""));
    append("orders.jsonl", &format!("\n{}\n", order("c")));
    wait("\"c\"");
    gate.send(Signal::KILL);
    drop(gate);
    append("orders.jsonl", &format!("{}\n{}\n", order("d"), order("e")));
    let mut gate = street.gate();
    wait("\"e\"");
    gate.signal();
    assert_eq!(gate.ended().0, Some(0));
    append("orders.jsonl", &format!("{}\n", order("f")));
    let mut gate = street.gate();
    wait("\"f\"");
    let unmarked = at_the_venue(&street);
    assert!(unmarked.keys().eq(["a", "b", "c", "d", "e", "f"]), "{unmarked:?}");
    // The kill happened either before or after the position of the line `d` was stored.
    let marked = orders(&street, AT_THE_VENUE, "97=Y");
    assert!(marked == ["d"] || marked == ["c"], "{marked:?}");
    // The sent lines are no longer in the file, so the gateway cannot distinguish the file from a
    // new file.
    fs::write(dir.join("orders.jsonl"), format!("{}\n", order("g")).repeat(20)).unwrap();
    gate.wait_for_error("the part of the file that was sent is missing or changed");
    assert!(!orders(&street, AT_THE_VENUE, "").contains(&"g".to_owned()));
    let reports = fs::read_to_string(dir.join("reports.jsonl")).unwrap();
    assert!(reports.lines().count() >= 5, "{reports}");
}

/// A route for a template serves each session of the template.
#[test]
fn counterparties_of_a_template_are_bridged() {
    let street = Street::new();
    let gate_toml = street.dir.path().join("gate.toml");
    let template =
        fs::read_to_string(&gate_toml).unwrap() + &session("acceptor", "GATE", "*", "127.0.0.1:0");
    fs::write(gate_toml, template).unwrap();
    street.routes(&format!(
        "[[route]]\nfrom = ['FIX.4.4:GATE->*']\nto = ['{VENUE}']\n\
         [[route]]\nfrom = ['{VENUE}']\nto = ['FIX.4.4:GATE->NEWCOMER']\n"
    ));
    let _gate = street.gate();
    let client = street.dir.path().join("client.toml");
    let newcomer = fs::read_to_string(&client).unwrap().replace("DESK", "NEWCOMER");
    fs::write(client, newcomer).unwrap();
    street.trades("wait\nbuy 5 EU 30.5\nexpect 8 ExecType=NEW\n");
}

/// A failed start leaves no socket file, and does not remove the socket file of a running gateway.
#[test]
fn a_socket_belongs_to_one_gateway() {
    let street = Street::new();
    street.routes(&format!(
        "[[route]]\nfrom = ['{DESK}']\nto = ['socket:a']\n\
         [[socket]]\nname = 'a'\npath = 'a.sock'\n[[socket]]\nname = 'b'\npath = 'b.sock'\n"
    ));
    fs::write(street.dir.path().join("b.sock"), "no socket").unwrap();
    let start = || run_in(street.dir.path(), &["run", "gate.toml"], b"");
    let run = start();
    assert_eq!(run.code, 1, "{run:?}");
    assert!(
        run.err.contains("[[socket]] b: b.sock: the path exists, but is not a socket"),
        "{run:?}"
    );
    assert!(!street.dir.path().join("a.sock").exists());
    fs::remove_file(street.dir.path().join("b.sock")).unwrap();
    let _gate = street.gate();
    let run = start();
    assert!(run.err.contains("a.sock: another program already listens at this path"), "{run:?}");
    assert!(street.dir.path().join("a.sock").exists());
    let left = fs::read_dir(street.dir.path()).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.filter(|name| name.starts_with('.')).count() == 0);
}

/// While a file cannot be written, messages for the file are refused and the log has one line.
/// Later messages are written again.
#[test]
fn a_file_that_cannot_be_written_refuses_and_heals() {
    let street = Street::new();
    let dir = street.dir.path();
    fs::create_dir(dir.join("out")).unwrap();
    street.routes(&format!(
        "[[route]]\nfrom = ['{DESK}']\nmsg_type = ['D']\nto = ['file:all']\n\
         [[file]]\nname = 'all'\npath = 'out/all.jsonl'\n"
    ));
    let mut gate = street.gate();
    let send = |answer: &str| street.trades(&format!("wait\nbuy 5 EU 30.5\n{answer}\nlogout\n"));
    // The reject of the second message shows that the gateway has processed the order before it.
    let written = "send B Headline=x|NoLinesOfText=1|Text=x\nexpect j RefMsgType=B";
    send(written);
    fs::rename(dir.join("out"), dir.join("away")).unwrap();
    (0..3).for_each(|_| send("expect j BusinessRejectReason=4|RefMsgType=D"));
    fs::create_dir(dir.join("out")).unwrap();
    send(written);
    gate.signal();
    let (code, errors) = gate.ended();
    assert_eq!(code, Some(0));
    assert_eq!(errors.matches("a message could not be written to a file").count(), 1, "{errors}");
    let lines = |name: &str| fs::read_to_string(dir.join(name)).unwrap().lines().count();
    assert_eq!((lines("away/all.jsonl"), lines("out/all.jsonl")), (1, 1));
}

/// After a daily reset, the first message has the same number and often the same content as the day
/// before; the gateway treats it as a new message.
#[test]
fn the_same_message_after_a_reset_is_another_one() {
    let street = Street::new();
    let dir = street.dir.path();
    street.routes(&format!(
        "[[route]]\nfrom = ['{DESK}']\nto = ['file:all', '{VENUE}']\npick = 'all'\n\
         [[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n\
         [[file]]\nname = 'all'\npath = 'all.jsonl'\n"
    ));
    let gate = street.gate();
    let client = dir.join("client.toml");
    let resets = fs::read_to_string(&client).unwrap() + "reset_on = ['logon']\n";
    fs::write(client, resets).unwrap();
    let order = "ClOrdID=same|Symbol=EU|Side=1|TransactTime=20260101-00:00:00|OrderQty=5\
                 |OrdType=2|Price=3";
    for _ in 0..3 {
        street.trades(&format!("wait\nsend D {order}\nexpect 8\n"));
    }
    assert_eq!(orders(&street, AT_THE_VENUE, ""), ["same"; 3]);
    assert_eq!(orders(&street, AT_THE_VENUE, "97=Y"), [""; 0]);
    assert_eq!(fs::read_to_string(dir.join("all.jsonl")).unwrap().lines().count(), 3);
    drop(gate);
}

/// A stored message for a desk that resets its numbers at the next logon is never sent; the log
/// reports the loss.
#[test]
fn what_a_reset_takes_from_the_store_is_told() {
    let street = Street::new();
    street.routes(&format!(
        "[[route]]\nfrom = ['{DESK}']\nto = ['{VENUE}']\n\
         [[socket]]\nname = 'desk'\npath = 'desk.sock'\n"
    ));
    let mut gate = street.gate();
    let mut port = Port::new(&street);
    let fields = json!([[148, "x"], [33, 1], [58, "y"]]);
    for n in 0..2 {
        let news = json!({ "ref": n, "session": DESK, "msg_type": "B", "fields": fields });
        port.say(&json!({ "send": news }));
        assert_eq!(port.hears("sent")["seq"], n + 1);
    }
    let client = street.dir.path().join("client.toml");
    let resets = fs::read_to_string(&client).unwrap() + "reset_on = ['logon']\n";
    fs::write(client, resets).unwrap();
    street.trades("wait\n");
    gate.wait_for_error("messages were not sent");
}

/// The value of a data field may contain the delimiter, in forwarded messages and in messages of a
/// program.
#[test]
fn fields_of_data_pass_with_all_their_bytes() {
    let street = Street::new();
    street.routes(&format!(
        "[[route]]\nfrom = ['{DESK}']\nto = ['{VENUE}']\n\
         [[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n\
         [[socket]]\nname = 'desk'\npath = 'desk.sock'\n"
    ));
    let _gate = street.gate();
    let mut port = Port::new(&street);
    let fields = json!([
        [11, "p1"],
        [55, "EU"],
        [54, "1"],
        [60, "20260101-00:00:00"],
        [38, 5],
        [40, 2],
        [44, "30.5"],
        [354, 1],
        [355, "a\u{1}b=c"]
    ]);
    port.say(&json!({ "send": { "ref": 7, "session": VENUE, "msg_type": "D", "fields": fields } }));
    assert!(port.hears("sent")["seq"].is_u64());
    let args = ["print", "--where", "11=p1", AT_THE_VENUE];
    let shown = run_in(street.dir.path(), &args, b"").out;
    assert!(shown.contains("EncodedTextLen (354): 5"), "{shown}");
}

/// If the position in the file cannot be stored, the next line is not sent, and the sent line is
/// answered only once.
#[test]
fn a_position_that_cannot_be_kept_repeats_nothing() {
    let street = Street::new();
    let dir = street.dir.path();
    street.routes(&format!(
        "[[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n\
         [[file]]\nname = 'orders'\npath = 'orders.jsonl'\nmode = 'read'\n"
    ));
    let mut gate = street.gate();
    let in_the_way = dir.join("orders.jsonl.position.new");
    fs::create_dir(&in_the_way).unwrap();
    fs::write(dir.join("orders.jsonl"), format!("{}\n{}\n", order("a"), order("b"))).unwrap();
    gate.wait_for_error("a file cannot be sent");
    // During this pause the gateway examines the file several times.
    street.trades("wait\npause 0.5\n");
    let answers = || fs::read_to_string(dir.join("orders.jsonl.answers")).unwrap();
    assert_eq!(answers().lines().count(), 1, "{}", answers());
    assert_eq!(orders(&street, AT_THE_VENUE, ""), ["a"]);
    fs::remove_dir(&in_the_way).unwrap();
    street.venue.wait_for("ClOrdID=b");
    gate.signal();
    assert_eq!(gate.ended().0, Some(0));
    assert_eq!(answers().lines().count(), 2, "{}", answers());
    assert_eq!(orders(&street, AT_THE_VENUE, "97=Y"), [""; 0]);
}

/// If a program disconnects after it received a message, the gateway waits for that program, and
/// offers the message to no other target.
#[test]
fn a_message_that_is_offered_again_stays_with_whom_may_have_it() {
    let street = Street::with("unavailable = { retries = 1000, delay_ms = 50 }\n", "");
    street.routes(&format!(
        "[[route]]\nfrom = ['{DESK}']\nto = ['socket:desk', '{VENUE}']\n\
         [[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n\
         [[socket]]\nname = 'desk'\npath = 'desk.sock'\n"
    ));
    let _gate = street.gate();
    let mut port = Port::new(&street);
    assert!(port.hears("hello").is_object());
    let mut client = Program::start(&street.dir, &["connect", "client.toml"]);
    client.wait_for("logged on");
    writeln!(client.commands, "buy 5 EU 30.5").unwrap();
    assert!(port.hears("message")["poss_resend"].is_null());
    drop(port);
    // During this pause the gateway offers the message several times.
    writeln!(client.commands, "pause 0.5").unwrap();
    writeln!(client.commands, "help expect").unwrap();
    client.wait_for("expect");
    let mut next = loop {
        let mut next = Port::new(&street);
        if next.hears("hello").is_object() {
            break next;
        }
    };
    let again = next.hears("message");
    assert_eq!(again["poss_resend"], true, "{again}");
    next.say(&json!({ "take": again["id"] }));
    writeln!(client.commands, "buy 5 NEXT 30.5").unwrap();
    assert!(next.hears("message").is_object());
    assert_eq!(orders(&street, AT_THE_VENUE, ""), [""; 0]);
}

/// Fields that a route sets are in the right order: the venue rejects header fields after the body.
/// The sender is among the targets and is skipped.
#[test]
fn fields_that_are_set_have_their_place() {
    let street = Street::new();
    street.routes(&format!(
        "[[route]]\non_behalf = 'keep'\nmsg_type = ['D']\n\
         set = {{ Account = 'HOUSE', SenderSubID = 'SUB', Text = 'ours' }}\n\
         to = ['{DESK}', '{VENUE}']\n\
         [[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n"
    ));
    let _gate = street.gate();
    street.trades(
        "wait\nsend D OnBehalfOfCompID=X|ClOrdID=1|Symbol=EU|Side=1|TransactTime={now}|OrderQty=5\
         |OrdType=2|Price=3\nexpect 8 ExecType=NEW\n",
    );
    let args = ["print", "--one-line", "--where", "50=SUB", "--where", "115=X", AT_THE_VENUE];
    let order = run_in(street.dir.path(), &args, b"").out;
    assert!(order.contains("Account=HOUSE") && order.contains("Text=ours"), "{order}");
}

/// A BusinessMessageReject(j) for a message of a program goes to that program, and to no other
/// target.
#[test]
fn a_program_hears_that_its_message_is_not_supported() {
    let street = Street::new();
    street.routes(&format!(
        "[[route]]\nfrom = ['{VENUE}']\nto = ['file:all']\n\
         [[file]]\nname = 'all'\npath = 'all.jsonl'\n\
         [[socket]]\nname = 'desk'\npath = 'desk.sock'\n"
    ));
    let _gate = street.gate();
    let mut port = Port::new(&street);
    let fields = json!([[148, "x"], [33, 1], [58, "y"]]);
    port.say(
        &json!({ "send": { "ref": "n", "session": VENUE, "msg_type": "B", "fields": fields } }),
    );
    let rejected = port.hears("rejected");
    assert_eq!((&rejected["ref"], &rejected["reason"]), (&json!("n"), &json!(3)), "{rejected}");
    assert_eq!(fs::read_to_string(street.dir.path().join("all.jsonl")).unwrap(), "");
}
