//! The identity of a session: the versions of session layer and application, and the CompIDs,
//! SubIDs, LocationIDs and qualifier.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use transfix_codec::{Precision, RejectReason};

/// BeginString(8): the version of the session layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BeginString {
    /// `FIX.4.0`
    Fix40,
    /// `FIX.4.1`
    Fix41,
    /// `FIX.4.2`
    Fix42,
    /// `FIX.4.3`
    Fix43,
    /// `FIX.4.4`
    #[default]
    Fix44,
    /// `FIXT.1.1`: FIX 5.0 and later, with the application version in the Logon(A).
    Fixt11,
}

impl BeginString {
    /// All versions, oldest first.
    pub const ALL: [Self; 6] =
        [Self::Fix40, Self::Fix41, Self::Fix42, Self::Fix43, Self::Fix44, Self::Fixt11];

    /// Returns the value of BeginString(8).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fix40 => "FIX.4.0",
            Self::Fix41 => "FIX.4.1",
            Self::Fix42 => "FIX.4.2",
            Self::Fix43 => "FIX.4.3",
            Self::Fix44 => "FIX.4.4",
            Self::Fixt11 => "FIXT.1.1",
        }
    }

    /// Returns the version with this value of BeginString(8); `None` if no version has the value.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|v| v.as_str().as_bytes() == value)
    }

    /// Returns the default precision of times: seconds up to FIX 4.1, milliseconds from FIX 4.2 on.
    #[must_use]
    pub fn precision(self) -> Precision {
        if self < Self::Fix42 { Precision::Seconds } else { Precision::Millis }
    }

    /// Returns the value of EndSeqNo(16) that means "all following messages": 0, or 999999 up to
    /// FIX 4.1.
    pub(crate) fn open_end(self) -> u64 {
        if self < Self::Fix42 { 999_999 } else { 0 }
    }

    /// Returns true if the version has SenderLocationID(142) and TargetLocationID(143).
    pub(crate) fn has_location_ids(self) -> bool {
        self >= Self::Fix41
    }

    /// Returns true if Logon(A) has ResetSeqNumFlag(141) in this version.
    pub(crate) fn has_reset_flag(self) -> bool {
        self >= Self::Fix41
    }

    /// Returns true if the version has LastMsgSeqNumProcessed(369), and MaxMessageSize(383) in
    /// Logon(A).
    pub(crate) fn has_last_processed(self) -> bool {
        self >= Self::Fix42
    }

    /// Returns true if Logon(A) has Username(553), Password(554) and TestMessageIndicator(464) in
    /// this version.
    pub(crate) fn has_credentials(self) -> bool {
        self >= Self::Fix43
    }

    /// Returns true if Logon(A) has NextExpectedMsgSeqNum(789) in this version.
    pub(crate) fn has_next_expected(self) -> bool {
        self >= Self::Fix44
    }

    /// Returns true if Reject(3) has RefTagID(371), RefMsgType(372) and SessionRejectReason(373) in
    /// this version.
    pub(crate) fn has_reject_reason(self) -> bool {
        self >= Self::Fix42
    }

    /// Returns true if this version defines `reason` for SessionRejectReason(373). FIX 4.2 defines
    /// codes up to 11, FIX 4.3 up to 17. FIX 4.4 defines all codes except UnsupportedApplVersion.
    pub(crate) const fn knows(self, reason: RejectReason) -> bool {
        match self {
            Self::Fix40 | Self::Fix41 => false,
            Self::Fix42 => reason as u8 <= 11,
            Self::Fix43 => reason as u8 <= 17,
            Self::Fix44 => !matches!(reason, RejectReason::UnsupportedApplVersion),
            Self::Fixt11 => true,
        }
    }
}

impl fmt::Display for BeginString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for BeginString {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        const WORDS: &[&str] = &["FIX.4.0", "FIX.4.1", "FIX.4.2", "FIX.4.3", "FIX.4.4", "FIXT.1.1"];
        let text = String::deserialize(d)?;
        if text.starts_with("FIX.5") {
            return Err(Error::custom(
                "FIX 5.0 is begin_string = \"FIXT.1.1\" with default_appl_ver_id = 7 (5.0), \
                 8 (SP1) or 9 (SP2)",
            ));
        }
        let found = Self::parse(text.as_bytes());
        found.ok_or_else(|| Error::unknown_variant(&text, WORDS))
    }
}

/// DefaultApplVerID(1137): the application version of a FIXT session, `2` (FIX 4.0) to `10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(transparent)]
pub struct ApplVerId(pub u8);

impl ApplVerId {
    /// Returns the name of the version's dictionary, such as `FIX50SP2` for 9; `None` for an
    /// unknown version.
    #[must_use]
    pub const fn dictionary(self) -> Option<&'static str> {
        Some(match self.0 {
            2 => "FIX40",
            3 => "FIX41",
            4 => "FIX42",
            5 => "FIX43",
            6 => "FIX44",
            7 => "FIX50",
            8 => "FIX50SP1",
            9 => "FIX50SP2",
            10 => "FIXLatest",
            _ => return None,
        })
    }
}

/// The SubIDs and LocationIDs of a session identity. An empty text means that the field is not
/// used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubIds {
    /// SenderSubID(50) of outbound messages.
    pub sender_sub_id: String,
    /// SenderLocationID(142) of outbound messages, since FIX 4.1.
    pub sender_location_id: String,
    /// TargetSubID(57) of outbound messages.
    pub target_sub_id: String,
    /// TargetLocationID(143) of outbound messages, since FIX 4.1.
    pub target_location_id: String,
}

/// The identity of a session as seen from this side: BeginString(8), CompIDs, SubIDs, LocationIDs
/// and a qualifier. The qualifier distinguishes sessions that are otherwise identical.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId {
    /// BeginString(8) of both directions.
    pub begin_string: BeginString,
    /// SenderCompID(49) of outbound messages.
    pub sender_comp_id: Arc<str>,
    /// TargetCompID(56) of outbound messages.
    pub target_comp_id: Arc<str>,
    /// SubIDs and LocationIDs of sender and target.
    pub sub_ids: Arc<SubIds>,
    /// A name that is never sent; may be empty.
    pub qualifier: Arc<str>,
}

impl SessionId {
    /// Returns an identity without SubIDs, LocationIDs and qualifier.
    #[must_use]
    pub fn new(begin_string: BeginString, sender_comp_id: &str, target_comp_id: &str) -> Self {
        Self {
            begin_string,
            sender_comp_id: sender_comp_id.into(),
            target_comp_id: target_comp_id.into(),
            sub_ids: Arc::default(),
            qualifier: "".into(),
        }
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = &self.sub_ids;
        write!(f, "{}:{}", self.begin_string, self.sender_comp_id)?;
        write_ids(f, &ids.sender_sub_id, &ids.sender_location_id)?;
        write!(f, "->{}", self.target_comp_id)?;
        write_ids(f, &ids.target_sub_id, &ids.target_location_id)?;
        if !self.qualifier.is_empty() {
            write!(f, "/{}", self.qualifier)?;
        }
        Ok(())
    }
}

/// Writes `(sub,location)` if at least one of the two is set.
fn write_ids(f: &mut fmt::Formatter<'_>, sub_id: &str, location_id: &str) -> fmt::Result {
    match (sub_id, location_id) {
        ("", "") => Ok(()),
        (sub_id, "") => write!(f, "({sub_id})"),
        (sub_id, location_id) => write!(f, "({sub_id},{location_id})"),
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
