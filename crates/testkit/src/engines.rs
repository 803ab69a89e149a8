//! Whole engines in a simulated world: threads, acceptors, connectors, template sessions, handles,
//! stops, kills, restarts and reloads. The seed determines every event.
//!
//! Two engines communicate over a simulated network; side 0 connects and side 1 accepts. Laws: the
//! laws about messages (see `ledger`). Threads never idle while work is due, and never run without
//! work. After the faults end, all sessions log on and all messages arrive within a time limit. An
//! idle session is never disconnected. A stop keeps its time limit and logs out in order. A
//! connection without a Logon(A) is closed in time.

mod app;
mod io;
mod ledger;
mod machine;
mod net;
mod records;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use transfix::simulated::io::Io;
use transfix::{
    Action, Application, BeginString, Durability, Engine, Mode, Offline, Outcome, QueueWhenFull,
    Role, SendMode, SessionHandle, SessionId, SessionSettings, Settings, SlowConsumer, State,
    Unsent,
};
use transfix_session::Disconnect;
use transfix_store::{FileStore, Options, Store, StoreError};
use transfix_transport::{SocketOptions, Stream};

use crate::disk::{Crash, DiskFault, SimDisk};
use crate::random::Random;
use crate::world::{Summary, Trace};
use app::App;
use io::{Process, START_UTC_NS};
use ledger::{Board, Lost, Odds};
use machine::{MS, Machine, SECOND};
use net::NetworkConditions;

const ADDRESS: &str = "10.0.0.1:5001";
/// The maximum number of reloads until all initial sessions are present again.
const RELOADS_MAX: usize = 5;
/// The path of a directory in which no store can be opened.
const NO_DISK: &str = "/nowhere";
/// The number of threads per side that send messages.
const SENDERS: u64 = 2;
/// The number of messages that a greedy sending thread sends without a pause.
const GREEDY: usize = 60;
/// The time limit of an engine's stop.
const STOP_TIME: Duration = Duration::from_secs(5);
/// The tolerance for a stop or reload that ends after its time limit.
const LATE_MAX: Duration = Duration::from_secs(1);
/// The time limit for full recovery after the faults end, in nanoseconds.
const REST_MAX: u64 = 300 * SECOND;

/// The time limit for an action that needs no timer: two looks of a spinning thread, and a margin.
const AT_ONCE: u64 = 500 * MS;

/// The time limit for the detection of a silent counterparty: a heartbeat interval of 30 s with its
/// margin, and a TestRequest(1).
const SILENCE_MAX: u64 = 70 * SECOND;

/// Runs the world with this seed to its end.
///
/// # Panics
/// If a law is broken.
#[must_use]
pub(crate) fn run(seed: u64, trace: &Trace) -> Summary {
    let mut world = World::new(seed, trace);
    world.start(1);
    world.start(0);
    for _ in 0..world.actions {
        let pause_ms = 1 + world.random.below(1_000) as u64;
        world.machine.sleep(pause_ms * MS);
        world.check();
        world.act();
    }
    world.rest();
    world.stand_idle();
    world.send_at_rest();
    world.end()
}

/// A running engine with its session handles and threads.
struct Running {
    engine: Engine,
    handles: Arc<Mutex<Vec<SessionHandle>>>,
    senders: Vec<usize>,
    is_over: Arc<AtomicBool>,
    process: usize,
}

impl Running {
    /// Copies the handles, so that no thread waits for the lock while another simulated thread
    /// runs.
    fn handles(&self) -> Vec<SessionHandle> {
        lock(&self.handles).clone()
    }
}

/// A simulated world: two engines and the network between them.
struct World {
    random: Random,
    machine: Arc<Machine>,
    board: Arc<Board>,
    settings: [Settings; 2],
    /// The initial sessions of both sides. A reload may remove some of these sessions for a while.
    all: [Vec<SessionSettings>; 2],
    ids: [Arc<Vec<SessionId>>; 2],
    disks: Disks,
    running: [Option<Running>; 2],
    /// The engines that were killed. Their threads end when the world ends.
    killed: Vec<Running>,
    processes: usize,
    actions: usize,
    strangers: Vec<Box<dyn Stream>>,
    summary: Summary,
}

/// The simulated disks, by side and session name.
#[derive(Clone)]
struct Disks(Arc<Mutex<BTreeMap<(usize, String), SimDisk>>>);

