//! Tests the data that the administration shows.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::Value;
use tracing_subscriber::layer::SubscriberExt as _;

use transfix::{DictionarySource, EventCode, Tag, msg_type};

use crate::http::LONG;
use crate::market::{ID, Market, PATH, until};

#[test]
fn sessions_are_shown_with_all_that_is_known() {
    let market = Market::new();
    market.trade(3);
    let all = market.viewer().get("/api/sessions").good();
    let session = &all["sessions"][0];
    assert_eq!(session["id"], ID);
    for (name, value) in [
        ("role", Value::from("acceptor")),
        ("state", "Active".into()),
        ("problem", Value::Null),
        ("enabled", true.into()),
        ("next_num_in", 5.into()),
        ("next_num_out", 5.into()),
        ("heart_bt_int_s", 12.into()),
        ("queued_bytes", 0.into()),
        ("last_end", Value::Null),
    ] {
        assert_eq!(session[name], value, "{name}");
    }
    assert_eq!(session["counters"]["messages_in"], 4);
    assert!(session["counters"]["bytes_out"].as_u64().unwrap() > 100);
    let details = market.viewer().get(PATH).good();
    let stages: Vec<_> = details["latency"].as_array().unwrap().iter().collect();
    assert!(stages.iter().any(|stage| stage["stage"] == "read_to_callback"));
    assert!(stages.iter().all(|stage| stage["p50_ns"].as_u64() <= stage["p99_ns"].as_u64()));
    assert_eq!((&details["held_up_by"], &details["slow_consumer"]), (&Value::Null, &false.into()));
    assert_eq!(details["unusual_latency"], Value::Array(Vec::new()));
    assert!(details["store"]["bytes"].as_u64().unwrap() > 4_096, "{}", details["store"]);
    assert!(details["store"]["path"].as_str().unwrap().contains("VENUE"));
    market.viewer().get("/api/sessions/FIX.4.4:VENUE-%3ENOBODY").refused(404);
}

#[test]
fn the_plotter_of_hdrhistogram_gets_its_file() {
    let market = Market::new();
    market.trade(3);
    let of_stage = |stage: &str| market.viewer().get(&format!("{PATH}/latency/{stage}"));
    let file = of_stage("callback");
    assert_eq!(file.status, 200);
    assert!(file.body.trim_start().starts_with("Value     Percentile TotalCount"), "{file:?}");
    // The engine counts the times only after it has written the answers.
    until(|| of_stage("callback").body.contains("Total count    =            3]"));
    let why = of_stage("lunch").refused(404);
    assert!(why.contains("read_to_written"), "{why}");
}

#[test]
fn messages_are_found_in_the_store() {
    let market = Market::new();
    market.trade(5);
    let viewer = market.viewer();
    let found = |query: &str| {
        let found = viewer.get(&format!("{PATH}/messages?{query}")).good();
        assert_eq!(found["whole"], true);
        found["messages"].as_array().unwrap().clone()
    };
    let orders = found("msg_type=D");
    assert_eq!(orders.len(), 5);
    assert_eq!((&orders[0]["direction"], &orders[0]["seq"]), (&"in".into(), &2.into()));
    assert!(orders[4]["text"].as_str().unwrap().contains("|11=order-4|"));
    assert_eq!(found("field=11%3Dorder-3").len(), 1);
    assert_eq!(found("text=order-3").len(), 2, "the order and its answer");
    assert_eq!(found("text=order-3&direction=out&names=true")[0]["names"]["Body"]["Headline"], {
        "order-3"
    });
    let last = found("direction=out&limit=2");
    assert_eq!((last.len(), &last[1]["seq"]), (2, &6.into()));
    assert_eq!(found("seq_from=3&seq_to=4&direction=in").len(), 2);
    let named = viewer.get(&format!("{PATH}/messages?msg_type=D&names=true&limit=1"));
    let (header, body) = (named.body.find("\"Header\""), named.body.find("\"Body\""));
    assert!(header.is_some() && header < body, "names are in the order of the message: {named:?}");
    viewer.get(&format!("{PATH}/messages?direction=up")).refused(400);
    viewer.get(&format!("{PATH}/messages?field=x")).refused(400);
}

