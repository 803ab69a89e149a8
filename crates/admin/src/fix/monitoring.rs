//! Commands that read lists, snapshots and counters. No command waits for a session.

use std::collections::BTreeMap;

use transfix::{Role, SessionHandle, SessionStatus, State};

use crate::fix::answer::{CommandResult, Refused};
use crate::fix::command_text::ParsedCommand;
use crate::fix::listed::{Listed, write_list};
use crate::fix::logged_on_users::Subscription;
use crate::fix::request::Element;
use crate::fix::session_data::{figures as write_figures, has_ended_well, identity};
use crate::fix::session_data::{params as write_params, status as write_status};
use crate::fix::xml::Writer;

/// Level of detail with which a command shows a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum View {
    Status,
    Params,
    Stat,
}

fn view(element: Element<'_>) -> Result<View, Refused> {
    match element.required("View")? {
        "STATUS" => Ok(View::Status),
        "STATUS_PARAMS" => Ok(View::Params),
        "STATUS_PARAMS_STAT" => Ok(View::Stat),
        other => Err(Refused::invalid(format!(
            "View must be STATUS, STATUS_PARAMS or STATUS_PARAMS_STAT, not `{other}`"
        ))),
    }
}

/// Runs `SessionsList`.
pub(super) fn list(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    let subscribe = |listed: Listed| {
        let subscription = Subscription {
            request_id: given.request_id,
            monitoring_id: given.monitoring_id.map(str::to_owned),
            listed,
        };
        given.attendance().subscribe(given.session, subscription)
    };
    match given.element.text("SubscriptionRequestType").unwrap_or("0") {
        "0" => Ok(sessions(&Listed::of(given.admin()))),
        "1" => {
            let listed = Listed::of(given.admin());
            let said = sessions(&listed);
            subscribe(listed)?;
            Ok(said)
        }
        "2" => match given.attendance().unsubscribe(given.session) {
            true => Ok(CommandResult::words("SessionsList completed")),
            false => Err(Refused::rejected("this connection has no subscription to end")),
        },
        "3" => {
            subscribe(Listed::of(given.admin()))?;
            Ok(CommandResult::words("SessionsList completed"))
        }
        other => Err(Refused::invalid(format!(
            "SubscriptionRequestType must be 0 (list), 1 (list and subscribe), 2 (unsubscribe) or \
             3 (subscribe), not `{other}`"
        ))),
    }
}

fn sessions(listed: &Listed) -> CommandResult {
    let mut xml = Writer::default();
    let all = listed.all().map(|(id, standing)| (id, "NEW", standing));
    write_list(all, &mut xml);
    CommandResult::written(xml)
}

/// Runs `SessionsSnapshot`.
pub(super) fn snapshot(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    let of_all = view(given.element)?;
    let mut of_some = BTreeMap::new();
    for one in given.element.all("SessionView") {
        one.only(&["SenderCompID", "TargetCompID", "SessionQualifier", "Version", "View"])?;
        let handle = one.session(given.admin())?;
        of_some.insert(handle.id().to_string(), view(one)?);
    }
    let mut xml = Writer::default();
    xml.within("SessionsSnapshotData", |xml| {
        for handle in given.admin().handles() {
            let view = *of_some.get(&handle.id().to_string()).unwrap_or(&of_all);
            xml.within("Session", |xml| one(&handle, view, xml));
        }
    });
    Ok(CommandResult::written(xml))
}

fn one(handle: &SessionHandle, view: View, xml: &mut Writer) {
    identity(handle.id(), xml);
    xml.within("StatusData", |xml| write_status(handle, xml));
    if view >= View::Params {
        xml.within("ParamsData", |xml| write_params(handle, xml));
    }
    if view >= View::Stat {
        xml.within("StatData", |xml| write_figures(handle, xml));
    }
}

type Write = fn(&SessionHandle, &mut Writer);

