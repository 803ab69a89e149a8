//! Writes the data of a session as XML: status, parameters, counters.

use transfix::{
    BeginString, Disconnect, Durability, Role, SessionHandle, SessionId, SessionStatus, State,
    Unsent, clock,
};

use crate::fix::xml::Writer;
use crate::shown::{is_open, moment};

/// The state of a session in the words of the XML: a status, and the group to which the status
/// belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionSummary {
    pub(super) status: &'static str,
    pub(super) group: &'static str,
}

impl SessionSummary {
    pub(super) fn of(handle: &SessionHandle, status: &SessionStatus) -> Self {
        let (status, group) = match status.state {
            State::Active => ("CONNECTED", "ESTABLISHED"),
            State::LogoutSent => ("WAITING_FOR_LOGOUT", "ESTABLISHED"),
            State::LogonAwaited | State::LogonSent => ("WAITING_FOR_LOGON", "CONNECTING"),
            _ => disconnected(handle, status),
        };
        Self { status, group }
    }

    pub(super) fn write(self, xml: &mut Writer) {
        xml.leaf("Status", self.status).leaf("StatusGroup", self.group);
    }
}

fn disconnected(handle: &SessionHandle, status: &SessionStatus) -> (&'static str, &'static str) {
    let was_there = status.counters.logons > 0;
    match handle.settings().role {
        _ if status.store_has_failed => ("STORE_FAILED", "DISCONNECTED"),
        _ if !status.enabled => ("STOPPED", "DISCONNECTED"),
        _ if !is_open(handle, clock::now().utc) => ("OUT_OF_SCHEDULE", "PLANNED"),
        Role::Initiator if was_there => ("RECONNECTING", "RECONNECTING"),
        Role::Initiator => ("CONNECTING", "CONNECTING"),
        Role::Acceptor if was_there => ("WAITING_FOR_RECONNECT", "RECONNECTING"),
        Role::Acceptor => ("WAITING_FOR_CONNECT", "CONNECTING"),
    }
}

/// Writes SenderCompID and TargetCompID of a session, and the qualifier if set.
pub(super) fn identity(id: &SessionId, xml: &mut Writer) {
    xml.leaf("SenderCompID", &id.sender_comp_id).leaf("TargetCompID", &id.target_comp_id);
    xml.some("SessionQualifier", Some(&id.qualifier).filter(|text| !text.is_empty()));
}

/// Writes the status of a session, its destination in use, and its last sequence numbers.
pub(super) fn status(handle: &SessionHandle, xml: &mut Writer) {
    let status = handle.status();
    SessionSummary::of(handle, &status).write(xml);
    let of_several = handle.settings().role == Role::Initiator;
    let at = handle.destination().filter(|_| of_several);
    xml.some("BackupState", at.map(|at| if at == 0 { "PRIMARY" } else { "BACKUP" }));
    // InSeqNum and OutSeqNum are the last used sequence numbers, not the next ones.
    xml.leaf("InSeqNum", status.next_num_in.saturating_sub(1));
    xml.leaf("OutSeqNum", status.next_num_out.saturating_sub(1));
}

/// Writes the settings of a session as parameters.
pub(super) fn params(handle: &SessionHandle, xml: &mut Writer) {
    let (settings, status) = (handle.settings(), handle.status());
    let is_initiator = settings.role == Role::Initiator;
    xml.leaf("Version", version(handle));
    xml.leaf("Role", if is_initiator { "INITIATOR" } else { "ACCEPTOR" });
    let peer = status.peer.map(|peer| (peer.ip().to_string(), peer.port().to_string()));
    let remote = match is_initiator {
        true => status.destination.as_deref().or(Some(&settings.address)).and_then(host_and_port),
        false => peer,
    };
    if let Some((host, port)) = &remote {
        xml.leaf("RemoteHost", host).leaf("RemotePort", port);
    }
    xml.within("ExtraSessionParams", |xml| extra(handle, &status, xml));
    let backup = handle.destinations().get(1).filter(|_| is_initiator);
    if let Some((host, port)) = backup.and_then(|address| host_and_port(address)) {
        xml.within("Backup", |xml| _ = xml.leaf("RemoteHost", host).leaf("RemotePort", port));
    }
}

