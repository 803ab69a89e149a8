//! A queue of lines for one destination, with its own writing thread.
//!
//! Invariants: the logging thread never waits for the destination. Lines that find the queue full
//! are dropped and counted, and a later line reports their number. After a failure the destination
//! is retried, while lines wait in the queue.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use transfix::clock;

/// Maximum number of lines in the queue.
pub(super) const LINES_MAX: usize = 4_096;
/// Maximum total size of the lines in the queue, in bytes.
const BYTES_MAX: usize = 8 << 20;
/// Interval between maintenance calls, and between retries while a destination fails.
const LOOK: Duration = Duration::from_secs(1);
/// Minimum time between two reports about a failing destination, in nanoseconds.
const TELL_EVERY_NS: u64 = 60_000_000_000;
/// Maximum time to write the remaining lines at the end of the program.
const LAST_LINES: Duration = Duration::from_secs(5);
/// Maximum time to wait until a new file has begun.
const ROLL_WAIT: Duration = Duration::from_secs(10);

/// A receiver of lines, such as a file or a socket.
pub(super) trait Destination: Send {
    /// Writes one line. After an error, the next call passes the same line again.
    fn write(&mut self, line: &[u8]) -> io::Result<()>;

    /// Returns a line that reports the number of lost lines.
    fn missing(&self, lines: u64) -> Vec<u8>;

    /// Performs maintenance. Called before lines are written, and at least every second.
    fn look_after(&mut self) {}

    /// Begins a new file unless the current file is empty. Returns true if a new file was begun.
    fn roll(&mut self) -> io::Result<bool> {
        Ok(false)
    }
}

/// Lines and requests for the writing thread.
#[derive(Default)]
struct State {
    lines: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// Number of dropped lines that have not been reported to the destination.
    dropped: u64,
    rolls: Vec<SyncSender<io::Result<bool>>>,
    ends: bool,
}

/// Lines that wait to be written to a destination.
pub(super) struct Queue {
    /// Name of the destination in failure reports.
    name: String,
    state: Mutex<State>,
    bell: Condvar,
}

/// A queue and its running thread.
pub(super) struct Running {
    queue: Arc<Queue>,
    ended: Receiver<()>,
}

impl Queue {
    /// Starts the thread that writes the lines to the destination.
    pub(super) fn start(name: String, to: Box<dyn Destination>) -> io::Result<Running> {
        let queue = Arc::new(Self { name, state: Mutex::default(), bell: Condvar::new() });
        let (end, ended) = sync_channel(1);
        let of_thread = Arc::clone(&queue);
        let run = move || {
            Writer { queue: of_thread, to, failing: false, told_ns: None }.run();
            let _ = end.try_send(());
        };
        thread::Builder::new().name("events-out".to_owned()).spawn(run)?;
        Ok(Running { queue, ended })
    }

    /// Adds a line, or counts the line as dropped if the queue is full.
    pub(super) fn push(&self, line: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.lines.len() >= LINES_MAX || state.bytes + line.len() > BYTES_MAX {
            state.dropped += 1;
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line.into());
        drop(state);
        self.bell.notify_one();
    }

    /// Waits until there are lines or requests, for at most [`LOOK`]. While the destination fails,
    /// new lines do not end the wait.
    fn wait(&self, failing: bool) -> State {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |state: &mut State| {
            (failing || state.lines.is_empty()) && state.rolls.is_empty() && !state.ends
        };
        let waited = self.bell.wait_timeout_while(state, LOOK, idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let ends = state.ends;
        State { ends, ..std::mem::take(&mut *state) }
    }

    /// Puts unwritten lines back at the front of the queue.
    fn put_back(&self, mut lines: VecDeque<Box<[u8]>>, dropped: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        lines.append(&mut state.lines);
        let beyond = lines.len().saturating_sub(LINES_MAX);
        lines.truncate(LINES_MAX);
        state.bytes = lines.iter().map(|line| line.len()).sum();
        state.lines = lines;
        state.dropped += dropped + beyond as u64;
    }
}

impl Running {
    /// Returns the queue to which lines are added.
    pub(super) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }

    /// Requests a new file and waits for the result. Returns true if a new file was begun.
    pub(super) fn roll(&self) -> Result<bool, String> {
        let (to, rolled) = sync_channel(1);
        self.queue.state.lock().unwrap_or_else(PoisonError::into_inner).rolls.push(to);
        self.queue.bell.notify_one();
        match rolled.recv_timeout(ROLL_WAIT) {
            Ok(rolled) => rolled.map_err(|error| format!("{}: {error}", self.queue.name)),
            Err(_) => Err(format!("{}: it takes longer", self.queue.name)),
        }
    }

