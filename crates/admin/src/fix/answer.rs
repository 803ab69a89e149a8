//! The answer to an administrator: a result code, words, and data.

use std::fmt;

use transfix::AdminError;

use crate::fix::xml::{Writer, escaped};

/// How a command ended, as `ResultCode` of the answer has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultCode {
    /// 0: it is done.
    Done,
    /// 1: there is no such command, or this program cannot do it.
    NotImplemented,
    /// 3: there is no such session.
    UnknownSession,
    /// 6: it failed for a reason of ours.
    InternalError,
    /// 7: it was refused.
    Rejected,
    /// 9: what was asked makes no sense.
    InvalidParameter,
}

impl ResultCode {
    /// The number.
    #[must_use]
    pub const fn as_u8(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NotImplemented => 1,
            Self::UnknownSession => 3,
            Self::InternalError => 6,
            Self::Rejected => 7,
            Self::InvalidParameter => 9,
        }
    }
}

/// Why a command is not done.
#[derive(Clone, PartialEq, Eq)]
pub struct Refused {
    /// The result code.
    pub code: ResultCode,
    /// The words.
    pub why: String,
}

impl Refused {
    /// Not done, with this code, for this reason.
    #[must_use]
    pub fn new(code: ResultCode, why: impl Into<String>) -> Self {
        Self { code, why: why.into() }
    }

    /// The request makes no sense.
    #[must_use]
    pub fn invalid(why: impl Into<String>) -> Self {
        Self::new(ResultCode::InvalidParameter, why)
    }

    /// It is refused.
    #[must_use]
    pub fn rejected(why: impl Into<String>) -> Self {
        Self::new(ResultCode::Rejected, why)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// The text: what `main` returns is printed so.
impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Refused {}

impl From<AdminError> for Refused {
    fn from(error: AdminError) -> Self {
        let code = match &error {
            AdminError::NoSession(_) => ResultCode::UnknownSession,
            AdminError::NotTaken => ResultCode::NotImplemented,
            AdminError::Audit(_) | AdminError::Late => ResultCode::InternalError,
            _ => ResultCode::Rejected,
        };
        Self::new(code, format!("{error} ({})", error.as_u16()))
    }
}

/// The result of a command that was carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Elements, as XML.
    pub data: String,
    /// Words.
    pub description: String,
}

impl Said {
    /// Words alone.
    #[must_use]
    pub fn words(description: impl Into<String>) -> Self {
        Self { data: String::new(), description: description.into() }
    }

    /// Elements, as XML, that are well formed.
    #[must_use]
    pub fn data(xml: impl Into<String>) -> Self {
        Self { data: xml.into(), description: String::new() }
    }

    pub(super) fn written(xml: Writer) -> Self {
        Self::data(xml.into_xml())
    }
}

/// The whole answer as XML.
pub(super) fn response(request_id: Option<i64>, outcome: &Result<Said, Refused>) -> String {
    let (code, description, data) = match outcome {
        Ok(said) => (ResultCode::Done, &said.description, &*said.data),
        Err(refused) => (refused.code, &refused.why, ""),
    };
    let mut xml = format!("<Response ResultCode=\"{}\"", code.as_u8());
    if let Some(id) = request_id {
        xml += &format!(" RequestID=\"{id}\"");
    }
    xml += ">";
    xml += data;
    if !description.is_empty() {
        xml += &format!("<Description>{}</Description>", escaped(description));
    }
    xml + "</Response>"
}
