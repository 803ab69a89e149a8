//! A simulated gateway: one process with a store of each session, which it uses as an engine does.

use std::sync::Arc;

use transfix_store::{Kind, Numbers, Record, StoreError};

use super::history::Acknowledged;
use super::world::{Client, NO_NUMBERS, SESSIONS, State, World};
use crate::batch::{Batch, Direction};
use crate::database::{Server, Taking, Written};
use crate::jetstream::Session;

/// Maximum number of messages in one read.
const LIMIT: usize = 7;

/// The state of a session in one gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The store writes. The gateway may be fenced, and does not know it yet.
    Writes,
    /// The store was fenced, or only reads until a logon.
    StandsBy,
    /// A request failed, so the store must be opened again.
    Failed,
}

struct Open {
    session: Session,
    numbers: Numbers,
    role: Role,
}

pub(super) struct Gateway {
    pub(super) life: u64,
    client: Arc<Client>,
    stores: [Option<Open>; SESSIONS],
}

impl Gateway {
    pub(super) fn new(life: u64, client: Arc<Client>) -> Self {
        Self { life, client, stores: Default::default() }
    }

    /// Does one thing with one session. The result of a killed process is dropped.
    pub(super) fn act(&mut self, world: &World) {
        let mut state = world.lock();
        let (at, choice) = (state.random.below(SESSIONS), state.random.below(8));
        drop(state);
        // An error leaves the state from which the gateway tries again.
        let _ = match self.stores[at].as_ref().map(|open| open.role) {
            None if choice == 0 => self.stand_by(world, at),
            None => self.take(world, at, Taking::Over),
            Some(Role::Failed) => self.take(world, at, Taking::Again),
            Some(Role::StandsBy) if choice == 0 => self.take(world, at, Taking::Over),
            Some(Role::StandsBy) => Ok(()),
            Some(Role::Writes) if choice == 0 => self.take(world, at, Taking::Over),
            Some(Role::Writes) if choice == 1 => self.read(world, at),
            Some(Role::Writes) => self.write(world, at),
        };
    }

    /// Takes the session over, and reads all that it has.
    pub(super) fn take_over_and_read(
        &mut self,
        world: &World,
        at: usize,
    ) -> Result<(), StoreError> {
        self.take(world, at, Taking::Over)?;
        self.read(world, at)
    }

    fn open(&mut self, world: &World, at: usize) -> Result<&mut Open, StoreError> {
        let mut state = world.lock();
        let (now, delete_after) = (state.now(), state.delete_after);
        drop(state);
        if self.stores[at].is_none() {
            let brokers = Arc::clone(&self.client) as _;
            let mut session = Session::new(brokers, &at.to_string(), now)?;
            // The owner is random otherwise.
            (session.owner, session.head.owner) = (now, now);
            session.delete_after_ns = delete_after;
            let role = Role::Failed;
            self.stores[at] = Some(Open { session, numbers: NO_NUMBERS, role });
        }
        self.stores[at].as_mut().ok_or(StoreError::Poisoned)
    }

    fn stand_by(&mut self, world: &World, at: usize) -> Result<(), StoreError> {
        let open = self.open(world, at)?;
        let read = open.session.read_last(open.session.last);
        if read.is_err() {
            self.stores[at] = None;
            return read;
        }
        (open.numbers, open.role) = (open.session.head.numbers, Role::StandsBy);
        Ok(())
    }

    fn take(&mut self, world: &World, at: usize, taking: Taking) -> Result<(), StoreError> {
        let is_new = self.stores[at].is_none();
        let open = self.open(world, at)?;
        let owner = open.session.owner;
        let mut state = world.lock();
        let (began, before) = (state.now(), state.histories[at].acknowledged());
        drop(state);
        open.role = Role::Failed;
        let numbers = match open.session.take(taking) {
            Ok(numbers) => numbers,
            Err(error) => {
                if is_new {
                    self.stores[at] = None;
                }
                return Err(error);
            }
        };
        (open.numbers, open.role) = (numbers, Role::Writes);
        if !open.session.is_owner() {
            return Ok(());
        }
        let mut state = world.lock();
        let ended = state.now();
        let law = state.histories[at].taken((owner, began, ended), numbers, &before);
        state.check(at, law);
        drop(state);
        self.read_as_owner(world, at, &before)
    }

