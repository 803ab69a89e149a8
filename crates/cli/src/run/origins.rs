//! From whom the messages are that went out: what is said of one of them goes back there.
//!
//! Invariant: what is known of a number was noted for the message that has it; a reset forgets all.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use transfix::{SendError, Sent, SessionHandle, SessionId};

/// Messages that are remembered of each session: more than a counterparty leaves unanswered.
const KEPT_MAX: usize = 10_000;
/// How long an answer waits for the number of its message, which is being sent.
const NUMBER_WAIT: Duration = Duration::from_secs(1);

/// Where a message comes from.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// The message with this MsgSeqNum(34) of a session.
    Session(SessionId, u64),
    /// A program at this socket, by the reference that it gave.
    Program(String, Value),
}

#[derive(Default)]
struct OfTarget {
    by_seq: Mutex<BySeq>,
    noted: Condvar,
}

#[derive(Default)]
struct BySeq {
    known: BTreeMap<u64, Origin>,
    /// How many are being sent, and have no number here yet.
    under_way: usize,
}

impl OfTarget {
    fn lock(&self) -> MutexGuard<'_, BySeq> {
        self.by_seq.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The origins of what was sent. A clone is the same.
#[derive(Clone, Default)]
pub(super) struct Origins(Arc<Mutex<HashMap<SessionId, Arc<OfTarget>>>>);

impl Origins {
    fn of(&self, id: &SessionId) -> Arc<OfTarget> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(id) {
            Some(found) => Arc::clone(found),
            None => Arc::clone(all.entry(id.clone()).or_default()),
        }
    }

    /// Sends, and notes from whom the message is before anybody can ask for it.
    pub(super) fn sent(
        &self,
        to: &SessionHandle,
        from: Origin,
        send: impl FnOnce() -> Result<Sent, SendError>,
    ) -> Result<Sent, SendError> {
        let target = self.of(to.id());
        target.lock().under_way += 1;
        let sent = send();
        let mut all = target.lock();
        all.under_way -= 1;
        if let Ok(Sent::Direct(seq) | Sent::Stored(seq)) = sent {
            all.known.insert(seq, from);
            if all.known.len() > KEPT_MAX {
                all.known.pop_first();
            }
        }
        drop(all);
        target.noted.notify_all();
        sent
    }

    /// From whom the message is that this session has sent under this number; `None` if that is
    /// not known, or no more.
    pub(super) fn find(&self, id: &SessionId, seq: u64) -> Option<Origin> {
        let target = self.of(id);
        let is_unknown = |all: &mut BySeq| !all.known.contains_key(&seq) && all.under_way > 0;
        let waited = target.noted.wait_timeout_while(target.lock(), NUMBER_WAIT, is_unknown);
        let (all, _) = waited.unwrap_or_else(PoisonError::into_inner);
        all.known.get(&seq).cloned()
    }

    /// The numbers of this session have begun again.
    pub(super) fn forget(&self, id: &SessionId) {
        self.of(id).lock().known.clear();
    }
}
