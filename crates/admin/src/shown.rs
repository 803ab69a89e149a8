//! Formats the data of sessions as JSON.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde_json::{Value, json};
use transfix::schedule::Schedule;
use transfix::{Counters, Durability, Role, SessionHandle, SessionStatus, Timestamp, clock};

/// Formats a time in UTC as ISO 8601.
pub(crate) fn moment(at: Timestamp) -> String {
    match jiff::Timestamp::from_nanosecond(i128::from(at.0)) {
        Ok(at) => format!("{at:.6}"),
        Err(_) => at.to_string(),
    }
}

/// Returns true if the session's store has failed, or if the session is enabled and open but not
/// logged on.
pub(crate) fn is_down(handle: &SessionHandle, status: &SessionStatus) -> bool {
    let may_be_down = !status.enabled || handle.is_logged_on();
    status.store_has_failed || !may_be_down && is_open(handle, clock::now().utc)
}

/// Returns the worst problem of a session in one to three words, or `None` if the session has no
/// problem.
pub(crate) fn problem(handle: &SessionHandle, status: &SessionStatus) -> Option<&'static str> {
    if status.store_has_failed {
        return Some("store");
    }
    if status.held_up_by.is_some() {
        return Some("callback");
    }
    if is_down(handle, status) {
        return Some("not logged on");
    }
    if status.holds_sending {
        return Some("sending held");
    }
    if status.slow_consumer {
        return Some("slow consumer");
    }
    (!status.unusual_latency.is_empty()).then_some("latency")
}

/// Returns true if the session is open at the time `now` according to its schedule.
pub(crate) fn is_open(handle: &SessionHandle, now: Timestamp) -> bool {
    let schedule = handle.settings().schedule.as_ref();
    // The settings were validated at the start of the session, so the schedule is valid.
    let schedule = schedule.and_then(|settings| Schedule::new(settings).ok());
    schedule.is_none_or(|schedule| schedule.at(now).is_some())
}

/// Returns the data of a session for one row of the table of sessions.
pub(crate) fn session(handle: &SessionHandle) -> Value {
    let status = handle.status();
    let settings = handle.settings();
    let (messages, bytes) = status.waiting_for_application;
    json!({
        "id": status.id.to_string(),
        "begin_string": status.id.begin_string.as_str(),
        "sender_comp_id": &*status.id.sender_comp_id,
        "target_comp_id": &*status.id.target_comp_id,
        "qualifier": &*status.id.qualifier,
        "role": match settings.role { Role::Acceptor => "acceptor", _ => "initiator" },
        "state": format!("{:?}", status.state),
        "since": status.since.map(moment),
        "problem": problem(handle, &status),
        "enabled": status.enabled,
        "holds_sending": status.holds_sending,
        "next_num_in": status.next_num_in,
        "next_num_out": status.next_num_out,
        "last_received": status.last_received.map(moment),
        "silent_ms": status.last_received.map(|at| (clock::now().utc.since(at) / 1_000_000).max(0)),
        "last_sent": status.last_sent.map(moment),
        "heart_bt_int_s": status.heart_bt_int.unwrap_or(settings.protocol.heart_bt_int).as_secs(),
        "queued_bytes": status.queued_bytes,
        "slow_consumer": status.slow_consumer,
        "held_up_by": status.held_up_by,
        "unusual_latency": status.unusual_latency.iter().map(|stage| stage.as_str())
            .collect::<Vec<_>>(),
        "waiting_for_application": { "messages": messages, "bytes": bytes },
        "address": settings.address,
        "destination": status.destination,
        "peer": status.peer.map(|peer| peer.to_string()),
        "counters": counted(&status.counters),
        "last_end": status.last_end.as_ref().map(|end| json!({
            "at": moment(end.at),
            "reason": end.reason.to_string(),
            "code": end.reason.as_u16(),
            "text": end.text,
        })),
    })
}

fn counted(counters: &Counters) -> Value {
    json!({
        "messages_in": counters.messages_in,
        "messages_out": counters.messages_out,
        "bytes_in": counters.bytes_in,
        "bytes_out": counters.bytes_out,
        "garbled": counters.garbled,
        "logons": counters.logons,
        "not_stored": counters.not_stored,
        "refused": counters.refused,
        "passed_over": counters.passed_over,
        "not_logged": counters.not_logged,
        "logons_refused": counters.logons_refused,
        "rejects_in": counters.rejects_in,
        "rejects_out": counters.rejects_out,
        "business_rejects_in": counters.business_rejects_in,
        "business_rejects_out": counters.business_rejects_out,
        "resend_requests_in": counters.resend_requests_in,
        "resend_requests_out": counters.resend_requests_out,
        "resent": counters.resent,
        "disconnects": counters.disconnects,
    })
}

/// Returns the path, the size and the free disk space of the session's store, or `null` for a
/// memory store.
fn store(handle: &SessionHandle) -> Value {
    let settings = handle.settings();
    if settings.store.durability == Durability::Memory {
        return Value::Null;
    }
    let path = settings.store_path();
    let free =
        rustix::fs::statvfs(&path).ok().map(|found| found.f_bavail.saturating_mul(found.f_frsize));
    json!({ "path": path.display().to_string(), "bytes": on_disk(&path), "free_bytes": free })
}

/// Returns the disk usage of the files in a directory, in bytes. Subdirectories are not counted,
/// because a store has none.
fn on_disk(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let taken = files.filter_map(|file| file.metadata().ok()).map(|file| file.blocks() * 512);
    taken.sum()
}

/// Returns all data of a session, for the page that shows one session.
pub(crate) fn details(handle: &SessionHandle) -> Value {
    let mut shown = session(handle);
    let stages = handle.latency();
    let latency = stages.stages().filter(|(_, times)| times.count() > 0).map(|(stage, times)| {
        json!({
            "stage": stage.as_str(),
            "count": times.count(),
            "p50_ns": times.percentile_ns(50.0),
            "p99_ns": times.percentile_ns(99.0),
            "p999_ns": times.percentile_ns(99.9),
            "max_ns": times.max_ns(),
        })
    });
    shown["latency"] = latency.collect();
    shown["store"] = store(handle);
    shown["destinations"] = handle.destinations().into();
    shown["windows"] = windows(handle);
    shown["store_failure"] =
        if handle.status().store_has_failed { handle.store_failure().into() } else { Value::Null };
    shown
}

/// Returns the next 5 windows of the session's schedule, or `null` for a session that is always
/// open.
fn windows(handle: &SessionHandle) -> Value {
    let Some(settings) = &handle.settings().schedule else { return Value::Null };
    let Ok(schedule) = Schedule::new(settings) else { return Value::Null };
    let windows = schedule.intervals(clock::now().utc).take(5).map(|window| {
        json!({
            "open": moment(window.open),
            "close": moment(window.close),
            "open_local": schedule.local_text(window.open),
            "close_local": schedule.local_text(window.close),
        })
    });
    windows.collect()
}
