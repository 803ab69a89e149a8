//! `transfix run`: a gateway between real programs is killed, and gets messages that it does not
//! support.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use transfix_testkit::temp::TempDir;

use crate::command_line::running::Program;
use crate::command_line::{Run, run_in};

pub(super) fn session(role: &str, us: &str, them: &str, address: &str) -> String {
    format!(
        "[[session]]\nrole = '{role}'\naddress = '{address}'\nbegin_string = 'FIX.4.4'\n\
         sender_comp_id = '{us}'\ntarget_comp_id = '{them}'\nstore_dir = '{us}-{them}'\n\
         reconnect_interval_ms = 20\nkeep_inbound = true\n"
    )
}

/// Returns the address that a program prints when it listens.
pub(super) fn listening(program: &Program) -> String {
    let line = program.wait_for("listening at ");
    line.rsplit(' ').next().unwrap().to_owned()
}

/// A running venue, and a directory with the settings of a gateway and of the gateway's client.
pub(super) struct Street {
    pub(super) dir: TempDir,
    pub(super) venue: Program,
}

pub(super) const DESK: &str = "FIX.4.4:GATE->DESK";
pub(super) const VENUE: &str = "FIX.4.4:GATE->VENUE";

impl Street {
    pub(super) fn new() -> Self {
        Self::with("", "")
    }

    /// Starts the venue. `desk` and `to_venue` are additional keys of the gateway's sessions to the
    /// desk and to the venue.
    pub(super) fn with(desk: &str, to_venue: &str) -> Self {
        let dir = TempDir::new();
        let venue = session("acceptor", "VENUE", "GATE", "127.0.0.1:0");
        fs::write(dir.path().join("venue.toml"), venue).unwrap();
        let venue = Program::start(&dir, &["serve", "venue.toml"]);
        let at = listening(&venue);
        let settings = session("acceptor", "GATE", "DESK", "127.0.0.1:0")
            + "offline = 'store'\n"
            + desk
            + &session("initiator", "GATE", "VENUE", &at)
            + to_venue;
        fs::write(dir.path().join("gate.toml"), settings).unwrap();
        let street = Self { dir, venue };
        street.routes(&format!(
            "[[route]]\nfrom = ['{DESK}']\nto = ['{VENUE}']\n\
             [[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n"
        ));
        street
    }

    /// Restarts the venue at the same address.
    pub(super) fn venue_again(&mut self) {
        let at = self.dir.path().join("gate.toml");
        let gate = fs::read_to_string(at).unwrap();
        let address = gate.rsplit_once("address = '").unwrap().1.split('\'').next().unwrap();
        let venue = session("acceptor", "VENUE", "GATE", address);
        fs::write(self.dir.path().join("venue.toml"), venue).unwrap();
        self.venue = Program::start(&self.dir, &["serve", "venue.toml"]);
        listening(&self.venue);
    }

    pub(super) fn routes(&self, text: &str) {
        fs::write(self.dir.path().join("routes.toml"), text).unwrap();
    }

    /// Starts the gateway, waits until its session with the venue is logged on, and writes the
    /// settings of the client.
    pub(super) fn gate(&self) -> Program {
        let gate = Program::start(&self.dir, &["run", "gate.toml"]);
        let (mut listening, mut is_on) = (None, false);
        // The two expected lines may arrive in either order.
        while listening.is_none() || !is_on {
            let line = gate.wait_for("");
            is_on |= line.contains(&format!("{VENUE} logged on"));
            listening = listening.or(line.strip_prefix("listening at ").map(str::to_owned));
        }
        let client = session("initiator", "DESK", "GATE", &listening.unwrap());
        fs::write(self.dir.path().join("client.toml"), client).unwrap();
        gate
    }

    pub(super) fn script(&self, commands: &str) -> Run {
        fs::write(self.dir.path().join("script.txt"), commands).unwrap();
        let args = ["connect", "client.toml", "--quiet", "--script", "script.txt"];
        run_in(self.dir.path(), &args, b"")
    }

