//! The threads that call applications, and the queue of applications that have calls to make.
//!
//! Invariants: each application is queued at most once, and a thread without work sleeps.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use transfix_observe::event;
use transfix_observe::supervised::supervise;
use transfix_session::nanos;
use transfix_settings::EngineSettings;
use transfix_transport::Token;

use crate::io::{Io, Job, Poll, Waker};

const WAKE: Token = Token(usize::MAX);
/// The interval of checks whether threads have ended.
const LOOK: Duration = Duration::from_millis(1);

/// An application that can be queued for the threads of a `RunQueue`.
pub(crate) trait Runnable: Send + Sync {
    /// Makes waiting calls of the application in the current thread. Returns true if calls are
    /// left.
    fn visit(&self, line: &RunQueue) -> bool;
}

/// The queue of applications with calls, and the threads that serve it.
pub(crate) struct RunQueue {
    state: Mutex<State>,
    /// The number of queued applications, which can be read without the lock.
    len: AtomicUsize,
    wakers: OnceLock<Vec<Waker>>,
    spin_ns: u64,
    threads: Mutex<Vec<Job<()>>>,
}

/// A queued application, with a reference that keeps its session alive.
type Place = (Arc<dyn Runnable>, Arc<dyn Any + Send + Sync>);

#[derive(Default)]
struct State {
    places: VecDeque<Place>,
    /// The numbers of the sleeping threads.
    asleep: Vec<usize>,
    stops: bool,
}

impl RunQueue {
    /// Starts as many threads as the settings demand. Returns `None` if they demand none.
    ///
    /// # Errors
    /// If the system has no further threads.
    pub(crate) fn start(
        settings: &EngineSettings,
        io: &Arc<dyn Io>,
    ) -> io::Result<Option<Arc<Self>>> {
        if settings.application_threads == 0 {
            return Ok(None);
        }
        let line = Arc::new(Self {
            state: Mutex::default(),
            len: AtomicUsize::new(0),
            wakers: OnceLock::new(),
            spin_ns: nanos(settings.application_spin),
            threads: Mutex::default(),
        });
        let (mut wakers, mut polls) = (Vec::new(), Vec::new());
        for _ in 0..settings.application_threads {
            let poll = io.poll()?;
            wakers.push(poll.waker(WAKE)?);
            polls.push(poll);
        }
        let _ = line.wakers.set(wakers);
        for (n, mut poll) in polls.into_iter().enumerate() {
            let (of_thread, lost) = (Arc::clone(&line), settings.thread_lost);
            let own_io = Arc::clone(io);
            let job = Job::spawn(&**io, format!("tfx-app-{n}"), move || {
                let serve = || of_thread.serve(n, &mut *poll, &*own_io);
                supervise(lost, (&|| own_io.monotonic_ns(), &|time| own_io.sleep(time)), serve)
            });
            match job {
                Ok(job) => line.threads().push(job),
                Err(error) => {
                    line.end();
                    return Err(error);
                }
            }
        }
        Ok(Some(line))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn threads(&self) -> MutexGuard<'_, Vec<Job<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, thread: Option<usize>) {
        let waker = thread.and_then(|n| self.wakers.get()?.get(n));
        if let Some(waker) = waker {
            waker();
        }
    }

    /// Queues an application that has calls, and keeps its session alive until a thread has served
    /// it.
    pub(crate) fn push(&self, place: Place) {
        let mut state = self.lock();
        state.places.push_back(place);
        self.len.store(state.places.len(), Ordering::Release);
        let asleep = state.asleep.pop();
        drop(state);
        self.wake(asleep);
    }

    /// Takes the next application from the queue. If the queue is empty, records that thread `n`
    /// sleeps and returns `None`. Returns `Err` if the thread must end.
    fn next(&self, n: usize) -> Result<Option<Place>, ()> {
        let mut state = self.lock();
        let next = state.places.pop_front();
        self.len.store(state.places.len(), Ordering::Release);
        state.asleep.retain(|asleep| *asleep != n);
        if next.is_none() {
            if state.stops {
                return Err(());
            }
            state.asleep.push(n);
        }
        Ok(next)
    }

    /// Returns true if an application waits for a thread.
    pub(crate) fn is_waited_in(&self) -> bool {
        self.len.load(Ordering::Acquire) > 0
    }

    fn serve(self: &Arc<Self>, n: usize, poll: &mut dyn Poll, io: &dyn Io) -> io::Result<()> {
        let mut ready = Vec::new();
        loop {
            match self.next(n) {
                Ok(Some(place)) => {
                    if place.0.visit(self) {
                        self.push(place);
                    }
                    self.spin(io);
                }
                Ok(None) => {
                    poll.wait(&mut ready, None)?;
                    ready.clear();
                }
                Err(()) => return Ok(()),
            }
        }
    }

    /// Checks the queue for a short time before the thread sleeps, which saves a wake-up.
    fn spin(&self, io: &dyn Io) {
        if self.spin_ns == 0 {
            return;
        }
        let until_ns = io.monotonic_ns() + self.spin_ns;
        while !self.is_waited_in() && io.monotonic_ns() < until_ns {
            std::hint::spin_loop();
        }
    }

    /// Lets the threads end as soon as the queue is empty.
    fn end(&self) {
        self.lock().stops = true;
        for n in 0..self.wakers.get().map_or(0, Vec::len) {
            self.wake(Some(n));
        }
    }

    /// Ends the threads, and waits for them until this monotonic time. A thread whose application
    /// has not returned by then is left running.
    pub(crate) fn stop(&self, io: &dyn Io, until_ns: u64) {
        self.end();
        let threads = std::mem::take(&mut *self.threads());
        while threads.iter().any(|job| !job.is_finished()) && io.monotonic_ns() < until_ns {
            io.sleep(LOOK);
        }
        let left = threads.iter().filter(|job| !job.is_finished()).count();
        if left > 0 {
            event!(warn, ApplicationsLeft, left);
        }
        threads.into_iter().filter(Job::is_finished).for_each(|job| _ = job.join());
    }
}
