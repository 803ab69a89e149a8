//! Events of the engine on standard error, through a queue: whoever does not read them holds up
//! nobody.
//!
//! Invariant: a thread of the engine never waits for standard error; what finds no room in the
//! queue is counted, and the count is a line as soon as there is room again.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::Level;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait for a reader.
const LINES_MAX: usize = 4_096;

/// Writes events of this level and graver ones, until what it returns is dropped: then what waits
/// is written, as far as somebody reads it.
pub(crate) fn show(level: Level) -> WorkerGuard {
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES_MAX);
    let (queue, guard) = builder.thread_name("events").finish(io::stderr());
    let counted = Counted { dropped: queue.error_counter(), queue, told: AtomicUsize::new(0) };
    let colored = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_writer(counted).with_ansi(colored).with_max_level(level).init();
    guard
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
