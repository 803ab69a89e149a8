//! Serves metrics in the OpenMetrics format, for Prometheus and compatible systems.
//!
//! The number of series is bounded: each session has a fixed number of series, at most
//! [`SESSIONS_MAX`] sessions have series, and the latency buckets cover all sessions together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts as _, State};
use axum::http::header;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::timeout;
use transfix::{
    Admin, Durability, LatencyStage, SessionHandle, SessionStatus, State as SessionState, clock,
};

use crate::access::Access;
use crate::answer::Refusal;
use crate::app::{App, blocking};
use crate::fleet::Fleet;
use crate::health::unready;
use crate::shown::{is_down, is_open};

/// Maximum number of sessions with their own series; the other sessions count only in the sums.
const SESSIONS_MAX: usize = 2_000;

/// Upper bounds of the latency buckets, in nanoseconds; one more bucket counts times above 5 s.
const BUCKETS_NS: [u64; 20] = [
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    50_000_000,
    100_000_000,
    500_000_000,
    1_000_000_000,
    5_000_000_000,
];

/// Maximum time that the metrics wait for the gateways of a fleet.
const FLEET_LIMIT: Duration = Duration::from_secs(2);

const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) async fn metrics(
    State(app): State<Arc<App>>,
    mut parts: Parts,
) -> Result<Response, Refusal> {
    if !app.open_metrics {
        Access::from_request_parts(&mut parts, &app).await?;
    }
    let fleet = match &app.fleet {
        // Without an answer in time, the metrics lack the two values of the fleet.
        Some(fleet) => timeout(FLEET_LIMIT, fleet.now()).await.ok().and_then(Result::ok),
        None => None,
    };
    let written = blocking(move || written(app, fleet)).await?;
    let text =
        written.map_err(|_| Refusal::failed("the administration could not write the metrics"))?;
    Ok(([(header::CONTENT_TYPE, KIND)], text).into_response())
}

