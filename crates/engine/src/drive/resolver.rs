//! Looks names up for initiators, in threads of its own: a name server may take half a minute to
//! say that it knows nothing, and a worker has other sessions.
//!
//! Invariants: a name is looked up by one thread at a time, however many sessions wait for it;
//! there are [`THREADS_MAX`] threads at most, and none when nobody waits.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::drive::session_waker::SessionWaker;
use crate::io::Io;

/// Names that are looked up at the same time; further ones wait.
const THREADS_MAX: usize = 16;

/// The result for a name.
type Found = Result<Vec<SocketAddr>, (io::ErrorKind, String)>;

/// A name that is looked up, or was.
pub(crate) struct Lookup {
    found: OnceLock<Found>,
}

impl Lookup {
    /// The addresses, once they are known.
    pub(crate) fn found(&self) -> Option<io::Result<Vec<SocketAddr>>> {
        let found = self.found.get()?.clone();
        Some(found.map_err(|(kind, why)| io::Error::new(kind, why)))
    }
}

/// The waiters for the end of a look-up, which is under way or in the queue.
struct Asked {
    lookup: Arc<Lookup>,
    bells: Vec<Arc<SessionWaker>>,
}

#[derive(Default)]
struct State {
    asked: HashMap<Arc<str>, Asked>,
    /// Names that no thread has taken yet.
    queue: VecDeque<Arc<str>>,
    threads: usize,
}

/// The look-ups of one engine.
#[derive(Default)]
pub(crate) struct Resolver {
    state: Mutex<State>,
}

impl Resolver {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to resolve `name`, written as `host:port`, unless a look-up is under way. Wakes the
    /// session at the end.
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
            // A session that gave up and asks again is there already.
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

    /// Looks up what waits, until nothing does.
    fn serve(&self, io: &dyn Io) {
        while let Some(name) = self.next() {
            let found = match io.resolve(&name) {
                Ok(found) if found.is_empty() => {
                    let why = "the name stands for no address".to_owned();
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

    /// `None` ends the thread.
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

    /// A machine whose look-ups end when the test allows them.
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
        assert_eq!(error, "the name stands for no address");
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