    /// Returns the orders in the venue's journal, as printed with the option `form`.
    pub(super) fn orders_at_the_venue(&self, form: &str) -> String {
        let args = ["print", "--type", "D", "VENUE-GATE/FIX.4.4-VENUE-GATE"];
        let args = args.into_iter().chain((!form.is_empty()).then_some(form));
        run_in(self.dir.path(), &args.collect::<Vec<_>>(), b"").out
    }

    pub(super) fn trades(&self, commands: &str) {
        let run = self.script(commands);
        // This line may appear or not: how many of the earlier orders are refused depends on
        // timing.
        let is_expected = |line: &str| line.contains("lines were omitted");
        assert!(run.code == 0 && run.err.lines().all(is_expected), "{run:#?}");
    }
}

#[test]
fn messages_go_by_the_routes_and_back() {
    let street = Street::new();
    let mut gate = street.gate();
    street.trades("wait\nbuy 5 EU 30.5\nexpect 8 ExecType=NEW|SenderCompID=GATE|ClOrdID=1\n");
    // A reload applies changed routes as well as changed settings.
    let no_eu = format!(
        "[[route]]\nfrom = ['{DESK}']\nmsg_type = ['NewOrderSingle']\nwhen = {{ Symbol = 'U*' }}\n\
         to = ['{VENUE}']\n[[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n"
    );
    street.routes(&no_eu);
    gate.send(Signal::HUP);
    gate.wait_for("reload: the routes were changed");
    street.trades(
        "wait\nbuy 5 UK 30.5\nexpect 8 ExecType=NEW|Symbol=UK\n\
         buy 5 EU 30.5\nexpect j BusinessRejectReason=3|RefMsgType=D\n",
    );
    // If the file has errors, the reload changes nothing.
    street.routes("[[route]]\nto = ['FIX.4.4:GATE->VENU']\n");
    gate.send(Signal::HUP);
    gate.wait_for_error("no session is named FIX.4.4:GATE->VENU; do you mean FIX.4.4:GATE->VENUE?");
    // If the file is missing, the reload changes nothing either.
    fs::remove_file(street.dir.path().join("routes.toml")).unwrap();
    gate.send(Signal::HUP);
    gate.wait_for_error("the file of routes is missing or has no route");
    street.trades("wait\nbuy 5 UK 30.5\nexpect 8 ExecType=NEW|Symbol=UK\n");
    gate.signal();
    assert_eq!(gate.ended().0, Some(0));
}

#[test]
fn a_third_party_is_reached_where_a_route_says_so() {
    let street = Street::new();
    let back = format!("[[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n");
    street.routes(&back);
    let gate = street.gate();
    let order = "ClOrdID=1|Symbol=EU|Side=BUY|TransactTime={now}|OrderQty=5|OrdType=LIMIT|Price=3";
    // Without a matching route, a sender cannot reach a target by naming it in
    // DeliverToCompID(128).
    street.trades(&format!(
        "wait\nsend D DeliverToCompID=VENUE|{order}\nexpect j BusinessRejectReason=3\n"
    ));
    street.routes(&format!(
        "[[route]]\nfrom = ['{DESK}']\nwhen = {{ 128 = '*' }}\nto = ['DeliverToCompID']\n\
         on_behalf = 'sender'\n{back}"
    ));
    gate.send(Signal::HUP);
    gate.wait_for("reload: the routes were changed");
    street.trades(&format!(
        "wait\nsend D DeliverToCompID=VENUE|OnBehalfOfCompID=OTHER|{order}\nexpect 8 ExecType=NEW\n\
         send D DeliverToCompID=NOBODY|{order}\nexpect j BusinessRejectReason=7\n\
         send D DeliverToCompID=DESK|{order}\nexpect j BusinessRejectReason=7\n\
         send D {order}\nexpect j BusinessRejectReason=3\n"
    ));
    let order = street.orders_at_the_venue("");
    assert!(order.contains("OnBehalfOfCompID (115): DESK"), "{order}");
    assert!(!order.contains("DeliverTo") && !order.contains("OTHER"), "{order}");
}

