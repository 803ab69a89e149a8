//! `transfix admin` sends commands to a running `transfix serve`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::Value;
use transfix_testkit::certificates::{Authority, Valid};
use transfix_testkit::temp::TempDir;

use crate::command_line::running::{Program, write_client};
use crate::command_line::{Run, run_in, session};

const ID: &str = "FIX.4.4:VENUE->CLIENT";

/// A running venue with administration; the commands run in its directory.
pub(crate) struct AdministeredVenue {
    pub(crate) dir: TempDir,
    pub(crate) venue: Program,
    url: String,
    /// The listening address of the administration over FIX.
    fix: String,
    /// The listening address for counterparties.
    pub(crate) listening: String,
}

impl AdministeredVenue {
    fn new() -> Self {
        Self::with("")
    }

    /// Starts a venue whose settings file begins with the lines `keys`.
    pub(crate) fn with(keys: &str) -> Self {
        Self::of_both(keys, "")
    }

    /// Starts a venue whose session has the additional lines `session`.
    pub(crate) fn of(session: &str) -> Self {
        Self::of_both("", session)
    }

    fn of_both(keys: &str, of_session: &str) -> Self {
        let dir = TempDir::new();
        let admin = "[engine]\naudit_file = 'audit.jsonl'\n[admin]\naddress = '127.0.0.1:0'\n\
                     [admin.fix]\naddress = '127.0.0.1:0'\n";
        let text =
            format!("{keys}{admin}{}store_dir = 'venue'\n", session("acceptor", "127.0.0.1:0"));
        fs::write(dir.path().join("venue.toml"), text + of_session).unwrap();
        let tokens = ["viewer", "operator", "administrator"].map(|role| {
            let made = run_in(dir.path(), &["admin", "token", "add", role, "--role", role], b"");
            assert_eq!(made.code, 0, "{made:?}");
            (role, made.out)
        });
        for (role, token) in tokens {
            fs::write(dir.path().join(role), token).unwrap();
        }
        let venue = Program::start(&dir, &["serve", "venue.toml", "--quiet"]);
        let line = venue.wait_for("listening at ");
        let listening = line.rsplit(' ').next().unwrap().to_owned();
        let line = venue.wait_for("administration at http");
        let url = line.rsplit(' ').next().unwrap().to_owned();
        let line = venue.wait_for("administration over FIX at ");
        let fix = line.rsplit(' ').next().unwrap().to_owned();
        Self { dir, venue, url, fix, listening }
    }

    /// Runs a command over FIX as a user with this role.
    pub(crate) fn ask_over_fix(&self, role: &str, args: &[&str]) -> Run {
        let (dir, name) = (self.dir.path(), format!("{role}-person"));
        let add = ["admin", "user", "add", &name, "--role", role];
        assert_eq!(run_in(dir, &add, b"correct horse battery\n").code, 0);
        let who = ["admin", "--fix", &self.fix, "--user", &name];
        run_in(dir, &[&who[..], args].concat(), b"correct horse battery\n")
    }

    pub(crate) fn ask(&self, role: &str, args: &[&str]) -> Run {
        let who = ["--token-file", role, "--url", &self.url];
        run_in(self.dir.path(), &[&["admin"][..], args, &who].concat(), b"")
    }

    #[track_caller]
    pub(crate) fn good(&self, role: &str, args: &[&str]) -> String {
        let run = self.ask(role, args);
        assert_eq!((run.code, &*run.err), (0, ""), "{run:?}");
        run.out
    }

    #[track_caller]
    pub(crate) fn refused(&self, role: &str, args: &[&str], why: &str) {
        let run = self.ask(role, args);
        assert!(run.code == 1 && run.err.contains(why), "{why}: {run:?}");
    }
}

