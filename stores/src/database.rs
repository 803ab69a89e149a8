//! A store over a server: what all of them have in common.

use std::fmt;

use transfix_store::{Committed, Numbers, Record, Store, StoreError, Stored, Wake};

use crate::batch::{Batch, Direction, Kept};
use crate::behind::Behind;
use crate::window::{AHEAD, Window};

/// What a server does for the store of one session.
pub trait Server: Send {
    /// Writes the batch in one transaction. Not if somebody else has taken the session over.
    fn write(&mut self, batch: &Batch) -> Result<Written, StoreError>;

    /// Messages that went this way, with numbers from `begin` on and below `end`, ascending.
    fn read(
        &mut self,
        way: Direction,
        begin_end: (u64, u64),
        limit: usize,
    ) -> Result<Vec<(u64, Kept)>, StoreError>;

    /// What waits under this ticket, or else under the next one.
    fn read_queue(&mut self, ticket: u64) -> Result<Option<(u64, Kept)>, StoreError>;

    /// Connects again where that is needed, and answers with the numbers that are there.
    fn take(&mut self, taking: Taking) -> Result<Numbers, StoreError>;
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is there.
    Whole,
    /// Nothing of it: another process writes this session now.
    Nothing,
}

/// Whether the session is taken from the process that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// It is.
    Over,
    /// Only what is ours already is taken anew: what we have asked for, and the server has not done
    /// yet, is not done any more.
    Again,
}

/// Keeps a session in a database; see [`PostgresStore`](crate::PostgresStore) and
/// [`RedisStore`](crate::RedisStore).
pub struct DatabaseStore<S> {
    behind: Behind<S>,
    name: String,
    numbers: Numbers,
    batch: Batch,
    window: Window,
    /// What was read last, where it is not in the window.
    found: Option<(u64, Kept)>,
    poisoned: bool,
}

impl<S: Server + 'static> DatabaseStore<S> {
    /// The store of this session on a server that has these numbers.
    pub(crate) fn of(server: S, name: &str, numbers: Numbers) -> Result<Self, StoreError> {
        Ok(Self {
            behind: Behind::start(server, name)?,
            name: name.to_owned(),
            numbers,
            batch: Batch::new(numbers),
            window: Window::default(),
            found: None,
            poisoned: false,
        })
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.poisoned { Err(StoreError::Poisoned) } else { Ok(()) }
    }

    /// What the server says, unless something was not written before.
    fn ask<T: Send + 'static>(
        &mut self,
        ask: impl FnOnce(&mut S) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.check()?;
        let answer = self.behind.ask(ask);
        let answer = self.behind.tickets().and(answer);
        self.poisoned = answer.is_err();
        answer
    }

    fn tickets(&mut self) -> Result<(u64, u64), StoreError> {
        self.check()?;
        self.behind.tickets().inspect_err(|_| self.poisoned = true)
    }

    fn take(&mut self, taking: Taking) -> Result<(), StoreError> {
        self.poisoned = true;
        self.numbers = self.behind.ask(move |server| server.take(taking))?;
        self.behind.begin_anew();
        self.batch = Batch::new(self.numbers);
        self.window.forget();
        // Whatever had failed: what is there now is known.
        self.poisoned = false;
        Ok(())
    }
}

impl<S: Server + 'static> Store for DatabaseStore<S> {
    fn numbers(&self) -> Numbers {
        self.numbers
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        self.check()?;
        self.batch.add(now_ns, &record);
        Ok(())
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        let (committed, safe) = self.tickets()?;
        if self.batch.is_empty() {
            let is_safe = safe == committed;
            return Ok(if is_safe { Committed::Now } else { Committed::Pending(committed) });
        }
        if self.batch.undoes() {
            self.window.forget();
        }
        self.numbers = self.batch.numbers;
        let batch = std::mem::replace(&mut self.batch, Batch::new(self.numbers));
        self.poisoned = true;
        let ticket = self.behind.commit(batch)?;
        self.poisoned = false;
        Ok(Committed::Pending(ticket))
    }

    fn safe(&mut self) -> Result<u64, StoreError> {
        self.tickets().map(|(_, safe)| safe)
    }

    fn wake_by(&mut self, wake: Wake) {
        self.behind.wake_by(wake);
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.check()?;
        if seq >= self.numbers.next_out {
            return Ok(None);
        }
        if !self.window.covers(seq) {
            let end = self.numbers.next_out;
            let read = move |server: &mut S| server.read(Direction::Outbound, (seq, end), AHEAD);
            let found = self.ask(read)?;
            self.window.fill(seq, end, found);
        }
        Ok(self.window.find(seq).map(|kept| stored(seq, kept)))
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        let only = (seq, seq.saturating_add(1));
        self.found = self.ask(move |server| server.read(Direction::Inbound, only, 1))?.pop();
        Ok(self.found.as_ref().map(|(seq, kept)| stored(*seq, kept)))
    }

    fn queued(&mut self, ticket: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.found = self.ask(move |server| server.read_queue(ticket))?;
        Ok(self.found.as_ref().map(|(ticket, kept)| stored(*ticket, kept)))
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.behind.give_up();
        // Who has taken it over keeps it.
        self.take(Taking::Again)
    }

    fn refresh(&mut self) -> Result<(), StoreError> {
        self.take(Taking::Over)
    }
}

impl<S> fmt::Debug for DatabaseStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, numbers, poisoned, .. } = self;
        let mut debug = f.debug_struct("DatabaseStore");
        debug.field("name", name).field("numbers", numbers).field("poisoned", poisoned);
        debug.finish_non_exhaustive()
    }
}

fn stored(seq: u64, kept: &Kept) -> Stored<'_> {
    Stored { seq, kind: kept.kind, time_ns: kept.time_ns, bytes: &kept.bytes }
}
