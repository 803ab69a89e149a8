//! A thread that drives sessions: waits in epoll or spins, and takes each through its turns.
//!
//! Invariants: an idle worker that waits uses no CPU: it sleeps until bytes, a command or a timer,
//! though it may look at its sockets for `spin_us` before it goes to sleep;
//! what a round costs goes by the sessions that have something to do, not by those that there are,
//! but for a worker that spins, which has few.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use transfix_session::{Disconnect, Now};
use transfix_transport::{Registry, Token};

use crate::drive::deadlines::Deadlines;
use crate::drive::driven::{DrivenSession, SessionOutcome};
use crate::drive::drives;
use crate::io::{Io, Poll, Ready, Waker};
use crate::link::core::ENDING_NS_MAX;
use crate::link::{Arrival, Down, Turn};
use crate::settings::Offline;

const WAKE: Token = Token(usize::MAX);
/// Turns of a spinning worker between two looks at the timers.
const TURNS_PER_TICK: u32 = 64;

/// Time between two looks at the timers of a polled worker.
const TICK_NS: u64 = 1_000_000;
/// Panics at the end of a session that do not get it on.
const PANICS_BORNE_MAX: u32 = 8;
/// More looks than a machine can take in a microsecond: in a world whose clock stands still, they
/// end a spin.
const LOOKS_PER_US: u64 = 64;
/// Time between two looks at stores that have something to do at the end.
const LOOK: Duration = Duration::from_millis(1);

/// What other threads ask of a worker.
pub(crate) enum Command {
    /// A connection for the session in this slot.
    Attach { slot: usize, arrival: Arrival, knock: Knock },
    /// One more session, in the next slot.
    Add(Box<DrivenSession>),
    /// Log out everywhere and end, at this moment of the monotonic clock at the latest.
    Stop { until_ns: u64, text: String },
}

/// A connection that waits for the worker of its session: one at a time, or those of a worker that
/// is busy pile up. Over when it is dropped.
pub(crate) struct Knock(Arc<AtomicBool>);

impl Knock {
    /// `None` if another one waits already.
    pub(crate) fn at(waits: &Arc<AtomicBool>) -> Option<Self> {
        let is_first = !waits.swap(true, Ordering::AcqRel);
        is_first.then(|| Self(Arc::clone(waits)))
    }
}

impl Drop for Knock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The door of a worker.
pub(crate) struct Mailbox {
    commands: Mutex<Vec<Command>>,
    pending: AtomicBool,
    /// Slots of which somebody wants something, besides commands.
    called: Mutex<Vec<usize>>,
    /// The worker spins, and looks at all its slots by itself.
    spins: bool,
    waker: Waker,
}

