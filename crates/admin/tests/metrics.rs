//! Tests the metrics as a monitoring system reads them.

use std::collections::BTreeMap;

use transfix::{Action, Actor};

use crate::market::{ID, Market, until};

/// Returns the values of all series, by metric name including labels.
fn series(market: &Market) -> BTreeMap<String, f64> {
    let answer = market.viewer().get("/metrics");
    assert_eq!(answer.status, 200, "{answer:?}");
    let lines = answer.body.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.rsplit_once(' ').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

/// Returns the value of the venue's session in the metric `name`.
fn of_session(market: &Market, name: &str) -> f64 {
    let name = format!("transfix_session_{name}{{session=\"{ID}\"}}");
    *series(market).get(&name).unwrap_or_else(|| panic!("there is no {name}"))
}

#[test]
fn what_goes_wrong_has_its_series() {
    let market = Market::new();
    market.trade(3);
    for (name, value) in [
        ("open", 1.0),
        ("heart_bt_int_seconds", 12.0),
        ("rejects_received_total", 0.0),
        ("rejects_sent_total", 0.0),
        ("business_rejects_received_total", 0.0),
        ("business_rejects_sent_total", 0.0),
        ("resend_requests_received_total", 0.0),
        ("resend_requests_sent_total", 0.0),
        ("messages_resent_total", 0.0),
        ("disconnects_total", 0.0),
        ("refused_logons_total", 0.0),
    ] {
        assert_eq!(of_session(&market, name), value, "{name}");
    }
    let ask = Action::ResendRequest { begin: 1, end: 0 };
    let actor = Actor::new("test", "here");
    let (venue, client) = (market.venue.admin(), market.client.admin());
    let id = |admin: &transfix::Admin| admin.sessions()[0].id.clone();
    client.act(&actor, &id(&client), &ask).unwrap();
    until(|| of_session(&market, "messages_resent_total") >= 3.0);
    assert_eq!(of_session(&market, "resend_requests_received_total"), 1.0);
    venue.act(&actor, &id(&venue), &ask).unwrap();
    assert_eq!(of_session(&market, "resend_requests_sent_total"), 1.0);
    client.act(&actor, &id(&client), &Action::LogOut { text: String::new() }).unwrap();
    until(|| of_session(&market, "disconnects_total") == 1.0);
    assert_eq!(series(&market).get("transfix_disconnects_total{code=\"101\"}"), Some(&1.0));
}

#[test]
fn the_engine_itself_has_series() {
    let market = Market::new();
    let series = series(&market);
    let store = market.dir.path().join("store");
    let of_disk = |name: &str| {
        let name = format!("transfix_store_{name}_bytes{{dir=\"{}\"}}", store.display());
        *series.get(&name).unwrap_or_else(|| panic!("there is no {name}"))
    };
    assert!(of_disk("free") > 0.0 && of_disk("free") <= of_disk("size"));
    assert_eq!(series.get("transfix_ready"), Some(&1.0));
    assert!(!series.keys().any(|name| name.starts_with("transfix_rejects")), "none came up");
}

#[test]
fn each_metric_has_a_type_and_a_help_and_all_is_in_order() {
    let market = Market::new();
    market.trade(1);
    let text = market.viewer().get("/metrics").body;
    // OpenMetrics demands that the series of a metric directly follow the lines that describe the
    // metric.
    let (mut name, mut seen) = (String::new(), Vec::new());
    for line in text.lines().filter(|line| *line != "# EOF") {
        let mut words = line.split(' ');
        if words.next() == Some("#") {
            let (what, of) = (words.next().unwrap(), words.next().unwrap());
            if what == "HELP" {
                assert!(!seen.contains(&of.to_owned()), "{of} appears twice");
                seen.push(of.to_owned());
                of.clone_into(&mut name);
                assert!(words.next().is_some_and(|word| !word.is_empty()), "{line}");
            }
            assert_eq!(of, name, "{line}");
        } else {
            assert!(line.starts_with(&name), "{line} is below {name}");
        }
    }
    assert!(text.ends_with("# EOF\n"));
    assert!(seen.len() > 40, "{seen:?}");
}

#[test]
fn the_page_has_all_metrics_and_how_many_there_are() {
    let market = Market::new();
    market.trade(1);
    let page = include_str!("../../../book/src/administration.md");
    let all = series(&market);
    let of_session = all.keys().filter(|name| name.starts_with("transfix_session_")).count();
    assert!(page.contains(&format!("has {of_session} series")), "{of_session} series a session");
    for series in all.keys() {
        let name = series.split('{').next().unwrap();
        // Series with these endings belong to one metric, a histogram.
        let ends = ["_bucket", "_sum", "_count"];
        let name = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let short = name.strip_prefix("transfix_session").or(name.strip_prefix("transfix_store"));
        let is_there = |name: &str| page.contains(&format!("`{name}`"));
        assert!(is_there(name) || short.is_some_and(is_there), "{name} is not on the page");
    }
}
