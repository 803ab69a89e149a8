//! Encodes events for syslog, journald and files.

use std::fmt::Write as _;

use serde_json::Value;
use tracing::Level;
use transfix::{EventForm, SyslogFacility};
use transfix_admin::ShownEvent;

/// Maximum length of a syslog line, in bytes; receivers accept a datagram of this size.
const SYSLOG_MAX: usize = 8_192;
/// Name of the structured data element in syslog lines. It uses the enterprise number reserved for
/// examples (RFC 5612).
const DATA_ID: &str = "transfix@32473";
/// Maximum length of a field name in a syslog line, in characters (RFC 5424).
const SYSLOG_NAME_MAX: usize = 32;
const JOURNALD_NAME_MAX: usize = 64;
/// Journald fields that the fields of an event must not overwrite.
const OF_JOURNALD: [&str; 5] = ["MESSAGE", "PRIORITY", "TARGET", "EVENT_CODE", "SESSION"];

/// Target of the events that report lost lines.
const OWN: &str = "transfix::events";

/// Returns a line for the event file that reports the number of lost events.
pub(super) fn missing_in_file(form: EventForm, lines: u64) -> Vec<u8> {
    let event = missing(lines);
    match form {
        EventForm::Text => {
            format!("{}  {} {OWN}: {}\n", event.at, event.level, event.text).into_bytes()
        }
        EventForm::Json => json_line(&event),
    }
}

/// Returns an event that reports the number of lost events.
pub(super) fn missing(lines: u64) -> ShownEvent {
    ShownEvent::new(Level::WARN, OWN, format!("{lines} events were lost near this line"))
}

/// Encodes an event as a line of JSON.
pub(super) fn json_line(event: &ShownEvent) -> Vec<u8> {
    let mut line = serde_json::to_vec(event).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Facility and host name in syslog lines.
pub(super) struct Sender {
    pub(super) facility: SyslogFacility,
    pub(super) host: String,
}

impl Sender {
    /// Encodes an event as a syslog line (RFC 5424).
    pub(super) fn line(&self, event: &ShownEvent) -> Vec<u8> {
        let priority = self.facility as u8 * 8 + severity(event.level);
        let host = name(&self.host, 255, |c| c);
        let host = if host.is_empty() { "-" } else { &*host };
        let code = event.code.map_or_else(|| "-".to_owned(), |code| code.to_string());
        let mut line = format!("<{priority}>1 {} {host} transfix ", event.at);
        let _ = write!(line, "{} {code} [{DATA_ID}", std::process::id());
        let mut pair = |key: &str, value: &str| {
            let key = name(key, SYSLOG_NAME_MAX, |c| c);
            let _ = write!(line, " {key}=\"");
            for c in one_line(value).chars() {
                if matches!(c, '"' | '\\' | ']') {
                    line.push('\\');
                }
                line.push(c);
            }
            line.push('"');
        };
        pair("code", &code);
        pair("target", event.target);
        if let Some(session) = &event.session {
            pair("session", session);
        }
        for (key, value) in &event.fields {
            pair(key, &text_of(value));
        }
        let _ = write!(line, "] {}", said(event));
        let end = (0..=SYSLOG_MAX.min(line.len())).rev().find(|at| line.is_char_boundary(*at));
        line.truncate(end.unwrap_or(0));
        line.into_bytes()
    }
}

/// Encodes an event as a datagram for journald.
pub(super) fn journald(event: &ShownEvent) -> Vec<u8> {
    let mut entry = Vec::new();
    let mut field = |key: &str, value: &str| {
        entry.extend_from_slice(key.as_bytes());
        if value.contains('\n') {
            entry.push(b'\n');
            entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            entry.push(b'=');
        }
        entry.extend_from_slice(value.as_bytes());
        entry.push(b'\n');
    };
    field("MESSAGE", &said(event));
    field("PRIORITY", &severity(event.level).to_string());
    field("SYSLOG_IDENTIFIER", "transfix");
    field("SYSLOG_PID", &std::process::id().to_string());
    field("TARGET", event.target);
    if let Some(code) = event.code {
        field("EVENT_CODE", &code.to_string());
    }
    if let Some(session) = &event.session {
        field("SESSION", session);
    }
    for (key, value) in &event.fields {
        let key = name(key, JOURNALD_NAME_MAX, |c| match c.to_ascii_uppercase() {
            c if c.is_ascii_alphanumeric() => c,
            _ => '_',
        });
        let key = key.trim_start_matches(|c: char| c == '_' || c.is_ascii_digit());
        let is_taken = key.is_empty() || OF_JOURNALD.contains(&key) || key.starts_with("SYSLOG_");
        let key = if is_taken { format!("FIELD_{key}") } else { key.to_owned() };
        field(&key, &text_of(value));
    }
    entry
}

/// Formats an event as one line of text: the message, the session and the fields.
fn said(event: &ShownEvent) -> String {
    let mut text = one_line(&event.text);
    if let Some(session) = &event.session {
        let _ = write!(text, " session={}", one_line(session));
    }
    for (key, value) in &event.fields {
        let _ = write!(text, " {key}={}", one_line(&text_of(value)));
    }
    text
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Escapes characters that begin a new line, control a terminal or change the text direction.
pub(super) fn one_line(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut line, c| {
        let is_unseen = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2066}'..='\u{2069}');
        if c.is_control() || is_unseen {
            line.extend(c.escape_debug())
        } else {
            line.push(c)
        }
        line
    })
}