fn written(app: Arc<App>, fleet: Option<Arc<Fleet>>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("transfix");
    registry.register_collector(Box::new(Engine(app, fleet)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

struct Engine(Arc<App>, Option<Arc<Fleet>>);

impl Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.admin.fmt(f)
    }
}

/// The values of a session at the time of the request.
struct SessionSnapshot {
    id: String,
    status: SessionStatus,
    problem: bool,
    is_open: bool,
    heart_bt_int: Duration,
}

/// A metric that each session has: name, help, unit, and the function that returns the value.
type OfSession<V> = (&'static str, &'static str, Option<Unit>, fn(&SessionSnapshot) -> V);

const COUNTERS: &[OfSession<u64>] = &[
    ("session_messages_received", "Whole messages received", None, |s| {
        s.status.counters.messages_in
    }),
    ("session_messages_sent", "Messages sent for the first time", None, |s| {
        s.status.counters.messages_out
    }),
    ("session_received", "Bytes of messages received", Some(Unit::Bytes), |s| {
        s.status.counters.bytes_in
    }),
    ("session_sent", "Bytes of messages sent for the first time", Some(Unit::Bytes), |s| {
        s.status.counters.bytes_out
    }),
    ("session_garbled", "Garbled parts of the byte stream that were no message", None, |s| {
        s.status.counters.garbled
    }),
    ("session_logons", "Accepted logons", None, |s| s.status.counters.logons),
    (
        "session_not_stored",
        "Message numbers that the counterparty requested again and the store \
                            does not contain",
        None,
        |s| s.status.counters.not_stored,
    ),
    ("session_refused_connections", "Connections that the session refused", None, |s| {
        s.status.counters.refused
    }),
    (
        "session_passed_over",
        "Messages that the counterparty skipped by a SequenceReset(4)",
        None,
        { |s| s.status.counters.passed_over },
    ),
    (
        "session_not_logged",
        "Lines that were dropped because the queue of the protocol log was full",
        None,
        |s| s.status.counters.not_logged,
    ),
    (
        "session_refused_logons",
        "Connections that ended because either side refused a Logon(A)",
        None,
        { |s| s.status.counters.logons_refused },
    ),
    ("session_rejects_received", "Reject(3) received", None, |s| s.status.counters.rejects_in),
    ("session_rejects_sent", "Reject(3) sent", None, |s| s.status.counters.rejects_out),
    ("session_business_rejects_received", "BusinessMessageReject(j) received", None, |s| {
        s.status.counters.business_rejects_in
    }),
    ("session_business_rejects_sent", "BusinessMessageReject(j) sent", None, |s| {
        s.status.counters.business_rejects_out
    }),
    ("session_resend_requests_received", "ResendRequest(2) received", None, |s| {
        s.status.counters.resend_requests_in
    }),
    ("session_resend_requests_sent", "ResendRequest(2) sent", None, |s| {
        s.status.counters.resend_requests_out
    }),
    ("session_messages_resent", "Messages sent again", None, |s| s.status.counters.resent),
    ("session_disconnects", "Connections that have ended", None, |s| s.status.counters.disconnects),
];

const GAUGES: &[OfSession<f64>] = &[
    ("session_logged_on", "1 while the session is logged on", None, |s| {
        f64::from(u8::from(s.status.state == SessionState::Active))
    }),
    ("session_enabled", "0 after an operator has logged the session out, otherwise 1", None, |s| {
        f64::from(u8::from(s.status.enabled))
    }),
    ("session_store_failed", "1 while the session cannot write to its store", None, |s| {
        f64::from(u8::from(s.status.store_has_failed))
    }),
    (
        "session_problem",
        "1 while the session is not in the state that its settings and its schedule require",
        None,
        { |s| f64::from(u8::from(s.problem)) },
    ),
    ("session_slow_consumer", "1 while the counterparty reads too slowly", None, |s| {
        f64::from(u8::from(s.status.slow_consumer))
    }),
    (
        "session_held_up",
        "1 while a callback of the application has been running for too long",
        None,
        { |s| f64::from(u8::from(s.status.held_up_by.is_some())) },
    ),
    ("session_unusual_stages", "Latency stages whose p99 is outside its usual range", None, {
        |s| s.status.unusual_latency.len() as f64
    }),
    ("session_open", "1 while the schedule of the session is open", None, |s| {
        f64::from(u8::from(s.is_open))
    }),
    (
        "session_heart_bt_int",
        "HeartBtInt(108) agreed at the last logon, or from the settings before the first logon",
        { Some(Unit::Seconds) },
        |s| s.heart_bt_int.as_secs_f64(),
    ),
    ("session_next_num_in", "MsgSeqNum(34) expected from the counterparty", None, |s| {
        s.status.next_num_in as f64
    }),
    ("session_next_num_out", "MsgSeqNum(34) of the next message to send", None, |s| {
        s.status.next_num_out as f64
    }),
    (
        "session_queued",
        "Bytes of messages that wait until they can be numbered and sent",
        Some(Unit::Bytes),
        |s| s.status.queued_bytes as f64,
    ),
    ("session_waiting_messages", "Received messages that wait for the application", None, |s| {
        s.status.waiting_for_application.0 as f64
    }),
    (
        "session_last_received_timestamp",
        "Time of the last received message, in Unix time; 0 for never",
        { Some(Unit::Seconds) },
        |s| s.status.last_received.map_or(0.0, |at| at.0 as f64 / 1e9),
    ),
    (
        "session_last_sent_timestamp",
        "Time of the last sent message, in Unix time; 0 for never",
        { Some(Unit::Seconds) },
        |s| s.status.last_sent.map_or(0.0, |at| at.0 as f64 / 1e9),
    ),
];

impl Collector for Engine {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let handles = self.0.admin.handles();
        let seen: Vec<_> = handles.iter().map(seen).collect();
        let shown = &seen[..seen.len().min(SESSIONS_MAX)];
        for (name, help, unit, value) in COUNTERS {
            let kind = MetricType::Counter;
            let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            for one in shown {
                let labels = [("session", &*one.id)];
                metric
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, _, u64>(&value(one), None)?;
            }
        }
        for (name, help, unit, value) in GAUGES {
            let kind = MetricType::Gauge;
            let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            for one in shown {
                metric.encode_family(&[("session", &*one.id)])?.encode_gauge(&value(one))?;
            }
        }
        sums(&mut encoder, &seen, shown.len())?;
        let help = "1 while the engine is ready, as /health/ready reports";
        let mut metric = encoder.encode_descriptor("ready", help, None, MetricType::Gauge)?;
        metric.encode_gauge(&f64::from(u8::from(unready(&self.0).is_empty())))?;
        times(&mut encoder, &handles)?;
        reasons(&mut encoder, &self.0.admin)?;
        certificates(&mut encoder, &self.0.admin)?;
        gateways(&mut encoder, self.1.as_deref())?;
        disks(&mut encoder, &handles)
    }
}