#[test]
fn an_operator_looks_acts_and_is_written_down() {
    let mut desk = AdministeredVenue::new();
    let all = desk.good("viewer", &["sessions"]);
    assert!(all.contains(ID) && all.contains("not logged on"), "{all}");
    let json: Value = serde_json::from_str(&desk.good("viewer", &["sessions", "--json"])).unwrap();
    assert_eq!(json[0]["id"], ID);
    assert!(desk.good("viewer", &["session", ID]).contains("next_num_in"));
    desk.refused("viewer", &["session", "FIX.4.4:A->B"], "no session is named FIX.4.4:A->B");
    desk.refused("viewer", &["do", ID, "log_on"], "the request needs the role operator");
    desk.refused(
        "operator",
        &["do", ID, "heartbeat"],
        "not logged on; try again after the logon (1301)",
    );
    desk.good("operator", &["do", ID, "log_out", "text=end of day"]);
    assert!(desk.good("viewer", &["sessions"]).contains("logged out manually"));
    desk.good("operator", &["do", ID, "log_on"]);
    desk.refused(
        "operator",
        &["do", ID, "set_numbers", "next_in=7"],
        "needs the role administrator",
    );
    let unsure = format!("set_numbers is dangerous; add --confirm '{ID}' to confirm it");
    desk.refused("administrator", &["do", ID, "set_numbers", "next_in=7"], &unsure);
    let unsure =
        format!("the removal of a session is dangerous; add --confirm '{ID}' to confirm it");
    desk.refused("administrator", &["remove", ID], &unsure);
    desk.refused("administrator", &["stop", "--confirm", "no"], "add --confirm 'stop' to stop");
    for (args, why) in [
        (&["resend_request"][..], "resend_request needs begin=NUMBER"),
        (&["resend_request", "begin=x"], "begin= must be a whole number, not `x`"),
        (
            &["heartbeat", "n=1"],
            "the action heartbeat has no argument n=; the action accepts no \
                                 argument",
        ),
    ] {
        let wrong = desk.ask("operator", &[&["do", ID], args].concat());
        assert!(wrong.code == 2 && wrong.err.contains(why), "{why}: {wrong:?}");
        assert!(!wrong.err.contains("JSON") && !wrong.err.contains("field"), "{wrong:?}");
    }
    let confirmed = ["do", ID, "set_numbers", "next_in=7", "--confirm", ID];
    desk.good("administrator", &confirmed);
    let shown = desk.good("viewer", &["sessions", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()[0]["next_num_in"], 7);
    let events = desk.good("viewer", &["events"]);
    assert!(
        events.contains("operated") && events.contains("what=set_numbers next_in=7"),
        "{events}"
    );
    let audit = desk.good("viewer", &["audit"]);
    let line = audit.lines().find(|line| line.contains("set_numbers")).unwrap();
    assert!(line.contains("administrator") && line.contains(ID), "{audit}");
    assert_eq!(desk.good("viewer", &["ready"]), "ready\n");
    assert!(desk.good("viewer", &["messages", ID]).contains("-- "));
    // After the stop, the audit contains all actions.
    desk.good("administrator", &["stop", "--confirm", "stop"]);
    desk.venue.wait_for("stopping");
    assert_eq!(desk.venue.ended().0, Some(0));
    let verified = run_in(desk.dir.path(), &["audit", "verify", "audit.jsonl"], b"");
    // 13 lines: the users at the start, two lines for each of five actions, and two refused
    // actions.
    assert!(
        verified.code == 0 && verified.out.starts_with("13 lines, none changed"),
        "{verified:?}"
    );
}

#[test]
fn a_reload_is_asked_for_from_afar_or_by_signal_and_written_down() {
    let mut desk = AdministeredVenue::new();
    let file = desk.dir.path().join("venue.toml");
    let text = fs::read_to_string(&file).unwrap();
    let said = desk.good("administrator", &["reload"]);
    assert_eq!(said, "nothing has changed\n");
    let new = session("acceptor", "127.0.0.1:0").replace("'CLIENT'", "'NEW'");
    fs::write(&file, format!("{text}{new}store_dir = 'venue'\n")).unwrap();
    assert_eq!(desk.good("administrator", &["reload"]), "FIX.4.4:VENUE->NEW: added\n");
    assert!(desk.good("viewer", &["sessions"]).contains("VENUE->NEW"));
    fs::write(&file, format!("{text}nonsense = 1\n")).unwrap();
    desk.refused("administrator", &["reload"], "unknown key `nonsense`");
    fs::write(&file, text.replace("[admin]", "[admin]\nopen_metrics = true")).unwrap();
    desk.venue.send(Signal::HUP);
    desk.venue.wait_for("reload: FIX.4.4:VENUE->NEW: removed");
    desk.venue.wait_for("reload: [admin]: open_metrics will apply from the next start");
    let audit = desk.good("viewer", &["audit"]);
    let by_signal = audit.lines().filter(|line| line.contains("signal") && line.contains("reload"));
    assert_eq!(by_signal.count(), 2, "asked and done: {audit}");
    desk.venue.signal();
    assert_eq!(desk.venue.ended().0, Some(0));
}

#[test]
fn nobody_is_asked_where_nobody_listens() {
    let dir = TempDir::new();
    let run = run_in(dir.path(), &["admin", "sessions", "--url", "http://127.0.0.1:1"], b"");
    assert!(
        run.code == 1 && run.err.contains("make sure that the engine runs and has [admin]"),
        "{run:?}"
    );
    let text = format!("[admin]\n{}", session("acceptor", "127.0.0.1:0"));
    fs::write(dir.path().join("venue.toml"), text).unwrap();
    let run = run_in(dir.path(), &["serve", "venue.toml"], b"");
    assert!(run.code == 1 && run.err.contains("`transfix admin user add"), "{run:?}");
}

#[test]
fn whoever_brings_no_known_token_is_told_how_to_name_one() {
    let desk = AdministeredVenue::new();
    let remedy = "send a valid token: give a token with --token-file FILE or in \
                  TRANSFIX_ADMIN_TOKEN; `transfix admin token add NAME --role ROLE` makes a \
                  token";
    fs::write(desk.dir.path().join("old"), "tfx_0\n").unwrap();
    for verb in [
        &["sessions"][..],
        &["session", ID],
        &["do", ID, "log_out"],
        &["messages", ID],
        &["events"],
        &["events", "--follow"],
        &["audit"],
        &["certificates"],
        &["reload"],
        &["stop", "--confirm", "stop"],
    ] {
        desk.refused("old", verb, remedy);
        let url = ["--url", &desk.url];
        let run = run_in(desk.dir.path(), &[&["admin"][..], verb, &url].concat(), b"");
        assert!(run.code == 1 && run.err.contains(remedy), "{verb:?}: {run:?}");
    }
    let top = run_in(desk.dir.path(), &["top", "--url", &desk.url], b"");
    assert!(top.code == 1 && top.err.contains(remedy), "{top:?}");
    let nobody = run_in(desk.dir.path(), &["admin", "--fix", &desk.fix, "sessions"], b"");
    assert!(nobody.code == 2 && nobody.err.contains("TRANSFIX_ADMIN_USER"), "{nobody:?}");
}

#[test]
fn events_are_written_with_their_codes_as_lines_or_json() {
    let dir = TempDir::new();
    fs::write(dir.path().join("client.toml"), session("initiator", "127.0.0.1:1")).unwrap();
    let told = |more: &[&str]| {
        let connect = [&["connect", "client.toml", "--quiet"], more].concat();
        Program::start(&dir, &connect).wait_for_error("connection failed")
    };
    let line = told(&[]);
    assert!(line.contains(" WARN ") && line.ends_with(" event_code=2003"), "{line}");
    let event: Value = serde_json::from_str(&told(&["--events", "json"])).unwrap();
    assert_eq!((&event["code"], &event["level"]), (&2003.into(), &"WARN".into()));
    assert_eq!(event["text"], "connection failed");
    assert_eq!(event["fields"]["destination"], "127.0.0.1:1");
}

#[test]
fn a_client_can_be_administered_too() {
    let dir = TempDir::new();
    let made = run_in(dir.path(), &["admin", "token", "add", "me", "--role", "operator"], b"");
    fs::write(dir.path().join("token"), made.out).unwrap();
    let text = format!(
        "[admin]\naddress = '127.0.0.1:0'\n{}store_dir = 'client'\n",
        session("initiator", "127.0.0.1:1")
    );
    fs::write(dir.path().join("client.toml"), text).unwrap();
    let client = Program::start(&dir, &["connect", "client.toml", "--quiet"]);
    let line = client.wait_for("administration at http");
    let url = line.rsplit(' ').next().unwrap();
    let who = ["admin", "sessions", "--token-file", "token", "--url", url];
    let shown = run_in(dir.path(), &who, b"").out;
    assert!(shown.contains("FIX.4.4:VENUE->CLIENT"), "{shown}");
    let reload = run_in(dir.path(), &[&["admin", "reload"][..], &who[2..]].concat(), b"");
    assert!(reload.err.contains("needs the role administrator"), "{reload:?}");
}

/// Actions work over FIX as over HTTP, by commands of the program and by raw XML.
#[test]
fn an_operator_asks_over_fix() {
    let dir = TempDir::new();
    let admin = "[engine]\naudit_file = 'audit.jsonl'\n[admin]\naddress = '127.0.0.1:0'\n\
                 [admin.fix]\naddress = '127.0.0.1:0'\n";
    let text = format!("{admin}{}store_dir = 'venue'\n", session("acceptor", "127.0.0.1:0"));
    fs::write(dir.path().join("venue.toml"), text).unwrap();
    fs::write(dir.path().join("pw"), "correct horse battery\n").unwrap();
    for role in ["viewer", "administrator"] {
        let add = ["admin", "user", "add", role, "--role", role];
        assert_eq!(run_in(dir.path(), &add, b"correct horse battery\n").code, 0);
    }
    let mut venue = Program::start(&dir, &["serve", "venue.toml", "--quiet"]);
    let line = venue.wait_for("administration over FIX at ");
    let address = line.rsplit(' ').next().unwrap().to_owned();
    let ask = |user: &str, args: &[&str]| {
        let who = ["admin", "--fix", &address, "--user", user, "--password-file", "pw"];
        run_in(dir.path(), &[&who[..], args].concat(), b"")
    };
    let all = ask("viewer", &["sessions"]);
    assert!(all.code == 0 && all.out.contains(ID) && all.out.contains("not logged on"), "{all:?}");
    assert_eq!(all.err, "");
    assert!(ask("viewer", &["session", ID]).out.contains("next_num_in"));
    let help = ask("viewer", &["xml", "<Help RequestID=\"4\"/>"]);
    assert!(help.out.starts_with("<Response ResultCode=\"0\" RequestID=\"4\">"), "{help:?}");
    let refused = ask("viewer", &["do", ID, "log_out"]);
    assert!(refused.code == 1 && refused.err.contains("needs the role operator"), "{refused:?}");
    assert_eq!(ask("administrator", &["do", ID, "log_out", "text=lunch"]).out, "done\n");
    let numbers = ["do", ID, "set_numbers", "next_in=7"];
    let unsure = ask("administrator", &numbers);
    assert!(unsure.code == 2 && unsure.err.contains("--confirm"), "{unsure:?}");
    let sure = ask("administrator", &[&numbers[..], &["--confirm", ID]].concat());
    assert_eq!(sure.out, "done\n", "{sure:?}");
    let shown = ask("viewer", &["sessions", "--json"]);
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!((&shown[0]["next_num_in"], &shown[0]["enabled"]), (&7.into(), &false.into()));
    let absent = ask("viewer", &["audit"]);
    assert!(absent.code == 2 && absent.err.contains("not available over FIX"), "{absent:?}");
    assert_eq!(ask("administrator", &["reload"]).out, "nothing has changed\n");
    assert_eq!(ask("administrator", &["stop", "--confirm", "stop"]).code, 0);
    assert_eq!(venue.ended().0, Some(0));
    let audit = fs::read_to_string(dir.path().join("audit.jsonl")).unwrap();
    assert!(audit.contains("\"from\":\"fix 127.0.0.1:"), "{audit}");
}

/// JSON members of a session that HTTP shows and FIX does not.
const NOT_OVER_FIX: &[&str] = &[
    "address",
    "counters.business_rejects_in",
    "counters.business_rejects_out",
    "counters.disconnects",
    "counters.garbled",
    "counters.logons",
    "counters.logons_refused",
    "counters.not_logged",
    "counters.not_stored",
    "counters.passed_over",
    "counters.refused",
    "counters.rejects_in",
    "counters.rejects_out",
    "counters.resend_requests_in",
    "counters.resend_requests_out",
    "counters.resent",
    "heart_bt_int_s",
    "held_up_by",
    "last_end",
    "queued_bytes",
    "silent_ms",
    "holds_sending",
    "slow_consumer",
    "unusual_latency",
    "waiting_for_application",
];

/// Returns the members of a session by name, including the members of its counters.
fn members(session: &Value) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for (name, value) in session.as_object().unwrap() {
        match (&**name, value) {
            ("counters", Value::Object(counters)) => {
                let of =
                    |(name, value): (&String, &Value)| (format!("counters.{name}"), value.clone());
                all.extend(counters.iter().map(of));
            }
            _ => _ = all.insert(name.clone(), value.clone()),
        }
    }
    all
}

