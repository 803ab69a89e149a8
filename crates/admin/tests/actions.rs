//! Tests the actions of operators and their lines in the audit file.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;

use serde_json::Value;
use transfix::{Action, EngineAction};
use transfix_admin::users::{Role, Users};

use crate::http::{LONG, answer};
use crate::market::{HELD, ID, Market, PASSWORD, PATH, until};

#[test]
fn an_operator_logs_a_session_out_and_on_again() {
    let market = Market::new();
    let (operator, action) = (market.operator(), format!("{PATH}/actions"));
    let done = operator.post(&action, "{\"action\":\"log_out\",\"text\":\"lunch\"}").good();
    assert_eq!((&done["done"], &done["session"]["enabled"]), (&true.into(), &false.into()));
    let state = || operator.get(PATH).good()["state"].clone();
    until(|| state() == "Disconnected");
    let client = market.client.sessions().next().unwrap();
    until(|| !client.is_logged_on());
    assert_eq!(client.status().last_end.unwrap().text, "lunch", "the counterparty has read it");
    operator.post(&action, "{\"action\":\"log_on\"}").good();
    client.operate(&Action::LogOn {}).unwrap();
    until(|| state() == "Active");
}

#[test]
fn who_holds_sending_is_seen_until_it_is_released() {
    let market = Market::new();
    let (operator, action) = (market.operator(), format!("{PATH}/actions"));
    let shown = || {
        let session = operator.get(PATH).good();
        (session["holds_sending"].clone(), session["problem"].clone())
    };
    assert_eq!(shown(), (false.into(), Value::Null));
    operator.post(&action, "{\"action\":\"hold_sending\"}").good();
    assert_eq!(shown(), (true.into(), "sending held".into()));
    operator.post(&action, "{\"action\":\"release_sending\"}").good();
    assert_eq!(shown(), (false.into(), Value::Null));
}

#[test]
fn what_is_dangerous_is_done_when_the_name_is_typed() {
    let market = Market::new();
    let (administrator, action) = (market.administrator(), format!("{PATH}/actions"));
    let numbers = |confirm: &str| {
        format!("{{\"action\":\"set_numbers\",\"next_in\":77,\"confirm\":\"{confirm}\"}}")
    };
    let before = administrator.get(PATH).good()["next_num_in"].clone();
    for wrong in ["", "FIX.4.4:VENUE->OTHER"] {
        let why = administrator.post(&action, &numbers(wrong)).refused(428);
        assert_eq!(
            why,
            format!(
                "set_numbers is dangerous; write \"confirm\": \"{ID}\" to \
                                 confirm it"
            )
        );
    }
    assert_eq!(administrator.get(PATH).good()["next_num_in"], before);
    let done = administrator.post(&action, &numbers(ID)).good();
    assert_eq!(done["session"]["next_num_in"], 77);
    let done = administrator.post(&action, &numbers(ID).replace("77", "78.0")).good();
    assert_eq!(done["session"]["next_num_in"], 78, "to JSON it is the same number");
    let wrong = numbers(ID).replace("77", "77.5");
    assert!(administrator.post(&action, &wrong).refused(400).contains("77.5"));
}

#[test]
fn what_a_session_refuses_has_its_number() {
    let market = Market::new();
    let (administrator, action) = (market.administrator(), format!("{PATH}/actions"));
    let body = format!("{{\"action\":\"sequence_reset\",\"new_seq_no\":1,\"confirm\":\"{ID}\"}}");
    let answer = administrator.post(&action, &body);
    assert_eq!((answer.status, &answer.json()["code"]), (409, &1305.into()));
}

