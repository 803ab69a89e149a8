//! Reads the Grafana dashboard file: its panels and their queries.

use std::collections::BTreeSet;

use serde_json::Value;

use super::read;

const DASHBOARD: &str = "packaging/grafana/transfix.json";
/// Values that replace Grafana's variables in queries.
const VARIABLES: [(&str, &str); 5] = [
    ("$__rate_interval", "30s"),
    ("$job", ".*"),
    ("$instance", ".*"),
    ("$session", ".*"),
    ("$stage", "read_to_written"),
];

/// The title and the query of a panel.
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) expression: String,
}

/// Returns all queries of the dashboard, including the queries that fill its variables.
pub(super) fn panels() -> Result<Vec<Panel>, String> {
    found(&read(DASHBOARD)?).map_err(|why| format!("{DASHBOARD}: {why}"))
}

fn found(text: &str) -> Result<Vec<Panel>, String> {
    let dashboard: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for variable in array(&dashboard["templating"]["list"]) {
        let Some(query) = variable["query"]["query"].as_str() else { continue };
        let (metric, label) = query
            .strip_prefix("label_values(")
            .and_then(|query| query.strip_suffix(')')?.rsplit_once(", "))
            .ok_or_else(|| format!("{query} is no label_values(METRIC, LABEL)"))?;
        let title = format!("variable {}", variable["name"]);
        let expression = with_values(&format!("count by ({label}) ({metric})"))?;
        found.push(Panel { title, expression });
    }
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in array(&dashboard["panels"]) {
        let title = format!("panel {}", panel["title"]);
        if !ids.insert(panel["id"].as_u64()) {
            return Err(format!("{title}: another one has its id"));
        }
        let place = &panel["gridPos"];
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|name| place[name].as_u64().unwrap_or(0));
        let is_free = (0..w * h).all(|n| places.insert((x + n % w, y + n / w)));
        if !is_free || w * h == 0 || x + w > 24 {
            return Err(format!("{title} lies upon another one, or beyond the edge"));
        }
        for target in array(&panel["targets"]) {
            let expression = target["expr"].as_str().ok_or_else(|| format!("{title}: no expr"))?;
            found.push(Panel { title: title.clone(), expression: with_values(expression)? });
        }
    }
    if found.is_empty() { Err("it asks for nothing".to_owned()) } else { Ok(found) }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], |all| all)
}

/// Returns the expression with Grafana's variables replaced by values.
fn with_values(expression: &str) -> Result<String, String> {
    let all = VARIABLES.iter();
    let filled = all.fold(expression.to_owned(), |text, (name, value)| text.replace(name, value));
    match filled.find('$') {
        None => Ok(filled),
        Some(at) => Err(format!("an unknown variable: {}", &filled[at..])),
    }
}

/// Returns the names of Transfix metrics in this text.
pub(super) fn metrics_of(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_text =
        |line: &str| ["#", "summary:", "description:"].iter().any(|w| line.starts_with(w));
    let rules = text.lines().filter(|line| !is_text(line.trim_start()));
    let words = rules.flat_map(|line| line.split(|c| !is_part(c)));
    words.filter(|word| word.starts_with("transfix_")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dashboard_is_sound() {
        assert!(panels().unwrap().len() > 40);
    }

    #[test]
    fn what_is_wrong_with_a_dashboard_is_told() {
        let panel = |id: u64, x: u64, expr: &str| {
            serde_json::json!({
                "id": id, "title": "t", "gridPos": { "x": x, "y": 0, "w": 12, "h": 2 },
                "targets": [{ "expr": expr }],
            })
        };
        let wrong = |panels: [Value; 2]| {
            let text = serde_json::json!({ "panels": panels }).to_string();
            found(&text).err().unwrap_or_default()
        };
        assert_eq!(wrong([panel(1, 0, "up"), panel(2, 12, "rate(a[$__rate_interval])")]), "");
        assert!(wrong([panel(1, 0, "up"), panel(1, 12, "up")]).contains("has its id"));
        assert!(wrong([panel(1, 0, "up"), panel(2, 11, "up")]).contains("lies upon"));
        assert!(wrong([panel(1, 0, "up"), panel(2, 13, "up")]).contains("beyond the edge"));
        assert!(wrong([panel(1, 0, "up"), panel(2, 12, "a{b=\"$c\"}")]).contains("$c"));
    }

    #[test]
    fn metrics_are_found_in_rules() {
        let rules = "expr: transfix_a == 1 and\n  rate(transfix_b_total[5m])\n# transfix_no\n";
        let found: Vec<_> = metrics_of(rules).into_iter().collect();
        assert_eq!(found, ["transfix_a", "transfix_b_total"]);
    }
}
