//! Checks that the answers of the server match `openapi.json`.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;

use boon::{Compiler, Draft, Schemas};
use serde_json::{Value, json};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::http::Answer;
use crate::market::{ID, Market, PASSWORD, PATH, until};

const PLACE: &str = "http://127.0.0.1/openapi.json";

/// The document `openapi.json`, and the answers seen so far.
struct Described {
    document: Value,
    seen: BTreeSet<(String, String, u16)>,
}

impl Described {
    fn of(market: &Market) -> Self {
        let answer = market.stranger().get("/api/openapi.json");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        Self { document: answer.good(), seen: BTreeSet::new() }
    }

    /// Returns the JSON pointer to the schema of an answer with this status.
    fn answer_at(&self, method: &str, path: &str, status: u16) -> String {
        let path = path.replace('~', "~0").replace('/', "~1");
        let at = format!("/paths/{path}/{method}/responses/{status}");
        let found = self.document.pointer(&at).unwrap_or_else(|| panic!("{at} is not described"));
        match found.get("$ref").and_then(Value::as_str) {
            Some(at) => at.strip_prefix('#').unwrap().to_owned(),
            None => at,
        }
    }

    /// Checks that an answer matches its schema in the document.
    #[track_caller]
    fn fits(&mut self, method: &str, path: &str, answer: &Answer) {
        let at = self.answer_at(method, path, answer.status);
        let described = self.document.pointer(&at).unwrap();
        let kinds = described["content"].as_object().unwrap();
        let kind = answer.header("content-type").unwrap().split(';').next().unwrap();
        assert!(kinds.contains_key(kind), "{method} {path}: {kind}");
        for (name, _) in described["headers"].as_object().into_iter().flatten() {
            assert!(answer.header(name).is_some(), "{method} {path}: {name} is missing");
        }
        if kind == "application/json" {
            let at = format!("{at}/content/application~1json/schema");
            let wrong = invalid(&self.document, &at, &answer.json());
            assert_eq!(wrong, None, "{method} {path}: {}", answer.body);
        }
        self.seen.insert((method.to_owned(), path.to_owned(), answer.status));
    }

    /// Returns the methods and paths in the document for which no successful answer has been seen.
    fn not_seen(&self) -> Vec<(String, String)> {
        let items = self.document["paths"].as_object().unwrap().iter();
        let all = items.flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(move |method| (method.clone(), path.clone()))
        });
        all.filter(|(method, path)| !self.seen.contains(&(method.clone(), path.clone(), 200)))
            .collect()
    }
}

/// Returns the error of validating `value` against the schema at the JSON pointer `at`, or `None`
/// if it is valid.
fn invalid(document: &Value, at: &str, value: &Value) -> Option<String> {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.set_default_draft(Draft::V2020_12);
    compiler.add_resource(PLACE, document.clone()).unwrap();
    let place = format!("{PLACE}#{at}");
    let schema = compiler.compile(&place, &mut schemas).unwrap_or_else(|why| panic!("{at}: {why}"));
    schemas.validate(value, schema).err().map(|error| format!("{error:#}"))
}

fn answer_requests(market: &Market) {
    let (to, requests) = mpsc::channel();
    market.venue.admin().take_requests(move |request| to.send(request).unwrap());
    thread::spawn(move || {
        for request in requests {
            request.answer(Ok("nothing has changed".to_owned()));
        }
    });
}

fn reloads_rotates_logs_and_sets_levels(described: &mut Described, market: &Market) {
    let (viewer, administrator) = (market.viewer(), market.administrator());
    let reload = "/api/engine/reload";
    for asks in [&administrator, &viewer] {
        described.fits("post", reload, &asks.post(reload, ""));
    }
    let rotate = "/api/engine/rotate-logs";
    described.fits("post", rotate, &administrator.post(rotate, ""));
    described.fits("post", rotate, &viewer.post(rotate, ""));
    let levels = "/api/events/levels";
    described.fits("get", levels, &viewer.get(levels));
    for (asks, body) in [
        (&administrator, "{\"levels\":\"warn,transfix::link=debug\"}"),
        (&administrator, "{\"levels\":\"loud\"}"),
        (&administrator, "{\"levels\":\"info,warn\"}"),
        (&viewer, "{\"levels\":\"off\"}"),
    ] {
        described.fits("put", levels, &asks.put(levels, body));
    }
    described.fits("get", levels, &viewer.get(levels));
}

