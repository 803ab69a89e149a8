//! Checks the fields that the settings add to outbound messages.

use transfix_codec::{Tag, tag};

use crate::SessionSettings;
use crate::entries::all_of;

/// Header fields that have their own keys, or change with each message.
const WITH_KEYS: [(u32, &str); 9] = [
    (50, "sender_sub_id says it"),
    (57, "target_sub_id says it"),
    (142, "sender_location_id says it"),
    (143, "target_location_id says it"),
    (97, "it is of one message: send it with that"),
    (369, "numbers.send_last_processed says it"),
    (1128, "default_appl_ver_id says it, and of one message `send_with`"),
    (1129, "logon.default_cstm_appl_ver_id says it, and of one message `send_with`"),
    (1156, "it is of one message: `send_with` says it"),
];

pub(crate) fn header_fields(session: &SessionSettings) -> Result<(), String> {
    check("header_fields", &session.protocol.header_fields)
}

pub(crate) fn body_fields(session: &SessionSettings) -> Result<(), String> {
    check("body_fields", &session.protocol.body_fields)
}

fn check(key: &str, fields: &[(Tag, String)]) -> Result<(), String> {
    all_of(fields.iter().enumerate().filter_map(|(n, (tag, value))| {
        if tag::is_session_owned(*tag) {
            return Some(format!("{key}: the session layer writes tag {tag}"));
        }
        if let Some((_, why)) = WITH_KEYS.iter().find(|(known, _)| *known == tag.0) {
            return Some(format!("{key}: tag {tag}: {why}"));
        }
        if value.is_empty() || value.chars().any(char::is_control) {
            return Some(format!("{key}: tag {tag} has no value, or one with control characters"));
        }
        let is_twice = fields[..n].iter().any(|(other, _)| other == tag);
        is_twice.then(|| format!("{key}: tag {tag} is there twice"))
    }))
}
