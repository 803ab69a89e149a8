//! The verdicts on messages and ticks, the reasons for a disconnect, and the errors of requests.

use std::fmt;

use transfix_codec::{Misuse, Reject};

use crate::config::{BeginString, MSG_SEQ_NUM_MAX};
use crate::logon_fault::LogonFault;

/// The result of handling one message or tick, which tells the driver what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Pass this application message, which has the expected number, to the application.
    Deliver,
    /// This application message exceeds a configured limit. Reject it with
    /// [`Session::refuse_throttled`], after the application has handled all earlier messages.
    ///
    /// [`Session::refuse_throttled`]: crate::Session::refuse_throttled
    Throttled,
    /// The message or tick is completely handled, and the application receives no message.
    Handled,
    /// A valid Logon(A) was received. Ask the application, then call [`Session::accept_logon`] or
    /// [`Session::deny_logon`]. Pass no other message to the session until then.
    ///
    /// [`Session::accept_logon`]: crate::Session::accept_logon
    /// [`Session::deny_logon`]: crate::Session::deny_logon
    LogonOffered,
    /// A Logon(A) was accepted, and the session is now active.
    LoggedOn,
    /// A Logon(A) with ResetSeqNumFlag(141)=Y was accepted while logged on; both numbers restart at
    /// 1.
    Reset,
    /// A Logon(A) was accepted, and the counterparty's NextExpectedMsgSeqNum(789) requests our
    /// messages `begin` to `end`, inclusive.
    LoggedOnThenResend {
        /// The first MsgSeqNum(34) to resend, which the counterparty is missing.
        begin: u64,
        /// The last MsgSeqNum(34) to resend, that of our own Logon(A).
        end: u64,
    },
    /// Earlier messages are missing, so the session holds this message until the gap is closed.
    Held,
    /// The counterparty requests our messages `begin` to `end`, inclusive.
    Resend {
        /// First requested MsgSeqNum(34), at least 1.
        begin: u64,
        /// Last requested MsgSeqNum(34), below our next number.
        end: u64,
    },
    /// Write the content of the outbox, then close the connection.
    Disconnect(Disconnect),
}

/// A remark for the operator on a fact that neither a verdict nor an answer to the counterparty
/// reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remark {
    /// A SequenceReset(4) or a reset has covered this number of messages held above a gap. The
    /// counterparty has skipped them, and the session does not deliver them.
    PassedOver(u64),
    /// A Reject(3) of the counterparty is invalid. Its number is consumed, and the session sends no
    /// answer: otherwise two sides could reject each other's Reject(3) forever.
    FaultyReject(Reject),
    /// A message of the counterparty was answered with Reject(3).
    Rejected {
        /// MsgSeqNum(34) of the message; 0 if the number is unreadable.
        seq: u64,
        /// The reason of the Reject(3).
        reject: Reject,
    },
    /// The answer to our Logon(A) has ResetSeqNumFlag(141)=Y although we did not request a reset.
    /// Both numbers restart at 1, and earlier messages are not resent.
    UnaskedReset,
    /// A Logout(5) of the counterparty failed validation; it ends the session nevertheless.
    FaultyLogout(Reject),
}

impl Remark {
    /// Returns the code of this remark, for logs and for other languages. Codes never change; the
    /// page "Codes" of the book lists all codes.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        match self {
            Self::PassedOver(_) => 901,
            Self::FaultyReject(_) => 902,
            Self::Rejected { .. } => 903,
            Self::UnaskedReset => 904,
            Self::FaultyLogout(_) => 905,
        }
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PassedOver(count) => write!(
                f,
                "{count} messages behind a gap were discarded by a SequenceReset(4) or a reset of \
                 the numbers, and are not delivered"
            ),
            Self::FaultyReject(reject) => {
                write!(f, "a Reject(3) of the counterparty is invalid: {reject}")
            }
            Self::Rejected { seq, reject } => {
                write!(f, "rejected MsgSeqNum(34) {seq} of the counterparty: {reject}")
            }
            Self::UnaskedReset => f.write_str(
                "the counterparty answered our Logon(A) with ResetSeqNumFlag(141)=Y, which was \
                 not requested: both numbers start again at 1",
            ),
            Self::FaultyLogout(reject) => {
                write!(
                    f,
                    "a Logout(5) of the counterparty ends the session, and is invalid: \
                           {reject}"
                )
            }
        }
    }
}

