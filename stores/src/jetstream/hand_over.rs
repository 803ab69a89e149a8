//! A model of the hand-over: every order of reads, appends, acknowledgements and elections, within
//! small bounds.
//!
//! Two processes share one session, whose records are the log of three replicas. A process that
//! does nothing for a while is paused. A leader may be cut off without knowing it, and loses the
//! records that no other replica has.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model, Property};

const PROCESSES: usize = 2;
const REPLICAS: usize = 3;
/// Maximum number of records that the processes send together.
const RECORDS: u8 = 4;
/// Maximum number of elections.
const ELECTIONS: u8 = 1;

const ONE_CONTENT: &str = "a number has one content";
const NOTHING_LOST: &str = "the leader has all acknowledged records";
const ONE_OWNER: &str = "only the last owner is acknowledged";

const LEADER: usize = 0;
const DEPOSED: usize = 1;

/// The condition for an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fence {
    /// The leader accepts a record if its predecessor is the last record.
    LastRecord,
    /// The leader accepts every record.
    Nothing,
    /// A process sends a record only while it has the lease. The leader accepts every record.
    Lease,
}

/// The time of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acknowledge {
    /// A majority has the record.
    Majority,
    /// The leader has the record.
    Leader,
}

struct HandOver {
    fence: Fence,
    acknowledge: Acknowledge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Record {
    owner: usize,
    /// Tells the records of an owner apart, so it stands for the content of a message.
    attempt: u8,
    /// MsgSeqNum(34); 0 for a take-over.
    number: u8,
    /// The term of the leader that accepted the record; 0 before.
    term: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    /// The process has read the last record, and may take the session over.
    HasRead,
    /// The process waits for the acknowledgement of its newest record.
    Waits,
    Owns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Process {
    phase: Phase,
    /// The place of the last record that the process knows.
    last: usize,
    /// The next outbound number.
    next: u8,
    attempts: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
struct Replica {
    log: Vec<Record>,
    /// Number of records that the replica knows to be at a majority.
    committed: usize,
}

impl Replica {
    /// A replica votes only for one that is not older.
    fn age(&self) -> (u8, usize) {
        (self.log.last().map_or(0, |record| record.term), self.log.len())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    processes: [Process; PROCESSES],
    /// The leader, the deposed leader if there is one, and the other replicas, sorted.
    replicas: [Replica; REPLICAS],
    term: u8,
    /// The term of a former leader that does not know of the new one.
    deposed: Option<u8>,
    lease: Option<usize>,
    /// Records on their way to a leader, with the place of the predecessor.
    sent: BTreeSet<(usize, Record)>,
    /// Acknowledged records with their places.
    acknowledged: BTreeSet<(usize, Record)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// A process reads from a broker that leads, or believes that it leads.
    Read(usize, usize),
    Send(usize),
    /// A record reaches a broker that leads, or believes that it leads.
    Deliver((usize, Record), usize),
    Acknowledge(usize, usize),
    Replicate(usize),
    /// A replica becomes the leader, with the vote of the other one. The former leader is cut off.
    Elect(usize),
    LeaseEnds,
}

impl State {
    /// Returns the brokers that lead or believe that they lead.
    fn leaders(&self) -> std::ops::RangeInclusive<usize> {
        LEADER..=if self.deposed.is_some() { DEPOSED } else { LEADER }
    }

    /// Copies the leader's log to a follower. Then a majority has it.
    fn replicate(&mut self, follower: usize) {
        self.replicas[LEADER].committed = self.replicas[LEADER].log.len();
        self.replicas[follower] = self.replicas[LEADER].clone();
        self.deposed.take_if(|_| follower == DEPOSED);
    }
}

impl HandOver {
    fn has_lease(&self, state: &State, process: usize) -> bool {
        let takes_over = state.processes[process].phase == Phase::HasRead;
        match self.fence {
            Fence::Lease => state.lease == Some(process) || takes_over && state.lease.is_none(),
            Fence::LastRecord | Fence::Nothing => true,
        }
    }

    /// Returns the place of the process's newest record, if this broker acknowledges the record.
    fn acknowledged_at(&self, state: &State, process: usize, broker: usize) -> Option<usize> {
        let Replica { log, committed } = &state.replicas[broker];
        let end = match self.acknowledge {
            Acknowledge::Majority => *committed,
            Acknowledge::Leader => log.len(),
        };
        let attempt = state.processes[process].attempts;
        let is_newest = |record: &Record| (record.owner, record.attempt) == (process, attempt);
        log[..end].iter().position(is_newest).map(|at| at + 1)
    }

    fn deliver(&self, state: &mut State, (last, record): (usize, Record), broker: usize) {
        let term = state.deposed.filter(|_| broker == DEPOSED).unwrap_or(state.term);
        let log = &mut state.replicas[broker].log;
        state.sent.remove(&(last, record));
        if self.fence == Fence::LastRecord && log.len() != last {
            let Process { phase, attempts, .. } = &mut state.processes[record.owner];
            if *phase == Phase::Waits && *attempts == record.attempt {
                *phase = Phase::Idle;
            }
        } else {
            log.push(Record { term, ..record });
        }
    }
}

impl Model for HandOver {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let process = Process { phase: Phase::Idle, last: 0, next: 1, attempts: 0 };
        vec![State {
            processes: [process; PROCESSES],
            replicas: Default::default(),
            term: 0,
            deposed: None,
            lease: None,
            sent: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let records: u8 = state.processes.iter().map(|process| process.attempts).sum();
        for (at, process) in state.processes.iter().enumerate() {
            match process.phase {
                Phase::HasRead | Phase::Owns if records < RECORDS => {
                    actions.push(Action::Send(at));
                }
                Phase::Waits => {
                    actions.extend(state.leaders().map(|broker| Action::Acknowledge(at, broker)));
                }
                Phase::Idle | Phase::HasRead | Phase::Owns => {}
            }
            // The first process begins. A process that waits may give up and read again.
            let is_first = at == 0 || state.processes[0].attempts > 0;
            if records < RECORDS && is_first && process.phase != Phase::HasRead {
                actions.extend(state.leaders().map(|broker| Action::Read(at, broker)));
            }
        }
        for sent in &state.sent {
            actions.extend(state.leaders().map(|broker| Action::Deliver(*sent, broker)));
        }
        for follower in 1..REPLICAS {
            actions.push(Action::Replicate(follower));
            if state.term < ELECTIONS {
                actions.push(Action::Elect(follower));
            }
        }
        if state.lease.is_some() {
            actions.push(Action::LeaseEnds);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Read(at, broker) => {
                let Replica { log, committed } = &state.replicas[broker];
                let process = &mut state.processes[at];
                process.last = *committed;
                let numbers = log[..*committed].iter().map(|record| record.number);
                process.next = numbers.max().unwrap_or(0) + 1;
                process.phase = Phase::HasRead;
            }
            Action::Send(at) => {
                if !self.has_lease(&state, at) {
                    return None;
                }
                if self.fence == Fence::Lease {
                    state.lease = Some(at);
                }
                let Process { phase, last, next, attempts } = &mut state.processes[at];
                *attempts += 1;
                let number = if *phase == Phase::Owns { *next } else { 0 };
                state
                    .sent
                    .insert((*last, Record { owner: at, attempt: *attempts, number, term: 0 }));
                *phase = Phase::Waits;
            }
            Action::Deliver(sent, broker) => self.deliver(&mut state, sent, broker),
            Action::Acknowledge(at, broker) => {
                let place = self.acknowledged_at(&state, at, broker)?;
                let record = state.replicas[broker].log[place - 1];
                state.acknowledged.insert((place, record));
                let process = &mut state.processes[at];
                (process.last, process.phase) = (place, Phase::Owns);
                process.next = process.next.max(record.number + 1);
            }
            Action::Replicate(follower) => state.replicate(follower),
            Action::Elect(candidate) => {
                let voter = REPLICAS - candidate;
                if state.replicas[candidate].age() < state.replicas[voter].age() {
                    return None;
                }
                let [leader, first, second] = state.replicas;
                let (candidate, voter) =
                    if candidate == 1 { (first, second) } else { (second, first) };
                state.replicas = [candidate, leader, voter];
                state.deposed = Some(state.term);
                state.term += 1;
                // A new leader commits the records that it has before it serves a request.
                state.replicate(2);
            }
            Action::LeaseEnds => state.lease = None,
        }
        if state.deposed.is_none() {
            state.replicas[1..].sort();
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_CONTENT, |_, state: &State| {
                let numbers = state.acknowledged.iter().map(|(_, record)| record.number);
                let numbers: Vec<u8> = numbers.filter(|number| *number > 0).collect();
                numbers.iter().collect::<BTreeSet<_>>().len() == numbers.len()
            }),
            Property::always(NOTHING_LOST, |_, state: &State| {
                let log = &state.replicas[LEADER].log;
                let has = |(place, record): &(usize, Record)| log.get(place - 1) == Some(record);
                state.acknowledged.iter().all(has)
            }),
            Property::always(ONE_OWNER, |_, state: &State| {
                state.acknowledged.iter().all(|(place, record)| {
                    let log = &state.replicas[LEADER].log;
                    let mut before = log[..log.len().min(*place)].iter().rev();
                    let owner = before.find(|before| before.number == 0);
                    owner.is_none_or(|owner| owner.owner == record.owner)
                })
            }),
            Property::sometimes("both processes send messages", |_, state: &State| {
                (0..PROCESSES).all(|at| {
                    let sent =
                        |(_, record): &(usize, Record)| record.owner == at && record.number > 0;
                    state.acknowledged.iter().any(sent)
                })
            }),
            Property::sometimes("a leader has a record that is lost", |_, state: &State| {
                let [leader, deposed, _] = &state.replicas;
                deposed.log.len() > leader.log.len()
            }),
        ]
    }
}

/// Checks all states within the bounds. Returns the broken laws, or the examples that are missing.
fn broken(fence: Fence, acknowledge: Acknowledge) -> Vec<&'static str> {
    let checker = HandOver { fence, acknowledge }.checker();
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!("{fence:?}, {acknowledge:?}: {} states", checker.unique_state_count());
    let found = checker.discoveries();
    let properties = checker.model().properties().into_iter();
    let is_wrong = |property: &Property<_>| {
        property.expectation.discovery_is_failure() == found.contains_key(property.name)
    };
    properties.filter(is_wrong).map(|property| property.name).collect()
}

#[test]
fn one_process_at_a_time_is_acknowledged() {
    assert!(broken(Fence::LastRecord, Acknowledge::Majority).is_empty());
}

#[test]
fn a_hand_over_without_its_fence_breaks_a_law() {
    for (fence, acknowledge, law) in [
        (Fence::Nothing, Acknowledge::Majority, ONE_OWNER),
        (Fence::Lease, Acknowledge::Majority, ONE_OWNER),
        (Fence::LastRecord, Acknowledge::Leader, NOTHING_LOST),
    ] {
        let broken = broken(fence, acknowledge);
        assert!(broken.contains(&law), "{fence:?}, {acknowledge:?}: {broken:?}");
    }
}