impl Disks {
    fn of(&self, side: usize, id: &SessionId) -> SimDisk {
        let mut disks = lock(&self.0);
        let number = disks.len() as u64;
        let made = || SimDisk::new(Random::new(number), Box::new(|| ()));
        disks.entry((side, id.to_string())).or_insert_with(made).clone()
    }

    fn open(&self, side: usize, id: &SessionId) -> Result<Box<dyn Store>, StoreError> {
        let options = Options { segment_bytes_first: 16 << 10, ..Options::default() };
        let begun_ns = START_UTC_NS.unsigned_abs();
        let disk = self.of(side, id);
        let opened = FileStore::open_on(disk, Path::new("/store"), options, begun_ns);
        opened.map(|(store, _)| Box::new(store) as Box<dyn Store>)
    }
}

impl World {
    fn new(seed: u64, trace: &Trace) -> Self {
        let mut random = Random::new(seed);
        let switch_one_in = [1, 2, 5, 20][random.below(4)];
        let machine = Machine::new(random.next(), switch_one_in, trace.clone());
        let sessions = 1 + random.below(4);
        let created = random.below(3);
        let odds = Odds {
            answer: [0, 3][random.below(2)],
            route: [0, 4][random.below(2)],
            panic: [0, 0, 40][random.below(3)],
            later: [0, 2][random.below(2)],
            pause: 16,
        };
        let ids = [0, 1].map(|side| {
            let name = |n| if n < sessions { format!("C{n}") } else { format!("T{n}") };
            let all = (0..sessions + created).map(|n| match side {
                0 => SessionId::new(BeginString::Fix44, &name(n), "VENUE"),
                _ => SessionId::new(BeginString::Fix44, "VENUE", &name(n)),
            });
            Arc::new(all.collect::<Vec<_>>())
        });
        let settings = settings(&mut random, &ids, sessions);
        let weather = NetworkConditions {
            delay_ms_max: [1, 50, 400][random.below(3)],
            capacity: [300, 4_000, 1 << 20][random.below(3)],
            short_one_in: [0, 3][random.below(2)],
        };
        machine.state().net.weather = weather;
        // The seed determines this value directly, without a random draw, so that the other choices
        // of a seed do not change.
        machine.state().net.has_records = seed % 2 == 1;
        machine.say(|| format!("{sessions} sessions, {created} of a template, {weather:?}"));
        Self {
            actions: 5 + random.below(25),
            board: Board::new(&machine, sessions + created, odds),
            random,
            machine,
            all: settings.each_ref().map(|settings| settings.sessions.clone()),
            settings,
            ids,
            disks: Disks(Arc::default()),
            running: [None, None],
            killed: Vec::new(),
            processes: 0,
            strangers: Vec::new(),
            summary: Summary::default(),
        }
    }

    /// Ends the world with a panic if a law is broken.
    fn check(&mut self) {
        if let Some(law) = self.machine.broken() {
            self.tear_down();
            panic!("{law}");
        }
    }

    /// Stops the simulation and ends all threads of the world.
    fn tear_down(&mut self) {
        self.machine.set_free();
        self.strangers.clear();
        let all = self.running.iter_mut().filter_map(Option::take).chain(self.killed.drain(..));
        for running in all {
            running.is_over.store(true, Ordering::Release);
            drop(running.handles);
            drop(running.engine);
            running.senders.iter().for_each(|sender| self.machine.join(*sender));
        }
    }

    fn start(&mut self, side: usize) {
        self.processes += 1;
        let process = Process { machine: Arc::clone(&self.machine), number: self.processes };
        self.machine.say(|| format!("side {side} starts as process {}", process.number));
        let (disks, application) = (self.disks.clone(), self.application(side));
        let started = Engine::builder(&self.settings[side])
            .io(Arc::new(process.clone()))
            .stores(move |settings, _| match settings.store.store_dir == Path::new(NO_DISK) {
                true => Err(StoreError::Own(std::io::ErrorKind::NotFound.into())),
                false => disks.open(side, &settings.id()).map(Some),
            })
            .admit(self.application(side))
            .start(|id| application(id).unwrap_or_else(|| panic!("nobody knows {id}")));
        let engine = started.unwrap_or_else(|error| panic!("side {side} does not start: {error}"));
        let is_over = Arc::new(AtomicBool::new(false));
        let handles = Arc::new(Mutex::new(engine.sessions().collect()));
        let senders = self.start_senders(side, &process, &handles, &is_over);
        let process = process.number;
        self.running[side] = Some(Running { engine, handles, senders, is_over, process });
    }

