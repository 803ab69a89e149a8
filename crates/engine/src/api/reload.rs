//! Replacement of the settings of a running engine.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use transfix_observe::event;
use transfix_session::SessionId;
use transfix_settings::{AdminSettings, EventSettings, FleetSettings, SessionSettings, Settings};

use crate::api::adapter::ApplicationAdapter;
use crate::api::application::Application;
use crate::drive::outcome::SessionOutcome;
use crate::engine::Engine;
use crate::error::EngineError;

/// The differences between old and new settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// Sessions that only the new settings have.
    pub added: Vec<SessionId>,
    /// Sessions that only the old settings have.
    pub removed: Vec<SessionId>,
    /// Sessions of both settings whose keys differ, with these keys. Each session logs out and
    /// restarts.
    pub changed: Vec<(SessionId, Vec<&'static str>)>,
    /// Keys of `[engine]` that differ; the new values take effect at the next start of the engine.
    pub of_engine: Vec<&'static str>,
    /// Keys of `[admin]` that differ, or that only one of the settings has. The new values take
    /// effect at the next start of the program.
    pub of_admin: Vec<&'static str>,
    /// Keys of `[events]` that differ: all but `levels` take effect at the next start of the
    /// program.
    pub of_events: Vec<&'static str>,
    /// Keys of `[fleet]` that differ, or that only one of the settings has. The new values take
    /// effect at the next start of the program.
    pub of_fleet: Vec<&'static str>,
}

impl Changes {
    /// Returns the differences between two settings.
    #[must_use]
    pub fn between(from: &Settings, to: &Settings) -> Self {
        let before: HashMap<_, _> = from.sessions.iter().map(|one| (one.id(), one)).collect();
        let after: HashMap<_, _> = to.sessions.iter().map(|one| (one.id(), one)).collect();
        let mut changes = Self { of_engine: from.engine.differing(&to.engine), ..Self::default() };
        changes.of_admin = match (&from.admin, &to.admin) {
            (None, None) => Vec::new(),
            (Some(from), Some(to)) => from.differing(to),
            _ => AdminSettings::KEYS.iter().map(|key| key.name).collect(),
        };
        changes.of_fleet = match (&from.fleet, &to.fleet) {
            (None, None) => Vec::new(),
            (Some(from), Some(to)) => from.differing(to),
            _ => FleetSettings::KEYS.iter().map(|key| key.name).collect(),
        };
        let none = EventSettings::default();
        let events = |of: &Settings| of.events.clone().unwrap_or_else(|| none.clone());
        changes.of_events = events(from).differing(&events(to));
        for session in &from.sessions {
            if !after.contains_key(&session.id()) {
                changes.removed.push(session.id());
            }
        }
        for session in &to.sessions {
            match before.get(&session.id()) {
                None => changes.added.push(session.id()),
                Some(before) => {
                    let keys = differing(before, session);
                    if !keys.is_empty() {
                        changes.changed.push((session.id(), keys));
                    }
                }
            }
        }
        changes
    }

    /// Returns true if the settings do not differ.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Writes a line for each changed session, and a line for the changed keys of `[engine]`,
/// `[admin]`, `[events]` and `[fleet]` each.
impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        lines.extend(self.removed.iter().map(|id| format!("{id}: removed")));
        for (id, keys) in &self.changed {
            lines.push(format!("{id}: restarts because these values changed: {}", keys.join(", ")));
        }
        lines.extend(self.added.iter().map(|id| format!("{id}: added")));
        let (levels, of_events): (Vec<_>, Vec<_>) =
            self.of_events.iter().copied().partition(|key| *key == "levels");
        if !levels.is_empty() {
            lines.push("[events]: the levels of the file apply now".to_owned());
        }
        let sections = [
            ("[engine]", &self.of_engine),
            ("[admin]", &self.of_admin),
            ("[events]", &of_events),
            ("[fleet]", &self.of_fleet),
        ];
        for (heading, keys) in sections {
            if !keys.is_empty() {
                let keys = keys.join(", ");
                lines.push(format!("{heading}: {keys} will apply from the next start"));
            }
        }
        if lines.is_empty() {
            lines.push("nothing has changed".to_owned());
        }
        f.write_str(&lines.join("\n"))
    }
}

/// The result of a reload.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reloaded {
    /// The differences between the old and the new settings.
    pub changes: Changes,
    /// The outcomes of the sessions that were removed or restarted.
    pub ended: Vec<SessionOutcome>,
    /// Sessions that could not start with their new settings, mostly because a store could not be
    /// opened. An existing session continues with its old settings if possible.
    pub failed: Vec<(SessionId, EngineError)>,
    /// The settings in force, to be passed as `from` of the next reload. `[engine]` stays as at the
    /// start. A session that could not start has its old settings or is missing, so that the next
    /// reload tries again.
    pub settings: Settings,
}

