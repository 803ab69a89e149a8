//! Tests the readiness of the engine while sessions are added and removed.

use std::time::Duration;

use serde_json::Value;
use transfix::{BeginString, Durability, Engine, Role, SessionId, SessionSettings, Settings};
use transfix_admin::{AdminServer, Extras};
use transfix_testkit::app::App;
use transfix_testkit::temp::TempDir;

use crate::http::Client;
use crate::market::users;

fn session(role: Role, counterparty: &str, address: &str) -> SessionSettings {
    let id = SessionId::new(BeginString::Fix44, "VENUE", counterparty);
    let mut session = SessionSettings::new(role, &id, address);
    session.store.durability = Durability::Memory;
    session
}

#[test]
fn listeners_that_come_and_go_are_looked_at() {
    let dir = TempDir::new();
    let first = session(Role::Acceptor, "FIRST", "127.0.0.1:0");
    let mut engine =
        Engine::start(&Settings::of(first.clone()), |_| Box::new(App::silent())).unwrap();
    let (users_file, tokens) = users(dir.path());
    let address = "127.0.0.1:0".to_owned();
    let settings = transfix::AdminSettings { address, users_file, ..Default::default() };
    let extras = Extras::default();
    let server = AdminServer::start(&settings, &engine.admin(), extras).unwrap();
    let client = Client::new(server.address());
    let ready = || {
        let answer = client.get("/health/ready");
        let json = answer.json();
        assert_eq!(answer.status == 200, json["ready"] == true, "{answer:?}");
        json["why"].as_array().unwrap().iter().map(|why| why.as_str().unwrap().to_owned()).collect()
    };
    let shown = || {
        let viewer = client.with("Authorization", &format!("Bearer {}", tokens[0]));
        viewer.get("/api/engine").good()["listening"].clone()
    };
    let of = |engine: &Engine| {
        engine.listening().iter().map(|at| Value::from(at.to_string())).collect::<Vec<_>>()
    };
    let none: [String; 0] = [];
    assert_eq!((ready(), shown()), (Vec::from(none), Value::from(of(&engine))));
    engine.remove(&first.id(), "", Duration::from_secs(1)).unwrap();
    let nothing = "the engine has no session and no listener";
    assert_eq!((ready(), shown()), (vec![nothing.to_owned()], Value::from(Vec::<Value>::new())));
    // The session listens again, at another port that the system chooses.
    engine.add(&first, Box::new(App::silent())).unwrap();
    assert_eq!(engine.listening().len(), 1);
    assert_eq!((ready(), shown()), (Vec::new(), Value::from(of(&engine))));
    let second = session(Role::Acceptor, "SECOND", "127.0.0.2:0");
    engine.add(&second, Box::new(App::silent())).unwrap();
    assert_eq!((shown(), of(&engine).len()), (Value::from(of(&engine)), 2));
    let admin = engine.admin();
    engine.stop(Duration::ZERO);
    assert!(!admin.accepts());
    let ended: Vec<String> = ready();
    assert!(ended.contains(&"the engine accepts no connections".to_owned()), "{ended:?}");
}

#[test]
fn an_engine_without_a_listener_gets_one() {
    let dir = TempDir::new();
    let initiator = session(Role::Initiator, "FAR", "127.0.0.1:1");
    let mut engine = Engine::start(&Settings::of(initiator), |_| Box::new(App::silent())).unwrap();
    let (users_file, _) = users(dir.path());
    let address = "127.0.0.1:0".to_owned();
    let settings = transfix::AdminSettings { address, users_file, ..Default::default() };
    let server = AdminServer::start(&settings, &engine.admin(), Extras::default()).unwrap();
    let client = Client::new(server.address());
    assert_eq!(client.get("/health/ready").status, 200);
    engine.add(&session(Role::Acceptor, "NEAR", "127.0.0.1:0"), Box::new(App::silent())).unwrap();
    assert_eq!(engine.admin().listening(), engine.listening());
    assert_eq!(client.get("/health/ready").status, 200);
    // After the stop the listener still exists, but no thread accepts its connections.
    engine.stop(Duration::ZERO);
    let why = client.get("/health/ready").json()["why"].to_string();
    assert!(why.contains("the engine accepts no connections"), "{why}");
}
