//! Templates: acceptors from which sessions are made for unknown counterparties.

use transfix_session::Role;

use crate::{Mode, SessionSettings};

/// The TargetCompID(56) of a template, which stands for any counterparty.
const ANY: &str = "*";

impl SessionSettings {
    /// Returns true for the settings of a template: an acceptor with TargetCompID `*`.
    #[must_use]
    pub fn is_template(&self) -> bool {
        self.role == Role::Acceptor && self.target_comp_id == ANY
    }
}

/// Checks what applies only to templates.
pub(crate) fn check(settings: &SessionSettings) -> Result<(), String> {
    if settings.is_template() && settings.threads.mode != Mode::Pool {
        return Err("a template (target_comp_id = \"*\") requires mode = \"pool\"".to_owned());
    }
    Ok(())
}
