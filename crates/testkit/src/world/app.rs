//! The application of one side: numbers its messages, and keeps what it has sent and received.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transfix::{Application, Body, BusinessReject, Message, SessionRef, tag};

use crate::random::Random;

/// A message that the session has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) id: u64,
    seq: u64,
    /// Grows with each reset of the numbers, and with each number given up by hand: what was sent
    /// before may be lost then.
    pub(super) epoch: u64,
}

/// What the application does, and what it knows.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) sent: Vec<Sent>,
    pub(super) delivered: Vec<u64>,
    next_id: u64,
    pub(super) epoch: u64,
    random: Random,
    /// Each delivered message is answered by another one with this chance, one in so many.
    pub(super) answer_one_in: usize,
    /// Each is refused with this chance.
    pub(super) refuse_one_in: usize,
    pub(super) text_bytes_max: usize,
}

/// The log as the application and the world hold it.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Log>>);

impl Shared {
    pub(super) fn new(random: Random) -> Self {
        Self(Arc::new(Mutex::new(Log {
            sent: Vec::new(),
            delivered: Vec::new(),
            next_id: 1,
            epoch: 0,
            random,
            answer_one_in: 0,
            refuse_one_in: 0,
            text_bytes_max: 0,
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn chance(&mut self, one_in: usize) -> bool {
        one_in > 0 && self.random.below(one_in) == 0
    }

    /// The id of the next message, and how long its Text(58) is.
    pub(super) fn draw(&mut self) -> (u64, usize) {
        self.next_id += 1;
        (self.next_id - 1, self.random.below(self.text_bytes_max + 1))
    }

    /// The session has accepted it.
    pub(super) fn accepted(&mut self, id: u64, seq: u64) {
        if self.sent.last().is_some_and(|last| seq <= last.seq) {
            self.epoch += 1;
        }
        self.sent.push(Sent { id, seq, epoch: self.epoch });
    }
}

/// Writes the fields of message `id`.
pub(super) fn fill(body: &mut Body<'_>, (id, text_bytes): (u64, usize)) {
    static TEXT: [u8; 2_000] = [b'x'; 2_000];
    body.uint(tag::CL_ORD_ID, id);
    if text_bytes > 0 {
        body.bytes(tag::TEXT, &TEXT[..text_bytes]);
    }
}

impl Application for Shared {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        if message.msg_type() != b"D" {
            return Ok(());
        }
        let mut log = self.lock();
        log.delivered.push(message.uint(tag::CL_ORD_ID)?);
        let one_in = log.answer_one_in;
        if log.chance(one_in) {
            let drawn = log.draw();
            if let Ok(seq) = session.send("D", |body| fill(body, drawn)) {
                log.accepted(drawn.0, seq);
            }
        }
        let one_in = log.refuse_one_in;
        if log.chance(one_in) { Err(BusinessReject::unsupported()) } else { Ok(()) }
    }
}
