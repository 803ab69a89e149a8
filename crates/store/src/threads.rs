//! Threads for work of stores that must not delay messages: they make segments, memory pages and
//! index chunks in advance. The threads that sync and archive are started in the same way.
//!
//! Invariant: the request for the fewest bytes comes first, because a store that requests a short
//! segment has little space left.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// The amount by which the priority of a helper thread is lowered, in units of `nice`.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

thread_local! {
    /// True if the current thread is a helper that makes segments for stores.
    static HELPS: Cell<bool> = const { Cell::new(false) };
}

/// If this thread is a helper, yields the CPU between two parts of a segment. Otherwise the
/// operating system would switch to a waiting thread only at its next tick, up to 4 ms later.
pub(crate) fn give_way() {
    if HELPS.get() {
        thread::yield_now();
    }
}

/// The function that each helper thread calls first.
type Begin = Arc<dyn Fn() + Send + Sync>;

/// The helper threads of one store, or of all stores of an engine.
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
    /// The number of requests so far.
    asked: u64,
    idle: usize,
    ends: bool,
}

struct Job {
    bytes: usize,
    /// The number of this request in the order of arrival.
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
                // A custom disk may panic. The panic has been printed, and the store will make the
                // segment itself.
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
    /// Creates helpers with at most `threads_max` threads. Each thread first calls `begin`, which
    /// may choose its CPUs; otherwise a thread inherits the CPUs of the thread that starts it,
    /// which may be pinned to one CPU.
    #[must_use]
    pub fn new(threads_max: usize, begin: impl Fn() + Send + Sync + 'static) -> Self {
        let (queue, threads) = (Arc::default(), Mutex::default());
        Self { queue, threads, threads_max: threads_max.max(1), begin: Arc::new(begin) }
    }

    /// Calls the function `begin` of [`Helpers::new`]. A helper thread that is started elsewhere
    /// calls this method first.
    pub fn begin(&self) {
        (self.begin)();
    }

    /// Starts a thread of its own for `run`, which first calls the function `begin` of
    /// [`Helpers::new`].
    ///
    /// # Errors
    /// If the system has no further thread.
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

    /// Queues the request `run`, which makes `bytes` bytes. If no thread can be started, `run` is
    /// never called.
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

    /// Starts all helper threads at once. Otherwise each is started when it is needed, which costs
    /// the session's thread some 50 µs, and it first runs on the CPUs of that thread.
    pub fn start(&self) {
        while self.start_one_more() {}
    }

    /// Starts one more thread. Returns false if the maximum is reached or the start fails.
    fn start_one_more(&self) -> bool {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.len() >= self.threads_max {
            return false;
        }
        let queue = Arc::clone(&self.queue);
        // If no thread can be started, the store makes the segment itself.
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

/// Lowers the priority of this thread, so that a session's thread on the same CPU gets ten times as
/// much time. The delay does no harm: segments are made in advance, and a session that needs one
/// earlier makes a short one.
fn give_precedence() {
    // On systems other than Linux, `nice` would affect the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICE);
}

impl Default for Helpers {
    /// Returns helpers with at most one thread.
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
        // This job blocks the only thread until all other jobs are queued.
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
