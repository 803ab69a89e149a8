//! New settings for a running engine.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use transfix_observe::event;
use transfix_session::SessionId;
use transfix_settings::{AdminSettings, EventSettings, SessionSettings, Settings};

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
    /// Sessions in both settings, with the keys that differ: each logs out and restarts.
    pub changed: Vec<(SessionId, Vec<&'static str>)>,
    /// Keys of `[engine]` that differ: they take effect at the next start of the engine.
    pub of_engine: Vec<&'static str>,
    /// Keys of `[admin]` that differ, or that one of the settings lacks: they take effect at the
    /// next start of the program.
    pub of_admin: Vec<&'static str>,
    /// Keys of `[events]` that differ: all but `levels` take effect at the next start of the
    /// program.
    pub of_events: Vec<&'static str>,
}

impl Changes {
    /// Returns the differences between these settings.
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

/// A line for each session, and one for the keys of `[engine]`, of `[admin]` and of `[events]`.
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
        let sections =
            [("[engine]", &self.of_engine), ("[admin]", &self.of_admin), ("[events]", &of_events)];
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
    /// The differences between the settings.
    pub changes: Changes,
    /// The ends of the sessions that were removed or restarted.
    pub ended: Vec<SessionOutcome>,
    /// Sessions that could not start with their new settings, mostly because a store could not be
    /// opened. An existing session continues with its old settings if possible.
    pub failed: Vec<(SessionId, EngineError)>,
    /// The settings in force, for `from` of the next reload. `[engine]` is as at the start. A
    /// session that could not start has its old settings, or is missing, so that the next reload
    /// tries it again.
    pub settings: Settings,
}

impl Engine {
    /// Changes the settings of the running engine. Sessions that only `from` has are removed.
    /// Sessions whose keys differ log out and restart from their stores. Sessions that only `to`
    /// has are added. All other sessions continue without any effect. Templates count as sessions.
    /// Sessions made from templates stay, unless the new settings name them. Differences in
    /// `[engine]` take effect at the next start.
    ///
    /// `from` are the settings of the start, or those that the last reload returned:
    /// [`Changes::between`] shows the effects in advance. The engine calls `application` for each
    /// session that is added or restarted. All counterparties together have `deadline` from now on
    /// to answer a Logout(5).
    ///
    /// Sessions added by [`Engine::add`] that neither of the settings has continue too.
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
        // The next reload says again what it finds about the others.
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
        // All at once: one counterparty that does not answer is waited for as long as many.
        let text = "the settings have changed";
        let removed = changes.removed.iter().map(|id| (id, false));
        // An added one may have a session that was made from a template.
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

    /// Adds the session again as the old settings have it. Returns what it runs with now; `None` if
    /// there was none, or it cannot run.
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

    /// Adds the session of these settings. Returns why it could not.
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

/// The keys of a session whose values differ; those of a table count as the table's.
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