/// The reason why the session closes its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disconnect {
    /// Both sides have sent Logout(5).
    LoggedOut,
    /// Our Logout(5) was not answered in time.
    LogoutTimeout,
    /// No Logon(A) was received in time.
    LogonTimeout,
    /// The first message was not a Logon(A).
    FirstMessageNotLogon,
    /// The Logon(A) was refused because of this fault.
    LogonRefused(LogonFault),
    /// The Logon(A) violates the dictionary.
    LogonInvalid(Reject),
    /// The application refused the Logon(A); Text(58) of the Logout(5) states the reason.
    LogonDenied,
    /// A second Logon(A) was received while logged on.
    SecondLogon,
    /// MsgSeqNum(34) is lower than expected, and PossDupFlag(43) is not Y.
    MsgSeqNumTooLow {
        /// The expected MsgSeqNum(34).
        expected: u64,
        /// The received MsgSeqNum(34).
        received: u64,
    },
    /// More messages are missing before the Logon(A) than the settings permit; the counterparty has
    /// probably missed a reset.
    MissedReset {
        /// The expected MsgSeqNum(34).
        expected: u64,
        /// The received MsgSeqNum(34).
        received: u64,
    },
    /// NextExpectedMsgSeqNum(789) of the Logon(A) is above our next number.
    NextExpectedTooHigh {
        /// The number of our next message.
        next: u64,
        /// The received NextExpectedMsgSeqNum(789).
        received: u64,
    },
    /// The counterparty does not answer our ResendRequest(2) messages for a gap.
    ResendUnanswered,
    /// The counterparty repeats the same ResendRequest(2) too often.
    ResendLoop,
    /// A message has no readable MsgSeqNum(34).
    MsgSeqNumMissing,
    /// A MsgSeqNum(34) is above [`MSG_SEQ_NUM_MAX`](crate::MSG_SEQ_NUM_MAX).
    MsgSeqNumTooHigh,
    /// A message has a wrong SenderCompID(49) or TargetCompID(56).
    CompId,
    /// SendingTime(52) of a message differs too much from this side's clock.
    SendingTime,
    /// A message has another BeginString(8) than the session. The value is the session's
    /// BeginString(8).
    BeginString(BeginString),
    /// A message exceeds the length limit of the session.
    MessageTooLong {
        /// Length of the message as declared by BodyLength(9), in bytes.
        bytes: usize,
        /// Maximum length of an accepted message, in bytes.
        bytes_max: usize,
    },
    /// The counterparty has exceeded a limit on messages of one MsgType(35) per interval.
    Throttling,
    /// The counterparty does not read: too many bytes wait to be sent.
    Stalled,
    /// The sessions of the engine exceed their common memory limit, and this session uses the most
    /// memory.
    MemoryLimit,
    /// Nothing was received, not even an answer to our TestRequest(1).
    HeartbeatTimeout,
    /// The peer closed the connection, or the connection broke.
    LinkLost,
    /// The peer closed the connection, or the connection broke, before our Logon(A) was answered.
    LogonUnanswered,
    /// The application was not available, and the settings end the session in this case.
    ApplicationNotAvailable,
    /// The application requested the disconnect.
    Application,
    /// An operator requested the disconnect, or the engine was stopped.
    Operator,
    /// The store failed.
    StoreFailed,
    /// The application or the engine panicked.
    Panicked,
    /// The window of the session's schedule has ended.
    Schedule,
    /// The application's hook has vetoed one of our administrative messages.
    Vetoed,
    /// Another gateway of the fleet is using this session.
    InUse,
}