fn of_one(given: &ParsedCommand<'_>, name: &str, write: Write) -> Result<CommandResult, Refused> {
    let handle = given.element.session(given.admin())?;
    let mut xml = Writer::default();
    xml.within(name, |xml| {
        identity(handle.id(), xml);
        write(&handle, xml);
    });
    Ok(CommandResult::written(xml))
}

/// Runs `SessionStatus`.
pub(super) fn status(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    of_one(given, "SessionStatusData", write_status)
}

/// Runs `SessionParams`.
pub(super) fn params(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    of_one(given, "SessionParamsData", write_params)
}

/// Runs `SessionStat`.
pub(super) fn figures(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    of_one(given, "SessionStatData", write_figures)
}

/// Runs `GeneralSessionsStat`.
pub(super) fn general(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    let all = given.admin().handles();
    let all: Vec<(SessionHandle, SessionStatus)> =
        all.into_iter().map(|handle| (handle.clone(), handle.status())).collect();
    let count = |is: &dyn Fn(&SessionHandle, &SessionStatus) -> bool| {
        all.iter().filter(|(handle, status)| is(handle, status)).count()
    };
    let is_active = |status: &SessionStatus| status.state == State::Active;
    let is_out = |status: &SessionStatus| !is_active(status) && status.enabled;
    let role = |handle: &SessionHandle| handle.settings().role;
    let ended = |is_wanted: bool| {
        count(&|_, status| {
            let end = status.last_end.as_ref().filter(|_| !is_active(status));
            end.is_some_and(|end| has_ended_well(&end.reason) == is_wanted)
        })
    };
    let sum = |of: fn(&SessionStatus) -> u64| all.iter().map(|(_, status)| of(status)).sum::<u64>();
    let mut xml = Writer::default();
    xml.within("GeneralSessionsStatData", |xml| {
        xml.leaf("ActiveSessions", count(&|_, status| is_active(status)));
        let reconnecting = |handle: &SessionHandle, status: &SessionStatus| {
            is_out(status) && role(handle) == Role::Initiator
        };
        xml.leaf("ReconnectingSessions", count(&reconnecting));
        let awaiting = |handle: &SessionHandle, status: &SessionStatus| {
            is_out(status) && role(handle) == Role::Acceptor
        };
        xml.leaf("AwaitingSessions", count(&awaiting));
        xml.leaf("TerminatedNormalSessions", ended(true));
        xml.leaf("TerminatedAbnormalSessions", ended(false));
        xml.leaf("NumOfProcessedMessages", sum(processed));
        let rejects = |status: &SessionStatus| {
            status.counters.rejects_out + status.counters.business_rejects_out
        };
        xml.leaf("NumOfRejectedMessages", sum(rejects));
    });
    Ok(CommandResult::written(xml))
}

const fn processed(status: &SessionStatus) -> u64 {
    status.counters.messages_in + status.counters.messages_out
}

/// Writes a counter of the named session, or the sum over all sessions.
fn total(
    given: &ParsedCommand<'_>,
    (outer, inner): (&str, &str),
    of: fn(&SessionStatus) -> u64,
) -> Result<CommandResult, Refused> {
    let names_one = given.element.children().any(|child| child.name() != "ToAgent");
    let total: u64 = match names_one {
        true => of(&given.element.session(given.admin())?.status()),
        false => given.admin().sessions().iter().map(of).sum(),
    };
    let mut xml = Writer::default();
    xml.within(outer, |xml| _ = xml.leaf(inner, total));
    Ok(CommandResult::written(xml))
}

/// Runs `ReceivedStat`.
pub(super) fn received(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    total(given, ("ReceivedStatData", "ReceivedMessages"), |status| status.counters.messages_in)
}

/// Runs `SentStat`.
pub(super) fn sent(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    total(given, ("SentStatData", "SentMessages"), |status| status.counters.messages_out)
}

/// Runs `ProceedStat`.
pub(super) fn proceed(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    total(given, ("ProceedStatData", "ProceedMessages"), processed)
}
