//! Templates of sessions: acceptors for any counterparty.

use transfix_session::Role;

use crate::{Mode, SessionSettings};

/// The TargetCompID of a template, which accepts any counterparty.
const ANY: &str = "*";

impl SessionSettings {
    /// Returns true for the settings of a template: an acceptor with TargetCompID `*`.
    #[must_use]
    pub fn is_template(&self) -> bool {
        self.role == Role::Acceptor && self.target_comp_id == ANY
    }
}

/// Checks a template, in addition to the checks of all settings.
pub(crate) fn check(settings: &SessionSettings) -> Result<(), String> {
    if settings.is_template() && settings.threads.mode != Mode::Pool {
        return Err("a template (target_comp_id = \"*\") requires mode = \"pool\"".to_owned());
    }
    Ok(())
}
