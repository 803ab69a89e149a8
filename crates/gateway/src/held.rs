//! Messages that can go nowhere now, and may not be refused because some target has or may have
//! them. They are tried again until their targets are there, or the routes name other targets.
//!
//! Invariant: the session of such a message gets no further one meanwhile, so their order stays.

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

/// Time between two tries.
const LOOK: Duration = Duration::from_millis(100);

/// A message that is held.
pub(super) struct HeldMessage {
    pub(super) gateway: Gateway,
    pub(super) from: SessionHandle,
    pub(super) bytes: Vec<u8>,
    pub(super) incoming: Incoming,
    pub(super) repeats: bool,
    pub(super) passed: SharedPassed,
    pub(super) answer: MessageAnswer,
}

/// Where messages are held. A clone is the same.
#[derive(Clone)]
pub(super) struct Held(Arc<Mutex<Option<Holding>>>);

struct Holding {
    to: Sender<HeldMessage>,
    thread: JoinHandle<()>,
}

impl Held {
    /// # Errors
    /// If there is no thread for it.
    pub(super) fn begin() -> Result<Self, String> {
        let (to, held) = channel();
        let thread = thread::Builder::new().name("held".to_owned()).spawn(move || run(&held));
        let thread = thread.map_err(|error| format!("thread held: {error}"))?;
        Ok(Self(Arc::new(Mutex::new(Some(Holding { to, thread })))))
    }

    /// Holds a message until it has gone to its targets.
    pub(super) fn hold(&self, held: HeldMessage) {
        let holding = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(holding) = &*holding {
            // The thread ends after the engine alone: no answer counts then.
            let _ = holding.to.send(held);
        }
    }

    /// The engine has ended: what is held comes again after the next start.
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
            // It was tried this moment.
            Ok(more) => held.push(more),
            Err(RecvTimeoutError::Timeout) => {
                held = held.into_iter().filter_map(HeldMessage::again).collect();
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl HeldMessage {
    /// Tries once more. Returns the message if it is still held.
    fn again(self) -> Option<Self> {
        let Self { gateway, from, bytes, incoming, repeats, passed, answer } = self;
        let mut index = FieldIndex::default();
        let Ok(message) = Message::parse(&bytes, &mut index, CheckSumPolicy::Ignore) else {
            // It was sound when it came.
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
            // The program that is asked has it.
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
