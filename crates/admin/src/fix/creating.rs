//! Commands that create and remove sessions, by requests to the program that runs the engine.

use std::time::Duration;

use transfix::{
    Action, BeginString, Durability, EngineAction, Role, Secret, SessionId, SessionSettings,
    TlsSettings, Unsent,
};

use crate::adding::copy_from_existing;
use crate::fix::answer::{CommandResult, Refused, ResultCode};
use crate::fix::command_text::ParsedCommand;
use crate::fix::operating::{completed, farewell};
use crate::fix::request::{Element, version};
use crate::fix::xml::Writer;

/// Runs `CreateInitiator`.
pub(super) fn initiator(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    let address = destination(given.element)?;
    let mut session = made(given, Role::Initiator, &address)?;
    if let Some(backup) = given.element.child("Backup") {
        session.failover.addresses = vec![destination(backup)?];
    }
    create(given, session)
}

/// Runs `CreateAcceptor`. The new session listens at the address of the first acceptor.
pub(super) fn acceptor(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    let all = given.admin().handles();
    let like = all.iter().find(|handle| handle.settings().role == Role::Acceptor);
    // Sessions whose settings have the same address text share one listener, even with port 0.
    let address = match (like, given.admin().listening().first()) {
        (Some(like), _) => like.settings().address.clone(),
        (None, Some(bound)) => bound.to_string(),
        (None, None) => {
            return Err(Refused::rejected(
                "the engine has no listening address for \
            acceptors",
            ));
        }
    };
    let session = made(given, Role::Acceptor, &address)?;
    create(given, session)
}

/// Returns `host:port` from the parameters RemoteHost and RemotePort of an element.
fn destination(element: Element<'_>) -> Result<String, Refused> {
    let host = element.required("RemoteHost")?;
    let port = element.required("RemotePort")?;
    let number = port.parse::<u16>().ok().filter(|port| *port > 0);
    let wrong = || Refused::invalid(format!("RemotePort must be 1 to 65535, not `{port}`"));
    let number = number.ok_or_else(wrong)?;
    let is_v6 = host.contains(':') && !host.starts_with('[');
    Ok(if is_v6 { format!("[{host}]:{number}") } else { format!("{host}:{number}") })
}

/// Returns the settings of the new session.
fn made(given: &ParsedCommand<'_>, role: Role, address: &str) -> Result<SessionSettings, Refused> {
    let element = given.element;
    let (ours, theirs) = (element.required("SenderCompID")?, element.required("TargetCompID")?);
    let (begin_string, appl_ver_id) = version(element.required("Version")?)?;
    if theirs == "*" {
        return Err(Refused::invalid(
            "TargetCompID must be a name, not `*`; templates are accepted \
                                     only in the settings file",
        ));
    }
    if element.flag("StartRightNow")? == Some(false) {
        let why = "a created session always starts immediately; remove StartRightNow";
        return Err(Refused::new(ResultCode::NotImplemented, why));
    }
    let id = SessionId::new(begin_string, ours, theirs);
    let mut session = SessionSettings::new(role, &id, address);
    let qualifier = element.text("SessionQualifier").unwrap_or_default();
    if role == Role::Acceptor && !qualifier.is_empty() {
        return Err(Refused::invalid("an acceptor has no SessionQualifier; remove it"));
    }
    qualifier.clone_into(&mut session.qualifier);
    if begin_string == BeginString::Fixt11 {
        session.protocol.default_appl_ver_id = appl_ver_id.map(transfix::ApplVerId);
    }
    // The new session uses the store directory of the first session, and the TLS settings of the
    // acceptors at its address.
    copy_from_existing(&mut session, given.admin());
    if let Some(extra) = element.child("ExtraSessionParams") {
        for one in extra.children() {
            parameter(&mut session, extra, one)?;
        }
    }
    Ok(session)
}

/// Parameters of other engines that have no effect in this engine.
const IGNORED: &[&str] = &[
    "MaxMessagesAmountInBunch",
    "SocketOpPriority",
    "ForcedReconnect",
    "IntradayLogoutToleranceMode",
    "KeepConnectionState",
    "EnableAutoSwitchToBackupConnection",
    "CyclicSwitchBackupConnection",
    "HideLogonCredentials",
    "ClientType",
];

