//! Checks the settings of a session for values out of range, and for keys that contradict each
//! other.

use std::net::IpAddr;

use transfix_codec::shown::is_hidden;
use transfix_codec::{MsgType, tag};
use transfix_session::{ApplVerId, BeginString, ResetPolicy, Role, Secret, Secs};

use crate::entries::all_of;
use crate::failover::FailoverSettings;
use crate::log::LogSettings;
use crate::retention;
use crate::schedule::{Schedule, check_zone};
use crate::template;
use crate::{Mode, Offline, SessionSettings, ValidateOut};
use crate::{added, allow_from, password_hash};

/// The highest differentiated services code point, which has six bits.
const DSCP_MAX: u8 = 63;
/// The maximum length of a CompID, SubID or LocationID, in bytes.
const ID_BYTES_MAX: usize = 255;

/// A step on the path to a value in the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The value of this key in a table.
    Key(&'static str),
    /// This entry of a list, counted from 0.
    Entry(usize),
}

/// An error in the settings of a session.
#[derive(Debug)]
pub(crate) struct Wrong {
    /// The text, which names the session and the remedy.
    pub(crate) what: String,
    /// The path to the wrong value, or as much of it as is known.
    pub(crate) path: Vec<Step>,
}

impl SessionSettings {
    /// Checks the settings of a session made in code: values out of range, contradictions.
    ///
    /// # Errors
    /// Names the session and the remedy.
    pub fn check(&self) -> Result<(), String> {
        find_wrong(self).map_err(|wrong| wrong.what)
    }
}

/// Checks the settings of a session from a file. The error has the path to the value.
pub(crate) fn find_wrong(session: &SessionSettings) -> Result<(), Wrong> {
    if session.sender_comp_id.is_empty() || session.target_comp_id.is_empty() {
        let what = "sender_comp_id and target_comp_id must not be empty".to_owned();
        return Err(Wrong { what, path: Vec::new() });
    }
    type Check = fn(&SessionSettings) -> Result<(), String>;
    // The checks, each with the key that it concerns; the key is empty if several are concerned.
    let all: [(&str, Check); 24] = [
        ("", identity),
        ("address", address),
        ("allow_from", allow_from::check),
        ("proxy_protocol_from", allow_from::check_proxies),
        ("", socket),
        ("", ranges),
        ("throttles", throttles),
        ("", versions),
        ("logon", credentials),
        ("logon", logon),
        ("header_fields", added::header_fields),
        ("body_fields", added::body_fields),
        ("", resets),
        ("reset_at_zone", reset_at_zone),
        ("", recovery),
        ("queue_expires_s", queue),
        ("slow_consumer_bytes", slow_consumer),
        ("log", log),
        ("retention", retention::check),
        ("tls", tls),
        ("failover", failover),
        ("proxy", proxy),
        ("mode", template::check),
        ("cpu", threads),
    ];
    let wrong = |what: String, path| Wrong { what: format!("{}: {what}", session.id()), path };
    for (key, check) in all {
        check(session).map_err(|what| wrong(what, vec![Step::Key(key)]))?;
    }
    let schedule = session.schedule.as_ref().map(Schedule::new).transpose();
    schedule.map(drop).map_err(|error| {
        let path = [vec![Step::Key("schedule")], error.path()].concat();
        wrong(error.to_string(), path)
    })
}

fn identity(session: &SessionSettings) -> Result<(), String> {
    let comp_ids = [&session.sender_comp_id, &session.target_comp_id];
    let sub_ids = [&session.sender_sub_id, &session.target_sub_id];
    let location_ids = [&session.sender_location_id, &session.target_location_id];
    if location_ids.iter().any(|id| !id.is_empty()) && session.begin_string == BeginString::Fix40 {
        return Err("FIX.4.0 has no LocationIDs; remove sender_location_id and target_location_id"
            .to_owned());
    }
    let mut all = comp_ids.into_iter().chain(sub_ids).chain(location_ids);
    if all.clone().flat_map(|id| id.chars()).any(is_hidden) {
        let what = "control characters or other invisible characters";
        return Err(format!("a CompID, SubID or LocationID must not contain {what}"));
    }
    if all.any(|id| id.len() > ID_BYTES_MAX) {
        return Err(format!("a CompID, SubID or LocationID may have at most {ID_BYTES_MAX} bytes"));
    }
    if session.role == Role::Acceptor && !session.qualifier.is_empty() {
        // Refused, because a Logon(A) cannot distinguish an acceptor's sessions that differ only in
        // their qualifier.
        return Err(
            "qualifier is for initiators only, because a Logon(A) carries no qualifier".to_owned()
        );
    }
    Ok(())
}

