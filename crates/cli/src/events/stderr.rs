//! Writes events to standard error.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::{Event, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;
use transfix_admin::ShownEvent;

use super::Form;
use super::encoded::json_line;
use super::layers::{BoxedLayer, EscapedFormat};

/// Maximum number of lines that wait for the reader of standard error.
const LINES_MAX: usize = 4_096;

/// Returns the layer for standard error. When the guard is dropped, the waiting lines are written,
/// unless the reader has stopped reading.
pub(super) fn layer<S>(form: Form) -> (BoxedLayer<S>, WorkerGuard)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES_MAX);
    let (queue, guard) = builder.thread_name("events").finish(io::stderr());
    let counted = Counted { dropped: queue.error_counter(), queue, told: AtomicUsize::new(0) };
    let lines = match form {
        Form::Json => Json { counted }.boxed(),
        Form::Text => {
            let colored = io::stderr().is_terminal();
            let lines = tracing_subscriber::fmt::layer().with_writer(counted).with_ansi(colored);
            lines.event_format(EscapedFormat::new(colored)).boxed()
        }
    };
    (lines, guard)
}

/// A tracing layer that writes events as JSON.
struct Json {
    counted: Counted,
}

impl<S: Subscriber> Layer<S> for Json {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // The result is ignored, because the writer itself counts a line that finds the queue full.
        let _ = self.counted.make_writer().write_all(&json_line(&ShownEvent::of(event)));
    }
}

/// The queue of standard error, and the number of dropped lines already reported.
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
            // If the queue is still full, this report is dropped too.
            let text = format!(
                "{lines} lines of events were dropped, because the reader of \
                                standard error was too slow\n"
            );
            let _ = self.queue.clone().write(text.as_bytes());
        }
        self.queue.clone()
    }
}
