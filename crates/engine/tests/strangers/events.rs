//! The events of the process, and a subscriber that panics on request.

use std::fmt::{Debug, Write};
use std::sync::{Mutex, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());
static PANIC_IN: Mutex<Option<&str>> = Mutex::new(None);

/// Installs the subscriber; calls after the first have no effect.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Listener).unwrap());
}

/// Returns the events logged since the last call.
pub(crate) fn take() -> Vec<String> {
    std::mem::take(&mut *LINES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Makes the subscriber panic once, at the next event of the thread with this name.
pub(crate) fn panic_in(name: &'static str) {
    *PANIC_IN.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
}

struct Listener;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("transfix")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LINES.lock().unwrap_or_else(PoisonError::into_inner).push(line.0);
        let current = std::thread::current();
        let mut wanted = PANIC_IN.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted.is_some_and(|wanted| current.name() == Some(wanted)) {
            *wanted = None;
            drop(wanted);
            panic!("a listener that panics");
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
