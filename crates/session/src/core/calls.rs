//! Queues of application calls and events, which the executor carries out.
//!
//! Invariant: a new state is reported to the application before the events that follow from the
//! state.

use std::hint::cold_path;

use super::Core;
use super::event::CoreEvent;
use crate::Now;
use crate::core::call::Call;

/// Capacity of both queues after a burst, in entries.
const CALLS_KEPT: usize = 16;

impl Core {
    /// Queues a call.
    pub fn call_later(&mut self, call: Call) {
        // A new state is reported before the call that follows from the state.
        self.note_state();
        self.calls.push_back(call);
    }

    /// Returns true if calls are queued.
    #[inline]
    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Queues an event for the sinks.
    #[cold]
    pub fn queue_event(&mut self, now: Now, event: CoreEvent) {
        self.events.push_back((now, event));
    }

    /// Returns the queued events that are not counted yet, and marks them as counted.
    pub fn count_events(&mut self) -> impl Iterator<Item = &(Now, CoreEvent)> {
        let counted = std::mem::replace(&mut self.counted_events, self.events.len());
        self.events.range(counted..)
    }

    /// Removes and returns the next queued event, which must be counted.
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

    /// Returns the amount of work left when the engine stops. The value decreases with each call of
    /// the application.
    pub fn unsettled(&self) -> usize {
        self.outgoing.unsettled() + self.calls.len()
    }

    /// Removes and returns the next queued call.
    pub fn next_call(&mut self) -> Option<Call> {
        if self.calls.is_empty() {
            // After a burst of returned messages the queue is empty and large.
            self.calls.shrink_to(CALLS_KEPT);
        }
        self.calls.pop_front()
    }

    /// Drops the queued `SessionEvent` calls after a panic of the application, because the actions
    /// of the session before the panic are undone. Notices remain queued.
    #[cold]
    pub fn forget_event_calls(&mut self) {
        self.calls.retain(|call| !call.is_event());
    }

    /// Notes that the application has returned from a call. The outbox held `begin` bytes at the
    /// start of the call. Messages sent without a connection must be stored at once.
    #[inline]
    pub fn end_call(&mut self, begin: usize) {
        self.note_burst(begin);
        if self.has_late() {
            cold_path();
            self.note_late();
        }
    }

    /// Notes that a callback has returned or sent a message. The outbox held `begin` bytes at the
    /// start of the callback. If a single callback has filled the outbox, the counterparty is not
    /// at fault.
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

    /// Queues the report of a new state to the application.
    #[inline]
    pub fn note_state(&mut self) {
        let to = self.session.state();
        if to != self.told_state {
            cold_path();
            let from = std::mem::replace(&mut self.told_state, to);
            self.calls.push_back(Call::StateChanged(from, to));
        }
    }
}
