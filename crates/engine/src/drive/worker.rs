//! A thread that drives sessions: waits for events in epoll, or polls without waiting, and runs the
//! turns of its sessions.
//!
//! Invariants: an idle worker that waits uses no CPU. The worker sleeps until bytes, a command or a
//! timer, but may check its sockets for `spin` first. The cost of a round depends on the number of
//! sessions with work. A spinning worker, which has few sessions, checks all.

mod ending;

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use slab::Slab;
use transfix_observe::event;
use transfix_session::Now;
use transfix_settings::Offline;
use transfix_transport::{Registry, Token};

use crate::drive::balance::Balance;
use crate::drive::command_queue::{Command, CommandQueue};
use crate::drive::deadlines::Deadlines;
use crate::drive::driven::DrivenSession;
use crate::drive::drives;
use crate::drive::outcome::SessionOutcome;
use crate::drive::session_waker::{PendingConnection, WorkerHandle};
use crate::drive::worker::ending::{Leaving, Left, Stop};
use crate::io::{Io, Poll, Ready};
use crate::link::{Arrival, Down, Turn};

const WAKE: Token = Token(usize::MAX);
/// The number of turns of a spinning worker between two checks of its timers.
const TURNS_PER_TICK: u32 = 64;

/// The interval of timer checks of a polled worker.
const TICK_NS: u64 = 1_000_000;
/// More checks than a machine can do in a microsecond. The number ends a spin in a simulation whose
/// clock does not advance.
const LOOKS_PER_US: u64 = 64;
/// The interval at which stores are checked while the worker ends.
const LOOK: Duration = Duration::from_millis(1);

/// A worker with its sessions, which one thread drives.
pub(crate) struct Worker {
    io: Arc<dyn Io>,
    poll: Box<dyn Poll>,
    /// The events of a poll; kept to reuse its memory.
    ready: Vec<Ready>,
    command_queue: Arc<CommandQueue>,
    slots: Slab<DrivenSession>,
    /// The load of the pool; `None` if sessions stay with their worker.
    balance: Option<Balance>,
    spins: bool,
    /// The time, in nanoseconds, for which the worker checks its sockets after the last event
    /// before it sleeps.
    spin_ns: u64,
    /// The monotonic time until which the worker checks its sockets without sleeping.
    spin_until: u64,
    /// True if an event has occurred since `spin_until` was last set.
    has_progress: bool,
    turns: u32,
    /// The monotonic time at which a polled worker next checks its timers.
    tick_at: u64,
    deadlines: Deadlines,
    /// The sessions whose deadline has come; kept to reuse its memory.
    due: Vec<usize>,
    /// The sessions called by other threads; kept to reuse its memory.
    called: Vec<usize>,
    /// The slots that get a turn in the next round. Each is marked `due`, so that the list has no
    /// duplicates.
    again: Vec<usize>,
    /// The slot of the last turn, whose data are in the processor's cache.
    last: usize,
    /// Commands taken from the command queue but not executed yet, so that a panic loses none.
    orders: VecDeque<Command>,
    stop: Option<Stop>,
    /// Sessions that are logging out to leave the worker.
    leaving: Vec<Leaving>,
    left: Vec<Left>,
    /// True if the worker belongs to one session, and ends with that session.
    is_its_own: bool,
    /// The reason why the last wait for sockets failed.
    failed: Option<io::Error>,
}

impl Worker {
    pub(crate) fn new(
        slots: Vec<DrivenSession>,
        spins: bool,
        io: &Arc<dyn Io>,
    ) -> io::Result<Self> {
        let poll = io.poll()?;
        let waker = poll.waker(WAKE)?;
        let command_queue = CommandQueue::new(spins, slots.len(), waker);
        let mut worker = Self {
            io: Arc::clone(io),
            poll,
            ready: Vec::new(),
            command_queue: Arc::new(command_queue),
            spin_ns: spin_ns(slots.iter()),
            slots: slots.into_iter().enumerate().collect(),
            balance: None,
            spins,
            spin_until: 0,
            has_progress: false,
            turns: 0,
            tick_at: 0,
            deadlines: Deadlines::default(),
            due: Vec::new(),
            called: Vec::new(),
            again: Vec::new(),
            last: 0,
            orders: VecDeque::new(),
            stop: None,
            leaving: Vec::new(),
            left: Vec::new(),
            is_its_own: false,
            failed: None,
        };
        worker.make_all_due();
        Ok(worker)
    }

    /// Makes the worker part of a pool, where sessions may move between workers.
    pub(crate) fn share(&mut self, balance: Balance) {
        self.balance = Some(balance);
    }

    pub(crate) fn command_queue(&self) -> &Arc<CommandQueue> {
        &self.command_queue
    }