impl Mailbox {
    pub(crate) fn post(&self, command: Command) {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).push(command);
        self.pending.store(true, Ordering::Release);
        self.wake();
    }

    /// Something waits for the session in this slot.
    pub(crate) fn call(&self, slot: usize) {
        if !self.spins {
            self.called.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        }
        self.wake();
    }

    /// Exchanges the slots that were called for an empty list, whose memory is used again.
    fn exchange_called(&self, empty: &mut Vec<usize>) {
        std::mem::swap(&mut *self.called.lock().unwrap_or_else(PoisonError::into_inner), empty);
    }

    /// Ends the worker's wait; without effect on one that spins, which looks by itself.
    fn wake(&self) {
        (self.waker)();
    }

    fn take(&self) -> Vec<Command> {
        // Looked at in each turn of a spinning worker: a load is cheaper than a swap.
        if !self.pending.load(Ordering::Acquire) || !self.pending.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *self.commands.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The sessions of one thread.
pub(crate) struct Worker {
    io: Arc<dyn Io>,
    poll: Box<dyn Poll>,
    /// Memory for what is ready.
    ready: Vec<Ready>,
    mailbox: Arc<Mailbox>,
    slots: Vec<DrivenSession>,
    spins: bool,
    /// For how long it looks at its sockets after the last thing that happened, before it sleeps.
    spin_us: u32,
    /// When that time is over.
    spin_until: u64,
    /// Something has happened since the last look at the clock.
    has_progress: bool,
    turns: u32,
    /// When a polled worker looks at its timers again.
    tick_at: u64,
    deadlines: Deadlines,
    /// Memory for those that are due.
    due: Vec<usize>,
    /// Memory for those that were called.
    called: Vec<usize>,
    /// Slots whose sockets may hold more, each once: they are `due`.
    again: Vec<usize>,
    /// Taken from the mailbox and not carried out yet: a panic loses none.
    orders: VecDeque<Command>,
    stop: Option<Stop>,
    /// Why the last wait for sockets was none.
    failed: Option<io::Error>,
}

struct Stop {
    until_ns: u64,
    was_up: Vec<bool>,
}

impl Worker {
    pub(crate) fn new(
        slots: Vec<DrivenSession>,
        spins: bool,
        io: &Arc<dyn Io>,
    ) -> io::Result<Self> {
        let poll = io.poll()?;
        let waker = poll.waker(WAKE)?;
        let mailbox = Mailbox {
            commands: Mutex::default(),
            pending: AtomicBool::new(false),
            called: Mutex::default(),
            spins,
            waker,
        };
        let mut worker = Self {
            io: Arc::clone(io),
            poll,
            ready: Vec::new(),
            mailbox: Arc::new(mailbox),
            spin_us: slots.iter().map(|slot| slot.shared.spin_us).max().unwrap_or(0),
            slots,
            spins,
            spin_until: 0,
            has_progress: false,
            turns: 0,
            tick_at: 0,
            deadlines: Deadlines::default(),
            due: Vec::new(),
            called: Vec::new(),
            again: Vec::new(),
            orders: VecDeque::new(),
            stop: None,
            failed: None,
        };
        worker.look_at_all();
        Ok(worker)
    }

    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// Runs until told to stop.
    ///
    /// # Errors
    /// If the system has failed at the wait. It may go on all the same.
    pub(crate) fn run(&mut self) -> io::Result<Vec<SessionOutcome>> {
        drives::begin();
        self.begin();
        while !self.is_done() {
            self.run_once(true);
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
        }
        Ok(self.finish())
    }

    /// Looks at everything first. After a panic in this thread: what was ready then is not reported
    /// again.
    fn begin(&mut self) {
        self.ready.clear();
        self.again.clear();
        self.slots.iter_mut().for_each(|slot| slot.due = false);
        for i in 0..self.slots.len() {
            if self.slots[i].up {
                self.call(i);
            }
        }
        self.mailbox
            .called
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(0..self.slots.len());
        self.handed_over();
        self.look_at_all();
    }

    /// All sessions are due.
    fn look_at_all(&mut self) {
        for i in 0..self.slots.len() {
            self.deadlines.note(i, 0);
        }
    }

    /// The slot has its turn in the next round: one, however often it is called.
    fn call(&mut self, i: usize) {
        if !std::mem::replace(&mut self.slots[i].due, true) {
            self.again.push(i);
        }
    }

    /// Whether the stop is over: all links are down, or the deadline has passed.
    pub(crate) fn is_done(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| {
            self.slots.iter().all(|slot| !slot.up) || self.io.monotonic_ns() >= stop.until_ns
        })
    }

    /// Outcomes of the stop; what is still connected is cut.
    pub(crate) fn finish(&mut self) -> Vec<SessionOutcome> {
        let was_up = self.stop.take().map_or_else(Vec::new, |stop| stop.was_up);
        let mut outcomes = Vec::new();
        for (i, slot) in self.slots.iter_mut().enumerate() {
            outcomes.push(slot.outcome(was_up.get(i).copied().unwrap_or(slot.up)));
            if slot.up {
                let why = Down::Session(Disconnect::Operator);
                down(slot, &why, self.io.now(), self.poll.registry());
            }
        }
        // One limit for all, whose stores work beside each other. A store that has answered by then
        // gets as long again for what it is given last.
        let until_ns = self.io.monotonic_ns().saturating_add(ENDING_NS_MAX);
        // Each is looked at: that is what lets a store begin its next sync.
        let mut settled = || self.slots.iter_mut().fold(true, |all, slot| slot.is_settled() & all);
        while !settled() && self.io.monotonic_ns() < until_ns {
            self.io.sleep(LOOK);
        }
        let io = Arc::clone(&self.io);
        let ended = self.slots.iter_mut().zip(outcomes);
        ended
            .map(|(slot, outcome)| {
                let longer = io.monotonic_ns().saturating_add(ENDING_NS_MAX);
                let is_settled = slot.is_settled();
                finish(slot, if is_settled { longer } else { until_ns });
                slot.with_numbers(outcome)
            })
            .collect()
    }

    /// One round over commands, ready sockets and timers; returns whether anything happened.
    pub(crate) fn run_once(&mut self, may_wait: bool) -> bool {
        if may_wait {
            return self.round(true);
        }
        // The application's own thread, for so long.
        drives::during(|| self.round(false))
    }

    fn round(&mut self, may_wait: bool) -> bool {
        self.commands();
        if self.is_done() {
            return true;
        }
        let spinning = self.spins && (!may_wait || self.slots.iter().any(|slot| slot.up));
        let progress = if spinning { self.spin() } else { self.wait(may_wait) };
        self.turns = self.turns.wrapping_add(1);
        // A polled worker may be called seldom: it goes by the time, not by its turns.
        let due = !may_wait && self.io.monotonic_ns() >= self.tick_at;
        if !spinning || due || self.turns.is_multiple_of(TURNS_PER_TICK) {
            self.tick_at = self.io.monotonic_ns() + TICK_NS;
            if spinning {
                self.handed_over();
                // No turn notes deadlines while it spins: all are looked at.
                self.look_at_all();
            }
            self.timers();
        }
        progress
    }

    fn spin(&mut self) -> bool {
        let mut progress = false;
        for i in 0..self.slots.len() {
            progress |= self.turn(i).progress;
        }
        progress
    }

    fn wait(&mut self, may_wait: bool) -> bool {
        let now = self.io.monotonic_ns();
        let idle = self.again.is_empty() && may_wait;
        let deadline = self.deadlines.next();
        let until = self.stop.as_ref().map_or(deadline, |stop| deadline.min(stop.until_ns));
        let mut events = std::mem::take(&mut self.ready);
        let waited = match idle {
            true => self.wait_for_sockets(&mut events, now, until),
            false => self.poll.wait(&mut events, Some(Duration::ZERO)),
        };
        if let Err(error) = waited {
            self.failed = Some(error);
        }
        self.has_progress |= !idle || !events.is_empty();
        let mut woken = false;
        for event in events.drain(..) {
            if event.token == WAKE {
                woken = true;
                continue;
            }
            let i = event.token.0;
            self.slots[i].read_closed |= event.is_read_closed;
            self.call(i);
        }
        self.ready = events;
        let mut ready = std::mem::take(&mut self.again);
        for i in ready.drain(..) {
            self.slots[i].due = false;
            self.ready(i);
        }
        // The list goes back with its memory, and with what the turns have added to it.
        ready.append(&mut self.again);
        self.again = ready;
        if woken {
            self.handed_over();
        }
        true
    }

    /// Waits until something is ready, or until this moment; looks without waiting first, for as
    /// long as the settings say.
    fn wait_for_sockets(
        &mut self,
        events: &mut Vec<Ready>,
        mut now: u64,
        until: u64,
    ) -> io::Result<()> {
        if self.spin_us > 0 {
            if std::mem::take(&mut self.has_progress) {
                self.spin_until = now.saturating_add(u64::from(self.spin_us) * 1_000);
            }
            let mut looks = u64::from(self.spin_us) * LOOKS_PER_US;
            while now < self.spin_until.min(until) && looks > 0 {
                self.poll.wait(events, Some(Duration::ZERO))?;
                if !events.is_empty() {
                    return Ok(());
                }
                now = self.io.monotonic_ns();
                looks -= 1;
            }
        }
        let timeout = match until.saturating_sub(now) {
            _ if until == u64::MAX => None,
            // Rounded up to the kernel's milliseconds, or the last of them would be spun away.
            ns => Some(Duration::from_nanos(ns.next_multiple_of(1_000_000))),
        };
        self.poll.wait(events, timeout)
    }

    fn ready(&mut self, i: usize) {
        if self.slots[i].up {
            let turn = self.turn(i);
            // Edge-triggered: an end comes with the last bytes, and there is no other event for it.
            let ends = turn.progress && self.slots[i].read_closed;
            if self.slots[i].up && (turn.again || ends) {
                self.call(i);
            }
        } else {
            self.connect(i, self.io.now());
        }
    }

    /// Sessions whose queues other threads have filled, or of which an operator wants something.
    fn handed_over(&mut self) {
        let mut called = std::mem::take(&mut self.called);
        match self.spins {
            true => called.extend(0..self.slots.len()),
            false => self.mailbox.exchange_called(&mut called),
        }
        for i in called.drain(..) {
            // A session that is made now may be called before its slot is there, which is looked at
            // when it comes.
            if i >= self.slots.len() {
                continue;
            }
            let shared = &self.slots[i].shared;
            // First: whoever calls from here on calls again.
            let called = shared.bell.answer();
            let takes = self.slots[i].up || shared.offline != Offline::Refuse;
            if called || (takes && shared.queue.is_pending()) {
                self.ready(i);
                // A Logout(5), for instance, makes the session's next deadline earlier.
                self.note_deadline(i);
            }
        }
        self.called = called;
    }

    fn turn(&mut self, i: usize) -> Turn {
        if !self.slots[i].up {
            return Turn::default();
        }
        match guarded(&mut self.slots[i], |slot| slot.turn()) {
            Ok(turn) => {
                if turn.progress
                    && !self.spins
                    && let Some(at) = self.slots[i].deadline_after_turn()
                {
                    self.deadlines.note(i, at);
                }
                turn
            }
            Err(why) => {
                self.down(i, &why);
                Turn { progress: true, again: false }
            }
        }
    }

    fn connect(&mut self, i: usize, now: Now) {
        let waits = !self.spins;
        let registry = self.poll.registry();
        let token = Token(i);
        match guarded(&mut self.slots[i], |slot| slot.connect(now, registry, token, waits)) {
            Ok(()) => self.note_deadline(i),
            Err(why) => self.down(i, &why),
        }
    }

    fn down(&mut self, i: usize, why: &Down) {
        down(&mut self.slots[i], why, self.io.now(), self.poll.registry());
        self.note_deadline(i);
    }

    fn note_deadline(&mut self, i: usize) {
        if let Some(at) = self.slots[i].deadline() {
            self.deadlines.note(i, at);
        }
    }

    fn timers(&mut self) {
        let now = self.io.now();
        // Those that are due now: what a session notes meanwhile is for the next round.
        let mut due = std::mem::take(&mut self.due);
        due.extend(std::iter::from_fn(|| self.deadlines.take_due(now.monotonic_ns)));
        for i in due.drain(..) {
            if self.slots[i].up {
                match guarded(&mut self.slots[i], |slot| slot.tick(now)) {
                    Ok(true) => self.call(i),
                    Ok(false) => {}
                    Err(why) => self.down(i, &why),
                }
                self.note_deadline(i);
            } else if self.stop.is_none() {
                self.connect(i, now);
            }
        }
        self.due = due;
    }

    fn commands(&mut self) {
        self.orders.extend(self.mailbox.take());
        while let Some(command) = self.orders.pop_front() {
            match command {
                Command::Attach { slot, arrival, knock } => {
                    drop(knock);
                    let now = self.io.now();
                    let registry = (!self.spins).then(|| (self.poll.registry(), Token(slot)));
                    let was_up = self.slots[slot].up;
                    let attach = |slot: &mut DrivenSession| slot.attach(now, arrival, registry);
                    match guarded(&mut self.slots[slot], attach) {
                        // It was refused, and the line about it may be left out and told later.
                        Ok(()) if was_up => self.note_deadline(slot),
                        Ok(()) => {
                            self.note_deadline(slot);
                            self.ready(slot);
                        }
                        Err(why) => self.down(slot, &why),
                    }
                }
                Command::Add(slot) => {
                    self.spin_us = self.spin_us.max(slot.shared.spin_us);
                    self.slots.push(*slot);
                    self.mailbox.call(self.slots.len() - 1);
                    self.deadlines.note(self.slots.len() - 1, 0);
                }
                Command::Stop { until_ns, text } => self.begin_stop(until_ns, &text),
            }
        }
    }

    fn begin_stop(&mut self, until_ns: u64, text: &str) {
        let was_up = self.slots.iter().map(|slot| slot.up).collect();
        self.stop = Some(Stop { until_ns, was_up });
        let now = self.io.now();
        for i in 0..self.slots.len() {
            match guarded(&mut self.slots[i], |slot| slot.begin_stop(now, text)) {
                Ok(_) => self.note_deadline(i),
                Err(why) => self.down(i, &why),
            }
        }
    }
}

