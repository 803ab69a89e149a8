//! Threads that do for stores what must not hold up messages: they make segments, pages of memory
//! and chunks of an index ahead of time.
//! The threads that sync and archive are started by the same means.
//!
//! Invariant: of what waits to be made, the shortest comes first: whoever asks for a
//! short one has little room left.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// How much later than others a thread that makes segments gets a CPU, as `nice` counts.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

thread_local! {
    /// True if this thread makes segments for others.
    static HELPS: Cell<bool> = const { Cell::new(false) };
}

/// A part of a segment is made: one that makes it for others leaves the CPU to who waits for it.
/// Otherwise the system looks after that at its next tick, up to 4 ms later.
pub(crate) fn give_way() {
    if HELPS.get() {
        thread::yield_now();
    }
}

/// Whatever a helper does first, in its own thread.
type Begin = Arc<dyn Fn() + Send + Sync>;

/// The helpers of one store, or of all stores of an engine.
pub struct Helpers {
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    threads_max: usize,
    begin: Begin,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: BinaryHeap<Reverse<Job>>,
    /// So many were asked for.
    asked: u64,
    idle: usize,
    ends: bool,
}

struct Job {
    bytes: usize,
    /// When it was asked for, as a number.
    at: u64,
    run: Box<dyn FnOnce() + Send>,
}

impl Job {
    const fn order(&self) -> (usize, u64) {
        (self.bytes, self.at)
    }
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Job {}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Job {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        loop {
            if state.ends {
                return;
            }
            if let Some(Reverse(job)) = state.jobs.pop() {
                drop(state);
                // A disk of the user's own may panic: the panic has been printed, and whoever needs
                // the segment makes it.
                drop(catch_unwind(AssertUnwindSafe(job.run)));
                state = self.lock();
            } else {
                state.idle += 1;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }
}

impl Helpers {
    /// At most `threads_max` threads make segments. Each helper calls `begin` before all else,
    /// where it may choose its CPUs. A thread has the CPUs of the one that starts it, which may be
    /// pinned to one.
    #[must_use]
    pub fn new(threads_max: usize, begin: impl Fn() + Send + Sync + 'static) -> Self {
        let (queue, threads) = (Arc::default(), Mutex::default());
        Self { queue, threads, threads_max: threads_max.max(1), begin: Arc::new(begin) }
    }

    /// The first step of a helper; also for a thread that is started elsewhere and helps.
    pub fn begin(&self) {
        (self.begin)();
    }

    /// Starts a thread of its own.
    ///
    /// # Errors
    /// If the system has no further one.
    pub(crate) fn spawn(
        &self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let begin = Arc::clone(&self.begin);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            begin();
            run();
        })
    }

    /// Has `run` called, which makes so many bytes of something; never, if there is no thread.
    pub(crate) fn ask(&self, bytes: usize, run: Box<dyn FnOnce() + Send>) {
        let mut state = self.queue.lock();
        let at = state.asked;
        state.asked += 1;
        state.jobs.push(Reverse(Job { bytes, at, run }));
        let is_short_of_threads = state.idle < state.jobs.len();
        drop(state);
        if is_short_of_threads {
            self.start_one_more();
        }
        self.queue.changed.notify_one();
    }

    /// Starts all threads that make segments. Else they start when they are needed, which costs the
    /// thread of a session some 50 µs, and they begin to run where that one may.
    pub fn start(&self) {
        while self.start_one_more() {}
    }

    /// Returns whether there was room for one more, and it runs.
    fn start_one_more(&self) -> bool {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.len() >= self.threads_max {
            return false;
        }
        let queue = Arc::clone(&self.queue);
        // Without one, whoever needs the segment makes it.
        let started = self.spawn("store-segment", move || {
            HELPS.set(true);
            give_precedence();
            queue.run();
        });
        let is_started = started.is_ok();
        threads.extend(started);
        is_started
    }
}

/// A session's thread that wants the same CPU has it ten times as long as this one. Segments are
/// made for the time to come, and a session that is there first makes a short one.
fn give_precedence() {
    // Elsewhere than on Linux it would be the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICE);
}

impl Default for Helpers {
    /// One thread makes segments.
    fn default() -> Self {
        Self::new(1, || ())
    }
}

impl fmt::Debug for Helpers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Helpers").field("threads_max", &self.threads_max).finish_non_exhaustive()
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.queue.lock().ends = true;
        self.queue.changed.notify_all();
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn only_who_makes_segments_for_others_gives_way() {
        let helpers = Helpers::default();
        let (told, heard) = channel();
        let tell = told.clone();
        helpers.ask(1, Box::new(move || tell.send(HELPS.get()).unwrap()));
        assert!(heard.recv().unwrap());
        let thread = helpers.spawn("other", move || told.send(HELPS.get()).unwrap());
        thread.unwrap().join().unwrap();
        assert!(!heard.recv().unwrap() && !HELPS.get());
    }

    #[test]
    fn the_shortest_comes_first_and_equals_in_their_order() {
        let helpers = Helpers::default();
        let (told, heard) = channel();
        let (go, may_go) = channel::<()>();
        let ask = |name: &'static str, bytes| {
            let told = told.clone();
            helpers.ask(bytes, Box::new(move || told.send(name).unwrap()));
        };
        // Holds the only thread until all callers have asked.
        let begun = told.clone();
        let hold = move || {
            begun.send("begun").unwrap();
            may_go.recv().unwrap();
        };
        helpers.ask(1, Box::new(hold));
        assert_eq!(heard.recv().unwrap(), "begun");
        ask("long", 1_000);
        ask("short", 10);
        ask("another short one", 10);
        go.send(()).unwrap();
        let all: Vec<_> = (0..3).map(|_| heard.recv().unwrap()).collect();
        assert_eq!(all, ["short", "another short one", "long"]);
    }

    #[test]
    fn a_panic_costs_no_helper() {
        let helpers = Helpers::default();
        helpers.ask(1, Box::new(|| std::panic::resume_unwind(Box::new(()))));
        let (done, is_done) = channel();
        helpers.ask(1, Box::new(move || done.send(()).unwrap()));
        is_done.recv().unwrap();
    }

    #[test]
    fn helpers_begin_as_they_are_told_and_are_no_more_than_allowed() {
        let (told, heard) = channel();
        let helpers = Helpers::new(2, move || told.send(thread::current().id()).unwrap());
        let (done, ends) = channel();
        for _ in 0..20 {
            let done = done.clone();
            helpers.ask(1, Box::new(move || done.send(()).unwrap()));
        }
        (0..20).for_each(|_| ends.recv().unwrap());
        drop(helpers);
        let begun: std::collections::HashSet<_> = heard.iter().collect();
        assert!((1..=2).contains(&begun.len()), "{begun:?}");
    }
}
