//! What is handed over to an application that is called in threads of its own, and what it has made
//! of that.
//!
//! Invariants: the application is called for one thing at a time, and in the order in which they
//! came; a message counts as taken when the link has heard that the application has had it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use transfix_session::Now;

use crate::link::answers::BusinessReject;
use crate::link::call::Call;
use crate::settings::{ApplicationSettings, WhenFull};

/// Buffers that are kept for further messages, and their bytes together: as many as a few turns
/// hand over.
const SPARE_MAX: usize = 1_024;
const SPARE_BYTES_MAX: usize = 1 << 20;
/// What is kept of them when a burst is over.
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
    /// Number of a message; 0 if that means nothing any more.
    seq: u64,
    epoch: u32,
}

/// What the application has made of something.
pub(crate) enum Made {
    /// It has had it.
    Had,
    Rejected(BusinessReject),
    /// It has panicked.
    Panicked,
}

impl Made {
    /// What follows from its answer.
    pub(crate) fn of(answer: Result<(), BusinessReject>) -> Self {
        answer.map_or_else(Self::Rejected, |()| Self::Had)
    }
}

/// A message that the application has had.
pub(crate) struct Had {
    pub(crate) seq: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) reject: Option<BusinessReject>,
}

/// What the link is to know besides messages that were had.
pub(crate) enum Stopped {
    /// The application is not available for the first message that waits.
    NotAvailable(BusinessReject),
    /// It has panicked at the message with this number; 0 if it was at none.
    Panicked(u64),
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Item>,
    /// The application is called: for a message with this number, or for something else.
    running: Option<Option<u64>>,
    /// The sequence number of a message that is committed as taken, though the link has not been
    /// told that the application has had it; 0 for none.
    counted: u64,
    had: VecDeque<Had>,
    /// The first that waits is a message that the application is not available for.
    halted: bool,
    refusal: Option<BusinessReject>,
    panicked: Option<u64>,
    /// Bytes of what waits.
    bytes: usize,
    /// Calls that wait and for which [`Call::counts`] is true.
    messages: usize,
    /// As many wait as may, and half of them have not been had since.
    is_full: bool,
    /// A thread of the pool has it, or will.
    scheduled: bool,
    /// The link wants to ask the application something.
    wanted: bool,
    /// The worker is to be called when there is room again.
    awaits_room: bool,
    /// The worker is to be called when the application is called for nothing more.
    awaits_rest: bool,
    /// What belongs to an earlier one means nothing any more.
    epoch: u32,
    spare: Vec<Vec<u8>>,
    /// Bytes that the spare buffers have room for.
    spare_bytes: usize,
    /// The memory of a burst is given back as soon as nothing waits.
    trims: bool,
}

