//! The calls that are handed over to an application in threads of its own, and their outcomes.
//!
//! Invariant: the application is called for one thing at a time, and in the order in which they
//! came. The session hears of each call that has ended, and alone knows what of it counts.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use transfix_session::core::call::Call;
use transfix_session::core::delivery::Made;
use transfix_session::{BusinessReject, Now};

/// Buffers that are kept for further messages, and their bytes together: as many as a few turns
/// hand over.
const SPARE_MAX: usize = 1_024;
const SPARE_BYTES_MAX: usize = 1 << 20;
/// The number of them that is kept when a burst is over.
const SPARE_AT_REST: usize = 8;
const SPARE_BYTES_AT_REST: usize = 32 << 10;
/// Room for what waits, which is kept when a burst is over.
const WAITING_KEPT: usize = 256;

/// Something for the application.
pub(crate) struct Item {
    pub(crate) call: Call,
    /// The message or frame that the call is about; empty if there is none.
    pub(crate) bytes: Vec<u8>,
    /// When it was read, or came about.
    pub(crate) now: Now,
}

/// A call that has ended.
pub(crate) struct Had {
    pub(crate) bytes: Vec<u8>,
    pub(crate) made: Made,
}

/// Why the application is called for no more messages.
pub(crate) enum Stopped {
    /// It is not available for the first message that waits.
    NotAvailable(BusinessReject),
    /// It has panicked.
    Panicked,
}

/// The call that the application is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Running {
    Counts,
    /// The session does not heed what the application makes of it.
    IsVoid,
}

/// The calls that wait for the application, with their number and bytes.
#[derive(Default)]
struct Waiting {
    items: VecDeque<Item>,
    /// Messages and frames.
    messages: usize,
    /// Bytes of all.
    bytes: usize,
}

#[derive(Default)]
struct State {
    waiting: Waiting,
    running: Option<Running>,
    had: VecDeque<Had>,
    /// The first that waits is a message that the application is not available for.
    halted: bool,
    refusal: Option<BusinessReject>,
    panicked: bool,
    /// A thread of the pool has it, or will.
    scheduled: bool,
    /// The link wants to ask the application something.
    wanted: bool,
    spare: Vec<Vec<u8>>,
    /// Bytes that the spare buffers have room for.
    spare_bytes: usize,
    /// The memory of a burst is given back as soon as nothing waits.
    trims: bool,
}

/// The delivery queue between a link and an application that is called elsewhere.
#[derive(Default)]
pub(crate) struct DeliveryQueue {
    state: Mutex<State>,
    /// Something for the link is here.
    news: AtomicBool,
    /// Lets a thread of the pool come.
    runner: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl DeliveryQueue {
    /// Sets the function that lets a thread come, which calls [`DeliveryQueue::begin`].
    pub(crate) fn run_by(&self, runner: Box<dyn Fn() + Send + Sync>) {
        assert!(self.runner.set(runner).is_ok(), "a delivery queue has one pool");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a thread come if there is something to do and none is on its way.
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

    /// Hands over a call with its bytes.
    pub(crate) fn put(&self, now: Now, call: Call, from: &[u8]) {
        let mut state = self.lock();
        let mut bytes = state.spare.pop().unwrap_or_default();
        state.spare_bytes -= bytes.capacity();
        bytes.clear();
        bytes.extend_from_slice(from);
        state.waiting.put(Item { call, bytes, now });
        self.schedule(state);
    }

    /// The next call of the application. `None` ends the visit of this thread.
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

    /// The application was called for this, which was the next.
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

    /// Lets this thread go on elsewhere first. Returns whether it is to come again.
    pub(crate) fn pause(&self) -> bool {
        let mut state = self.lock();
        state.scheduled = state.can_go_on();
        state.scheduled
    }

    /// The application has answered from elsewhere for what it was called for: a thread comes if
    /// there is more to do.
    pub(crate) fn resume(&self) {
        self.schedule(self.lock());
    }

    /// A thread has panicked here, outside of the application: the session is to begin anew before
    /// further messages. Returns whether there is more all the same.
    pub(crate) fn give_up(&self) -> bool {
        self.is_broken();
        self.pause()
    }

    /// A thread has panicked outside of the application: the session is to begin anew before
    /// further messages.
    pub(crate) fn is_broken(&self) {
        self.lock().panicked = true;
        self.news.store(true, Ordering::Release);
    }

    /// No thread is here or on its way any more, whatever there is to do.
    pub(crate) fn leave(&self) {
        self.lock().scheduled = false;
    }

    /// Returns true if there is something that the link has not heard.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.news.load(Ordering::Acquire)
    }

    /// Something for the link is here besides calls that have ended: the application has sent
    /// something, which waits to be stored and written.
    pub(crate) fn note_news(&self) {
        self.news.store(true, Ordering::Release);
    }

    /// The link hears all that there is now.
    pub(crate) fn take_news(&self) -> bool {
        self.has_news() && self.news.swap(false, Ordering::AcqRel)
    }

    /// The next call that has ended.
    pub(crate) fn take_had(&self) -> Option<Had> {
        self.lock().had.pop_front()
    }

    /// Gives the memory of a message back.
    pub(crate) fn give_back(&self, bytes: Vec<u8>) {
        self.lock().keep(bytes);
    }

    /// Why the application is called for no more messages.
    pub(crate) fn stopped(&self) -> Option<Stopped> {
        let mut state = self.lock();
        if state.panicked {
            // Until the session begins anew.
            self.news.store(true, Ordering::Release);
            return Some(Stopped::Panicked);
        }
        state.refusal.take().map(Stopped::NotAvailable)
    }

    /// The application gets the message once more that it was not available for.
    pub(crate) fn go_on(&self) {
        let mut state = self.lock();
        state.halted = false;
        self.schedule(state);
    }

    /// The message that the application was not available for is passed over.
    pub(crate) fn pass_over(&self, made: Made) {
        let mut state = self.lock();
        if std::mem::take(&mut state.halted)
            && let Some(first) = state.waiting.take_first()
        {
            state.had.push_back(Had { bytes: first.bytes, made });
        }
        self.schedule(state);
    }

    /// Gives back the memory of a burst as soon as it is over.
    pub(crate) fn trim(&self) {
        let mut state = self.lock();
        state.trims = true;
        state.trim_if_empty();
    }

    /// Returns true if the application is called, or its answer to a message is awaited.
    pub(crate) fn is_called(&self) -> bool {
        self.lock().running.is_some()
    }

    /// How many messages and frames wait, and their bytes.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let state = self.lock();
        (state.waiting.messages, state.waiting.bytes)
    }

