//! Tests what the administration shows of a fleet.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use serde_json::{Value, json};
use transfix::AdminSettings;
use transfix_admin::{AdminServer, EventRing, Extras, FleetStatus};

use crate::http::Client;
use crate::market::Market;

fn session(name: &str, is_owner: bool, is_logged_on: bool, next: u64) -> Value {
    json!({
        "session": name,
        "is_owner": is_owner,
        "is_logged_on": is_logged_on,
        "next_num_in": next,
        "next_num_out": next + 1,
    })
}

/// Returns gateways in the form of `transfix_stores::GatewayStatus`. `gw1` does not know yet that
/// it has lost the session B.
pub(crate) fn gateways() -> Vec<Value> {
    let [a, b, c] = ["FIX.4.4:VENUE->A", "FIX.4.4:VENUE->B", "FIX.4.4:VENUE->C"];
    let one = [session(a, true, true, 7), session(b, true, false, 3), session(c, false, false, 1)];
    let two = [session(a, false, false, 1), session(b, true, true, 5), session(c, false, false, 1)];
    vec![
        json!({ "gateway": "gw1", "is_drained": false, "sessions": one, "run": u64::MAX }),
        json!({ "gateway": "gw2", "is_drained": true, "sessions": two, "run": 2 }),
    ]
}

#[test]
fn gateways_and_owners_are_shown() {
    let market = Market::new();
    *market.gateways.lock().unwrap() = Ok(gateways());
    let gateway = |name: &str, drained: bool, owned: u64, logged_on: u64| {
        json!({ "name": name, "drained": drained, "sessions": 3, "owned": owned,
            "logged_on": logged_on })
    };
    let session = |name: &str, owner: Option<&str>, next: u64| {
        json!({ "id": name, "owner": owner, "logged_on": owner.is_some(), "next_num_in": next,
            "next_num_out": next + 1 })
    };
    let expected = json!({
        "gateways": [gateway("gw1", false, 2, 1), gateway("gw2", true, 1, 1)],
        "sessions": [
            session("FIX.4.4:VENUE->A", Some("gw1"), 7),
            session("FIX.4.4:VENUE->B", Some("gw2"), 5),
            session("FIX.4.4:VENUE->C", None, 1),
        ],
    });
    assert_eq!(market.viewer().get("/api/fleet").good(), expected);
    assert_eq!(market.viewer().get("/api/engine").good()["fleet"], true);
    market.stranger().get("/api/fleet").refused(401);
    let metrics = market.viewer().get("/metrics").body;
    for line in ["transfix_fleet_gateways 2.0", "transfix_fleet_gateways_drained 1.0"] {
        assert!(metrics.lines().any(|one| one == line), "{metrics}");
    }
}

#[test]
fn a_fleet_that_does_not_answer_is_reported() {
    let market = Market::new();
    *market.gateways.lock().unwrap() = Err("no broker answers".to_owned());
    let why = market.viewer().get("/api/fleet").refused(503);
    assert_eq!(why, "the fleet: no broker answers");
    *market.gateways.lock().unwrap() = Ok(Vec::new());
    // The failure is shown for 2 s.
    let answer = loop {
        let answer = market.viewer().get("/api/fleet");
        if answer.status != 503 {
            break answer;
        }
        thread::yield_now();
    };
    assert_eq!(answer.good(), json!({ "gateways": [], "sessions": [] }));
}

/// Starts a second administration of the market's engine.
fn second(market: &Market, fleet: Option<FleetStatus>) -> (AdminServer, Client) {
    let settings = AdminSettings {
        address: "127.0.0.1:0".to_owned(),
        users_file: market.dir.path().join("users.toml"),
        ..AdminSettings::default()
    };
    let mut extras = Extras::new(EventRing::default());
    extras.fleet = fleet;
    let server = AdminServer::start(&settings, &market.venue.admin(), extras).unwrap();
    let token = format!("Bearer {}", market.tokens[0]);
    let client = Client::new(server.address()).with("Authorization", &token);
    (server, client)
}

#[test]
fn an_engine_without_a_fleet_shows_none() {
    let market = Market::new();
    let (_server, viewer) = second(&market, None);
    viewer.get("/api/fleet").refused(404);
    assert_eq!(viewer.get("/api/engine").good()["fleet"], false);
    assert!(!viewer.get("/metrics").body.contains("transfix_fleet"));
}

#[test]
fn many_viewers_ask_the_gateways_once_at_a_time() {
    const VIEWERS: usize = 8;
    let market = Market::new();
    let (asking, asked) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let count = Arc::clone(&asked);
    let fleet = FleetStatus::new(move || {
        assert_eq!(asking.fetch_add(1, Ordering::SeqCst), 0, "another thread asks too");
        count.fetch_add(1, Ordering::SeqCst);
        thread::yield_now();
        asking.fetch_sub(1, Ordering::SeqCst);
        Err::<Vec<Value>, _>("unknown")
    });
    let (_server, viewer) = second(&market, Some(fleet));
    let start = Barrier::new(VIEWERS);
    thread::scope(|scope| {
        for _ in 0..VIEWERS {
            scope.spawn(|| {
                start.wait();
                assert_eq!(viewer.get("/api/fleet").refused(503), "the fleet: unknown");
            });
        }
    });
    assert!(asked.load(Ordering::SeqCst) < VIEWERS, "an answer serves several viewers");
}