/// What lies between a link and an application that is called elsewhere.
pub(crate) struct Desk {
    state: Mutex<State>,
    /// Something for the link is here.
    news: AtomicBool,
    /// Far more has waited than usual, and the memory for it is still here.
    is_bulky: AtomicBool,
    limits: ApplicationSettings,
    /// Lets a thread of the pool come.
    runner: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Desk {
    pub(crate) fn new(limits: ApplicationSettings) -> Self {
        let (state, runner) = (Mutex::default(), OnceLock::new());
        let (news, is_bulky) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { state, news, is_bulky, limits, runner }
    }

    /// Who lets a thread come that calls [`Desk::begin`].
    pub(crate) fn run_by(&self, runner: Box<dyn Fn() + Send + Sync>) {
        assert!(self.runner.set(runner).is_ok(), "a desk has one pool");
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

    /// Hands over a call with the number of its message, and with its bytes; the number is 0 if it
    /// means nothing, or there is none.
    pub(crate) fn put(&self, now: Now, (call, seq): (Call, u64), from: &[u8]) {
        let mut state = self.lock();
        let mut bytes = state.spare.pop().unwrap_or_default();
        state.spare_bytes -= bytes.capacity();
        bytes.clear();
        bytes.extend_from_slice(from);
        let epoch = state.epoch;
        let item = Item { call, bytes, now, seq, epoch };
        state.count(&item);
        state.waiting.push_back(item);
        let ApplicationSettings { messages_max, bytes_max, .. } = self.limits;
        state.is_full |= state.messages >= messages_max || state.bytes >= bytes_max;
        if state.waiting.len() > WAITING_KEPT || state.bytes > SPARE_BYTES_AT_REST {
            self.is_bulky.store(true, Ordering::Relaxed);
        }
        self.schedule(state);
    }

    /// What the application is to be called for next. `None` ends the visit of this thread.
    pub(crate) fn begin(&self) -> Option<Item> {
        let mut state = self.lock();
        if !state.can_go_on() {
            state.scheduled = false;
            if state.trims {
                self.trim_now(&mut state);
            }
            return None;
        }
        let item = state.waiting.pop_front()?;
        state.discount(&item);
        state.running = Some(matches!(item.call, Call::Message).then_some(item.seq));
        Some(item)
    }

    /// The application was called for this, which was the next. Returns whether the worker is to be
    /// called.
    pub(crate) fn end(&self, is_message: bool, item: (Vec<u8>, Now, u32), made: Made) -> bool {
        let (bytes, now, epoch) = item;
        let mut state = self.lock();
        let seq = state.running.take().flatten().unwrap_or(0);
        let is_old = epoch != state.epoch;
        let mut is_news = is_message;
        match made {
            _ if is_old => state.keep(bytes),
            Made::Panicked => {
                state.panicked = Some(seq);
                (is_news, state.awaits_rest) = (true, true);
                // It counts, or it would come again, and again.
                if is_message {
                    state.had.push_back(Had { seq, bytes, reject: None });
                }
            }
            _ if !is_message => state.keep(bytes),
            Made::Rejected(reject) if reject.is_not_available() => {
                (state.halted, state.awaits_rest) = (true, true);
                state.refusal = Some(reject);
                let call = Call::Message;
                let seq = state.forget_counted(seq);
                let item = Item { call, bytes, now, seq, epoch };
                state.count(&item);
                state.waiting.push_front(item);
            }
            Made::Rejected(reject) => {
                state.had.push_back(Had { seq, bytes, reject: Some(reject) });
            }
            Made::Had => state.had.push_back(Had { seq, bytes, reject: None }),
        }
        state.note_room(self.limits);
        if is_news {
            self.news.store(true, Ordering::Release);
        }
        let has_room = state.awaits_room && !state.is_full;
        let rests = state.awaits_rest && !state.can_go_on();
        state.awaits_room &= !has_room;
        state.awaits_rest &= !rests;
        has_room || rests
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
        self.lock().panicked.get_or_insert(0);
        self.news.store(true, Ordering::Release);
    }

    /// No thread is here or on its way any more, whatever there is to do.
    pub(crate) fn leave(&self) {
        self.lock().scheduled = false;
    }

    /// Whether there is something that the link has not heard.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.news.load(Ordering::Acquire)
    }

    /// The application has sent something, which waits to be stored and written.
    pub(crate) fn note_sent(&self) {
        self.news.store(true, Ordering::Release);
    }

    /// The link hears all that there is now.
    pub(crate) fn take_news(&self) -> bool {
        self.has_news() && self.news.swap(false, Ordering::AcqRel)
    }

    /// The next message that the application has had.
    pub(crate) fn take_had(&self) -> Option<Had> {
        let mut state = self.lock();
        let had = state.had.pop_front()?;
        state.forget_counted(had.seq);
        Some(had)
    }

    /// Gives the memory of a message back.
    pub(crate) fn give_back(&self, bytes: Vec<u8>) {
        self.lock().keep(bytes);
    }

    /// Why the application is called for nothing more.
    pub(crate) fn stopped(&self) -> Option<Stopped> {
        let mut state = self.lock();
        match state.panicked {
            Some(seq) => {
                // Until the session begins anew.
                self.news.store(true, Ordering::Release);
                Some(Stopped::Panicked(seq))
            }
            None => state.refusal.take().map(Stopped::NotAvailable),
        }
    }

    /// Whether a message waits for an application that is not available.
    pub(crate) fn is_halted(&self) -> bool {
        self.lock().halted
    }

    /// The application gets the message once more that it was not available for.
    pub(crate) fn go_on(&self) {
        let mut state = self.lock();
        state.halted = false;
        self.schedule(state);
    }

    /// The message that the application was not available for is passed over.
    pub(crate) fn pass_over(&self, reject: Option<BusinessReject>) -> Option<Had> {
        let mut state = self.lock();
        if !std::mem::take(&mut state.halted) {
            return None;
        }
        let first = state.waiting.pop_front()?;
        state.discount(&first);
        state.note_room(self.limits);
        self.schedule(state);
        Some(Had { seq: first.seq, bytes: first.bytes, reject })
    }

    /// Whether the application has had everything, and the link has heard of it. If not, the worker
    /// is called when it has.
    #[inline(never)]
    pub(crate) fn is_idle(&self) -> bool {
        let mut state = self.lock();
        let is_idle = state.is_idle();
        state.awaits_rest |= !is_idle;
        is_idle
    }

    /// Whether the application is called for nothing, the link has heard of all that it has had,
    /// and nothing comes after that by itself: what it is not available for may wait. If not, the
    /// worker is called when it is so.
    #[inline(never)]
    pub(crate) fn stands_still(&self) -> bool {
        let mut state = self.lock();
        let stands = state.stands_still();
        state.awaits_rest |= !stands;
        stands
    }

    /// Whether the worker waits for what has come about meanwhile: that there is room, or that the
    /// link has heard of all that the application has had. It is to be called then.
    pub(crate) fn owes_call(&self) -> bool {
        let mut state = self.lock();
        let has_room = state.awaits_room && !state.is_full;
        let rests = state.awaits_rest && state.stands_still();
        state.awaits_room &= !has_room;
        state.awaits_rest &= !rests;
        has_room || rests
    }

    /// Whether more waits than may.
    #[inline(never)]
    pub(crate) fn is_over(&self) -> bool {
        let state = self.lock();
        let ApplicationSettings { messages_max, bytes_max, .. } = self.limits;
        state.messages > messages_max || state.bytes > bytes_max
    }

    /// Whether as many wait as may. If so, the worker is called when there is room.
    #[inline(never)]
    pub(crate) fn is_full(&self) -> bool {
        let mut state = self.lock();
        let is_full = state.is_full;
        state.awaits_room |= is_full;
        is_full
    }

    /// Whether no more is to be read while [`Desk::is_full`].
    pub(crate) fn waits_when_full(&self) -> bool {
        self.limits.when_full == WhenFull::Wait
    }

    /// Whether a burst has left memory behind.
    #[inline]
    pub(crate) fn is_bulky(&self) -> bool {
        self.is_bulky.load(Ordering::Relaxed)
    }

    /// Gives back the memory of a burst as soon as it is over.
    pub(crate) fn trim(&self) {
        let mut state = self.lock();
        state.trims = true;
        self.trim_now(&mut state);
    }

    fn trim_now(&self, state: &mut State) {
        if state.waiting.is_empty() && state.running.is_none() {
            state.trim();
            self.is_bulky.store(false, Ordering::Relaxed);
        }
    }

    /// How many messages and frames wait, and their bytes.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let state = self.lock();
        (state.messages, state.bytes)
    }

