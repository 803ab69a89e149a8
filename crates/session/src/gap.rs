//! A gap in the counterparty's sequence numbers, and the messages received above the gap, which are
//! held until the gap is closed.
//!
//! Invariants:
//! - At most the configured count and bytes of messages are kept. A message that does not fit is
//!   dropped and requested again, because its number is still missing after the gap below is
//!   closed.
//! - One request is open at a time. A request without effect is repeated after the configured time,
//!   never sooner. Without the repetition a session could wait forever, if the ResendRequest(2) or
//!   a part of the answer was garbled.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::{ResendConfig, nanos};

/// The kind of message whose number has revealed a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// A message other than ResendRequest(2), with a number that is too high.
    Message,
    /// A ResendRequest(2) with a number that is too high. It causes no redundant request: otherwise
    /// two sides could answer each other's requests with requests forever.
    Request,
}

/// The next action to close a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Nothing now.
    Nothing,
    /// Request the messages from the expected number to `end`; `None` means all following messages.
    For { end: Option<u64> },
    /// End the session, because the gap was requested as often as the settings allow.
    GiveUp,
}

/// Maximum number of messages above a gap that are remembered as already handled; further ones are
/// requested again.
const SETTLED_MAX: usize = 1_000;

/// A ResendRequest(2) whose answer is not complete.
#[derive(Debug)]
struct Request {
    /// BeginSeqNo(7).
    begin: u64,
    /// EndSeqNo(16); `None` means an open end.
    end: Option<u64>,
    /// The highest missing number that the answer is certain to cover.
    covers_to: u64,
}

/// The missing messages of the counterparty, and the messages that are held above the gap.
#[derive(Debug)]
pub(crate) struct Gap {
    policy: ResendConfig,
    held: BTreeMap<u64, Vec<u8>>,
    held_bytes: usize,
    messages_max: usize,
    bytes_max: usize,
    /// Number of held messages that will not be delivered, because a SequenceReset(4) or a reset of
    /// both numbers covers them. Reporting the number sets it to 0.
    passed_over: u64,
    /// The highest number known to be missing; 0 means no gap.
    missing_to: u64,
    /// Numbers of messages above the gap that were handled at once: the Logon(A) and each
    /// ResendRequest(2). When the gap below them is closed, these numbers are skipped and not
    /// requested again. Otherwise two sides with closed ranges could request each other's requests
    /// forever.
    settled: BTreeSet<u64>,
    request: Option<Request>,
    /// Lowest BeginSeqNo(7) of all requests for this gap; 0 means no request. Answers to earlier
    /// requests may still arrive after a new request.
    asked_from: u64,
    /// The expected number after the last SequenceReset-GapFill(4); 0 means none was received.
    filled_to: u64,
    /// The expected number after its last change.
    next_num_in: u64,
    /// Time of the last change of the expected number, or of the last request, in nanoseconds.
    since_ns: u64,
    /// Number of repeated requests since the expected number last changed.
    repeats: u32,
}

impl Gap {
    pub(crate) const fn new(
        policy: ResendConfig,
        (messages_max, bytes_max): (usize, usize),
    ) -> Self {
        Self {
            policy,
            held: BTreeMap::new(),
            held_bytes: 0,
            messages_max,
            bytes_max,
            passed_over: 0,
            missing_to: 0,
            settled: BTreeSet::new(),
            request: None,
            asked_from: 0,
            filled_to: 0,
            next_num_in: 0,
            since_ns: 0,
            repeats: 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.held.clear();
        self.held_bytes = 0;
        self.settled.clear();
        self.close();
    }

    /// Marks the gap as closed.
    const fn close(&mut self) {
        self.missing_to = 0;
        self.request = None;
        self.asked_from = 0;
        self.filled_to = 0;
    }

    /// Records that a SequenceReset-GapFill(4) with MsgSeqNum(34) `seq` has advanced the expected
    /// number to `next_num_in`.
    pub(crate) fn note_filled(&mut self, seq: u64, next_num_in: u64) {
        // A gap fill that begins below the open request answers an earlier request, so it does not
        // count.
        if self.request.as_ref().is_some_and(|request| seq >= request.begin) {
            self.filled_to = next_num_in;
        }
    }

    /// Returns true if no message is missing, held or remembered as handled.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.missing_to == 0 && self.settled.is_empty() && self.held.is_empty()
    }

