//! Resolves host names for initiators in separate threads. A name server may take half a minute to
//! fail, and a worker has other sessions.
//!
//! Invariants: at most one thread resolves a given name, however many sessions wait for it. At most
//! [`THREADS_MAX`] threads run, and a thread ends when no name is queued.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::drive::session_waker::SessionWaker;
use crate::io::Io;

/// The maximum number of names that are resolved at the same time; further names wait.
const THREADS_MAX: usize = 16;

/// The addresses of a name, or the error of the look-up.
type Found = Result<Vec<SocketAddr>, (io::ErrorKind, String)>;

/// The look-up of one name, from its start until its result was read.
pub(crate) struct Lookup {
    found: OnceLock<Found>,
}

impl Lookup {
    /// Returns the result of the look-up, or `None` while it is running.
    pub(crate) fn found(&self) -> Option<io::Result<Vec<SocketAddr>>> {
        let found = self.found.get()?.clone();
        Some(found.map_err(|(kind, why)| io::Error::new(kind, why)))
    }
}

/// A look-up that is queued or running, with the wakers of the sessions that wait for it.
struct Asked {
    lookup: Arc<Lookup>,
    bells: Vec<Arc<SessionWaker>>,
}

#[derive(Default)]
struct State {
    asked: HashMap<Arc<str>, Asked>,
    /// The names whose look-up no thread has started yet.
    queue: VecDeque<Arc<str>>,
    threads: usize,
}

/// The look-ups of host names for one engine.
#[derive(Default)]
pub(crate) struct Resolver {
    state: Mutex<State>,
}

impl Resolver {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to resolve `name`, written as `host:port`, or joins a look-up of the same name. Wakes
    /// the session when the result is known.
    ///
    /// # Errors
    /// If the system has no further thread.
    pub(crate) fn ask(
        self: &Arc<Self>,
        name: &Arc<str>,
        session_waker: &Arc<SessionWaker>,
        io: &Arc<dyn Io>,
    ) -> io::Result<Arc<Lookup>> {
        let mut state = self.state();
        if let Some(asked) = state.asked.get_mut(name) {
            // A session that gave up and asks again is already in the list.
            if !asked.bells.iter().any(|known| Arc::ptr_eq(known, session_waker)) {
                asked.bells.push(Arc::clone(session_waker));
            }
            return Ok(Arc::clone(&asked.lookup));
        }
        if state.threads < THREADS_MAX {
            let (resolver, world) = (Arc::clone(self), Arc::clone(io));
            io.spawn("tfx-resolve".to_owned(), Box::new(move || resolver.serve(&*world)))?;
            state.threads += 1;
        }
        let lookup = Arc::new(Lookup { found: OnceLock::new() });
        let asked = Asked { lookup: Arc::clone(&lookup), bells: vec![Arc::clone(session_waker)] };
        state.asked.insert(Arc::clone(name), asked);
        state.queue.push_back(Arc::clone(name));
        Ok(lookup)
    }

    /// Resolves queued names until none is left.
    fn serve(&self, io: &dyn Io) {
        while let Some(name) = self.next() {
            let found = match io.resolve(&name) {
                Ok(found) if found.is_empty() => {
                    let why = "the name resolves to no address".to_owned();
                    Err((io::ErrorKind::AddrNotAvailable, why))
                }
                found => found.map_err(|error| (error.kind(), error.to_string())),
            };
            let asked = self.state().asked.remove(&name);
            let Some(asked) = asked else { continue };
            let _ = asked.lookup.found.set(found);
            for session_waker in asked.bells {
                session_waker.wake();
            }
        }
    }

