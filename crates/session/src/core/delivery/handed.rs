//! The calls that were handed over to an application in threads of its own.
//!
//! Invariants: the application has its calls in the order in which they were handed over; one stays
//! here until the session has been told that the application has had it.

use std::collections::VecDeque;

use crate::{ApplicationSettings, WhenFull};

/// Calls and bytes above which a burst leaves memory behind, and the room that is kept.
const CALLS_KEPT: usize = 256;
const BYTES_KEPT: usize = 32 << 10;

/// A call that was handed over.
#[derive(Clone, Copy, Debug, Default)]
pub struct HandedCall {
    /// Number of a message; 0 if that means nothing any more, or there is none.
    pub seq: u64,
    /// Bytes of the message or the frame.
    pub bytes: usize,
    /// The call is for a message that the application answers.
    pub is_message: bool,
    /// It counts toward `messages_max`.
    pub counts: bool,
    /// The message is committed as taken, though the application may still be called for it.
    pub is_counted: bool,
    /// The session does not heed what the application makes of it.
    pub is_void: bool,
}

impl HandedCall {
    /// The number of a message that has not been taken yet.
    fn number(&self) -> Option<u64> {
        Some(self.seq).filter(|seq| *seq > 0 && !self.is_counted)
    }
}

/// Calls that were handed over, and not had yet.
#[derive(Debug)]
pub(super) struct Handed {
    calls: VecDeque<HandedCall>,
    /// Bytes of all of them.
    bytes: usize,
    /// Those for which `counts` is true.
    messages: usize,
    limits: ApplicationSettings,
    /// As many wait as may, and half of them have not been had since.
    is_full: bool,
    /// The application is not available for the first one.
    is_halted: bool,
    /// The application has panicked at the message with this number; 0 if it was at none.
    panicked_at: Option<u64>,
    /// A turn is wanted when there is room again.
    awaits_room: bool,
    /// A turn is wanted when the application is called for nothing more.
    awaits_rest: bool,
    /// A turn is wanted when the application has returned from its call.
    awaits_return: bool,
    /// A turn is wanted now.
    is_owed: bool,
    /// Far more was handed over than usual, and the memory for it is still there.
    is_bulky: bool,
}

impl Handed {
    pub(super) const fn new(limits: ApplicationSettings) -> Self {
        Self {
            calls: VecDeque::new(),
            bytes: 0,
            messages: 0,
            limits,
            is_full: false,
            is_halted: false,
            panicked_at: None,
            awaits_room: false,
            awaits_rest: false,
            awaits_return: false,
            is_owed: false,
            is_bulky: false,
        }
    }

    /// One more was handed over.
    pub(super) fn put(&mut self, call: HandedCall) {
        self.bytes += call.bytes;
        self.messages += usize::from(call.counts);
        self.calls.push_back(call);
        let (messages, bytes) = self.waiting();
        self.is_full |= messages >= self.limits.messages_max || bytes >= self.limits.bytes_max;
        self.awaits_room |= self.is_full;
        self.is_bulky |= self.calls.len() > CALLS_KEPT || self.bytes > BYTES_KEPT;
    }

    /// The application has had the first one, which is taken out.
    pub(super) fn take_first(&mut self) -> Option<HandedCall> {
        let first = self.calls.pop_front()?;
        self.discount(first);
        self.note_room();
        self.is_owed |= std::mem::take(&mut self.awaits_return);
        Some(first)
    }

    const fn discount(&mut self, call: HandedCall) {
        self.bytes -= call.bytes;
        self.messages -= call.counts as usize;
    }

    /// There is room again when half of what may wait is done.
    fn note_room(&mut self) {
        let (messages, bytes) = self.waiting();
        if messages <= self.limits.messages_max / 2 && bytes <= self.limits.bytes_max / 2 {
            self.is_full = false;
        }
    }

    /// How many messages and frames wait, and their bytes. The first is left out: the application
    /// is called for it.
    pub(super) fn waiting(&self) -> (usize, usize) {
        let first = self.calls.front().copied().unwrap_or_default();
        (self.messages - usize::from(first.counts), self.bytes - first.bytes)
    }

    /// Bytes of all that was handed over.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if as many wait as may.
    pub(super) const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns true if more wait than may.
    pub(super) fn is_over(&self) -> bool {
        let (messages, bytes) = self.waiting();
        messages > self.limits.messages_max || bytes > self.limits.bytes_max
    }

    /// Returns true if no more is to be read while [`Handed::is_full`].
    pub(super) fn waits_when_full(&self) -> bool {
        self.limits.when_full == WhenFull::Wait
    }