impl Engine {
    /// Changes the settings of the running engine. The engine removes sessions that only `from`
    /// has, and adds sessions that only `to` has. Sessions whose keys differ log out and restart
    /// from their stores. All other sessions continue undisturbed. Templates count as sessions.
    /// Sessions made from templates stay, unless the new settings name them. Differences in
    /// `[engine]` take effect at the next start.
    ///
    /// `from` are the settings of the start, or those that the last reload returned;
    /// [`Changes::between`] shows the effects in advance. The engine calls `application` for each
    /// session that is added or restarted. `deadline` limits the time in which all counterparties
    /// must answer a Logout(5), counted from the call.
    ///
    /// Sessions added by [`Engine::add`] that are in neither `from` nor `to` continue too.
    ///
    /// # Errors
    /// [`EngineError`] if `to` is wrong, an address is in use, a file is missing, or a session that
    /// only `to` has was added to the engine before. The engine is unchanged.
    pub fn reload(
        &mut self,
        from: &Settings,
        to: &Settings,
        deadline: Duration,
        mut application: impl FnMut(&SessionId) -> Box<dyn Application>,
    ) -> Result<Reloaded, EngineError> {
        self.check_all(to)?;
        let changes = Changes::between(from, to);
        self.check_not_added(&changes.added)?;
        let (mut ended, mut failed) = (Vec::new(), Vec::new());
        let mut settings =
            Settings { engine: from.engine.clone(), admin: from.admin.clone(), ..to.clone() };
        // Only `levels` take effect now. The other keys keep their old values, so that the next
        // reload reports the differences again.
        settings.events = match (&from.events, &to.events) {
            (None, None) => None,
            (old, new) => {
                let levels = new
                    .as_ref()
                    .map_or_else(|| EventSettings::default().levels, |new| new.levels.clone());
                Some(EventSettings { levels, ..old.clone().unwrap_or_default() })
            }
        };
        let changed = changes.changed.iter().map(|(id, _)| id);
        // Begins all logouts before waiting, so that many silent counterparties take no longer than
        // one.
        let text = "the settings have changed";
        let removed = changes.removed.iter().map(|id| (id, false));
        // A session to add may already exist, made from a template, and must end first.
        let anew = changed.clone().chain(&changes.added).map(|id| (id, true));
        let gone = removed.chain(anew);
        let leaving =
            gone.filter_map(|(id, again)| self.begin_to_remove(id, text, deadline, again));
        for leaving in leaving.collect::<Vec<_>>() {
            ended.extend(self.finish_removing(leaving));
        }
        for id in changed.chain(&changes.added) {
            let Some(error) = self.begin(to, id, &mut application) else { continue };
            event!(error, SessionNotBegun, session = %id, %error);
            failed.push((id.clone(), error));
            let old = self.begin_again((from, to), id, &mut application);
            settings.sessions.retain(|session| session.id() != *id);
            settings.sessions.extend(old);
        }
        self.settle();
        Ok(Reloaded { changes, ended, failed, settings })
    }

    /// Adds the session again with its old settings. Returns the settings with which it runs, or
    /// `None` if there were none or it cannot start.
    fn begin_again(
        &mut self,
        (from, to): (&Settings, &Settings),
        id: &SessionId,
        application: &mut dyn FnMut(&SessionId) -> Box<dyn Application>,
    ) -> Option<SessionSettings> {
        let of = |settings: &Settings| {
            settings.sessions.iter().find(|session| session.id() == *id).cloned()
        };
        let (old, new_tls) = (of(from)?, of(to).and_then(|session| session.tls));
        let owner = ApplicationAdapter::of(application(id), id, self.registry());
        let begun = self.add_again(&old, new_tls.as_ref(), owner);
        begun.map_err(|error| event!(error, SessionNotBack, session = %id, %error)).ok()
    }

    /// Adds the session with this identity from the settings. Returns the error if the session
    /// could not start.
    fn begin(
        &mut self,
        settings: &Settings,
        id: &SessionId,
        application: &mut dyn FnMut(&SessionId) -> Box<dyn Application>,
    ) -> Option<EngineError> {
        let session = settings.sessions.iter().find(|session| session.id() == *id)?;
        self.add(session, application(id)).err()
    }
}

/// Returns the keys of a session whose values differ, including the keys of its tables.
fn differing(one: &SessionSettings, other: &SessionSettings) -> Vec<&'static str> {
    [
        one.differing(other),
        one.protocol.differing(&other.protocol),
        one.validation.differing(&other.validation),
        one.store.differing(&other.store),
        one.queue.differing(&other.queue),
        one.threads.differing(&other.threads),
        one.socket.differing(&other.socket),
    ]
    .concat()
}