/// Makes a name of at most `max` characters from the printable characters of a text, without
/// delimiters; `as_it_may_be` maps each character.
fn name(text: &str, max: usize, as_it_may_be: impl Fn(char) -> char) -> String {
    let is_plain = |c: &char| c.is_ascii_graphic() && !"=]\"".contains(*c);
    text.chars().filter(is_plain).map(as_it_may_be).take(max).collect()
}

/// Returns the severity of a level as in RFC 5424, which equals journald's priority.
fn severity(level: &str) -> u8 {
    match level {
        "ERROR" => 3,
        "WARN" => 4,
        "INFO" => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hostile() -> ShownEvent {
        let mut event =
            ShownEvent::new(Level::WARN, "transfix::x", "a\nb \u{1b}[2J\u{202e}".to_owned());
        event.code = Some(2024);
        event.session = Some("FIX.4.4:A->B".to_owned());
        event.fields.insert("peer".to_owned(), "1.2.3.4:5\"]\\\n<0>1 forged".into());
        event.fields.insert("message".to_owned(), "x\nPRIORITY=0".into());
        event.fields.insert("n".to_owned(), 7.into());
        event
    }

    #[test]
    fn no_value_ends_a_line_of_syslog_or_its_data() {
        let sender = Sender { facility: SyslogFacility::Local3, host: "the host".to_owned() };
        let line = String::from_utf8(sender.line(&hostile())).unwrap();
        assert!(line.starts_with("<156>1 20"), "{line}");
        assert!(line.contains("Z thehost transfix "), "{line}");
        let data = " 2024 [transfix@32473 code=\"2024\" target=\"transfix::x\" \
                    session=\"FIX.4.4:A->B\"";
        assert!(line.contains(data), "{line}");
        assert!(line.contains(" peer=\"1.2.3.4:5\\\"\\]\\\\\\\\n<0>1 forged\""), "{line}");
        assert!(line.contains("] a\\nb \\u{1b}[2J\\u{202e} "), "{line}");
        assert!(!line.contains(char::is_control), "{line:?}");
        let mut long = hostile();
        long.text = "é".repeat(SYSLOG_MAX);
        let line = sender.line(&long);
        assert!(line.len() <= SYSLOG_MAX && String::from_utf8(line).is_ok());
    }

    #[test]
    fn no_value_is_taken_for_another_field_of_journald() {
        let entry = journald(&hostile());
        let text = String::from_utf8_lossy(&entry);
        assert!(
            text.starts_with("MESSAGE=a\\nb \\u{1b}[2J\\u{202e} session=FIX.4.4:A->B "),
            "{text}"
        );
        for line in ["PRIORITY=4", "SYSLOG_IDENTIFIER=transfix", "EVENT_CODE=2024", "N=7"] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
        let mut framed = b"FIELD_MESSAGE\n".to_vec();
        framed.extend_from_slice(&12_u64.to_le_bytes());
        framed.extend_from_slice(b"x\nPRIORITY=0\n");
        assert!(entry.windows(framed.len()).any(|part| part == framed), "{text}");
    }
}