    /// Bytes of what waits.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// The link asks the application something. Returns whether that is free: it stays so until
    /// [`Desk::release`]. If not, the worker is called when it is.
    pub(crate) fn want(&self) -> bool {
        let mut state = self.lock();
        state.wanted = true;
        let is_free = state.running.is_none();
        state.awaits_rest |= !is_free;
        is_free
    }

    /// The link has asked what it wanted.
    pub(crate) fn release(&self) {
        let mut state = self.lock();
        if std::mem::take(&mut state.wanted) {
            self.schedule(state);
        }
    }

    /// The lowest number of a message that does not count as taken yet; those of before a reset
    /// have none.
    #[inline(never)]
    pub(crate) fn first_seq(&self) -> Option<u64> {
        let state = self.lock();
        let waiting = state.waiting.iter().map(|item| item.seq).find(|seq| *seq > 0);
        let mut begun = state.begun().filter(|seq| *seq != state.counted);
        begun.next().or(waiting)
    }

    /// The highest sequence number that the application has had, or is called for, and that the
    /// link has not been told of.
    pub(crate) fn last_seq(&self) -> Option<u64> {
        self.lock().begun().max()
    }

    /// The number of the message that the application is called for, if it does not count as taken
    /// yet.
    pub(crate) fn running_seq(&self) -> Option<u64> {
        let state = self.lock();
        state.running.flatten().filter(|seq| *seq > 0 && *seq != state.counted)
    }

