//! Calls of the application, and events: queued here, and carried out by the executor.
//!
//! Invariant: an event that an application hears of comes behind the state in which it came about.

use std::hint::cold_path;

use super::Core;
use super::event::CoreEvent;
use crate::Now;
use crate::core::call::Call;

/// Room for calls, and for events, that is kept when a burst is over.
const CALLS_KEPT: usize = 16;

impl Core {
    /// Queues a call.
    pub fn call_later(&mut self, call: Call) {
        // The application hears of a new state before the call that follows from it.
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

    /// The queued events that are not counted yet: they are from now on.
    pub fn count_events(&mut self) -> impl Iterator<Item = &(Now, CoreEvent)> {
        let counted = std::mem::replace(&mut self.counted_events, self.events.len());
        self.events.range(counted..)
    }

    /// The next queued event, once it is counted.
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

    /// How much is left to be done at the end; less from one call of the application to the next.
    pub fn unsettled(&self) -> usize {
        self.outgoing.unsettled() + self.calls.len()
    }

    /// The next queued call.
    pub fn next_call(&mut self) -> Option<Call> {
        if self.calls.is_empty() {
            // A burst is over: as many as messages were given back.
            self.calls.shrink_to(CALLS_KEPT);
        }
        self.calls.pop_front()
    }

    /// The application has panicked: what has happened in its session before that is undone, and it
    /// hears of no event of it. Notices stay.
    #[cold]
    pub fn forget_event_calls(&mut self) {
        self.calls.retain(|call| !call.is_event());
    }

    /// The application has returned from a call that began with so many bytes in the outbox.
    /// Messages that it has sent without a connection are to be put at once.
    #[inline]
    pub fn end_call(&mut self, begin: usize) {
        self.note_burst(begin);
        if self.has_late() {
            cold_path();
            self.note_late();
        }
    }

    /// A callback has returned, or has sent something, that began with so many bytes in the outbox.
    /// If it has filled the outbox alone, the counterparty is not to blame.
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

    /// Lets the application be told of a new state.
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
