//! Finds messages in the records of a session.
//!
//! Records are found by bisection within a run, in which numbers only ascend. **Invariant:** each
//! record names its predecessor, so a missing record is an error, never an absent message.

use std::collections::VecDeque;
use std::sync::Arc;

use transfix_store::StoreError;

use super::Session;
use super::record::{Head, Reason, Stored};
use crate::batch::{Direction, Kept};
use crate::window::AHEAD;

/// Returns up to `limit` sent messages with numbers in `begin..end`, ascending.
pub(super) fn outbound(
    session: &Session,
    (begin, end): (u64, u64),
    limit: usize,
) -> Result<Vec<(u64, Kept)>, StoreError> {
    // The newest run has the highest numbers, so the result begins in the oldest run.
    let mut runs = Vec::new();
    let mut run = Some((session.last, session.head));
    let mut high = end.min(session.head.numbers.next_out);
    while let Some((last, head)) = run
        && begin < high
    {
        let low = head.run_out.max(begin);
        if low < high {
            runs.push((head.run.max(session.head.oldest), last, low, high));
        }
        high = high.min(head.run_out);
        run = earlier(session, &head)?;
    }
    let mut found = Vec::new();
    for (first, last, low, high) in runs.into_iter().rev() {
        let range = session.places.around(low, (first, last));
        let Some(start) = first_where(session, range, |head| head.numbers.next_out > low)? else {
            continue;
        };
        let mut walk = Walk::from(session, start, last)?;
        'run: while let Some(batch) = walk.next()? {
            for ((direction, seq), kept) in batch.iter().flat_map(|stored| &stored.changes.messages)
            {
                match direction {
                    Direction::Inbound => {}
                    Direction::Outbound if *seq >= high => break 'run,
                    Direction::Outbound if *seq < low => {}
                    Direction::Outbound => found.push((*seq, kept.clone())),
                }
                if found.len() == limit {
                    return Ok(found);
                }
            }
        }
    }
    Ok(found)
}

/// Returns the received message with this number.
pub(super) fn inbound(session: &Session, seq: u64) -> Result<Vec<(u64, Kept)>, StoreError> {
    let mut run = Some((session.last, session.head));
    while let Some((last, head)) = run {
        if head.in_end > seq
            && let range = (head.run.max(session.head.oldest), last)
            && let Some(start) = first_where(session, range, |head| head.in_end > seq)?
        {
            let end = start.place;
            let batch = Walk::from(session, start, end)?.next()?.unwrap_or_default();
            let key = (Direction::Inbound, seq);
            if let Some(kept) = batch.iter().find_map(|stored| stored.changes.messages.get(&key)) {
                return Ok(vec![(seq, kept.clone())]);
            }
        }
        run = earlier(session, &head)?;
    }
    Ok(Vec::new())
}

/// Returns all queued messages, ascending: ticket, place of the commit's first record, message.
pub(super) fn queue(session: &Session) -> Result<Vec<(u64, u64, Kept)>, StoreError> {
    if session.head.queue == 0 {
        return Ok(Vec::new());
    }
    let start = exact(session, session.head.queue)?;
    let mut walk = Walk::from(session, start, session.last)?;
    let mut queue = std::collections::BTreeMap::new();
    while let Some(batch) = walk.next()? {
        let unqueued = batch.iter().map(|stored| stored.changes.unqueued).max().unwrap_or(0);
        queue.retain(|ticket, _| *ticket > unqueued);
        let first = batch[0].place;
        let queued = batch.iter().flat_map(|stored| &stored.changes.queued);
        queue.extend(queued.map(|(ticket, kept)| (*ticket, (first, kept.clone()))));
    }
    Ok(queue.into_iter().map(|(ticket, (place, kept))| (ticket, place, kept)).collect())
}

/// Returns the place of the first record that has this time or a later one.
pub(super) fn first_since(session: &Session, time_ns: u64) -> Result<Option<u64>, StoreError> {
    let range = (session.head.oldest, session.last);
    let found = first_where(session, range, |head| head.time_ns >= time_ns)?;
    Ok(found.map(|stored| stored.place))
}

