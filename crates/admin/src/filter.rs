//! Filters the program's events by level and module; the levels can be changed at run time.

use std::sync::{Arc, PoisonError, RwLock};

use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Metadata, callsite};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Filter};
use transfix::{EventLevel, EventLevels};

/// Filter of the program's events. An operator's levels take precedence over those of the settings.
/// Clones share the same levels.
///
/// The filter is made for layers of the program's `tracing` subscriber.
#[derive(Clone, Debug)]
pub struct EventFilter {
    now: Arc<RwLock<Now>>,
}

#[derive(Debug)]
struct Now {
    of_settings: EventLevels,
    set: Option<EventLevels>,
    targets: Targets,
    finest: LevelFilter,
}

impl Now {
    fn levels(&self) -> &EventLevels {
        self.set.as_ref().unwrap_or(&self.of_settings)
    }

    fn count(&mut self) {
        let EventLevels { of_others, of_parts } = self.levels();
        let parts = of_parts.iter().map(|(part, level)| (&**part, LevelFilter::from(*level)));
        let finest = of_parts.iter().map(|(_, level)| *level).fold(*of_others, EventLevel::max);
        let targets = Targets::new().with_default(LevelFilter::from(*of_others));
        (self.targets, self.finest) = (targets.with_targets(parts), finest.into());
    }
}

impl EventFilter {
    /// Creates a filter with the levels that the settings contain.
    #[must_use]
    pub fn new(of_settings: EventLevels) -> Self {
        let (targets, finest) = (Targets::new(), LevelFilter::OFF);
        let mut now = Now { of_settings, set: None, targets, finest };
        now.count();
        Self { now: Arc::new(RwLock::new(now)) }
    }

    /// Returns the levels that apply now.
    #[must_use]
    pub fn levels(&self) -> EventLevels {
        self.read(|now| now.levels().clone())
    }

    /// Returns the levels that the settings contain.
    #[must_use]
    pub fn of_settings(&self) -> EventLevels {
        self.read(|now| now.of_settings.clone())
    }

    /// Returns true if the levels that apply now were set by an operator.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.read(|now| now.set.is_some())
    }

    /// Sets the operator's levels, which apply until [`EventFilter::reload`].
    pub fn set(&self, levels: EventLevels) {
        self.change(|now| now.set = Some(levels));
    }

    /// Applies the new levels of the settings, and discards the operator's levels.
    pub fn reload(&self, of_settings: EventLevels) {
        self.change(|now| (now.of_settings, now.set) = (of_settings, None));
    }

    /// Returns true if an event with the module and level of `meta` passes the filter.
    #[must_use]
    pub fn lets_through(&self, meta: &Metadata<'_>) -> bool {
        self.read(|now| now.targets.would_enable(meta.target(), meta.level()))
    }

    /// Returns the most detailed level that any module has.
    #[must_use]
    pub fn finest(&self) -> LevelFilter {
        self.read(|now| now.finest)
    }

    fn read<T>(&self, what: impl FnOnce(&Now) -> T) -> T {
        what(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, what: impl FnOnce(&mut Now)) {
        {
            let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
            what(&mut now);
            now.count();
        }
        // `tracing` caches whether each event is enabled, so the cache must be rebuilt.
        callsite::rebuild_interest_cache();
    }
}

impl<S> Filter<S> for EventFilter {
    fn enabled(&self, meta: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.lets_through(meta)
    }

    fn callsite_enabled(&self, meta: &'static Metadata<'static>) -> Interest {
        if self.lets_through(meta) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.finest())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tracing::{Event, Subscriber};
    use tracing_subscriber::layer::{Layer, SubscriberExt as _};

    use super::*;

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Seen {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let meta = event.metadata();
            self.0.lock().unwrap().push(format!("{} {}", meta.target(), meta.level()));
        }
    }

    fn tell() {
        tracing::debug!(target: "transfix::link", "x");
        tracing::debug!(target: "transfix::drive", "x");
        tracing::info!(target: "transfix::link::core", "x");
    }

    #[test]
    fn levels_count_until_they_are_set_anew() {
        let filter = EventFilter::new("off".parse().unwrap());
        let seen = Seen::default();
        let subscriber =
            tracing_subscriber::registry().with(seen.clone().with_filter(filter.clone()));
        tracing::subscriber::with_default(subscriber, || {
            let told = || {
                tell();
                std::mem::take(&mut *seen.0.lock().unwrap())
            };
            assert!(told().is_empty());
            filter.set("warn,transfix::link=debug,transfix::link::core=error".parse().unwrap());
            assert!(filter.is_set());
            assert_eq!(told(), ["transfix::link DEBUG"]);
            filter.reload("info".parse().unwrap());
            assert_eq!(told(), ["transfix::link::core INFO"]);
            assert_eq!((filter.is_set(), filter.levels().to_string()), (false, "info".to_owned()));
        });
    }
}
