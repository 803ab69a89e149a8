//! The protocol between a program and the gateway: one JSON object per line.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use transfix::Message;

/// The value of a field: a text, a whole number, or bytes that are not valid UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum FieldValue {
    Text(String),
    Number(i64),
    Bytes(Vec<u8>),
}

impl FieldValue {
    pub(super) fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Text(text) => text.as_bytes().into(),
            Self::Number(number) => number.to_string().into_bytes().into(),
            Self::Bytes(bytes) => bytes.into(),
        }
    }
}

/// A line of a program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(super) enum Said {
    /// The program has taken the message with this id.
    Take(u64),
    /// The program refuses a message.
    Refuse(Refusal),
    /// The program wants to send a message.
    Send(Sending),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Refusal {
    pub(super) id: u64,
    /// BusinessRejectReason(380).
    #[serde(default)]
    pub(super) reason: u16,
    #[serde(default)]
    pub(super) text: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sending {
    /// A reference chosen by the program, which the answer repeats.
    #[serde(default, rename = "ref")]
    pub(super) reference: Value,
    pub(super) session: String,
    pub(super) msg_type: String,
    pub(super) fields: Vec<(u32, FieldValue)>,
}

/// Returns a message as a line for a program. `repeats` is true if a program may already have
/// received it.
pub(super) fn message(id: u64, session: &str, message: &Message<'_>, repeats: bool) -> Value {
    let mut line = without_id(session, message, repeats);
    line["id"] = json!(id);
    json!({ "message": line })
}

/// Returns a message as a JSON object without an ID.
pub(super) fn without_id(session: &str, message: &Message<'_>, repeats: bool) -> Value {
    let fields = message.fields().map(|field| {
        let value = match std::str::from_utf8(field.value) {
            Ok(text) => FieldValue::Text(text.to_owned()),
            Err(_) => FieldValue::Bytes(field.value.to_vec()),
        };
        json!([field.tag.0, value])
    });
    let msg_type = String::from_utf8_lossy(message.msg_type().as_bytes());
    let fields = fields.collect::<Vec<_>>();
    let mut line = json!({ "session": session, "msg_type": msg_type, "fields": fields });
    if repeats {
        line["poss_resend"] = json!(true);
    }
    line
}
