//! Sessions that administrators add, change and remove while `transfix serve` or `transfix run` is
//! running.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;
use transfix_testkit::certificates::{Authority, Valid};
use transfix_testkit::temp::TempDir;

use crate::command_line::admin::AdministeredVenue;
use crate::command_line::running::Program;
use crate::command_line::{run_in, session};

const ID: &str = "FIX.4.4:VENUE->CLIENT";
const NEW: &str = "FIX.4.4:VENUE->NEW";
/// The settings line for a session with a protocol log.
const LOG: &str = "log = { dir = 'log', direction = 'words' }\n";

/// Returns the settings of a new session at the same address as the session in the file.
fn new(keys: &str) -> String {
    session("acceptor", "127.0.0.1:0").replace("'CLIENT'", "'NEW'") + keys
}

impl AdministeredVenue {
    /// Checks that a counterparty with this name can trade.
    fn trades(&self, name: &str) {
        let settings = format!(
            "[[session]]\nrole = 'initiator'\naddress = '{}'\nbegin_string = 'FIX.4.4'\n\
             sender_comp_id = '{name}'\ntarget_comp_id = 'VENUE'\nstore_dir = 'clients'\n",
            self.listening
        );
        fs::write(self.dir.path().join("client.toml"), settings).unwrap();
        let script = b"wait\nbuy 10 EU 30.5\nexpect ExecutionReport within 100\nquit\n";
        let run = run_in(self.dir.path(), &["connect", "client.toml", "--quiet"], script);
        assert_eq!(run.code, 0, "{run:?}");
    }

    /// Reads the address that the venue prints, because a reopened listener with port 0 gets
    /// another port.
    fn listens_anew(&mut self) {
        let line = self.venue.wait_for("listening at ");
        self.listening = line.rsplit(' ').next().unwrap().to_owned();
    }

    fn file(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join(name), text).unwrap();
    }

    fn ids(&self) -> Vec<String> {
        let all = self.good("viewer", &["sessions", "--json"]);
        let all: Value = serde_json::from_str(&all).unwrap();
        let all = all.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned());
        let mut all: Vec<_> = all.collect();
        all.sort();
        all
    }
}

#[test]
fn a_session_is_added_trades_outlives_a_reload_and_is_removed() {
    let mut desk = AdministeredVenue::of(LOG);
    desk.file("new.toml", &new(""));
    desk.refused("operator", &["add", "new.toml"], "needs the role administrator");
    assert_eq!(desk.ids(), [ID]);
    let added = desk.good("administrator", &["add", "new.toml"]);
    let expected = format!(
        "{NEW}: added until it is removed or the program ends; the settings file does not have \
         this session\n"
    );
    assert_eq!(added, expected);
    desk.venue.wait_for(expected.trim_end());
    desk.refused(
        "administrator",
        &["add", "new.toml"],
        "a session with this identity exists already (1405)",
    );
    assert_eq!(desk.ids(), [ID, NEW]);
    desk.trades("NEW");
    // The session has a protocol log of its own, which rotates with the others, by command and by
    // signal.
    let log = || fs::read_dir(desk.dir.path().join("log")).unwrap();
    let of_new = || {
        log().filter(|file| {
            file.as_ref().unwrap().file_name().to_string_lossy().contains("VENUE-NEW")
        })
    };
    assert_eq!(of_new().count(), 1);
    let rotated = desk.good("administrator", &["rotate-logs"]);
    assert!(rotated.starts_with("rolled: 1 file of the protocol logs"), "{rotated}");
    desk.trades("NEW");
    desk.venue.send(Signal::USR1);
    let until = transfix::clock::monotonic_ns() + 20_000_000_000;
    while of_new().count() < 3 {
        assert!(
            transfix::clock::monotonic_ns() < until,
            "not rotated: {:?}",
            log().collect::<Vec<_>>()
        );
        std::thread::yield_now();
    }
    // A reload keeps the session, although the file does not contain it.
    assert_eq!(desk.good("administrator", &["reload"]), "nothing has changed\n");
    assert_eq!(desk.ids(), [ID, NEW]);
    // If the file now contains a session with the same identity, the reload is refused with the
    // reason.
    let file = desk.dir.path().join("venue.toml");
    let before = fs::read_to_string(&file).unwrap();
    let both = before + &new("store_dir = 'venue'\n");
    fs::write(&file, &both).unwrap();
    let why = format!("{NEW} was added while the engine ran: remove the session before");
    desk.refused("administrator", &["reload"], &why);
    assert!(desk.venue.wait_for_error(&why).contains("reload: "));
    desk.trades("NEW");
    let remove = ["remove", NEW, "--text", "good bye"];
    desk.refused("administrator", &remove, "the removal of a session is dangerous; add --confirm ");
    let sure = [&remove[..], &["--confirm", NEW]].concat();
    desk.refused("operator", &sure, "needs the role administrator");
    assert_eq!(desk.good("administrator", &sure), format!("{NEW}: removed\n"));
    assert_eq!(desk.ids(), [ID]);
    // After the operator has removed the session, a reload adds the session of the file, with the
    // same store.
    assert_eq!(desk.good("administrator", &["reload"]), format!("{NEW}: added\n"));
    desk.trades("NEW");
    let audit = fs::read_to_string(desk.dir.path().join("audit.jsonl")).unwrap();
    for what in [format!("add {NEW} 127.0.0.1:0"), format!("remove {NEW} text=good bye")] {
        let steps = audit.lines().filter(|line| line.contains(&what));
        let steps: Vec<_> = steps.map(|line| line.contains("\"step\":\"asked\"")).collect();
        assert!(steps.contains(&true) && steps.contains(&false), "{what}: {audit}");
    }
    desk.venue.signal();
    assert_eq!(desk.venue.ended().0, Some(0));
}

