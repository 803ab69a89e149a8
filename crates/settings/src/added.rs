//! Checks the fields that the settings add to outbound messages.

use transfix_codec::{Tag, tag};

use crate::SessionSettings;
use crate::entries::all_of;

/// Header fields that cannot be added, because they have their own keys or change with each
/// message.
const WITH_KEYS: [(u32, &str); 9] = [
    (50, "use the setting sender_sub_id instead"),
    (57, "use the setting target_sub_id instead"),
    (142, "use the setting sender_location_id instead"),
    (143, "use the setting target_location_id instead"),
    (97, "this field belongs to a single message: add it when you send that message"),
    (369, "use the setting numbers.send_last_processed instead"),
    (1128, "use the setting default_appl_ver_id instead, or `send_with` for a single message"),
    (
        1129,
        "use the setting logon.default_cstm_appl_ver_id instead, or `send_with` for a single \
            message",
    ),
    (1156, "this field belongs to a single message: use `send_with`"),
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
            return Some(format!(
                "{key}: the session layer itself writes tag {tag}; remove this \
                                 entry"
            ));
        }
        if let Some((_, why)) = WITH_KEYS.iter().find(|(known, _)| *known == tag.0) {
            return Some(format!("{key}: tag {tag}: {why}"));
        }
        if value.is_empty() || value.chars().any(char::is_control) {
            return Some(format!(
                "{key}: the value of tag {tag} is empty or contains control \
                                 characters"
            ));
        }
        let is_twice = fields[..n].iter().any(|(other, _)| other == tag);
        is_twice.then(|| format!("{key}: tag {tag} appears twice"))
    }))
}
