//! Checks of the brokers themselves: their version, and that they sync every write.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::stream::Stream;
use futures_util::StreamExt;
use serde_json::Value;
use transfix_store::StoreError;

use super::brokers::refused;
use crate::failed;

/// The oldest usable version, major and minor number. Brokers before 2.11 have no batched direct
/// gets. A broker before 2.12 may keep the expected sequence of a record that it has refused.
const OLDEST: (u32, u32) = (2, 12);
/// Subject at which brokers report the state of JetStream, if the account imports the service.
const REPORT: &str = "$SYS.REQ.SERVER.PING.JSZ";
/// Maximum time to wait for the reports. A broker that is down reports nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Refuses a stream of brokers that are too old or do not sync every write, as they report. Without
/// an import of the service, an account receives no reports.
pub(super) async fn check_reports(client: &Client, stream: &Stream) -> Result<(), StoreError> {
    let cluster = stream.cached_info().cluster.iter();
    let names = cluster.flat_map(|cluster| {
        let others = cluster.replicas.iter().map(|replica| replica.name.clone());
        cluster.leader.iter().cloned().chain(others)
    });
    let mut missing: BTreeSet<String> = names.collect();
    if missing.is_empty() {
        missing.insert(client.server_info().server_name);
    }
    let inbox = client.new_inbox();
    let mut reports = client.subscribe(inbox.clone()).await.map_err(failed)?;
    client.publish_with_reply(REPORT, inbox, "".into()).await.map_err(failed)?;
    let collect = async {
        while !missing.is_empty() {
            match reports.next().await {
                Some(report) if report.status.is_none() => {
                    check_report(&report.payload, &mut missing)?;
                }
                // No broker offers the service to this account.
                _ => break,
            }
        }
        Ok(())
    };
    tokio::time::timeout(PATIENCE, collect).await.unwrap_or(Ok(()))
}

/// Checks the report of a broker, if the broker is `missing`.
fn check_report(report: &[u8], missing: &mut BTreeSet<String>) -> Result<(), StoreError> {
    let report: Value = serde_json::from_slice(report).map_err(failed)?;
    let text = |key: &str| report["server"][key].as_str().unwrap_or_default();
    let name = text("name");
    if !missing.remove(name) {
        return Ok(());
    }
    check_version(name, text("ver"))?;
    if report["data"]["config"]["sync_always"] == true {
        return Ok(());
    }
    Err(refused(format!(
        "the broker {name} may lose acknowledged commits in a power cut; set `sync_interval: \
         always` in the section jetstream of its configuration"
    )))
}

/// Refuses a broker of an old version.
pub(super) fn check_version(name: &str, version: &str) -> Result<(), StoreError> {
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Ok(()),
        _ => Err(refused(format!(
            "the broker {name} has version {version} of nats-server; Transfix requires {}.{} or \
             later",
            OLDEST.0, OLDEST.1
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_of_old_versions_are_refused() {
        for version in ["2.12.0", "2.12.0-RC.1", "2.15.3", "3.0.0", "10.0.1"] {
            assert!(check_version("n1", version).is_ok(), "{version}");
        }
        for version in ["2.11.9", "2.9.25", "1.99.0", "0.12.0", "", "2", "dev", "2.x"] {
            assert!(check_version("n1", version).is_err(), "{version}");
        }
        let refused = check_version("n1", "2.11.9").unwrap_err().to_string();
        let expected = "the broker n1 has version 2.11.9 of nats-server; Transfix requires 2.12 \
                        or later";
        assert_eq!(refused, expected);
    }

    #[test]
    fn a_report_without_sync_always_is_refused() {
        let report = |name: &str, config: &str, version: &str| {
            let report = format!(
                "{{\"server\":{{\"name\":\"{name}\",\"ver\":\"{version}\"}},\
                 \"data\":{{\"config\":{config}}}}}"
            );
            let mut missing = BTreeSet::from(["n1".to_owned(), "n2".to_owned()]);
            let checked = check_report(report.as_bytes(), &mut missing);
            checked.map(|()| missing.len()).map_err(|error| error.to_string())
        };
        assert_eq!(report("n2", "{\"sync_always\":true}", "2.15.3"), Ok(1));
        // A broker that has no copy of the stream.
        assert_eq!(report("n4", "{}", "2.9.0"), Ok(2));
        for config in ["{\"sync_interval\":120000000000}", "{\"sync_always\":false}", "{}"] {
            let refused = report("n2", config, "2.15.3").unwrap_err();
            assert!(refused.contains("the broker n2") && refused.contains("always"), "{refused}");
        }
        assert!(report("n2", "{\"sync_always\":true}", "2.10.0").unwrap_err().contains("2.10.0"));
    }
}
