//! Errors of `connect` commands; the kind of an error determines the exit code of a script.

use std::fmt;
use std::process::ExitCode;

/// Reason why a command failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The command has wrong arguments; the error text includes the usage.
    Usage(String),
    /// The command cannot run as written, so the script is wrong.
    Wrong(String),
    /// The command is correct, but the session or the counterparty failed.
    Failed(String),
}

impl Fault {
    /// Replaces the text of the error and keeps its kind.
    pub(super) fn map(self, text: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Usage(old) => Self::Usage(text(old)),
            Self::Wrong(old) => Self::Wrong(text(old)),
            Self::Failed(old) => Self::Failed(text(old)),
        }
    }

    /// Returns the exit code of a script that ends with this error.
    pub(super) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) | Self::Wrong(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::FAILURE,
        }
    }
}

/// Converts a plain text to [`Fault::Wrong`].
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