fn seen(handle: &SessionHandle) -> SessionSnapshot {
    let status = handle.status();
    let problem = is_down(handle, &status);
    let is_open = is_open(handle, clock::now().utc);
    let heart_bt_int = status.heart_bt_int.unwrap_or(handle.settings().protocol.heart_bt_int);
    SessionSnapshot { id: status.id.to_string(), status, problem, is_open, heart_bt_int }
}

fn sums(
    encoder: &mut DescriptorEncoder<'_>,
    seen: &[SessionSnapshot],
    shown: usize,
) -> fmt::Result {
    let mut states: BTreeMap<String, u64> = BTreeMap::new();
    SessionState::ALL.iter().for_each(|state| _ = states.insert(format!("{state:?}"), 0));
    for one in seen {
        *states.entry(format!("{:?}", one.status.state)).or_default() += 1;
    }
    let kind = MetricType::Gauge;
    let mut metric = encoder.encode_descriptor("sessions", "Sessions by state", None, kind)?;
    for (state, count) in &states {
        metric.encode_family(&[("state", &**state)])?.encode_gauge(&(*count as f64))?;
    }
    let help = "Sessions without series of their own, because there are too many sessions";
    let mut metric = encoder.encode_descriptor("sessions_not_shown", help, None, kind)?;
    metric.encode_gauge(&((seen.len() - shown) as f64))?;
    let help = "Version of the program";
    let mut metric = encoder.encode_descriptor("build", help, None, MetricType::Info)?;
    metric.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
}

/// Writes the latency histogram of each stage, over all sessions together.
fn times(encoder: &mut DescriptorEncoder<'_>, handles: &[SessionHandle]) -> fmt::Result {
    let mut all: BTreeMap<&'static str, Times> = BTreeMap::new();
    for handle in handles {
        for (stage, times) in handle.latency().stages().filter(|(_, times)| times.count() > 0) {
            let sum = all.entry(LatencyStage::as_str(stage)).or_default();
            sum.sum_ns += times.mean_ns() * times.count() as f64;
            for (ns, count) in times.buckets() {
                sum.count += count;
                let place = BUCKETS_NS.iter().position(|end| ns <= *end);
                sum.counts[place.unwrap_or(BUCKETS_NS.len())] += count;
            }
        }
    }
    let help = "Latency of messages in the engine, by stage";
    let unit = Some(Unit::Seconds);
    let kind = MetricType::Histogram;
    let mut metric = encoder.encode_descriptor("latency", help, unit.as_ref(), kind)?;
    for (stage, times) in &all {
        let ends = BUCKETS_NS.iter().map(|ns| *ns as f64 / 1e9).chain([f64::MAX]);
        let buckets: Vec<_> = ends.zip(times.counts).collect();
        let labels = [("stage", *stage)];
        let mut metric = metric.encode_family(&labels)?;
        metric.encode_histogram::<NoLabelSet>(times.sum_ns / 1e9, times.count, &buckets, None)?;
    }
    Ok(())
}