#[test]
fn the_list_over_fix_has_each_member_of_the_list_over_http() {
    let desk = AdministeredVenue::new();
    let parsed = |run: Run| {
        assert_eq!((run.code, &*run.err), (0, ""), "{run:?}");
        members(&serde_json::from_str::<Value>(&run.out).unwrap()[0])
    };
    let over_http = || {
        let mut all = parsed(desk.ask("viewer", &["sessions", "--json"]));
        all.insert("silent_ms".to_owned(), 0.into());
        all
    };
    let compare = |state: (&str, &str)| {
        // The comparison is repeated if a message arrived between the two requests.
        let (http, fix) = loop {
            let before = over_http();
            let fix = parsed(desk.ask_over_fix("viewer", &["sessions", "--json"]));
            if before == over_http() {
                break (before, fix);
            }
        };
        let names = |all: &BTreeMap<String, Value>| all.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&http), names(&fix));
        for (name, value) in &fix {
            match &**name {
                // HTTP and FIX have different names for the states.
                "state" => assert_eq!((&http[name], value), (&state.0.into(), &state.1.into())),
                _ if NOT_OVER_FIX.contains(&&**name) => assert_eq!(*value, Value::Null, "{name}"),
                _ => assert_eq!(*value, http[name], "{name}"),
            }
        }
        fix
    };
    compare(("Disconnected", "WAITING_FOR_CONNECT"));
    write_client(&desk.dir, &desk.listening, "");
    let client = Program::start(&desk.dir, &["connect", "client.toml", "--quiet"]);
    client.wait_for("logged on");
    let shown = compare(("Active", "CONNECTED"));
    let peer = shown["peer"].as_str().unwrap();
    assert!(peer.starts_with("127.0.0.1:"), "{peer}");
    let table = desk.ask_over_fix("viewer", &["sessions"]).out;
    assert!(table.contains(peer), "{table}");
}

