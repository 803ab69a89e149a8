//! Commands that act on a session or on the program.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use transfix::{Action, EngineAction, State};

use crate::fix::answer::{CommandResult, Refused};
use crate::fix::command_text::ParsedCommand;

/// Returns the description of a successful command: its name with `completed`, such as
/// `ToBackup completed`.
pub(super) fn completed(given: &ParsedCommand<'_>) -> CommandResult {
    CommandResult::words(format!("{} completed", given.element.name()))
}

/// Performs an action on the named session.
fn act(given: &ParsedCommand<'_>, action: &Action) -> Result<CommandResult, Refused> {
    let handle = given.element.session(given.admin())?;
    given.admin().act(given.actor, handle.id(), action)?;
    Ok(completed(given))
}

/// Runs `Heartbeat`.
pub(super) fn heartbeat(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    act(given, &Action::Heartbeat {})
}

/// Runs `TestRequest`.
pub(super) fn test_request(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    let id = given.element.required("TestReqID")?.to_owned();
    act(given, &Action::TestRequest { id })
}

/// Runs `StartSession`.
pub(super) fn start(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    act(given, &Action::LogOn {})
}

/// Returns `SendLogout`, false if absent, and `LogoutReason`, the Text(58) of the Logout(5).
pub(super) fn farewell(given: &ParsedCommand<'_>) -> Result<(bool, String), Refused> {
    let text = given.element.text("LogoutReason").unwrap_or_default().to_owned();
    Ok((given.element.flag("SendLogout")?.unwrap_or(false), text))
}

/// Runs `StopSession`.
pub(super) fn stop(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    let (sends_logout, text) = farewell(given)?;
    if !sends_logout {
        let handle = given.element.session(given.admin())?;
        if handle.state() != State::Disconnected {
            given.admin().act(given.actor, handle.id(), &Action::Disconnect {})?;
        }
    }
    act(given, &Action::LogOut { text })
}

/// Runs `ToBackup`.
pub(super) fn to_backup(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    act(given, &Action::ConnectTo { destination: 1 })
}

/// Runs `ToPrimary`.
pub(super) fn to_primary(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    act(given, &Action::ConnectTo { destination: 0 })
}

/// Runs `ChangeSeqNum`.
pub(super) fn change_numbers(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    let next_in = given.element.number("InSeqNum")?;
    let next_out = given.element.number("OutSeqNum")?;
    if next_in.is_none() && next_out.is_none() {
        return Err(Refused::invalid("ChangeSeqNum needs the parameter InSeqNum or OutSeqNum"));
    }
    act(given, &Action::SetNumbers { next_in, next_out })
}

/// Runs `ResetSeqNum`: resets the sequence numbers at once if the session is logged on, otherwise
/// at its next Logon(A).
pub(super) fn reset_numbers(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    let handle = given.element.session(given.admin())?;
    match handle.is_logged_on() {
        true => act(given, &Action::ResetInSession {}),
        false => act(given, &Action::ResetAtNextLogon {}),
    }
}

/// Tags that the session itself sets in each message, including the framing fields.
const OF_THE_SESSION: &[&str] =
    &["8", "9", "34", "35", "43", "49", "50", "52", "56", "57", "97", "122", "142", "143", "10"];

/// Runs `SendMessage`. The message is given in Base64, or as plain text with `|` after each field.
pub(super) fn send(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    let text = given.element.required("Message")?;
    let (msg_type, fields) = message(text).map_err(Refused::invalid)?;
    act(given, &Action::Send { msg_type, fields })
}

/// Returns MsgType(35), and the fields that the session does not set itself.
fn message(text: &str) -> Result<(String, String), String> {
    let plain = match text.contains('=') && text.contains('|') {
        true => text.replace('|', "\u{1}"),
        false => {
            let packed: String = text.split_whitespace().collect();
            let bytes = STANDARD.decode(packed);
            let bytes = bytes.map_err(|error| {
                format!("Message must be Base64 ({error}) or TAG=VALUE|TAG=VALUE|")
            })?;
            String::from_utf8(bytes).map_err(|_| "Message must be UTF-8".to_owned())?
        }
    };
    let (mut msg_type, mut fields) = (None, String::new());
    for field in plain.split('\u{1}').filter(|field| !field.is_empty()) {
        let (tag, value) = field.split_once('=').unwrap_or((field, ""));
        if tag == "35" {
            msg_type = Some(value.to_owned());
        } else if !OF_THE_SESSION.contains(&tag) {
            fields += &format!("{field}\u{1}");
        }
    }
    match msg_type.filter(|msg_type| !msg_type.is_empty()) {
        Some(msg_type) => Ok((msg_type, fields)),
        None => Err("Message has no MsgType(35); add this field".to_owned()),
    }
}

fn of_program(given: &ParsedCommand<'_>, action: EngineAction) -> Result<CommandResult, Refused> {
    Ok(CommandResult::words(given.request(action)?))
}

/// Runs `ReloadConfig`.
pub(super) fn reload(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    of_program(given, EngineAction::Reload)
}

/// Runs `StopServer`.
pub(super) fn stop_server(given: &ParsedCommand<'_>) -> Result<CommandResult, Refused> {
    of_program(given, EngineAction::Stop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_taken_in_both_forms() {
        let whole = "8=FIX.4.4\u{1}9=5\u{1}35=B\u{1}34=7\u{1}148=hi|x\u{1}10=000\u{1}";
        let packed = STANDARD.encode(whole);
        let expected = ("B".to_owned(), "148=hi|x\u{1}".to_owned());
        assert_eq!(message(&packed).unwrap(), expected);
        let (left, right) = packed.split_at(8);
        assert_eq!(message(&format!("{left}\n  {right}")).unwrap(), expected);
        let plain = message("35=B|148=hi|").unwrap();
        assert_eq!(plain, ("B".to_owned(), "148=hi\u{1}".to_owned()));
        assert!(message("MTQ4PXg=").unwrap_err().contains("no MsgType(35)"));
        assert!(message("!").unwrap_err().contains("must be Base64"));
        assert!(message("/w==").unwrap_err().contains("must be UTF-8"));
    }
}
