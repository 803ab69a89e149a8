//! The queues of application calls and of events, which the executor carries out.
//!
//! Invariant: the application learns of a new state before the events that follow from this state.

use std::hint::cold_path;

use super::Core;
use super::event::CoreEvent;
use crate::Now;
use crate::core::call::Call;

/// Capacity that each of the two queues keeps after a burst, in entries.
const CALLS_KEPT: usize = 16;

impl Core {
    /// Queues a call of the application.
    pub fn call_later(&mut self, call: Call) {
        // If the state has changed, the call for the new state is queued first.
        self.note_state();
        self.calls.push_back(call);
    }

    /// Returns true if calls of the application are queued.
    #[inline]
    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Queues an event for the sinks.
    #[cold]
    pub fn queue_event(&mut self, now: Now, event: CoreEvent) {
        self.events.push_back((now, event));
    }

    /// Returns the queued events that are not yet counted by the counters, and marks them as
    /// counted.
    pub fn count_events(&mut self) -> impl Iterator<Item = &(Now, CoreEvent)> {
        let counted = std::mem::replace(&mut self.counted_events, self.events.len());
        self.events.range(counted..)
    }

    /// Removes and returns the next queued event, which must have been counted.
    pub fn next_event(&mut self) -> Option<(Now, CoreEvent)> {
        let next = self.events.pop_front();
        match next {
            Some(_) => self.counted_events -= 1,
            None => self.events.shrink_to(CALLS_KEPT),
        }
        next
    }

    /// Returns true if calls or events are queued.
    #[inline]
    pub fn has_effects(&self) -> bool {
        self.has_calls() || !self.events.is_empty()
    }

    /// Returns the amount of work that is left when the engine stops. The value decreases with each
    /// call of the application.
    pub fn unsettled(&self) -> usize {
        self.outgoing.unsettled() + self.calls.len()
    }

    /// Removes and returns the next queued call of the application.
    pub fn next_call(&mut self) -> Option<Call> {
        if self.calls.is_empty() {
            // The queue is empty now, but may be large after a burst of returned messages.
            self.calls.shrink_to(CALLS_KEPT);
        }
        self.calls.pop_front()
    }

    /// Drops the queued `SessionEvent` calls after a panic of the application, because the
    /// session's actions before the panic are rolled back. Calls for notices remain queued.
    #[cold]
    pub fn forget_event_calls(&mut self) {
        self.calls.retain(|call| !call.is_event());
    }

    /// Records that the application has returned from a call. `begin` is the end of the outbox at
    /// the start of the call. Messages sent without a connection must be stored at once.
    #[inline]
    pub fn end_call(&mut self, begin: usize) {
        self.note_burst(begin);
        if self.has_late() {
            cold_path();
            self.note_late();
        }
    }

    /// Records that a callback has returned or sent a message. `begin` is the end of the outbox at
    /// the start of the callback. If a single callback has filled the outbox, the counterparty is
    /// not blamed for it.
    #[inline]
    pub fn note_burst(&mut self, begin: usize) {
        let max = self.options.queue.queued_bytes_max;
        if self.out.len() > max {
            cold_path();
            if begin <= max {
                self.burst_end = self.out.end();
            }
        }
    }

    /// Queues the call that reports a new state to the application, if the state has changed.
    #[inline]
    pub fn note_state(&mut self) {
        let to = self.session.state();
        if to != self.reported_state {
            cold_path();
            let from = std::mem::replace(&mut self.reported_state, to);
            self.calls.push_back(Call::StateChanged(from, to));
        }
    }
}