#[test]
fn who_speaks_no_tls_with_the_administration_is_told_of() {
    let dir = TempDir::new();
    let own = Authority::new(dir.path(), "authority").sign(&["localhost"], 1, Valid::Now);
    let (certificate, key) = (own.certificate.display(), own.key.display());
    let text = format!(
        "[admin]\naddress = '127.0.0.1:0'\ncertificate = '{certificate}'\nkey = '{key}'\n{}\
         store_dir = 'venue'\n",
        session("acceptor", "127.0.0.1:0")
    );
    fs::write(dir.path().join("venue.toml"), text).unwrap();
    let made = run_in(dir.path(), &["admin", "token", "add", "viewer", "--role", "viewer"], b"");
    assert_eq!(made.code, 0, "{made:?}");
    let mut venue = Program::start(&dir, &["serve", "venue.toml", "--quiet"]);
    let line = venue.wait_for("administration at https://");
    let address = line.rsplit("//").next().unwrap().trim_end_matches('/').to_owned();
    let speak = || {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    };
    // Many connections in a short time are reported by at most one line per second.
    (0..100).for_each(|_| speak());
    let line = venue.wait_for_error("closed: the TLS handshake failed");
    assert!(line.contains("from=127.0.0.1 ") && line.contains("why="), "{line}");
    venue.signal();
    let (code, told) = venue.ended();
    assert_eq!(code, Some(0));
    assert!(told.matches("the TLS handshake failed").count() < 20, "{told}");
}