/// A program that is connected to the gateway's socket, played by the test.
pub(super) struct Port {
    pub(super) stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Port {
    pub(super) fn new(street: &Street) -> Self {
        let stream = UnixStream::connect(street.dir.path().join("desk.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { lines: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    pub(super) fn say(&mut self, line: &Value) {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Returns the next line of this kind, or `null` if the connection has ended.
    pub(super) fn hears(&mut self, kind: &str) -> Value {
        loop {
            match self.next() {
                Value::Null => return Value::Null,
                line => {
                    if let Some(found) = line.get(kind) {
                        return found.clone();
                    }
                }
            }
        }
    }

    /// Returns the next line, or `null` if the connection has ended.
    pub(super) fn next(&mut self) -> Value {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(1..) => serde_json::from_str(&line).unwrap(),
            _ => Value::Null,
        }
    }
}

#[test]
fn a_program_takes_refuses_and_sends() {
    let street = Street::new();
    street.routes(&format!(
        "[[route]]\nfrom = ['{DESK}']\nto = ['socket:desk']\n\
         [[route]]\nfrom = ['{VENUE}']\nto = ['socket:desk']\n\
         [[socket]]\nname = 'desk'\npath = 'desk.sock'\nanswer_ms = 500\n"
    ));
    let mut gate = street.gate();
    let mode = fs::metadata(street.dir.path().join("desk.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let mut port = Port::new(&street);
    let hello = port.hears("hello");
    assert_eq!(hello["sessions"].as_array().unwrap().len(), 2, "{hello}");
    let mut second = Port::new(&street);
    assert_eq!(second.hears("error")["text"], "another program is already connected");

    let mut client = Program::start(&street.dir, &["connect", "client.toml"]);
    client.wait_for("logged on");
    writeln!(client.commands, "buy 5 EU 30.5").unwrap();
    let message = port.hears("message");
    assert_eq!((&message["session"], &message["msg_type"]), (&DESK.into(), &"D".into()));
    assert!(message["fields"].as_array().unwrap().contains(&json!([55, "EU"])), "{message}");
    port.say(&json!({ "take": message["id"] }));
    // The program sends an order to the venue.
    let order = json!([
        [11, "p1"],
        [55, "EU"],
        [54, "1"],
        [60, "20260101-00:00:00"],
        [38, "5"],
        [40, "2"],
        [44, "30.5"]
    ]);
    port.say(&json!({ "send": { "ref": 7, "session": VENUE, "msg_type": "D", "fields": order } }));
    let report = port.hears("message");
    assert_eq!(report["session"], VENUE);
    port.say(&json!({ "refuse": { "id": report["id"], "reason": 0, "text": "not of ours" } }));
    port.say(&json!({ "send": { "ref": "x", "session": "NONE", "msg_type": "8", "fields": [] } }));
    assert_eq!(port.hears("error")["ref"], "x");
    // If a program does not answer in time, it is disconnected and its message is refused.
    writeln!(client.commands, "buy 6 EU 30.5").unwrap();
    assert_eq!(port.hears("message")["msg_type"], "D");
    assert_eq!(port.hears("message"), Value::Null);
    gate.wait_for_error("a program was disconnected from its socket");
    client.wait_for("BusinessMessageReject(j)");
    // The gateway serves the next program, and answers invalid lines with an error.
    for (said, answered) in [
        ("{\"take\": 99}\n", "no message with id 99 is waiting for an answer"),
        ("nonsense\n", "expected"),
        ("{\"steal\": 1}\n", "unknown variant `steal`"),
    ] {
        let mut port = Port::new(&street);
        assert!(port.hears("hello").is_object());
        port.stream.write_all(said.as_bytes()).unwrap();
        let error = port.hears("error");
        assert!(error["text"].as_str().unwrap().contains(answered), "{error}");
        assert_eq!(port.hears("error"), Value::Null);
    }
    writeln!(client.commands, "quit").unwrap();
    client.ended();
    gate.signal();
    assert_eq!(gate.ended().0, Some(0));
    assert!(!street.dir.path().join("desk.sock").exists());
}

#[test]
fn what_a_program_has_had_goes_to_nobody_else() {
    let street = Street::new();
    street.routes(&format!(
        "[[route]]\nfrom = ['{DESK}']\nto = ['socket:desk', '{VENUE}']\n\
         [[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n\
         [[socket]]\nname = 'desk'\npath = 'desk.sock'\nanswer_ms = 300\n"
    ));
    let _gate = street.gate();
    let mut port = Port::new(&street);
    assert!(port.hears("hello").is_object());
    let mut client = Program::start(&street.dir, &["connect", "client.toml"]);
    client.wait_for("logged on");
    writeln!(client.commands, "buy 5 NO 30.5").unwrap();
    let refused = port.hears("message");
    port.say(&json!({ "refuse": { "id": refused["id"], "reason": 0, "text": "risk limit" } }));
    client.wait_for("risk limit");
    writeln!(client.commands, "buy 5 MUTE 30.5").unwrap();
    let mute = port.hears("message");
    client.wait_for("BusinessMessageReject(j)");
    // A late answer is ignored; it never applies to a message of the next program.
    let mut next = Port::new(&street);
    assert!(next.hears("hello").is_object());
    writeln!(client.commands, "buy 5 NEXT 30.5").unwrap();
    let other = next.hears("message");
    assert!(other["id"].as_u64() > mute["id"].as_u64(), "{other}");
    next.say(&json!({ "take": other["id"] }));
    // The program receives the next order only after the gateway has processed its answer to the
    // previous order.
    writeln!(client.commands, "buy 5 LAST 30.5").unwrap();
    assert!(next.hears("message").is_object());
    let args = ["print", "--one-line", "--type", "D", "VENUE-GATE/FIX.4.4-VENUE-GATE"];
    let orders = run_in(street.dir.path(), &args, b"");
    assert!(!orders.out.contains("NewOrderSingle"), "{orders:?}");
}

#[test]
#[ignore = "needs python3: cargo xtask peers programs"]
fn the_program_of_the_page_fills_orders() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/gateway.md");
    let page = fs::read_to_string(page).unwrap();
    let program = page.split_once("```python\n").unwrap().1.split_once("```").unwrap().0;
    let street = Street::new();
    street.routes(&format!(
        "[[route]]\nfrom = ['{DESK}']\nto = ['socket:desk']\n\
         [[socket]]\nname = 'desk'\npath = 'desk.sock'\n"
    ));
    let _gate = street.gate();
    let mut python = Command::new("python3")
        .args(["-u", "-c", program])
        .current_dir(street.dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut hello = String::new();
    BufReader::new(python.stdout.as_mut().unwrap()).read_line(&mut hello).unwrap();
    assert!(hello.contains("hello"), "{hello}");
    street.trades("wait\nbuy 5 EU 30.5\nexpect 8 ExecType=F|OrderID=V-1|CumQty=5\n");
    python.kill().unwrap();
    python.wait().unwrap();
}

#[test]
fn wrong_routes_are_told_all_at_once() {
    let street = Street::new();
    let other = fs::read_to_string(street.dir.path().join("gate.toml")).unwrap()
        + &session("initiator", "GATE", "OLD", "127.0.0.1:1").replace("FIX.4.4", "FIX.4.2")
        + &session("initiator", "GATE", "QUEUE", "127.0.0.1:1")
        + "offline = 'queue'\n";
    fs::write(street.dir.path().join("gate.toml"), other).unwrap();
    let check = || run_in(street.dir.path(), &["run", "gate.toml", "--check"], b"");
    let run = check();
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains(&format!("route: all messages of {DESK} to {VENUE}")), "{run:?}");
    street.routes(&format!(
        "[[route]]\nfrom = ['FIX.4.4:GATE->DESC']\nto = ['socket:none']\n\
         [[route]]\nmsg_type = ['NewOrderSingel', 'D', 'ZZ', 'U7']\n\
         when = {{ Symbl = 'x' }}\nto = []\n\
         [[route]]\nfrom = ['{DESK}']\nto = ['FIX.4.2:GATE->OLD']\n\
         [[route]]\nfrom = []\nto = ['FIX.4.4:GATE->QUEUE']\n\
         [[route]]\nfrom = ['{DESK}']\nto = ['{DESK}', 'file:none', '{DESK}', 'file:in']\n\
         [[route]]\npick = 'hash'\nset = {{ MsgSeqNum = '1', Text = '' }}\n\
         remove = ['NoPartyIDs', 'Account']\nto = ['{VENUE}']\n\
         [[route]]\nmsg_type = ['D']\nremove = ['PartyID']\nto = ['{VENUE}']\n\
         [[socket]]\nname = 'one'\npath = 'nowhere/one.sock'\n\
         [[socket]]\nname = 'two'\npath = 'two.sock'\n\
         [[socket]]\nname = 'three'\npath = './two.sock'\n\
         [[file]]\nname = 'two'\npath = 'a'\n[[file]]\nname = 'two'\npath = 'b'\n\
         [[file]]\nname = 'in'\npath = 'in.jsonl'\nmode = 'read'\n"
    ));
    let run = check();
    assert_eq!(run.code, 2);
    for said in [
        "routes.toml: [[route]] 1: `from`: no session is named FIX.4.4:GATE->DESC; do you mean",
        "[[route]] 1: no [[socket]] is named 'none'",
        "[[route]] 2: no message is named 'NewOrderSingel'; do you mean NewOrderSingle?",
        "[[route]] 2: no message is named 'ZZ'",
        "[[route]] 2: no field is named 'Symbl'",
        "[[route]] 2: `to` names nobody",
        "[[route]] 3: FIX.4.2:GATE->OLD has another FIX version than FIX.4.4:GATE->DESK",
        "[[route]] 4: FIX.4.4:GATE->QUEUE has offline = \"queue\": messages that wait for a logon",
        "[[route]] 4: `from` is an empty list",
        "[[route]] 5: FIX.4.4:GATE->DESK is in both `from` and `to`: a message cannot return to \
         its sender",
        "[[route]] 5: `to` names FIX.4.4:GATE->DESK twice",
        "[[route]] 5: no [[file]] is named 'none'",
        "[[route]] 5: [[file]] in is only read, so no route may write to this file",
        "[[route]] 6: pick = \"hash\" needs the key `hash`",
        "[[route]] 6: `set`: MsgSeqNum cannot be changed",
        "[[route]] 6: `remove`: NoPartyIDs cannot be changed",
        "[[route]] 6: `set`: the value of Text is empty",
        "[[route]] 7: `remove`: PartyID begins the entries of a repeating group in D, so this \
         field cannot be changed",
        "[[socket]] one: directory nowhere: No such file",
        "[[socket]] three: [[socket]] two uses the same path, ./two.sock",
        "[[file]] two appears twice",
    ] {
        assert!(run.err.contains(said), "{said}: {}", run.err);
    }
    street.routes("[[route]]\nfrom = 'x'\nto = []\n");
    assert!(check().err.contains("line 2"), "{:?}", check());
    street.routes("");
    assert!(check().err.contains("the file has no [[route]]"), "{:?}", check());
    // The check reports the errors of the settings together with those of the routes.
    let wrong = fs::read_to_string(street.dir.path().join("gate.toml")).unwrap();
    let wrong = wrong.replace("keep_inbound = true", "keep_inbound = 3");
    fs::write(street.dir.path().join("gate.toml"), wrong).unwrap();
    assert!(check().err.matches("keep_inbound").count() >= 2, "{:?}", check());
}
