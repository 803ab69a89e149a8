//! One replica of the simulated stream: a Raft log, and the messages that were applied from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An entry of the Raft log.
#[derive(Debug)]
pub(super) struct Entry {
    /// The term of the leader that proposed the entry.
    pub(super) term: u64,
    /// The sequence number of the last message in the stream after this entry.
    pub(super) place: u64,
    pub(super) change: Change,
}

#[derive(Debug)]
pub(super) enum Change {
    Append { subject: usize, bytes: Vec<u8> },
    Purge { subject: usize, before: u64 },
}

impl Entry {
    fn subject(&self) -> Option<usize> {
        match self.change {
            Change::Append { subject, .. } => Some(subject),
            Change::Purge { .. } => None,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match &self.change {
            Change::Append { bytes, .. } => bytes,
            Change::Purge { .. } => &[],
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Replica {
    pub(super) is_up: bool,
    /// The term in which this replica was elected last.
    pub(super) term: u64,
    pub(super) log: Vec<Arc<Entry>>,
    pub(super) applied: usize,
    /// The messages by subject and place.
    pub(super) messages: BTreeMap<(usize, u64), Arc<Entry>>,
}

impl Replica {
    /// Returns the sequence number of the last message of the log.
    pub(super) fn end(&self) -> u64 {
        self.log.last().map_or(0, |entry| entry.place)
    }

    /// Returns the term and the length of the log; a voter compares them.
    pub(super) fn age(&self) -> (u64, usize) {
        (self.log.last().map_or(0, |entry| entry.term), self.log.len())
    }

    /// Takes the leader's log over, in place of entries that the leader does not have.
    pub(super) fn copy_log(&mut self, leader: &[Arc<Entry>]) {
        let mut same = self.log.len().min(leader.len());
        while same > 0 && !Arc::ptr_eq(&self.log[same - 1], &leader[same - 1]) {
            same -= 1;
        }
        self.log.truncate(same);
        self.log.extend_from_slice(&leader[same..]);
        if self.applied > same {
            // Only a leader that applies before a quorum has the entries comes here.
            self.applied = 0;
            self.messages.clear();
            self.apply(same);
        }
    }

    /// Applies the first `end` entries of the log.
    pub(super) fn apply(&mut self, end: usize) {
        while self.applied < end.min(self.log.len()) {
            let entry = &self.log[self.applied];
            self.applied += 1;
            match entry.change {
                Change::Append { subject, .. } => {
                    self.messages.insert((subject, entry.place), Arc::clone(entry));
                }
                Change::Purge { subject, before } => {
                    self.messages.retain(|(at, place), _| *at != subject || *place >= before);
                }
            }
        }
    }

    /// Returns the last message of the subject.
    pub(super) fn last(&self, subject: usize) -> Option<&Arc<Entry>> {
        self.messages.range((subject, 0)..(subject + 1, 0)).next_back().map(|(_, entry)| entry)
    }

    /// Returns the last message of the subject before this place.
    pub(super) fn before(&self, subject: usize, place: u64) -> u64 {
        let mut range = self.messages.range((subject, 0)..(subject, place));
        range.next_back().map_or(0, |((_, place), _)| *place)
    }

    /// Returns the messages of the subject from this place on.
    pub(super) fn from(&self, subject: usize, place: u64) -> impl Iterator<Item = &Arc<Entry>> {
        self.messages.range((subject, place)..(subject + 1, 0)).map(|(_, entry)| entry)
    }

    /// Returns the place that an append must expect: that of the last message, applied or not.
    pub(super) fn expected(&self, subject: usize) -> u64 {
        let ahead = self.log[self.applied..].iter().rev();
        let ahead = ahead.into_iter().find(|entry| entry.subject() == Some(subject));
        ahead.or_else(|| self.last(subject)).map_or(0, |entry| entry.place)
    }

    /// Loses up to `count` messages from this one on, as all subjects together count. The last
    /// message that a subject then has is none of `expected`, or is the last one as before. Returns
    /// how many messages are lost.
    pub(super) fn lose(&mut self, first: usize, count: usize, expected: &[(usize, u64)]) -> usize {
        let mut places: Vec<_> = self.messages.keys().copied().collect();
        places.sort_by_key(|(_, place)| *place);
        let lost = places.into_iter().skip(first).take(count);
        let mut lost: BTreeMap<_, _> =
            lost.filter_map(|key| self.messages.remove_entry(&key)).collect();
        let subjects: BTreeSet<usize> = lost.keys().map(|(subject, _)| *subject).collect();
        for subject in subjects {
            loop {
                let last = self.last(subject).map_or(0, |entry| entry.place);
                let next = lost.range((subject, last)..(subject + 1, 0)).next();
                let Some((key, _)) = next.filter(|_| expected.contains(&(subject, last))) else {
                    break;
                };
                let key = *key;
                self.messages.extend(lost.remove_entry(&key));
            }
        }
        lost.len()
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }
}