/// Returns the last record before the run of this head, unless the run began with a reset, or
/// earlier records are deleted.
fn earlier(session: &Session, head: &Head) -> Result<Option<(u64, Head)>, StoreError> {
    let oldest = session.head.oldest;
    if head.run_out == 0 || head.run <= oldest {
        return Ok(None);
    }
    let mut first = exact(session, head.run)?;
    for _ in 0..first.head.parts {
        first = exact(session, first.head.previous)?;
    }
    if first.head.previous < oldest {
        return Ok(None);
    }
    let last = exact(session, first.head.previous)?;
    Ok(Some((last.place, last.head)))
}

/// Returns the record at this place.
fn exact(session: &Session, place: u64) -> Result<Arc<Stored>, StoreError> {
    let found = session.next(place)?;
    found.filter(|stored| stored.place == place).ok_or_else(|| session.lost(place))
}

/// Returns the first record from the place `first` on whose head passes the test. If a head passes,
/// all later heads pass.
fn first_where(
    session: &Session,
    (first, last): (u64, u64),
    test: impl Fn(&Head) -> bool,
) -> Result<Option<Arc<Stored>>, StoreError> {
    let mut found = exact(session, last)?;
    if !test(&found.head) {
        return Ok(None);
    }
    let (mut low, mut high) = (first, last);
    while low < high {
        let middle = low + (high - low) / 2;
        let stored = session.next(middle)?;
        let stored = stored.filter(|stored| stored.place <= found.place);
        let stored = stored.ok_or_else(|| session.lost(found.place))?;
        if test(&stored.head) {
            (found, high) = (stored, middle);
        } else {
            low = stored.place + 1;
        }
    }
    // A leader that has lost the first record returns a later one.
    if found.head.previous >= first && test(&exact(session, found.head.previous)?.head) {
        return Err(session.lost(found.head.previous));
    }
    Ok(Some(found))
}

/// Reads commits in order, each with all its parts.
struct Walk<'a> {
    session: &'a Session,
    /// Records that were read ahead.
    ahead: VecDeque<Arc<Stored>>,
    /// True if only the leader is asked, because another broker had too few records or was late.
    asks_leader: bool,
    /// The place of the last record returned, or 0 before the first.
    at: u64,
    /// The place of the last record to return.
    last: u64,
}

impl<'a> Walk<'a> {
    /// Begins at the first part of this record's commit.
    fn from(session: &'a Session, start: Arc<Stored>, last: u64) -> Result<Self, StoreError> {
        let mut ahead = VecDeque::from([start]);
        for _ in 0..ahead[0].head.parts {
            let part = exact(session, ahead[0].head.previous)?;
            ahead.push_front(part);
        }
        Ok(Self { session, ahead, asks_leader: false, at: 0, last })
    }

    fn next(&mut self) -> Result<Option<Vec<Arc<Stored>>>, StoreError> {
        let mut parts = Vec::new();
        while let Some(stored) = self.record()? {
            match stored.head.reason {
                Reason::Part => parts.push(stored),
                Reason::TakenOver => parts.clear(),
                Reason::Commit => {
                    // Parts of a commit that was never completed come before.
                    let own = (stored.head.parts as usize).min(parts.len());
                    let mut batch = parts.split_off(parts.len() - own);
                    batch.push(stored);
                    return Ok(Some(batch));
                }
            }
        }
        Ok(None)
    }

    fn record(&mut self) -> Result<Option<Arc<Stored>>, StoreError> {
        if self.at >= self.last {
            return Ok(None);
        }
        let next = self.at + 1;
        if self.ahead.is_empty() {
            // Only a walk of several records is worth a request for many.
            self.ahead.extend(self.session.cache.borrow().next(next));
        }
        if self.ahead.is_empty() && !self.asks_leader {
            self.ahead.extend(self.session.following(next, AHEAD)?.into_iter().map(Arc::new));
            // A late broker must not delay each record.
            self.asks_leader = self.ahead.len() < AHEAD;
        }
        let follows = |stored: &Arc<Stored>| self.at == 0 || stored.head.previous == self.at;
        let stored = match self.ahead.pop_front().filter(follows) {
            Some(stored) => stored,
            // The answer came from a broker that does not lead. The leader has every record.
            None => {
                self.ahead.clear();
                let found = self.session.ask_leader(next)?.map(Arc::new);
                found.filter(follows).ok_or_else(|| self.session.lost(next))?
            }
        };
        self.at = stored.place;
        Ok(Some(stored))
    }
}
