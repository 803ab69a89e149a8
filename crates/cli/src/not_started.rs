//! Errors that prevent a command from starting its sessions, with their exit codes.

use std::process::ExitCode;

use transfix::EngineError;

use crate::foreign;
use crate::input::failed;

/// Reason why a command could not start its sessions.
pub(crate) enum NotStarted {
    /// The settings are wrong.
    Settings(String),
    /// The machine, the network or a store failed, so the settings may be right.
    Other(String),
}

impl NotStarted {
    /// Prints the error and returns the exit code.
    pub(crate) fn exit(self, verb: &str) -> ExitCode {
        match self {
            Self::Settings(error) => failed(&error),
            Self::Other(error) => {
                eprintln!("transfix {verb}: {}", foreign::lines(&error));
                ExitCode::FAILURE
            }
        }
    }
}

impl From<String> for NotStarted {
    fn from(error: String) -> Self {
        Self::Other(error)
    }
}

impl From<EngineError> for NotStarted {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Settings(what) => Self::Settings(what),
            other => Self::Other(other.to_string()),
        }
    }
}
