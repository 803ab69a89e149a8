//! A world: gateways that serve the same sessions over simulated brokers.
//!
//! All gateways run in one thread. A request of one gateway lets other gateways run before it is
//! sent and before its answer arrives, so a gateway is paused at any place, for any time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use transfix_store::{Numbers, StoreError};
use transfix_testkit::random::Random;

use super::Deliberate;
use super::cluster::{Answer, Append, Cluster, Events};
use super::gateway::Gateway;
use super::history::{History, Law};
use crate::failed;
use crate::jetstream::stream::{Appended, Message, Stream};

pub(super) const GATEWAYS: usize = 3;
pub(super) const SESSIONS: usize = 2;
/// Maximum number of gateways that are paused at a time.
const PAUSED: usize = 3;
/// Attempts within which a session is available after all faults.
const ATTEMPTS: usize = 50;

pub(super) struct State {
    pub(super) random: Random,
    pub(super) cluster: Cluster,
    pub(super) histories: [History; SESSIONS],
    /// Age beyond which messages are deleted; 0 means never.
    pub(super) delete_after: u64,
    /// The gateways that run; a paused or killed one is absent.
    gateways: [Option<Gateway>; GATEWAYS],
    /// The present process of each gateway. A killed process has an older number.
    lives: [u64; GATEWAYS],
    paused: usize,
    time: u64,
    broken: Option<String>,
}

impl State {
    /// Returns a number that is higher than all before: a time, or the name of a process.
    pub(super) fn now(&mut self) -> u64 {
        self.time += 1;
        self.time
    }

    pub(super) fn one_in(&mut self, number: usize) -> bool {
        self.random.below(number) == 0
    }

    /// Records a broken law.
    pub(super) fn check(&mut self, session: usize, law: Law) {
        if let Err(broken) = law {
            self.broken.get_or_insert(format!("session {session}: {broken}"));
        }
    }
}

pub(super) struct World(Mutex<State>);

