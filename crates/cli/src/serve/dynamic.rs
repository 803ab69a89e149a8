//! Sessions that operators add, change and remove while the program runs.
//!
//! Invariant: `settings` are the settings of the last start or reload, updated when an operator
//! changes a session of the file. The next reload restores the sessions of the file and keeps the
//! added sessions.

use std::net::SocketAddr;

use transfix::{Application, Engine, EngineAction, Outcome, SessionId, SessionSettings, Settings};

use super::{LOGOUT_TIME, say_where, shown};
use crate::show::say;

/// Function that creates the application of a session, or returns the reason why the program cannot
/// run the session.
pub(crate) type Applications<'a> =
    dyn FnMut(&SessionSettings) -> Result<Box<dyn Application>, String> + 'a;

/// Performs an operator's request. Returns a description of the result.
///
/// # Errors
/// Returns the reason of the failure.
pub(super) fn carry_out(
    (engine, settings): (&mut Engine, &mut Settings),
    action: &EngineAction,
    application: &mut Applications<'_>,
) -> Result<String, String> {
    let said = match action {
        EngineAction::Add(new) => add(engine, new, application),
        EngineAction::Change(new) => change(engine, settings, new, application),
        EngineAction::Remove { id, text } => remove(engine, settings, (id, text)),
        _ => Err("this program does not support the request".to_owned()),
    }?;
    say(&said);
    Ok(said)
}

fn add(
    engine: &mut Engine,
    new: &SessionSettings,
    application: &mut Applications<'_>,
) -> Result<String, String> {
    let before = engine.listening().to_vec();
    engine.add(new, application(new)?).map_err(|error| error.to_string())?;
    say_where_now(engine, &before);
    Ok(format!(
        "{}: added until it is removed or the program ends; the settings file does not have this \
         session",
        new.id()
    ))
}

/// Prints the listening addresses if they have changed.
fn say_where_now(engine: &Engine, before: &[SocketAddr]) {
    if engine.listening() != before {
        say_where(engine);
    }
}

/// Changes a session by a reload that contains only this session's settings.
fn change(
    engine: &mut Engine,
    settings: &mut Settings,
    new: &SessionSettings,
    application: &mut Applications<'_>,
) -> Result<String, String> {
    let id = new.id();
    let handle = engine.session(&id).ok_or_else(|| format!("no session is named {id}"))?;
    let old = handle.settings().clone();
    let alone = |session: &SessionSettings| Settings {
        engine: settings.engine.clone(),
        admin: settings.admin.clone(),
        events: settings.events.clone(),
        fleet: settings.fleet.clone(),
        sessions: vec![session.clone()],
    };
    let (from, to) = (alone(&old), alone(new));
    // If the new settings fail, the session starts again with its old settings and needs a second
    // application.
    let mut made = vec![application(&old)?, application(new)?];
    let before = engine.listening().to_vec();
    let done = engine.reload(&from, &to, LOGOUT_TIME, |_| match made.pop() {
        Some(application) => application,
        None => unreachable!("a session starts at most twice"),
    });
    let done = done.map_err(|error| error.to_string())?;
    done.ended.iter().for_each(|outcome| say(&shown(outcome)));
    say_where_now(engine, &before);
    if let Some((_, error)) = done.failed.first() {
        let goes_on = !done.settings.sessions.is_empty();
        let how = if goes_on {
            "continues with its old settings"
        } else {
            "stopped, because its \
            new and its old settings both failed"
        };
        settings.sessions.retain(|session| session.id() != id || goes_on);
        return Err(format!("{id}: {how}: {error}"));
    }
    let Some((_, keys)) = done.changes.changed.first() else {
        return Ok(format!("{id}: nothing has changed"));
    };
    let how = format!("{id}: restarted with new values of {}", keys.join(", "));
    let place = settings.sessions.iter_mut().find(|session| session.id() == id);
    Ok(match place {
        Some(session) => {
            session.clone_from(new);
            format!("{how}, until the next reload or start: the settings file has the old values")
        }
        None => format!("{how}, until it is removed or the program ends"),
    })
}

fn remove(
    engine: &mut Engine,
    settings: &mut Settings,
    (id, text): (&SessionId, &str),
) -> Result<String, String> {
    let removed = engine.remove(id, text, LOGOUT_TIME);
    let outcome = removed.map_err(|_| format!("no session is named {id}"))?;
    let count = settings.sessions.len();
    settings.sessions.retain(|session| session.id() != *id);
    let of_file = match settings.sessions.len() < count {
        true => ", until the next reload or start: the settings file still has this session",
        false => "",
    };
    let how = match outcome.map(|outcome| outcome.outcome) {
        None | Some(Outcome::NotConnected) => "removed".to_owned(),
        Some(outcome) => format!("removed ({outcome})"),
    };
    Ok(format!("{id}: {how}{of_file}"))
}