/// A bug of ours or of the application ends its session; the others of the worker go on.
fn guarded<T>(
    slot: &mut DrivenSession,
    act: impl FnOnce(&mut DrivenSession) -> Result<T, Down>,
) -> Result<T, Down> {
    catch_unwind(AssertUnwindSafe(|| act(slot))).unwrap_or(Err(Down::Panicked))
}

/// The engine ends. The application, or whoever listens to events, may panic: it is told of the
/// next message all the same.
fn finish(slot: &mut DrivenSession, until_ns: u64) {
    if !slot.settle(until_ns) {
        return;
    }
    let mut left = slot.unsettled();
    // A panic in `on_unsent` leaves one message less to tell. One in another callback, or in
    // whoever listens to events, leaves as many: a few of these are borne, so that the loop ends.
    let mut borne = 0;
    let act = |slot: &mut DrivenSession| {
        slot.finish(until_ns);
        Ok(())
    };
    while guarded(slot, act).is_err() {
        let before = std::mem::replace(&mut left, slot.unsettled());
        borne += u32::from(left >= before);
        if borne > PANICS_BORNE_MAX {
            return;
        }
    }
}

fn down(slot: &mut DrivenSession, why: &Down, now: Now, registry: Registry<'_>) {
    // The application hears of the end, and may panic once more.
    let told = guarded(slot, |slot| {
        slot.down(why, now, registry);
        Ok(())
    });
    if told.is_err() {
        slot.abandon(now);
    }
}

#[cfg(test)]
mod tests;