impl World {
    /// Runs the world of this seed.
    ///
    /// # Errors
    /// Says which law is broken.
    pub(super) fn run(seed: u64, deliberate: Option<Deliberate>) -> Result<Report, String> {
        let mut random = Random::new(seed);
        let cluster = Cluster::new(random.next(), deliberate);
        let delete_after = if random.below(2) == 0 { 0 } else { 50 + random.below(200) as u64 };
        let state = State {
            random,
            cluster,
            histories: std::array::from_fn(|_| History::new(delete_after)),
            delete_after,
            gateways: Default::default(),
            lives: [0; GATEWAYS],
            paused: 0,
            time: 0,
            broken: None,
        };
        let world = Arc::new(Self(Mutex::new(state)));
        for gateway in 0..GATEWAYS {
            world.start(gateway);
        }
        let steps = 20 + world.lock().random.below(80);
        for _ in 0..steps {
            world.step();
            if let Some(broken) = world.lock().broken.take() {
                return Err(broken);
            }
        }
        world.end()?;
        let state = world.lock();
        Ok(Report {
            events: state.cluster.events,
            commits: state.histories.iter().map(|history| history.commits).sum(),
            take_overs: state.histories.iter().map(History::take_overs).sum(),
            deleted: state.histories.iter().map(|history| history.deleted).sum(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a new process of the gateway.
    fn start(self: &Arc<Self>, gateway: usize) {
        let mut state = self.lock();
        let life = state.now();
        state.lives[gateway] = life;
        let client = Client { world: Arc::downgrade(self), gateway, life };
        state.gateways[gateway] = Some(Gateway::new(life, Arc::new(client)));
    }

    /// Lets one gateway do one thing.
    fn step(self: &Arc<Self>) {
        let mut state = self.lock();
        let at = state.random.below(GATEWAYS);
        if state.one_in(40) {
            drop(state);
            // A paused process ends at its next request.
            return self.start(at);
        }
        let Some(mut gateway) = state.gateways[at].take() else { return };
        drop(state);
        gateway.act(self);
        let mut state = self.lock();
        if state.lives[at] == gateway.life {
            state.gateways[at] = Some(gateway);
        }
    }

    /// Pauses a gateway while others run.
    fn pause(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.paused >= PAUSED || state.broken.is_some() || !state.one_in(8) {
            return;
        }
        let steps = if state.one_in(4) { 30 } else { 3 };
        let steps = 1 + state.random.below(steps);
        state.paused += 1;
        drop(state);
        for _ in 0..steps {
            self.step();
        }
        self.lock().paused -= 1;
    }

    /// Ends all faults. A gateway must then find all messages of each session.
    fn end(self: &Arc<Self>) -> Law {
        let mut state = self.lock();
        state.cluster.calm_down();
        // The leader may be damaged still.
        state.paused = PAUSED;
        drop(state);
        self.start(0);
        let Some(mut gateway) = self.lock().gateways[0].take() else { return Ok(()) };
        for session in 0..SESSIONS {
            let mut read = gateway.take_over_and_read(self, session);
            for _ in 0..ATTEMPTS {
                if read.is_err() {
                    read = gateway.take_over_and_read(self, session);
                }
            }
            if let Some(broken) = self.lock().broken.take() {
                return Err(broken);
            }
            read.map_err(|error| format!("session {session}: unavailable at the end: {error}"))?;
        }
        Ok(())
    }
}

/// The events of a world.
pub(super) struct Report {
    pub(super) events: Events,
    pub(super) commits: usize,
    pub(super) take_overs: usize,
    pub(super) deleted: usize,
}

/// The connection of a gateway's process to the brokers.
pub(super) struct Client {
    world: Weak<World>,
    gateway: usize,
    life: u64,
}

impl Client {
    /// Sends a request, and returns its answer. Other gateways may run before and after.
    fn request<T>(&self, request: impl FnOnce(&mut Cluster) -> Answer<T>) -> Result<T, StoreError> {
        let world = self.world.upgrade().ok_or(StoreError::Poisoned)?;
        world.pause();
        self.check(&world)?;
        let mut state = world.lock();
        state.cluster.tick();
        let answer = request(&mut state.cluster);
        drop(state);
        world.pause();
        self.check(&world)?;
        answer.ok_or_else(|| failed(std::io::Error::from(std::io::ErrorKind::TimedOut)))
    }

    /// Returns an error if the process was killed.
    fn check(&self, world: &World) -> Result<(), StoreError> {
        let lives = world.lock().lives;
        if lives[self.gateway] == self.life { Ok(()) } else { Err(StoreError::Poisoned) }
    }
}

/// The subject of a session is its name, a number.
fn number(subject: &str) -> usize {
    subject.parse().unwrap_or(usize::MAX - 1)
}

impl Stream for Client {
    fn subject(&self, session: &str) -> String {
        session.to_owned()
    }

    fn bytes_max(&self) -> usize {
        500
    }

    fn append(&self, subject: &str, last: u64, bytes: Vec<u8>) -> Result<Appended, StoreError> {
        let append = Append { subject: number(subject), last, bytes };
        if !self.request(|cluster| Some(cluster.permits(self.gateway, &append)))? {
            return Ok(Appended::Refused);
        }
        self.request(|cluster| cluster.append(self.gateway, append))
    }

    fn last(&self, subject: &str) -> Result<Option<Message>, StoreError> {
        self.request(|cluster| cluster.last(self.gateway, number(subject)))
    }

    fn newest(&self, subject: &str) -> Result<u64, StoreError> {
        self.request(|cluster| cluster.newest(number(subject)))
    }

    fn next(&self, subject: &str, place: u64) -> Result<Option<Message>, StoreError> {
        self.request(|cluster| cluster.next(number(subject), place))
    }

    fn following(
        &self,
        subject: &str,
        place: u64,
        count: usize,
    ) -> Result<Vec<Message>, StoreError> {
        self.request(|cluster| cluster.following(number(subject), place, count))
    }

    fn purge(&self, subject: &str, before: u64) -> Result<(), StoreError> {
        self.request(|cluster| cluster.purge(number(subject), before))
    }

    fn step_down(&self, _: u64) {
        let _ = self.request(Cluster::step_down);
    }
}

/// The numbers of a session that has no record.
pub(super) const NO_NUMBERS: Numbers = Numbers::fresh(0);
