//! Events of the engine: on standard error, in a file, in syslog and journald, each behind a queue,
//! so that whoever does not read them holds up nobody.
//!
//! Invariant: a thread of the engine never waits for a destination. A full queue counts the lines
//! that it drops, and writes the count as a line once it has room again.

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

/// Selects if standard error shows the event of a message that the counterparty rejects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rejects {
    /// It is written.
    #[default]
    Shown,
    /// It is not: the program shows it itself.
    Elsewhere,
}

/// How events are written on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// Lines for people, with the code of the event at the end.
    Text,
    /// An object of JSON in each line.
    Json,
}

/// Options of the command line for standard error.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OnStderr {
    /// Everything, not only warnings.
    pub(crate) is_verbose: bool,
    pub(crate) rejects: Rejects,
    pub(crate) form: Option<Form>,
}

static ON_STDERR: OnceLock<OnStderr> = OnceLock::new();

/// Notes what the command line says. Called before [`open`].
pub(crate) fn note(on_stderr: OnStderr) {
    let _ = ON_STDERR.set(on_stderr);
}

/// The last events, for the console, if the program has one.
static RING: OnceLock<EventRing> = OnceLock::new();

/// Keeps the last events from the beginning on. Called before [`open`].
pub(crate) fn keep() {
    let _ = RING.set(EventRing::default());
}

/// The last events, if they are kept.
pub(crate) fn kept() -> EventRing {
    RING.get().cloned().unwrap_or_default()
}

/// Which events there are, once [`open`] has been called.
static FILTER: OnceLock<EventFilter> = OnceLock::new();

/// Which events there are.
pub(crate) fn filter() -> Option<EventFilter> {
    FILTER.get().cloned()
}

/// Destinations and guards that end with the program.
struct Open {
    all: Vec<Running>,
    /// The guard of standard error.
    _stderr: WorkerGuard,
    /// The receiver of SIGUSR1, until a thread takes it.
    signals: Option<Signals>,
}

static OPEN: Mutex<Option<Open>> = Mutex::new(None);

/// Writes events from now on, to where the settings say; to standard error without any.
///
/// # Errors
/// A file cannot be opened, with its name.
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
    // The console of the operator has a level of its own.
    let ring = RING.get().map(|ring| ring.layer().with_filter(LevelFilter::INFO));
    tracing_subscriber::registry().with(Watcher).with(others).with(stderr).with(ring).init();
    let _ = FILTER.set(filter);
    // From now on it ends the program no more.
    let signals = RING.get().and_then(|_| Signals::new([SIGUSR1]).ok());
    *opened() = Some(Open { all, _stderr: guard, signals });
    Ok(())
}

/// The subscriber below the layers.
type Base = Layered<Watcher, Registry>;

/// Destinations beside standard error, as they are opened.
struct Opening {
    all: Vec<Running>,
    layers: Vec<BoxedLayer<Base>>,
    /// The finest level that any of them takes.
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

/// Those of the settings, which have been checked.
fn levels_of(settings: &EventSettings) -> EventLevels {
    let of_others = EventLevel::Info;
    settings.levels.parse().unwrap_or(EventLevels { of_others, of_parts: Vec::new() })
}

/// The settings have been read again: their levels count. Returns whether an operator's did before.
pub(crate) fn reload(settings: Option<&EventSettings>) -> bool {
    let Some(filter) = FILTER.get() else { return false };
    let was_set = filter.is_set();
    filter.reload(levels_of(settings.unwrap_or(&EventSettings::default())));
    was_set
}

/// Begins a new file. Returns what was rolled.
pub(crate) fn rotate() -> Result<String, String> {
    let mut count = 0;
    for running in opened().iter().flat_map(|open| &open.all) {
        count += usize::from(running.roll()?);
    }
    Ok(match count {
        1 => "the file of events".to_owned(),
        _ => "no file of events".to_owned(),
    })
}

/// Rolls the file of events with the logs of this engine, and all of them on SIGUSR1.
pub(crate) fn rotate_with(admin: &Admin) {
    admin.rotate_also(rotate);
    let Some(mut signals) = opened().as_mut().and_then(|open| open.signals.take()) else { return };
    let admin = admin.clone();
    let listen = move || {
        for _ in signals.forever() {
            // The log says how it went.
            drop(admin.rotate_logs(&Actor::new("signal", "SIGUSR1")));
        }
    };
    if let Err(error) = thread::Builder::new().name("rotate".to_owned()).spawn(listen) {
        tracing::warn!(%error, "SIGUSR1 rotates no logs");
    }
}

/// Writes what waits, as far as somebody takes it. Called before the process ends.
pub(crate) fn finish() {
    // Not while others wait for the lock: what they tell is written too.
    let open = opened().take();
    let Some(Open { all, .. }) = open else { return };
    all.into_iter().for_each(Running::end);
}

/// Reasons of the last failed connection attempts that the engine reported, by the name of the
/// destination.
static FAILURES: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// Why no connection to this destination could be made, as far as the engine has told since the
/// last call of [`forget_connection_failure`].
pub(crate) fn connection_failure(destination: &str) -> Option<String> {
    let failures = FAILURES.lock().unwrap_or_else(PoisonError::into_inner);
    failures.iter().find(|(name, _)| is_of(name, destination)).map(|(_, error)| error.clone())
}

/// A connection to this destination came about: what failed before is past.
pub(crate) fn forget_connection_failure(destination: &str) {
    let mut failures = FAILURES.lock().unwrap_or_else(PoisonError::into_inner);
    failures.retain(|name, _| !is_of(name, destination));
}

/// Returns true if an event names this destination. Behind the address stands which of several it
/// is.
fn is_of(name: &str, destination: &str) -> bool {
    name.split(' ').next() == Some(destination)
}

/// The reason why the last broken connection broke.
static BREAK: Mutex<Option<String>> = Mutex::new(None);

/// Takes the reason of a broken connection that the engine reported since the last call.
pub(crate) fn take_connection_break() -> Option<String> {
    BREAK.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Keeps the last failure to connect, and what broke the last connection.
struct Watcher;

impl<S: Subscriber> Layer<S> for Watcher {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut found = Found::default();
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

/// The fields of an event that the command line uses.
#[derive(Default)]
struct Found {
    code: Option<EventCode>,
    error: String,
    destination: String,
}

impl Visit for Found {
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