    /// Records that a message with a number that is too high has revealed missing messages, from
    /// `next_num_in` to `missing_to`. Returns the request to send.
    pub(crate) fn early(
        &mut self,
        now_ns: u64,
        next_num_in: u64,
        (missing_to, sign): (u64, Sign),
    ) -> Ask {
        self.missing_to = self.missing_to.max(missing_to);
        self.note_progress(now_ns, next_num_in);
        let redundant = self.policy.redundant_requests && sign == Sign::Message;
        if self.request.is_none() || redundant {
            return self.ask(now_ns);
        }
        self.ask_again(now_ns)
    }

    /// Records that the message `seq` above the gap was handled at once, so that it need not be
    /// requested. Returns false if there is no room to remember the number.
    pub(crate) fn settle(&mut self, seq: u64) -> bool {
        let room = self.settled.len() < SETTLED_MAX;
        if room {
            self.settled.insert(seq);
        }
        room
    }

    /// Reverts [`Gap::settle`], because the message `seq` was not handled after all.
    pub(crate) fn unsettle(&mut self, seq: u64) {
        self.settled.remove(&seq);
    }

    /// Returns true if a gap fill with MsgSeqNum(34) `seq` belongs to the answer to a request for
    /// this gap.
    pub(crate) const fn was_asked_for(&self, seq: u64) -> bool {
        self.asked_from > 0 && seq >= self.asked_from
    }

    /// Records that our NextExpectedMsgSeqNum(789) has requested the gap, in place of a
    /// ResendRequest(2).
    pub(crate) fn note_asked(&mut self, now_ns: u64, next_num_in: u64, missing_to: u64) {
        self.missing_to = self.missing_to.max(missing_to);
        self.note_progress(now_ns, next_num_in);
        self.request = Some(Request { begin: next_num_in, end: None, covers_to: self.missing_to });
        self.note_asked_from(next_num_in);
        self.since_ns = now_ns;
    }

    /// Returns the next expected number from `next_num_in` on, skipping messages that were already
    /// handled above the gap.
    pub(crate) fn expected(&mut self, next_num_in: u64) -> u64 {
        let mut next = next_num_in;
        while let Some(seq) = self.settled.first().copied().filter(|seq| *seq <= next) {
            self.settled.pop_first();
            next = next.max(seq + 1);
        }
        next
    }

    /// Records that the expected number is now `next_num_in`. Drops the held messages below this
    /// number. Then closes the gap, or returns the next request.
    pub(crate) fn advance(&mut self, now_ns: u64, next_num_in: u64) -> Ask {
        while let Some(entry) = self.held.first_entry().filter(|e| *e.key() < next_num_in) {
            self.held_bytes -= entry.remove().len();
            self.passed_over += 1;
        }
        if self.missing_to == 0 {
            return Ask::Nothing;
        }
        if next_num_in > self.missing_to {
            self.close();
            return Ask::Nothing;
        }
        self.note_progress(now_ns, next_num_in);
        match &self.request {
            Some(Request { end: Some(end), .. }) if self.has_reached(*end) => self.ask_next(now_ns),
            Some(request) if next_num_in > request.covers_to => {
                self.request = None;
                Ask::Nothing
            }
            _ => self.ask_again(now_ns),
        }
    }

    /// Returns the number of held messages that a SequenceReset(4) or a reset has covered since the
    /// last call.
    pub(crate) const fn take_passed_over(&mut self) -> u64 {
        std::mem::replace(&mut self.passed_over, 0)
    }

