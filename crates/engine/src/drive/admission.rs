//! Judges counterparties without a configured session, and makes their sessions from templates, in
//! separate threads. A slow or panicking judgement affects only its own connection.
//!
//! Invariants: at most `threads_max` threads run, and a thread ends when no work is left. A
//! judgement that panics yields a refusal. A session whose connection was closed meanwhile is
//! dropped.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use transfix_session::Offer;

use crate::drive::shared::Shared;
use crate::drive::template::{Candidate, Maker};
use crate::io::{Io, Waker};
use crate::link::refusal::Refusal;

/// The result of judging a counterparty: the new session with its accepted Logon(A), or a refusal.
pub(crate) type Made = Result<(Shared, Offer), Refusal>;

/// The jobs that wait for a thread, by ticket, and the number of threads.
#[derive(Default)]
struct Line {
    waiting: VecDeque<(u64, Box<Candidate>)>,
    threads: usize,
}

/// The threads that judge counterparties.
pub(crate) struct Admission {
    maker: Arc<Maker>,
    line: Arc<Mutex<Line>>,
    /// True when the engine ends, so that no more sessions are made.
    closed: Arc<AtomicBool>,
    waker: Waker,
    io: Arc<dyn Io>,
    threads_max: usize,
    sender: Sender<(u64, Box<Made>)>,
    answers: Receiver<(u64, Box<Made>)>,
}

impl Admission {
    /// Returns a pool without running threads. The pool calls `waker` when a result is ready.
    pub(crate) fn new(
        maker: &Arc<Maker>,
        threads_max: usize,
        waker: Waker,
        io: &Arc<dyn Io>,
    ) -> Self {
        let (sender, answers) = channel();
        Self {
            maker: Arc::clone(maker),
            threads_max,
            line: Arc::default(),
            closed: Arc::default(),
            waker,
            io: Arc::clone(io),
            sender,
            answers,
        }
    }

    /// Queues a candidate to be judged. The result has the same ticket.
    ///
    /// # Errors
    /// If no thread runs and none can be started. The job is dropped then.
    pub(crate) fn give(&self, ticket: u64, candidate: Box<Candidate>) -> io::Result<()> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.waiting.push_back((ticket, candidate));
        if line.threads >= self.threads_max {
            return Ok(());
        }
        line.threads += 1;
        drop(line);
        let (maker, line) = (Arc::clone(&self.maker), Arc::clone(&self.line));
        let (closed, waker) = (Arc::clone(&self.closed), Arc::clone(&self.waker));
        let sender = self.sender.clone();
        let run = move || {
            work(&maker, &line, &closed, |answer| {
                // The send fails only if the engine has ended and no longer needs the result.
                let _ = sender.send(answer);
                waker();
            })
        };
        let started = self.io.spawn("tfx-admit".to_owned(), Box::new(run));
        let Err(error) = started else { return Ok(()) };
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.threads -= 1;
        // A running thread will judge the candidate. Without a running thread it is removed,
        // because candidates would accumulate.
        if line.threads > 0 || !line.waiting.iter().any(|(waiting, _)| *waiting == ticket) {
            return Ok(());
        }
        line.waiting.retain(|(waiting, _)| *waiting != ticket);
        Err(error)
    }

    /// Returns a result that is ready, with its ticket.
    pub(crate) fn answer(&self) -> Option<(u64, Box<Made>)> {
        self.answers.try_recv().ok()
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
    }
}

/// Judges queued candidates until none is left.
fn work(maker: &Maker, line: &Mutex<Line>, closed: &AtomicBool, answer: impl Fn((u64, Box<Made>))) {
    loop {
        let mut waiting = line.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((ticket, candidate)) = waiting.waiting.pop_front() else {
            waiting.threads -= 1;
            return;
        };
        drop(waiting);
        let make = || maker.make(*candidate, || closed.load(Ordering::Acquire));
        let made = catch_unwind(AssertUnwindSafe(make));
        let panicked = |_| Err(Refusal::silent("judging it panicked"));
        answer((ticket, Box::new(made.unwrap_or_else(panicked))));
    }
}
