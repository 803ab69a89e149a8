//! The simulated brokers: three replicas of one stream, a leader, and faults from a seed.
//!
//! Raft itself is correct here, and each broker syncs every write: an entry that two replicas have
//! survives every election and every power cut. One broker at a time has a damaged file; the other
//! brokers run meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use transfix_testkit::random::Random;

use super::Deliberate;
use super::replica::{Change, Entry, Replica};
use crate::jetstream::record::{self, Head, Reason, Stored};
use crate::jetstream::stream::{Appended, Message};

/// Number of replicas.
const REPLICAS: usize = 3;
/// Number of replicas that answer one question about the last message.
const ASKED: usize = 24;
/// Requests for which a lease is valid.
const LEASE: u64 = 40;

/// The answer to a request; `None` if the client receives none.
pub(super) type Answer<T> = Option<T>;

/// An append that a client has sent.
#[derive(Clone, Debug)]
pub(super) struct Append {
    pub(super) subject: usize,
    pub(super) last: u64,
    pub(super) bytes: Vec<u8>,
}

/// Numbers of events, which show that the faults happen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Events {
    pub(super) elections: usize,
    pub(super) step_downs: usize,
    pub(super) kills: usize,
    pub(super) partitions: usize,
    pub(super) power_cuts: usize,
    pub(super) messages_lost: usize,
    pub(super) late_appends: usize,
    pub(super) refused_appends: usize,
}

pub(super) struct Cluster {
    random: Random,
    /// One of so many chances is a fault.
    rarity: usize,
    is_calm: bool,
    deliberate: Option<Deliberate>,
    replicas: [Replica; REPLICAS],
    leader: Option<usize>,
    /// A former leader that does not know of the new one.
    deposed: Option<usize>,
    damaged: Option<usize>,
    term: u64,
    /// Number of entries that a majority has.
    committed: usize,
    /// Appends that have not reached a broker, although their clients have given up.
    late: Vec<Append>,
    /// Number of requests until now.
    time: u64,
    /// The place that the next append of a gateway to a subject expects.
    expected: BTreeMap<(usize, usize), u64>,
    /// The gateway with the lease of a subject, and the end of the lease.
    leases: BTreeMap<usize, (usize, u64)>,
    pub(super) events: Events,
}

impl Cluster {
    pub(super) fn new(seed: u64, deliberate: Option<Deliberate>) -> Self {
        let mut random = Random::new(seed);
        let rarity = [8, 24, 80][random.below(3)];
        let replicas = [(); REPLICAS].map(|()| Replica { is_up: true, ..Replica::default() });
        Self {
            random,
            rarity,
            is_calm: false,
            deliberate,
            replicas,
            leader: None,
            deposed: None,
            damaged: None,
            term: 0,
            committed: 0,
            late: Vec::new(),
            time: 0,
            expected: BTreeMap::new(),
            leases: BTreeMap::new(),
            events: Events::default(),
        }
    }

    fn one_in(&mut self, number: usize) -> bool {
        self.random.below(number) == 0
    }

    fn fault(&mut self) -> bool {
        !self.is_calm && self.one_in(self.rarity)
    }

    fn is_deliberate(&self, fault: Deliberate) -> bool {
        self.deliberate == Some(fault)
    }

    /// Lets time pass: brokers start again, logs are copied, late appends arrive, faults happen.
    pub(super) fn tick(&mut self) {
        self.time += 1;
        for replica in 0..REPLICAS {
            self.replicas[replica].is_up |= self.one_in(8);
        }
        if self.leader.is_none() && self.one_in(4) {
            self.elect(None);
        }
        if self.one_in(3) {
            self.replicate();
        }
        if !self.late.is_empty() && self.one_in(4) {
            let late = self.late.swap_remove(self.random.below(self.late.len()));
            self.events.late_appends += usize::from(self.deliver(late).is_some());
        }
        if self.fault() {
            self.fail();
        }
        if self.one_in(60) {
            self.repair();
        }
    }

    /// Ends all faults, except a damaged file.
    pub(super) fn calm_down(&mut self) {
        self.is_calm = true;
        (self.deposed, self.late) = (None, Vec::new());
        self.replicas.iter_mut().for_each(|replica| replica.is_up = true);
        while self.leader.is_none() {
            self.elect(None);
        }
        self.replicate();
    }

    fn fail(&mut self) {
        let broker = self.random.below(REPLICAS);
        match self.random.below(10) {
            0..=1 => self.kill(broker),
            2 => self.kill(self.leader.unwrap_or(broker)),
            3..=4 if self.damaged.is_none() && self.deposed.is_none() => {
                self.events.partitions += usize::from(self.leader.is_some());
                self.deposed = self.leader.take();
            }
            5 if self.damaged.is_none() => {
                self.events.power_cuts += 1;
                self.replicas.iter_mut().for_each(|replica| replica.is_up = false);
                (self.leader, self.deposed, self.late) = (None, None, Vec::new());
            }
            6..=7 => self.damage(broker),
            _ => self.elect(self.leader),
        }
    }

