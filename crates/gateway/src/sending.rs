//! Sends messages of programs and of files' lines.

use serde_json::{Value, json};
use transfix::{Admin, Body, SendError, SendOptions, Sent, SessionHandle, Tag, tag};
use transfix_codec::data::length_of;

use super::line::Sending;
use super::origins::{Origin, Origins};

/// Sends a message for the program at this socket. Returns the answer for the program.
pub(super) fn send(sending: &Sending, (socket, origins): (&str, &Origins), admin: &Admin) -> Value {
    let Some(handle) = admin.find(&sending.session) else {
        return failed(sending, None, format!("no session is named {}", sending.session));
    };
    let from = Origin::Program(socket.to_owned(), sending.reference.clone());
    let mut note = origins.note(handle.id(), Some(from));
    told(sending, stored(sending, &handle, false, &mut note))
}

/// Sends a message of this session, and returns once it is safe in the store. `repeats` is true if
/// it may have been sent before. `note` is called once it has its number.
pub(super) fn stored(
    sending: &Sending,
    handle: &SessionHandle,
    repeats: bool,
    note: &mut dyn FnMut(Sent),
) -> Result<Sent, SendError> {
    let fill = |body: &mut Body<'_>| {
        let mut fields = sending.fields.iter().map(|(tag, value)| (Tag(*tag), value)).peekable();
        while let Some((tag, value)) = fields.next() {
            let data = fields.next_if(|(data, _)| length_of(*data) == Some(tag));
            match data {
                // The length field is computed, and the given value ignored.
                Some((data, value)) => _ = body.data(tag, data, &value.bytes()),
                None if repeats && tag == tag::POSS_RESEND => {}
                None => _ = body.bytes(tag, &value.bytes()),
            }
        }
    };
    let options = SendOptions { poss_resend: repeats, note: Some(note), ..SendOptions::default() };
    handle.send_with(options, &sending.msg_type, fill)
}

/// Returns the answer about a message that was to be sent.
pub(super) fn told(sending: &Sending, sent: Result<Sent, SendError>) -> Value {
    let reference = &sending.reference;
    match sent {
        Ok(Sent::Direct(seq) | Sent::Stored(seq)) => {
            json!({ "sent": { "ref": reference, "seq": seq } })
        }
        Ok(_) => json!({ "sent": { "ref": reference, "seq": null } }),
        Err(error) => failed(sending, Some(error.as_u16()), error.to_string()),
    }
}

pub(super) fn failed(sending: &Sending, code: Option<u16>, text: String) -> Value {
    json!({ "error": { "ref": sending.reference, "code": code, "text": text } })
}
