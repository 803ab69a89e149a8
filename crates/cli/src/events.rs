//! Events of the engine on standard error, through a queue: whoever does not read them holds up
//! nobody.
//!
//! Invariant: a thread of the engine never waits for standard error; what finds no room in the
//! queue is counted, and the count is a line as soon as there is room again.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use transfix::EventCode;
use transfix_admin::{EventRing, ShownEvent};

/// Lines that may wait for a reader.
const LINES_MAX: usize = 4_096;

/// Whether what the counterparty rejects is an event like others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejects {
    /// It is written.
    Shown,
    /// It is not: the program shows it itself.
    Elsewhere,
}

/// How events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// Lines for people, with the code of the event at the end.
    #[default]
    Text,
    /// An object of JSON in each line.
    Json,
}

/// A line as `tracing` writes it, with the code of the event at its end.
struct Coded(Format<Full, SystemTime>);

impl<S, N> FormatEvent<S, N> for Coded
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        let mut found = Found::default();
        event.record(&mut found);
        match EventCode::of(&found.message) {
            Some(EventCode { code, .. }) => {
                writeln!(writer, "{} event_code={code}", line.trim_end())
            }
            // It has it among its fields, or is none of the engine.
            None => writer.write_str(&line),
        }
    }
}

/// Events as JSON.
struct Json {
    counted: Counted,
}

impl<S: Subscriber> Layer<S> for Json {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if let Ok(mut line) = serde_json::to_vec(&ShownEvent::of(event)) {
            line.push(b'\n');
            // What finds no room is counted.
            let _ = self.counted.make_writer().write_all(&line);
        }
    }
}

/// The last events, for the console, if the program has one.
static RING: OnceLock<EventRing> = OnceLock::new();

/// Keeps the last events from the beginning on. Called before [`show`].
pub(crate) fn keep() {
    let _ = RING.set(EventRing::default());
}

/// The last events, if they are kept.
pub(crate) fn kept() -> EventRing {
    RING.get().cloned().unwrap_or_default()
}

/// Writes events of this level and graver ones, until what it returns is dropped: then what waits
/// is written, as far as somebody reads it.
pub(crate) fn show(level: Level, rejects: Rejects, form: Form) -> WorkerGuard {
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES_MAX);
    let (queue, guard) = builder.thread_name("events").finish(io::stderr());
    let counted = Counted { dropped: queue.error_counter(), queue, told: AtomicUsize::new(0) };
    let lines = match form {
        Form::Json => Json { counted }.boxed(),
        Form::Text => {
            let colored = io::stderr().is_terminal();
            let lines = tracing_subscriber::fmt::layer().with_writer(counted).with_ansi(colored);
            lines.event_format(Coded(Format::default().with_ansi(colored))).boxed()
        }
    };
    let lines = lines.with_filter(LevelFilter::from_level(level));
    // What an operator sees in the console has a level of its own.
    let ring = RING.get().map(|ring| ring.layer().with_filter(LevelFilter::INFO));
    let registry = tracing_subscriber::registry().with(Watcher { rejects });
    registry.with(lines).with(ring).init();
    guard
}

/// Of each destination, by its name: why the last attempt to connect failed that the engine has
/// told of.
static FAILURES: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Why no connection to this destination could be made, as far as the engine has told.
pub(crate) fn connection_failure(destination: &str) -> Option<String> {
    let failures = FAILURES.lock().unwrap_or_else(PoisonError::into_inner);
    // Behind the address stands which of several it is.
    let is_its = |name: &str| name.split(' ').next() == Some(destination);
    failures.iter().find(|(name, _)| is_its(name)).map(|(_, error)| error.clone())
}

/// What broke the last connection that broke.
static BREAK: Mutex<Option<String>> = Mutex::new(None);

/// What broke a connection, as far as the engine has told.
pub(crate) fn connection_break() -> Option<String> {
    BREAK.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Keeps the last failure to connect, what broke the last connection, and the rejects of the
/// counterparty from being told twice.
struct Watcher {
    rejects: Rejects,
}

impl<S: Subscriber> Layer<S> for Watcher {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        if self.rejects == Rejects::Shown {
            return true;
        }
        let mut found = Found::default();
        event.record(&mut found);
        let names = ["Reject(3) of our ", "BusinessMessageReject(j) of our "];
        !names.iter().any(|name| found.message.starts_with(name))
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut found = Found::default();
        event.record(&mut found);
        match found.message.as_str() {
            "connection failed" => {
                let mut failures = FAILURES.lock().unwrap_or_else(PoisonError::into_inner);
                failures.insert(found.destination, found.error);
            }
            "the connection broke" => {
                *BREAK.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.error);
            }
            _ => {}
        }
    }
}

/// What an event says.
#[derive(Default)]
struct Found {
    message: String,
    error: String,
    destination: String,
}

impl Visit for Found {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "error" => self.error = format!("{value:?}"),
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "destination" {
            value.clone_into(&mut self.destination);
        } else {
            self.record_debug(field, &format_args!("{value}"));
        }
    }
}

/// The queue, and how many of the lines that found no room in it were told.
struct Counted {
    queue: NonBlocking,
    dropped: ErrorCounter,
    told: AtomicUsize,
}

impl MakeWriter<'_> for Counted {
    type Writer = NonBlocking;

    fn make_writer(&self) -> NonBlocking {
        let dropped = self.dropped.dropped_lines();
        let told = self.told.swap(dropped, Ordering::Relaxed);
        if dropped > told {
            let lines = dropped - told;
            // Without room it is one more line that is dropped.
            let text = format!("{lines} lines of events were dropped: nobody read them in time\n");
            let _ = self.queue.clone().write(text.as_bytes());
        }
        self.queue.clone()
    }
}
