//! The built-in commands, their required roles and their parameters.

use crate::fix::administrators::Administrators;
use crate::fix::answer::{CommandResult, Refused, ResultCode};
use crate::fix::command_text::ParsedCommand;
use crate::fix::request::{SESSION, VERSIONS};
use crate::fix::xml::Writer;
use crate::fix::{creating, monitoring, operating};
use crate::users::Role;

type Run = fn(&ParsedCommand<'_>) -> Result<CommandResult, Refused>;

/// A built-in command.
struct Command {
    name: &'static str,
    role: Role,
    about: &'static str,
    /// True if the command also accepts the parameters that identify a session.
    of_session: bool,
    /// Other parameters of the command; a trailing `*` marks a required parameter.
    parameters: &'static [&'static str],
    run: Run,
}

const fn command(
    name: &'static str,
    role: Role,
    about: &'static str,
    (of_session, parameters): (bool, &'static [&'static str]),
    run: Run,
) -> Command {
    Command { name, role, about, of_session, parameters, run }
}

use Role::{Administrator, Operator, Viewer};

const COMMANDS: &[Command] = &[
    command(
        "SessionsList",
        Viewer,
        "lists the sessions, and can report their changes",
        (false, &["SubscriptionRequestType"]),
        monitoring::list,
    ),
    command(
        "SessionsSnapshot",
        Viewer,
        "shows all sessions in the requested detail",
        (false, &["View*", "SessionView"]),
        monitoring::snapshot,
    ),
    command(
        "SessionStatus",
        Viewer,
        "shows the state of a session",
        (true, &[]),
        monitoring::status,
    ),
    command(
        "SessionParams",
        Viewer,
        "shows the settings of a session",
        (true, &[]),
        monitoring::params,
    ),
    command(
        "SessionStat",
        Viewer,
        "shows the counters of a session",
        (true, &[]),
        monitoring::figures,
    ),
    command(
        "GeneralSessionsStat",
        Viewer,
        "counts the sessions in each state",
        (false, &[]),
        monitoring::general,
    ),
    command(
        "ReceivedStat",
        Viewer,
        "counts the messages received by all sessions or by one session",
        (true, &[]),
        monitoring::received,
    ),
    command(
        "SentStat",
        Viewer,
        "counts the messages sent by all sessions or by one session",
        (true, &[]),
        monitoring::sent,
    ),
    command(
        "ProceedStat",
        Viewer,
        "counts the messages received and sent by all sessions or by one session",
        (true, &[]),
        monitoring::proceed,
    ),
    command(
        "GetFIXProtocolsList",
        Viewer,
        "lists the supported versions of FIX",
        (false, &[]),
        protocols,
    ),
    command("Help", Viewer, "lists the commands", (false, &[]), help),
    command("Heartbeat", Operator, "sends a Heartbeat(0)", (true, &[]), operating::heartbeat),
    command(
        "TestRequest",
        Operator,
        "sends a TestRequest(1)",
        (true, &["TestReqID*"]),
        operating::test_request,
    ),
    command(
        "StartSession",
        Operator,
        "allows a stopped session to connect again",
        (true, &[]),
        operating::start,
    ),
    command(
        "StopSession",
        Operator,
        "ends a session until the command StartSession",
        (true, &["SendLogout", "LogoutReason"]),
        operating::stop,
    ),
    command(
        "ToBackup",
        Operator,
        "connects an initiator to its second destination",
        (true, &[]),
        operating::to_backup,
    ),
    command(
        "ToPrimary",
        Operator,
        "connects an initiator to its first destination",
        (true, &[]),
        operating::to_primary,
    ),
    command(
        "ChangeSeqNum",
        Administrator,
        "sets the next sequence numbers without a message to the counterparty",
        (true, &["InSeqNum", "OutSeqNum"]),
        operating::change_numbers,
    ),
    command(
        "ResetSeqNum",
        Administrator,
        "resets both sequence numbers to 1",
        (true, &[]),
        operating::reset_numbers,
    ),
    command(
        "SendMessage",
        Administrator,
        "sends an application message",
        (true, &["Message*"]),
        operating::send,
    ),
    command(
        "CreateInitiator",
        Administrator,
        "creates a session that connects to the counterparty",
        (
            true,
            &[
                "RemoteHost*",
                "RemotePort*",
                "Backup",
                "ExtraSessionParams",
                "ConfiguredSessionParams",
                "StartRightNow",
            ],
        ),
        creating::initiator,
    ),
    command(
        "CreateAcceptor",
        Administrator,
        "creates a session that accepts the connection of the counterparty",
        (true, &["ExtraSessionParams", "ConfiguredSessionParams", "StartRightNow"]),
        creating::acceptor,
    ),
    command(
        "Delete",
        Administrator,
        "logs a session out and removes it",
        (true, &["SendLogout", "LogoutReason"]),
        creating::delete,
    ),
    command(
        "DeleteAll",
        Administrator,
        "logs all sessions out and removes them",
        (false, &["SendLogout", "LogoutReason", "Exclude"]),
        creating::delete_all,
    ),
    command(
        "ReloadConfig",
        Administrator,
        "makes the program read its settings files again",
        (false, &[]),
        operating::reload,
    ),
    command(
        "StopServer",
        Administrator,
        "logs all sessions out and ends the program",
        (false, &[]),
        operating::stop_server,
    ),
];

