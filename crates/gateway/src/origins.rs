//! The origins of outbound messages, to which rejections of these messages are returned.
//!
//! Invariant: an origin always belongs to the message that now has the number. The numbers of a
//! session ascend; a lower number shows a reset, which discards all origins.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use transfix::{Sent, SessionId};

/// The number of messages remembered per session, more than a counterparty leaves unanswered.
const KEPT_MAX: usize = 1_000;

/// The origin of an outbound message.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// The message with this MsgSeqNum(34), received by this session.
    Session(SessionId, u64),
    /// The program at this socket, and its reference for the message.
    Program(String, Value),
}

#[derive(Default)]
struct OfTarget {
    /// The origins by MsgSeqNum(34). `None` means the gateway itself: a line of a file, or a
    /// forwarded rejection.
    by_seq: BTreeMap<u64, Option<Origin>>,
    /// The number of messages that were stored since the last logon, and are sent after the next
    /// one.
    stored: u64,
}

impl OfTarget {
    fn keep(&mut self, seq: u64, from: Option<Origin>) {
        if self.by_seq.last_key_value().is_some_and(|(last, _)| seq <= *last) {
            self.by_seq.clear();
        }
        self.by_seq.insert(seq, from);
        if self.by_seq.len() > KEPT_MAX {
            self.by_seq.pop_first();
        }
    }
}

/// The origins of outbound messages, by session. Clones share one state.
#[derive(Clone, Default)]
pub(super) struct Origins(Arc<Mutex<HashMap<SessionId, OfTarget>>>);

impl Origins {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, OfTarget>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a callback that notes the origin of a message sent by session `to`. The callback
    /// runs once the message has its number (`SendOptions::note`), before any rejection can arrive.
    pub(super) fn note(&self, to: &SessionId, mut from: Option<Origin>) -> impl FnMut(Sent) {
        move |sent| {
            let (Sent::Direct(seq) | Sent::Stored(seq)) = sent else { return };
            let mut all = self.lock();
            let target = all.entry(to.clone()).or_default();
            target.stored += u64::from(matches!(sent, Sent::Stored(_)));
            target.keep(seq, from.take());
        }
    }

    /// Returns the origin of the message with this MsgSeqNum(34), or `None` if it is unknown or no
    /// longer remembered.
    pub(super) fn find(&self, id: &SessionId, seq: u64) -> Option<Origin> {
        self.lock().get(id)?.by_seq.get(&seq).cloned().flatten()
    }

    /// Returns the number of messages that were stored for this session since its last logon, and
    /// sets the number to 0.
    pub(super) fn take_stored(&self, id: &SessionId) -> u64 {
        self.lock().get_mut(id).map_or(0, |target| std::mem::take(&mut target.stored))
    }

    /// Forgets all numbers from `next_out` on, which are from before a reset.
    pub(super) fn forget_from(&self, id: &SessionId, next_out: u64) {
        if let Some(target) = self.lock().get_mut(id) {
            target.by_seq.retain(|seq, _| *seq < next_out);
        }
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
        let note = |seq| {
            origins.note(&id, Some(Origin::Session(session(), seq + 500)))(Sent::Direct(seq));
        };
        let is_known = |seq: u64| match origins.find(&id, seq) {
            Some(Origin::Session(_, of)) => of == seq + 500,
            _ => false,
        };
        (1..=KEPT_MAX as u64 + 10).for_each(note);
        assert!(!is_known(10) && is_known(11) && is_known(1_010));
        // A lower number shows a reset, and so does `forget_from`.
        note(2);
        assert!(is_known(2) && !is_known(11) && !is_known(1_010));
        (3..=9).for_each(note);
        origins.forget_from(&id, 3);
        assert!(is_known(2) && !is_known(3) && !is_known(9));
        // A message from a file has no program to which a rejection could go.
        note(20);
        origins.note(&id, None)(Sent::Direct(20));
        assert!(!is_known(20) && !is_known(2));
    }

    #[test]
    fn what_is_stored_for_the_next_logon_is_counted() {
        let (origins, id) = (Origins::default(), session());
        for sent in [Sent::Stored(1), Sent::Stored(2), Sent::Queued { bytes: 9 }, Sent::Direct(3)] {
            origins.note(&id, None)(sent);
        }
        assert_eq!([origins.take_stored(&id), origins.take_stored(&id)], [2, 0]);
    }
}
