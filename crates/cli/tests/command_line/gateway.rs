//! `transfix run`: a gateway between real programs, killed and asked for what it cannot do.

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

fn session(role: &str, us: &str, them: &str, address: &str) -> String {
    format!(
        "[[session]]\nrole = '{role}'\naddress = '{address}'\nbegin_string = 'FIX.4.4'\n\
         sender_comp_id = '{us}'\ntarget_comp_id = '{them}'\nstore_dir = '{us}-{them}'\n\
         reconnect_interval_ms = 20\nkeep_inbound = true\n"
    )
}

/// The address that a program listens at.
fn listening(program: &Program) -> String {
    let line = program.wait_for("listening at ");
    line.rsplit(' ').next().unwrap().to_owned()
}

/// A venue, and the settings of a gateway before it and of a client of that.
struct Street {
    dir: TempDir,
    venue: Program,
}

const DESK: &str = "FIX.4.4:GATE->DESK";
const VENUE: &str = "FIX.4.4:GATE->VENUE";

impl Street {
    fn new() -> Self {
        let dir = TempDir::new();
        let venue = session("acceptor", "VENUE", "GATE", "127.0.0.1:0");
        fs::write(dir.path().join("venue.toml"), venue).unwrap();
        let venue = Program::start(&dir, &["serve", "venue.toml"]);
        let at = listening(&venue);
        let settings = session("acceptor", "GATE", "DESK", "127.0.0.1:0")
            + "offline = 'queue'\n"
            + &session("initiator", "GATE", "VENUE", &at)
            + "offline = 'queue'\n";
        fs::write(dir.path().join("gate.toml"), settings).unwrap();
        let street = Self { dir, venue };
        street.routes(&format!(
            "[[route]]\nfrom = ['{DESK}']\nto = ['{VENUE}']\n\
             [[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n"
        ));
        street
    }

    fn routes(&self, text: &str) {
        fs::write(self.dir.path().join("routes.toml"), text).unwrap();
    }

    /// A gateway, and the settings of a client of it.
    fn gate(&self) -> Program {
        let gate = Program::start(&self.dir, &["run", "gate.toml"]);
        let (mut listening, mut is_on) = (None, false);
        // Either may be told first.
        while listening.is_none() || !is_on {
            let line = gate.wait_for("");
            is_on |= line.contains(&format!("{VENUE} logged on"));
            listening = listening.or(line.strip_prefix("listening at ").map(str::to_owned));
        }
        let client = session("initiator", "DESK", "GATE", &listening.unwrap());
        fs::write(self.dir.path().join("client.toml"), client).unwrap();
        gate
    }

    fn script(&self, commands: &str) -> Run {
        fs::write(self.dir.path().join("script.txt"), commands).unwrap();
        let args = ["connect", "client.toml", "--quiet", "--script", "script.txt"];
        run_in(self.dir.path(), &args, b"")
    }

    fn trades(&self, commands: &str) {
        let run = self.script(commands);
        assert_eq!((run.code, &*run.err), (0, ""), "{run:#?}");
    }
}

#[test]
fn messages_go_by_the_routes_and_back() {
    let street = Street::new();
    let mut gate = street.gate();
    street.trades("wait\nbuy 5 EU 30.5\nexpect 8 ExecType=NEW|SenderCompID=GATE|ClOrdID=1\n");
    // Routes are read again with the settings.
    let no_eu = format!(
        "[[route]]\nfrom = ['{DESK}']\nmsg_type = ['NewOrderSingle']\nwhen = {{ Symbol = 'U*' }}\n\
         to = ['{VENUE}']\n[[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n"
    );
    street.routes(&no_eu);
    gate.send(Signal::HUP);
    gate.wait_for("reload: the routes are new");
    street.trades(
        "wait\nbuy 5 UK 30.5\nexpect 8 ExecType=NEW|Symbol=UK\n\
         buy 5 EU 30.5\nexpect j BusinessRejectReason=3|RefMsgType=D\n",
    );
    // What is wrong changes nothing.
    street.routes("[[route]]\nto = ['FIX.4.4:GATE->VENU']\n");
    gate.send(Signal::HUP);
    gate.wait_for_error("no session is FIX.4.4:GATE->VENU; do you mean FIX.4.4:GATE->VENUE?");
    street.trades("wait\nbuy 5 UK 30.5\nexpect 8 ExecType=NEW|Symbol=UK\n");
    gate.signal();
    assert_eq!(gate.ended().0, Some(0));
}

#[test]
fn a_third_party_is_found_by_its_name() {
    let street = Street::new();
    street.routes(&format!("[[route]]\nfrom = ['{VENUE}']\nto = ['{DESK}']\n"));
    let _gate = street.gate();
    let order = "ClOrdID=1|Symbol=EU|Side=BUY|TransactTime={now}|OrderQty=5|OrdType=LIMIT|Price=3";
    street.trades(&format!(
        "wait\nsend D DeliverToCompID=VENUE|{order}\nexpect 8 ExecType=NEW\n\
         send D DeliverToCompID=NOBODY|{order}\nexpect j BusinessRejectReason=7\n\
         send D DeliverToCompID=DESK|{order}\nexpect j BusinessRejectReason=7\n\
         send D {order}\nexpect j BusinessRejectReason=3\n"
    ));
    let args = ["print", "--type", "D", "VENUE-GATE/FIX.4.4-VENUE-GATE"];
    let journal = run_in(street.dir.path(), &args, b"");
    let order = journal.out;
    assert!(order.contains("OnBehalfOfCompID (115): DESK"), "{order}");
    assert!(!order.contains("DeliverTo"), "{order}");
}