/// Applies one parameter of ExtraSessionParams.
fn parameter(
    session: &mut SessionSettings,
    extra: Element<'_>,
    one: Element<'_>,
) -> Result<(), Refused> {
    let (name, text) = (one.name(), one.own_text().to_owned());
    let flag = || extra.flag(name).map(|flag| flag.unwrap_or(false));
    let wrong = |what: &str| Refused::invalid(format!("{name} is {what}, not `{text}`"));
    let is_initiator = session.role == Role::Initiator;
    match name {
        "SenderSubID" => session.sender_sub_id = text,
        "TargetSubID" => session.target_sub_id = text,
        "SenderLocationID" => session.sender_location_id = text,
        "TargetLocationID" => session.target_location_id = text,
        "HBI" => {
            let seconds: u32 = text.parse().map_err(|_| wrong("a number"))?;
            session.protocol.heart_bt_int = Duration::from_secs(seconds.into());
        }
        "StorageType" => match &*text {
            "TRANSIENT" => session.store.durability = Durability::Memory,
            "PERSISTENT" | "PERSISTENTMM" | "SPLITPERSISTENT" => {
                session.store.durability = Durability::Process;
            }
            _ => return Err(wrong("TRANSIENT or PERSISTENT")),
        },
        "EnableMessageRejecting" if flag()? => session.queue.unsent = Unsent::Return,
        "HandleSeqNumAtLogon" => session.numbers.next_expected = flag()?,
        "ForceSeqNumReset" => match &*text {
            "ON" | "ALWAYS" => session.protocol.reset_on.logon = true,
            "OFF" => session.protocol.reset_on.logon = false,
            _ => return Err(wrong("ON, ALWAYS or OFF")),
        },
        "ReconnectMaxTries" => {
            let tries: i64 = text.parse().map_err(|_| wrong("a number"))?;
            session.socket.reconnect_attempts_max = u32::try_from(tries.max(0)).unwrap_or(u32::MAX);
        }
        "Username" if is_initiator => session.logon.username = Some(text),
        "Username" => session.logon.expected_username = Some(text),
        "Password" if is_initiator => session.logon.password = Some(Secret::new(text)),
        "Password" => session.logon.expected_password = Some(Secret::new(text)),
        "SourceIPAddresses" => {
            let all = one.all("SourceIPAddress").map(|address| address.own_text().to_owned());
            session.allow_from = all.collect();
        }
        "DisableTCPBuffer" => session.socket.tcp_nodelay = flag()?,
        "SSL" if is_initiator && flag()? => session.tls = Some(TlsSettings::default()),
        "EncryptMethod" if text == "NONE" => {}
        // The value `false` changes nothing; for `SSL`, an acceptor keeps the TLS settings of its
        // address.
        "EnableMessageRejecting" | "SSL" | "IgnoreSeqNumTooLowAtLogon" if !flag()? => {}
        // The caller `create` sets the sequence numbers after the session is added.
        "InSeqNum" | "OutSeqNum" => {}
        _ if IGNORED.contains(&name) => {}
        _ => return Err(Refused::invalid(format!("the parameter {name} is unknown; remove it"))),
    }
    Ok(())
}

fn create(given: &ParsedCommand<'_>, session: SessionSettings) -> Result<CommandResult, Refused> {
    let extra = given.element.child("ExtraSessionParams");
    let number = |name| extra.map_or(Ok(None), |extra| extra.number(name));
    let (next_in, next_out) = (number("InSeqNum")?, number("OutSeqNum")?);
    let id = session.id();
    let passed_over = extra.into_iter().flat_map(Element::children).map(Element::name);
    let passed_over = passed_over.filter(|name| IGNORED.contains(name));
    let passed_over: Vec<_> = passed_over.collect();
    let added = given.request(EngineAction::Add(Box::new(session)))?;
    if next_in.is_some() || next_out.is_some() {
        given.admin().act(given.actor, &id, &Action::SetNumbers { next_in, next_out })?;
    }
    let said = completed(given).description;
    Ok(CommandResult::words(match passed_over.is_empty() {
        true => format!("{said}: {added}"),
        false => format!(
            "{said}; parameters without an equivalent were ignored: {}; {added}",
            passed_over.join(", ")
        ),
    }))
}

/// Requests the program to remove a session; without `SendLogout`, closes the connection first.
fn forget(
    given: &ParsedCommand<'_>,
    id: &SessionId,
    farewell: &(bool, String),
) -> Result<String, Refused> {
    let (sends_logout, text) = farewell;
    if !sends_logout && given.admin().handle(id).is_some_and(|handle| handle.is_logged_on()) {
        given.admin().act(given.actor, id, &Action::Disconnect {})?;
    }
    let remove = EngineAction::Remove { id: id.clone(), text: text.clone() };
    given.request(remove)
}

/// Runs `Delete`.
pub(super) fn delete(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    let handle = given.element.session(given.admin())?;
    let removed = forget(given, handle.id(), &farewell(given)?)?;
    Ok(CommandResult::words(format!("{}: {removed}", completed(given).description)))
}

/// Runs `DeleteAll`. Sessions of administrators belong to another engine and are not deleted.
pub(super) fn delete_all(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    match given.element.text("Exclude") {
        None | Some("CURRENT_ADMIN_SESSION" | "ALL_ADMIN_SESSIONS") => {}
        Some(other) => {
            return Err(Refused::invalid(format!(
                "Exclude must be CURRENT_ADMIN_SESSION or ALL_ADMIN_SESSIONS, not `{other}`"
            )));
        }
    }
    let farewell = farewell(given)?;
    let (mut deleted, mut failed) = (0, 0);
    for handle in given.admin().handles() {
        match forget(given, handle.id(), &farewell) {
            Ok(_) => deleted += 1,
            Err(refused) if refused.code == ResultCode::NotImplemented => return Err(refused),
            Err(_) => failed += 1,
        }
    }
    let mut xml = Writer::default();
    xml.within("DeleteAllData", |xml| _ = xml.leaf("Deleted", deleted).leaf("Failed", failed));
    let said = CommandResult::written(xml);
    Ok(CommandResult { description: completed(given).description, ..said })
}
