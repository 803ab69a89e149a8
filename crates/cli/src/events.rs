//! Writes events of the engine to standard error, a file, syslog and journald. Each destination has
//! its own queue, so that a slow destination does not block the others.
//!
//! Invariant: an engine thread never waits for a destination. If a queue is full, lines are dropped
//! and counted; a line with the count follows when space is free again.

mod encoded;
mod file;
mod layers;
mod queue;
mod socket;
mod stderr;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use rustix::system::uname;
use signal_hook::consts::SIGUSR1;
use signal_hook::iterator::Signals;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, Layered, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use transfix::{Actor, Admin, EventCode, EventForm, EventLevel, EventLevels, EventSettings};
use transfix_admin::{EventFilter, EventRing, ShownEvent};

use encoded::Sender;
use file::RollingFile;
use layers::{Allowed, BoxedLayer, Encoded, FileLines};
use queue::{Destination, Queue, Running};
use socket::{Datagrams, Receiver};

/// Choice whether events about messages that the counterparty rejects are written to standard
/// error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rejects {
    /// The event is written.
    #[default]
    Shown,
    /// The event is suppressed, because the program prints the reject itself.
    Elsewhere,
}

/// Format of events on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// Readable lines, with the event code at the end.
    Text,
    /// One JSON object in each line.
    Json,
}

/// Command-line options for the events on standard error.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OnStderr {
    /// True writes events of all levels; false applies `stderr_level` from the settings.
    pub(crate) is_verbose: bool,
    pub(crate) rejects: Rejects,
    pub(crate) form: Option<Form>,
}

static ON_STDERR: OnceLock<OnStderr> = OnceLock::new();

/// Stores the command-line options. Must be called before [`open`].
pub(crate) fn note(on_stderr: OnStderr) {
    let _ = ON_STDERR.set(on_stderr);
}

/// The latest events, for the operator's console. Set only in programs that have a console.
static RING: OnceLock<EventRing> = OnceLock::new();

/// Starts to keep the latest events for the operator's console. Must be called before [`open`].
pub(crate) fn keep() {
    let _ = RING.set(EventRing::default());
}

/// Returns the latest events, or an empty ring if [`keep`] was not called.
pub(crate) fn kept() -> EventRing {
    RING.get().cloned().unwrap_or_default()
}

/// Level filter of all destinations, set by [`open`].
static FILTER: OnceLock<EventFilter> = OnceLock::new();

/// Returns the level filter, or `None` before [`open`].
pub(crate) fn filter() -> Option<EventFilter> {
    FILTER.get().cloned()
}

/// Destinations and guards that [`finish`] closes at the end of the program.
struct Open {
    all: Vec<Running>,
    /// Writes the remaining lines to standard error when dropped.
    _stderr: WorkerGuard,
    /// Receiver of SIGUSR1; `None` after the thread for log rotation has taken the receiver.
    signals: Option<Signals>,
}

static OPEN: Mutex<Option<Open>> = Mutex::new(None);

/// Starts to write events to the destinations of the settings. Without settings, events go to
/// standard error.
///
/// # Errors
/// Returns an error with the file's name if a file cannot be opened.
pub(crate) fn open(settings: Option<&EventSettings>) -> Result<(), String> {
    let of_program = EventSettings::default();
    let settings = settings.unwrap_or(&of_program);
    let said = ON_STDERR.get().copied().unwrap_or_default();
    let filter = EventFilter::new(levels_of(settings));
    let Opening { all, layers, finest } = Opening::of(settings)?;
    let (finest, rejects) = (finest.into(), Rejects::Shown);
    let others = layers.with_filter(Allowed { filter: filter.clone(), finest, rejects });
    let (stderr, guard) = stderr::layer(said.form.unwrap_or(match settings.stderr_form {
        EventForm::Text => Form::Text,
        EventForm::Json => Form::Json,
    }));
    let finest = if said.is_verbose { EventLevel::Trace } else { settings.stderr_level };
    let (finest, rejects) = (finest.into(), said.rejects);
    let stderr = stderr.with_filter(Allowed { filter: filter.clone(), finest, rejects });
    // The operator's console always shows events of level INFO and above.
    let ring = RING.get().map(|ring| ring.layer().with_filter(LevelFilter::INFO));
    tracing_subscriber::registry().with(Watcher).with(others).with(stderr).with(ring).init();
    let _ = FILTER.set(filter);
    // From here on, SIGUSR1 is received for log rotation and no longer ends the program.
    let signals = RING.get().and_then(|_| Signals::new([SIGUSR1]).ok());
    *opened() = Some(Open { all, _stderr: guard, signals });
    Ok(())
}