#[test]
fn a_session_of_the_file_is_changed_or_removed_until_the_next_reload() {
    let mut desk = AdministeredVenue::of("");
    let text = session("acceptor", "127.0.0.1:0");
    desk.file("same.toml", &text);
    assert_eq!(
        desk.good("administrator", &["change", ID, "same.toml"]),
        format!("{ID}: nothing has changed\n")
    );
    desk.trades("CLIENT");
    let next = |desk: &AdministeredVenue| {
        let shown = desk.good("viewer", &["session", ID, "--json"]);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        (shown["next_num_in"].as_u64().unwrap(), shown["heart_bt_int_s"].as_u64().unwrap())
    };
    let (before, _) = next(&desk);
    desk.file("other.toml", &format!("{text}heart_bt_int_s = 7\n"));
    let how = "restarted with new values of heart_bt_int_s";
    let until = "until the next reload or start: the settings file has the old values";
    assert_eq!(
        desk.good("administrator", &["change", ID, "other.toml"]),
        format!("{ID}: {how}, {until}\n")
    );
    assert_eq!(next(&desk), (before, 7), "with the same store");
    desk.listens_anew();
    desk.trades("CLIENT");
    desk.file("wrong.toml", &format!("{text}heart_bt_int = 7\n"));
    let why = "settings:7: unknown key `heart_bt_int`; did you mean `heart_bt_int_s`?";
    desk.refused("administrator", &["change", ID, "wrong.toml"], why);
    desk.file("new.toml", &new(""));
    let why = "that is FIX.4.4:VENUE->NEW, not FIX.4.4:VENUE->CLIENT";
    desk.refused("administrator", &["change", ID, "new.toml"], why);
    desk.refused("administrator", &["change", NEW, "new.toml"], "no session is named");
    let reloaded = desk.good("administrator", &["reload"]);
    assert_eq!(reloaded, format!("{ID}: restarts because these values changed: heart_bt_int_s\n"));
    desk.listens_anew();
    let sure = ["remove", ID, "--confirm", ID];
    assert_eq!(
        desk.good("administrator", &sure),
        format!(
            "{ID}: removed, until the next reload or start: the settings file still has this \
             session\n"
        )
    );
    assert!(desk.ids().is_empty());
    assert_eq!(desk.good("administrator", &["reload"]), format!("{ID}: added\n"));
    desk.listens_anew();
    desk.trades("CLIENT");
    desk.venue.signal();
    assert_eq!(desk.venue.ended().0, Some(0));
}