    /// Reads the queue and an inbound message, which the owner must find.
    fn read_as_owner(
        &mut self,
        world: &World,
        at: usize,
        before: &Acknowledged,
    ) -> Result<(), StoreError> {
        let open = self.open(world, at)?;
        let queue = open.session.read_queue(0)?;
        let mut state = world.lock();
        let law = state.histories[at].found_queue(before, &queue);
        state.check(at, law);
        let choice = state.random.below(1 << 16);
        drop(state);
        let Some((seq, time)) = before.inbound(open.numbers, choice) else { return Ok(()) };
        let found = open.session.read(Direction::Inbound, (seq, seq + 1), 1)?;
        if found.is_empty() {
            let mut state = world.lock();
            let law = state.histories[at].missed((seq, time));
            state.check(at, law);
        }
        Ok(())
    }

    /// Reads all sent messages, as a resend does.
    fn read(&mut self, world: &World, at: usize) -> Result<(), StoreError> {
        let Open { session, numbers, role } = self.open(world, at)?;
        let (mut begin, end) = (1, numbers.next_out);
        while begin < end {
            let found = session.read(Direction::Outbound, (begin, end), LIMIT);
            let mut found = found.inspect_err(|_| *role = Role::Failed)?;
            let last = found.last().filter(|_| found.len() == LIMIT).map(|(seq, _)| *seq);
            let until = last.map_or(end, |last| last + 1);
            let mut state = world.lock();
            for seq in begin..until {
                let kept = found.iter_mut().find(|(at, _)| *at == seq);
                let kept = kept.map(|(_, kept)| std::mem::take(&mut kept.bytes));
                let law = state.histories[at].sent(*numbers, seq, kept.as_deref());
                state.check(at, law);
            }
            begin = until;
        }
        Ok(())
    }

    fn write(&mut self, world: &World, at: usize) -> Result<(), StoreError> {
        let Open { session, numbers, role } = self.open(world, at)?;
        let mut state = world.lock();
        let batch = draw(&mut state, *numbers);
        let began = state.now();
        state.histories[at].tries(&batch);
        drop(state);
        *role = Role::Failed;
        match session.write(&batch)? {
            Written::Nothing => *role = Role::StandsBy,
            Written::Whole => {
                let mut state = world.lock();
                let history = &mut state.histories[at];
                let law = history.committed((session.owner, began), *numbers, &batch);
                state.check(at, law);
                (*numbers, *role) = (batch.numbers, Role::Writes);
            }
        }
        Ok(())
    }
}

/// Draws a batch. Its messages differ from all others.
fn draw(state: &mut State, numbers: Numbers) -> Batch {
    let mut batch = Batch::new(numbers);
    let now = state.now();
    let text = |length: usize| format!("{now:<length$}");
    if state.one_in(40) {
        batch.add(now, &Record::Reset);
    }
    for _ in 0..state.random.below(5) {
        let seq = batch.numbers.next_out;
        let text = text(10 + state.random.below(120));
        batch.add(now, &Record::Outbound { seq, kind: Kind::Admin, bytes: text.as_bytes() });
    }
    if state.one_in(12) {
        let next = batch.numbers.next_out + 2;
        batch.add(now, &Record::NextOut(next));
    }
    if state.one_in(2) {
        let seq = batch.numbers.next_in;
        batch.add(now, &Record::NextIn(seq + 1));
        // A message that was received again begins a run.
        let seq = if state.one_in(16) && seq > 1 { seq - 1 } else { seq };
        batch.add(now, &Record::Inbound { seq, kind: Kind::Admin, bytes: text(30).as_bytes() });
    }
    if state.one_in(10) {
        batch.add(now, &Record::Unqueued(now.saturating_sub(state.random.below(60) as u64)));
    }
    if state.one_in(8) {
        batch.add(now, &Record::Queued { ticket: now, bytes: text(40).as_bytes() });
    }
    batch
}
