//! Acceptors for any counterparty: templates of sessions.

use transfix_session::Role;

use crate::{Mode, SessionSettings};

/// TargetCompID of a template: any counterparty.
const ANY: &str = "*";

impl SessionSettings {
    /// Returns true if these settings are for any counterparty: an acceptor's with TargetCompID
    /// `*`.
    #[must_use]
    pub fn is_template(&self) -> bool {
        self.role == Role::Acceptor && self.target_comp_id == ANY
    }
}

/// Checks of templates, besides those of all settings.
pub(crate) fn check(settings: &SessionSettings) -> Result<(), String> {
    if settings.is_template() && settings.threads.mode != Mode::Pool {
        return Err("a template (target_comp_id = \"*\") has mode = \"pool\"".to_owned());
    }
    Ok(())
}
