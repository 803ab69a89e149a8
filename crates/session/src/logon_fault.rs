//! The causes for which a Logon(A) is refused, each with its code and its text.
//!
//! Invariant: the text appears in Text(58) of our Logout(5), and must not reveal more than the
//! Logon(A) itself contains.

use std::fmt;

/// The cause for which a Logon(A) was refused. Violations of the dictionary and refusals by the
/// application are not included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogonFault {
    /// MsgSeqNum(34) is missing or not a number.
    MsgSeqNumMissing,
    /// MsgSeqNum(34) is above [`MSG_SEQ_NUM_MAX`](crate::MSG_SEQ_NUM_MAX).
    MsgSeqNumTooHigh,
    /// SenderCompID(49) or TargetCompID(56) is missing or wrong.
    CompId,
    /// SendingTime(52) is unreadable, or differs too much from this side's clock.
    SendingTime,
    /// Username(553) or Password(554) differs from the configured value.
    Credentials,
    /// EncryptMethod(98) is not 0; this engine does not support encryption by FIX itself.
    EncryptMethod,
    /// HeartBtInt(108) is missing or not a number of seconds.
    HeartBtInt,
    /// HeartBtInt(108) is outside the range that the acceptor's settings permit.
    HeartBtIntOutOfRange,
    /// HeartBtInt(108) in the answer differs from the value in our Logon(A).
    HeartBtIntChanged,
    /// ResetSeqNumFlag(141) is neither Y nor N.
    ResetSeqNumFlag,
    /// ResetSeqNumFlag(141) is Y, but MsgSeqNum(34) is not 1.
    ResetWithoutOne,
    /// TestMessageIndicator(464), which distinguishes test and production, differs from the
    /// settings.
    TestMessageIndicator,
    /// NextExpectedMsgSeqNum(789) is not a positive number.
    NextExpectedMsgSeqNum,
    /// DefaultApplVerID(1137) of a FIXT session is missing or not a number.
    DefaultApplVerIdMissing,
    /// DefaultApplVerID(1137) is not a known version.
    DefaultApplVerIdUnknown,
    /// DefaultApplVerID(1137) differs from the settings.
    DefaultApplVerIdOther,
    /// NewPassword(925) requests a password other than the configured one.
    NewPassword,
    /// The counterparty answered our Logon(A) with Logout(5); its Text(58) may give the reason.
    AnsweredByLogout,
    /// The counterparty answered our Logon(A) with Reject(3) or BusinessMessageReject(j); its
    /// Text(58) may give the reason.
    AnsweredByReject,
}

impl LogonFault {
    /// Returns the code of this cause, for logs and for other languages. Codes never change; the
    /// page "Codes" of the book lists all codes.
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
            Self::HeartBtIntChanged => "HeartBtInt(108) differs from the requested value",
            Self::ResetSeqNumFlag => "ResetSeqNumFlag(141) must be Y or N",
            Self::ResetWithoutOne => "MsgSeqNum(34) must be 1 with ResetSeqNumFlag(141)=Y",
            Self::TestMessageIndicator => "TestMessageIndicator(464) is not that of this session",
            Self::NextExpectedMsgSeqNum => "NextExpectedMsgSeqNum(789) must be a number, 1 or more",
            Self::DefaultApplVerIdMissing => "DefaultApplVerID(1137) is missing",
            Self::DefaultApplVerIdUnknown => "DefaultApplVerID(1137) is unknown",
            Self::DefaultApplVerIdOther => "DefaultApplVerID(1137) is not the one of this session",
            Self::NewPassword => "NewPassword(925) is not accepted; the password is unchanged",
            Self::AnsweredByLogout => "the counterparty answered with Logout(5)",
            Self::AnsweredByReject => {
                "the counterparty answered with Reject(3) or BusinessMessageReject(j)"
            }
        })
    }
}
