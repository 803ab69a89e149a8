//! Open files: how many the process may have, and how many strangers may take of them.
//!
//! Invariants: connections that have not logged on never use up what stores, logs and sessions
//! need; the limit is raised before the first of these is opened.

use rustix::process::{Resource, getrlimit, setrlimit};
use transfix_session::Role;

use crate::error::EngineError;
use crate::settings::Settings;
use crate::settings::template::is_template;

/// What a session needs: its connection, its store with the next segment and an archive, its logs.
const OF_A_SESSION: u64 = 10;
/// What the engine and the program around it need besides.
const OF_THE_ENGINE: u64 = 64;
/// So many connections may wait at least: with fewer, a handful of strangers would keep all others
/// out.
const WAITING_MIN: u64 = 16;

/// Raises the limit as far as it goes, and says how many connections may wait for their Logon(A):
/// as many as the settings have it, or as the limit leaves beside what their sessions and those
/// made from templates need.
///
/// # Errors
/// If the limit does not do for the sessions of the settings.
pub(crate) fn reserve(settings: &Settings) -> Result<usize, EngineError> {
    let (sessions, all) = (&settings.sessions, &settings.engine);
    let created = if sessions.iter().any(is_template) { all.created_sessions_max } else { 0 };
    let accepts = sessions.iter().any(|session| session.role == Role::Acceptor);
    let wanted = if accepts { all.pending_connections_max } else { 0 };
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // Where that is forbidden the present limit stays, and is what counts.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    match getrlimit(Resource::Nofile).current {
        Some(files) => within(files, sessions.len() as u64, created as u64, wanted as u64),
        None => Ok(wanted),
    }
}

fn within(files: u64, sessions: u64, created: u64, wanted: u64) -> Result<usize, EngineError> {
    let needed = OF_THE_ENGINE + sessions.saturating_mul(OF_A_SESSION);
    let waiting_min = WAITING_MIN.min(wanted);
    let Some(room) = files.checked_sub(needed).filter(|room| *room >= waiting_min) else {
        let least = needed + waiting_min;
        return Err(EngineError::Settings(format!(
            "{sessions} sessions need {least} open files, and the process may have {files}; raise \
             the limit (ulimit -n, LimitNOFILE= of systemd)"
        )));
    };
    // Sessions made from templates come one by one: strangers leave them most of what is left.
    let reserved = created.saturating_mul(OF_A_SESSION).min(room / 4 * 3);
    let left = room - reserved;
    if left < wanted {
        // Once: at the start.
        tracing::warn!(
            limit = files,
            wanted,
            left,
            "too few open files: fewer connections may wait for their Logon(A) than are set"
        );
    }
    Ok(usize::try_from(left.min(wanted).max(waiting_min)).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_get_what_the_sessions_leave() {
        for (files, sessions, created, wanted, expected) in [
            (1_000_000, 100, 0, 1_000, Some(1_000)),
            (1_200, 10, 0, 1_000, Some(1_000)),
            (1_024, 10, 0, 1_000, Some(860)),
            (1_024, 94, 0, 1_000, Some(20)),
            (1_024, 95, 0, 1_000, None),
            (1_024, 10, 1_000, 1_000, Some(215)),
            (200, 1, 0, 5, Some(5)),
            (1_024, 96, 0, 0, Some(0)),
            (1_024, 97, 0, 0, None),
        ] {
            let left = within(files, sessions, created, wanted);
            assert_eq!(left.as_ref().ok(), expected.as_ref(), "{files} {sessions} {created}");
            if let Err(error) = left {
                assert!(error.to_string().contains("ulimit -n"), "{error}");
            }
        }
    }
}
