//! Actions on a session or on the engine, and the actor of an action.

use std::fmt;

use serde::{Deserialize, Serialize};
use transfix_codec::Mask;
use transfix_session::SessionId;

use transfix_settings::{EventLevels, SessionSettings};

/// The person or program that requests an action, as recorded in the audit file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The name of a user or of a program.
    pub who: String,
    /// The origin of the request: an address, a signal or a terminal.
    pub from: String,
}

impl Actor {
    /// Returns an actor with the name `who` and the origin `from`.
    #[must_use]
    pub fn new(who: impl Into<String>, from: impl Into<String>) -> Self {
        Self { who: who.into(), from: from.into() }
    }
}

/// An operator's request to a session, for [`SessionHandle::operate`] or [`Admin::act`].
///
/// Serde represents an action as an object with the name of the action and its values: `{"action":
/// "set_numbers", "next_in": 5}`.
///
/// [`SessionHandle::operate`]: crate::SessionHandle::operate
/// [`Admin::act`]: crate::Admin::act
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "action", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Action {
    /// Enables the session, so that it may connect again. An initiator tries at once, even after
    /// many refusals. The counterparty and the schedule decide whether the session logs on. Also
    /// known as *enable*.
    LogOn {},
    /// Logs out, and keeps the session disconnected until [`Action::LogOn`]. Also applies to a
    /// disconnected or failed session. Also known as *disable*.
    LogOut {
        /// Text(58) of our Logout(5).
        #[serde(default)]
        text: String,
    },
    /// Closes the connection without Logout(5). An initiator connects again after its interval.
    Disconnect {},
    /// Connects an initiator at once to another of its destinations, and enables a disabled session
    /// as [`Action::LogOn`] does. A connected session logs out first, even from the same
    /// destination. If the destination refuses the connection, the settings determine the next
    /// destination.
    ConnectTo {
        /// The index of the destination in
        /// [`SessionHandle::destinations`](crate::SessionHandle::destinations), counted from 0.
        destination: usize,
    },
    /// Restarts at once, from its store, a session that failed because of its store or a panic.
    /// [`SessionNotice::RolledBack`](crate::SessionNotice::RolledBack) reports the messages missing
    /// from the store. The action has no effect on a connected session. The session fails again if
    /// the cause persists.
    Revive {},
    /// Sets the next numbers without informing the counterparty. Only for repair, after both
    /// operators have agreed on the numbers. An omitted number stays unchanged.
    SetNumbers {
        /// The MsgSeqNum(34) expected in the counterparty's next message.
        #[serde(default)]
        next_in: Option<u64>,
        /// The MsgSeqNum(34) of our next message.
        #[serde(default)]
        next_out: Option<u64>,
    },
    /// Makes our next Logon(A) reset both numbers to 1, from FIX 4.1 on. The request is lost if the
    /// session fails.
    ResetAtNextLogon {},
    /// Sends a Logon(A) with ResetSeqNumFlag(141)=Y, which resets both numbers of a logged-on
    /// session to 1. Requires FIX 4.1 or later.
    ResetInSession {},
    /// Sends a SequenceReset-Reset(4), after which our next message has the number `new_seq_no`.
    /// This number must exceed the current one.
    SequenceReset {
        /// NewSeqNo(36).
        new_seq_no: u64,
    },
    /// Sends a Heartbeat(0) at once, in addition to the regular ones.
    Heartbeat {},
    /// Sends a TestRequest(1), which the counterparty must answer with a Heartbeat(0).
    TestRequest {
        /// TestReqID(112).
        id: String,
    },
    /// Sends a ResendRequest(2) for a range of the counterparty's messages.
    ResendRequest {
        /// BeginSeqNo(7).
        begin: u64,
        /// EndSeqNo(16), the last requested number; 0 requests all following messages.
        #[serde(default)]
        end: u64,
    },
    /// Sends an application message, as [`SessionHandle::send`](crate::SessionHandle::send) does.
    Send {
        /// MsgType(35).
        msg_type: String,
        /// The fields after the header, as `TAG=VALUE|TAG=VALUE`. If a value contains `|`, use byte
        /// 1 as the delimiter.
        fields: String,
    },
    /// Holds messages of handles in the queue of a logged-on session until
    /// [`Action::ReleaseSending`]. Messages that the application sends in its callbacks overtake
    /// the held messages.
    HoldSending {},
    /// Sends the messages held back by [`Action::HoldSending`], in order.
    ReleaseSending {},
    /// Drops the messages that wait in the queue.
    ClearQueued {},
}

