//! Messages that cannot be delivered now and must not be refused, because a target has them or may
//! have them. They are tried again until their targets are available, or new routes name other
//! targets.
//!
//! Invariant: while a message is held, its session receives no further message, so that the order
//! is kept.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use transfix::{Message, MessageAnswer, SessionHandle};
use transfix_codec::{CheckSumPolicy, FieldIndex};

use super::Gateway;
use super::asked::SharedPassed;
use super::bridge::Passing;
use super::choices::Incoming;

/// The interval at which held messages are tried again.
const LOOK: Duration = Duration::from_millis(100);

/// A message that is tried again, with all that is needed for its delivery.
pub(super) struct HeldMessage {
    pub(super) gateway: Gateway,
    pub(super) from: SessionHandle,
    pub(super) bytes: Vec<u8>,
    pub(super) incoming: Incoming,
    pub(super) repeats: bool,
    pub(super) passed: SharedPassed,
    pub(super) answer: MessageAnswer,
}

/// The sending end of the queue of held messages. Clones share one queue.
#[derive(Clone)]
pub(super) struct Held(Arc<Mutex<Option<Holding>>>);

struct Holding {
    to: Sender<HeldMessage>,
    thread: JoinHandle<()>,
}

impl Held {
    /// Starts the thread that tries held messages again.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(super) fn begin() -> Result<Self, String> {
        let (to, held) = channel();
        let thread = thread::Builder::new().name("held".to_owned()).spawn(move || run(&held));
        let thread = thread.map_err(|error| format!("thread held: {error}"))?;
        Ok(Self(Arc::new(Mutex::new(Some(Holding { to, thread })))))
    }

    /// Hands a message to the thread, which tries it until its targets have it.
    pub(super) fn hold(&self, held: HeldMessage) {
        let holding = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(holding) = &*holding {
            // The send fails only after the engine has ended, when an answer has no effect anyway.
            let _ = holding.to.send(held);
        }
    }

    /// Stops the thread. The engine has ended; held messages arrive again after the next start.
    pub(super) fn end(&self) {
        let holding = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Holding { to, thread }) = holding {
            drop(to);
            let _ = thread.join();
        }
    }
}

fn run(new: &Receiver<HeldMessage>) {
    let mut held = Vec::new();
    loop {
        let more = match held.is_empty() {
            true => new.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => new.recv_timeout(LOOK),
        };
        match more {
            // The message was tried just before, so the thread waits first.
            Ok(more) => held.push(more),
            Err(RecvTimeoutError::Timeout) => {
                held = held.into_iter().filter_map(HeldMessage::again).collect();
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl HeldMessage {
    /// Tries the message again. Returns the message if it must be held further.
    fn again(self) -> Option<Self> {
        let Self { gateway, from, bytes, incoming, repeats, passed, answer } = self;
        let mut index = FieldIndex::default();
        let Ok(message) = Message::parse(&bytes, &mut index, CheckSumPolicy::Ignore) else {
            // The message can be parsed, because it was valid when it arrived.
            answer.give(Ok(()));
            return None;
        };
        let id = from.id().clone();
        let mut passing = Passing {
            gateway: &gateway,
            message: &message,
            session: None,
            id: &id,
            repeats,
            passed: &passed,
            incoming: &incoming,
            answer: Some(answer),
        };
        let done = passing.pass();
        let answer = passing.answer.take();
        match (done, answer) {
            // A program has received the message and will answer it.
            (_, None) => None,
            (Err(missed), Some(answer)) if missed.is_held() => {
                Some(Self { gateway, from, bytes, incoming, repeats, passed, answer })
            }
            (done, Some(answer)) => {
                answer.give(done.map_err(Into::into));
                None
            }
        }
    }
}