    /// The message with this number counts as taken, also while the application is called for it.
    /// Returns whether the number still names one.
    pub(crate) fn count(&self, seq: u64) -> bool {
        let mut state = self.lock();
        let is_begun = state.begun().any(|begun| begun == seq);
        if is_begun {
            state.counted = seq;
        }
        is_begun
    }

    /// What the application has had, or is called for, does not count, and comes again.
    pub(crate) fn undo(&self) {
        self.lock().undo();
    }

    /// The numbers have been reset: those of the messages mean nothing any more.
    pub(crate) fn forget_numbers(&self) {
        let mut state = self.lock();
        state.waiting.iter_mut().for_each(|item| item.seq = 0);
        state.had.iter_mut().for_each(|had| had.seq = 0);
        state.forget_running();
    }

    /// Drops what waits and is asked for again after the next logon.
    pub(crate) fn forget_numbered(&self) {
        let mut state = self.lock();
        let is_halted_dropped = state.waiting.front().is_some_and(|first| first.seq > 0);
        let mut kept = std::mem::take(&mut state.waiting);
        kept.retain_mut(|item| {
            let stays = item.seq == 0;
            if !stays {
                state.discount(item);
                let bytes = std::mem::take(&mut item.bytes);
                state.keep(bytes);
            }
            stays
        });
        state.waiting = kept;
        state.is_full = false;
        if is_halted_dropped {
            (state.halted, state.refusal) = (false, None);
        }
        self.schedule(state);
    }

    /// All messages are asked for again, and what the application still does means nothing. What it
    /// is to be told stays.
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        state.undo();
        let mut kept = std::mem::take(&mut state.waiting);
        kept.retain(|item| {
            let stays = !matches!(item.call, Call::Message);
            if !stays {
                state.discount(item);
            }
            stays
        });
        state.waiting = kept;
        (state.halted, state.wanted, state.is_full) = (false, false, false);
        (state.refusal, state.panicked) = (None, None);
        self.schedule(state);
    }
}

impl State {
    /// Whether the application can be called for something.
    fn can_go_on(&self) -> bool {
        let Some(first) = self.waiting.front() else { return false };
        // Who has panicked is told of the end all the same.
        let has_panicked = self.panicked.is_some() && matches!(first.call, Call::Message);
        !(self.running.is_some() || self.halted || self.wanted || has_panicked)
    }

    /// Sequence numbers of messages that the application has had, or is called for, and that the
    /// link has not been told of. Messages from before a reset have none.
    fn begun(&self) -> impl Iterator<Item = u64> {
        let had = self.had.iter().map(|had| had.seq);
        had.chain(self.running.flatten()).filter(|seq| *seq > 0)
    }

    /// The link hears of the message with this number. Returns 0 if it has counted before.
    const fn forget_counted(&mut self, seq: u64) -> u64 {
        if seq == self.counted {
            self.counted = 0;
            return 0;
        }
        seq
    }

    /// The number of the message that the application is called for means nothing any more.
    const fn forget_running(&mut self) {
        self.counted = 0;
        if let Some(Some(seq)) = &mut self.running {
            *seq = 0;
        }
    }

