//! Why a command of `connect` was not done: who is to blame says the exit code of a script.

use std::fmt;
use std::process::ExitCode;

/// Why a command was not done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its words are wrong: how it is written helps.
    Usage(String),
    /// It cannot be done as it is written: the script is wrong.
    Wrong(String),
    /// It was right, and the session or the counterparty did not do as it says.
    Failed(String),
}

impl Fault {
    /// The same with another text.
    pub(super) fn map(self, text: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Usage(old) => Self::Usage(text(old)),
            Self::Wrong(old) => Self::Wrong(text(old)),
            Self::Failed(old) => Self::Failed(text(old)),
        }
    }

    /// The exit code of a script that ends so.
    pub(super) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) | Self::Wrong(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::FAILURE,
        }
    }
}

/// A plain text reports an error in the typed command.
impl From<String> for Fault {
    fn from(text: String) -> Self {
        Self::Wrong(text)
    }
}

impl From<&str> for Fault {
    fn from(text: &str) -> Self {
        Self::Wrong(text.to_owned())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::Wrong(text) | Self::Failed(text)) = self;
        f.write_str(text)
    }
}