#[test]
fn messages_have_the_names_of_the_sessions_own_dictionary() {
    let overlay = "<fix base='FIX44'><fields><field number='9001' name='DeskNote' type='STRING'/>\
                   </fields></fix>";
    let market = Market::with_session(
        |_, _| (),
        |session, dir| {
            let path = dir.join("venue.xml");
            std::fs::write(&path, overlay).unwrap();
            let base = "FIX44".into();
            let own = DictionarySource { base, overlays: vec![path], ..Default::default() };
            session.validation.dictionary = Some(own);
        },
    );
    let session = market.client.sessions().next().unwrap();
    let before = session.next_numbers().0;
    let order = |body: &mut transfix::Body<'_>| {
        body.str(Tag(11), "order-1").str(Tag(9001), "hello");
    };
    session.send(msg_type::NEW_ORDER_SINGLE, order).unwrap();
    until(|| session.next_numbers().0 > before);
    let found = market.viewer().get(&format!("{PATH}/messages?msg_type=D&names=true")).good();
    assert_eq!(found["messages"][0]["names"]["Body"]["DeskNote"], "hello", "{found}");
}

#[test]
fn codes_are_explained_in_the_words_of_the_engine() {
    let market = Market::new();
    let found = market.viewer().get("/api/events/codes").good();
    let found = found["codes"].as_array().unwrap();
    assert_eq!(found.len(), EventCode::ALL.len());
    for (shown, code) in found.iter().zip(EventCode::ALL) {
        assert_eq!(shown["code"], code.as_u16());
        assert_eq!((&shown["name"], &shown["text"]), (&code.name().into(), &code.text().into()));
        assert_eq!(shown["remedy"], code.remedy());
    }
    let script = market.stranger().get("/events.js").body;
    assert!(script.contains("explanation(event.code)"), "the page shows them below the event");
}

#[test]
fn events_are_shown_as_they_happen() {
    let market = Market::new();
    let mut socket = TcpStream::connect(market.server.address()).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let request = market.viewer().request("GET", "/api/events/stream", "");
    socket.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(socket).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "HTTP/1.1 200 OK");
    let kind = lines.find(|line| line.starts_with("content-type")).unwrap();
    assert_eq!(kind, "content-type: text/event-stream");
    let subscriber = tracing_subscriber::registry().with(market.events.layer());
    tracing::subscriber::with_default(subscriber, || {
        tracing::warn!(target: "transfix::test", session = %ID, seq = 7, "something happened");
    });
    let data = lines.find(|line| line.starts_with("data: ")).unwrap();
    let event: Value = serde_json::from_str(&data["data: ".len()..]).unwrap();
    assert_eq!((&event["text"], &event["level"]), (&"something happened".into(), &"WARN".into()));
    assert_eq!((&event["session"], &event["fields"]["seq"]), (&ID.into(), &7.into()));
    let kept = market.viewer().get("/api/events").good();
    assert_eq!(kept["events"].as_array().unwrap().last().unwrap(), &event);
    let other = market.viewer().get("/api/events?session=other").good();
    assert_eq!(other["events"].as_array().unwrap().len(), 0);
}