fn adds_changes_and_removes_sessions(described: &mut Described, market: &Market) {
    let (viewer, administrator) = (market.viewer(), market.administrator());
    let (all, one) = ("/api/sessions", "/api/sessions/{id}");
    let text = |to: &str, more: &str| {
        let text = format!(
            "[[session]]\nrole = \"acceptor\"\nbegin_string = \"FIX.4.4\"\n\
             sender_comp_id = \"VENUE\"\ntarget_comp_id = \"{to}\"\naddress = \"127.0.0.1:0\"\n\
             {more}"
        );
        json!({ "settings": text }).to_string()
    };
    for (asks, body) in [
        (&administrator, &*text("NEW", "")),
        (&administrator, &*text("NEW", "store_dir = \"x\"")),
        (&administrator, "{\"setting\":\"\"}"),
        (&viewer, &*text("NEW", "")),
    ] {
        described.fits("post", all, &asks.post(all, body));
    }
    for (path, body) in
        [(PATH, text("CLIENT", "")), (PATH, text("NEW", "")), (NOBODY, text("NEW", ""))]
    {
        described.fits("put", one, &administrator.put(path, &body));
    }
    let sure = format!("{PATH}?confirm=FIX.4.4:VENUE-%3ECLIENT");
    for path in [&*sure, PATH, NOBODY, &format!("{PATH}?sure=x")] {
        described.fits("delete", one, &administrator.delete(path));
    }
}

const NOBODY: &str = "/api/sessions/nobody";