    /// What the application has had, or is called for, means nothing any more.
    fn undo(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.waiting.iter_mut().for_each(|item| item.epoch = self.epoch);
        self.had.clear();
        self.forget_running();
    }

    fn stands_still(&self) -> bool {
        self.running.is_none() && self.had.is_empty() && !self.can_go_on()
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty()
            && self.running.is_none()
            && self.had.is_empty()
            && self.panicked.is_none()
    }

    fn count(&mut self, item: &Item) {
        self.bytes += item.bytes.len();
        self.messages += usize::from(item.counts());
    }

    fn discount(&mut self, item: &Item) {
        self.bytes -= item.bytes.len();
        self.messages -= usize::from(item.counts());
    }

    /// There is room again when half of what may wait is done.
    fn note_room(&mut self, limits: ApplicationSettings) {
        let ApplicationSettings { messages_max, bytes_max, .. } = limits;
        if self.messages <= messages_max / 2 && self.bytes <= bytes_max / 2 {
            self.is_full = false;
        }
    }

    /// Gives back the memory of a burst that is over.
    fn trim(&mut self) {
        self.trims = false;
        self.waiting.shrink_to(WAITING_KEPT);
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
    /// Whether it counts toward `messages_max`.
    const fn counts(&self) -> bool {
        self.call.counts()
    }

    /// What [`Desk::end`] needs of it, when the call is taken out.
    pub(crate) fn into_parts(self) -> (Call, (Vec<u8>, Now, u32)) {
        (self.call, (self.bytes, self.now, self.epoch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desk() -> Desk {
        Desk::new(ApplicationSettings { messages_max: 10_000, ..ApplicationSettings::default() })
    }

    /// The application is called for the next message, and has had it.
    fn serve(desk: &Desk) -> bool {
        let item = desk.begin().expect("something waits");
        let (call, parts) = item.into_parts();
        desk.end(matches!(call, Call::Message), parts, Made::Had)
    }

    /// Who finds the application done, and the link not yet told, is called when that is told by
    /// another thread.
    #[test]
    fn the_worker_is_called_when_the_link_has_heard_of_everything() {
        for waits in [Desk::is_idle, Desk::stands_still] {
            let desk = desk();
            desk.put(Now::default(), (Call::Message, 2), b"order");
            assert!(!serve(&desk), "nobody waits");
            assert!(!waits(&desk), "nobody has heard of it");
            assert!(!desk.owes_call());
            assert!(desk.take_news() && desk.take_had().is_some());
            assert!(desk.owes_call(), "now");
            assert!(!desk.owes_call(), "once");
            assert!(waits(&desk));
        }
    }

    #[test]
    fn a_burst_leaves_little_memory() {
        for bytes in [100, 8 << 10] {
            let desk = desk();
            let burst = || {
                let hand_over =
                    |seq| desk.put(Now::default(), (Call::Message, seq), &vec![0; bytes]);
                (2..700).for_each(hand_over);
                assert!(desk.is_bulky());
                // Not while there is more.
                desk.trim();
                assert!(desk.is_bulky() && desk.waiting() == (698, 698 * bytes));
                (2..700).for_each(|_| assert!(!serve(&desk)));
                while let Some(had) = desk.take_had() {
                    desk.give_back(had.bytes);
                }
                let state = desk.lock();
                assert!(state.spare_bytes <= SPARE_BYTES_MAX);
                assert_eq!(state.spare_bytes, state.spare.iter().map(Vec::capacity).sum::<usize>());
            };
            burst();
            burst();
            assert!(desk.begin().is_none(), "the end of a visit");
            assert!(!desk.is_bulky());
            let state = desk.lock();
            assert!(state.spare.len() <= SPARE_AT_REST);
            assert!(state.spare_bytes <= SPARE_BYTES_AT_REST, "{}", state.spare_bytes);
            assert!(state.waiting.capacity() + state.had.capacity() <= 4 * WAITING_KEPT);
        }
    }
}
