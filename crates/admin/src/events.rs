//! The most recent events of the engine, kept in memory and streamed to subscribers.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use transfix::clock;

use crate::shown::moment;

/// Number of events kept in memory.
const KEPT: usize = 2_000;
/// Number of events that may wait for a subscriber. If a subscriber is too slow, it misses events
/// and receives their number.
const WAITING: usize = 512;
/// Maximum length of a field's text, in bytes; a longer text is cut off.
const VALUE_MAX: usize = 2_048;

/// An event in the form that the console shows, serialized as JSON by serde.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ShownEvent {
    /// Number of the event since the start of the program; 0 if events are not kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub n: u64,
    /// Time of the event in UTC (ISO 8601).
    pub at: String,
    /// `ERROR`, `WARN` or `INFO`.
    pub level: &'static str,
    /// Module that reports the event.
    pub target: &'static str,
    /// Code of the event; the page "What happened?" of the book lists all codes.
    pub code: Option<u16>,
    /// Text of the event.
    pub text: String,
    /// Session that the event concerns, if any.
    pub session: Option<String>,
    /// Other fields of the event, by name.
    pub fields: Map<String, Value>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl ShownEvent {
    /// Creates an event without fields, stamped with the current time.
    #[must_use]
    pub fn new(level: Level, target: &'static str, text: String) -> Self {
        let (level, at) = (level.as_str(), moment(clock::now().utc));
        let (session, fields) = (None, Map::new());
        Self { n: 0, at, level, target, code: None, text, session, fields }
    }

    /// Converts an event of `tracing`, stamped with the current time.
    #[must_use]
    pub fn of(event: &Event<'_>) -> Self {
        let mut found = Found::default();
        event.record(&mut found);
        let Found { text, session, mut fields } = found;
        let code = fields.remove("event_code").and_then(|code| code.as_u64()?.try_into().ok());
        let meta = event.metadata();
        let (level, target) = (meta.level().as_str(), meta.target());
        let at = moment(clock::now().utc);
        Self { n: 0, at, level, target, code, text, session, fields }
    }
}

/// The most recent events of the engine. Clones share the same events.
#[derive(Clone, Debug)]
pub struct EventRing {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    kept: Mutex<Kept>,
    news: broadcast::Sender<Arc<ShownEvent>>,
}

#[derive(Debug, Default)]
struct Kept {
    count: u64,
    events: VecDeque<Arc<ShownEvent>>,
}

impl Default for EventRing {
    fn default() -> Self {
        let (news, _) = broadcast::channel(WAITING);
        Self { inner: Arc::new(Inner { kept: Mutex::default(), news }) }
    }
}

impl EventRing {
    /// Returns the layer that adds events to the ring, for the program's `tracing` subscriber.
    #[must_use]
    pub fn layer(&self) -> EventLayer {
        EventLayer(self.clone())
    }

    /// Returns the last `limit` events whose number is above `n`, oldest first. `session` restricts
    /// the result to one session.
    pub(crate) fn after(
        &self,
        n: u64,
        session: Option<&str>,
        limit: usize,
    ) -> Vec<Arc<ShownEvent>> {
        let kept = self.inner.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of = |event: &&Arc<ShownEvent>| {
            session.is_none_or(|id| event.session.as_deref() == Some(id))
        };
        let found = kept.events.iter().rev().take_while(|event| event.n > n).filter(is_of);
        let mut found: Vec<_> = found.take(limit).cloned().collect();
        found.reverse();
        found
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<ShownEvent>> {
        self.inner.news.subscribe()
    }

    fn add(&self, mut event: ShownEvent) {
        let mut kept = self.inner.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.count += 1;
        event.n = kept.count;
        let event = Arc::new(event);
        if kept.events.len() == KEPT {
            kept.events.pop_front();
        }
        kept.events.push_back(Arc::clone(&event));
        // The send fails if no subscriber exists; the event is then only kept.
        let _ = self.inner.news.send(event);
    }
}

/// A `tracing` layer that stores the engine's events in an [`EventRing`].
#[derive(Debug)]
pub struct EventLayer(EventRing);

impl<S: Subscriber> Layer<S> for EventLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let meta = event.metadata();
        if !meta.target().starts_with("transfix") || *meta.level() > Level::INFO {
            return;
        }
        self.0.add(ShownEvent::of(event));
    }
}

#[derive(Default)]
struct Found {
    text: String,
    session: Option<String>,
    fields: Map<String, Value>,
}

impl Found {
    fn take(&mut self, field: &Field, mut value: String) {
        if value.len() > VALUE_MAX {
            let end = (0..=VALUE_MAX).rev().find(|at| value.is_char_boundary(*at));
            value.truncate(end.unwrap_or(0));
            value.push('…');
        }
        match field.name() {
            "message" => self.text = value,
            "session" => self.session = Some(value),
            name => _ = self.fields.insert(name.to_owned(), value.into()),
        }
    }
}

impl Visit for Found {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.take(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value.to_owned());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.insert(field.name().to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn the_last_events_are_kept() {
        let ring = EventRing::default();
        let subscriber = tracing_subscriber::registry().with(ring.layer());
        tracing::subscriber::with_default(subscriber, || {
            for n in 0..KEPT as u64 + 10 {
                let session = if n % 2 == 0 { "s0" } else { "s1" };
                tracing::info!(target: "transfix::x", session, n, "told");
            }
            tracing::warn!(target: "elsewhere", "not ours");
            tracing::debug!(target: "transfix::x", "too little");
        });
        let all = ring.after(0, None, usize::MAX);
        assert_eq!((all.len(), all[0].n), (KEPT, 11));
        let last = ring.after(0, Some("s1"), 3);
        let told: Vec<_> = last.iter().map(|one| one.fields["n"].as_u64().unwrap()).collect();
        assert_eq!(told, [2_005, 2_007, 2_009]);
        assert_eq!((&*last[0].text, last[0].level), ("told", "INFO"));
        assert!(ring.after(KEPT as u64 + 10, None, 9).is_empty());
        assert_eq!(last[0].code, None, "no event of the engine");
    }

    #[test]
    fn events_of_the_engine_have_their_codes() {
        let ring = EventRing::default();
        let subscriber = tracing_subscriber::registry().with(ring.layer());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "transfix::x", event_code = 2001_u16, "logged on");
            tracing::warn!(target: "transfix::x", event_code = 2024_u16, "Reject(3) of our D");
        });
        let all = ring.after(0, None, 9);
        let codes: Vec<_> = all.iter().map(|one| one.code).collect();
        assert_eq!(codes, [Some(2001), Some(2024)]);
        assert!(all.iter().all(|one| !one.fields.contains_key("event_code")));
    }
}
