//! Starts the administration, over HTTP and FIX, for the engine of `serve`, `run` or `connect`.

use std::net::TcpListener;
use std::path::Path;

use transfix::{Engine, Review, Settings};
use transfix_admin::users::Users;
use transfix_admin::{AdminServer, Extras};

use crate::events;
use crate::show::say;

/// Returns the errors in the administration's settings that can be found without starting it.
pub(crate) fn errors(settings: &Settings) -> Vec<String> {
    let mut errors = Review::admin_errors(settings);
    let Some(admin) = &settings.admin else { return errors };
    // If the file is missing, the engine's error is reported already and contains the remedy.
    if !errors.iter().any(|error| error.starts_with("[admin]: users_file")) {
        let unread = Users::load(&admin.users_file).err();
        errors.extend(unread.map(|error| format!("[admin] users_file: {error}")));
    }
    errors
}

/// Checks before the engine listens that [`start`] can succeed. Otherwise a counterparty could log
/// on to a program that ends immediately.
pub(crate) fn check(path: &Path, settings: &Settings) -> Result<(), String> {
    let Some(admin) = &settings.admin else { return Ok(()) };
    let mut errors = errors(settings);
    if errors.is_empty() {
        let fix = admin.fix.as_ref().map(|fix| ("[admin.fix] address", &fix.address));
        for (key, address) in [("[admin] address", &admin.address)].into_iter().chain(fix) {
            let error = TcpListener::bind(&**address).err();
            errors.extend(error.map(|error| format!("{key}: {address}: {error}")));
        }
    }
    let errors: Vec<_> =
        errors.iter().map(|error| format!("{}: {error}", path.display())).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

/// Starts the administration if the settings enable it, and prints its address. Dropping the
/// returned server stops the administration.
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
