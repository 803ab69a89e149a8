//! The threads and the clock of a simulated world. Only one thread runs at a time; the seed chooses
//! the next thread at each switch point.
//!
//! The threads are operating-system threads, so that the engine's code runs unchanged; all threads
//! but one wait. The switch points are clock reads, socket reads and writes, waits, and attempts to
//! lock what another thread has locked. Time advances by a microsecond or two at each switch point.
//! When all threads wait, time jumps to the next event.
//!
//! Invariants: between two switch points of a thread, no other thread runs. A finished world lets
//! all its threads run freely until they end.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use transfix::simulated::io::Ready;
use transfix_transport::Token;

use super::net::Net;
use crate::random::Random;
use crate::world::Trace;

pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000 * MS;
/// The number of consecutive clock reads or empty reads after which a thread counts as spinning.
const IDLE_READS_MAX: u32 = 200;
/// The maximum time that passes while a spinning thread is skipped, in nanoseconds.
const SPIN_NS: u64 = 200 * MS;
/// The maximum number of switch points in a world; a world that exceeds the limit counts as stuck.
const PASSES_MAX: u64 = 20_000_000;

thread_local! {
    /// The index of the current thread in its world.
    static ME: Cell<usize> = const { Cell::new(0) };
}

/// The status of a thread, with the event that a waiting thread needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Runs,
    /// The thread waits until this time in nanoseconds, or until the poller with this index has a
    /// ready event.
    Waits(u64, Option<usize>),
    /// The thread waits until the thread with this index has ended.
    Joins(usize),
    Ended,
}

struct Task {
    name: String,
    process: usize,
    status: Status,
    baton: Arc<Baton>,
    looks: u32,
}

/// The permission for one thread to run. A thread passes the baton to the next thread at a switch
/// point.
#[derive(Default)]
struct Baton {
    is_here: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Baton {
    fn give(&self) {
        self.is_here.store(true, Ordering::Release);
        if let Some(thread) = &*self.thread.lock().unwrap_or_else(PoisonError::into_inner) {
            thread.unpark();
        }
    }

    fn wait(&self) {
        while !self.is_here.swap(false, Ordering::AcqRel) {
            std::thread::park();
        }
    }
}

/// The poller of a thread: the ready events that the thread has not yet received.
#[derive(Default)]
struct Poller {
    pending: Vec<Ready>,
}

/// The state of all threads of a world, and the network between the processes.
pub(super) struct State {
    pub(super) random: Random,
    pub(super) now_ns: u64,
    pub(super) net: Net,
    tasks: Vec<Task>,
    places: Vec<Poller>,
    /// The numbers of the killed processes.
    killed: Vec<usize>,
    current: usize,
    switch_one_in: usize,
    passes: u64,
    /// The deadline of the current action, in simulated nanoseconds.
    over_by_ns: u64,
    broken: Option<String>,
}

/// The simulated machine that runs all processes of a world.
pub(super) struct Machine {
    state: Mutex<State>,
    is_free: AtomicBool,
    trace: Trace,
    /// The previous CPU affinity of the world's first thread, which is restored after the run.
    cpus: Option<CpuSet>,
}

impl Machine {
    /// Creates a machine whose first thread is the caller. All threads run on the caller's CPU:
    /// only one thread runs at a time, and a switch to another CPU would need a wakeup.
    pub(super) fn new(seed: u64, switch_one_in: usize, trace: Trace) -> Arc<Self> {
        let mut random = Random::new(seed);
        let net = Net::new(Random::new(random.next()));
        ME.set(0);
        let cpus = stay_on_one_cpu();
        let first = Task {
            name: "world".to_owned(),
            process: 0,
            status: Status::Runs,
            baton: baton_of(std::thread::current()),
            looks: 0,
        };
        let state = State {
            random,
            now_ns: SECOND,
            net,
            tasks: vec![first],
            places: Vec::new(),
            killed: Vec::new(),
            current: 0,
            switch_one_in,
            passes: 0,
            over_by_ns: u64::MAX,
            broken: None,
        };
        let (state, is_free) = (Mutex::new(state), AtomicBool::new(false));
        Arc::new(Self { state, is_free, trace, cpus })
    }

