//! A Prometheus process that scrapes the venue every second, and queries to it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::Value;

use crate::served::{Dir, encoded, get, until};

type Outcome<T> = Result<T, String>;

/// A running Prometheus. Dropping this value kills the process.
pub(super) struct Prometheus {
    child: Child,
    address: String,
    log: PathBuf,
}

impl Prometheus {
    /// Starts Prometheus with these alert rules.
    pub(super) fn start(dir: &Dir, target: &str, token: &str, rules: &Path) -> Outcome<Self> {
        let token = dir.write("token", token)?;
        let settings = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\n\
             rule_files: [{rules:?}]\n\
             scrape_configs:\n  - job_name: transfix\n    \
             authorization: {{ credentials_file: {token:?} }}\n    \
             static_configs: [{{ targets: [\"{target}\"] }}]\n",
        );
        let settings = dir.write("prometheus.yml", &settings)?;
        // The test chooses a free port, because Prometheus does not report the port that the system
        // assigns for port 0.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.map_err(|error| error.to_string())?.to_string();
        let log = dir.path().join("prometheus.log");
        let file = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", settings.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("tsdb").display()))
            .arg(format!("--web.listen-address={address}"))
            .stderr(file)
            .spawn()
            .map_err(|error| format!("prometheus: {error}; it is Debian's package prometheus"))?;
        let mut prometheus = Self { child, address, log };
        until(|| match get(&prometheus.address, "/-/ready", "") {
            Ok((200, _)) => Ok(()),
            _ => Err("Prometheus does not start".to_owned()),
        })
        .map_err(|why| format!("{why}: {}", prometheus.log()))?;
        match prometheus.child.try_wait() {
            Ok(None) => Ok(prometheus),
            _ => Err(format!("Prometheus has ended: {}", prometheus.log())),
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Returns the warnings and errors in the log of Prometheus.
    pub(super) fn complaints(&self) -> String {
        let is_one = |line: &&str| line.contains("level=warn") || line.contains("level=error");
        self.log().lines().filter(is_one).map(|line| format!("{line}\n")).collect()
    }

    /// Sends a request to the HTTP API of Prometheus, and returns the `data` of the response.
    fn ask(&self, path: &str) -> Outcome<Value> {
        let (status, body) = get(&self.address, path, "")?;
        let answer: Value = serde_json::from_str(&body).map_err(|error| error.to_string())?;
        match (status, answer["status"].as_str(), answer["warnings"].is_null()) {
            (200, Some("success"), true) => Ok(answer["data"].clone()),
            _ => Err(body),
        }
    }

    /// Returns the current time series that match the expression.
    fn series(&self, expression: &str) -> Outcome<Vec<Value>> {
        let data = self.ask(&format!("/api/v1/query?query={}", encoded(expression)));
        let data = data.map_err(|why| format!("{expression}: {why}"))?;
        match (data["resultType"].as_str(), data["result"].as_array()) {
            (Some("vector"), Some(result)) => Ok(result.clone()),
            (kind, _) => Err(format!("{expression} is no vector, but {kind:?}")),
        }
    }

    /// Checks that the expression has a result now.
    pub(super) fn answers(&self, expression: &str) -> Outcome<()> {
        match self.series(expression)?.is_empty() {
            true => Err(format!("{expression} has no result")),
            false => Ok(()),
        }
    }

    /// Waits until the expression has a result, up to a time limit.
    pub(super) fn sees(&self, expression: &str) -> Outcome<()> {
        until(|| self.answers(expression))
    }

    /// Checks that the expression has no result now.
    pub(super) fn has_none(&self, expression: &str) -> Outcome<()> {
        let series = self.series(expression)?;
        match series.is_empty() {
            true => Ok(()),
            false => Err(format!("{expression}: {series:?}")),
        }
    }

    /// Checks that Prometheus has evaluated each rule without an error.
    pub(super) fn evaluates_all(&self) -> Outcome<()> {
        until(|| {
            let data = self.ask("/api/v1/rules")?;
            let groups = data["groups"].as_array().ok_or("no groups")?;
            let rules = groups.iter().flat_map(|group| group["rules"].as_array()).flatten();
            let mut count = 0;
            for rule in rules {
                count += 1;
                if rule["health"] != "ok" {
                    return Err(format!("{}: {}", rule["name"], rule["lastError"]));
                }
            }
            if count == 0 { Err("there is no rule".to_owned()) } else { Ok(()) }
        })
    }

    /// Checks that Prometheus has accepted this OpenMetrics text: each line, with type and unit.
    /// Returns the number of metrics.
    pub(super) fn has_taken(&self, text: &str) -> Outcome<usize> {
        let lines = text.lines().filter(|line| !line.starts_with('#')).count();
        self.sees(&format!("scrape_samples_scraped == {lines}"))?;
        let targets = self.ask("/api/v1/targets")?;
        for target in targets["activeTargets"].as_array().ok_or("no targets")? {
            if target["health"] != "up" || target["lastError"] != "" {
                return Err(format!("the target is not up: {target}"));
            }
        }
        let metadata = self.ask("/api/v1/metadata")?;
        let told = described(text);
        for (name, told) in &told {
            let taken = &metadata[name][0];
            for (n, key) in ["type", "help", "unit"].into_iter().enumerate() {
                if taken[key].as_str().unwrap_or_default() != told[n] {
                    return Err(format!("{name}: {key} is {:?}, taken as {taken}", told[n]));
                }
            }
        }
        Ok(told.len())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the type, help text and unit of each metric in an OpenMetrics text.
fn described(text: &str) -> BTreeMap<String, [String; 3]> {
    let mut all: BTreeMap<String, [String; 3]> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        let (Some("#"), Some(what)) = (words.next(), words.next()) else { continue };
        let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
        let place = ["TYPE", "HELP", "UNIT"].iter().position(|known| *known == what);
        if let Some(place) = place {
            value.clone_into(&mut all.entry(name.to_owned()).or_default()[place]);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_describes_a_metric_is_read() {
        let text = "# HELP a_seconds How long.\n# TYPE a_seconds gauge\n# UNIT a_seconds seconds\n\
                    a_seconds 1.0\n# EOF\n";
        let found = described(text);
        assert_eq!(found["a_seconds"], ["gauge", "How long.", "seconds"].map(str::to_owned));
        assert_eq!(found.len(), 1);
    }
}