    /// Returns the function that creates the applications of a side.
    fn application(
        &self,
        side: usize,
    ) -> impl Fn(&SessionId) -> Option<Box<dyn Application>> + Send + Sync + 'static {
        let (board, others) = (Arc::clone(&self.board), Arc::clone(&self.ids[side]));
        let is_pooled = self.settings[side].engine.application_threads > 0;
        move |id| {
            let session = others.iter().position(|other| other == id)?;
            let (board, others) = (Arc::clone(&board), Arc::clone(&others));
            let state = State::Disconnected;
            Some(Box::new(App { board, side, session, others, is_pooled, state }))
        }
    }

    /// Starts the threads of a side: some send messages through session handles, and another one
    /// answers pending Logon(A) questions.
    fn start_senders(
        &mut self,
        side: usize,
        process: &Process,
        handles: &Arc<Mutex<Vec<SessionHandle>>>,
        is_over: &Arc<AtomicBool>,
    ) -> Vec<usize> {
        let mut senders = Vec::new();
        for source in 1..=SENDERS {
            let (board, ids) = (Arc::clone(&self.board), Arc::clone(&self.ids[side]));
            let (handles, is_over) = (Arc::clone(handles), Arc::clone(is_over));
            let machine = Arc::clone(&self.machine);
            senders.push(Box::new(move || {
                while !is_over.load(Ordering::Acquire) && !machine.is_free() {
                    machine.sleep((1 + machine.below(300) as u64) * MS);
                    let handles = lock(&handles).clone();
                    let Some(handle) = handles.get(machine.below(handles.len().max(1))) else {
                        return;
                    };
                    let session = ids.iter().position(|id| id == handle.id()).unwrap_or(0);
                    // A burst in eight is long.
                    let burst = if machine.below(8) == 0 { GREEDY } else { 1 + machine.below(4) };
                    for _ in 0..burst {
                        app::send(&board, (side, session), handle, source);
                    }
                }
            }) as Box<dyn FnOnce() + Send>);
        }
        let (board, machine) = (Arc::clone(&self.board), Arc::clone(&self.machine));
        let is_over = Arc::clone(is_over);
        senders.push(Box::new(move || {
            while !is_over.load(Ordering::Acquire) && !machine.is_free() {
                machine.sleep((1 + machine.below(200) as u64) * MS);
                let question = &board.questions[side];
                let question = lock(question).pop();
                if let Some(question) = question {
                    // A dropped `LogonAnswer` refuses the Logon(A).
                    if machine.below(6) > 0 { question.accept() } else { drop(question) }
                }
            }
        }));
        let mut tasks = Vec::new();
        for (n, run) in senders.into_iter().enumerate() {
            let name = format!("sender-{n}");
            let task = self.machine.spawn(process.number, name, run);
            tasks.push(task.unwrap_or_else(|error| panic!("no thread: {error}")));
        }
        tasks
    }

    fn act(&mut self) {
        let side = self.random.below(2);
        match self.random.below(12) {
            0 => self.kill(side),
            1 => self.restart(side),
            2 | 3 => {
                let (one_in, is_silent) = (1 + self.random.below(3), self.random.below(3) == 0);
                let mut state = self.machine.state();
                let now_ns = state.now_ns;
                let cut = state.net.cut(now_ns, one_in, is_silent);
                drop(state);
                self.machine.say(|| format!("{cut} connections are cut, silently: {is_silent}"));
            }
            4..=6 => self.operate(side),
            7 => self.set_fault(side),
            8 => self.send_stranger(),
            9 => self.reload(side),
            _ => {}
        }
    }

    /// Kills the process of a side, and starts its engine again.
    fn kill(&mut self, side: usize) {
        let Some(running) = self.running[side].take() else { return };
        self.machine.say(|| format!("side {side} is killed"));
        self.summary.crashes += 1;
        self.machine.kill(running.process);
        self.killed.push(running);
        lock(&self.board.questions[side]).clear();
        for session in 0..self.ids[side].len() {
            self.disks.of(side, &self.ids[side][session]).restart(Crash::Process);
            self.lose_process(side, session);
        }
        let pause_ms = self.random.below(5_000) as u64;
        self.machine.sleep(pause_ms * MS);
        self.start(side);
    }

    /// Simulates the process end for one session: the session's in-memory state is lost, and its
    /// disk is repaired.
    fn lose_process(&self, side: usize, session: usize) {
        let id = &self.ids[side][session];
        self.disks.of(side, id).set_fault(None);
        let store = self.disks.open(side, id);
        let store = store.unwrap_or_else(|error| panic!("without a process: {id}: {error}"));
        let numbers = (store.numbers().next_in, store.numbers().next_out);
        self.board.undo((side, session), numbers, Lost::Process);
    }

    /// Stops the engine of a side in an orderly way, and starts the engine again.
    fn restart(&mut self, side: usize) {
        let is_healed = self.random.below(3) > 0;
        let mut faulty = Vec::new();
        for (session, id) in self.ids[side].iter().enumerate() {
            let disk = self.disks.of(side, id);
            match is_healed {
                true => disk.set_fault(None),
                false if disk.has_fault() => faulty.push(session),
                false => {}
            }
        }
        self.stop(side);
        faulty.iter().for_each(|session| self.lose_process(side, *session));
        let pause_ms = self.random.below(2_000) as u64;
        self.machine.sleep(pause_ms * MS);
        self.start(side);
    }

    fn stop(&mut self, side: usize) -> Vec<Outcome> {
        let Some(running) = self.running[side].take() else { return Vec::new() };
        let begun_ns = self.machine.now_ns();
        self.machine.say(|| format!("side {side} stops"));
        // This deadline is far beyond the allowed stop time, so that the test can report how late a
        // stop is.
        self.machine.must_be_over_by(begun_ns + REST_MAX);
        let outcomes = running.engine.stop(STOP_TIME);
        self.machine.must_be_over_by(u64::MAX);
        let took = Duration::from_nanos(self.machine.now_ns() - begun_ns);
        if took > STOP_TIME + LATE_MAX {
            self.machine.breaks(|| format!("the stop of side {side} took {took:?}"));
        }
        running.is_over.store(true, Ordering::Release);
        running.senders.iter().for_each(|sender| self.machine.join(*sender));
        self.machine.say(|| format!("side {side} has stopped: {outcomes:?}"));
        self.check();
        outcomes.into_iter().map(|outcome| outcome.outcome).collect()
    }

    /// Reloads changed settings: some sessions restart with other settings, some sessions are
    /// removed, and removed ones may return. The acceptor recreates removed sessions from its
    /// template.
    fn reload(&mut self, side: usize) {
        let mut to = self.settings[side].clone();
        for session in &mut to.sessions {
            if self.random.below(2) == 0 {
                session.threads.turn_messages_max = 1 + self.random.below(100) as u32;
                session.threads.send = [SendMode::Direct, SendMode::Queued][self.random.below(2)];
                if session.target_comp_id != "*" && self.random.below(3) == 0 {
                    session.store.store_dir = NO_DISK.into();
                }
                session.queue.offline =
                    [Offline::Refuse, Offline::Store, Offline::Queue][self.random.below(3)];
            }
        }
        let absent = self.absent(side);
        to.sessions.retain(|session| session.target_comp_id == "*" || self.random.below(4) > 0);
        to.sessions.extend(absent.into_iter().filter(|_| self.random.below(2) == 0));
        self.ids[side].iter().for_each(|id| self.disks.of(side, id).set_fault(None));
        let deadline =
            [Duration::ZERO, Duration::from_millis(300), STOP_TIME][self.random.below(3)];
        self.reload_to(side, &to, deadline);
    }

    /// Returns the initial sessions that the engine does not run at present.
    fn absent(&self, side: usize) -> Vec<SessionSettings> {
        let now = &self.settings[side].sessions;
        let is_there = |one: &&SessionSettings| now.iter().any(|other| other.id() == one.id());
        self.all[side].iter().filter(|one| !is_there(one)).cloned().collect()
    }

    fn reload_to(&mut self, side: usize, to: &Settings, deadline: Duration) {
        let application = self.application(side);
        let Some(running) = &mut self.running[side] else { return };
        self.machine.say(|| format!("side {side} reloads its settings in {deadline:?}"));
        let begun_ns = self.machine.now_ns();
        self.machine.must_be_over_by(begun_ns + REST_MAX);
        let done = running.engine.reload(&self.settings[side], to, deadline, |id| {
            // The application of a template session is never called, so any application serves.
            let made = application(id).or_else(|| application(&self.ids[side][0]));
            made.unwrap_or_else(|| panic!("nobody knows {id}"))
        });
        self.machine.must_be_over_by(u64::MAX);
        let took = Duration::from_nanos(self.machine.now_ns() - begun_ns);
        match done {
            Ok(done) => {
                self.machine.say(|| format!("side {side} in {took:?}: {done:?}"));
                self.settings[side] = done.settings;
                // An added session may fail to start while a Logon(A) for its identity is being
                // judged under the template.
                let is_lost = |id: &SessionId| {
                    let mut now = self.settings[side].sessions.iter();
                    !done.changes.added.contains(id) && now.all(|session| session.id() != *id)
                };
                if let Some((id, why)) = done.failed.iter().find(|(id, _)| is_lost(id)) {
                    self.machine.breaks(|| format!("a reload of side {side} loses {id}: {why}"));
                }
            }
            Err(error) => self.machine.breaks(|| format!("side {side} does not reload: {error}")),
        }
        let is_old = |session: &SessionSettings| session.store.store_dir != Path::new(NO_DISK);
        if !self.settings[side].sessions.iter().all(is_old) {
            self.machine.breaks(|| format!("side {side} runs without a store"));
        }
        if took > deadline + LATE_MAX {
            self.machine.breaks(|| format!("the reload of side {side} took {took:?}"));
        }
        *lock(&running.handles) = running.engine.sessions().collect();
        self.check();
    }

    /// Carries out a random operator action on a random session.
    fn operate(&mut self, side: usize) {
        let what = self.random.below(8);
        let Some(running) = &self.running[side] else { return };
        let handles = running.handles();
        if handles.is_empty() {
            return;
        }
        let handle = &handles[self.random.below(handles.len())];
        self.machine.say(|| format!("side {side}: operator {what} at {}", handle.id()));
        // The action may be refused, depending on the session's state.
        let action = match what {
            0 => Action::LogOut { text: "for a while".to_owned() },
            1 => Action::Disconnect {},
            2 => Action::Revive {},
            3 => Action::TestRequest { id: "by hand".to_owned() },
            4 => Action::ResendRequest { begin: 1, end: 0 },
            5 => Action::HoldSending {},
            6 => Action::ReleaseSending {},
            _ => Action::LogOn {},
        };
        let _ = handle.operate(&action);
    }

    fn set_fault(&mut self, side: usize) {
        let session = self.random.below(self.ids[side].len());
        let all = [DiskFault::ReadOnly, DiskFault::Full, DiskFault::Gone];
        let disk_fault = all.get(self.random.below(all.len() + 1)).copied();
        self.machine.say(|| format!("side {side}, session {session}: {disk_fault:?}"));
        self.disks.of(side, &self.ids[side][session]).set_fault(disk_fault);
    }

    /// Opens a connection from a stranger, which sends nothing or garbage.
    fn send_stranger(&mut self) {
        let stranger = Process { machine: Arc::clone(&self.machine), number: 0 };
        let address = ADDRESS.parse().unwrap_or_else(|_| panic!("{ADDRESS} is an address"));
        let Ok(mut connecting) = stranger.connect(address, &SocketOptions::default()) else {
            return;
        };
        self.machine.sleep(SECOND);
        let Ok(Some(mut stream)) = connecting.finish() else { return };
        let words: &[u8] = match self.random.below(3) {
            0 => b"",
            1 => b"GET / HTTP/1.1\r\n\r\n",
            _ => b"8=FIX.4.4\x019=40\x0135=A\x0149=NOBODY\x01",
        };
        let _ = stream.write(words);
        self.strangers.push(stream);
    }

    /// Ends the faults. All sessions must log on and deliver all messages within a time limit.
    fn rest(&mut self) {
        self.machine.say(|| "the faults cease".to_owned());
        *lock(&self.board.odds) = Odds::default();
        self.machine.state().net.weather =
            NetworkConditions { delay_ms_max: 1, capacity: 1 << 20, short_one_in: 0 };
        for side in [0, 1] {
            for id in self.ids[side].iter() {
                self.disks.of(side, id).set_fault(None);
            }
            for _ in 0..RELOADS_MAX {
                let mut to = self.settings[side].clone();
                to.sessions.extend(self.absent(side));
                self.reload_to(side, &to, STOP_TIME);
            }
            if let [absent, ..] = &*self.absent(side) {
                self.machine.breaks(|| format!("no reload adds {} again", absent.id()));
            }
            let Some(running) = &self.running[side] else { continue };
            for handle in running.handles() {
                let _ = handle.operate(&Action::ReleaseSending {});
                let _ = handle.operate(&Action::LogOn {});
            }
            running.is_over.store(true, Ordering::Release);
        }
        self.wait_until_well();
        // A dead connection that reports no error is detected only by its silence.
        self.machine.sleep(SILENCE_MAX);
        self.check();
        self.wait_until_well();
    }

    fn wait_until_well(&mut self) {
        let until_ns = self.machine.now_ns() + REST_MAX;
        while !self.is_well() {
            self.machine.sleep(SECOND);
            self.check();
            if self.machine.now_ns() > until_ns {
                let missing = self.board.missing();
                let stand = self.machine.state().stand();
                let states = self.states();
                self.machine.breaks(|| {
                    format!("all is not well: {states:?}, missing {missing:?}; {stand}")
                });
                self.check();
            }
        }
    }

    fn states(&self) -> Vec<(SessionId, State, usize)> {
        let all = self.running.iter().flatten().flat_map(|running| running.engine.sessions());
        all.map(|handle| (handle.id().clone(), handle.state(), handle.queued_bytes())).collect()
    }

    fn is_well(&self) -> bool {
        let up = |side: usize| {
            let running = self.running[side].as_ref();
            let up = running.map_or(0, |running| {
                running.engine.sessions().filter(SessionHandle::is_logged_on).count()
            });
            up == self.ids[side].len()
        };
        up(0) && up(1) && self.board.missing().is_empty()
    }

    /// Lets the engines idle for a minute, in which no session may be disconnected and the threads
    /// must sleep.
    fn stand_idle(&mut self) {
        // The sleep gives the applications time to receive the last notifications of session
        // starts.
        self.machine.sleep(2 * SECOND);
        let ends = *lock(&self.board.ends);
        let passes = self.machine.passes();
        self.machine.sleep(60 * SECOND);
        self.check();
        let ended = *lock(&self.board.ends) - ends;
        if ended > 0 {
            self.machine.breaks(|| format!("{ended} connections end though nothing happens"));
        }
        let spins = self.settings.iter().flat_map(|settings| &settings.sessions);
        let spins = spins.filter(|session| session.threads.mode == Mode::Spin).count();
        let passes = self.machine.passes() - passes;
        // The limit per session: a heartbeat per second in both directions, with some clock reads
        // for each.
        let bound = 60 * 200 * self.ids[0].len() as u64;
        if spins == 0 && passes > bound {
            self.machine.breaks(|| format!("{passes} steps while nothing happens"));
        }
        for stranger in &mut self.strangers {
            let mut words = [0; 1_000];
            let is_over = loop {
                match stranger.read(&mut words) {
                    Ok(0) => break true,
                    Ok(_) => {}
                    Err(error) => break error.kind() != std::io::ErrorKind::WouldBlock,
                }
            };
            if !is_over {
                self.machine.breaks(|| "a stranger's connection is never closed".to_owned());
            }
        }
        self.check();
    }

    /// Sends a message from an external thread while the engines idle. The message must arrive at
    /// once, without waiting for a heartbeat.
    fn send_at_rest(&mut self) {
        for (side, running) in self.running.iter().enumerate() {
            let Some(running) = running else { continue };
            for handle in running.handles() {
                let session = self.ids[side].iter().position(|id| id == handle.id());
                app::send(&self.board, (side, session.unwrap_or(0)), &handle, 1);
            }
        }
        self.machine.sleep(AT_ONCE);
        let missing = self.board.missing();
        if !missing.is_empty() {
            self.machine.breaks(|| format!("nothing happens, and still are missing {missing:?}"));
        }
        self.check();
    }

    fn end(mut self) -> Summary {
        let first = self.random.below(2);
        let outcomes = self.stop(first);
        // `LinkLost` is also fair: TCP discards the Logout(5) if the counterparty writes to the
        // closed connection before reading the answer.
        let fair = |outcome: &Outcome| {
            use Disconnect::{LinkLost, LoggedOut};
            matches!(outcome, Outcome::Ended(LoggedOut | LinkLost))
        };
        if !outcomes.iter().all(fair) {
            self.machine.breaks(|| format!("a stop without reason to hurry: {outcomes:?}"));
        }
        self.stop(1 - first);
        let missing = self.board.missing();
        if !missing.is_empty() {
            self.machine.breaks(|| format!("after the stop are missing {missing:?}"));
        }
        self.check();
        self.summary.delivered = self.board.delivered();
        self.summary.ended_ns = self.machine.now_ns();
        self.summary.verdicts = *lock(&self.board.ends);
        self.summary.connections = self.machine.state().net.connections();
        self.tear_down();
        self.summary
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the settings of both engines. The acceptor creates the sessions beyond the first `fixed`
/// ones from a template.
fn settings(random: &mut Random, ids: &[Arc<Vec<SessionId>>; 2], fixed: usize) -> [Settings; 2] {
    let heart_bt_int = Duration::from_secs([1, 5, 30][random.below(3)]);
    [0, 1].map(|side| {
        let mut all: Vec<SessionId> = ids[side].to_vec();
        if side == 1 {
            all.truncate(fixed);
            all.push(SessionId::new(BeginString::Fix44, "VENUE", "*"));
        }
        let role = [Role::Initiator, Role::Acceptor][side];
        // If all sessions share workers, sessions move between the workers.
        let all_share = random.below(2) == 0;
        let sessions = all.iter().map(|id| {
            let mut settings = SessionSettings::new(role, id, ADDRESS);
            settings.protocol.heart_bt_int = heart_bt_int;
            settings.validation.validate = false;
            settings.store.durability = Durability::Process;
            settings.socket.reconnect_interval =
                Duration::from_millis(500 + random.below(2_000) as u64);
            settings.socket.reconnect_interval_max = Duration::from_secs(4);
            settings.queue.offline =
                [Offline::Refuse, Offline::Refuse, Offline::Store, Offline::Queue][random.below(4)];
            settings.queue.unsent = [Unsent::Keep, Unsent::Return][random.below(2)];
            settings.threads.send = [SendMode::Direct, SendMode::Queued][random.below(2)];
            settings.threads.turn_messages_max = [1, 3, 100][random.below(3)];
            settings.application.messages_max = [1, 4, 1_000][random.below(3)];
            if random.below(4) == 0 {
                settings.queue.queued_bytes_max = 1_000;
                settings.queue.queue_when_full =
                    [QueueWhenFull::Refuse, QueueWhenFull::Wait, QueueWhenFull::Disconnect]
                        [random.below(3)];
                settings.queue.queue_wait = Duration::from_millis([5, 500][random.below(2)]);
            }
            if random.below(4) == 0 {
                settings.queue.slow_consumer_bytes = 300;
                settings.queue.slow_consumer_after =
                    Duration::from_millis([0, 50, 2_000][random.below(3)]);
                settings.queue.slow_consumer =
                    [SlowConsumer::Tell, SlowConsumer::Disconnect][random.below(2)];
            }
            if id.target_comp_id.as_ref() != "*" && !all_share {
                settings.threads.mode =
                    [Mode::Pool, Mode::Pool, Mode::Dedicated, Mode::Spin][random.below(4)];
            }
            settings
        });
        let mut settings = Settings { sessions: sessions.collect(), ..empty() };
        settings.engine.workers = if all_share { 2 } else { 1 + random.below(3) };
        settings.engine.rebalance = Duration::from_millis([0, 1, 20, 1_000][random.below(4)]);
        settings.engine.hot_worker_percent = [0, 0, 10, 70][random.below(4)];
        settings.engine.application_threads = [0, 0, 1, 2][random.below(4)];
        settings.engine.slow_callback = Duration::from_millis([0, 0, 0, 1_000][random.below(4)]);
        settings
    })
}

fn empty() -> Settings {
    let id = SessionId::new(BeginString::Fix44, "US", "THEM");
    Settings { sessions: Vec::new(), ..Settings::of(SessionSettings::new(Role::Acceptor, &id, "")) }
}