    /// Returns true if the application has had everything, and can be called.
    pub(super) fn is_idle(&self) -> bool {
        self.calls.is_empty() && self.panicked_at.is_none()
    }

    /// Returns true if nothing more comes from the application by itself: what it is not available
    /// for may wait. If not, a turn is wanted when it is so.
    pub(super) fn await_idle(&mut self) -> bool {
        let stands = self.is_still();
        self.awaits_rest |= !stands;
        stands
    }

    fn is_still(&self) -> bool {
        // An application that has panicked still gets events, such as the end of the connection.
        let has_panicked = self.panicked_at.is_some();
        let is_stopped = |first: &HandedCall| self.is_halted || (has_panicked && first.is_message);
        self.calls.front().is_none_or(is_stopped)
    }

    /// A turn is wanted when the application has returned from the call that it is in.
    pub(super) const fn await_return(&mut self) {
        self.awaits_return = true;
    }

    /// Returns true if a turn is wanted now; says so once.
    pub(super) fn owes_turn(&mut self) -> bool {
        let has_room = self.awaits_room && !self.is_full;
        let rests = self.awaits_rest && self.is_still();
        self.awaits_room &= !has_room;
        self.awaits_rest &= !rests;
        std::mem::take(&mut self.is_owed) || has_room || rests
    }

    /// The application has panicked at the message with this number, or 0 for none, if it has not
    /// before: it is called for no more messages. Returns the number.
    pub(super) fn panicked(&mut self, seq: u64) -> u64 {
        *self.panicked_at.get_or_insert(seq)
    }

    /// The application is not available for the first one.
    pub(super) const fn halt(&mut self) {
        self.is_halted = true;
        self.owe_turn();
    }

    /// A turn is wanted now.
    pub(super) const fn owe_turn(&mut self) {
        self.is_owed = true;
    }

    /// The first one is offered again, or passed over. Returns whether it waited for that.
    pub(super) const fn end_halt(&mut self) -> bool {
        std::mem::replace(&mut self.is_halted, false)
    }

    pub(super) const fn is_halted(&self) -> bool {
        self.is_halted
    }

    /// The lowest number of a message that does not count as taken yet.
    pub(super) fn first_seq(&self) -> Option<u64> {
        self.calls.iter().find_map(HandedCall::number)
    }

    /// The number of the message that the application is called for, if it does not count as taken
    /// yet.
    pub(super) fn running_seq(&self) -> Option<u64> {
        self.calls.front().and_then(HandedCall::number)
    }

    /// The message with this number, which the application was called for, counts as taken. Returns
    /// whether the number still names it.
    pub(super) fn count(&mut self, seq: u64) -> bool {
        let Some(first) = self.calls.front_mut().filter(|first| first.seq == seq) else {
            return false;
        };
        first.is_counted = true;
        true
    }

    /// The highest number among the first `begun` calls.
    pub(super) fn last_seq(&self, begun: usize) -> Option<u64> {
        self.calls.iter().take(begun).map(|call| call.seq).filter(|seq| *seq > 0).max()
    }

    /// The first `begun` calls do not count. The last of them stays if the application is in it.
    pub(super) fn undo(&mut self, begun: usize, runs: bool) {
        for _ in 0..begun - usize::from(runs) {
            if let Some(first) = self.calls.pop_front() {
                self.discount(first);
            }
        }
        if let Some(running) = self.calls.front_mut().filter(|_| runs) {
            (running.seq, running.is_void) = (0, true);
        }
        self.note_room();
    }

    /// The numbers have been reset: those of the messages mean nothing any more.
    pub(super) fn forget_numbers(&mut self) {
        self.calls.iter_mut().for_each(|call| call.seq = 0);
    }

    /// Returns true if the call at this place is for a message with a number.
    pub(super) fn is_numbered(&self, place: usize) -> bool {
        self.calls.get(place).is_some_and(|call| call.number().is_some())
    }

    /// Drops messages with a number, behind the first `begun` calls.
    pub(super) fn forget_numbered(&mut self, begun: usize) {
        self.is_halted &= !self.is_numbered(begun);
        self.retain(begun, |call| call.number().is_none());
    }

    /// No message counts or waits any more.
    pub(super) fn clear(&mut self, begun: usize, runs: bool) {
        self.undo(begun, runs);
        self.retain(usize::from(runs), |call| !call.is_message);
        (self.is_halted, self.panicked_at) = (false, None);
    }

