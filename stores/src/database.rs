//! A store over a server: the common part of all servers.

use std::fmt;

use transfix_store::{Committed, Numbers, Record, Store, StoreError, Stored, Wake};

use crate::batch::{Batch, Direction, Kept};
use crate::behind::{Asked, Behind};
use crate::window::{AHEAD, Window};

/// Messages with their numbers or tickets, ascending.
pub(crate) type Messages = Vec<(u64, Kept)>;

/// The operations of a server for the store of one session.
pub trait Server: Send {
    /// Writes the batch in one transaction, unless another process has taken over the session.
    fn write(&mut self, batch: &Batch) -> Result<Written, StoreError>;

    /// Reads messages of one direction with numbers in `begin..end`, ascending.
    fn read(
        &mut self,
        way: Direction,
        begin_end: (u64, u64),
        limit: usize,
    ) -> Result<Messages, StoreError>;

    /// Reads all queued messages with this ticket or a higher one, ascending.
    fn read_queue(&mut self, ticket: u64) -> Result<Messages, StoreError>;

    /// Reconnects if necessary, and returns the stored numbers.
    fn take(&mut self, taking: Taking) -> Result<Numbers, StoreError>;
}

/// The outcome of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The batch is stored.
    Whole,
    /// Nothing is stored: another process owns this session now.
    Nothing,
}

/// Selects whether the session is taken from its current process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// Take the session over.
    Over,
    /// Only if this process still owns the session. Pending requests are void.
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
    /// All queued messages with this ticket or a higher one.
    queue: Option<(u64, Messages)>,
    /// The last read inbound message, with its number.
    received: Option<(u64, Option<Kept>)>,
    /// The pending request.
    asked: Option<(Fetch, Asked<Messages>)>,
    /// The pending takeover of the session.
    taking: Option<Asked<Taken>>,
    poisoned: bool,
}

impl<S: Server + 'static> DatabaseStore<S> {
    /// Creates the store of this session on a server with these numbers.
    pub(crate) fn of(server: S, name: &str, numbers: Numbers) -> Result<Self, StoreError> {
        Ok(Self {
            behind: Behind::start(server, name)?,
            name: name.to_owned(),
            numbers,
            batch: Batch::new(numbers),
            window: Window::default(),
            queue: None,
            received: None,
            asked: None,
            taking: None,
            poisoned: false,
        })
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.poisoned { Err(StoreError::Poisoned) } else { Ok(()) }
    }

    /// Sends a request, unless another answer is pending. One request at a time bounds the work
    /// that a counterparty can cause.
    ///
    /// # Errors
    /// [`StoreError::NotYet`] while the answer is pending.
    fn ask(&mut self, what: Fetch) -> Result<(), StoreError> {
        if self.asked.is_none() {
            let asked = self.behind.ask(move |server| what.from(server));
            self.asked = Some((what, asked.inspect_err(|_| self.poisoned = true)?));
        }
        Err(StoreError::NotYet)
    }

    /// Stores a pending answer, if it has arrived.
    fn hear(&mut self) -> Result<(), StoreError> {
        self.check()?;
        let Some((what, asked)) = &self.asked else { return Ok(()) };
        let (what, answer) = (*what, asked.hear());
        if matches!(answer, Err(StoreError::NotYet)) {
            return Ok(());
        }
        self.asked = None;
        // An earlier failed write takes precedence.
        let answer = self.behind.tickets().and(answer);
        self.poisoned = answer.is_err();
        let mut found = answer?;
        match what {
            // The answer does not include commits after the request.
            Fetch::Outbound(begin, end) => self.window.fill(begin, end, found),
            Fetch::Inbound(seq) => self.received = Some((seq, found.pop().map(|(_, kept)| kept))),
            Fetch::Queue(begin) => self.queue = Some((begin, found)),
        }
        Ok(())
    }

    /// Discards cached or pending reads that the batch changes.
    fn forget_what_changes(&mut self) {
        let (undoes, queues) = (self.batch.undoes(), self.batch.queues());
        self.received = None;
        if undoes {
            self.window.forget();
        }
        if queues {
            self.queue = None;
        }
        let is_void = |what: &Fetch| match what {
            Fetch::Outbound(..) => undoes,
            Fetch::Inbound(_) => true,
            Fetch::Queue(_) => queues,
        };
        self.asked.take_if(|(what, _)| is_void(what));
    }

    fn tickets(&mut self) -> Result<(u64, u64), StoreError> {
        self.check()?;
        self.behind.tickets().inspect_err(|_| self.poisoned = true)
    }

    /// Continues the session with the server's numbers.
    fn go_on(&mut self, numbers: Numbers) {
        self.numbers = numbers;
        self.behind.begin_anew();
        self.batch = Batch::new(numbers);
        self.window.forget();
        (self.queue, self.received, self.asked, self.taking) = (None, None, None, None);
        // After this read the stored state is known, regardless of earlier failures.
        self.poisoned = false;
    }
}

