//! A store in a database: the part that all servers have in common.

use std::fmt;
use std::time::Duration;

use transfix_store::{Committed, Numbers, Record, Store, StoreError, Stored, Wake};

use crate::PATIENCE;
use crate::batch::{Batch, Direction, Kept};
use crate::behind::{Asked, Behind};
use crate::window::{AHEAD, Window};

/// Messages with their sequence numbers or tickets, in ascending order.
pub(crate) type Messages = Vec<(u64, Kept)>;

/// The operations that a database server provides for the store of one session.
pub trait Server: Send {
    /// Maximum time that a session waits for an answer.
    const PATIENCE: Duration = PATIENCE;

    /// Writes the batch in one transaction. Writes nothing if another process has taken over the
    /// session.
    fn write(&mut self, batch: &Batch) -> Result<Written, StoreError>;

    /// Reads the messages of one direction whose numbers are in `begin..end`, in ascending order.
    fn read(
        &mut self,
        way: Direction,
        begin_end: (u64, u64),
        limit: usize,
    ) -> Result<Messages, StoreError>;

    /// Reads all queued messages with this ticket or a higher one, in ascending order.
    fn read_queue(&mut self, ticket: u64) -> Result<Messages, StoreError>;

    /// Reconnects if necessary, takes the session over as `taking` says, and returns the stored
    /// numbers.
    fn take(&mut self, taking: Taking) -> Result<Numbers, StoreError>;
}

/// The outcome of writing a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The batch is stored.
    Whole,
    /// Nothing is stored, because another process owns the session now.
    Nothing,
}

/// The way in which a process becomes the owner of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// The session is taken over, whoever owns it.
    Over,
    /// Only if this process still owns the session. Its pending requests are void. A process that
    /// has never owned the session only reads the numbers.
    Again,
}

/// The store of a session in a database; see [`PostgresStore`](crate::PostgresStore) and
/// [`RedisStore`](crate::RedisStore).
pub struct DatabaseStore<S: Server> {
    behind: Behind<S>,
    name: String,
    numbers: Numbers,
    batch: Batch,
    window: Window,
    /// A cache of all queued messages with this ticket or a higher one.
    queue: Option<(u64, Messages)>,
    /// A cache of the inbound message that was read last, with its number; `None` inside if the
    /// store does not have it.
    received: Option<(u64, Option<Kept>)>,
    /// The pending read request, if any.
    asked: Option<(Fetch, Asked<Messages>)>,
    /// The pending request to take over the session, if any.
    taking: Option<Asked<Taken>>,
    poisoned: bool,
}

impl<S: Server + 'static> DatabaseStore<S> {
    /// Opens the store of the session `name` on a server, and takes it over as `taking` says.
    #[cfg(any(feature = "postgres", feature = "redis"))]
    pub(crate) fn opened(mut server: S, name: &str, taking: Taking) -> Result<Self, StoreError> {
        let numbers = server.take(taking)?;
        Self::of(server, name, numbers)
    }

    /// Creates the store of the session `name` on a server that contains these numbers.
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

    /// Sends a read request, unless another one is pending. The limit of one request at a time
    /// bounds the work that a counterparty can cause.
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

    /// Stores the answer to the pending read request, if it has arrived.
    fn hear(&mut self) -> Result<(), StoreError> {
        self.check()?;
        let Some((what, asked)) = &self.asked else { return Ok(()) };
        let (what, answer) = (*what, asked.hear());
        if matches!(answer, Err(StoreError::NotYet)) {
            return Ok(());
        }
        self.asked = None;
        // If an earlier write has failed, that error is returned instead of the answer.
        let answer = self.behind.tickets().and(answer);
        self.poisoned = answer.is_err();
        let mut found = answer?;
        match what {
            // The answer does not include messages that were committed after the request.
            Fetch::Outbound(begin, end) => self.window.fill(begin, end, found),
            Fetch::Inbound(seq) => self.received = Some((seq, found.pop().map(|(_, kept)| kept))),
            Fetch::Queue(begin) => self.queue = Some((begin, found)),
        }
        Ok(())
    }

    /// Discards cached and pending reads whose messages the batch changes.
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

    /// Continues the session with the numbers that the server contains.
    fn go_on(&mut self, numbers: Numbers) {
        self.numbers = numbers;
        self.behind.begin_anew();
        self.batch = Batch::new(numbers);
        self.window.forget();
        (self.queue, self.received, self.asked, self.taking) = (None, None, None, None);
        // After this read, the stored state is known, whatever failed before.
        self.poisoned = false;
    }
}

/// A request to read messages.
#[derive(Clone, Copy, Debug)]
enum Fetch {
    /// Outbound messages from the first number up to, but excluding, the second number, which was
    /// the next number at that time.
    Outbound(u64, u64),
    /// The inbound message with this number.
    Inbound(u64),
    /// The queued messages with this ticket or a higher one.
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

/// The data that is read when a session is taken over: the numbers and the queued messages.
type Taken = (Numbers, Messages);

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
        // A process that has taken over a session keeps it while reopening its store.
        let numbers = self.behind.ask_and_wait(|server| server.take(Taking::Again))?;
        self.go_on(numbers);
        Ok(())
    }

    fn refresh(&mut self) -> Result<(), StoreError> {
        let taking = match self.taking.take() {
            Some(taking) => taking,
            None => self.behind.ask(|server| {
                let numbers = server.take(Taking::Over)?;
                // The session looks for queued messages first.
                Ok((numbers, Fetch::Queue(0).from(server)?))
            })?,
        };
        match taking.hear() {
            Err(StoreError::NotYet) => {
                self.taking = Some(taking);
                Err(StoreError::NotYet)
            }
            Err(error) => {
                // A refused takeover changes nothing.
                self.poisoned |= !matches!(error, StoreError::InUse { .. });
                Err(error)
            }
            Ok((numbers, queue)) => {
                // Some earlier commits may not have been written, so the store must be reopened
                // first.
                self.behind.tickets().inspect_err(|_| self.poisoned = true)?;
                self.go_on(numbers);
                self.queue = Some((0, queue));
                Ok(())
            }
        }
    }
}

impl<S: Server> fmt::Debug for DatabaseStore<S> {
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