/// Checks credentials: an acceptor may only expect them, and an initiator may only send them.
fn credentials(session: &SessionSettings) -> Result<(), String> {
    let logon = &session.logon;
    let sends =
        logon.username.is_some() || logon.password.is_some() || logon.new_password.is_some();
    let expects = logon.expected_username.is_some() || logon.expects_password();
    if logon.expected_password.is_some() && logon.expected_password_hash.is_some() {
        return Err(
            "logon.expected_password and logon.expected_password_hash exclude each other; set \
             only one"
                .to_owned(),
        );
    }
    if let Some(hash) = &logon.expected_password_hash {
        password_hash::check(hash.reveal())?;
    }
    let has_fields = session.begin_string >= BeginString::Fix43;
    match session.role {
        Role::Acceptor if sends => Err("logon.username, password and new_password are for \
                                        initiators only; an acceptor checks expected_username \
                                        and expected_password"
            .to_owned()),
        Role::Initiator if expects => {
            Err("logon.expected_username and expected_password are for acceptors only; an \
                 initiator sends username and password"
                .to_owned())
        }
        _ if expects && !has_fields => Err(format!(
            "{} has no Username(553) and Password(554); expected_username and expected_password \
             require FIX.4.3 or later",
            session.begin_string
        )),
        _ => Ok(()),
    }
}

fn address(session: &SessionSettings) -> Result<(), String> {
    // A session without sockets.
    if session.address.is_empty() { Ok(()) } else { host_and_port("address", &session.address) }
}

/// Checks that the address has the form `host:port`. The host is resolved later, when it is first
/// used.
pub(crate) fn host_and_port(key: &str, address: &str) -> Result<(), String> {
    // Checks for IPv6 too: `::1` has no port, but `[::1]:9880` has one.
    let is_bare = address.parse::<IpAddr>().is_ok();
    let host_and_port = address.rsplit_once(':').filter(|_| !is_bare);
    match host_and_port {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(()),
        Some((host, port)) if !host.is_empty() && !port.is_empty() => {
            Err(format!("{key} `{address}`: the port must be 0 to 65535, not `{port}`"))
        }
        Some(("", port)) => {
            Err(format!("{key} `{address}` has no host; write host:port, such as 127.0.0.1:{port}"))
        }
        _ => {
            let host = address.trim_end_matches(':');
            let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
            Err(format!("{key} `{address}` has no port; write host:port, such as {host}:9880"))
        }
    }
}

fn failover(session: &SessionSettings) -> Result<(), String> {
    let failover = &session.failover;
    if session.role == Role::Acceptor && *failover != FailoverSettings::default() {
        return Err(
            "failover is for initiators only, because an acceptor does not connect".to_owned()
        );
    }
    let resets = failover.reset_on_backup || failover.reset_on_primary;
    if resets && session.begin_string == BeginString::Fix40 {
        let why = "ResetSeqNumFlag(141), which failover.reset_on_backup and \
                   failover.reset_on_primary need";
        return Err(format!("FIX.4.0 has no {why}"));
    }
    let check = |address: &String| host_and_port("failover.addresses:", address).err();
    all_of(failover.addresses.iter().filter_map(check))?;
    failover.check(session.queue.offline)
}

fn proxy(session: &SessionSettings) -> Result<(), String> {
    let Some(proxy) = &session.proxy else { return Ok(()) };
    if session.role == Role::Acceptor {
        return Err("proxy is for initiators only, because an acceptor does not connect".to_owned());
    }
    host_and_port("proxy.address", &proxy.address)?;
    proxy.check()
}