    /// Writes the lines in the queue and ends the thread, within a time limit.
    pub(super) fn end(self) {
        self.queue.state.lock().unwrap_or_else(PoisonError::into_inner).ends = true;
        self.queue.bell.notify_one();
        if self.ended.recv_timeout(LAST_LINES).is_err() {
            eprintln!("transfix: {}: the last events were not written in time", self.queue.name);
        }
    }
}

/// State of the writing thread.
struct Writer {
    queue: Arc<Queue>,
    to: Box<dyn Destination>,
    failing: bool,
    /// Time of the last report about a failure, in monotonic nanoseconds.
    told_ns: Option<u64>,
}

impl Writer {
    fn run(mut self) {
        loop {
            let State { mut lines, mut dropped, rolls, ends, .. } = self.queue.wait(self.failing);
            self.to.look_after();
            match self.write(&mut lines, &mut dropped) {
                Ok(is_any) => self.succeeded(is_any),
                Err(error) => self.failed(&error),
            }
            if !rolls.is_empty() {
                let rolled = self.to.roll();
                for to in rolls {
                    let rolled = match &rolled {
                        Ok(is_new) => Ok(*is_new),
                        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
                    };
                    // The send fails if the requester has stopped waiting, which does no harm.
                    let _ = to.try_send(rolled);
                }
            }
            let left = lines.len() as u64 + dropped;
            self.queue.put_back(lines, dropped);
            if ends {
                if left > 0 {
                    eprintln!("transfix: {}: {left} events could not be written", self.queue.name);
                }
                return;
            }
        }
    }

    /// Writes lines until the queue is empty or a write fails. Returns true if any line was
    /// written.
    fn write(&mut self, lines: &mut VecDeque<Box<[u8]>>, dropped: &mut u64) -> io::Result<bool> {
        let mut is_any = false;
        while let Some(line) = lines.front() {
            self.to.write(line)?;
            lines.pop_front();
            is_any = true;
        }
        // The count follows the waiting lines, because the dropped lines arrived after them.
        if *dropped > 0 {
            self.to.write(&self.to.missing(*dropped))?;
            *dropped = 0;
        }
        Ok(is_any)
    }

    fn succeeded(&mut self, is_any: bool) {
        if is_any && std::mem::take(&mut self.failing) && self.is_told() {
            let to = &*self.queue.name;
            tracing::warn!(to, "events can be written again");
        }
    }

    fn failed(&mut self, error: &io::Error) {
        if std::mem::replace(&mut self.failing, true) || self.is_told() {
            return;
        }
        self.told_ns = Some(clock::monotonic_ns());
        let to = &*self.queue.name;
        tracing::error!(to, %error, "events cannot be written; the program retries, and keeps at \
                                     most {LINES_MAX} events meanwhile");
    }

    /// Returns true if a failure was reported within the last minute.
    fn is_told(&self) -> bool {
        self.told_ns.is_some_and(|at| clock::monotonic_ns() - at < TELL_EVERY_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A destination that accepts lines only while its flag is true.
    struct Door(Arc<Mutex<(bool, Vec<String>)>>);

    impl Destination for Door {
        fn write(&mut self, line: &[u8]) -> io::Result<()> {
            let mut inner = self.0.lock().unwrap();
            if !inner.0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            inner.1.push(String::from_utf8(line.to_vec()).unwrap());
            Ok(())
        }

        fn missing(&self, lines: u64) -> Vec<u8> {
            format!("{lines} missing").into_bytes()
        }
    }

    #[test]
    fn what_waits_is_kept_in_order_and_what_has_no_room_is_counted() {
        let inner = Arc::new(Mutex::new((false, Vec::new())));
        let running = Queue::start("test".to_owned(), Box::new(Door(Arc::clone(&inner)))).unwrap();
        let queue = running.queue();
        let all = LINES_MAX + 10;
        (0..all).for_each(|n| queue.push(n.to_string().as_bytes()));
        inner.lock().unwrap().0 = true;
        running.end();
        let written = std::mem::take(&mut inner.lock().unwrap().1);
        let missing = written.last().unwrap().strip_suffix(" missing");
        let missing: usize = missing.map_or(0, |count| count.parse().unwrap());
        // The thread may have taken some lines before the queue was full, so fewer than 10 lines
        // may be missing.
        assert!(missing <= 10 && (missing > 0 || written.len() == all), "{missing}");
        let lines = written.iter().filter_map(|line| line.parse::<usize>().ok());
        assert!(lines.eq(0..all - missing), "the oldest ones, in order");
    }
}
