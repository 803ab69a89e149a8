//! The application of the session under test: records the messages that it receives.

use std::sync::mpsc::Sender;

use transfix::{
    Action, Application, Body, BusinessReject, Disconnect, Message, SessionNotice, SessionRef,
    SessionView, Tag, tag,
};
use transfix_testkit::scenario::Operation;

/// A report of the application to the scenario's player.
pub(crate) enum Event {
    Delivered(Vec<u8>),
    Returned(Vec<u8>),
    Ended(Disconnect),
}

/// Accepts NewOrderSingle(D), ExecutionReport(8) and News(B). Rejects messages with "refuse" in
/// Text(58), and is unavailable for messages with "busy".
pub(crate) struct Recorder {
    events: Sender<Event>,
}

impl Recorder {
    pub(crate) const fn new(events: Sender<Event>) -> Self {
        Self { events }
    }
}

impl Application for Recorder {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        if !matches!(message.msg_type().as_bytes(), b"D" | b"8" | b"B") {
            return Err(BusinessReject::unsupported());
        }
        if message.raw(tag::TEXT) == Some(b"refuse") {
            return Err(BusinessReject::other("refused"));
        }
        if message.raw(tag::TEXT) == Some(b"busy") {
            return Err(BusinessReject::not_available());
        }
        // The send fails if the player no longer listens.
        let _ = self.events.send(Event::Delivered(message.bytes().to_vec()));
        Ok(())
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        match notice {
            SessionNotice::Unsent(unsent) => {
                let message = [b"35=", unsent.msg_type.as_bytes(), b"\x01", unsent.body].concat();
                let _ = self.events.send(Event::Returned(message));
            }
            SessionNotice::Disconnected(end) => {
                let _ = self.events.send(Event::Ended(end.reason));
            }
            _ => {}
        }
    }
}

/// Splits `35=D|11=a` into MsgType(35) and the other fields.
pub(crate) fn split(fields: &str) -> (&str, Vec<(Tag, &str)>) {
    let mut fields = fields.split('|').map(|field| field.split_once('=').unwrap());
    let (_, msg_type) = fields.next().unwrap();
    (msg_type, fields.map(|(tag, value)| (Tag(tag.parse().unwrap()), value)).collect())
}

pub(crate) fn fill(fields: &[(Tag, &str)], body: &mut Body<'_>) {
    for (tag, value) in fields {
        body.str(*tag, value);
    }
}

/// Converts a scenario's operation to an operator's action; returns `None` for a restart.
pub(crate) fn action(operation: &Operation) -> Option<Action> {
    Some(match operation {
        Operation::Logout(text) => Action::LogOut { text: text.clone() },
        Operation::Disconnect => Action::Disconnect {},
        Operation::TestRequest(id) => Action::TestRequest { id: id.clone() },
        Operation::ResendRequest(begin, end) => Action::ResendRequest { begin: *begin, end: *end },
        Operation::SequenceReset(new) => Action::SequenceReset { new_seq_no: *new },
        Operation::ResetAtLogon => Action::ResetAtNextLogon {},
        Operation::ResetInSession => Action::ResetInSession {},
        Operation::NextIn(next) => Action::SetNumbers { next_in: Some(*next), next_out: None },
        Operation::NextOut(next) => Action::SetNumbers { next_in: None, next_out: Some(*next) },
        Operation::Restart => return None,
    })
}