    /// The link asks the application something. Returns whether that is free: it stays so until
    /// [`DeliveryQueue::release`]. If not, it is called for nothing more until then.
    pub(crate) fn want(&self) -> bool {
        let mut state = self.lock();
        state.wanted = true;
        state.running.is_none()
    }

    /// The link has asked what it wanted.
    pub(crate) fn release(&self) {
        let mut state = self.lock();
        if std::mem::take(&mut state.wanted) {
            self.schedule(state);
        }
    }

    /// Forgets what the application has had, or is called for, if `undoes` returns true. That is
    /// given how many calls have begun, and whether the application is in the last of them.
    pub(crate) fn undo(&self, undoes: impl FnOnce(usize, bool) -> bool) {
        let mut state = self.lock();
        if undoes(state.begun(), state.running.is_some()) {
            state.undo();
        }
    }

    /// Drops calls that wait and that `is_dropped`, which is given their places: 0 for the first
    /// one that the link has not heard of. Returns how many of those have begun.
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

    /// All messages are asked for again, and what the application still does means nothing. Events
    /// for it stay. Returns how many calls have begun, and whether the application is in the last
    /// of them.
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

    /// Puts back what was the first.
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
    /// Returns true if the application can be called for something.
    fn can_go_on(&self) -> bool {
        let Some(first) = self.waiting.items.front() else { return false };
        // An application that has panicked hears of the end all the same.
        let has_panicked = self.panicked && matches!(first.call, Call::Message);
        !(self.running.is_some() || self.halted || self.wanted || has_panicked)
    }

    /// Calls that have begun, and that the link has not heard the end of.
    fn begun(&self) -> usize {
        self.had.len() + usize::from(self.running.is_some())
    }

    /// Calls that the application has had, or is in, mean nothing any more.
    fn undo(&mut self) {
        self.had.clear();
        self.running = self.running.map(|_| Running::IsVoid);
    }

    /// Drops calls that wait; their places are counted from the first that waits.
    fn drop_waiting(&mut self, is_dropped: impl Fn(usize, &Item) -> bool) {
        for (place, item) in std::mem::take(&mut self.waiting).items.into_iter().enumerate() {
            if is_dropped(place, &item) {
                self.keep(item.bytes);
            } else {
                self.waiting.put(item);
            }
        }
    }

    /// Gives back the memory of a burst if it is over.
    fn trim_if_empty(&mut self) {
        if self.waiting.items.is_empty() && self.running.is_none() {
            self.trim();
        }
    }

    /// Gives back the memory of a burst that is over.
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

    /// Keeps the memory of a message for a further one.
    fn keep(&mut self, bytes: Vec<u8>) {
        let all = self.spare_bytes + bytes.capacity();
        if bytes.capacity() > 0 && self.spare.len() < SPARE_MAX && all <= SPARE_BYTES_MAX {
            self.spare_bytes = all;
            self.spare.push(bytes);
        }
    }
}

impl Item {
    /// The parts that [`DeliveryQueue::end`] needs, when the call is taken out.
    pub(crate) fn into_parts(self) -> (Call, (Vec<u8>, Now)) {
        (self.call, (self.bytes, self.now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The application is called for the next message, and has had it.
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
                // Not while there is more.
                deliveries.trim();
                assert_eq!(deliveries.waiting(), (698, 698 * bytes));
                (2..700).for_each(|_| serve(&deliveries));
                while let Some(had) = deliveries.take_had() {
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