    fn kill(&mut self, broker: usize) {
        if self.damaged.is_some_and(|damaged| damaged != broker) {
            return;
        }
        self.events.kills += 1;
        self.replicas[broker].is_up = false;
        self.leader.take_if(|leader| *leader == broker);
        self.deposed.take_if(|deposed| *deposed == broker);
    }

    /// A broker starts again, and its file has lost messages in the middle or at the end. It often
    /// becomes the leader.
    ///
    /// The leader judges an append by its file. If it has lost exactly the records after the one
    /// that a fenced process expects, it accepts the record of that process. JetStream gives no
    /// means against it, so the worlds leave this case out.
    fn damage(&mut self, broker: usize) {
        let all_run = self.replicas.iter().all(|replica| replica.is_up);
        let Some(leader) = self.leader.filter(|_| all_run && self.damaged.is_none()) else {
            return;
        };
        self.deposed = None;
        let log = self.replicas[leader].log.clone();
        self.committed = log.len();
        for replica in &mut self.replicas {
            replica.copy_log(&log);
            replica.apply(log.len());
        }
        let len = self.replicas[broker].len();
        if len == 0 {
            return;
        }
        let count = 1 + self.random.below(len);
        let first = if self.one_in(2) { len - count } else { self.random.below(len) };
        let expected = self.expected.iter().map(|((_, subject), place)| (*subject, *place));
        let late = self.late.iter().map(|append| (append.subject, append.last));
        let expected: Vec<_> = expected.chain(late).collect();
        self.events.messages_lost += self.replicas[broker].lose(first, count, &expected);
        self.damaged = Some(broker);
        if !self.one_in(3) {
            self.term += 1;
            (self.leader, self.replicas[broker].term) = (Some(broker), self.term);
        }
    }

    /// Gives the damaged broker the messages of the leader.
    fn repair(&mut self) {
        let damaged = self.damaged.filter(|damaged| self.replicas[*damaged].is_up);
        if let Some((damaged, leader)) = damaged.zip(self.leader)
            && damaged != leader
        {
            self.replicas[damaged] = self.replicas[leader].clone();
            self.damaged = None;
        }
    }

    /// Elects a leader other than `not`, if two brokers reach each other.
    fn elect(&mut self, not: Option<usize>) {
        let reached = |at: &usize| self.replicas[*at].is_up && self.deposed != Some(*at);
        let voters: Vec<usize> = (0..REPLICAS).filter(reached).collect();
        if voters.len() < 2 {
            return;
        }
        let first = self.random.below(voters.len());
        let (candidate, voter) = (voters[first], voters[(first + 1) % voters.len()]);
        if Some(candidate) == not || self.replicas[candidate].age() < self.replicas[voter].age() {
            return;
        }
        self.events.elections += 1;
        self.term += 1;
        self.leader = Some(candidate);
        let log = self.replicas[candidate].log.clone();
        self.replicas[voter].copy_log(&log);
        // A new leader commits the entries that it has before it serves a request.
        self.committed = self.committed.max(log.len());
        self.replicas[candidate].term = self.term;
        self.replicas[candidate].apply(log.len());
    }

    /// Copies the leader's log to the brokers that it reaches.
    fn replicate(&mut self) {
        let Some(leader) = self.leader else { return };
        let log = std::mem::take(&mut self.replicas[leader].log);
        let (mut copies, mut reached) = (1, Vec::new());
        for follower in (0..REPLICAS).filter(|at| *at != leader) {
            if !self.replicas[follower].is_up || self.fault() {
                continue;
            }
            if self.deposed == Some(follower) {
                if !self.one_in(4) {
                    continue;
                }
                self.deposed = None;
            }
            self.replicas[follower].copy_log(&log);
            copies += 1;
            reached.push(follower);
        }
        if copies > REPLICAS / 2 {
            self.committed = self.committed.max(log.len());
        }
        self.replicas[leader].log = log;
        self.replicas[leader].apply(self.committed);
        for follower in reached {
            // Other followers apply later, so their direct gets lag.
            if self.is_calm || !self.one_in(4) {
                self.replicas[follower].apply(self.committed);
            }
        }
    }

    /// Returns the broker that the client takes for the leader.
    fn leader(&mut self) -> Answer<usize> {
        if self.fault() {
            return None;
        }
        if self.deposed.is_some() && self.one_in(2) { self.deposed } else { self.leader }
    }

    /// Returns the broker that answers a direct get.
    fn any(&mut self) -> Answer<usize> {
        let at = self.random.below(REPLICAS);
        (self.replicas[at].is_up && !self.fault()).then_some(at)
    }