    /// Returns a random number below `end`.
    pub(super) fn below(&self, end: usize) -> usize {
        self.state().random.below(end)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn say(&self, what: impl FnOnce() -> String) {
        if self.is_free() {
            return;
        }
        let now_ns = self.state().now_ns;
        self.trace.add(now_ns, what);
    }

    /// Returns true if the world keeps a trace.
    pub(super) const fn is_traced(&self) -> bool {
        self.trace.is_kept()
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.state().now_ns
    }

    /// Sets the deadline of the current action; `u64::MAX` means none. An action that misses its
    /// deadline breaks a law.
    pub(super) fn must_be_over_by(&self, at_ns: u64) {
        self.state().over_by_ns = at_ns;
    }

    pub(super) fn passes(&self) -> u64 {
        self.state().passes
    }

    /// Records a broken law. Only the first broken law of a world is reported.
    pub(super) fn breaks(&self, law: impl FnOnce() -> String) {
        if !self.is_free() {
            self.state().broken.get_or_insert_with(law);
        }
    }

    pub(super) fn broken(&self) -> Option<String> {
        self.state().broken.clone()
    }

    /// Lets all threads run freely after the end of the test, so that they can end.
    pub(super) fn set_free(&self) {
        self.is_free.store(true, Ordering::Release);
        let batons: Vec<_> =
            self.state().tasks.iter().map(|task| Arc::clone(&task.baton)).collect();
        batons.iter().for_each(|baton| baton.give());
        if ME.get() == 0
            && let Some(cpus) = &self.cpus
        {
            let _ = sched_setaffinity(None, cpus);
        }
    }

    pub(super) fn is_free(&self) -> bool {
        self.is_free.load(Ordering::Acquire)
    }

    /// Returns the time in nanoseconds. The read is a switch point: another thread may run first.
    pub(super) fn clock(&self) -> u64 {
        self.pass();
        let mut state = self.state();
        if self.is_free() {
            // In a finished world the clock jumps, so that a waiting thread continues soon.
            state.now_ns += SECOND;
        }
        state.now_ns
    }

    /// Marks a switch point, at which another thread may run.
    pub(super) fn pass(&self) {
        if self.is_free() {
            return std::thread::yield_now();
        }
        let mut state = self.state();
        state.passes += 1;
        let took = 200 + state.random.below(2_000) as u64;
        state.move_on(took);
        let me = ME.get();
        state.tasks[me].looks += 1;
        let spins = state.tasks[me].looks >= IDLE_READS_MAX;
        let one_in = state.switch_one_in;
        if spins || state.random.below(one_in) == 0 {
            self.switch(state);
        }
    }

    /// Gives other threads an opportunity to run. Returns false if the world is finished and all
    /// threads run freely.
    pub(super) fn give_way(&self) -> bool {
        if self.is_free() {
            return false;
        }
        let mut state = self.state();
        state.passes += 1;
        state.move_on(1_000);
        // The thread that holds the lock may be marked as spinning, so the marks of all threads are
        // cleared.
        state.tasks.iter_mut().for_each(|task| task.looks = 0);
        self.switch(state);
        true
    }

    /// Records that the current thread has made progress, so that the thread does not count as
    /// spinning.
    pub(super) fn has_acted(&self) {
        self.state().tasks[ME.get()].looks = 0;
    }

    /// Waits until this time, or until the poller `place` has a ready event.
    pub(super) fn wait(&self, until_ns: u64, place: Option<usize>) {
        if self.is_free() {
            std::thread::park_timeout(Duration::from_micros(100));
            return;
        }
        let mut state = self.state();
        state.passes += 1;
        state.move_on(0);
        let me = ME.get();
        state.tasks[me].looks = 0;
        let is_ready = place.is_some_and(|place| !state.places[place].pending.is_empty());
        // In one case of 200, a wait ends without a reason, like a spurious wakeup.
        let ends = until_ns <= state.now_ns || is_ready || state.random.below(200) == 0;
        if !ends {
            state.tasks[me].status = Status::Waits(until_ns, place);
        }
        self.switch(state);
    }

    pub(super) fn sleep(&self, ns: u64) {
        let until_ns = self.now_ns() + ns;
        while self.now_ns() < until_ns && !self.is_free() {
            self.wait(until_ns, None);
        }
    }

    /// Passes the permission to run to another thread. Returns when the current thread may run
    /// again.
    fn switch(&self, mut state: MutexGuard<'_, State>) {
        let me = ME.get();
        let next = state.pick();
        if me == 0 && state.broken.is_some() {
            // After a broken law, the event for which the first thread waits may never come.
            drop(state);
            return self.set_free();
        }
        if next == me {
            return;
        }
        state.current = next;
        let (theirs, mine) =
            (Arc::clone(&state.tasks[next].baton), Arc::clone(&state.tasks[me].baton));
        drop(state);
        theirs.give();
        mine.wait();
    }

    pub(super) fn spawn(
        self: &Arc<Self>,
        process: usize,
        name: String,
        run: Box<dyn FnOnce() + Send>,
    ) -> std::io::Result<usize> {
        let mut state = self.state();
        let task = state.tasks.len();
        let baton = Arc::new(Baton::default());
        let (machine, mine) = (Arc::clone(self), Arc::clone(&baton));
        let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
            ME.set(task);
            mine.wait();
            let _end = End { machine: &machine, task };
            run();
        })?;
        *baton.thread.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(thread.thread().clone());
        let status = Status::Runs;
        state.tasks.push(Task { name, process, status, baton: Arc::clone(&baton), looks: 0 });
        drop(state);
        if self.is_free() {
            baton.give();
        }
        Ok(task)
    }