#[test]
fn kills_under_load_lose_no_order_in_three_rounds() {
    let street = Street::new();
    for round in 0..3 {
        let gate = street.gate();
        let mut client = Program::start(&street.dir, &["connect", "client.toml", "--quiet"]);
        client.wait_for("logged on");
        writeln!(client.commands, "burst 400 2000").unwrap();
        (0..60 + 50 * round).for_each(|_| drop(street.venue.wait_for("<- NewOrderSingle(D)")));
        gate.send(Signal::KILL);
        drop(gate);
        // On a new port the client would not find it: it logs out and comes again.
        writeln!(client.commands, "quit").unwrap();
        let _ = client.ended();
    }
    let _gate = street.gate();
    street.trades("wait\nbuy 1 LAST 7\nexpect 8 Symbol=LAST within 15\n");
    let ids = |store: &str| {
        let run = run_in(street.dir.path(), &["print", "--one-line", "--type", "D", store], b"");
        let id = |line: &str| Some(line.split_once("ClOrdID=")?.1.split(' ').next()?.to_owned());
        run.out.lines().filter_map(id).collect::<Vec<_>>()
    };
    let sent = ids("DESK-GATE/FIX.4.4-DESK-GATE");
    let arrived = ids("VENUE-GATE/FIX.4.4-VENUE-GATE");
    assert!(sent.len() > 200, "{}", sent.len());
    let lost: Vec<_> = sent.iter().filter(|id| !arrived.contains(id)).collect();
    assert!(lost.is_empty(), "lost: {lost:?} of {}", sent.len());
}

/// A program at a socket.
struct Port {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Port {
    fn new(street: &Street) -> Self {
        let stream = UnixStream::connect(street.dir.path().join("desk.sock")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { lines: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    fn say(&mut self, line: &Value) {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The next line of this kind; `null` if the connection has ended.
    fn hears(&mut self, kind: &str) -> Value {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap_or(0) == 0 {
                return Value::Null;
            }
            let line: Value = serde_json::from_str(&line).unwrap();
            if let Some(found) = line.get(kind) {
                return found.clone();
            }
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
    assert_eq!(second.hears("error")["text"], "another program is connected");

    let mut client = Program::start(&street.dir, &["connect", "client.toml"]);
    client.wait_for("logged on");
    writeln!(client.commands, "buy 5 EU 30.5").unwrap();
    let message = port.hears("message");
    assert_eq!((&message["session"], &message["msg_type"]), (&DESK.into(), &"D".into()));
    assert!(message["fields"].as_array().unwrap().contains(&json!([55, "EU"])), "{message}");
    port.say(&json!({ "take": message["id"] }));
    // It trades for the desk.
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
    // One that does not answer is cut off, and its message is refused.
    writeln!(client.commands, "buy 6 EU 30.5").unwrap();
    assert_eq!(port.hears("message")["msg_type"], "D");
    assert_eq!(port.hears("message"), Value::Null);
    gate.wait_for_error("a program at a socket is cut off");
    client.wait_for("BusinessMessageReject(j)");
    // The next one is served; what it says must make sense.
    for (said, answered) in [
        ("{\"take\": 99}\n", "no message 99 waits for an answer"),
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
    // What it says now is about a message that nobody waits for, and never about that of another.
    let mut next = Port::new(&street);
    assert!(next.hears("hello").is_object());
    writeln!(client.commands, "buy 5 NEXT 30.5").unwrap();
    let other = next.hears("message");
    assert!(other["id"].as_u64() > mute["id"].as_u64(), "{other}");
    next.say(&json!({ "take": other["id"] }));
    // The next order of the desk is asked for: so the one before is dealt with.
    writeln!(client.commands, "buy 5 LAST 30.5").unwrap();
    assert!(next.hears("message").is_object());
    let args = ["print", "--one-line", "--type", "D", "VENUE-GATE/FIX.4.4-VENUE-GATE"];
    let orders = run_in(street.dir.path(), &args, b"");
    assert!(!orders.out.contains("NewOrderSingle"), "{orders:?}");
}

#[test]
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
        + &session("initiator", "GATE", "OLD", "127.0.0.1:1").replace("FIX.4.4", "FIX.4.2");
    fs::write(street.dir.path().join("gate.toml"), other).unwrap();
    let check = || run_in(street.dir.path(), &["run", "gate.toml", "--check"], b"");
    let run = check();
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.out.contains(&format!("route: all messages of {DESK} to {VENUE}")), "{run:?}");
    street.routes(&format!(
        "[[route]]\nfrom = ['FIX.4.4:GATE->DESC']\nto = ['socket:none']\n\
         [[route]]\nmsg_type = ['NewOrder', 'D']\nwhen = {{ Symbl = 'x' }}\nto = []\n\
         [[route]]\nfrom = ['{DESK}']\nto = ['FIX.4.2:GATE->OLD']\n"
    ));
    let run = check();
    assert_eq!(run.code, 2);
    for said in [
        "routes.toml: [[route]] 1: `from`: no session is FIX.4.4:GATE->DESC; do you mean",
        "[[route]] 1: there is no [[socket]] 'none'",
        "[[route]] 2: there is no message 'NewOrder'",
        "[[route]] 2: there is no field 'Symbl'",
        "[[route]] 2: `to` names nobody",
        "[[route]] 3: FIX.4.2:GATE->OLD has another version than FIX.4.4",
        "[[route]] 3: FIX.4.2:GATE->OLD may lose what it is to send: set offline = \"queue\"",
    ] {
        assert!(run.err.contains(said), "{said}: {}", run.err);
    }
    street.routes("[[route]]\nfrom = 'x'\nto = []\n");
    assert!(check().err.contains("line 2"), "{:?}", check());
}