#[test]
fn every_action_is_in_the_audit_with_who_asked_for_it() {
    let market = Market::new();
    let action = format!("{PATH}/actions");
    market.operator().post(&action, "{\"action\":\"test_request\",\"id\":\"up?\"}").good();
    market.viewer().post(&action, "{\"action\":\"heartbeat\"}").refused(403);
    let audit = market.viewer().get("/api/audit").good();
    let lines = audit["lines"].as_array().unwrap().iter();
    let lines: Vec<_> = lines.filter(|line| line["who"] == "operator-program").cloned().collect();
    assert_eq!(lines.len(), 2, "{audit:?}");
    for (line, step) in lines.iter().zip(["asked", "done"]) {
        assert_eq!(line["who"], "operator-program");
        assert_eq!((&line["what"], &line["step"]), (&"test_request id=up?".into(), &step.into()));
    }
    assert!(lines[0]["from"].as_str().unwrap().starts_with("127.0.0.1:"));
    let one = market.viewer().get("/api/audit?limit=1").good();
    assert_eq!(one["lines"].as_array().unwrap().len(), 1);
}

/// The audit records logins, refused actions, and users added to the users file.
#[test]
fn who_comes_in_and_what_is_refused_is_in_the_audit() {
    let market = Market::new();
    let lines = || {
        let audit = market.viewer().get("/api/audit?limit=200").good();
        audit["lines"].as_array().unwrap().clone()
    };
    let has = |who: &str, what: &str, step: &str, said: &str| {
        lines().iter().any(|line| {
            let text = line["after"].as_str().or(line["why"].as_str()).unwrap_or_default();
            line["who"] == who
                && line["what"] == what
                && line["step"] == step
                && text.contains(said)
        })
    };
    let file = "file of users";
    assert!(has(file, "users at the start", "done", "viewer-person: user, viewer"));
    market.viewer().post(&format!("{PATH}/actions"), "{\"action\":\"heartbeat\"}").refused(403);
    let asked = format!("POST {PATH}/actions");
    until(|| has("viewer-program", &asked, "refused", "needs the role operator"));
    market.viewer().post("/api/engine/reload", "").refused(403);
    until(|| has("viewer-program", "POST /api/engine/reload", "refused", "administrator"));
    let credentials = format!("{{\"name\":\"operator-person\",\"password\":\"{PASSWORD}\"}}");
    market.stranger().post("/api/login", &credentials).good();
    assert!(has("operator-person", "log in", "done", ""));
    // Adds a user in the same way as the command line.
    let path = market.dir.path().join("users.toml");
    let mut users = Users::load(&path).unwrap();
    users.add_token("intruder", Role::Administrator).unwrap();
    users.remove("viewer-person");
    users.set_user("operator-person", Role::Viewer, PASSWORD).unwrap();
    users.save(&path).unwrap();
    for said in
        ["intruder added: token, administrator", "viewer-person removed", "changed: user, viewer"]
    {
        assert!(has(file, "users changed", "done", said), "{said}: {:?}", lines());
    }
}

#[test]
fn the_program_is_asked_for_what_only_it_can_do() {
    let market = Market::new();
    let administrator = market.administrator();
    let why = administrator.post("/api/engine/reload", "").refused(501);
    assert_eq!(why, "this program does not accept such requests");
    let (to, requests) = mpsc::channel();
    market.venue.admin().take_requests(move |request| to.send(request).unwrap());
    let program = thread::spawn(move || {
        for request in requests.iter().take(3) {
            match request.action {
                EngineAction::Reload => request.answer(Ok("nothing has changed".to_owned())),
                _ => request.answer(Err("not today".to_owned())),
            }
        }
    });
    let reloaded = administrator.post("/api/engine/reload", "").good();
    assert_eq!(reloaded["said"], "nothing has changed");
    let why = administrator.post("/api/engine/stop", "{\"confirm\":\"yes\"}").refused(428);
    assert!(why.contains("to stop the engine"));
    let why = administrator.post("/api/engine/stop", "{\"confirm\":\"stop\"}").refused(409);
    assert_eq!(why, "not today");
    administrator.post("/api/engine/reload", "").good();
    program.join().unwrap();
}