#[test]
fn a_password_that_is_typed_as_a_name_is_in_no_log() {
    let dir = TempDir::new();
    let text = session("acceptor", "127.0.0.1:0")
        + "store_dir = 'venue'\n[admin]\naddress = '127.0.0.1:0'\n\
           [admin.fix]\naddress = '127.0.0.1:0'\n";
    fs::write(dir.path().join("venue.toml"), text).unwrap();
    let add = ["admin", "user", "add", "anna", "--role", "viewer"];
    assert_eq!(run_in(dir.path(), &add, b"correct horse battery\n").code, 0);
    let mut venue = Program::start(&dir, &["--verbose", "serve", "venue.toml", "--quiet"]);
    let line = venue.wait_for("administration at http://");
    let address = line.rsplit('/').next().unwrap().to_owned();
    let line = venue.wait_for("administration over FIX at ");
    let over_fix = line.rsplit(' ').next().unwrap().to_owned();
    let log_in = |name: &str, password: &str| {
        let body = format!("{{\"name\":\"{name}\",\"password\":\"{password}\"}}");
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = format!(
            "POST /api/login HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    };
    log_in("correct horse battery", "anna");
    log_in("anna", "correct horse");
    fs::write(dir.path().join("pw"), "anna\n").unwrap();
    let who = ["--fix", &over_fix, "--user", "correct horse battery", "--password-file", "pw"];
    let refused = run_in(dir.path(), &[&["admin"][..], &who, &["sessions"]].concat(), b"");
    assert_eq!(refused.code, 1, "{refused:?}");
    let line = venue.wait_for_error("login to the administration failed");
    assert!(line.contains("a name without a user"), "{line}");
    let line = venue.wait_for_error("login to the administration failed");
    assert!(line.contains("user=anna"), "{line}");
    venue.wait_for_error("login to the administration failed");
    venue.signal();
    let (_, log) = venue.ended();
    assert!(!log.contains("correct horse"), "{log}");
}
