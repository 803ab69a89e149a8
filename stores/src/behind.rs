//! The thread of a database store. Only this thread communicates with the server, so the session
//! never waits for it.
//!
//! **Invariants:** the thread sends one request at a time, so a read sees every earlier commit.
//! Commits during a transaction are combined into the next one. After a failure, nothing is written
//! until the store is reopened.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use transfix_store::{StoreError, Wake};

use crate::batch::Batch;
use crate::database::{Server, Written};
use crate::failed;

type Task<S> = Box<dyn FnOnce(&mut S) + Send>;

/// The session's handle to a server that a separate thread accesses.
pub(crate) struct Behind<S: Server> {
    tasks: Option<Sender<Task<S>>>,
    /// A channel that becomes disconnected when the thread has ended.
    end: Receiver<()>,
    line: Arc<Mutex<Line>>,
    name: String,
    /// The ticket of the last batch that the session has committed.
    committed: u64,
}

/// A request whose answer from the server is pending.
pub(crate) struct Asked<T> {
    answer: Receiver<Result<T, StoreError>>,
    since: Instant,
    patience: Duration,
    /// Exists until the request is abandoned.
    _awaited: Arc<()>,
}

impl<T> Asked<T> {
    /// Returns the answer if it has arrived.
    ///
    /// # Errors
    /// [`StoreError::NotYet`] until the answer arrives or the server has taken too long.
    pub(crate) fn hear(&self) -> Result<T, StoreError> {
        match self.answer.try_recv() {
            Ok(answer) => answer,
            Err(TryRecvError::Empty) if self.since.elapsed() < self.patience => {
                Err(StoreError::NotYet)
            }
            Err(TryRecvError::Empty) => Err(failed(io::Error::from(io::ErrorKind::TimedOut))),
            Err(TryRecvError::Disconnected) => Err(StoreError::Poisoned),
        }
    }
}

/// The state that the session and the thread share.
#[derive(Default)]
struct Line {
    is_writing: bool,
    /// The batches that were committed while another batch was being written, combined, with the
    /// last ticket.
    gathered: Option<(u64, Batch)>,
    /// The ticket of the last batch that the server has stored.
    safe: u64,
    /// The reason why a batch could not be written. Until the store is reopened, nothing more is
    /// written.
    failure: Option<StoreError>,
    wake: Option<Wake>,
}

fn lock(line: &Mutex<Line>) -> MutexGuard<'_, Line> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Server + 'static> Behind<S> {
    pub(crate) fn start(mut server: S, name: &str) -> Result<Self, StoreError> {
        let (tasks, taken) = channel::<Task<S>>();
        let (ends, end) = channel();
        let run = move || {
            let _ends: Sender<()> = ends;
            taken.iter().for_each(|task| task(&mut server));
        };
        thread::Builder::new().name("store-server".to_owned()).spawn(run).map_err(failed)?;
        let (line, name) = (Arc::default(), name.to_owned());
        Ok(Self { tasks: Some(tasks), end, line, name, committed: 0 })
    }

    pub(crate) fn wake_by(&self, wake: Wake) {
        lock(&self.line).wake = Some(wake);
    }

    /// Returns the tickets of the last committed batch and of the last stored batch.
    pub(crate) fn tickets(&self) -> Result<(u64, u64), StoreError> {
        let mut line = lock(&self.line);
        line.failure.take().map_or(Ok((self.committed, line.safe)), Err)
    }

    /// Queues a batch for writing after all earlier batches. Returns its ticket.
    pub(crate) fn commit(&mut self, batch: Batch) -> Result<u64, StoreError> {
        self.committed += 1;
        let ticket = self.committed;
        let mut line = lock(&self.line);
        if line.is_writing {
            line.gathered = Some(match line.gathered.take() {
                Some((_, mut first)) => {
                    first.join(batch);
                    (ticket, first)
                }
                None => (ticket, batch),
            });
            return Ok(ticket);
        }
        line.is_writing = true;
        drop(line);
        let (line, name) = (Arc::clone(&self.line), self.name.clone());
        self.begin(move |server| write(server, &line, &name, (ticket, batch)))?;
        Ok(ticket)
    }

    fn begin(&self, task: impl FnOnce(&mut S) + Send + 'static) -> Result<(), StoreError> {
        let sent = self.tasks.as_ref().map(|tasks| tasks.send(Box::new(task)));
        sent.and_then(Result::ok).ok_or(StoreError::Poisoned)
    }

    /// Queues a request after all commits. The session is woken when the answer arrives. A request
    /// that is abandoned before its turn does not begin.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut S) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Asked<T>, StoreError> {
        let (sender, answer) = channel();
        let (line, awaited) = (Arc::clone(&self.line), Arc::new(()));
        let is_awaited = Arc::downgrade(&awaited);
        self.begin(move |server| {
            if is_awaited.strong_count() == 0 {
                return;
            }
            let _ = sender.send(ask(server));
            let wake = lock(&line).wake.clone();
            if let Some(wake) = wake {
                wake();
            }
        })?;
        #[expect(clippy::disallowed_methods, reason = "nothing but the patience depends on it")]
        let since = Instant::now();
        Ok(Asked { answer, since, patience: S::PATIENCE, _awaited: awaited })
    }

    /// Queues a request and waits for the answer; used only while the store is reopened.
    pub(crate) fn ask_and_wait<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut S) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let asked = self.ask(ask)?;
        asked.answer.recv_timeout(S::PATIENCE).unwrap_or_else(|error| match error {
            RecvTimeoutError::Timeout => Err(failed(io::Error::from(io::ErrorKind::TimedOut))),
            RecvTimeoutError::Disconnected => Err(StoreError::Poisoned),
        })
    }

    /// Discards the committed batches, except the one that is being written.
    pub(crate) fn give_up(&self) {
        lock(&self.line).gathered = None;
    }

    /// Clears the state after the server has reported its content, because nothing is in transit
    /// then.
    pub(crate) fn begin_anew(&self) {
        let mut line = lock(&self.line);
        (line.safe, line.failure) = (self.committed, None);
    }
}

/// Writes this batch, and then the batches that were committed in the meantime.
fn write<S: Server>(server: &mut S, line: &Mutex<Line>, name: &str, first: (u64, Batch)) {
    let mut next = Some(first);
    while let Some((ticket, batch)) = next {
        let written = match server.write(&batch) {
            Ok(Written::Whole) => Ok(()),
            Ok(Written::Nothing) => Err(StoreError::Fenced { session: name.into() }),
            Err(error) => Err(error),
        };
        let mut line = lock(line);
        match written {
            Ok(()) => line.safe = ticket,
            Err(error) => (line.failure, line.gathered) = (Some(error), None),
        }
        next = line.gathered.take();
        line.is_writing = next.is_some();
        let wake = line.wake.clone();
        drop(line);
        if let Some(wake) = wake {
            wake();
        }
    }
}

impl<S: Server> Drop for Behind<S> {
    /// Waits until all committed batches are written, unless the server takes too long.
    fn drop(&mut self) {
        self.tasks = None;
        let _ = self.end.recv_timeout(S::PATIENCE);
    }
}
