//! The queue of calls for an application in its own threads, and the results of these calls.
//!
//! Invariant: the application receives one call at a time, in the order of arrival. The link learns
//! of each ended call, and only the link decides which results count.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use transfix_session::core::call::Call;
use transfix_session::core::delivery::Made;
use transfix_session::{BusinessReject, Now};

/// The maximum number of spare message buffers, and of their bytes: as many as a few turns need.
const SPARE_MAX: usize = 1_024;
const SPARE_BYTES_MAX: usize = 1 << 20;
/// The maximum number of spare message buffers that stay after a burst, and of their bytes.
const SPARE_AT_REST: usize = 8;
const SPARE_BYTES_AT_REST: usize = 32 << 10;
/// Capacity of the queues, in entries, that stays after a burst.
const WAITING_KEPT: usize = 256;

/// A call for the application.
pub(crate) struct Item {
    pub(crate) call: Call,
    /// The message or frame of the call; empty if the call has none.
    pub(crate) bytes: Vec<u8>,
    /// The time when the message was read or the event happened.
    pub(crate) now: Now,
}

/// An ended call.
pub(crate) struct Had {
    pub(crate) bytes: Vec<u8>,
    pub(crate) made: Made,
}

/// The reason why the application receives no more messages.
pub(crate) enum Stopped {
    /// The application is not available for the first waiting message.
    NotAvailable(BusinessReject),
    /// The application has panicked.
    Panicked,
}

/// The state of the current call of the application.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Running {
    Counts,
    /// The call is running, and its result will be ignored.
    IsVoid,
}

/// The calls that wait for the application, with their count and bytes.
#[derive(Default)]
struct Waiting {
    items: VecDeque<Item>,
    /// Number of waiting messages and frames.
    messages: usize,
    /// The total size of all waiting calls, in bytes.
    bytes: usize,
}

#[derive(Default)]
struct State {
    waiting: Waiting,
    running: Option<Running>,
    had: VecDeque<Had>,
    /// The application is not available for the first waiting message.
    halted: bool,
    refusal: Option<BusinessReject>,
    panicked: bool,
    /// True if an application thread serves this queue, or is about to.
    scheduled: bool,
    /// True if the link waits to call the application directly.
    wanted: bool,
    spare: Vec<Vec<u8>>,
    /// The total capacity of the spare buffers, in bytes.
    spare_bytes: usize,
    /// True if the memory of a burst must be freed when the queue is empty.
    trims: bool,
}