impl Action {
    /// Returns the name of the action, as serde writes it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::LogOn {} => "log_on",
            Self::LogOut { .. } => "log_out",
            Self::Disconnect {} => "disconnect",
            Self::ConnectTo { .. } => "connect_to",
            Self::Revive {} => "revive",
            Self::SetNumbers { .. } => "set_numbers",
            Self::ResetAtNextLogon {} => "reset_at_next_logon",
            Self::ResetInSession {} => "reset_in_session",
            Self::SequenceReset { .. } => "sequence_reset",
            Self::Heartbeat {} => "heartbeat",
            Self::TestRequest { .. } => "test_request",
            Self::ResendRequest { .. } => "resend_request",
            Self::Send { .. } => "send",
            Self::HoldSending {} => "hold_sending",
            Self::ReleaseSending {} => "release_sending",
            Self::ClearQueued {} => "clear_queued",
        }
    }

    /// Returns true if the action may lose messages or break the agreement on sequence numbers. An
    /// interface asks for confirmation before such an action.
    #[must_use]
    pub const fn is_dangerous(&self) -> bool {
        matches!(
            self,
            Self::SetNumbers { .. }
                | Self::ResetAtNextLogon {}
                | Self::ResetInSession {}
                | Self::SequenceReset { .. }
                | Self::Send { .. }
                | Self::ClearQueued {}
        )
    }

    /// Returns the action as a line for the audit file, with stars in place of values that `mask`
    /// hides.
    pub(crate) fn shown(&self, mask: &Mask) -> String {
        match self {
            Self::LogOut { text } => format!("log_out text={text}"),
            Self::ConnectTo { destination } => format!("connect_to destination={destination}"),
            Self::SetNumbers { next_in, next_out } => {
                let mut shown = self.name().to_owned();
                for (name, next) in [("next_in", next_in), ("next_out", next_out)] {
                    if let Some(next) = next {
                        shown += &format!(" {name}={next}");
                    }
                }
                shown
            }
            Self::SequenceReset { new_seq_no } => format!("sequence_reset new_seq_no={new_seq_no}"),
            Self::TestRequest { id } => format!("test_request id={id}"),
            Self::ResendRequest { begin, end } => format!("resend_request begin={begin} end={end}"),
            Self::Send { msg_type, fields } => {
                let frame = format!("35={msg_type}\x01{}", String::from_utf8_lossy(&body(fields)));
                let frame = mask.garbled(frame.as_bytes());
                let frame = frame.strip_suffix(b"\x01").unwrap_or(&frame);
                format!("send {}", String::from_utf8_lossy(frame).replace('\x01', "|"))
            }
            other => other.name().to_owned(),
        }
    }
}

/// Converts fields written as `TAG=VALUE|TAG=VALUE` to FIX encoding.
pub(crate) fn body(fields: &str) -> Vec<u8> {
    let mut body = fields.as_bytes().to_vec();
    if !body.contains(&1) {
        body.iter_mut().filter(|byte| **byte == b'|').for_each(|byte| *byte = 1);
    }
    if body.last().is_some_and(|last| *last != 1) {
        body.push(1);
    }
    body
}

/// An operator's request to the program that owns the engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EngineAction {
    /// Reads the settings file again and applies its changes.
    Reload,
    /// Adds a session.
    Add(Box<SessionSettings>),
    /// Restarts the session of the same identity from its store, with other settings.
    Change(Box<SessionSettings>),
    /// Logs a session out and removes the session.
    Remove {
        /// The session to remove.
        id: SessionId,
        /// Text(58) of our Logout(5).
        text: String,
    },
    /// Logs out all sessions and ends the program.
    Stop,
    /// Starts new files for all logs now: see [`Admin::rotate_logs`](crate::Admin::rotate_logs).
    RotateLogs,
    /// Selects the events that the engine reports, until the next start or reload.
    SetLevels(EventLevels),
}

impl fmt::Display for EngineAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reload => f.write_str("reload"),
            Self::Add(settings) => write!(f, "add {} {}", settings.id(), settings.address),
            Self::Change(settings) => write!(f, "change {} {}", settings.id(), settings.address),
            Self::Remove { id, text } => write!(f, "remove {id} text={text}"),
            Self::Stop => f.write_str("stop"),
            Self::RotateLogs => f.write_str("rotate_logs"),
            Self::SetLevels(levels) => write!(f, "set_levels {levels}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_taken_with_either_delimiter() {
        assert_eq!(body("11=a|58=b"), b"11=a\x0158=b\x01");
        assert_eq!(body("11=a\x0158=b|c\x01"), b"11=a\x0158=b|c\x01");
        assert_eq!(body(""), b"");
    }

    #[test]
    fn an_action_is_shown_without_secrets() {
        let fields = "924=1|553=me|554=hush|58=x".to_owned();
        let send = Action::Send { msg_type: "BE".to_owned(), fields };
        let shown = send.shown(&Mask::of([transfix_codec::Tag(58)]));
        assert_eq!(shown, "send 35=BE|924=1|553=me|554=****|58=*");
    }

    #[test]
    fn names_are_those_of_serde() {
        let all = [
            ("{\"action\":\"log_on\"}", Action::LogOn {}),
            ("{\"action\":\"log_out\",\"text\":\"\"}", Action::LogOut { text: String::new() }),
            ("{\"action\":\"resend_request\",\"begin\":3,\"end\":0}", {
                Action::ResendRequest { begin: 3, end: 0 }
            }),
        ];
        for (text, action) in all {
            assert_eq!(serde_json::to_string(&action).unwrap(), text);
            assert_eq!(serde_json::from_str::<Action>(text).unwrap(), action);
            assert!(text.contains(&format!("\"{}\"", action.name())));
        }
        let unknown = "{\"action\":\"log_on\",\"txt\":\"\"}";
        assert!(serde_json::from_str::<Action>(unknown).is_err(), "an unknown value");
    }
}
