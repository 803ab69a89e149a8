//! Tests which clients the administration admits and which it refuses.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use transfix::AdminSettings;
use transfix_admin::users::{Role, Users};
use transfix_admin::{AdminServer, Extras};

use crate::http::LONG;
use crate::market::{ID, Market, PASSWORD, PATH, until};

/// Paths that require an authenticated user.
const CLOSED: &[&str] = &[
    "/api/me",
    "/api/sessions",
    PATH,
    "/api/sessions/FIX.4.4:VENUE-%3ECLIENT/messages",
    "/api/events",
    "/api/events/stream",
    "/api/events/levels",
    "/api/audit",
    "/api/settings",
    "/api/certificates",
    "/metrics",
];

/// Body of a request to set other event levels.
const LEVELS: &str = "{\"levels\":\"warn\"}";

#[test]
fn a_stranger_sees_nothing_of_the_sessions() {
    let market = Market::new();
    let stranger = market.stranger();
    for path in CLOSED {
        assert_eq!(stranger.get(path).refused(401), "log in, or send a valid token");
        let guess =
            stranger.with("Authorization", "Bearer tfx_0").with("Cookie", "transfix_login=0");
        guess.get(path).refused(401);
    }
    stranger.put("/api/events/levels", LEVELS).refused(401);
    for path in ["/api/logout", "/api/engine/reload", "/api/engine/rotate-logs", "/api/engine/stop"]
    {
        stranger.post(path, "{\"confirm\":\"stop\"}").refused(401);
    }
    let action = format!("{PATH}/actions");
    stranger.post(&action, "{\"action\":\"disconnect\"}").refused(401);
    for path in ["/", "/app.js", "/style.css", "/api/openapi.json", "/health/live", "/health/ready"]
    {
        let answer = stranger.get(path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.body.contains("CLIENT"), "{path}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert!(answer.header("content-security-policy").is_some());
    }
    stranger.get("/api/nothing").refused(404);
    stranger.get("/nothing").refused(404);
    stranger.post("/api/sessions", "").refused(401);
    stranger.post("/api/events", "").refused(405);
}

#[test]
fn each_role_may_what_it_may() {
    let market = Market::new();
    let action = format!("{PATH}/actions");
    let harmless = "{\"action\":\"heartbeat\"}";
    let dangerous = format!("{{\"action\":\"reset_at_next_logon\",\"confirm\":\"{ID}\"}}");
    let clients = [
        (market.viewer(), market.stranger().logged_in("viewer-person", PASSWORD)),
        (market.operator(), market.stranger().logged_in("operator-person", PASSWORD)),
        (market.administrator(), market.stranger().logged_in("administrator-person", PASSWORD)),
    ];
    for (n, (program, person)) in clients.iter().enumerate() {
        for client in [program, person] {
            client.get("/api/sessions").good();
            let allowed = |at_least: usize| if n >= at_least { 200 } else { 403 };
            assert_eq!(client.post(&action, harmless).status, allowed(1));
            assert_eq!(client.post(&action, &dangerous).status, allowed(2));
            assert_eq!(client.get("/api/events/levels").status, 200);
            assert_eq!(client.put("/api/events/levels", LEVELS).status, allowed(2));
            assert_eq!(client.post("/api/engine/rotate-logs", "").status, allowed(2));
            let stop = client.post("/api/engine/stop", "{\"confirm\":\"stop\"}");
            assert_eq!(stop.status, if n == 2 { 501 } else { 403 }, "this program takes none");
        }
    }
}

/// Returns two numbers: audit lines about refusals of the user `name`, and refusals that these
/// lines count.
pub(crate) fn refusals_of(name: &str, audit: &str) -> (usize, u64) {
    let lines = audit.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let own = lines.filter(|line| line["who"] == name && line["step"] == "refused");
    let stands_for = |line: Value| {
        let counted = line["why"].as_str().unwrap().split_once(" earlier refusals have");
        let counted =
            counted.map_or(0, |(text, _)| text.rsplit(' ').next().unwrap().parse::<u64>().unwrap());
        counted + u64::from(line["what"] != "refused requests")
    };
    let counts: Vec<_> = own.map(stands_for).collect();
    (counts.len(), counts.iter().sum())
}

#[test]
fn a_flood_of_refusals_makes_few_lines_and_all_are_counted() {
    const FLOOD: u64 = 400;
    let market = Market::new();
    let (viewer, action) = (market.viewer(), format!("{PATH}/actions"));
    let harmless = "{\"action\":\"heartbeat\"}";
    for n in 0..FLOOD {
        match n % 2 {
            0 => viewer.post(&action, harmless).refused(403),
            _ => viewer.post("/api/engine/reload", "").refused(403),
        };
    }
    let audit = || fs::read_to_string(market.dir.path().join("audit.jsonl")).unwrap();
    market.administrator().post(&action, harmless).good();
    let done = audit();
    let is_done = |line: &str| {
        line.contains("\"who\":\"administrator-program\"") && line.contains("\"step\":\"done\"")
    };
    assert!(done.lines().any(is_done), "an action is written at once: {done}");
    // The refusals of another user have their own audit lines.
    market.operator().post("/api/engine/reload", "").refused(403);
    until(|| refusals_of("operator-program", &audit()) == (1, 1));
    until(|| refusals_of("viewer-program", &audit()).1 == FLOOD);
    let (lines, _) = refusals_of("viewer-program", &audit());
    assert!(lines < FLOOD as usize / 2, "{lines} lines");
}

#[test]
fn a_page_of_somebody_else_cannot_act() {
    let market = Market::new();
    let person = market.stranger().logged_in("administrator-person", PASSWORD);
    let action = format!("{PATH}/actions");
    let mut forged = person.clone();
    forged.headers.retain(|(name, _)| name != "X-CSRF-Token");
    let why = forged.post(&action, "{\"action\":\"heartbeat\"}").refused(403);
    assert!(why.starts_with("the request lacks the header x-csrf-token"), "{why}");
    let other = market.stranger().logged_in("administrator-person", PASSWORD);
    let theirs = other.headers.iter().find(|(name, _)| name == "X-CSRF-Token").unwrap();
    forged.with("X-CSRF-Token", &theirs.1).post(&action, "{\"action\":\"heartbeat\"}").refused(403);
    forged.get("/api/sessions").good();
    person.post(&action, "{\"action\":\"heartbeat\"}").good();
    let body = format!("{{\"name\":\"viewer-person\",\"password\":\"{PASSWORD}\"}}");
    let cookie = market.stranger().post("/api/login", &body);
    let cookie = cookie.header("set-cookie").unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
}

#[test]
fn who_logs_out_or_is_removed_is_out() {
    let market = Market::new();
    let person = market.stranger().logged_in("operator-person", PASSWORD);
    let other = market.stranger().logged_in("operator-person", PASSWORD);
    person.post("/api/logout", "").good();
    person.get("/api/me").refused(401);
    other.get("/api/me").good();
    let path = market.dir.path().join("users.toml");
    let mut users = Users::load(&path).unwrap();
    users.set_user("operator-person", Role::Viewer, "another password").unwrap();
    users.save(&path).unwrap();
    other.get("/api/me").refused(401);
    let now = market.stranger().logged_in("operator-person", "another password");
    assert_eq!(now.get("/api/me").good()["role"], "viewer", "its role is that of the file");
    assert!(users.remove("operator-person") && users.remove("viewer-program"));
    users.save(&path).unwrap();
    now.get("/api/me").refused(401);
    market.viewer().get("/api/me").refused(401);
    // If the users file cannot be read, every client is refused.
    fs::write(&path, "nonsense").unwrap();
    market.administrator().get("/api/me").refused(401);
}

#[test]
fn who_guesses_the_password_of_a_user_waits_and_other_users_do_not() {
    let market = Market::new();
    let stranger = market.stranger();
    let guess = |name: &str| {
        stranger.post("/api/login", &format!("{{\"name\":\"{name}\",\"password\":\"guess\"}}"))
    };
    for name in ["viewer-person", "nobody", "viewer-person", "nobody"] {
        assert_eq!(
            guess(name).refused(401),
            "the user name or the password is wrong",
            "of both alike"
        );
    }
    // On a slow machine, the delay may already be over; a further failure then doubles the delay,
    // so the loop ends.
    let guess_until_refused = |name: &str| {
        let mut refused = guess(name);
        while refused.status == 401 {
            refused = guess(name);
        }
        refused
    };
    for name in ["viewer-person", "nobody"] {
        let refused = guess_until_refused(name);
        assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        let why = refused.refused(429);
        assert!(why.starts_with("too many wrong passwords; try again in "), "{why}");
    }
    let right = format!("{{\"name\":\"viewer-person\",\"password\":\"{PASSWORD}\"}}");
    let waits = (0..20).any(|_| {
        guess_until_refused("viewer-person").refused(429);
        stranger.post("/api/login", &right).status == 429
    });
    assert!(waits, "the right password waits too");
    market.viewer().get("/api/me").good();
    stranger.logged_in("operator-person", PASSWORD).get("/api/me").good();
}

#[test]
fn a_user_who_was_there_before_is_not_locked_out_by_guesses() {
    let market = Market::new();
    let stranger = market.stranger();
    stranger.logged_in("viewer-person", PASSWORD);
    let wrong = "{\"name\":\"viewer-person\",\"password\":\"guess\"}";
    for _ in 0..4 {
        stranger.post("/api/login", wrong).refused(401);
    }
    stranger.logged_in("viewer-person", PASSWORD).get("/api/me").good();
}

#[test]
fn what_is_no_request_is_refused_and_holds_up_nobody() {
    let market = Market::new();
    let administrator = market.administrator();
    let action = format!("{PATH}/actions");
    for body in ["", "{", "[]", "{\"action\":\"fly\"}", "{\"action\":\"log_on\",\"now\":1}"] {
        administrator.post(&action, body).refused(400);
    }
    administrator.post(&action, &"x".repeat(100_000)).refused(413);
    administrator.post("/api/sessions/none/actions", "{\"action\":\"log_on\"}").refused(404);
    administrator.get("/api/events?after=x").refused(400);
    // The clients send half a request, garbage, or nothing.
    let silent: Vec<_> = (0..50)
        .map(|n| {
            let mut socket = TcpStream::connect(market.server.address()).unwrap();
            let sent =
                ["", "GET / HTTP/1.1\r\nHost:", "\x16\x03\x01\x00\x00", "8=FIX.4.4\x019=5\x01"];
            socket.write_all(sent[n % sent.len()].as_bytes()).unwrap();
            socket
        })
        .collect();
    administrator.get("/api/sessions").good();
    let mut garbage = &silent[2];
    garbage.set_read_timeout(Some(LONG)).unwrap();
    let mut answer = Vec::new();
    // The result is ignored, because the server either refuses the request or closes the
    // connection.
    let _ = garbage.read_to_end(&mut answer);
    administrator.get("/api/sessions").good();
}

#[test]
fn it_does_not_start_where_it_would_not_be_safe() {
    let market = Market::new();
    let path = market.dir.path().join("users.toml");
    let try_with = |change: &dyn Fn(&mut AdminSettings)| {
        let (address, users_file) = ("127.0.0.1:0".to_owned(), path.clone());
        let mut settings = AdminSettings { address, users_file, ..AdminSettings::default() };
        change(&mut settings);
        let server = AdminServer::start(&settings, &market.venue.admin(), Extras::default());
        server.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(try_with(&|_| ()), "");
    let open = try_with(&|s| s.address = "0.0.0.0:0".to_owned());
    assert!(open.contains("other machines can reach address"), "{open}");
    let none = try_with(&|s| s.users_file = "none.toml".into());
    assert!(
        none.contains("`transfix admin user add --file none.toml NAME` creates the file"),
        "{none}"
    );
    let half = try_with(&|s| s.certificate = "x.pem".into());
    assert!(
        half.ends_with("certificate and key must be set together; one of them is missing"),
        "{half}"
    );
    let taken = try_with(&|s| s.address = market.server.address().to_string());
    assert!(taken.contains("in use"), "{taken}");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let written = try_with(&|_| ());
    assert!(written.contains("others may write the file"), "{written}");
}
