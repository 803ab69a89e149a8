//! Events and notices for an application: [`SessionEvent`] and [`SessionNotice`].

use std::fmt;

use transfix_codec::shown::Shown;
use transfix_codec::{Message, MsgType, Tag, tag};
use transfix_session::core::call::PlainEvent;
use transfix_session::{Disconnect, RolledBack, SendError, State};

use transfix_observe::called::Callback;
use transfix_observe::event_codes::EventCode;

/// An event of a session that the application may answer with messages. [`Application::on_event`]
/// receives events in the order in which they happened.
///
/// [`Application::on_event`]: crate::Application::on_event
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum SessionEvent<'a> {
    /// The session is logged on, so that the application may send messages. Reported once per
    /// logon.
    LoggedOn,
    /// Both sequence numbers restarted at 1 while the session stays logged on. The cause is a
    /// Logon(A) with ResetSeqNumFlag(141)=Y from the counterparty, or the counterparty's answer to
    /// ours.
    NumbersReset,
    /// The counterparty has rejected one of our messages with a Reject(3) or
    /// BusinessMessageReject(j). A BusinessMessageReject(j) is an application message, so
    /// [`Application::on_message`] receives it too.
    ///
    /// [`Application::on_message`]: crate::Application::on_message
    Rejected(Rejected<'a>),
    /// The counterparty repeated a ResendRequest(2) with the same range, so the resends make no
    /// progress. The engine reports each repetition before it answers the request. Call
    /// [`SessionRef::disconnect`] to end the connection. The setting `resend.same_requests_max`
    /// ends the connection automatically.
    ///
    /// [`SessionRef::disconnect`]: crate::SessionRef::disconnect
    ResendLoop {
        /// The number of times that the counterparty has sent the request in succession.
        times: u32,
    },
    /// The session layer has processed an administrative message of the counterparty.
    AdminMessage(&'a Message<'a>),
    /// The counterparty reads too slowly: more than `slow_consumer_bytes` bytes have waited to be
    /// written for the time `slow_consumer_after`.
    SlowConsumer,
    /// A slow counterparty has caught up: at most half of `slow_consumer_bytes` still wait to be
    /// written. Not reported if the connection ends first.
    CaughtUp,
}

/// Prints only type and number of an administrative message, because a Logon(A) contains a
/// password.
impl fmt::Debug for SessionEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple(self.callback().name());
        match self {
            Self::Rejected(rejected) => shown.field(rejected),
            Self::ResendLoop { times } => shown.field(times),
            Self::AdminMessage(message) => {
                shown.field(&message.msg_type()).field(&message.msg_seq_num().ok())
            }
            Self::LoggedOn | Self::NumbersReset | Self::SlowConsumer | Self::CaughtUp => &mut shown,
        };
        shown.finish()
    }
}

impl SessionEvent<'_> {
    /// Returns the event that the core reports as `event`.
    pub(crate) const fn of(event: PlainEvent) -> Self {
        match event {
            PlainEvent::LoggedOn => Self::LoggedOn,
            PlainEvent::NumbersReset => Self::NumbersReset,
            PlainEvent::ResendLoop { times } => Self::ResendLoop { times },
            PlainEvent::SlowConsumer => Self::SlowConsumer,
            PlainEvent::CaughtUp => Self::CaughtUp,
        }
    }

    /// Returns the callback that receives this event, for the watch on slow callbacks.
    pub(crate) const fn callback(&self) -> Callback {
        match self {
            Self::LoggedOn => Callback::LoggedOn,
            Self::NumbersReset => Callback::NumbersReset,
            Self::Rejected(_) => Callback::Rejected,
            Self::ResendLoop { .. } => Callback::ResendLoop,
            Self::AdminMessage(_) => Callback::AdminMessage,
            Self::SlowConsumer => Callback::SlowConsumer,
            Self::CaughtUp => Callback::CaughtUp,
        }
    }

    /// Returns the code under which the log records this event, or `None` if the log does not
    /// record this event.
    #[must_use]
    pub const fn code(&self) -> Option<EventCode> {
        Some(match self {
            Self::LoggedOn => EventCode::LoggedOn,
            Self::NumbersReset => EventCode::NumbersBeginAgain,
            Self::Rejected(_) => EventCode::RejectedByCounterparty,
            Self::ResendLoop { .. } => EventCode::AskedAgain,
            Self::SlowConsumer => EventCode::SlowConsumer,
            Self::CaughtUp => EventCode::CaughtUp,
            Self::AdminMessage(_) => return None,
        })
    }
}