#[test]
fn nothing_of_the_machine_is_read_run_or_shown() {
    let desk = AdministeredVenue::of("");
    let secret = desk.dir.path().join("secret");
    fs::write(&secret, "hush-hush\n").unwrap();
    let touched = desk.dir.path().join("touched");
    let (secret, touch) = (secret.display().to_string(), touched.display().to_string());
    for (keys, why) in [
        ("store_dir = '/tmp'", "`store_dir` names files"),
        ("log = { dir = 'x' }", "`log` names files"),
        ("log.dir = 'x'", "`log` names files"),
        ("dictionary = 'x.xml'", "`dictionary` names files"),
        ("appl_versions = { 4 = 'x.xml' }", "`appl_versions` names files"),
        ("tls = { ca = ['x'] }", "`tls.ca` names files"),
        ("[session.tls]\ncertificate = 'x'", "`tls.certificate` names files"),
        ("retention.archive_dir = 'x'", "`retention.archive_dir` names files"),
        ("schedule = { zone = 'UTC', holidays = ['x'] }", "`schedule.holidays` names files"),
        ("qualifier = '${HOME}'", "`qualifier`: write the value itself"),
        ("allow_from = ['${HOME}']", "`allow_from`: write the value itself"),
        (&format!("logon.password = {{ file = '{secret}' }}"), "`logon.password`: write the text"),
        (
            &format!("logon.expected_password = {{ command = ['touch', '{touch}'] }}"),
            "`logon.expected_password`: write the text itself",
        ),
        ("[[session]]\nrole = 'acceptor'", "write exactly one [[session]]"),
        ("[defaults]\nheart_bt_int_s = 7", "`defaults` is accepted only in the settings file"),
        ("[engine]\naudit_file = 'x'", "`engine` is accepted only in the settings file"),
        ("target_comp_id = 'TWICE'", "settings: TOML parse error at line 7"),
        ("heart_bt_int_s = 'x'", "settings:7: `heart_bt_int_s` must be a whole number"),
    ] {
        desk.file("new.toml", &new(&format!("{keys}\n")));
        desk.refused("administrator", &["add", "new.toml"], why);
    }
    desk.file("new.toml", &format!("include = ['{secret}']\n{}", new("")));
    desk.refused(
        "administrator",
        &["add", "new.toml"],
        "`include` is accepted only in the settings file",
    );
    assert_eq!(desk.ids(), [ID]);
    assert!(!touched.exists(), "a program was run");
    desk.file("new.toml", "");
    desk.refused("administrator", &["add", "new.toml"], "write exactly one [[session]]");
    // 192.0.2.1 is not an address of this machine.
    desk.file("new.toml", &new("").replace("127.0.0.1:0", "192.0.2.1:1"));
    desk.refused("administrator", &["add", "new.toml"], "192.0.2.1:1");
    assert_eq!(desk.ids(), [ID]);
}

#[test]
fn a_gateway_takes_a_session_whose_messages_it_need_not_translate() {
    let dir = TempDir::new();
    let path = dir.path();
    let admin = "[admin]\naddress = '127.0.0.1:0'\n";
    let file = format!("{admin}{}store_dir = 'gate'\n", session("acceptor", "127.0.0.1:0"))
        + "offline = 'store'\n";
    fs::write(path.join("gate.toml"), file).unwrap();
    let routes = format!("[[route]]\nfrom = ['FIX.4.*']\nto = ['{ID}']\n");
    fs::write(path.join("routes.toml"), routes).unwrap();
    let made = run_in(path, &["admin", "token", "add", "me", "--role", "administrator"], b"");
    fs::write(path.join("token"), made.out).unwrap();
    let mut gate = Program::start(&dir, &["run", "gate.toml"]);
    let line = gate.wait_for("listening at ");
    let address = line.rsplit(' ').next().unwrap().to_owned();
    let line = gate.wait_for("administration at http");
    let url = line.rsplit(' ').next().unwrap().to_owned();
    let ask = |args: &[&str]| {
        let who = ["--token-file", "token", "--url", &url];
        run_in(path, &[&["admin"][..], args, &who].concat(), b"")
    };
    fs::write(path.join("old.toml"), new("").replace("FIX.4.4", "FIX.4.2")).unwrap();
    let refused = ask(&["add", "old.toml"]);
    assert!(
        refused.code == 1 && refused.err.contains("the gateway does not translate messages"),
        "{refused:?}"
    );
    fs::write(path.join("new.toml"), new("")).unwrap();
    assert_eq!(ask(&["add", "new.toml"]).code, 0);
    // The new session matches the pattern of a route, so its message reaches the store of the
    // route's target.
    let client = format!(
        "[[session]]\nrole = 'initiator'\naddress = '{address}'\nbegin_string = 'FIX.4.4'\n\
         sender_comp_id = 'NEW'\ntarget_comp_id = 'VENUE'\nstore_dir = 'client'\n"
    );
    fs::write(path.join("client.toml"), client).unwrap();
    let script = b"wait\nbuy 10 EU 30.5\nexpect Heartbeat within 1\nquit\n";
    let run = run_in(path, &["connect", "client.toml"], script);
    assert!(run.out.contains("logged on") && !run.out.contains("35=j"), "{run:?}");
    let shown = ask(&["session", ID, "--json"]);
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(shown["next_num_out"], 2, "{shown}");
    gate.signal();
    assert_eq!(gate.ended().0, Some(0));
}