impl Disconnect {
    /// Returns the code of this reason, for logs and for other languages. Codes never change; the
    /// page "Codes" of the book lists all codes.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        match self {
            Self::LoggedOut => 101,
            Self::LogoutTimeout => 102,
            Self::LogonTimeout => 103,
            Self::FirstMessageNotLogon => 104,
            Self::LogonRefused(why) => why.as_u16(),
            Self::LogonInvalid(_) => 106,
            Self::LogonDenied => 107,
            Self::SecondLogon => 108,
            Self::MsgSeqNumTooLow { .. } => 109,
            Self::MissedReset { .. } => 110,
            Self::NextExpectedTooHigh { .. } => 111,
            Self::ResendUnanswered => 112,
            Self::ResendLoop => 113,
            Self::MsgSeqNumMissing => 114,
            Self::MsgSeqNumTooHigh => 115,
            Self::BeginString(_) => 117,
            Self::Throttling => 118,
            Self::Stalled => 119,
            Self::MemoryLimit => 120,
            Self::HeartbeatTimeout => 121,
            Self::LinkLost => 122,
            Self::LogonUnanswered => 123,
            Self::ApplicationNotAvailable => 124,
            Self::Application => 125,
            Self::Operator => 126,
            Self::StoreFailed => 127,
            Self::Panicked => 128,
            Self::Schedule => 129,
            Self::CompId => 130,
            Self::SendingTime => 131,
            Self::MessageTooLong { .. } => 132,
            Self::Vetoed => 133,
            Self::InUse => 134,
        }
    }

    /// Returns true if a fault of either side ended the session. Logout(5), the application, an
    /// operator, the schedule and the network are not faults.
    #[must_use]
    pub const fn is_error(self) -> bool {
        !matches!(
            self,
            Self::LoggedOut | Self::LinkLost | Self::Application | Self::Operator | Self::Schedule
        )
    }
}

impl fmt::Display for Disconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LoggedOut => f.write_str("logged out"),
            Self::LogoutTimeout => f.write_str("Logout(5) was not answered in time"),
            Self::LogonTimeout => f.write_str("no Logon(A) arrived in time"),
            Self::FirstMessageNotLogon => f.write_str("the first message was not a Logon(A)"),
            Self::LogonRefused(why) => write!(f, "Logon(A) refused: {why}"),
            Self::LogonInvalid(reject) => write!(f, "Logon(A) refused: {reject}"),
            Self::CompId => f.write_str("a message had a CompID problem"),
            Self::SendingTime => f.write_str("a message had a SendingTime(52) accuracy problem"),
            Self::SecondLogon => f.write_str("a second Logon(A) arrived on a connected session"),
            Self::MsgSeqNumTooLow { expected, received } => {
                write!(f, "MsgSeqNum(34) too low, expecting {expected} but received {received}")
            }
            Self::LogonDenied => f.write_str("Logon(A) refused by the application"),
            Self::MissedReset { expected, received } => write!(
                f,
                "a reset was missed, expecting MsgSeqNum(34) {expected} but received {received}"
            ),
            Self::NextExpectedTooHigh { next, received } => write!(
                f,
                "NextExpectedMsgSeqNum(789) too high, our next number is {next} but received \
                 {received}"
            ),
            Self::ResendUnanswered => f.write_str("our ResendRequest(2)s are not answered"),
            Self::ResendLoop => f.write_str("the same ResendRequest(2) arrived too often"),
            Self::MsgSeqNumMissing => f.write_str("a message had no readable MsgSeqNum(34)"),
            Self::MsgSeqNumTooHigh => {
                write!(f, "a message had a MsgSeqNum(34) above {MSG_SEQ_NUM_MAX}")
            }
            Self::BeginString(expected) => {
                write!(f, "BeginString(8) of a message is not {expected}")
            }
            Self::MessageTooLong { bytes, bytes_max } => {
                write!(f, "a message of {bytes} bytes exceeds the limit of {bytes_max} bytes")
            }
            Self::Throttling => f.write_str("too many messages of one type in the time allowed"),
            Self::Stalled => f.write_str("the counterparty does not read our messages"),
            Self::MemoryLimit => f.write_str(
                "the engine holds too many unread bytes in memory, most of them for \
                             this session",
            ),
            Self::HeartbeatTimeout => f.write_str("the counterparty has fallen silent"),
            Self::LinkLost => f.write_str("the connection was lost"),
            Self::LogonUnanswered => f.write_str(
                "the counterparty closed the connection before it answered our Logon(A). Ask the \
                 counterparty about SenderCompID(49), TargetCompID(56) and BeginString(8), \
                 about TLS and certificates, whether it allows our address, and whether its \
                 session is open and not connected already",
            ),
            Self::ApplicationNotAvailable => f.write_str("application not available"),
            Self::Application => f.write_str("the application ended the session"),
            Self::Operator => f.write_str("an operator ended the session"),
            Self::StoreFailed => f.write_str("the store failed"),
            Self::Panicked => f.write_str("the application or the engine panicked"),
            Self::Schedule => f.write_str("the session is closed by its schedule"),
            Self::Vetoed => f.write_str("the program vetoed an administrative message"),
            Self::InUse => f.write_str("another gateway of the fleet is using this session"),
        }
    }
}