/// If nine administrators wait for a program that does not answer, all other requests are served.
#[test]
fn who_waits_for_the_program_holds_up_nobody_else() {
    let market = Market::new();
    let (to, requests) = mpsc::channel();
    market.venue.admin().take_requests(move |request| to.send(request).unwrap());
    let administrator = market.administrator();
    let ask = |path: &str, body: &str| {
        let mut socket = TcpStream::connect(administrator.to).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        socket.write_all(administrator.request("POST", path, body).as_bytes()).unwrap();
        socket
    };
    let mut waiting: Vec<_> = (0..2).map(|_| ask("/api/engine/reload", "")).collect();
    let mut asked: Vec<_> = (0..2).map(|_| requests.recv_timeout(LONG).unwrap()).collect();
    for _ in 0..7 {
        let refused = administrator.post("/api/engine/reload", "");
        assert_eq!(refused.header("retry-after"), Some("5"));
        assert!(refused.refused(503).contains("the program is still handling another request"));
    }
    // A disconnected client frees its permit only after the program has answered.
    drop(waiting.pop());
    administrator.get("/api/sessions").good();
    administrator.post("/api/engine/reload", "").refused(503);
    // A stop request has its own permit, so it need not wait for other requests.
    let mut stop = ask("/api/engine/stop", "{\"confirm\":\"stop\"}");
    asked.push(requests.recv_timeout(LONG).unwrap());
    assert!(matches!(asked[2].action, EngineAction::Stop));
    asked.drain(..).for_each(|request| request.answer(Ok("done".to_owned())));
    assert_eq!(answer(&mut waiting[0]).good()["said"], "done");
    assert_eq!(answer(&mut stop).good()["said"], "done");
    let program = thread::spawn(move || requests.recv_timeout(LONG).unwrap().answer(Ok(ID.into())));
    until(|| administrator.post("/api/engine/reload", "").status == 200);
    program.join().unwrap();
}

/// Actions on a session whose callback blocks do not delay requests that only read.
#[test]
fn who_waits_for_a_session_holds_up_nobody_else() {
    let market = Market::new();
    let (operator, action) = (market.operator(), format!("{PATH}/actions"));
    let (comes, goes_on) = market.hold();
    let session = market.client.sessions().next().unwrap();
    session.send("D", |order| _ = order.str(transfix::tag::CL_ORD_ID, HELD)).unwrap();
    comes.recv_timeout(LONG).unwrap();
    let mut waiting: Vec<_> = (0..30)
        .map(|_| {
            let mut socket = TcpStream::connect(operator.to).unwrap();
            socket.set_read_timeout(Some(LONG)).unwrap();
            let body = "{\"action\":\"heartbeat\"}";
            socket.write_all(operator.request("POST", &action, body).as_bytes()).unwrap();
            socket
        })
        .collect();
    for _ in 0..20 {
        operator.get("/api/sessions").good();
    }
    drop(goes_on);
    waiting.iter_mut().for_each(|socket| _ = answer(socket).good());
}

/// The page has its own list of actions and marks dangerous ones; the list must match the engine's
/// actions.
#[test]
fn the_page_knows_the_actions_of_the_engine() {
    let market = Market::new();
    let script = market.stranger().get("/actions.js").body;
    let administrator = market.administrator();
    let mut count = 0;
    for line in script.lines().filter_map(|line| line.trim().strip_prefix("{ name: \"")) {
        let Some((name, rest)) = line.split_once("\", dangerous: ") else { continue };
        let is_dangerous = rest.starts_with("true");
        // These actions have required values; without them, an action is refused.
        let values = match name {
            "sequence_reset" => ",\"new_seq_no\":9",
            "send" => ",\"msg_type\":\"B\",\"fields\":\"148=x\"",
            "resend_request" => ",\"begin\":1",
            "test_request" => ",\"id\":\"x\"",
            _ => "",
        };
        let body = format!("{{\"action\":\"{name}\"{values}}}");
        let answer = administrator.post(&format!("{PATH}/actions"), &body);
        assert_ne!(answer.status, 400, "{name} is no action: {answer:?}");
        assert_eq!(answer.status == 428, is_dangerous, "{name}: {answer:?}");
        count += 1;
    }
    // The list contains all actions except `connect_to`, which the page shows beside the
    // destinations.
    assert_eq!(count, 15);
}