    /// Keeps the first `begun` calls, and of the others those that are to stay.
    fn retain(&mut self, begun: usize, stays: impl Fn(&HandedCall) -> bool) {
        let mut place = 0;
        self.calls.retain(|call| {
            place += 1;
            let stays = place <= begun || stays(call);
            if !stays {
                self.bytes -= call.bytes;
                self.messages -= usize::from(call.counts);
            }
            stays
        });
        self.is_full = false;
    }

    /// Returns true if a burst has left memory behind.
    pub(super) const fn is_bulky(&self) -> bool {
        self.is_bulky
    }

    /// Gives back the memory of a burst that is over.
    pub(super) fn trim(&mut self) {
        self.calls.shrink_to(CALLS_KEPT);
        self.is_bulky = self.calls.len() > CALLS_KEPT || self.bytes > BYTES_KEPT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handed(messages_max: usize) -> Handed {
        Handed::new(ApplicationSettings { messages_max, ..ApplicationSettings::default() })
    }

    fn message(seq: u64) -> HandedCall {
        HandedCall { seq, bytes: 100, is_message: true, counts: true, ..HandedCall::default() }
    }

    #[test]
    fn a_turn_is_owed_once_when_what_was_waited_for_has_come_about() {
        let mut all = handed(10);
        assert!(all.await_idle() && !all.owes_turn(), "there was nothing to wait for");
        all.put(message(2));
        assert!(!all.await_idle() && !all.owes_turn());
        assert_eq!(all.take_first().map(|had| had.seq), Some(2));
        assert!(all.owes_turn() && !all.owes_turn());
        assert!(all.await_idle());
        let mut all = handed(10);
        all.put(message(2));
        all.put(message(3));
        all.await_return();
        assert!(!all.owes_turn());
        all.take_first();
        assert!(all.owes_turn() && !all.owes_turn(), "it has returned from one call");
    }

    #[test]
    fn there_is_room_again_when_half_of_what_may_wait_is_done() {
        let mut all = handed(4);
        // The application is called for the first.
        (2..6).for_each(|seq| all.put(message(seq)));
        assert!(!all.is_full());
        all.put(message(6));
        assert!(all.is_full() && !all.is_over());
        assert_eq!(all.waiting(), (4, 400));
        all.take_first();
        assert!(all.is_full() && !all.owes_turn());
        all.take_first();
        assert!(!all.is_full() && all.owes_turn());
        (7..10).for_each(|seq| all.put(message(seq)));
        assert!(all.is_over());
    }

    #[test]
    fn what_has_not_begun_is_asked_for_again() {
        let mut all = handed(10);
        all.put(message(2));
        all.put(HandedCall::default());
        all.put(message(0));
        (3..5).for_each(|seq| all.put(message(seq)));
        all.forget_numbered(1);
        let left: Vec<u64> = std::iter::from_fn(|| all.take_first()).map(|call| call.seq).collect();
        assert_eq!(left, [2, 0, 0], "the call that has begun, an event, one of before a reset");
        assert_eq!((all.bytes(), all.waiting()), (0, (0, 0)));
    }

    #[test]
    fn what_is_undone_means_nothing() {
        let mut all = handed(10);
        (2..5).for_each(|seq| all.put(message(seq)));
        assert_eq!((all.last_seq(2), all.running_seq()), (Some(3), Some(2)));
        all.undo(2, true);
        assert_eq!(all.running_seq(), None, "the application is still in that call");
        assert!(all.take_first().is_some_and(|call| call.is_void));
        assert_eq!((all.first_seq(), all.bytes()), (Some(4), 100));
    }

    #[test]
    fn a_message_that_counts_is_not_the_first_any_more() {
        let mut all = handed(10);
        (2..4).for_each(|seq| all.put(message(seq)));
        assert!(all.count(2) && !all.count(3), "the application is not called for the other");
        assert_eq!((all.running_seq(), all.first_seq()), (None, Some(3)));
        all.forget_numbers();
        assert!(all.first_seq().is_none() && !all.count(3));
    }

    #[test]
    fn a_panic_leaves_the_events_to_be_told() {
        let mut all = handed(10);
        all.put(message(2));
        all.put(HandedCall::default());
        all.put(message(3));
        all.take_first();
        assert_eq!((all.panicked(2), all.panicked(0)), (2, 2), "the first one counts");
        assert!(!all.await_idle(), "the event is still to be told");
        all.take_first();
        assert!(all.await_idle() && !all.is_idle());
        all.clear(0, false);
        assert!(all.is_idle());
    }
}