#[test]
fn sessions_are_made_and_deleted_over_fix() {
    let dir = TempDir::new();
    let admin = "[engine]\naudit_file = 'audit.jsonl'\n[admin]\naddress = '127.0.0.1:0'\n\
                 [admin.fix]\naddress = '127.0.0.1:0'\n";
    let text = format!("{admin}{}store_dir = 'venue'\n", session("acceptor", "127.0.0.1:0"));
    fs::write(dir.path().join("venue.toml"), text).unwrap();
    fs::write(dir.path().join("pw"), "correct horse battery\n").unwrap();
    let add = ["admin", "user", "add", "anna", "--role", "administrator"];
    assert_eq!(run_in(dir.path(), &add, b"correct horse battery\n").code, 0);
    let mut venue = Program::start(&dir, &["serve", "venue.toml", "--quiet"]);
    let line = venue.wait_for("administration over FIX at ");
    let address = line.rsplit(' ').next().unwrap().to_owned();
    let ask = |xml: &str| {
        let who = ["admin", "--fix", &address, "--user", "anna", "--password-file", "pw", "xml"];
        run_in(dir.path(), &[&who[..], &[xml]].concat(), b"").out
    };
    let ids = |them: &str| {
        format!("<SenderCompID>VENUE</SenderCompID><TargetCompID>{them}</TargetCompID>")
    };
    let made = |them: &str| {
        ask(&format!("<CreateAcceptor>{}<Version>FIX44</Version></CreateAcceptor>", ids(them)))
    };
    let said = made("NEW");
    assert!(
        said.contains("ResultCode=\"0\"") && said.contains("CreateAcceptor completed: "),
        "{said}"
    );
    assert!(said.contains("added until it is removed or the program ends"), "{said}");
    assert!(made("NEW").contains("a session with this identity exists already"));
    let initiator = ask(&format!(
        "<CreateInitiator>{}<Version>FIX44</Version><RemoteHost>127.0.0.1</RemoteHost>\
         <RemotePort>1</RemotePort></CreateInitiator>",
        ids("ELSEWHERE")
    ));
    assert!(initiator.contains("ResultCode=\"0\""), "{initiator}");
    let deleted = ask(&format!("<Delete>{}</Delete>", ids("NEW")));
    assert!(deleted.contains("Delete completed: FIX.4.4:VENUE-&gt;NEW: removed<"), "{deleted}");
    let all = ask("<DeleteAll/>");
    assert!(all.contains("<Deleted>2</Deleted><Failed>0</Failed>"), "{all}");
    let audit = fs::read_to_string(dir.path().join("audit.jsonl")).unwrap();
    assert!(audit.contains("add FIX.4.4:VENUE->ELSEWHERE 127.0.0.1:1"), "{audit}");
    venue.signal();
    assert_eq!(venue.ended().0, Some(0));
}

#[test]
fn a_reload_shows_the_new_certificate_of_the_administration() {
    let dir = TempDir::new();
    let path = dir.path();
    let authority = Authority::new(path, "authority");
    let (own, ca) = (authority.sign(&["localhost"], 1, Valid::Now), authority.ca);
    fs::copy(&own.certificate, path.join("own.pem")).unwrap();
    fs::copy(&own.key, path.join("own.key")).unwrap();
    let text = format!(
        "[admin]\naddress = '127.0.0.1:0'\ncertificate = 'own.pem'\nkey = 'own.key'\n{}\
         store_dir = 'venue'\n",
        session("acceptor", "127.0.0.1:0")
    );
    fs::write(path.join("venue.toml"), text).unwrap();
    let made = run_in(path, &["admin", "token", "add", "me", "--role", "administrator"], b"");
    fs::write(path.join("token"), made.out).unwrap();
    let mut venue = Program::start(&dir, &["serve", "venue.toml", "--quiet"]);
    let line = venue.wait_for("administration at https://");
    let port = line.rsplit(':').next().unwrap();
    let url = format!("https://localhost:{port}");
    let ask = |ca: &std::path::Path, verb: &str| {
        let ca = ca.display().to_string();
        let who = ["--token-file", "token", "--url", &url, "--ca", &ca];
        run_in(path, &[&["admin", verb][..], &who].concat(), b"")
    };
    assert_eq!(ask(&ca, "reload").out, "nothing has changed\n");
    fs::create_dir(path.join("other")).unwrap();
    let other = Authority::new(&path.join("other"), "other");
    let fresh = other.sign(&["localhost"], 2, Valid::Now);
    fs::copy(&fresh.certificate, path.join("own.pem")).unwrap();
    let refused = ask(&ca, "reload");
    assert!(refused.code == 1 && refused.err.contains("keeps its old certificate"), "{refused:?}");
    venue.wait_for_error("reload: nothing has changed");
    fs::copy(&fresh.key, path.join("own.key")).unwrap();
    let done = ask(&ca, "reload");
    assert!(done.out.ends_with("[admin]: a new certificate is in use\n"), "{done:?}");
    assert_eq!(ask(&ca, "sessions").code, 1, "the old authority has not signed it");
    assert_eq!(ask(&other.ca, "sessions").code, 0);
    venue.signal();
    assert_eq!(venue.ended().0, Some(0));
}