/// A request for messages.
#[derive(Clone, Copy, Debug)]
enum Fetch {
    /// Sent messages from the first number up to, but excluding, the second, which was the next
    /// number then.
    Outbound(u64, u64),
    /// The inbound message with this number.
    Inbound(u64),
    /// Queued messages from this ticket on.
    Queue(u64),
}

impl Fetch {
    fn from(self, server: &mut impl Server) -> Result<Messages, StoreError> {
        match self {
            Self::Outbound(begin, end) => server.read(Direction::Outbound, (begin, end), AHEAD),
            Self::Inbound(seq) => server.read(Direction::Inbound, (seq, seq.saturating_add(1)), 1),
            Self::Queue(ticket) => server.read_queue(ticket),
        }
    }
}

/// The data of a session after a takeover: numbers, first sent messages, and queued messages.
type Taken = (Numbers, Messages, Messages);

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
        self.forget_what_changes();
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
        self.hear()?;
        if seq >= self.numbers.next_out {
            return Ok(None);
        }
        if !self.window.covers(seq) {
            self.ask(Fetch::Outbound(seq, self.numbers.next_out))?;
        }
        Ok(self.window.find(seq).map(|kept| stored(seq, kept)))
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.hear()?;
        if self.received.as_ref().is_none_or(|(known, _)| *known != seq) {
            self.ask(Fetch::Inbound(seq))?;
        }
        let kept = self.received.as_ref().and_then(|(_, kept)| kept.as_ref());
        Ok(kept.map(|kept| stored(seq, kept)))
    }

    fn queued(&mut self, ticket: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.hear()?;
        if self.queue.as_ref().is_none_or(|(begin, _)| *begin > ticket) {
            self.ask(Fetch::Queue(ticket))?;
        }
        let waiting = self.queue.as_ref().map(|(_, waiting)| &waiting[..]).unwrap_or_default();
        let at = waiting.partition_point(|(known, _)| *known < ticket);
        Ok(waiting.get(at).map(|(ticket, kept)| stored(*ticket, kept)))
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.behind.give_up();
        self.poisoned = true;
        // A process keeps a session that it has taken over.
        let numbers = self.behind.ask_and_wait(|server| server.take(Taking::Again))?;
        self.go_on(numbers);
        Ok(())
    }

    fn refresh(&mut self) -> Result<(), StoreError> {
        let taking = match self.taking.take() {
            Some(taking) => taking,
            None => self.behind.ask(|server| {
                let numbers = server.take(Taking::Over)?;
                // Includes the data that the session requests first.
                let sent = Fetch::Outbound(1, numbers.next_out).from(server)?;
                Ok((numbers, sent, Fetch::Queue(0).from(server)?))
            })?,
        };
        match taking.hear() {
            Err(StoreError::NotYet) => {
                self.taking = Some(taking);
                Err(StoreError::NotYet)
            }
            Err(error) => {
                self.poisoned = true;
                Err(error)
            }
            Ok((numbers, sent, queue)) => {
                // Some earlier commits may not have been written.
                self.behind.tickets().inspect_err(|_| self.poisoned = true)?;
                self.go_on(numbers);
                self.window.fill(1, numbers.next_out, sent);
                self.queue = Some((0, queue));
                Ok(())
            }
        }
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