    /// Returns the time of the next repeated request, which is sent if no message of the gap
    /// arrives earlier.
    pub(crate) fn deadline(&self) -> Option<u64> {
        (self.missing_to > 0 && !self.policy.repeat_after.is_zero())
            .then(|| self.since_ns.saturating_add(self.repeat_after_ns()))
    }

    const fn repeat_after_ns(&self) -> u64 {
        nanos(self.policy.repeat_after)
    }

    const fn note_progress(&mut self, now_ns: u64, next_num_in: u64) {
        if self.next_num_in != next_num_in {
            self.next_num_in = next_num_in;
            self.since_ns = now_ns;
            self.repeats = 0;
        }
    }

    const fn note_asked_from(&mut self, begin: u64) {
        if self.asked_from == 0 || begin < self.asked_from {
            self.asked_from = begin;
        }
    }

    /// Returns true if the requested part up to `end` is complete. The NewSeqNo(36) of the last
    /// SequenceReset-GapFill(4) should be the number after EndSeqNo(16), but some engines send
    /// EndSeqNo(16) itself and nothing more. If further parts follow, such a gap fill completes the
    /// part too: the next request begins with EndSeqNo(16).
    const fn has_reached(&self, end: u64) -> bool {
        let filled = self.next_num_in == end && self.filled_to == end && end < self.missing_to;
        self.next_num_in > end || filled
    }

    fn ask(&mut self, now_ns: u64) -> Ask {
        let (begin, max) = (self.next_num_in, u64::from(self.policy.request_max));
        let missing = self.missing_to + 1 - begin;
        let end = match () {
            () if max > 0 && missing > max => Some(begin + max - 1),
            () if self.policy.closed_ranges => Some(self.missing_to),
            () => None,
        };
        self.request = Some(Request { begin, end, covers_to: end.unwrap_or(self.missing_to) });
        self.note_asked_from(begin);
        self.filled_to = 0;
        self.since_ns = now_ns;
        Ask::For { end }
    }

    /// Requests the messages from the expected number on. If the message with that number is held,
    /// it is handled first and nothing is requested.
    fn ask_next(&mut self, now_ns: u64) -> Ask {
        if self.held.contains_key(&self.next_num_in) {
            return Ask::Nothing;
        }
        self.ask(now_ns)
    }

    fn ask_again(&mut self, now_ns: u64) -> Ask {
        let wait = self.repeat_after_ns();
        if wait == 0 || now_ns.saturating_sub(self.since_ns) < wait {
            return Ask::Nothing;
        }
        self.repeats += 1;
        if self.policy.repeats_max > 0 && self.repeats > self.policy.repeats_max {
            return Ask::GiveUp;
        }
        self.ask_next(now_ns)
    }

