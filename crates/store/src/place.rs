//! The location of records: the segment, and the offset in the segment.

use std::ops::DerefMut;

use crate::format::Seal;
use crate::ledger::{Change, Ledger};
use crate::record::{LOGGED_ON, Record};

/// The location of a message: the beginning of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment: u32,
    pub(crate) offset: u32,
}

/// The segments in use; the last one is the one being written.
#[derive(Debug)]
pub(crate) struct Segments<M> {
    /// The number of the segment `maps[0]`.
    pub(crate) first: u64,
    pub(crate) maps: Vec<M>,
    /// The seal of the records of each segment, by which they are verified.
    seals: Vec<Seal>,
}

impl<M: DerefMut<Target = [u8]>> Segments<M> {
    /// Returns the total bytes of all segments in use.
    pub(crate) fn bytes(&self) -> usize {
        self.maps.iter().map(|map| map.len()).sum()
    }
}

impl<M> Segments<M> {
    /// Returns a list without segments; the first segment to be added will have the number `first`.
    pub(crate) const fn none(first: u64) -> Self {
        Self { first, maps: Vec::new(), seals: Vec::new() }
    }

    /// Appends a segment whose records are sealed with `seal`.
    pub(crate) fn push(&mut self, map: M, seal: Seal) {
        self.maps.push(map);
        self.seals.push(seal);
    }

    /// Returns the segment with this number and the seal of its records; `None` if the segment is
    /// no longer in use.
    pub(crate) fn find(&self, number: u64) -> Option<(&M, Seal)> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        Some((self.maps.get(at)?, *self.seals.get(at)?))
    }

    pub(crate) fn last_number(&self) -> u64 {
        self.first + self.maps.len() as u64 - 1
    }

    pub(crate) fn drop_before(&mut self, first: u64) {
        let dropped = ..(first - self.first) as usize;
        self.maps.drain(dropped);
        self.seals.drain(dropped);
        self.first = first;
    }

    pub(crate) fn last(&mut self) -> &mut M {
        self.maps.last_mut().expect("an open store has a segment")
    }
}

pub(crate) fn change_of(record: &Record<'_>, place: Place, now_ns: u64) -> Change<Place> {
    match *record {
        Record::Outbound { seq, .. } => Change::Outbound(seq, place),
        Record::Inbound { seq, .. } => Change::Inbound(seq, place),
        Record::NextIn(seq) => Change::NextIn(seq),
        Record::NextOut(seq) => Change::NextOut(seq),
        Record::Reset => Change::Reset { now_ns },
        Record::Queued { ticket, .. } => Change::Queued(ticket, place),
        Record::Unqueued(ticket) => Change::Unqueued(ticket),
        Record::Note(text) if text == LOGGED_ON => Change::LoggedOn { at_ns: now_ns },
        Record::Note(_) => Change::Nothing,
    }
}

/// Returns the number of the first segment that a store needs if its messages are found from
/// segment `border` on. Queued messages may be in an earlier segment.
pub(crate) fn first_needed(ledger: &Ledger<Place>, border: u64) -> u64 {
    ledger.waiting.first().map_or(border, |place| border.min(place.segment.into()))
}
