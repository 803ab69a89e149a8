//! The queue of calls that were passed to an application in its own threads.
//!
//! Invariants: the application receives its calls in the order of submission. A call stays in this
//! queue until its end is reported to the session.

use std::collections::VecDeque;

use crate::{ApplicationSettings, WhenFull};

/// Number of calls above which a burst is assumed to leave unused memory. `Handed::trim` keeps room
/// for this number of calls.
const CALLS_KEPT: usize = 256;
const BYTES_KEPT: usize = 32 << 10;

/// A call that was passed to the application.
#[derive(Clone, Copy, Debug, Default)]
pub struct HandedCall {
    /// Number of the call's message; 0 if the call has no message, or if the number is no longer
    /// valid.
    pub seq: u64,
    /// Length of the call's message or frame, in bytes.
    pub bytes: usize,
    /// True if the call is for a message that the application must answer.
    pub is_message: bool,
    /// True if the call counts toward `messages_max`.
    pub counts: bool,
    /// True if the message is already committed as delivered, although the call may still run.
    pub is_counted: bool,
    /// True if the session will ignore the result of the call.
    pub is_void: bool,
}

impl HandedCall {
    /// Returns the number of the message; `None` if the call has no valid number, or if the message
    /// already counts as delivered.
    fn number(&self) -> Option<u64> {
        Some(self.seq).filter(|seq| *seq > 0 && !self.is_counted)
    }
}

/// The calls that were passed to the application and have not ended.
#[derive(Debug)]
pub(super) struct Handed {
    calls: VecDeque<HandedCall>,
    /// Total bytes of the messages and frames of all calls.
    bytes: usize,
    /// Number of calls that count toward `messages_max`.
    messages: usize,
    limits: ApplicationSettings,
    /// True from the time a limit is reached until the queue has fallen to half of both limits.
    is_full: bool,
    /// True if the application was not available for the first call, which will be repeated.
    is_halted: bool,
    /// Number of the message during which the application panicked, 0 for a call without a message;
    /// `None` if it has not panicked.
    panicked_at: Option<u64>,
    /// True if a turn of the session is requested for the time when the queue has room again.
    awaits_room: bool,
    /// True if a turn of the session is requested for the time when the application becomes idle.
    awaits_rest: bool,
    /// True if a turn of the session is requested for the time when the current call ends.
    awaits_return: bool,
    /// True if a requested condition has occurred, so that a turn of the session is due.
    is_owed: bool,
    /// True if a burst has left far more memory than the queue needs.
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

    /// Appends a call.
    pub(super) fn put(&mut self, call: HandedCall) {
        self.bytes += call.bytes;
        self.messages += usize::from(call.counts);
        self.calls.push_back(call);
        let (messages, bytes) = self.waiting();
        self.is_full |= messages >= self.limits.messages_max || bytes >= self.limits.bytes_max;
        self.awaits_room |= self.is_full;
        self.is_bulky |= self.calls.len() > CALLS_KEPT || self.bytes > BYTES_KEPT;
    }

    /// Removes and returns the first call, after the call has ended.
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

    /// Ends the state "full" when at most half of both limits is in use.
    fn note_room(&mut self) {
        let (messages, bytes) = self.waiting();
        if messages <= self.limits.messages_max / 2 && bytes <= self.limits.bytes_max / 2 {
            self.is_full = false;
        }
    }

    /// Returns the number and total bytes of the waiting messages and frames, without those of the
    /// first call, which is running.
    pub(super) fn waiting(&self) -> (usize, usize) {
        let first = self.calls.front().copied().unwrap_or_default();
        (self.messages - usize::from(first.counts), self.bytes - first.bytes)
    }

    /// Returns the total bytes of the messages and frames of all calls.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true from the time a limit is reached until the queue has fallen to half of both
    /// limits.
    pub(super) const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns true if the limits are exceeded.
    pub(super) fn is_over(&self) -> bool {
        let (messages, bytes) = self.waiting();
        messages > self.limits.messages_max || bytes > self.limits.bytes_max
    }

    /// Returns true if the session stops reading while the queue is full.
    pub(super) fn waits_when_full(&self) -> bool {
        self.limits.when_full == WhenFull::Wait
    }

    /// Returns true if all calls have ended, and the application has not panicked.
    pub(super) fn is_idle(&self) -> bool {
        self.calls.is_empty() && self.panicked_at.is_none()
    }

    /// Returns true if the application is idle and stays idle, even if a message for which it was
    /// not available still waits. Otherwise the method requests a turn of the session for the time
    /// when the application becomes idle.
    pub(super) fn ask_for_idle(&mut self) -> bool {
        let stands = self.is_still();
        self.awaits_rest |= !stands;
        stands
    }