/// Type of the subscriber on which the destinations' layers are stacked.
type Base = Layered<Watcher, Registry>;

/// Destinations other than standard error, while `open` opens them.
struct Opening {
    all: Vec<Running>,
    layers: Vec<BoxedLayer<Base>>,
    /// Most verbose level of these destinations.
    finest: EventLevel,
}

impl Opening {
    fn of(settings: &EventSettings) -> Result<Self, String> {
        let mut this = Self { all: Vec::new(), layers: Vec::new(), finest: EventLevel::Off };
        if !settings.file.as_os_str().is_empty() && settings.file_level > EventLevel::Off {
            this.file(settings)?;
        }
        let host = uname().nodename().to_string_lossy().into_owned();
        let sender = || Sender { facility: settings.syslog_facility, host: host.clone() };
        if !settings.syslog.is_empty() && settings.syslog_level > EventLevel::Off {
            let at = match settings.syslog.strip_prefix("udp://") {
                Some(address) => Receiver::Udp(address.to_owned()),
                None => Receiver::Path((&settings.syslog).into()),
            };
            let name = format!("syslog at {}", settings.syslog);
            let datagrams = Datagrams::new(at, sender(), Sender::line);
            let queue = this.add(settings.syslog_level, name, Box::new(datagrams))?;
            let (level, sender) = (settings.syslog_level.into(), sender());
            let encode = move |event: &ShownEvent| sender.line(event);
            this.layers.push(Encoded::new(queue, level, encode).boxed());
        }
        if !settings.journald.as_os_str().is_empty() && settings.journald_level > EventLevel::Off {
            let at = Receiver::Path(settings.journald.clone());
            let encode = |_: &Sender, event: &ShownEvent| encoded::journald(event);
            let name = format!("journald at {}", settings.journald.display());
            let datagrams = Datagrams::new(at, sender(), encode);
            let queue = this.add(settings.journald_level, name, Box::new(datagrams))?;
            let level = settings.journald_level.into();
            this.layers.push(Encoded::new(queue, level, encoded::journald).boxed());
        }
        Ok(this)
    }

    fn file(&mut self, settings: &EventSettings) -> Result<(), String> {
        let name = settings.file.display().to_string();
        let file = RollingFile::open(settings);
        let file = file.map_err(|error| format!("[events]: file {name}: {error}"))?;
        let queue = self.add(settings.file_level, name, Box::new(file))?;
        let level = settings.file_level.into();
        self.layers.push(match settings.file_form {
            EventForm::Text => FileLines::layer(queue, level),
            EventForm::Json => Encoded::new(queue, level, encoded::json_line).boxed(),
        });
        Ok(())
    }

    fn add(
        &mut self,
        level: EventLevel,
        name: String,
        to: Box<dyn Destination>,
    ) -> Result<Arc<Queue>, String> {
        self.finest = self.finest.max(level);
        let running = Queue::start(name, to).map_err(|error| format!("events: {error}"))?;
        let queue = running.queue();
        self.all.push(running);
        Ok(queue)
    }
}

fn opened() -> MutexGuard<'static, Option<Open>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the levels of the settings. Invalid levels have been rejected earlier.
fn levels_of(settings: &EventSettings) -> EventLevels {
    let of_others = EventLevel::Info;
    settings.levels.parse().unwrap_or(EventLevels { of_others, of_parts: Vec::new() })
}