/// An event of a session during which the application cannot send. [`Application::on_notice`]
/// receives notices in the order in which they happened, in sequence with the events of
/// [`Application::on_event`].
///
/// [`Application::on_event`]: crate::Application::on_event
/// [`Application::on_notice`]: crate::Application::on_notice
#[derive(Clone, Copy)]
#[non_exhaustive]
pub enum SessionNotice<'a> {
    /// The state of the session has changed. This notice precedes all other events and notices that
    /// the change causes. [`State`] lists the states.
    StateChanged {
        /// The state before.
        from: State,
        /// The state now.
        to: State,
    },
    /// The connection has ended; the session may log on again later. The engine also reports
    /// connections that never logged on.
    Disconnected(Disconnection<'a>),
    /// An accepted message could not be sent, or is returned unsent. The engine returns messages at
    /// the end of a connection (`unsent = "return"`), and when it stops, those that wait only in
    /// memory.
    ///
    /// Each message that [`SessionHandle::send`] accepts has one of three outcomes. The engine
    /// sends it with a number, keeps it in the store for a later process, or reports it here. With
    /// `durability = "memory"`, a kept message is lost when the process ends. A message sent in a
    /// callback and then lost by the store is reported by [`SessionNotice::RolledBack`].
    ///
    /// If the store has failed and cannot be reopened before the engine stops, it is unknown
    /// whether it contains the last messages. The log then reports the number of their bytes.
    ///
    /// [`SessionHandle::send`]: crate::SessionHandle::send
    Unsent(Undeliverable<'a>),
    /// The session continues from its store, after the store failed or the application panicked
    /// during a turn. Discard all effects of the messages in [`RolledBack`], or rebuild your state
    /// from the journal. After a panic, the engine always reports this notice, because the
    /// application's own memory may be inconsistent. The notice precedes the next connection, or
    /// the engine reports the notice when the engine stops.
    RolledBack(&'a RolledBack),
}

/// Writes only the MsgType(35) of a message.
impl fmt::Debug for SessionNotice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple(self.callback().name());
        match self {
            Self::StateChanged { from, to } => shown.field(from).field(to),
            Self::Disconnected(end) => shown.field(end),
            Self::Unsent(unsent) => shown.field(&unsent.msg_type).field(&unsent.why),
            Self::RolledBack(undone) => shown.field(undone),
        };
        shown.finish()
    }
}

impl SessionNotice<'_> {
    /// Returns the callback that receives this notice, for the watch on slow callbacks.
    pub(crate) const fn callback(&self) -> Callback {
        match self {
            Self::StateChanged { .. } => Callback::StateChanged,
            Self::Disconnected(_) => Callback::Disconnected,
            Self::Unsent(_) => Callback::Unsent,
            Self::RolledBack(_) => Callback::RolledBack,
        }
    }

    /// Returns the code under which the log records this notice, or `None` if the log does not
    /// record this notice.
    #[must_use]
    pub const fn code(&self) -> Option<EventCode> {
        Some(match self {
            Self::Disconnected(_) => EventCode::Disconnected,
            Self::Unsent(_) => EventCode::GivenBack,
            Self::RolledBack(_) => EventCode::RolledBack,
            Self::StateChanged { .. } => return None,
        })
    }
}

/// The end of a connection: reason and text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Disconnection<'a> {
    /// Why the connection ended, from the view of this engine.
    pub reason: Disconnect,
    /// Text(58) of the counterparty's Logout(5), or of the Reject(3) or BusinessMessageReject(j)
    /// that answered our Logon(A). `None` if the counterparty sent no text.
    pub text: Option<&'a [u8]>,
}

impl<'a> Disconnection<'a> {
    pub(crate) const fn new(reason: Disconnect, text: Option<&'a [u8]>) -> Self {
        Self { reason, text }
    }
}

impl fmt::Display for Disconnection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)?;
        match self.text {
            Some(text) => write!(f, "; the counterparty says: {}", Shown::new(text)),
            None => Ok(()),
        }
    }
}

/// The layer of the counterparty that has rejected one of our messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectedBy {
    /// The session layer has rejected the message with a Reject(3).
    Session,
    /// The application has rejected the message with a BusinessMessageReject(j).
    Application,
}

/// The rejection of one of our messages by the counterparty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejected<'a> {
    /// The layer that rejected the message.
    pub by: RejectedBy,
    /// RefSeqNum(45): MsgSeqNum(34) of our message; 0 if the counterparty does not send the field.
    pub seq: u64,
    /// MsgType(35) of our message, from RefMsgType(372) or from our store. Empty if both lack the
    /// type, or if the store must fetch the message first.
    pub msg_type: MsgType<'a>,
    /// SessionRejectReason(373) of a Reject(3), or BusinessRejectReason(380) of a
    /// BusinessMessageReject(j).
    pub reason: Option<u64>,
    /// RefTagID(371), the tag of the wrong field.
    pub tag: Option<Tag>,
    /// BusinessRejectRefID(379): our own ID of the message, such as ClOrdID(11); empty if missing.
    pub id: &'a [u8],
    /// Text(58), the explanation of the counterparty; empty if missing.
    pub text: &'a [u8],
}

