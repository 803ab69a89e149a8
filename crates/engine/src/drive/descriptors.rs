//! The limit on open files, and how many of them connections without a logon may use.
//!
//! Invariants: connections that have not logged on never use up the files needed by stores, logs
//! and sessions. The limit is raised before the first file is opened.

use rustix::process::{Resource, getrlimit, setrlimit};
use transfix_observe::event;
use transfix_session::Role;
use transfix_settings::{Durability, Mode, RetentionSettings, SessionSettings, Settings};
use transfix_store::FileLock;

use crate::error::EngineError;

/// The descriptors of a session's connection.
const OF_A_CONNECTION: u64 = 1;
/// The divisor for sessions assumed to have two connections at a time: the ending one, and its
/// replacement.
const REPLACED_ONE_IN: u64 = 16;
/// The number of file descriptors of a thread that waits in epoll, for the pool or for one session.
const OF_A_THREAD: u64 = 2;
/// The descriptors that a custom store may need.
const OF_AN_OWN_STORE: u64 = 5;
/// The number of file descriptors that a store needs while it archives. Many stores may archive at
/// once.
const OF_AN_ARCHIVE: u64 = 3;
/// The descriptors of a protocol log, including its next file.
const OF_A_LOG: u64 = 3;
/// The number of file descriptors that the engine and its program need besides sessions.
const OF_THE_ENGINE: u64 = 64;
/// The minimum number of connections that may wait for their Logon(A). With fewer, a handful of
/// unknown peers could lock out all others.
const WAITING_MIN: u64 = 16;

/// Raises the limit of open files as far as possible. Returns the number of connections that may
/// wait for their Logon(A), as the settings demand. If the limit is low, the number is reduced to
/// the descriptors that remain after all sessions, including those from templates.
///
/// # Errors
/// If the limit is too low for the sessions of the settings.
pub(crate) fn reserve(settings: &Settings, has_own_stores: bool) -> Result<usize, EngineError> {
    let files_of = |session: &SessionSettings| files_of(session, has_own_stores);
    let (sessions, all) = (&settings.sessions, &settings.engine);
    let (templates, listed): (Vec<_>, Vec<_>) = sessions.iter().partition(|one| one.is_template());
    let of_created = templates.into_iter().map(files_of).max().unwrap_or(0);
    let created = of_created.saturating_mul(all.created_sessions_max as u64);
    let of_threads = (all.workers as u64).saturating_mul(OF_A_THREAD);
    let of_sessions = listed.iter().copied().map(files_of).sum::<u64>();
    let of_changes = (listed.len() as u64).div_ceil(REPLACED_ONE_IN);
    let needed = OF_THE_ENGINE + of_threads + of_sessions + of_changes;
    let accepts = sessions.iter().any(|session| session.role == Role::Acceptor);
    let wanted = if accepts { all.pending_connections_max } else { 0 };
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // If raising the limit is forbidden, the present limit stays in force.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    match getrlimit(Resource::Nofile).current {
        Some(files) => within(files, (listed.len(), needed), created, wanted as u64),
        None => Ok(wanted),
    }
}

/// Returns the number of file descriptors of a session. `has_own_stores` is true if the program
/// opens stores, which may use files whatever the settings say.
fn files_of(session: &SessionSettings, has_own_stores: bool) -> u64 {
    let is_in_files = session.store.durability != Durability::Memory;
    let of_store = match () {
        () if has_own_stores => OF_AN_OWN_STORE,
        () if is_in_files => u64::from(FileLock::needs_file(&session.store.store_dir)),
        () => 0,
    };
    let archives = is_in_files && session.retention != RetentionSettings::default();
    let of_store = of_store + if archives { OF_AN_ARCHIVE } else { 0 };
    let of_store = if session.failover.own_store { 2 * of_store } else { of_store };
    let has_thread = matches!(session.threads.mode, Mode::Dedicated | Mode::Spin);
    let of_thread = if has_thread { OF_A_THREAD } else { 0 };
    let of_log = if session.log.is_some() { OF_A_LOG } else { 0 };
    OF_A_CONNECTION + of_thread + of_store + of_log
}

/// Returns the number of connections that may wait for their Logon(A). `needed` is the number of
/// descriptors of sessions and engine, and `created` is the number for sessions from templates.
fn within(
    files: u64,
    (sessions, needed): (usize, u64),
    created: u64,
    wanted: u64,
) -> Result<usize, EngineError> {
    let waiting_min = WAITING_MIN.min(wanted);
    let Some(room) = files.checked_sub(needed).filter(|room| *room >= waiting_min) else {
        let least = needed + waiting_min;
        return Err(EngineError::Settings(format!(
            "{sessions} sessions need {least} open files, but the process may have only {files}; \
             raise the limit (ulimit -n, LimitNOFILE= of systemd)"
        )));
    };
    // Sessions from templates come one by one, so only three quarters of the remaining descriptors
    // are reserved for them.
    let reserved = created.min(room / 4 * 3);
    let left = room - reserved;
    if left < wanted {
        // The line is logged once, at the start.
        event!(warn, FewFilesForLogons, limit = files, wanted, left);
    }
    Ok(usize::try_from(left.min(wanted).max(waiting_min)).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::LogSettings;
    use transfix_session::{BeginString, SessionId};

    #[test]
    fn a_session_needs_its_connection_alone() {
        let id = SessionId::new(BeginString::Fix44, "A", "B");
        let mut session = SessionSettings::new(Role::Acceptor, &id, "");
        session.store.durability = Durability::Memory;
        session.log = Some(LogSettings::in_dir("log"));
        assert_eq!(files_of(&session, false), OF_A_CONNECTION + OF_A_LOG);
        session.log = None;
        assert_eq!(files_of(&session, false), 1);
        session.store.durability = Durability::Process;
        let of_lock = u64::from(FileLock::needs_file(&session.store.store_dir));
        assert_eq!(files_of(&session, false), 1 + of_lock);
        session.retention.delete_after = Duration::from_hours(168);
        assert_eq!(files_of(&session, false), 1 + of_lock + OF_AN_ARCHIVE);
        session.retention = RetentionSettings::default();
        assert_eq!(files_of(&session, true), 1 + OF_AN_OWN_STORE);
    }

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
            let needed = OF_THE_ENGINE + 10 * sessions as u64;
            let left = within(files, (sessions, needed), 10 * created, wanted);
            assert_eq!(left.as_ref().ok(), expected.as_ref(), "{files} {sessions} {created}");
            if let Err(error) = left {
                assert!(error.to_string().contains("ulimit -n"), "{error}");
            }
        }
    }
}