    pub(super) fn append(&mut self, gateway: usize, append: Append) -> Answer<Appended> {
        let subject = append.subject;
        if self.fault() {
            if self.one_in(2) {
                self.late.push(append);
            }
            return None;
        }
        let answer = self.deliver(append);
        if self.fault() {
            return None;
        }
        if let Some(Appended::At(place)) = answer {
            self.expected.insert((gateway, subject), place);
        }
        answer
    }

    fn deliver(&mut self, append: Append) -> Answer<Appended> {
        let at = self.leader()?;
        let Append { subject, last, bytes } = append;
        let is_unfenced =
            self.is_deliberate(Deliberate::NoFence) || self.is_deliberate(Deliberate::LeaseOnly);
        if self.replicas[at].expected(subject) != last && !is_unfenced {
            self.events.refused_appends += 1;
            return Some(Appended::Refused);
        }
        let place = self.replicas[at].end() + 1;
        self.propose(at, place, Change::Append { subject, bytes });
        if self.is_deliberate(Deliberate::EarlyAcknowledgement) {
            let len = self.replicas[at].log.len();
            self.replicas[at].apply(len);
            return Some(Appended::At(place));
        }
        if self.leader != Some(at) {
            return None;
        }
        self.replicate();
        let is_committed = self.committed >= self.replicas[at].log.len();
        is_committed.then_some(Appended::At(place))
    }

    fn propose(&mut self, at: usize, place: u64, change: Change) {
        let term = self.replicas[at].term;
        self.replicas[at].log.push(Arc::new(Entry { term, place, change }));
    }

    /// Returns true unless the gateway needs a lease for this append and has none.
    pub(super) fn permits(&mut self, gateway: usize, append: &Append) -> bool {
        if !self.is_deliberate(Deliberate::LeaseOnly) {
            return true;
        }
        let stored = record::decode(&append.subject.to_string(), 0, &append.bytes);
        let takes_over = stored.is_ok_and(|stored| stored.head.reason == Reason::TakenOver);
        let (holder, end) = self.leases.get(&append.subject).copied().unwrap_or((gateway, 0));
        let is_permitted = if self.time <= end { holder == gateway } else { takes_over };
        if is_permitted {
            self.leases.insert(append.subject, (gateway, self.time + LEASE));
        }
        is_permitted
    }

    pub(super) fn last(&mut self, gateway: usize, subject: usize) -> Answer<Option<Message>> {
        let at = self.leader()?;
        let found = self.replicas[at].last(subject).cloned();
        let place = found.as_ref().map_or(0, |entry| entry.place);
        self.expected.insert((gateway, subject), place);
        Some(found.map(|entry| self.message(at, subject, &entry)))
    }

    pub(super) fn newest(&mut self, subject: usize) -> Answer<u64> {
        if self.is_deliberate(Deliberate::TailBelieved) {
            return Some(0);
        }
        let mut newest = 0;
        for _ in 0..ASKED {
            if let Some(at) = self.any() {
                let last = self.replicas[at].last(subject);
                newest = newest.max(last.map_or(0, |entry| entry.place));
            }
        }
        Some(newest)
    }

    pub(super) fn next(&mut self, subject: usize, place: u64) -> Answer<Option<Message>> {
        let at = self.leader()?;
        let found = self.replicas[at].from(subject, place).next().cloned();
        Some(found.map(|entry| self.message(at, subject, &entry)))
    }

    pub(super) fn following(
        &mut self,
        subject: usize,
        place: u64,
        count: usize,
    ) -> Answer<Vec<Message>> {
        let at = self.any()?;
        let count = count.min(1 + self.random.below(16));
        let found: Vec<_> = self.replicas[at].from(subject, place).take(count).cloned().collect();
        Some(found.into_iter().map(|entry| self.message(at, subject, &entry)).collect())
    }

    fn message(&self, at: usize, subject: usize, entry: &Entry) -> Message {
        let (place, bytes) = (entry.place, entry.bytes().to_vec());
        let name = subject.to_string();
        match record::decode(&name, place, &bytes) {
            // The record names the predecessor that the replica has, whatever it has lost.
            Ok(Stored { head, changes, .. }) if self.is_deliberate(Deliberate::GapBelieved) => {
                let previous = self.replicas[at].before(subject, place);
                let bytes = record::encode(&name, &Head { previous, ..head }, &changes);
                Message { place, bytes }
            }
            _ => Message { place, bytes },
        }
    }

    pub(super) fn purge(&mut self, subject: usize, before: u64) -> Answer<()> {
        let at = self.leader()?;
        let place = self.replicas[at].end();
        self.propose(at, place, Change::Purge { subject, before });
        self.replicate();
        Some(())
    }

    pub(super) fn step_down(&mut self) -> Answer<()> {
        if self.fault() {
            return None;
        }
        self.events.step_downs += 1;
        self.elect(self.leader);
        Some(())
    }
}