impl<'a> Rejected<'a> {
    /// Returns the content of a Reject(3) or BusinessMessageReject(j), or `None` for other
    /// messages.
    pub(crate) fn of(message: &Message<'a>) -> Option<Self> {
        let (by, reason) = match message.msg_type().as_bytes() {
            b"3" => (RejectedBy::Session, tag::SESSION_REJECT_REASON),
            b"j" => (RejectedBy::Application, tag::BUSINESS_REJECT_REASON),
            _ => return None,
        };
        let tag = message.uint(tag::REF_TAG_ID).ok().and_then(|tag| u32::try_from(tag).ok());
        Some(Self {
            by,
            seq: message.uint(tag::REF_SEQ_NUM).unwrap_or(0),
            msg_type: MsgType::of(message.raw(tag::REF_MSG_TYPE).unwrap_or_default()),
            reason: message.uint(reason).ok(),
            tag: tag.map(Tag),
            id: message.raw(tag::BUSINESS_REJECT_REF_ID).unwrap_or_default(),
            text: message.raw(tag::TEXT).unwrap_or_default(),
        })
    }

    /// Sets the MsgType(35) of our message to `stored`, unless the counterparty has sent
    /// RefMsgType(372).
    pub(crate) fn complete(&mut self, stored: &'a [u8]) {
        if self.msg_type.is_empty() {
            self.msg_type = MsgType::of(stored);
        }
    }
}

impl fmt::Display for Rejected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, reason) = match self.by {
            RejectedBy::Session => ("Reject(3)", "SessionRejectReason(373)"),
            RejectedBy::Application => ("BusinessMessageReject(j)", "BusinessRejectReason(380)"),
        };
        write!(f, "{name} of our MsgSeqNum(34) {}", self.seq)?;
        if !self.msg_type.is_empty() {
            write!(f, ", MsgType(35) {}", self.msg_type)?;
        }
        if !self.id.is_empty() {
            write!(f, ", BusinessRejectRefID(379) {}", Shown::new(self.id))?;
        }
        if let Some(value) = self.reason {
            write!(f, ", {reason} {value}")?;
        }
        if let Some(tag) = self.tag {
            write!(f, ", RefTagID(371) {tag}")?;
        }
        if !self.text.is_empty() {
            write!(f, ": {}", Shown::new(self.text))?;
        }
        Ok(())
    }
}

/// An accepted message that the engine did not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undeliverable<'a> {
    /// MsgType(35).
    pub msg_type: MsgType<'a>,
    /// The encoded body fields, as [`Body::fields`](transfix_codec::Body::fields) accepts them.
    pub body: &'a [u8],
    /// The reason why the message was not sent.
    pub why: SendError,
}

impl<'a> Undeliverable<'a> {
    pub(crate) const fn new(msg_type: &'a [u8], body: &'a [u8], why: SendError) -> Self {
        Self { msg_type: MsgType::of(msg_type), body, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfix_codec::{CheckSumPolicy, FieldIndex};

    #[test]
    fn rejects_say_what_they_are_about() {
        for (message, expected) in [
            (
                "35=3|45=7|371=44|372=D|373=5|58=no\nsuch price",
                "Reject(3) of our MsgSeqNum(34) 7, MsgType(35) D, SessionRejectReason(373) 5, \
                 RefTagID(371) 44: no\\nsuch price",
            ),
            ("35=3", "Reject(3) of our MsgSeqNum(34) 0"),
            (
                "35=j|45=8|372=D|379=A1|380=4",
                "BusinessMessageReject(j) of our MsgSeqNum(34) 8, MsgType(35) D, \
                 BusinessRejectRefID(379) A1, BusinessRejectReason(380) 4",
            ),
        ] {
            let bytes = format!("8=FIX.4.4|9=0|{message}|10=000|").replace('|', "\x01");
            let mut index = FieldIndex::default();
            let parsed = Message::parse(bytes.as_bytes(), &mut index, CheckSumPolicy::Ignore);
            let rejected = Rejected::of(&parsed.unwrap()).unwrap();
            assert_eq!(rejected.to_string(), expected);
        }
    }

    #[test]
    fn an_event_shows_no_password() {
        let bytes = b"8=FIX.4.4\x019=0\x0135=A\x0134=7\x01554=secret\x0110=000\x01";
        let mut index = FieldIndex::default();
        let logon = Message::parse(bytes, &mut index, CheckSumPolicy::Ignore).unwrap();
        let shown = format!("{:?}", SessionEvent::AdminMessage(&logon));
        assert!(shown.starts_with("AdminMessage(") && shown.contains('7'), "{shown}");
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[test]
    fn an_end_has_the_words_of_the_counterparty() {
        let end = Disconnection::new(Disconnect::LoggedOut, Some(b"closing for\ntoday"));
        assert_eq!(end.to_string(), r"logged out; the counterparty says: closing for\ntoday");
        let end = Disconnection::new(Disconnect::LinkLost, None);
        assert_eq!(end.to_string(), "the connection was lost");
    }
}
