//! The thread `tfx-watch`, which reports callbacks that do not return, unusual latencies, and
//! certificates that expire.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use transfix_observe::supervised::supervise;
use transfix_settings::ThreadLost;
use transfix_transport::Token;

use crate::drive::registry::Registry;
use crate::io::{Job, Waker};

const WAKE: Token = Token(usize::MAX);

/// The running thread.
pub(crate) struct Watching {
    ends: Arc<AtomicBool>,
    waker: Waker,
    job: Job<()>,
}

impl Watching {
    /// Starts the thread, if there is anything to watch.
    ///
    /// # Errors
    /// If the system has no further thread.
    pub(crate) fn start(registry: &Arc<Registry>, lost: ThreadLost) -> io::Result<Option<Self>> {
        let io = &registry.io;
        let interval_ns = registry.watch.interval_ns();
        if interval_ns.is_none()
            && registry.certificates.looks_at().is_none()
            && registry.usual_times.looks_at().is_none()
        {
            return Ok(None);
        }
        let mut poll = io.poll()?;
        let (waker, ends) = (poll.waker(WAKE)?, Arc::new(AtomicBool::new(false)));
        let (registry, of_thread) = (Arc::clone(registry), Arc::clone(&ends));
        let mut look = move || {
            let mut ready = Vec::new();
            while !of_thread.load(Ordering::Acquire) {
                let now_ns = registry.io.monotonic_ns();
                let looks_at = [registry.certificates.looks_at(), registry.usual_times.looks_at()];
                let until_look = looks_at.into_iter().flatten().min();
                let until_look = until_look.map(|at| at.saturating_sub(now_ns));
                let time = interval_ns.into_iter().chain(until_look).min();
                poll.wait(&mut ready, time.map(Duration::from_nanos))?;
                ready.clear();
                registry.certificates.look();
                registry.usual_times.look(registry.io.monotonic_ns(), || {
                    let all = registry.all();
                    all.iter().map(|s| (s.id.clone(), Arc::clone(&s.published))).collect()
                });
                registry.watch.look(registry.io.monotonic_ns(), |id, callback| {
                    let Some(session) = registry.find(id) else { return };
                    session.published.note_held_up(callback);
                    if callback.is_some() {
                        // The slow callback may delay a thread that must send the application's
                        // earlier messages, so the session's worker sends them.
                        session.call_worker();
                    }
                });
            }
            Ok(())
        };
        let of_job = Arc::clone(io);
        let run = move || {
            supervise(lost, (&|| of_job.monotonic_ns(), &|time| of_job.sleep(time)), &mut look)
        };
        let job = Job::spawn(&**io, "tfx-watch".to_owned(), run)?;
        Ok(Some(Self { ends, waker, job }))
    }

    /// Ends the thread and waits for its end.
    pub(crate) fn stop(self) {
        self.ends.store(true, Ordering::Release);
        (self.waker)();
        let _ = self.job.join();
    }
}