    pub(super) fn has_ended(&self, task: usize) -> bool {
        self.pass();
        self.state().tasks[task].status == Status::Ended
    }

    /// Waits until the thread with the index `task` has ended.
    pub(super) fn join(&self, task: usize) {
        loop {
            let mut state = self.state();
            if state.tasks[task].status == Status::Ended {
                return;
            }
            if self.is_free() {
                drop(state);
                std::thread::park_timeout(Duration::from_micros(100));
                continue;
            }
            state.tasks[ME.get()].status = Status::Joins(task);
            self.switch(state);
        }
    }

    pub(super) fn place(&self) -> usize {
        let mut state = self.state();
        state.places.push(Poller::default());
        state.places.len() - 1
    }

    pub(super) fn ring(&self, place: usize, token: Token) {
        self.state().notify(place, Ready { token, is_read_closed: false });
    }

    pub(super) fn take_ready(&self, place: usize, ready: &mut Vec<Ready>) {
        ready.append(&mut self.state().places[place].pending);
    }

    /// Kills a process: its threads never run again, and its connections break.
    pub(super) fn kill(&self, process: usize) {
        let mut state = self.state();
        state.killed.push(process);
        let now_ns = state.now_ns;
        state.net.kill(now_ns, process);
    }
}

impl State {
    /// Advances the clock by `ns`, and handles the network events up to the new time.
    fn move_on(&mut self, ns: u64) {
        self.now_ns += ns;
        for (place, ready) in self.net.advance(self.now_ns) {
            self.notify(place, ready);
        }
    }

    /// Adds a ready event to the poller `place`. A thread that waits for this poller can continue.
    pub(super) fn notify(&mut self, place: usize, ready: Ready) {
        let pending = &mut self.places[place].pending;
        match pending.iter_mut().find(|known| known.token == ready.token) {
            Some(known) => known.is_read_closed |= ready.is_read_closed,
            None => pending.push(ready),
        }
        for task in &mut self.tasks {
            if matches!(task.status, Status::Waits(_, at) if at == Some(place)) {
                task.status = Status::Runs;
            }
        }
    }