fn ranges(session: &SessionSettings) -> Result<(), String> {
    let timing = &session.timing;
    for (table, checked) in [
        ("", session.check_ranges()),
        ("", session.protocol.check_ranges()),
        ("", session.validation.check_ranges()),
        ("", session.store.check_ranges()),
        ("", session.queue.check_ranges()),
        ("", session.threads.check_ranges()),
        ("", session.socket.check_ranges()),
        ("resend.", session.resend.check_ranges()),
        ("timing.", timing.check_ranges()),
        ("application.", session.application.check_ranges()),
        ("unavailable.", session.unavailable.check_ranges()),
    ] {
        checked.map_err(|wrong| format!("{table}{wrong}"))?;
    }
    let heart_bt_int = session.protocol.heart_bt_int;
    if heart_bt_int.subsec_nanos() > 0 {
        return Err(format!(
            "heart_bt_int_s must be a whole number of seconds, not {heart_bt_int:?}"
        ));
    }
    let (min, max) = (timing.heart_bt_int_min, timing.heart_bt_int_max);
    if !max.is_zero() && min > max {
        let [min, max] = [min, max].map(Secs::count);
        return Err(format!(
            "timing.heart_bt_int_s_min {min} must not be above heart_bt_int_s_max \
                            {max}"
        ));
    }
    Ok(())
}

fn log(session: &SessionSettings) -> Result<(), String> {
    session.log.as_ref().map_or(Ok(()), LogSettings::check)
}

fn recovery(session: &SessionSettings) -> Result<(), String> {
    if session.resend.closed_ranges && session.protocol.held_messages_max == 0 {
        return Err(
            "resend.closed_ranges requires held_messages_max of at least 1: otherwise the message \
             that reveals a gap would always be missing"
                .to_owned(),
        );
    }
    Ok(())
}

fn queue(session: &SessionSettings) -> Result<(), String> {
    if !session.queue.queue_expires.is_zero() && session.queue.offline != Offline::Queue {
        return Err("queue_expires_s requires offline = \"queue\", because otherwise no messages \
                    wait"
            .to_owned());
    }
    Ok(())
}

fn slow_consumer(session: &SessionSettings) -> Result<(), String> {
    let queue = &session.queue;
    if queue.slow_consumer_bytes >= queue.queued_bytes_max {
        return Err(format!(
            "slow_consumer_bytes = {} must be less than queued_bytes_max = {}, because at most \
             that many bytes wait to be written",
            queue.slow_consumer_bytes, queue.queued_bytes_max
        ));
    }
    Ok(())
}

fn threads(session: &SessionSettings) -> Result<(), String> {
    let never_sleeps = matches!(session.threads.mode, Mode::Spin | Mode::Polled);
    if never_sleeps && !session.threads.spin.is_zero() {
        return Err(
            "spin_us requires mode = \"pool\" or \"dedicated\": the other modes do not sleep \
             while connected, or sleep in your program"
                .to_owned(),
        );
    }
    // Only a thread that drives a single session can be pinned to this CPU.
    let mode = match session.threads.mode {
        Mode::Pool => "pool",
        Mode::Polled => "polled",
        Mode::Dedicated | Mode::Spin => return Ok(()),
    };
    let Some(cpu) = session.threads.cpu else { return Ok(()) };
    Err(format!(
        "cpu = {cpu} requires a thread for this session alone (mode = \"dedicated\" or \"spin\"), \
         not \"{mode}\"; `cpus` of [engine] pins the threads of the pool"
    ))
}

fn tls(session: &SessionSettings) -> Result<(), String> {
    session.tls.as_ref().map_or(Ok(()), |tls| tls.check(session.role))
}

fn socket(session: &SessionSettings) -> Result<(), String> {
    let socket = &session.socket;
    if let Some(dscp) = socket.dscp.filter(|dscp| *dscp > DSCP_MAX) {
        return Err(format!("dscp must be 0 to {DSCP_MAX}, not {dscp}"));
    }
    let is_about_probes =
        !socket.tcp_keepalive_interval.is_zero() || socket.tcp_keepalive_probes > 0;
    if is_about_probes && socket.tcp_keepalive.is_zero() {
        return Err("tcp_keepalive_interval_s and tcp_keepalive_probes require tcp_keepalive_s, \
                    the idle time before the first probe"
            .to_owned());
    }
    if session.role == Role::Acceptor && !socket.local_address.is_empty() {
        return Err(
            "local_address is for initiators only; an acceptor listens at `address`".to_owned()
        );
    }
    if session.role == Role::Initiator && socket.reuse_port {
        return Err(
            "reuse_port is for acceptors only, because an initiator does not listen".to_owned()
        );
    }
    Ok(())
}