/// The reason why the session rejects a message to be sent. Nothing was written, and no number was
/// used.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// No Logon(A) has been exchanged, or there is no connection. Send again after the logon.
    NotLoggedOn,
    /// Logout(5) has been sent, and the session accepts no more messages.
    LoggingOut,
    /// The limit of bytes queued for the counterparty is reached. Send again later.
    WouldBlock {
        /// Queued bytes.
        queued_bytes: usize,
    },
    /// The message exceeds MaxMessageSize(383) of the counterparty.
    TooLong {
        /// Maximum length of an accepted message, in bytes.
        bytes_max: usize,
    },
    /// The message has waited for a logon longer than the settings allow.
    Expired,
    /// The message itself is invalid.
    Misuse(Misuse),
    /// The session has failed: its store failed, or its application panicked. The session accepts
    /// no messages until it has recovered; the log states the cause.
    Failed,
    /// The engine has been stopped.
    Closed,
    /// The call would wait until the message is durable, but a thread that drives sessions must not
    /// wait.
    WouldWait,
    /// The application's outbound filter has refused the message.
    Vetoed,
    /// The counterparty would reject the message for this reason.
    Invalid(Reject),
    /// The message contains ApplVerID(1128), which only FIXT.1.1 supports.
    NoApplVerId,
}

impl SendError {
    /// Returns the code of this error, for logs and for other languages. Codes never change; the
    /// page "Codes" of the book lists all codes.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        match self {
            Self::NotLoggedOn => 201,
            Self::LoggingOut => 202,
            Self::WouldBlock { .. } => 203,
            Self::TooLong { .. } => 204,
            Self::Expired => 205,
            Self::Misuse(misuse) => misuse.as_u16(),
            Self::Failed => 206,
            Self::Closed => 207,
            Self::WouldWait => 208,
            Self::Vetoed => 209,
            Self::Invalid(_) => 210,
            Self::NoApplVerId => 211,
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoggedOn => f.write_str("not logged on; send again after the logon"),
            Self::LoggingOut => {
                f.write_str("the session is logging out; send after the next logon")
            }
            Self::WouldBlock { queued_bytes } => {
                write!(f, "{queued_bytes} bytes wait for the counterparty; send again later")
            }
            Self::TooLong { bytes_max } => {
                write!(f, "the counterparty accepts messages of at most {bytes_max} bytes")
            }
            Self::Expired => f.write_str("the message has waited too long for a logon"),
            Self::Misuse(misuse) => misuse.fmt(f),
            Self::Failed => f.write_str(
                "the session has failed; see the log and remove the cause. The session continues \
                 when its store works again, unless after_panic = \"end\"",
            ),
            Self::Closed => f.write_str("the engine has been stopped"),
            Self::WouldWait => f.write_str("this call would wait, and a callback must not wait"),
            Self::Vetoed => {
                f.write_str("the hook `before_send` of the program refused the message")
            }
            Self::Invalid(reject) => write!(
                f,
                "the counterparty would reject the message: \
                {reject}"
            ),
            Self::NoApplVerId => f.write_str(
                "only FIXT.1.1 has ApplVerID(1128); before it BeginString(8) gives the version",
            ),
        }
    }
}

