//! From whom the messages are that went out: what is said of one of them goes back there.
//!
//! Invariant: what is known of a number was noted for the message that has it; a reset forgets all.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use transfix::{SendError, Sent, SessionHandle, SessionId};

/// Messages that are remembered of each session: more than a counterparty leaves unanswered.
const KEPT_MAX: usize = 1_000;
/// How long an answer waits for the number of its message, which is being sent.
const NUMBER_WAIT: Duration = Duration::from_millis(200);

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
    /// How many were stored since the last logon, to be sent after the next one.
    stored: u64,
}

impl BySeq {
    fn keep(&mut self, seq: u64, from: Origin) {
        self.known.insert(seq, from);
        if self.known.len() > KEPT_MAX {
            self.known.pop_first();
        }
    }
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
        all.stored += u64::from(matches!(sent, Ok(Sent::Stored(_))));
        if let Ok(Sent::Direct(seq) | Sent::Stored(seq)) = sent {
            all.keep(seq, from);
        }
        drop(all);
        target.noted.notify_all();
        sent
    }

    /// From whom the message is that this session has sent under this number, which is below the
    /// next one; `None` if that is not known, or no more.
    pub(super) fn find(&self, id: &SessionId, seq: u64, next_out: u64) -> Option<Origin> {
        let target = self.of(id);
        // Nobody is made to wait by a number that is none of those on their way.
        let is_unknown = |all: &mut BySeq| {
            let last = all.known.last_key_value().map_or(0, |(last, _)| *last);
            all.under_way > 0 && (last + 1..next_out).contains(&seq)
        };
        let waited = target.noted.wait_timeout_while(target.lock(), NUMBER_WAIT, is_unknown);
        let (all, _) = waited.unwrap_or_else(PoisonError::into_inner);
        all.known.get(&seq).cloned()
    }

    /// How many messages were stored for this session since its last logon; none from now on.
    pub(super) fn take_stored(&self, id: &SessionId) -> u64 {
        std::mem::take(&mut self.of(id).lock().stored)
    }

    /// The numbers of this session have begun again.
    pub(super) fn forget(&self, id: &SessionId) {
        self.of(id).lock().known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> SessionId {
        SessionId::new(transfix::BeginString::Fix44, "GATE", "VENUE")
    }

    #[test]
    fn so_many_are_known_and_none_of_before_a_reset() {
        let (origins, id) = (Origins::default(), session());
        let from = |seq| Origin::Session(session(), seq);
        for seq in 1..=KEPT_MAX as u64 + 10 {
            let target = origins.of(&id);
            target.lock().keep(seq, from(seq));
        }
        assert!(origins.find(&id, 10, 5_000).is_none());
        assert!(matches!(origins.find(&id, 11, 5_000), Some(Origin::Session(_, 11))));
        origins.forget(&id);
        assert!(origins.find(&id, 11, 5_000).is_none());
    }

    /// Whoever rejects what was never sent, or what was sent long ago, holds up nobody.
    #[test]
    fn only_a_number_on_its_way_is_waited_for() {
        let (origins, id) = (Origins::default(), session());
        let target = origins.of(&id);
        target.lock().keep(5, Origin::Program("desk".to_owned(), Value::Null));
        target.lock().under_way = 1;
        // It waits for what nobody notes.
        let waits = || {
            let begin_ns = transfix::clock::monotonic_ns();
            assert!(origins.find(&id, 6, 7).is_none());
            transfix::clock::monotonic_ns() - begin_ns
        };
        assert!(waits() >= NUMBER_WAIT.as_nanos() as u64);
        target.lock().under_way = 0;
        assert!(origins.find(&id, 4, 7).is_none() && origins.find(&id, 7, 7).is_none());
        target.lock().under_way = 1;
        std::thread::scope(|threads| {
            let found = threads.spawn(|| origins.find(&id, 6, 7));
            let mut all = target.lock();
            all.keep(6, Origin::Session(session(), 3));
            all.under_way = 0;
            drop(all);
            target.noted.notify_all();
            assert!(matches!(found.join().unwrap(), Some(Origin::Session(_, 3))));
        });
    }
}