/// Splits `host:port`.
fn host_and_port(address: &str) -> Option<(String, String)> {
    let (host, port) = address.rsplit_once(':')?;
    Some((host.trim_matches(['[', ']']).to_owned(), port.to_owned()))
}

fn version(handle: &SessionHandle) -> String {
    let settings = handle.settings();
    match (settings.begin_string, settings.protocol.default_appl_ver_id.map(|of| of.0)) {
        (BeginString::Fixt11, Some(7)) => "FIX50".to_owned(),
        (BeginString::Fixt11, Some(8)) => "FIX50SP1".to_owned(),
        (BeginString::Fixt11, Some(9)) => "FIX50SP2".to_owned(),
        (other, _) => other.as_str().replace('.', ""),
    }
}

fn extra(handle: &SessionHandle, status: &SessionStatus, xml: &mut Writer) {
    let settings = handle.settings();
    let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    xml.some("SenderSubID", given(&settings.sender_sub_id));
    xml.some("TargetSubID", given(&settings.target_sub_id));
    xml.some("SenderLocationID", given(&settings.sender_location_id));
    xml.some("TargetLocationID", given(&settings.target_location_id));
    xml.leaf("HBI", status.heart_bt_int.unwrap_or(settings.protocol.heart_bt_int).as_secs());
    let in_memory = settings.store.durability == Durability::Memory;
    xml.leaf("StorageType", if in_memory { "TRANSIENT" } else { "PERSISTENT" });
    xml.leaf("EnableMessageRejecting", settings.queue.unsent == Unsent::Return);
    xml.leaf("HandleSeqNumAtLogon", settings.numbers.next_expected);
    if settings.role == Role::Initiator {
        let max = settings.socket.reconnect_attempts_max;
        xml.leaf("ReconnectMaxTries", if max == 0 { -1 } else { i64::from(max) });
    }
    xml.leaf("InSeqNum", status.next_num_in).leaf("OutSeqNum", status.next_num_out);
    let resets = settings.protocol.reset_on.logon;
    xml.leaf("ForceSeqNumReset", if resets { "ALWAYS" } else { "OFF" });
    xml.leaf("SSL", settings.tls.as_ref().is_some_and(|tls| tls.enabled));
}

/// Writes the counters of a session as statistics.
pub(super) fn figures(handle: &SessionHandle, xml: &mut Writer) {
    let status = handle.status();
    let counters = &status.counters;
    xml.leaf("ReceivedBytes", counters.bytes_in).leaf("SentBytes", counters.bytes_out);
    xml.leaf("ReceivedMessages", counters.messages_in);
    xml.leaf("SentMessages", counters.messages_out);
    let is_active = status.state == State::Active;
    xml.some("Established", status.since.filter(|_| is_active).map(moment));
    let end = status.last_end.as_ref();
    let normal = |is_wanted: bool| {
        end.filter(|end| has_ended_well(&end.reason) == is_wanted).map(|end| moment(end.at))
    };
    xml.some("TerminatedNormal", normal(true)).some("TerminatedAbnormal", normal(false));
    xml.some("LastReceivedMessage", status.last_received.map(moment));
    xml.some("LastSentMessage", status.last_sent.map(moment));
    xml.leaf("NumOfProcessedMessages", counters.messages_in + counters.messages_out);
    xml.leaf("NumOfRejectedMessages", counters.rejects_out + counters.business_rejects_out);
}

/// Returns true if a connection ended by an exchange of Logout(5).
pub(super) const fn has_ended_well(reason: &Disconnect) -> bool {
    matches!(reason, Disconnect::LoggedOut)
}