/// Commands of other engines that this engine does not support.
const ABSENT: &[&str] = &[
    "AdaptersList",
    "AverageReceivedStat",
    "AverageSentStat",
    "AverageValidateStat",
    "CalendarsList",
    "CleanLogs",
    "ConnectionParams",
    "CreateCalendar",
    "EditSession",
    "ExportConfig",
    "GetCustomProtocolsList",
    "ImportConfig",
    "LatencyAlertSubscription",
    "MeasurementPointList",
    "MeasurementPointStatistic",
    "RemoveCalendar",
    "RestartServer",
    "RestartSession",
    "ServerEnv",
    "ServerInformation",
    "ServerStatus",
    "SessionLog",
    "SessionsParametersSubscription",
    "StartServer",
    "UpdateCalendar",
];

/// Returns the role that the command `name` requires.
///
/// # Errors
/// Returns an error if the command does not exist.
pub(super) fn role_of(administrators: &Administrators, name: &str) -> Result<Role, Refused> {
    let built_in = || COMMANDS.iter().find(|command| command.name == name);
    let role = administrators.own.role(name).or_else(|| built_in().map(|command| command.role));
    role.ok_or_else(|| {
        let why = match ABSENT.contains(&name) {
            true => format!(
                "{name} is not implemented; the command Help lists the available \
                             commands"
            ),
            false => format!("there is no command {name}; the command Help lists all commands"),
        };
        Refused::new(ResultCode::NotImplemented, why)
    })
}

/// Runs a built-in command.
pub(super) fn run(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    let name = given.element.name();
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        return role_of(given.administrators, name).map(|_| CommandResult::default());
    };
    let own = command.parameters.iter().map(|name| name.trim_end_matches('*'));
    let names: Vec<_> = match command.of_session {
        true => SESSION.iter().copied().chain(own).chain(["ApplVerID", "ToAgent"]).collect(),
        false => own.chain(["ToAgent"]).collect(),
    };
    given.element.only(&names)?;
    if given.element.flag("ToAgent")? == Some(true) {
        let why = "there are no agents; remove ToAgent";
        return Err(Refused::new(ResultCode::NotImplemented, why));
    }
    (command.run)(given)
}

fn help(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    let mut xml = Writer::default();
    xml.within("HelpData", |xml| {
        xml.leaf("FIXAdminProtocolVersion", env!("CARGO_PKG_VERSION"));
        for one in COMMANDS.iter().filter(|one| given.administrators.own.role(one.name).is_none()) {
            let of_session = SESSION.iter().filter(|_| one.of_session);
            let names: Vec<_> = of_session.chain(one.parameters).copied().collect();
            supported(xml, (one.name, one.role, one.about), &names);
        }
        given.administrators.own.about().for_each(|said| supported(xml, said, &[]));
    });
    Ok(CommandResult::written(xml))
}

fn supported(xml: &mut Writer, (name, role, about): (&str, Role, &str), parameters: &[&str]) {
    xml.within("SupportedRequest", |xml| {
        xml.within(name, |xml| {
            xml.leaf("Description", about).leaf("Role", role);
            for name in parameters {
                xml.leaf("Parameter", name.trim_end_matches('*'));
            }
        });
    });
}

fn protocols(_: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    let mut xml = Writer::default();
    xml.within("FIXProtocolsListData", |xml| {
        for (name, about) in VERSIONS {
            xml.within("SupportedProtocol", |xml| {
                xml.leaf("Version", name).leaf("Description", about);
            });
        }
    });
    Ok(CommandResult::written(xml))
}
