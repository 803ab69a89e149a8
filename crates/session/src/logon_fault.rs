//! Why a Logon(A) is refused: each cause with its number and text.
//!
//! Invariant: the text appears in Text(58) of our Logout(5), and must not reveal more than the
//! Logon(A) itself contains.

use std::fmt;

/// Why a Logon(A) was refused, except for faults by the dictionary and refusals by the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogonFault {
    /// MsgSeqNum(34) is missing or not a number.
    MsgSeqNumMissing,
    /// MsgSeqNum(34) is above [`MSG_SEQ_NUM_MAX`](crate::MSG_SEQ_NUM_MAX).
    MsgSeqNumTooHigh,
    /// SenderCompID(49) or TargetCompID(56) is missing or wrong.
    CompId,
    /// SendingTime(52) is unreadable, or too far from this side's clock.
    SendingTime,
    /// Username(553) or Password(554) is not what the settings expect.
    Credentials,
    /// EncryptMethod(98) is not 0: messages are never encrypted by FIX itself.
    EncryptMethod,
    /// HeartBtInt(108) is missing or not a number of seconds.
    HeartBtInt,
    /// HeartBtInt(108) is outside the range of the acceptor's settings.
    HeartBtIntOutOfRange,
    /// HeartBtInt(108) of the answer differs from our Logon(A).
    HeartBtIntChanged,
    /// ResetSeqNumFlag(141) is neither Y nor N.
    ResetSeqNumFlag,
    /// ResetSeqNumFlag(141) is Y, and MsgSeqNum(34) is not 1.
    ResetWithoutOne,
    /// TestMessageIndicator(464) differs from the settings: test or production.
    TestMessageIndicator,
    /// NextExpectedMsgSeqNum(789) is not a number of 1 or more.
    NextExpectedMsgSeqNum,
    /// DefaultApplVerID(1137) of a FIXT session is missing or not a number.
    DefaultApplVerIdMissing,
    /// DefaultApplVerID(1137) is an unknown version.
    DefaultApplVerIdUnknown,
    /// DefaultApplVerID(1137) differs from the settings.
    DefaultApplVerIdOther,
    /// NewPassword(925) requests another password than that of the settings.
    NewPassword,
    /// The counterparty answered our Logon(A) with Logout(5), which may say why.
    AnsweredByLogout,
    /// The counterparty answered our Logon(A) with Reject(3) or BusinessMessageReject(j), which may
    /// say why.
    AnsweredByReject,
}

impl LogonFault {
    /// Returns the number of this cause, for logs and for other languages. Numbers never change;
    /// the page "Codes" of the book lists all numbers.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        match self {
            Self::MsgSeqNumMissing => 151,
            Self::MsgSeqNumTooHigh => 152,
            Self::CompId => 153,
            Self::SendingTime => 154,
            Self::Credentials => 155,
            Self::EncryptMethod => 156,
            Self::HeartBtInt => 157,
            Self::HeartBtIntOutOfRange => 158,
            Self::HeartBtIntChanged => 159,
            Self::ResetSeqNumFlag => 160,
            Self::ResetWithoutOne => 161,
            Self::TestMessageIndicator => 162,
            Self::NextExpectedMsgSeqNum => 163,
            Self::DefaultApplVerIdMissing => 164,
            Self::DefaultApplVerIdUnknown => 165,
            Self::DefaultApplVerIdOther => 166,
            Self::AnsweredByLogout => 167,
            Self::NewPassword => 168,
            Self::AnsweredByReject => 169,
        }
    }
}

impl fmt::Display for LogonFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MsgSeqNumMissing => "MsgSeqNum(34) is missing",
            Self::MsgSeqNumTooHigh => "MsgSeqNum(34) is too large",
            Self::CompId => "CompID problem",
            Self::SendingTime => "SendingTime(52) is off",
            Self::Credentials => "Username(553) or Password(554) is wrong",
            Self::EncryptMethod => "EncryptMethod(98) must be 0, encryption is not supported",
            Self::HeartBtInt => "HeartBtInt(108) must be seconds, 0 or more",
            Self::HeartBtIntOutOfRange => "HeartBtInt(108) is out of the range of this session",
            Self::HeartBtIntChanged => "HeartBtInt(108) is not what was asked for",
            Self::ResetSeqNumFlag => "ResetSeqNumFlag(141) must be Y or N",
            Self::ResetWithoutOne => "MsgSeqNum(34) must be 1 with ResetSeqNumFlag(141)=Y",
            Self::TestMessageIndicator => "TestMessageIndicator(464) is not that of this session",
            Self::NextExpectedMsgSeqNum => "NextExpectedMsgSeqNum(789) must be a number, 1 or more",
            Self::DefaultApplVerIdMissing => "DefaultApplVerID(1137) is missing",
            Self::DefaultApplVerIdUnknown => "DefaultApplVerID(1137) is unknown",
            Self::DefaultApplVerIdOther => "DefaultApplVerID(1137) is not the one of this session",
            Self::NewPassword => "NewPassword(925) cannot be taken, the password stays as it is",
            Self::AnsweredByLogout => "the counterparty answered with Logout(5)",
            Self::AnsweredByReject => {
                "the counterparty answered with Reject(3) or BusinessMessageReject(j)"
            }
        })
    }
}
