//! The administration, over HTTP and FIX, of an engine that `serve` or `connect` runs.

use std::path::Path;

use transfix::{Engine, Settings};
use transfix_admin::{AdminServer, Extras};

use crate::events;
use crate::show::say;

/// Starts it, if the settings want it, and says where it is. It ends when what is returned is
/// dropped.
pub(crate) fn start(
    path: &Path,
    settings: &Settings,
    engine: &Engine,
) -> Result<Option<AdminServer>, String> {
    let Some(admin) = &settings.admin else { return Ok(None) };
    let mut extras = Extras::new(events::kept());
    extras.filter = events::filter();
    extras.settings_file = Some(path.to_owned());
    let audit = &settings.engine.audit_file;
    extras.audit_file = Some(audit.clone()).filter(|path| !path.as_os_str().is_empty());
    let server = AdminServer::start(admin, &engine.admin(), extras);
    let server = server.map_err(|error| format!("{}: {error}", path.display()))?;
    say(&format!("administration at {}", server.url()));
    if let Some(address) = server.fix_address() {
        say(&format!("administration over FIX at {address}"));
    }
    Ok(Some(server))
}
