//! Sending from anywhere: handles to sessions, and the registry that finds them.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError, Weak};

use transfix_codec::Body;
use transfix_session::{SendError, SessionId, State};

use crate::clock;
use crate::desk::Counters;
use crate::link::Link;
use crate::queue::{Pushed, SendQueue};
use crate::settings::SendMode;

/// Wakes the worker of a link from its wait.
pub(crate) type Wake = Box<dyn Fn() + Send + Sync>;

/// What handle and worker of one session share.
pub(crate) struct Shared {
    pub(crate) id: SessionId,
    pub(crate) link: Mutex<Link>,
    pub(crate) queue: SendQueue,
    pub(crate) send_mode: SendMode,
    pub(crate) wake: OnceLock<Wake>,
    /// Whether the session is logged on; written by the link.
    pub(crate) active: Arc<AtomicBool>,
    pub(crate) closed: AtomicBool,
}

/// What became of a message that [`SessionHandle::send`] took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Stored and given to the socket in the caller's thread, under this MsgSeqNum(34).
    Direct(u64),
    /// Handed over to the session's worker, which gives it its number.
    Queued {
        /// Bytes that wait in the queue now.
        bytes: usize,
    },
}

/// Sends into one session, from any thread, and never blocks on a stuck counterparty.
#[derive(Clone)]
pub struct SessionHandle {
    pub(crate) shared: Arc<Shared>,
}

impl SessionHandle {
    /// Identity of the session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.shared.id
    }

    /// Whether the session is logged on. It may change at any moment.
    #[must_use]
    pub fn is_logged_on(&self) -> bool {
        self.shared.active.load(Ordering::Acquire)
    }

    /// Sends an application message; `fill` writes its fields.
    ///
    /// With `send = "direct"` it is encoded, stored and written in the caller's thread if the
    /// session is free at that moment; otherwise, and with `send = "queued"`, it is handed over to
    /// the session's worker. Messages of one thread keep their order either way.
    ///
    /// # Errors
    /// [`SendError`]: the message was not taken.
    pub fn send(
        &self,
        msg_type: &str,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Sent, SendError> {
        let shared = &*self.shared;
        if shared.closed.load(Ordering::Acquire) {
            return Err(SendError::Closed);
        }
        if shared.send_mode == SendMode::Direct {
            match shared.link.try_lock() {
                Ok(mut link) => {
                    let now = clock::now();
                    let sent = link.send(now, &shared.queue, msg_type.as_bytes(), fill);
                    return sent.map(Sent::Direct);
                }
                Err(TryLockError::Poisoned(_)) => return Err(SendError::StoreFailed),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        if !self.is_logged_on() {
            return Err(SendError::NotLoggedOn);
        }
        let Pushed { bytes, first } = shared.queue.push(msg_type.as_bytes(), fill)?;
        if first && let Some(wake) = shared.wake.get() {
            wake();
        }
        Ok(Sent::Queued { bytes })
    }

    /// What the session has counted since the engine was started. Waits for the end of a turn.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.look(|link| link.desk.counters)
    }

    /// The next numbers in and out. Waits for the end of a turn.
    #[must_use]
    pub fn next_numbers(&self) -> (u64, u64) {
        self.look(|link| (link.desk.session.next_num_in(), link.desk.session.next_num_out()))
    }

    /// Where the session stands. Waits for the end of a turn.
    #[must_use]
    pub fn state(&self) -> State {
        self.look(|link| link.desk.session.state())
    }

    fn look<T>(&self, read: impl FnOnce(&Link) -> T) -> T {
        read(&self.shared.link.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for SessionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionHandle({})", self.shared.id)
    }
}

/// All sessions of an engine. It does not keep them alive: links hold the registry.
#[derive(Default)]
pub(crate) struct Registry {
    sessions: OnceLock<HashMap<SessionId, Weak<Shared>>>,
}

impl Registry {
    pub(crate) fn fill(&self, sessions: &[Arc<Shared>]) {
        let map = sessions.iter().map(|s| (s.id.clone(), Arc::downgrade(s))).collect();
        assert!(self.sessions.set(map).is_ok(), "the registry is filled once, at the start");
    }

    pub(crate) fn find(&self, id: &SessionId) -> Option<SessionHandle> {
        let shared = self.sessions.get()?.get(id)?.upgrade()?;
        Some(SessionHandle { shared })
    }
}