fn throttles(session: &SessionSettings) -> Result<(), String> {
    let all = &session.protocol.throttles;
    all_of(all.iter().enumerate().filter_map(|(n, throttle)| {
        let msg_type = &throttle.msg_type;
        if !MsgType::new(msg_type).is_application() {
            return Some(format!("throttles: `{msg_type}` is not an application message type"));
        }
        if throttle.interval.is_zero() {
            return Some(format!("throttles: interval_ms of {msg_type} must be at least 1"));
        }
        let is_twice = all[..n].iter().any(|other| other.msg_type == *msg_type);
        is_twice.then(|| format!("throttles: {msg_type} appears twice"))
    }))
}

fn versions(session: &SessionSettings) -> Result<(), String> {
    let fixt = session.begin_string == BeginString::Fixt11;
    let named = match session.protocol.default_appl_ver_id {
        None if fixt && session.role == Role::Initiator => {
            Err("a FIXT.1.1 initiator requires default_appl_ver_id, such as 9".to_owned())
        }
        Some(_) if !fixt => Err("default_appl_ver_id is for FIXT.1.1 only".to_owned()),
        Some(ApplVerId(n)) if !(2..=10).contains(&n) => {
            Err(format!("default_appl_ver_id must be 2 (FIX 4.0) to 10 (FIX Latest), not {n}"))
        }
        _ => Ok(()),
    };
    named?;
    if !fixt && !session.validation.appl_versions.is_empty() {
        return Err("appl_versions is for FIXT.1.1 only".to_owned());
    }
    if !fixt && session.validation.session_dictionary.is_some() {
        return Err(
            "session_dictionary is for FIXT.1.1 only; earlier versions use one dictionary \
                    for all messages"
                .to_owned(),
        );
    }
    if session.validation.validate_out != ValidateOut::Off && !session.validation.validate {
        return Err(
            "validate_out requires validate = true, because both use the same checks".to_owned()
        );
    }
    if !fixt && session.logon.default_cstm_appl_ver_id.is_some() {
        return Err("logon.default_cstm_appl_ver_id is for FIXT.1.1 only".to_owned());
    }
    Ok(())
}

/// Fields that the session layer writes into a Logon(A).
const OF_LOGON: [u32; 11] = [98, 108, 141, 383, 464, 553, 554, 789, 925, 1137, 1408];

fn logon(session: &SessionSettings) -> Result<(), String> {
    let logon = &session.logon;
    let version = session.begin_string;
    all_of(logon.fields.iter().filter_map(|(tag, _)| {
        // A field that is not defined in this version has no setting of its own there, so it may be
        // added.
        let is_foreign = match tag.0 {
            553 | 554 => version < BeginString::Fix43,
            925 => version < BeginString::Fixt11,
            _ => false,
        };
        let is_ours = tag::is_session_owned(*tag) || OF_LOGON.contains(&tag.0);
        (is_ours && !is_foreign).then(|| {
            format!(
                "logon.fields: tag {tag} is written by the session layer or has a \
                              setting of its own"
            )
        })
    }))?;
    let hidden = [&logon.password, &logon.new_password].into_iter().flatten().map(Secret::reveal);
    let shown = [&logon.username, &logon.default_cstm_appl_ver_id].into_iter().flatten();
    let values = logon.fields.iter().map(|(_, value)| value);
    let mut texts = shown.chain(values).map(String::as_str).chain(hidden);
    if texts.any(|text| text.is_empty() || text.chars().any(char::is_control)) {
        return Err("logon: a value must not be empty or contain control characters".to_owned());
    }
    if version < BeginString::Fix43 && (logon.username.is_some() || logon.password.is_some()) {
        return Err(format!(
            "{version} has no Username(553) and no Password(554); if the counterparty requires \
             these fields, write logon.fields = [\"553=...\"]"
        ));
    }
    if version < BeginString::Fixt11 && logon.new_password.is_some() {
        return Err("logon.new_password is for FIXT.1.1 only".to_owned());
    }
    Ok(())
}

fn reset_at_zone(session: &SessionSettings) -> Result<(), String> {
    let zone = &session.protocol.reset_at_zone;
    if zone.is_empty() {
        return Ok(());
    }
    check_zone(zone).map_err(|why| format!("reset_at_zone: {why}"))
}