    /// Takes the next queued name. Returns `None` if the thread must end.
    fn next(&self) -> Option<Arc<str>> {
        let mut state = self.state();
        let next = state.queue.pop_front();
        if next.is_none() {
            state.threads -= 1;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use transfix_session::Now;
    use transfix_transport::SocketOptions;

    use super::*;
    use crate::io::{Connecting, Listener, Poll, System, Thread};

    /// An `Io` whose look-ups end when the test allows it.
    struct Slow {
        answers: Mutex<Receiver<()>>,
        asked: Sender<String>,
    }

    impl Io for Slow {
        fn now(&self) -> Now {
            System.now()
        }

        fn monotonic_ns(&self) -> u64 {
            System.monotonic_ns()
        }

        fn poll(&self) -> io::Result<Box<dyn Poll>> {
            System.poll()
        }

        fn connect(
            &self,
            remote: SocketAddr,
            options: &SocketOptions,
        ) -> io::Result<Box<dyn Connecting>> {
            System.connect(remote, options)
        }

        fn resolve(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
            self.asked.send(name.to_owned()).unwrap();
            if name.starts_with("slow") {
                self.answers.lock().unwrap().recv().unwrap();
            }
            match name.starts_with("no") {
                true => Ok(Vec::new()),
                false => Ok(vec![([127, 0, 0, 1], 1).into()]),
            }
        }

        fn listen(
            &self,
            address: SocketAddr,
            options: &SocketOptions,
        ) -> io::Result<Box<dyn Listener>> {
            System.listen(address, options)
        }

        fn spawn(
            &self,
            name: String,
            run: Box<dyn FnOnce() + Send>,
        ) -> io::Result<Box<dyn Thread>> {
            System.spawn(name, run)
        }

        fn sleep(&self, time: Duration) {
            System.sleep(time);
        }
    }

    fn found(lookup: &Lookup) -> io::Result<Vec<SocketAddr>> {
        loop {
            match lookup.found() {
                Some(found) => return found,
                None => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn a_name_that_is_not_answered_holds_up_those_who_ask_for_it() {
        let (answer, answers) = channel();
        let (asked, names) = channel();
        let io: Arc<dyn Io> = Arc::new(Slow { answers: Mutex::new(answers), asked });
        let resolver = Arc::new(Resolver::default());
        let ask = |name: &str| resolver.ask(&name.into(), &Arc::default(), &io).unwrap();
        let slow: Vec<_> = (0..1_000).map(|_| ask("slow:1")).collect();
        assert_eq!(names.recv().unwrap(), "slow:1");
        assert_eq!(found(&ask("fast:1")).unwrap(), [([127, 0, 0, 1], 1).into()]);
        let error = found(&ask("no:1")).unwrap_err().to_string();
        assert_eq!(error, "the name resolves to no address");
        assert!(slow.iter().all(|lookup| lookup.found().is_none()));
        answer.send(()).unwrap();
        assert!(slow.iter().all(|lookup| found(lookup).is_ok()), "one answer is enough");
        let asked: Vec<_> = names.try_iter().collect();
        assert_eq!(asked, ["fast:1", "no:1"]);
    }

    #[test]
    fn so_many_names_are_looked_up_at_once_and_the_next_ones_wait() {
        let (answer, answers) = channel();
        let (asked, names) = channel();
        let io: Arc<dyn Io> = Arc::new(Slow { answers: Mutex::new(answers), asked });
        let resolver = Arc::new(Resolver::default());
        let ask = |name: String| resolver.ask(&name.into(), &Arc::default(), &io).unwrap();
        let slow: Vec<_> = (0..=THREADS_MAX).map(|n| ask(format!("slow{n}:1"))).collect();
        let fast = ask("fast:1".to_owned());
        let begun: Vec<_> = names.iter().take(THREADS_MAX).collect();
        assert!(!begun.contains(&format!("slow{THREADS_MAX}:1")), "{begun:?}");
        assert!(fast.found().is_none());
        (0..=THREADS_MAX).for_each(|_| answer.send(()).unwrap());
        assert!(slow.iter().chain([&fast]).all(|lookup| found(lookup).is_ok()));
        while resolver.state().threads > 0 {
            std::thread::yield_now();
        }
    }
}