/// Formats as `Display` does, so that an error returned by `main` prints as text.
impl fmt::Debug for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for SendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Misuse(misuse) => Some(misuse),
            Self::Invalid(reject) => Some(reject),
            _ => None,
        }
    }
}

impl From<Misuse> for SendError {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}

/// The reason why a session refuses the request of an operator. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperateError {
    /// The session is not logged on.
    NotLoggedOn,
    /// The session has no connection.
    NotConnected,
    /// A number is 0, or above [`MSG_SEQ_NUM_MAX`].
    MsgSeqNum(u64),
    /// The end of a range of numbers is below its beginning.
    EmptyRange,
    /// The new number of a SequenceReset(4) is not above our next number.
    NotAbove {
        /// The number of our next message.
        next: u64,
    },
    /// FIX 4.0 does not have ResetSeqNumFlag(141).
    NoResetFlag,
    /// A reset of both numbers is in progress and not yet answered.
    ResetUnderWay,
    /// The session has failed: its store failed, or its application panicked.
    Failed,
    /// The engine has been stopped.
    Closed,
    /// The session has no destination with this number.
    NoDestination(usize),
    /// No session has this identity.
    NoSession,
    /// The application's hook has vetoed the message, and the connection ends.
    Vetoed,
    /// The session rejected the message.
    Send(SendError),
}

impl OperateError {
    /// Returns the code of this error, for logs and for other languages. Codes never change; the
    /// page "Codes" of the book lists all codes.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        match self {
            Self::NotLoggedOn => 1301,
            Self::NotConnected => 1302,
            Self::MsgSeqNum(_) => 1303,
            Self::EmptyRange => 1304,
            Self::NotAbove { .. } => 1305,
            Self::NoResetFlag => 1306,
            Self::ResetUnderWay => 1307,
            Self::Failed => 1308,
            Self::Closed => 1309,
            Self::NoDestination(_) => 1310,
            Self::NoSession => 1311,
            Self::Vetoed => 1312,
            Self::Send(error) => error.as_u16(),
        }
    }
}

impl fmt::Display for OperateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoggedOn => f.write_str("not logged on; try again after the logon"),
            Self::NotConnected => f.write_str("there is no connection"),
            Self::MsgSeqNum(number) => {
                write!(f, "{number} is no MsgSeqNum(34); use 1 to {MSG_SEQ_NUM_MAX}")
            }
            Self::EmptyRange => f.write_str("the range ends before it begins"),
            Self::NotAbove { next } => {
                write!(f, "NewSeqNo(36) is not above {next}, our next number; use a higher number")
            }
            Self::NoResetFlag => f.write_str(
                "FIX 4.0 has no ResetSeqNumFlag(141); set the numbers at both ends instead",
            ),
            Self::ResetUnderWay => f.write_str("a reset is already waiting for its answer"),
            Self::Failed => f.write_str("the session has failed; see the log and remove the cause"),
            Self::Closed => f.write_str("the engine has been stopped"),
            Self::NoDestination(number) => write!(f, "destination {number} does not exist"),
            Self::NoSession => f.write_str("no session has that identity"),
            Self::Vetoed => f.write_str("the program vetoed the message"),
            Self::Send(error) => error.fmt(f),
        }
    }
}

/// Formats as `Display` does, so that an error returned by `main` prints as text.
impl fmt::Debug for OperateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for OperateError {}