#[test]
fn metrics_are_those_of_the_sessions() {
    let market = Market::with(|admin, _| admin.open_metrics = true);
    market.trade(3);
    let answer = market.stranger().get("/metrics");
    assert_eq!(answer.status, 200, "they are open");
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("application/openmetrics-text; version=1.0.0"), "{kind}");
    let text = &answer.body;
    for line in [
        "transfix_session_logged_on{session=\"FIX.4.4:VENUE->CLIENT\"} 1.0",
        "transfix_session_messages_received_total{session=\"FIX.4.4:VENUE->CLIENT\"} 4",
        "transfix_session_next_num_in{session=\"FIX.4.4:VENUE->CLIENT\"} 5.0",
        "transfix_sessions{state=\"Active\"} 1.0",
        "transfix_sessions_not_shown 0.0",
        "# TYPE transfix_latency_seconds histogram",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
    let free = text.lines().find(|line| line.starts_with("transfix_store_free_bytes{")).unwrap();
    assert!(free.rsplit(' ').next().unwrap().parse::<f64>().unwrap() > 1e6, "{free}");
    assert!(text.ends_with("# EOF\n"));
    let ready = market.stranger().get("/health/ready").good();
    assert_eq!(ready["ready"], true);
}

#[test]
fn the_newest_messages_come_from_the_newest_segments() {
    let market = Market::with(|_, _| ());
    // The first segment has 8 KiB, so 200 orders fill several segments.
    market.trade(200);
    let store = market.dir.path().join("store");
    let segments = walk(&store).into_iter().filter(|path| path.ends_with(".seg")).count();
    assert!(segments > 1, "{segments}");
    let found = |query: &str| {
        let found = market.viewer().get(&format!("{PATH}/messages?{query}")).good();
        assert_eq!(found["whole"], true, "{query}");
        let all = found["messages"].as_array().unwrap().clone();
        all.iter().map(|one| one["seq"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(found("direction=in&limit=3"), [199, 200, 201]);
    assert_eq!(found("direction=in&limit=1000"), (2..=201).collect::<Vec<_>>());
    assert_eq!(found("field=11%3Dorder-0"), [2], "the first one is found, too");
}

fn walk(dir: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let all = entries.flat_map(|path| match path.is_dir() {
        true => walk(&path),
        false => vec![path.display().to_string()],
    });
    all.collect()
}

#[test]
fn an_order_is_followed_through_its_replacements() {
    let market = Market::new();
    let session = market.client.sessions().next().unwrap();
    let before = session.next_numbers().1;
    for (msg_type, fields) in [
        ("D", "11=a\x01"),
        ("D", "11=other\x01"),
        ("G", "11=b\x0141=a\x01"),
        ("F", "11=c\x0141=b\x01"),
        ("F", "11=x\x0137=NONE\x01"),
    ] {
        session.send(msg_type, |body| _ = body.fields(fields.as_bytes())).unwrap();
    }
    let received = || market.viewer().get(PATH).good()["next_num_in"].as_u64();
    until(|| received() == Some(before + 5));
    for name in ["a", "b", "c"] {
        let path = format!("{PATH}/messages?order={name}&direction=in");
        let found = market.viewer().get(&path).good();
        let types = found["messages"].as_array().unwrap().iter().map(|one| one["msg_type"].clone());
        assert_eq!(types.collect::<Vec<_>>(), ["D", "G", "F"], "by its name {name}");
    }
    let none = market.viewer().get(&format!("{PATH}/messages?order=nothing")).good();
    assert_eq!(none["messages"].as_array().unwrap().len(), 0);
}

#[test]
fn the_engine_and_the_time_are_shown() {
    let market = Market::new();
    market.stranger().get("/api/engine").refused(401);
    let engine = market.viewer().get("/api/engine").good();
    assert_eq!(engine["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(engine["process"], std::process::id());
    assert_eq!(engine["listening"][0], market.venue.listening()[0].to_string());
    for path in ["/api/sessions", PATH] {
        let now = market.viewer().get(path).good()["now"].clone();
        assert!(now.as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{path}: {now}");
    }
}

/// The page has a label for every counter, because it does not show others.
#[test]
fn the_page_names_all_counts() {
    let market = Market::new();
    let shown = market.viewer().get(PATH).good();
    let page = market.stranger().get("/session.js").body;
    for name in shown["counters"].as_object().unwrap().keys() {
        let is_rate = name.starts_with("messages_") || name.starts_with("bytes_");
        assert!(is_rate || page.contains(&format!("[\"{name}\", ")), "{name} is not in the page");
    }
}
