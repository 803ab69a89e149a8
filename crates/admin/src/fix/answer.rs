//! The answer to an administrator: a result code, a description, and data.

use std::fmt;

use transfix::AdminError;

use crate::fix::xml::{Writer, escaped};

/// Result code of a command, as in the attribute `ResultCode` of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultCode {
    /// 0: the command succeeded.
    Done,
    /// 1: the command does not exist, or this program does not support it.
    NotImplemented,
    /// 3: the session does not exist.
    UnknownSession,
    /// 6: the command failed because of an internal error.
    InternalError,
    /// 7: the command was refused.
    Rejected,
    /// 9: the command or a parameter is invalid.
    InvalidParameter,
}

impl ResultCode {
    /// Returns the code as a number.
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

/// The refusal of a command: a result code and a reason.
#[derive(Clone, PartialEq, Eq)]
pub struct Refused {
    /// Result code of the answer.
    pub code: ResultCode,
    /// Reason, as text for the administrator.
    pub why: String,
}

impl Refused {
    /// Creates a refusal with this code and reason.
    #[must_use]
    pub fn new(code: ResultCode, why: impl Into<String>) -> Self {
        Self { code, why: why.into() }
    }

    /// Creates a refusal with [`ResultCode::InvalidParameter`].
    #[must_use]
    pub fn invalid(why: impl Into<String>) -> Self {
        Self::new(ResultCode::InvalidParameter, why)
    }

    /// Creates a refusal with [`ResultCode::Rejected`].
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

/// Formats the error like `Display`, because an error returned by `main` is printed with `Debug`.
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

/// The result of a successful command: XML data and a description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandResult {
    /// XML elements of the answer.
    pub data: String,
    /// Description of the result, as text for the administrator.
    pub description: String,
}

impl CommandResult {
    /// Creates a result with a description and without data.
    #[must_use]
    pub fn words(description: impl Into<String>) -> Self {
        Self { data: String::new(), description: description.into() }
    }

    /// Creates a result whose data is `xml`, which must consist of well-formed elements.
    #[must_use]
    pub fn data(xml: impl Into<String>) -> Self {
        Self { data: xml.into(), description: String::new() }
    }

    pub(super) fn written(xml: Writer) -> Self {
        Self::data(xml.into_xml())
    }
}

/// Returns the complete answer as XML.
pub(super) fn response(
    request_id: Option<i64>,
    outcome: &Result<CommandResult, Refused>,
) -> String {
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