fn resets(session: &SessionSettings) -> Result<(), String> {
    if session.queue.offline == Offline::Store && session.protocol.reset_on != ResetPolicy::NEVER {
        return Err("offline = \"store\" requires reset_on = [], because a reset would lose the \
                    stored messages"
            .to_owned());
    }
    if session.queue.offline == Offline::Store && !session.store.keep_outbound {
        return Err("offline = \"store\" requires keep_outbound = true, because messages not \
                    stored could not be sent later"
            .to_owned());
    }
    let by_time = session.protocol.reset_at.is_some() || !session.protocol.reset_after.is_zero();
    if by_time && session.begin_string == BeginString::Fix40 {
        return Err(
            "FIX.4.0 has no ResetSeqNumFlag(141); remove reset_at and reset_after_s".to_owned()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::retention::BeyondLimit;
    use transfix_session::SessionId;

    fn refused(change: impl FnOnce(&mut SessionSettings), expected: &str) {
        let id = SessionId::new(BeginString::Fix40, "A", "B");
        let mut settings = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
        assert_eq!(settings.check(), Ok(()));
        change(&mut settings);
        let why = settings.check().unwrap_err();
        assert!(why.contains(expected), "{why}");
    }

    #[test]
    fn names_can_be_read_in_a_line() {
        let long = "X".repeat(256);
        for id in ["A\nB", "A\u{202e}B", "\u{200b}"] {
            refused(|s| s.target_comp_id = id.to_owned(), "invisible");
            refused(|s| s.sender_sub_id = id.to_owned(), "invisible");
        }
        refused(|s| s.sender_comp_id = long.clone(), "at most 255 bytes");
        refused(|s| s.target_comp_id = long, "at most 255 bytes");
    }

    #[test]
    fn keys_that_contradict_each_other_are_refused() {
        let store = |s: &mut SessionSettings| s.queue.offline = Offline::Store;
        refused(
            |s| {
                store(s);
                s.store.keep_outbound = false;
            },
            "requires keep_outbound = true",
        );
        refused(
            |s| {
                store(s);
                s.protocol.reset_on.logout = true;
            },
            "requires reset_on = []",
        );
        refused(|s| s.threads.cpu = Some(0), "requires a thread for this session alone");
        refused(
            |s| (s.threads.cpu, s.threads.mode) = (Some(0), Mode::Polled),
            "(mode = \"dedicated\" or \"spin\"), not \"polled\"",
        );
        refused(
            |s| s.protocol.reset_after = Duration::from_hours(24),
            "FIX.4.0 has no ResetSeqNumFlag(141)",
        );
        refused(
            |s| {
                s.begin_string = BeginString::Fix44;
                s.protocol.reset_at = Some(0);
                s.protocol.reset_at_zone = "Europe/Londn".into();
            },
            "reset_at_zone: unknown time zone `Europe/Londn`; did you mean `Europe/London`?",
        );
        refused(
            |s| s.queue.queue_expires = Duration::from_secs(60),
            "requires offline = \"queue\"",
        );
        refused(|s| s.application.messages_max = 0, "application.messages_max");
        refused(|s| s.queue.slow_consumer_bytes = 16 << 20, "must be less than queued_bytes_max");
        let finer = Duration::from_millis(1_500);
        refused(
            |s| s.protocol.heart_bt_int = finer,
            "heart_bt_int_s must be a whole number of seconds",
        );
        refused(|s| s.resend.repeat_after = Duration::MAX, "resend.repeat_after_s is at most");
        refused(|s| s.timing.margin_percent = 1_001, "timing.margin_percent is at most 1000, not");
        refused(|s| s.socket.dscp = Some(64), "dscp must be 0 to 63, not 64");
        refused(|s| s.socket.tcp_keepalive_probes = 3, "require tcp_keepalive_s");
        refused(
            |s| s.socket.tcp_keepalive_interval = Duration::from_secs(3),
            "require tcp_keepalive_s",
        );
        refused(|s| s.socket.local_address = "::1".into(), "local_address is for initiators only");
        let spins = |s: &mut SessionSettings| {
            (s.threads.mode, s.threads.spin) = (Mode::Spin, Duration::from_micros(50));
        };
        refused(spins, "or sleep in your program");
        refused(|s| (s.role, s.socket.reuse_port) = (Role::Initiator, true), "for acceptors only");
        refused(
            |s| s.socket.reconnect_interval = Duration::ZERO,
            "reconnect_interval_ms must be at least 1, not",
        );
        refused(|s| s.retention.when_full = BeyondLimit::Refuse, "requires bytes_max");
        refused(|s| s.retention.archive_dir = Some("".into()), "must not be empty");
    }
}
