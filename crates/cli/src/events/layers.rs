//! Tracing layers that select events and write each event as a line.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::fmt::writer::MakeWriterExt as _;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::{Context, Filter, Layer};
use tracing_subscriber::registry::LookupSpan;
use transfix::EventCode;
use transfix_admin::{EventFilter, ShownEvent};

use super::encoded::one_line;
use super::queue::Queue;
use super::{EventFields, Rejects};

/// A tracing layer of any type.
pub(super) type BoxedLayer<S> = Box<dyn Layer<S> + Send + Sync>;

/// Filter of a destination. An event passes if the program's filter allows the event and its level
/// is at most `finest`.
pub(super) struct Allowed {
    pub(super) filter: EventFilter,
    pub(super) finest: LevelFilter,
    pub(super) rejects: Rejects,
}

impl Allowed {
    fn lets_through(&self, meta: &Metadata<'_>) -> bool {
        *meta.level() <= self.finest && self.filter.lets_through(meta)
    }
}

impl<S> Filter<S> for Allowed {
    fn enabled(&self, meta: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.lets_through(meta)
    }

    fn callsite_enabled(&self, meta: &'static Metadata<'static>) -> Interest {
        if self.lets_through(meta) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.finest.min(self.filter.finest()))
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        if self.rejects == Rejects::Shown {
            return true;
        }
        let mut found = EventFields::default();
        event.record(&mut found);
        found.code != Some(EventCode::RejectedByCounterparty)
    }
}

/// Line format of `tracing`, except that line breaks in values are escaped.
pub(super) struct EscapedFormat {
    format: Format<Full, SystemTime>,
    colored: bool,
}

impl EscapedFormat {
    pub(super) fn new(colored: bool) -> Self {
        Self { format: Format::default().with_ansi(colored), colored }
    }
}

impl<S, N> FormatEvent<S, N> for EscapedFormat
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
        self.format.format_event(context, Writer::new(&mut line), event)?;
        match line.trim_end() {
            // A colored line is not escaped as a whole, because that would escape its color codes.
            line if self.colored => writeln!(writer, "{line}"),
            line => writeln!(writer, "{}", one_line(line)),
        }
    }
}

/// A tracing layer that encodes events and adds them to a queue.
pub(super) struct Encoded<E> {
    queue: Arc<Queue>,
    finest: LevelFilter,
    encode: E,
}

impl<E> Encoded<E> {
    pub(super) const fn new(queue: Arc<Queue>, finest: LevelFilter, encode: E) -> Self {
        Self { queue, finest, encode }
    }
}

impl<S: Subscriber, E: Fn(&ShownEvent) -> Vec<u8> + 'static> Layer<S> for Encoded<E> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() <= self.finest {
            self.queue.push(&(self.encode)(&ShownEvent::of(event)));
        }
    }
}

/// A writer that adds lines of text to the queue of a file.
#[derive(Clone)]
pub(super) struct FileLines(Arc<Queue>);

impl FileLines {
    pub(super) fn layer<S>(queue: Arc<Queue>, finest: LevelFilter) -> BoxedLayer<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let finest = finest.into_level().unwrap_or(Level::ERROR);
        let lines = Self(queue).with_max_level(finest);
        let layer = tracing_subscriber::fmt::layer().with_writer(lines).with_ansi(false);
        layer.event_format(EscapedFormat::new(false)).boxed()
    }
}

impl MakeWriter<'_> for FileLines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Write for FileLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