/// Applies the levels of reloaded settings. Returns true if the reload replaced levels that an
/// operator had set.
pub(crate) fn reload(settings: Option<&EventSettings>) -> bool {
    let Some(filter) = FILTER.get() else { return false };
    let was_set = filter.is_set();
    filter.reload(levels_of(settings.unwrap_or(&EventSettings::default())));
    was_set
}

/// Begins a new event file. Returns a description of the files that were rotated.
pub(crate) fn rotate() -> Result<String, String> {
    let mut count = 0;
    for running in opened().iter().flat_map(|open| &open.all) {
        count += usize::from(running.roll()?);
    }
    Ok(match count {
        1 => "the event file".to_owned(),
        _ => "no event file".to_owned(),
    })
}

/// Registers the event file with `admin` for log rotation, and starts a thread that rotates all
/// logs on SIGUSR1.
pub(crate) fn rotate_with(admin: &Admin) {
    admin.rotate_also(rotate);
    let Some(mut signals) = opened().as_mut().and_then(|open| open.signals.take()) else { return };
    let admin = admin.clone();
    let listen = move || {
        for _ in signals.forever() {
            // The result is dropped, because the rotation logs it.
            drop(admin.rotate_logs(&Actor::new("signal", "SIGUSR1")));
        }
    };
    if let Err(error) = thread::Builder::new().name("rotate".to_owned()).spawn(listen) {
        tracing::warn!(%error, "the program cannot rotate its logs on SIGUSR1");
    }
}

/// Writes the events that are still queued, within a time limit. Must be called before the process
/// ends.
pub(crate) fn finish() {
    // The lock is released before the wait, because other threads may still log events.
    let open = opened().take();
    let Some(Open { all, .. }) = open else { return };
    all.into_iter().for_each(Running::end);
}

/// Error of the last failed connection attempt to each destination.
static FAILURES: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Returns the error of the last failed connection attempt to this destination since
/// [`forget_connection_failure`].
pub(crate) fn connection_failure(destination: &str) -> Option<String> {
    let failures = FAILURES.lock().unwrap_or_else(PoisonError::into_inner);
    failures.iter().find(|(name, _)| is_of(name, destination)).map(|(_, error)| error.clone())
}

/// Clears the stored error of a destination after a successful connection.
pub(crate) fn forget_connection_failure(destination: &str) {
    let mut failures = FAILURES.lock().unwrap_or_else(PoisonError::into_inner);
    failures.retain(|name, _| !is_of(name, destination));
}

/// Returns true if `name`, the destination in an event, is this destination. With several
/// destinations, a number follows the address in `name`.
fn is_of(name: &str, destination: &str) -> bool {
    name.split(' ').next() == Some(destination)
}

/// Error that ended the last broken connection.
static BREAK: Mutex<Option<String>> = Mutex::new(None);

/// Returns and clears the error of the last broken connection.
pub(crate) fn take_connection_break() -> Option<String> {
    BREAK.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A tracing layer that stores the latest connection errors.
struct Watcher;

impl<S: Subscriber> Layer<S> for Watcher {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut found = EventFields::default();
        event.record(&mut found);
        match found.code {
            Some(EventCode::ConnectionFailed) => {
                let mut failures = FAILURES.lock().unwrap_or_else(PoisonError::into_inner);
                failures.insert(found.destination, found.error);
            }
            Some(EventCode::ConnectionBroke) => {
                *BREAK.lock().unwrap_or_else(PoisonError::into_inner) = Some(found.error);
            }
            _ => {}
        }
    }
}

/// Fields of a connection event that [`Watcher`] stores.
#[derive(Default)]
struct EventFields {
    code: Option<EventCode>,
    error: String,
    destination: String,
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "error" {
            self.error = format!("{value:?}");
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "event_code" {
            self.code = u16::try_from(value).ok().and_then(EventCode::from_u16);
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