/// Writes the numbers of rejects and disconnects by reason, for reasons that have occurred.
fn reasons(encoder: &mut DescriptorEncoder<'_>, admin: &Admin) -> fmt::Result {
    let counts = admin.reasons();
    let help = "Reject(3) of all sessions, by SessionRejectReason(373)";
    let mut metric = encoder.encode_descriptor("rejects", help, None, MetricType::Counter)?;
    for (direction, rejects) in [("received", counts.rejects_in), ("sent", counts.rejects_out)] {
        for (reason, count) in rejects {
            let reason = reason.map_or_else(|| "other".to_owned(), |reason| reason.to_string());
            let labels = [("direction", direction), ("reason", &*reason)];
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
    }
    let help = "Ended connections of all sessions, by the number of the reason";
    let mut metric = encoder.encode_descriptor("disconnects", help, None, MetricType::Counter)?;
    for (code, count) in counts.disconnects {
        metric
            .encode_family(&[("code", code)])?
            .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    Ok(())
}

#[derive(Default)]
struct Times {
    sum_ns: f64,
    count: u64,
    counts: [u64; BUCKETS_NS.len() + 1],
}

fn certificates(encoder: &mut DescriptorEncoder<'_>, admin: &Admin) -> fmt::Result {
    let help = "The last second at which a certificate of the engine is valid, in Unix time";
    let (unit, kind) = (Some(Unit::Seconds), MetricType::Gauge);
    let name = "certificate_not_after_timestamp";
    let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
    for one in admin.certificates().all() {
        let labels = [("file", one.file.display().to_string()), ("subject", one.subject)];
        metric.encode_family(&labels)?.encode_gauge(&(one.not_after_s as f64))?;
    }
    Ok(())
}

/// Writes the numbers of gateways of the fleet, if they are known.
fn gateways(encoder: &mut DescriptorEncoder<'_>, fleet: Option<&Fleet>) -> fmt::Result {
    let Some(fleet) = fleet else { return Ok(()) };
    let [all, drained] = fleet.counts();
    for (name, help, count) in [
        ("fleet_gateways", "Gateways of the fleet that answer", all),
        ("fleet_gateways_drained", "Drained gateways among them", drained),
    ] {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        metric.encode_gauge(&(count as f64))?;
    }
    Ok(())
}

/// Writes the free space of the disks that contain the stores.
fn disks(encoder: &mut DescriptorEncoder<'_>, handles: &[SessionHandle]) -> fmt::Result {
    let in_files =
        |handle: &&SessionHandle| handle.settings().store.durability != Durability::Memory;
    let dirs = handles.iter().filter(in_files).map(|one| one.settings().store.store_dir.clone());
    let dirs: BTreeSet<PathBuf> = dirs.collect();
    let found = dirs.iter().filter_map(|dir| {
        let found = rustix::fs::statvfs(dir).ok()?;
        let bytes = |blocks: u64| blocks as f64 * found.f_frsize as f64;
        // The blocks reserved for root are excluded, because the process cannot use them.
        let size = found.f_blocks.saturating_sub(found.f_bfree).saturating_add(found.f_bavail);
        Some((dir.display().to_string(), bytes(found.f_bavail), bytes(size)))
    });
    let found: Vec<_> = found.collect();
    let help = "Free bytes for the engine on the file system of a store directory";
    let (unit, kind) = (Some(Unit::Bytes), MetricType::Gauge);
    let mut metric = encoder.encode_descriptor("store_free", help, unit.as_ref(), kind)?;
    for (dir, free, _) in &found {
        metric.encode_family(&[("dir", &**dir)])?.encode_gauge(free)?;
    }
    let help = "Size in bytes of the file system of a store directory, without blocks reserved \
                for root";
    let mut metric = encoder.encode_descriptor("store_size", help, unit.as_ref(), kind)?;
    for (dir, _, size) in &found {
        metric.encode_family(&[("dir", &**dir)])?.encode_gauge(size)?;
    }
    Ok(())
}
