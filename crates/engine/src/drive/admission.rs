//! Judging counterparties that no settings name, and making their sessions, in threads of their
//! own: what an application does for it may take long, or panic, and must cost that connection
//! alone.
//!
//! Invariants: at most [`THREADS_MAX`] threads run, and none while nobody waits; a thread that
//! panics answers all the same; what was made for a connection that has gone is dropped.

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

/// Logons that are judged at once; further ones wait for one of these.
const THREADS_MAX: usize = 64;

/// What has become of a candidate.
pub(crate) struct Answer {
    /// Which one.
    pub(crate) ticket: u64,
    /// The session, and its first Logon(A), which is accepted.
    pub(crate) made: Result<(Shared, Offer), Refusal>,
}

/// Candidates that wait for a thread, and how many threads run.
#[derive(Default)]
struct Line {
    waiting: VecDeque<(u64, Candidate)>,
    threads: usize,
}

/// Where candidates are judged.
pub(crate) struct Admission {
    maker: Arc<Maker>,
    line: Arc<Mutex<Line>>,
    /// The engine ends: no more sessions are made.
    closed: Arc<AtomicBool>,
    waker: Waker,
    io: Arc<dyn Io>,
    sender: Sender<Answer>,
    answers: Receiver<Answer>,
    next_ticket: u64,
}

impl Admission {
    /// `waker` is rung when an answer is there.
    pub(crate) fn new(maker: Maker, waker: Waker, io: &Arc<dyn Io>) -> Self {
        let (sender, answers) = channel();
        Self {
            maker: Arc::new(maker),
            line: Arc::default(),
            closed: Arc::default(),
            waker,
            io: Arc::clone(io),
            sender,
            answers,
            next_ticket: 0,
        }
    }

    /// Has a candidate judged. Returns its ticket, and the error if no thread could be started for
    /// it: then it waits for one that runs.
    pub(crate) fn judge(&mut self, candidate: Candidate) -> (u64, io::Result<()>) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.waiting.push_back((ticket, candidate));
        if line.threads >= THREADS_MAX {
            return (ticket, Ok(()));
        }
        line.threads += 1;
        drop(line);
        let (maker, line) = (Arc::clone(&self.maker), Arc::clone(&self.line));
        let (closed, waker) = (Arc::clone(&self.closed), Arc::clone(&self.waker));
        let sender = self.sender.clone();
        let run = move || {
            work(&maker, &line, &closed, |answer| {
                // At the end of the engine nobody reads the answer.
                let _ = sender.send(answer);
                waker();
            })
        };
        let started = self.io.spawn("tfx-admit".to_owned(), Box::new(run));
        if started.is_err() {
            self.line.lock().unwrap_or_else(PoisonError::into_inner).threads -= 1;
        }
        (ticket, started.map(drop))
    }

    /// An answer that is there.
    pub(crate) fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
    }
}

/// Judges whoever waits, and ends when nobody does.
fn work(maker: &Maker, line: &Mutex<Line>, closed: &AtomicBool, answer: impl Fn(Answer)) {
    loop {
        let mut waiting = line.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((ticket, candidate)) = waiting.waiting.pop_front() else {
            waiting.threads -= 1;
            return;
        };
        drop(waiting);
        let make = || maker.make(candidate, || closed.load(Ordering::Acquire));
        let made = catch_unwind(AssertUnwindSafe(make))
            .unwrap_or_else(|_| Err(Refusal::silent("judging it panicked")));
        answer(Answer { ticket, made });
    }
}
