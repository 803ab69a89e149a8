//! Sends the messages of programs, and those in the lines of files.

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

/// Sends a message, and returns when it is durable in the session's store. `repeats` is true if the
/// message may have been sent before. The engine calls `note` when the message has its number.
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
                // Ignores the given length, and computes it from the data.
                Some((data, value)) => _ = body.data(tag, data, &value.bytes()),
                None if repeats && tag == tag::POSS_RESEND => {}
                None => _ = body.bytes(tag, &value.bytes()),
            }
        }
    };
    let options = SendOptions { poss_resend: repeats, note: Some(note), ..SendOptions::default() };
    handle.send_with(options, &sending.msg_type, fill)
}

/// Returns the answer that tells whether a message was sent.
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
