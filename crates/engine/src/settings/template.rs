//! Acceptors for any counterparty: templates of sessions.

use transfix_session::Role;

use crate::settings::{Mode, SessionSettings};

/// TargetCompID of a template: any counterparty.
const ANY: &str = "*";

/// Returns true if these settings are for any counterparty.
pub(crate) fn is_template(settings: &SessionSettings) -> bool {
    settings.role == Role::Acceptor && settings.target_comp_id == ANY
}

/// Checks of templates, besides those of all settings.
pub(crate) fn check(settings: &SessionSettings) -> Result<(), String> {
    if is_template(settings) && settings.threads.mode != Mode::Pool {
        return Err("a template (target_comp_id = \"*\") has mode = \"pool\"".to_owned());
    }
    Ok(())
}