    /// Returns the number of held messages, and their total size in bytes.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.held.len(), self.held_bytes)
    }

    /// Holds a message until the gap below it is closed. Returns false if the limits leave no room.
    pub(crate) fn hold(&mut self, seq: u64, bytes: &[u8]) -> bool {
        let room =
            self.held.len() < self.messages_max && self.held_bytes + bytes.len() <= self.bytes_max;
        if self.held.contains_key(&seq) {
            return true;
        }
        if room {
            self.held_bytes += bytes.len();
            self.held.insert(seq, bytes.to_vec());
        }
        room
    }

    /// Returns true if the message with the expected number is held.
    #[inline]
    pub(crate) fn holds(&self, next_num_in: u64) -> bool {
        !self.held.is_empty() && self.has_kept(next_num_in)
    }

    #[cold]
    fn has_kept(&self, seq: u64) -> bool {
        self.held.contains_key(&seq)
    }

    /// Clears the gap after a reset of both numbers. The held messages have old numbers, so they
    /// are counted as covered and not delivered.
    pub(crate) fn give_up(&mut self) {
        self.passed_over += self.held.len() as u64;
        self.clear();
    }

    /// Removes and returns the held message with the expected number.
    pub(crate) fn take(&mut self, next_num_in: u64) -> Option<Vec<u8>> {
        // Usually no message is held, so this check avoids the search.
        if self.held.is_empty() {
            return None;
        }
        let bytes = self.held.remove(&next_num_in)?;
        self.held_bytes -= bytes.len();
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT_NS: u64 = 20_000_000_000;
    const OPEN: Ask = Ask::For { end: None };

    fn gap(policy: ResendConfig) -> Gap {
        Gap::new(policy, (2, 10))
    }

    #[test]
    fn bounds_hold_and_the_gap_closes() {
        let mut gap = gap(ResendConfig::default());
        assert_eq!(gap.early(0, 2, (4, Sign::Message)), OPEN);
        assert_eq!(gap.early(0, 2, (6, Sign::Message)), Ask::Nothing);
        let held = [gap.hold(5, b"five"), gap.hold(6, b"too long for the rest")];
        assert_eq!(held, [true, false]);
        assert_eq!([gap.hold(6, b"six"), gap.hold(7, b"x")], [true, false]);
        assert_eq!(gap.held.len(), 2);
        assert_eq!(gap.advance(0, 5), Ask::Nothing);
        assert_eq!(gap.take(5).as_deref(), Some(&b"five"[..]));
        assert_eq!(
            gap.early(0, 5, (6, Sign::Message)),
            OPEN,
            "what was asked for has come: this is another gap"
        );
        assert_eq!(gap.advance(0, 7), Ask::Nothing);
        assert_eq!((gap.held.len(), gap.held_bytes, gap.deadline()), (0, 0, None));
    }

    #[test]
    fn a_request_without_effect_is_repeated() {
        let mut gap = gap(ResendConfig { repeats_max: 2, ..ResendConfig::default() });
        assert_eq!(gap.early(0, 2, (4, Sign::Message)), OPEN);
        assert_eq!(gap.early(WAIT_NS - 1, 2, (6, Sign::Message)), Ask::Nothing);
        assert_eq!(gap.deadline(), Some(WAIT_NS));
        assert_eq!(gap.advance(WAIT_NS, 2), OPEN, "nothing has come");
        assert_eq!(gap.early(WAIT_NS + 1, 2, (6, Sign::Message)), Ask::Nothing);
        assert_eq!(
            gap.early(2 * WAIT_NS, 3, (6, Sign::Message)),
            Ask::Nothing,
            "something has come"
        );
        assert_eq!(gap.early(3 * WAIT_NS - 1, 3, (6, Sign::Message)), Ask::Nothing);
        assert_eq!(gap.early(3 * WAIT_NS, 3, (6, Sign::Message)), OPEN, "but not all");
        assert_eq!(gap.early(4 * WAIT_NS, 3, (6, Sign::Message)), OPEN);
        assert_eq!(gap.advance(5 * WAIT_NS, 3), Ask::GiveUp);
    }

    #[test]
    fn large_gaps_are_asked_for_in_parts() {
        let parts = ResendConfig { request_max: 3, ..ResendConfig::default() };
        for (policy, last) in
            [(parts, None), (ResendConfig { closed_ranges: true, ..parts }, Some(9))]
        {
            let mut gap = gap(policy);
            assert_eq!(gap.early(0, 2, (9, Sign::Message)), Ask::For { end: Some(4) });
            assert_eq!(gap.advance(0, 4), Ask::Nothing);
            assert_eq!(gap.advance(0, 5), Ask::For { end: Some(7) });
            assert_eq!(gap.advance(0, 8), Ask::For { end: last });
            assert_eq!(gap.advance(0, 10), Ask::Nothing);
            assert_eq!(gap.deadline(), None);
        }
    }

    #[test]
    fn what_was_dealt_with_early_counts_when_its_turn_comes() {
        let mut gap = gap(ResendConfig::default());
        assert!(gap.settle(5));
        assert_eq!(gap.expected(4), 4);
        assert_eq!(gap.expected(5), 6);
        assert_eq!(gap.expected(5), 5, "once");
        assert!(gap.settle(5) && gap.settle(8) && gap.settle(9));
        gap.unsettle(9);
        assert_eq!(gap.expected(8), 9);
    }
}
