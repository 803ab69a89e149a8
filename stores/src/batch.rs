//! The combined changes of a batch of records, sorted by kind instead of order of arrival.

use std::collections::BTreeMap;

use transfix_store::{Kind, Numbers, Record};

/// The direction of a message: sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Outbound messages.
    Outbound,
    /// Inbound messages.
    Inbound,
}

/// A stored message with its kind and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub(crate) kind: Kind,
    pub(crate) time_ns: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The changes of a batch. A server applies them in this order: reset, hide, write. Changes of the
/// queue and notes do not depend on the others.
#[derive(Debug)]
pub struct Batch {
    /// The sequence numbers after the batch.
    pub(crate) numbers: Numbers,
    /// True if the batch contains a reset, so that earlier messages are no longer found.
    pub(crate) resets: bool,
    /// Number from which on earlier outbound messages are no longer found; 0 means none.
    pub(crate) hides_from: u64,
    pub(crate) messages: BTreeMap<(Direction, u64), Kept>,
    /// The queued messages up to and including this ticket are removed from the queue; 0 means
    /// none.
    pub(crate) unqueued: u64,
    pub(crate) queued: BTreeMap<u64, Kept>,
    pub(crate) notes: Vec<(u64, String)>,
    /// The time of the latest record, in UTC nanoseconds since 1970; 0 for an empty batch.
    pub(crate) time_ns: u64,
    is_empty: bool,
}

impl Batch {
    pub(crate) fn new(numbers: Numbers) -> Self {
        Self {
            numbers,
            resets: false,
            hides_from: 0,
            messages: BTreeMap::new(),
            unqueued: 0,
            queued: BTreeMap::new(),
            notes: Vec::new(),
            time_ns: 0,
            is_empty: true,
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Returns true if the batch hides or changes messages that were stored before.
    pub(crate) const fn undoes(&self) -> bool {
        self.resets || self.hides_from > 0
    }

    /// Returns true if the batch changes the queue.
    pub(crate) fn queues(&self) -> bool {
        self.unqueued > 0 || !self.queued.is_empty()
    }

    pub(crate) fn add(&mut self, time_ns: u64, record: &Record<'_>) {
        self.is_empty = false;
        self.time_ns = self.time_ns.max(time_ns);
        let kept = |kind, bytes: &[u8]| Kept { kind, time_ns, bytes: bytes.to_vec() };
        match *record {
            Record::Outbound { seq, kind, bytes } => {
                self.hide(seq);
                self.messages.insert((Direction::Outbound, seq), kept(kind, bytes));
                self.numbers.next_out = seq + 1;
            }
            Record::Inbound { seq, kind, bytes } => {
                self.messages.insert((Direction::Inbound, seq), kept(kind, bytes));
            }
            Record::NextIn(seq) => self.numbers.next_in = seq,
            Record::NextOut(seq) => {
                self.hide(seq);
                self.numbers.next_out = seq;
            }
            Record::Reset => {
                self.messages.clear();
                (self.resets, self.hides_from) = (true, 0);
                self.numbers = Numbers::fresh(time_ns);
            }
            Record::Queued { ticket, bytes } => {
                self.queued.insert(ticket, kept(Kind::Application, bytes));
            }
            Record::Unqueued(last) => {
                self.queued.retain(|ticket, _| *ticket > last);
                self.unqueued = self.unqueued.max(last);
            }
            Record::Note(text) => self.notes.push((time_ns, text.to_owned())),
        }
    }

    /// Appends the changes of a later batch.
    pub(crate) fn join(&mut self, later: Self) {
        let Self {
            numbers, resets, hides_from, messages, unqueued, queued, notes, time_ns, ..
        } = later;
        if resets {
            self.messages.clear();
            (self.resets, self.hides_from) = (true, 0);
        }
        if hides_from > 0 {
            self.hide_from(hides_from);
        }
        self.messages.extend(messages);
        self.queued.retain(|ticket, _| *ticket > unqueued);
        self.unqueued = self.unqueued.max(unqueued);
        self.queued.extend(queued);
        self.notes.extend(notes);
        self.numbers = numbers;
        self.time_ns = self.time_ns.max(time_ns);
        self.is_empty = false;
    }

    fn hide(&mut self, from: u64) {
        if from >= self.numbers.next_out {
            return;
        }
        self.hide_from(from);
    }

    fn hide_from(&mut self, from: u64) {
        self.hides_from = if self.hides_from == 0 { from } else { self.hides_from.min(from) };
        let beyond = (Direction::Outbound, from)..(Direction::Inbound, 0);
        let hidden: Vec<_> = self.messages.range(beyond).map(|(key, _)| *key).collect();
        for key in hidden {
            self.messages.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_records_is_kept_in_what_they_come_to() {
        let out = |seq| Record::Outbound { seq, kind: Kind::Admin, bytes: b"x" };
        for (records, next_out, hides_from, left) in [
            (vec![out(5), out(6)], 7, 0, vec![5, 6]),
            (vec![out(5), Record::NextOut(3), Record::NextOut(9)], 9, 3, vec![]),
            (vec![out(5), Record::NextOut(9), out(9)], 10, 0, vec![5, 9]),
            (vec![out(4), out(5), out(4)], 5, 4, vec![4]),
            (vec![out(5), Record::Reset, out(1)], 2, 0, vec![1]),
        ] {
            let mut batch = Batch::new(Numbers { next_in: 1, next_out: 5, created_ns: 0 });
            records.iter().for_each(|record| batch.add(1, record));
            let numbers: Vec<u64> = batch.messages.keys().map(|(_, seq)| *seq).collect();
            assert_eq!(
                (batch.numbers.next_out, batch.hides_from, numbers),
                (next_out, hides_from, left),
                "{records:?}"
            );
        }
    }

    #[test]
    fn batches_that_are_joined_come_to_what_one_would() {
        let out = |seq, bytes| Record::Outbound { seq, kind: Kind::Admin, bytes };
        let queued = |ticket| Record::Queued { ticket, bytes: b"q" };
        let all = [
            out(5, b"a"),
            queued(1),
            out(6, b"b"),
            out(5, b"c"),
            Record::Unqueued(1),
            queued(2),
            Record::NextOut(9),
            Record::NextOut(3),
            Record::Reset,
            out(1, b"d"),
            Record::Note("n"),
            Record::NextOut(1),
            Record::Unqueued(7),
            queued(1),
        ];
        for end in 1..=all.len() {
            let numbers = Numbers { next_in: 1, next_out: 5, created_ns: 0 };
            let mut one = Batch::new(numbers);
            all[..end].iter().for_each(|record| one.add(1, record));
            for middle in 0..=end {
                let mut first = Batch::new(numbers);
                all[..middle].iter().for_each(|record| first.add(1, record));
                let mut second = Batch::new(first.numbers);
                all[middle..end].iter().for_each(|record| second.add(1, record));
                first.join(second);
                assert_eq!(format!("{first:?}"), format!("{one:?}"), "{middle} of {end}");
            }
        }
    }

    #[test]
    fn what_waits_is_apart_from_the_numbers() {
        let mut batch = Batch::new(Numbers::fresh(0));
        for ticket in 1..=3 {
            batch.add(1, &Record::Queued { ticket, bytes: b"x" });
        }
        batch.add(1, &Record::Unqueued(2));
        batch.add(1, &Record::Reset);
        assert_eq!((batch.queued.len(), batch.unqueued), (1, 2));
        assert!(batch.undoes() && !batch.is_empty());
    }
}