#[test]
fn all_answers_are_as_described() {
    let market = Market::new();
    *market.gateways.lock().unwrap() = Ok(crate::fleet::gateways());
    market.trade(3);
    let subscriber = tracing_subscriber::registry().with(market.events.layer());
    tracing::subscriber::with_default(subscriber, || {
        tracing::warn!(target: "transfix::test", session = %ID, seq = 7, "something happened");
    });
    let mut described = Described::of(&market);
    let (viewer, administrator) = (market.viewer(), market.administrator());
    let get = |described: &mut Described, path: &str, asked: &str| {
        described.fits("get", path, &viewer.get(asked));
    };
    let known = ["/api/sessions", "/api/events", "/api/audit", "/api/certificates", "/api/engine"];
    for path in known.into_iter().chain(["/api/me", "/api/events/codes", "/api/fleet"]) {
        get(&mut described, path, path);
        described.fits("get", path, &market.stranger().get(path));
    }
    let open = ["/api/openapi.json", "/metrics", "/health/live", "/health/ready"];
    open.into_iter().chain(["/api/settings"]).for_each(|path| get(&mut described, path, path));
    for query in ["session=", "sesion="] {
        get(&mut described, "/api/settings", &format!("/api/settings?{query}"));
    }
    for query in ["limit=x", "limt=1"] {
        get(&mut described, "/api/events", &format!("/api/events?{query}"));
    }
    get(&mut described, "/api/sessions/{id}", PATH);
    get(&mut described, "/api/sessions/{id}", "/api/sessions/nobody");
    let latency = "/api/sessions/{id}/latency/{stage}";
    get(&mut described, latency, &format!("{PATH}/latency/callback"));
    let messages = "/api/sessions/{id}/messages";
    for asked in ["?names=true", "?direction=up", "?order=order-1", ""] {
        get(&mut described, messages, &format!("{PATH}/messages{asked}"));
    }
    let act = |described: &mut Described, status: u16, body: &str| {
        let answer = administrator.post(&format!("{PATH}/actions"), body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        described.fits("post", "/api/sessions/{id}/actions", &answer);
    };
    act(&mut described, 200, "{\"action\":\"heartbeat\"}");
    act(&mut described, 400, "{\"action\":\"dance\"}");
    act(&mut described, 428, "{\"action\":\"clear_queued\"}");
    act(&mut described, 409, "{\"action\":\"connect_to\",\"destination\":7}");
    answer_requests(&market);
    reloads_rotates_logs_and_sets_levels(&mut described, &market);
    adds_changes_and_removes_sessions(&mut described, &market);
    let stop = |body: &str| administrator.post("/api/engine/stop", body);
    described.fits("post", "/api/engine/stop", &stop("{\"confirm\":\"stop\"}"));
    described.fits("post", "/api/engine/stop", &stop("{\"confirm\":\"halt\"}"));
    let credentials = json!({ "name": "viewer-person", "password": PASSWORD }).to_string();
    described.fits("post", "/api/login", &market.stranger().post("/api/login", &credentials));
    let person = market.stranger().logged_in("viewer-person", PASSWORD);
    described.fits("get", "/api/me", &person.get("/api/me"));
    described.fits("post", "/api/logout", &person.post("/api/logout", ""));
    for _ in 0..4 {
        let answer = market.stranger().post("/api/login", "{\"name\":\"x\",\"password\":\"y\"}");
        described.fits("post", "/api/login", &answer);
    }
    drop(market.client);
    until(|| viewer.get(PATH).good()["last_end"]["code"].is_number());
    get(&mut described, "/api/sessions/{id}", PATH);
    get(&mut described, messages, &format!("{PATH}/messages?limit=1000"));
    let statuses: BTreeSet<_> = described.seen.iter().map(|(.., status)| *status).collect();
    assert_eq!(statuses, [200, 400, 401, 403, 404, 409, 428, 429].into());
    let expected = [("get".to_owned(), "/api/events/stream".to_owned())];
    assert_eq!(described.not_seen(), expected, "the stream has a test of its own");
}

#[test]
fn what_is_not_described_is_seen() {
    let market = Market::new();
    let described = Described::of(&market);
    let mut session = market.viewer().get(PATH).good();
    let at = "/components/schemas/SessionDetails";
    assert_eq!(invalid(&described.document, at, &session), None);
    session["surprise"] = 1.into();
    assert!(invalid(&described.document, at, &session).is_some(), "a value more");
    session.as_object_mut().unwrap().remove("surprise");
    session["state"] = "Asleep".into();
    assert!(invalid(&described.document, at, &session).is_some(), "another state");
}

#[test]
fn each_action_is_described() {
    let market = Market::new();
    let described = Described::of(&market);
    let actions = described.document.pointer("/components/schemas/Action/oneOf").unwrap();
    for action in actions.as_array().unwrap() {
        // The smallest action that matches the schema must also be valid for the engine.
        let name = action["properties"]["action"]["const"].as_str().unwrap();
        let mut asked = json!({});
        for required in action["required"].as_array().unwrap() {
            let required = required.as_str().unwrap();
            let property = &action["properties"][required];
            asked[required] = match property["type"].as_str() {
                Some("integer") => 1.into(),
                Some("string") => "x".into(),
                _ => property["const"].clone(),
            };
        }
        let parsed = serde_json::from_value::<transfix::Action>(asked.clone());
        assert_eq!(parsed.map_err(|error| error.to_string()).unwrap().name(), name);
        assert_eq!(invalid(&described.document, "/components/schemas/Action", &asked), None);
    }
    // For an unknown name, the error of serde lists all known names.
    let unknown = serde_json::from_str::<transfix::Action>("{\"action\":\"dance\"}").unwrap_err();
    let known = unknown.to_string().matches('`').count() / 2 - 1;
    assert_eq!(actions.as_array().unwrap().len(), known, "{unknown}");
}