    /// Makes the worker the thread of one session, which ends with that session.
    pub(crate) const fn ends_with_its_session(&mut self) {
        self.is_its_own = true;
    }

    /// Runs rounds until the worker is stopped. Returns how its sessions ended.
    ///
    /// # Errors
    /// If the system's wait fails. The caller may run the worker again.
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

    /// Makes all sessions due, because the poll does not repeat events that were reported before a
    /// panic of this thread.
    fn begin(&mut self) {
        self.ready.clear();
        self.again.clear();
        for (i, slot) in &mut self.slots {
            slot.due = slot.up;
            if slot.up {
                self.again.push(i);
            }
        }
        self.command_queue.call_all(self.slots.iter().map(|(i, _)| i));
        self.handed_over();
        self.make_all_due();
    }

    /// Makes the deadlines of all sessions due at once.
    fn make_all_due(&mut self) {
        for (i, _) in &self.slots {
            self.deadlines.note(i, 0);
        }
    }

    /// Schedules one turn of the session in the next round, however often it is called before.
    fn call(&mut self, i: usize) {
        if !std::mem::replace(&mut self.slots[i].due, true) {
            self.again.push(i);
        }
    }

    /// Returns a file descriptor that becomes readable when a socket is ready or another thread
    /// calls. Returns `None` if the worker spins.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.poll.fd().filter(|_| !self.spins)
    }

    /// Returns the monotonic time at which the next round is due without an event: 0 for at once,
    /// `u64::MAX` for never.
    pub(crate) fn due_ns(&self) -> u64 {
        // A command that arrived during the last round may have used up its wake-up, so the
        // descriptor is no longer readable.
        if !self.again.is_empty() || !self.orders.is_empty() || self.command_queue.has_commands() {
            return 0;
        }
        let deadline = self.deadlines.next();
        let until = self.stop.as_ref().map_or(deadline, |stop| deadline.min(stop.until_ns));
        if self.has_no_leaving_sessions() { until } else { until.min(self.leaving_at()) }
    }

    /// Runs one round over commands, ready sockets and timers. Returns true if there was any work.
    pub(crate) fn run_once(&mut self, may_wait: bool) -> bool {
        if may_wait {
            return self.round(true);
        }
        // The thread belongs to the program, so it counts as driving sessions only during the
        // round.
        drives::during(|| self.round(false))
    }

    /// Runs one round in a thread of the program. A worker that does not spin waits until something
    /// is ready.
    pub(crate) fn wait_once(&mut self) {
        drives::during(|| self.round(!self.spins));
    }

    fn round(&mut self, may_wait: bool) -> bool {
        self.commands();
        if self.is_done() {
            return true;
        }
        let spinning = self.spins && (!may_wait || self.slots.iter().any(|(_, slot)| slot.up));
        let progress = if spinning { self.spin() } else { self.wait(may_wait) };
        self.turns = self.turns.wrapping_add(1);
        // Checks the clock instead of counting rounds, because the program may call a polled worker
        // seldom.
        let due = !may_wait && self.io.monotonic_ns() >= self.tick_at;
        if !spinning || due || self.turns.is_multiple_of(TURNS_PER_TICK) {
            self.tick_at = self.io.monotonic_ns() + TICK_NS;
            if spinning {
                self.handed_over();
                // Turns of a spinning worker note no deadlines, so all sessions are checked.
                self.make_all_due();
            }
            self.timers();
        }
        if !self.has_no_leaving_sessions() {
            self.release();
        }
        progress
    }

    fn spin(&mut self) -> bool {
        let mut progress = false;
        let is_alone = self.slots.len() == 1;
        // A removed session leaves its slot empty.
        for i in 0..self.slots.capacity() {
            if self.slots.get_mut(i).is_some_and(|slot| !slot.gives_way()) {
                progress |= self.turn(i, is_alone).progress;
            }
        }
        progress
    }

    fn wait(&mut self, may_wait: bool) -> bool {
        let now = self.io.monotonic_ns();
        self.rest(now);
        let idle = self.again.is_empty() && may_wait;
        let until = self.due_ns();
        let mut events = std::mem::take(&mut self.ready);
        let waited = match idle {
            true => self.wait_for_sockets(&mut events, now, until),
            false => self.poll.wait(&mut events, Some(Duration::ZERO)),
        };
        if let Err(error) = waited {
            self.failed = Some(error);
        }
        let mut began_ns = self.work();
        self.has_progress |= !idle || !events.is_empty();
        let mut woken = false;
        for event in events.drain(..) {
            if event.token == WAKE {
                woken = true;
                continue;
            }
            let i = event.token.0;
            // The session may have left during this round.
            let Some(slot) = self.slots.get_mut(i) else { continue };
            slot.read_closed |= event.is_read_closed;
            slot.end_is_due |= event.is_read_closed;
            self.call(i);
        }
        self.ready = events;
        let mut ready = std::mem::take(&mut self.again);
        let is_alone = ready.len() == 1;
        if let Some(&first) = ready.first().filter(|first| **first != self.last) {
            self.slots[first].prefetch();
        }
        for (n, &i) in ready.iter().enumerate() {
            // Loads the next session's memory into the cache during this turn.
            if let Some(next) = ready.get(n + 1) {
                self.slots[*next].prefetch();
            }
            self.slots[i].due = false;
            self.ready(i, is_alone);
            if let Some(balance) = &mut self.balance {
                let now = self.io.monotonic_ns();
                balance.note_turn(i, now.saturating_sub(began_ns));
                began_ns = now;
            }
        }
        let progress = woken || !ready.is_empty();
        // Reuses the memory of the list for the slots that the turns have added.
        ready.clear();
        ready.append(&mut self.again);
        self.again = ready;
        if woken {
            self.handed_over();
        }
        progress
    }

    /// Records that the worker has no work. If it is overloaded, gives sessions to another worker
    /// of the pool.
    fn rest(&mut self, now: u64) {
        let Some(balance) = &mut self.balance else { return };
        self.command_queue.rests(now);
        if self.stop.is_none()
            && let Some((to, slots)) = balance.gift(now)
        {
            slots.into_iter().for_each(|i| self.give(i, &to));
        }
    }

    /// Records that the worker has work. Returns the time, or 0 if it is not needed.
    fn work(&self) -> u64 {
        if self.balance.is_none() {
            return 0;
        }
        let now = self.io.monotonic_ns();
        self.command_queue.works(now);
        now
    }

    /// Gives the session in this slot, with its established connection, to another worker.
    fn give(&mut self, i: usize, to: &Arc<CommandQueue>) {
        if self.leaving.iter().any(|leaving| leaving.slot == i) {
            return;
        }
        let may_go = |slot: &mut DrivenSession| slot.leave(self.poll.registry());
        if !self.slots.get_mut(i).is_some_and(may_go) {
            return;
        }
        let session = Box::new(self.slots.remove(i));
        self.again.retain(|other| *other != i);
        self.spin_ns = spin_ns(self.slots.iter().map(|(_, slot)| slot));
        let (session_waker, id) =
            (Arc::clone(&session.shared.session_waker), session.shared.id.clone());
        match session_waker.set_after(to.handle(), || to.add(session)) {
            Ok(()) => {
                self.command_queue.has_lost_one();
                to.wake();
                event!(info, GivenToOtherWorker, session = %id);
            }
            // The other worker is stopping, so this worker keeps the session.
            Err(session) => self.take_in(*session),
        }
    }

    /// Takes in a session that is new, or that another worker gives with its connection.
    fn take_in(&mut self, mut session: DrivenSession) {
        self.spin_ns = self.spin_ns.max(session.shared.spin_ns);
        session.due = false;
        let i = self.slots.insert(session);
        let slot = &mut self.slots[i];
        let entered = slot.enter(self.poll.registry(), Token(i));
        // From here on calls reach this worker. Calls that reached the other worker are handled by
        // the turn below.
        slot.shared.session_waker.set(self.command_queue.handle(), i);
        if slot.up {
            self.call(i);
        }
        self.command_queue.call(i);
        self.deadlines.note(i, 0);
        if let Err(why) = entered {
            self.down(i, &why);
        }
    }

    /// Waits until something is ready, or until `until`. Checks without waiting first, for the
    /// configured time.
    fn wait_for_sockets(
        &mut self,
        events: &mut Vec<Ready>,
        mut now: u64,
        until: u64,
    ) -> io::Result<()> {
        if self.spin_ns > 0 {
            if std::mem::take(&mut self.has_progress) {
                self.spin_until = now.saturating_add(self.spin_ns);
            }
            let mut looks = (self.spin_ns / 1_000).saturating_mul(LOOKS_PER_US);
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
            // Rounds the timeout up to the kernel's milliseconds; otherwise the wait would end
            // early and the rest be spent in a loop.
            ns => Some(Duration::from_nanos(ns.next_multiple_of(1_000_000))),
        };
        self.poll.wait(events, timeout)
    }

    /// Runs a turn of the session, or lets an unconnected session do its work. `is_alone` is true
    /// if no other session is due in this round.
    fn ready(&mut self, i: usize, is_alone: bool) {
        self.last = i;
        if self.slots[i].up {
            let turn = self.turn(i, is_alone);
            // Events are edge-triggered: the end of the connection is reported once, together with
            // the last bytes. The session is called again until it has read the end, because the
            // last bytes may make no progress, such as part of a TLS record.
            let slot = &mut self.slots[i];
            let is_due = std::mem::take(&mut slot.end_is_due);
            let ends = slot.read_closed && (turn.progress || is_due);
            if slot.up && (turn.again || ends) {
                self.call(i);
            }
        } else {
            self.connect(i, self.io.now());
        }
    }

    /// Runs turns of sessions that other threads have called, for queued messages or for an
    /// operator's action.
    fn handed_over(&mut self) {
        let mut called = std::mem::take(&mut self.called);
        match self.spins {
            true => called.extend(self.slots.iter().map(|(i, _)| i)),
            false => self.command_queue.exchange_called(&mut called),
        }
        for i in called.drain(..) {
            // The session may be on its way to this worker, which checks it on arrival, or may have
            // left.
            let Some(slot) = self.slots.get(i) else { continue };
            let shared = &slot.shared;
            // Acknowledges the call before the turn, so that later callers call again.
            let called = shared.session_waker.answer();
            let takes = slot.up || shared.offline != Offline::Refuse;
            if called || (takes && shared.queue.is_pending()) {
                self.ready(i, false);
                // The turn may have made the next deadline earlier, for example by a Logout(5).
                self.note_deadline(i);
            }
        }
        self.called = called;
    }

    fn turn(&mut self, i: usize, is_alone: bool) -> Turn {
        if !self.slots[i].up {
            return Turn::default();
        }
        match guarded(&mut self.slots[i], |slot| slot.turn(is_alone)) {
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
        // Checks only the sessions that are due now, because deadlines noted meanwhile belong to
        // the next round.
        let mut due = std::mem::take(&mut self.due);
        due.extend(std::iter::from_fn(|| self.deadlines.take_due(now.monotonic_ns)));
        for i in due.drain(..) {
            if !self.slots.contains(i) {
                continue;
            }
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
        self.orders.extend(self.command_queue.take());
        while let Some(command) = self.orders.pop_front() {
            match command {
                Command::Attach { arrival, pending } => self.attach(arrival, pending),
                Command::Add(session) => self.take_in(*session),
                Command::Release(release) => self.begin_release(release),
                Command::Stop { until_ns, text } => self.begin_stop(until_ns, &text),
            }
        }
    }

    /// Runs turns until the end of the present connection was read. A counterparty that lost its
    /// connection reconnects at once, perhaps before this session has read the end.
    fn look_for_end(&mut self, i: usize) {
        let mut in_vain = 0;
        for _ in 0..LAST_TURNS_MAX {
            // A turn may make no progress although bytes arrived, such as part of a TLS record, so
            // two in a row are needed.
            if !self.slots[i].up || in_vain == 2 {
                return;
            }
            let turn = self.turn(i, false);
            in_vain = if turn.progress { 0 } else { in_vain + 1 };
            if turn.again {
                self.call(i);
            }
        }
    }

    fn attach(&mut self, arrival: Arrival, pending: PendingConnection) {
        let (i, session_waker) = (pending.session_waker().slot(), pending.session_waker());
        if !self
            .slots
            .get(i)
            .is_some_and(|slot| Arc::ptr_eq(&slot.shared.session_waker, session_waker))
        {
            // The session has moved to another worker, or has not arrived here yet.
            return pending.hand_over(arrival);
        }
        drop(pending);
        self.look_for_end(i);
        let now = self.io.now();
        let registry = (!self.spins).then(|| (self.poll.registry(), Token(i)));
        let was_up = self.slots[i].up;
        let attach = |slot: &mut DrivenSession| slot.attach(now, arrival, registry);
        match guarded(&mut self.slots[i], attach) {
            // The connection was refused. The log line about it may be omitted, to be reported at
            // the deadline.
            Ok(()) if was_up => self.note_deadline(i),
            Ok(()) => {
                self.note_deadline(i);
                self.ready(i, false);
            }
            Err(why) => self.down(i, &why),
        }
    }
}

/// The maximum number of turns in which an old connection may end before a new connection is
/// refused.
const LAST_TURNS_MAX: usize = 8;

/// Returns the longest time for which one of these sessions lets its worker check sockets before it
/// sleeps.
fn spin_ns<'s>(slots: impl Iterator<Item = &'s DrivenSession>) -> u64 {
    slots.map(|slot| slot.shared.spin_ns).max().unwrap_or(0)
}

/// Calls `act`. A panic of the engine or the application ends only its session.
fn guarded<T>(
    slot: &mut DrivenSession,
    act: impl FnOnce(&mut DrivenSession) -> Result<T, Down>,
) -> Result<T, Down> {
    catch_unwind(AssertUnwindSafe(|| act(slot))).unwrap_or(Err(Down::Panicked))
}

fn down(slot: &mut DrivenSession, why: &Down, now: Now, registry: Registry<'_>) {
    // The application learns of the end here, and may panic again.
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
