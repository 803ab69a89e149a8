//! The thread `tfx-watch`, which tells of callbacks that do not return.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use transfix_transport::Token;

use crate::io::{Io, Job, Waker};
use crate::observe::called::Watch;
use crate::observe::supervised::supervise;
use crate::settings::ThreadLost;

const WAKE: Token = Token(usize::MAX);

/// The thread, until it is ended.
pub(crate) struct Watching {
    ends: Arc<AtomicBool>,
    waker: Waker,
    job: Job<()>,
}

impl Watching {
    /// Starts the thread, if anybody is to look.
    ///
    /// # Errors
    /// If the system has no further one.
    pub(crate) fn start(
        watch: &Arc<Watch>,
        lost: ThreadLost,
        io: &Arc<dyn Io>,
    ) -> io::Result<Option<Self>> {
        let Some(interval_ns) = watch.interval_ns() else { return Ok(None) };
        let mut poll = io.poll()?;
        let (waker, ends) = (poll.waker(WAKE)?, Arc::new(AtomicBool::new(false)));
        let (watch, of_thread, own_io) = (Arc::clone(watch), Arc::clone(&ends), Arc::clone(io));
        let mut look = move || {
            let mut ready = Vec::new();
            while !of_thread.load(Ordering::Acquire) {
                poll.wait(&mut ready, Some(Duration::from_nanos(interval_ns)))?;
                ready.clear();
                watch.look(own_io.monotonic_ns());
            }
            Ok(())
        };
        let of_job = Arc::clone(io);
        let run = move || supervise(lost, &*of_job, &mut look);
        let job = Job::spawn(&**io, "tfx-watch".to_owned(), run)?;
        Ok(Some(Self { ends, waker, job }))
    }

    /// Ends the thread.
    pub(crate) fn stop(self) {
        self.ends.store(true, Ordering::Release);
        (self.waker)();
        let _ = self.job.join();
    }
}