/// The queue of calls between a link and an application in its own threads.
#[derive(Default)]
pub(crate) struct DeliveryQueue {
    state: Mutex<State>,
    /// True if the link must process results or messages of the application.
    news: AtomicBool,
    /// The function that schedules an application thread to serve this queue.
    runner: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl DeliveryQueue {
    /// Sets the function that schedules an application thread. The thread then calls
    /// [`DeliveryQueue::begin`].
    pub(crate) fn run_by(&self, runner: Box<dyn Fn() + Send + Sync>) {
        assert!(self.runner.set(runner).is_ok(), "a delivery queue has one pool");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state stays consistent even after a panic, so a poisoned lock is used.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Schedules a thread if calls can be made and no thread is scheduled.
    fn schedule(&self, mut state: MutexGuard<'_, State>) {
        if state.scheduled || !state.can_go_on() {
            return;
        }
        state.scheduled = true;
        drop(state);
        if let Some(runner) = self.runner.get() {
            runner();
        }
    }

    /// Queues a call with its time and its message or frame.
    pub(crate) fn put(&self, now: Now, call: Call, from: &[u8]) {
        let mut state = self.lock();
        let mut bytes = state.spare.pop().unwrap_or_default();
        state.spare_bytes -= bytes.capacity();
        bytes.clear();
        bytes.extend_from_slice(from);
        state.waiting.put(Item { call, bytes, now });
        self.schedule(state);
    }

    /// Returns the next call for the application. On `None`, the thread must leave the queue.
    pub(crate) fn begin(&self) -> Option<Item> {
        let mut state = self.lock();
        if !state.can_go_on() {
            state.scheduled = false;
            if state.trims {
                state.trim_if_empty();
            }
            return None;
        }
        let item = state.waiting.take_first()?;
        state.running = Some(Running::Counts);
        Some(item)
    }

    /// Records the result of a call that [`DeliveryQueue::begin`] returned.
    pub(crate) fn end(&self, is_message: bool, item: (Vec<u8>, Now), made: Made) {
        let (bytes, now) = item;
        let mut state = self.lock();
        let is_void = state.running.take() == Some(Running::IsVoid);
        match made {
            Made::NotAvailable(reject) if is_message && !is_void => {
                (state.halted, state.refusal) = (true, Some(reject));
                state.waiting.put_back(Item { call: Call::Message, bytes, now });
            }
            made => {
                state.panicked |= !is_void && matches!(made, Made::Panicked);
                state.had.push_back(Had { bytes, made });
            }
        }
        self.news.store(true, Ordering::Release);
    }

    /// Lets the thread leave this queue to serve others. Returns true if calls are left, so that
    /// the thread must come back.
    pub(crate) fn pause(&self) -> bool {
        let mut state = self.lock();
        state.scheduled = state.can_go_on();
        state.scheduled
    }

    /// Schedules a thread if calls can be made, after the application has given an answer from
    /// another thread.
    pub(crate) fn resume(&self) {
        self.schedule(self.lock());
    }

    /// Records a panic of an application thread outside of the application, so that no message is
    /// delivered before the session restarts. Returns true if other calls still wait.
    pub(crate) fn give_up(&self) -> bool {
        self.is_broken();
        self.pause()
    }

    /// Records a panic outside of the application, so that no message is delivered before the
    /// session restarts.
    pub(crate) fn is_broken(&self) {
        self.lock().panicked = true;
        self.news.store(true, Ordering::Release);
    }

    /// Records that no thread serves this queue, even if calls wait.
    pub(crate) fn leave(&self) {
        self.lock().scheduled = false;
    }

    /// Returns true if the link must process results or messages of the application.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.news.load(Ordering::Acquire)
    }

    /// Notes that the application has sent messages, which the link must store and write.
    pub(crate) fn note_news(&self) {
        self.news.store(true, Ordering::Release);
    }

    /// Returns true if the link has something to process, and resets the flag.
    pub(crate) fn take_news(&self) -> bool {
        self.has_news() && self.news.swap(false, Ordering::AcqRel)
    }

    /// Removes and returns the oldest call that has ended.
    pub(crate) fn take_ended_call(&self) -> Option<Had> {
        self.lock().had.pop_front()
    }

    /// Gives the buffer of a message back, to be reused.
    pub(crate) fn give_back(&self, bytes: Vec<u8>) {
        self.lock().keep(bytes);
    }

    /// Returns the reason why the application receives no more messages, if there is one.
    pub(crate) fn stopped(&self) -> Option<Stopped> {
        let mut state = self.lock();
        if state.panicked {
            // Sets the flag again, so that the link sees the panic until the session restarts.
            self.news.store(true, Ordering::Release);
            return Some(Stopped::Panicked);
        }
        state.refusal.take().map(Stopped::NotAvailable)
    }

    /// Offers the message again for which the application was not available.
    pub(crate) fn go_on(&self) {
        let mut state = self.lock();
        state.halted = false;
        self.schedule(state);
    }

    /// Skips the message for which the application was not available.
    pub(crate) fn pass_over(&self, made: Made) {
        let mut state = self.lock();
        if std::mem::take(&mut state.halted)
            && let Some(first) = state.waiting.take_first()
        {
            state.had.push_back(Had { bytes: first.bytes, made });
        }
        self.schedule(state);
    }

    /// Frees the memory of a burst as soon as the queue is empty.
    pub(crate) fn trim(&self) {
        let mut state = self.lock();
        state.trims = true;
        state.trim_if_empty();
    }

    /// Returns true while the application is in a call, or has not answered a message yet.
    pub(crate) fn is_called(&self) -> bool {
        self.lock().running.is_some()
    }

    /// Returns the number of waiting messages and frames, and their bytes.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let state = self.lock();
        (state.waiting.messages, state.waiting.bytes)
    }

    /// Reserves the application for a direct call by the link. Returns true if the application is
    /// free, and keeps it free until [`DeliveryQueue::release`]. Otherwise no further call begins
    /// until [`DeliveryQueue::release`].
    pub(crate) fn want(&self) -> bool {
        let mut state = self.lock();
        state.wanted = true;
        state.running.is_none()
    }

    /// Ends the reservation made by [`DeliveryQueue::want`].
    pub(crate) fn release(&self) {
        let mut state = self.lock();
        if std::mem::take(&mut state.wanted) {
            self.schedule(state);
        }
    }

    /// Discards ended calls, and voids the running call, if `undoes` returns true. `undoes`
    /// receives the number of calls that have begun, and whether the last of them is still running.
    pub(crate) fn undo(&self, undoes: impl FnOnce(usize, bool) -> bool) {
        let mut state = self.lock();
        if undoes(state.begun(), state.running.is_some()) {
            state.undo();
        }
    }

    /// Drops the waiting calls for which `is_dropped` returns true. Position 0 is the first call
    /// whose end the link has not processed. Returns the number of begun calls.
    pub(crate) fn forget(&self, is_dropped: impl Fn(usize) -> bool) -> usize {
        let mut state = self.lock();
        let begun = state.begun();
        if !state.waiting.items.is_empty() && is_dropped(begun) {
            (state.halted, state.refusal) = (false, None);
        }
        state.drop_waiting(|place, _| is_dropped(begun + place));
        self.schedule(state);
        begun
    }