    fn is_alive(&self, task: &Task) -> bool {
        !self.killed.contains(&task.process)
    }

    /// Returns the index of the thread that runs next.
    fn pick(&mut self) -> usize {
        loop {
            self.move_on(0);
            if self.passes > PASSES_MAX || self.now_ns > self.over_by_ns {
                let stand = self.stand();
                self.broken.get_or_insert_with(|| format!("the threads run and run: {stand}"));
            }
            if self.broken.is_some() {
                // After a broken law, the first thread of the world runs next and reports the law.
                self.tasks[0].status = Status::Runs;
                return 0;
            }
            let now_ns = self.now_ns;
            for i in 0..self.tasks.len() {
                let is_over = match self.tasks[i].status {
                    Status::Waits(until_ns, _) => until_ns <= now_ns,
                    Status::Joins(task) => self.tasks[task].status == Status::Ended,
                    _ => false,
                };
                if is_over {
                    self.tasks[i].status = Status::Runs;
                }
            }
            let all = || self.tasks.iter().enumerate().filter(|(_, task)| self.is_alive(task));
            let runs = |task: &Task| task.status == Status::Runs;
            let busy = |task: &Task| runs(task) && task.looks < IDLE_READS_MAX;
            let can: Vec<usize> = all().filter(|(_, t)| busy(t)).map(|(i, _)| i).collect();
            if !can.is_empty() {
                let next = self.random.below(can.len());
                return can[next];
            }
            let waits = all().filter_map(|(_, task)| match task.status {
                Status::Waits(until_ns, _) => Some(until_ns),
                _ => None,
            });
            let next_ns = waits.chain(self.net.next_ns()).min();
            let spins: Vec<usize> = all().filter(|(_, task)| runs(task)).map(|(i, _)| i).collect();
            match next_ns.filter(|at| *at < u64::MAX) {
                // A spinning thread also reads the clock, so the time must not jump far ahead.
                Some(at) if !spins.is_empty() => {
                    self.move_on(at.saturating_sub(now_ns).min(SPIN_NS))
                }
                Some(at) => self.move_on(at.saturating_sub(now_ns)),
                None if !spins.is_empty() => self.move_on(MS),
                None => {
                    let stand = self.stand();
                    self.broken.get_or_insert(format!("nothing will ever happen: {stand}"));
                }
            }
            // After the jump, spinning threads may run again.
            spins.iter().for_each(|&i| self.tasks[i].looks = 0);
        }
    }

    /// Describes the status of each thread, for an error message.
    pub(super) fn stand(&self) -> String {
        let alive = self.tasks.iter().filter(|task| self.is_alive(task));
        let alive = alive.filter(|task| task.status != Status::Ended);
        let one = |task: &Task| format!("{}/{}: {:?}", task.process, task.name, task.status);
        alive.map(one).collect::<Vec<_>>().join(", ")
    }
}

/// A guard that records the end of its thread on drop, even after a panic.
struct End<'m> {
    machine: &'m Machine,
    task: usize,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut state = self.machine.state();
        state.tasks[self.task].status = Status::Ended;
        if self.machine.is_free() {
            return;
        }
        let next = state.pick();
        state.current = next;
        let baton = Arc::clone(&state.tasks[next].baton);
        drop(state);
        baton.give();
    }
}

fn baton_of(thread: Thread) -> Arc<Baton> {
    Arc::new(Baton { is_here: AtomicBool::new(false), thread: Mutex::new(Some(thread)) })
}

/// Pins the current thread to one CPU, and returns its previous affinity. Where pinning is not
/// permitted, worlds run slower.
fn stay_on_one_cpu() -> Option<CpuSet> {
    let before = sched_getaffinity(None).ok()?;
    let mut one = CpuSet::new();
    one.set(sched_getcpu());
    sched_setaffinity(None, &one).ok()?;
    Some(before)
}