    fn is_still(&self) -> bool {
        // After a panic the application still receives events, such as the end of the connection.
        let has_panicked = self.panicked_at.is_some();
        let is_stopped = |first: &HandedCall| self.is_halted || (has_panicked && first.is_message);
        self.calls.front().is_none_or(is_stopped)
    }

    /// Requests a turn of the session for the time when the current call ends.
    pub(super) const fn await_return(&mut self) {
        self.awaits_return = true;
    }

    /// Returns true if a turn of the session is due, and clears the request.
    pub(super) fn owes_turn(&mut self) -> bool {
        let has_room = self.awaits_room && !self.is_full;
        let rests = self.awaits_rest && self.is_still();
        self.awaits_room &= !has_room;
        self.awaits_rest &= !rests;
        std::mem::take(&mut self.is_owed) || has_room || rests
    }

    /// Records that the application has panicked while handling the message with this number; 0
    /// means no message. The application receives no more messages. Returns the number that belongs
    /// to the first panic.
    pub(super) fn panicked(&mut self, seq: u64) -> u64 {
        *self.panicked_at.get_or_insert(seq)
    }

    /// Records that the application was not available for the first call.
    pub(super) const fn halt(&mut self) {
        self.is_halted = true;
        self.owe_turn();
    }

    /// Requests a turn of the session at once.
    pub(super) const fn owe_turn(&mut self) {
        self.is_owed = true;
    }

    /// Allows the first call to be repeated or skipped. Returns true if the application was not
    /// available for this call.
    pub(super) const fn end_halt(&mut self) -> bool {
        std::mem::replace(&mut self.is_halted, false)
    }

    pub(super) const fn is_halted(&self) -> bool {
        self.is_halted
    }

    /// Returns the lowest number of a message that does not yet count as delivered.
    pub(super) fn first_seq(&self) -> Option<u64> {
        self.calls.iter().find_map(HandedCall::number)
    }

    /// Returns the number of the running call's message; `None` if the message already counts as
    /// delivered.
    pub(super) fn running_seq(&self) -> Option<u64> {
        self.calls.front().and_then(HandedCall::number)
    }

    /// Counts the message of the running call as delivered. Returns false if the number of that
    /// message is not `seq`.
    pub(super) fn count(&mut self, seq: u64) -> bool {
        let Some(first) = self.calls.front_mut().filter(|first| first.seq == seq) else {
            return false;
        };
        first.is_counted = true;
        true
    }

    /// Returns the highest message number among the first `begun` calls.
    pub(super) fn last_seq(&self, begun: usize) -> Option<u64> {
        self.calls.iter().take(begun).map(|call| call.seq).filter(|seq| *seq > 0).max()
    }

    /// Discards the first `begun` calls. If the last of these calls still runs (`runs`), its result
    /// will be ignored.
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

    /// Invalidates the numbers of all messages after a reset.
    pub(super) fn forget_numbers(&mut self) {
        self.calls.iter_mut().for_each(|call| call.seq = 0);
    }

    /// Returns true if the call at index `place` has a message that does not yet count as
    /// delivered.
    pub(super) fn is_numbered(&self, place: usize) -> bool {
        self.calls.get(place).is_some_and(|call| call.number().is_some())
    }

    /// Drops the calls after the first `begun` calls whose messages do not yet count as delivered.
    pub(super) fn forget_numbered(&mut self, begun: usize) {
        self.is_halted &= !self.is_numbered(begun);
        self.retain(begun, |call| call.number().is_none());
    }

    /// Drops all calls for messages, and discards the first `begun` calls.
    pub(super) fn clear(&mut self, begun: usize, runs: bool) {
        self.undo(begun, runs);
        self.retain(usize::from(runs), |call| !call.is_message);
        (self.is_halted, self.panicked_at) = (false, None);
    }

    /// Keeps the first `begun` calls, and those later calls for which `stays` returns true.
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

    /// Returns true if the queue has far more memory than its content needs.
    pub(super) const fn is_bulky(&self) -> bool {
        self.is_bulky
    }

    /// Releases memory that a burst has left unused.
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
        assert!(all.ask_for_idle() && !all.owes_turn(), "there was nothing to wait for");
        all.put(message(2));
        assert!(!all.ask_for_idle() && !all.owes_turn());
        assert_eq!(all.take_first().map(|had| had.seq), Some(2));
        assert!(all.owes_turn() && !all.owes_turn());
        assert!(all.ask_for_idle());
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
        // The first call is running, and is not counted as waiting.
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
        assert!(!all.ask_for_idle(), "the event is still to be told");
        all.take_first();
        assert!(all.ask_for_idle() && !all.is_idle());
        all.clear(0, false);
        assert!(all.is_idle());
    }
}