    /// Drops all waiting messages, because they will be requested again, and voids the running
    /// call. Waiting events stay. Returns the number of calls that have begun, and whether the last
    /// of them is still running.
    pub(crate) fn clear(&self) -> (usize, bool) {
        let mut state = self.lock();
        let begun = (state.begun(), state.running.is_some());
        state.undo();
        state.drop_waiting(|_, item| matches!(item.call, Call::Message));
        (state.halted, state.wanted) = (false, false);
        (state.refusal, state.panicked) = (None, false);
        self.schedule(state);
        begun
    }
}

impl Waiting {
    fn count(&mut self, item: &Item) {
        self.messages += usize::from(item.call.counts());
        self.bytes += item.bytes.len();
    }

    fn put(&mut self, item: Item) {
        self.count(&item);
        self.items.push_back(item);
    }

    /// Puts a call back to the front of the queue.
    fn put_back(&mut self, item: Item) {
        self.count(&item);
        self.items.push_front(item);
    }

    fn take_first(&mut self) -> Option<Item> {
        let first = self.items.pop_front()?;
        self.messages -= usize::from(first.call.counts());
        self.bytes -= first.bytes.len();
        Some(first)
    }
}

impl State {
    /// Returns true if a call for the application can begin.
    fn can_go_on(&self) -> bool {
        let Some(first) = self.waiting.items.front() else { return false };
        // After a panic, the application no longer receives messages, but still receives the notice
        // of the end.
        let has_panicked = self.panicked && matches!(first.call, Call::Message);
        !(self.running.is_some() || self.halted || self.wanted || has_panicked)
    }

    /// Returns the number of begun calls whose end the link has not processed.
    fn begun(&self) -> usize {
        self.had.len() + usize::from(self.running.is_some())
    }

    /// Discards the ended calls and voids the running call.
    fn undo(&mut self) {
        self.had.clear();
        self.running = self.running.map(|_| Running::IsVoid);
    }

    /// Drops the waiting calls for which `is_dropped` returns true; position 0 is the next call to
    /// begin.
    fn drop_waiting(&mut self, is_dropped: impl Fn(usize, &Item) -> bool) {
        for (place, item) in std::mem::take(&mut self.waiting).items.into_iter().enumerate() {
            if is_dropped(place, &item) {
                self.keep(item.bytes);
            } else {
                self.waiting.put(item);
            }
        }
    }

    /// Frees the memory of a burst if no call waits or runs.
    fn trim_if_empty(&mut self) {
        if self.waiting.items.is_empty() && self.running.is_none() {
            self.trim();
        }
    }

    /// Frees the memory of a past burst.
    fn trim(&mut self) {
        self.trims = false;
        self.waiting.items.shrink_to(WAITING_KEPT);
        self.had.shrink_to(WAITING_KEPT);
        while self.spare.len() > SPARE_AT_REST || self.spare_bytes > SPARE_BYTES_AT_REST {
            let Some(bytes) = self.spare.pop() else { break };
            self.spare_bytes -= bytes.capacity();
        }
        self.spare.shrink_to(SPARE_AT_REST);
    }

    /// Keeps the buffer of a message to be reused, unless too many are kept already.
    fn keep(&mut self, bytes: Vec<u8>) {
        let all = self.spare_bytes + bytes.capacity();
        if bytes.capacity() > 0 && self.spare.len() < SPARE_MAX && all <= SPARE_BYTES_MAX {
            self.spare_bytes = all;
            self.spare.push(bytes);
        }
    }
}

impl Item {
    /// Returns the call, and the message and time that [`DeliveryQueue::end`] needs.
    pub(crate) fn into_parts(self) -> (Call, (Vec<u8>, Now)) {
        (self.call, (self.bytes, self.now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the next call as an application thread does.
    fn serve(deliveries: &DeliveryQueue) {
        let item = deliveries.begin().expect("something waits");
        let (call, parts) = item.into_parts();
        deliveries.end(matches!(call, Call::Message), parts, Made::Had);
    }

    #[test]
    fn a_burst_leaves_little_memory() {
        for bytes in [100, 8 << 10] {
            let deliveries = DeliveryQueue::default();
            let burst = || {
                let hand_over = |_| deliveries.put(Now::default(), Call::Message, &vec![0; bytes]);
                (2..700).for_each(hand_over);
                // This trim must not take effect while calls wait.
                deliveries.trim();
                assert_eq!(deliveries.waiting(), (698, 698 * bytes));
                (2..700).for_each(|_| serve(&deliveries));
                while let Some(had) = deliveries.take_ended_call() {
                    deliveries.give_back(had.bytes);
                }
                let state = deliveries.lock();
                assert!(state.spare_bytes <= SPARE_BYTES_MAX);
                assert_eq!(state.spare_bytes, state.spare.iter().map(Vec::capacity).sum::<usize>());
            };
            burst();
            burst();
            assert!(deliveries.begin().is_none(), "the end of a visit");
            let state = deliveries.lock();
            assert!(state.spare.len() <= SPARE_AT_REST);
            assert!(state.spare_bytes <= SPARE_BYTES_AT_REST, "{}", state.spare_bytes);
            assert!(state.waiting.items.capacity() + state.had.capacity() <= 4 * WAITING_KEPT);
        }
    }
}
