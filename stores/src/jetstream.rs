//! NATS JetStream: one stream for all sessions of a fleet, one subject for each session.
//!
//! **Invariant:** a missing message is never believed. An answer that contradicts another one is an
//! error, and the leader of the stream is asked to step down.

mod brokers;
#[cfg(test)]
mod hand_over;
mod record;
mod runs;
mod server;
#[cfg(test)]
mod simulated;
mod stream;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use async_nats::ConnectOptions;
use transfix_store::{Numbers, StoreError};

#[cfg(feature = "fleet")]
use transfix::{Role, SessionId};

use crate::batch::{Batch, Direction, Kept};
use crate::database::{DatabaseStore, Server, Taking, Written};
#[cfg(feature = "fleet")]
use crate::fleet::Gateway;
use brokers::{Brokers, IfMissing, refused};
use record::{Changes, HERE, Head, Reason, Stored};
use stream::{Appended, Message, Stream};

/// Attempts to take over a session that other processes take over at the same time.
const ATTEMPTS: usize = 20;

/// Keeps a session in a replicated stream of NATS JetStream, version 2.12 or later.
///
/// Each commit is one message with the session's subject, acknowledged by a majority of the
/// brokers. A commit larger than the brokers' `max_payload` is divided into several messages, and
/// visible with the last one. A message has both next numbers, so opening a store reads one
/// message. A resend reads older messages from the stream.
///
/// The brokers refuse a commit whose predecessor is not the last message of the subject. Opening a
/// store appends a message, so from then on every commit of the previous process is refused.
/// Neither clocks nor leases matter. The leader of the stream judges a commit by its file. If that
/// file has lost exactly the records since the last commit of a former owner, the leader accepts
/// the next commit of that owner.
///
/// The brokers need `sync_interval: always`. Otherwise a power cut of several brokers may lose
/// acknowledged commits. [`JetStream::connect`] checks this if the account imports the service
/// `$SYS.REQ.SERVER.PING.JSZ` of the system account, exported with `response: stream`. A reset
/// deletes the messages before it.
///
/// ```no_run
/// use transfix_stores::{ConnectOptions, JetStream, JetStreamStore};
///
/// let brokers = JetStream::connect("n1:4222,n2:4222,n3:4222", "FIX", ConnectOptions::new(), 3)?;
/// let store = JetStreamStore::open(&brokers, "FIX.4.4:VENUE->CLIENT", 0)?;
/// # Ok::<(), transfix_store::StoreError>(())
/// ```
pub type JetStreamStore = DatabaseStore<Session>;

/// A connection to the brokers, shared by the sessions of a process.
#[derive(Clone)]
pub struct JetStream(Arc<Brokers>);

impl JetStream {
    /// Connects to brokers, such as `n1:4222,n2:4222,n3:4222`, and opens the stream, which has this
    /// number of replicas. `options` has TLS, user, NKEY or credentials.
    ///
    /// # Errors
    /// [`StoreError::Own`] if no broker answers, if a broker is older than version 2.12 or reports
    /// that it does not sync every write, or if the stream does not exist. Also if the stream has
    /// settings with which it could lose messages: the number of replicas, storage, retention,
    /// limits.
    pub fn connect(
        brokers: &str,
        stream: &str,
        options: ConnectOptions,
        replicas: usize,
    ) -> Result<Self, StoreError> {
        Self::open(brokers, stream, options, (replicas, IfMissing::Refuse))
    }

    /// As [`JetStream::connect`], and creates the stream if it does not exist. Call this method
    /// once, before the first session: brokers that have lost a stream must not begin an empty one.
    ///
    /// # Errors
    /// As [`JetStream::connect`].
    pub fn create(
        brokers: &str,
        stream: &str,
        options: ConnectOptions,
        replicas: usize,
    ) -> Result<Self, StoreError> {
        Self::open(brokers, stream, options, (replicas, IfMissing::Create))
    }

    fn open(
        brokers: &str,
        stream: &str,
        options: ConnectOptions,
        (replicas, if_missing): (usize, IfMissing),
    ) -> Result<Self, StoreError> {
        let brokers = Brokers::connect(brokers, stream, options, (replicas, if_missing))?;
        Ok(Self(Arc::new(brokers)))
    }

    fn stream(&self) -> Arc<dyn Stream> {
        Arc::clone(&self.0) as _
    }
}

#[cfg(feature = "fleet")]
impl JetStream {
    pub(crate) fn name(&self) -> &str {
        self.0.name()
    }

    pub(crate) fn client(&self) -> &async_nats::Client {
        self.0.client()
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.runtime().block_on(future)
    }

    pub(crate) fn spawn(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> tokio::task::AbortHandle {
        self.0.runtime().spawn(task).abort_handle()
    }

    /// Returns the owner of the session with this name; 0 without an owner.
    pub(crate) fn owner(&self, name: &str) -> Result<u64, StoreError> {
        let Some(last) = self.0.last(&self.0.subject(name))? else { return Ok(0) };
        let stored = record::decode(name, last.place, &last.bytes);
        stored.map(|stored| stored.head.owner).map_err(|why| refused(format!("{name}: {why}")))
    }
}

impl fmt::Debug for JetStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JetStream").finish_non_exhaustive()
    }
}

impl JetStreamStore {
    /// Opens the store of the session with this name, and takes the session over. `now_ns`, in UTC
    /// nanoseconds since 1970, becomes `created_ns` of a new store.
    ///
    /// # Errors
    /// [`StoreError::Own`] if the brokers do not answer, or if the session's messages in the stream
    /// are damaged.
    pub fn open(brokers: &JetStream, name: &str, now_ns: u64) -> Result<Self, StoreError> {
        let mut session = Session::new(brokers.stream(), name, now_ns)?;
        let numbers = session.take(Taking::Over)?;
        Self::of(session, name, numbers)
    }

    /// Opens the store of a session for a gateway of a fleet, and takes nothing over.
    #[cfg(feature = "fleet")]
    pub(crate) fn in_fleet(
        gateway: &Arc<Gateway>,
        (id, role): (&SessionId, Role),
        now_ns: u64,
    ) -> Result<Self, StoreError> {
        let name = id.to_string();
        let mut session = Session::new(gateway.brokers.stream(), &name, now_ns)?;
        session.owner = gateway.run();
        session.delete_after_ns = u64::try_from(gateway.delete_after.as_nanos()).unwrap_or(0);
        session.gateway = Some(Arc::clone(gateway));
        gateway.add(id, role, &session.owns_since);
        // A session that cannot be read now must not keep the gateway from starting. The next logon
        // reads it again, and reports the fault.
        if session.read_last(0).is_err() {
            (session.last, session.queued) = (0, BTreeMap::new());
            session.head = Head::fresh(gateway.run(), now_ns);
        }
        let numbers = session.head.numbers;
        Self::of(session, &name, numbers)
    }

    /// Opens the store for reading, and leaves the session to the process that has it. The session
    /// is taken over by [`Store::refresh`](transfix_store::Store::refresh), which an engine calls
    /// at each logon of a session with `refresh_on_logon`. Before it, every commit is refused.
    ///
    /// # Errors
    /// As [`JetStreamStore::open`].
    pub fn stand_by(brokers: &JetStream, name: &str, now_ns: u64) -> Result<Self, StoreError> {
        let mut session = Session::new(brokers.stream(), name, now_ns)?;
        session.read_last(0)?;
        let numbers = session.head.numbers;
        Self::of(session, name, numbers)
    }
}

/// The brokers' side of a [`JetStreamStore`].
pub struct Session {
    brokers: Arc<dyn Stream>,
    name: String,
    subject: String,
    owner: u64,
    /// The place of the last record of the session.
    last: u64,
    /// The head of that record.
    head: Head,
    /// The places of the first records of the commits with the queued messages, by ticket.
    queued: BTreeMap<u64, u64>,
    /// The places of records that this process has written in the present run.
    places: Places,
    /// Age in nanoseconds beyond which messages are deleted; 0 means never.
    delete_after_ns: u64,
    /// The time of the last search for messages beyond this age.
    searched_ns: u64,
    /// Records that were read before.
    cache: RefCell<Cache>,
    /// The place of the record by which this process became the owner of the session; 0 if another
    /// process is the owner.
    owns_since: Arc<AtomicU64>,
    /// The gateway of a fleet that has this store.
    #[cfg(feature = "fleet")]
    gateway: Option<Arc<Gateway>>,
}

/// Records that were read before, by place. A record never changes, and names its predecessor, so
/// the cache knows which record follows a place.
#[derive(Default)]
struct Cache {
    records: BTreeMap<u64, Arc<Stored>>,
    bytes: usize,
}

impl Cache {
    /// Maximum length in bytes of the records together.
    const BYTES_MAX: usize = 256 << 10;

    fn put(&mut self, stored: Stored) -> Arc<Stored> {
        let stored = Arc::new(stored);
        if self.records.insert(stored.place, Arc::clone(&stored)).is_none() {
            self.bytes += stored.bytes;
        }
        while self.bytes > Self::BYTES_MAX
            && let Some((_, oldest)) = self.records.pop_first()
        {
            self.bytes -= oldest.bytes;
        }
        stored
    }

    /// Returns the first record at this place or behind it.
    fn next(&self, place: u64) -> Option<Arc<Stored>> {
        let (_, stored) = self.records.range(place..).next()?;
        (stored.head.previous < place).then(|| Arc::clone(stored))
    }
}

/// Places of commits, by the next outbound number after the commit: a short cut for searches.
#[derive(Default)]
struct Places(BTreeMap<u64, u64>);

impl Places {
    /// Maximum number of places. Beyond it every second place is forgotten.
    const MAX: usize = 1_024;

    fn add(&mut self, next_out: u64, place: u64) {
        self.0.entry(next_out).or_insert(place);
        if self.0.len() > Self::MAX {
            let mut keep = false;
            self.0.retain(|_, _| {
                keep = !keep;
                keep
            });
        }
    }

    /// Narrows a range of places in which the record with this outbound number is searched.
    fn around(&self, seq: u64, (first, last): (u64, u64)) -> (u64, u64) {
        let before = self.0.range(..=seq).next_back().map(|(_, place)| *place);
        let after = self.0.range(seq + 1..).next().map(|(_, place)| *place);
        let inside = |place: &u64| (first..=last).contains(place);
        let first = before.filter(inside).map_or(first, |place| place + 1);
        (first, after.filter(|place| (first..=last).contains(place)).unwrap_or(last))
    }
}

impl Session {
    fn new(brokers: Arc<dyn Stream>, name: &str, now_ns: u64) -> Result<Self, StoreError> {
        let owner = getrandom::u64().map_err(crate::failed)?;
        Ok(Self {
            subject: brokers.subject(name),
            brokers,
            name: name.to_owned(),
            owner,
            last: 0,
            head: Head::fresh(owner, now_ns),
            queued: BTreeMap::new(),
            places: Places::default(),
            delete_after_ns: 0,
            searched_ns: 0,
            cache: RefCell::default(),
            owns_since: Arc::default(),
            #[cfg(feature = "fleet")]
            gateway: None,
        })
    }

    fn is_owner(&self) -> bool {
        self.owns_since.load(Ordering::Acquire) > 0
    }

    /// Continues after the last record of the leader, if there is one. `known` is the place of a
    /// record that must exist.
    fn read_last(&mut self, known: u64) -> Result<(), StoreError> {
        let last = self.brokers.last(&self.subject)?;
        if last.as_ref().map_or(0, |last| last.place) < known {
            return Err(self.lost(known));
        }
        last.map_or(Ok(()), |last| self.adopt(&self.decoded(&last)?))
    }

    /// Continues after this record.
    fn adopt(&mut self, last: &Stored) -> Result<(), StoreError> {
        (self.last, self.head) = (last.place, last.head);
        self.queued.clear();
        self.places = Places::default();
        if self.head.queue > 0 {
            for (ticket, place, _) in runs::queue(self)? {
                self.queued.insert(ticket, place);
            }
        }
        Ok(())
    }

    /// Returns the first record of the session at this place of the stream or behind it.
    fn next(&self, place: u64) -> Result<Option<Arc<Stored>>, StoreError> {
        if let Some(known) = self.cache.borrow().next(place) {
            return Ok(Some(known));
        }
        Ok(self.ask_leader(place)?.map(|stored| self.cache.borrow_mut().put(stored)))
    }

    /// As [`Session::next`], without the cache.
    fn ask_leader(&self, place: u64) -> Result<Option<Stored>, StoreError> {
        let found = self.brokers.next(&self.subject, place)?;
        found.map(|message| self.decoded(&message)).transpose()
    }

    /// Returns up to `count` records from this place on. The result may end early.
    fn following(&self, place: u64, count: usize) -> Result<Vec<Stored>, StoreError> {
        let found = self.brokers.following(&self.subject, place, count)?;
        found.iter().map(|message| self.decoded(message)).collect()
    }

    fn decoded(&self, message: &Message) -> Result<Stored, StoreError> {
        let Message { place, bytes } = message;
        record::decode(&self.name, *place, bytes).map_err(|reason| {
            self.brokers.step_down(*place);
            let name = &self.name;
            refused(format!("{name}: the message at {place} of the stream is wrong: {reason}"))
        })
    }

    /// Returns the error for a record that must exist, but that the leader does not have. Asks for
    /// another leader, unless the owner of the session has deleted the record.
    fn lost(&self, place: u64) -> StoreError {
        if !self.is_owner()
            && let Ok(Some(last)) = self.brokers.last(&self.subject)
            && let Ok(last) = record::decode(&self.name, last.place, &last.bytes)
            && last.head.oldest > place
        {
            let name = &self.name;
            return refused(format!("{name}: the owner of the session has deleted old messages"));
        }
        self.brokers.step_down(place);
        refused(format!(
            "{}: the leader of the stream has lost the record at {place}; another broker was \
             asked to lead, and the next attempt asks it",
            self.name
        ))
    }

    /// Appends a record after the last one.
    fn append(&mut self, head: Head, changes: &Changes) -> Result<Appended, StoreError> {
        let bytes = record::encode(&self.name, &head, changes);
        let appended = self.brokers.append(&self.subject, self.last, bytes)?;
        if let Appended::At(place) = appended {
            self.last = place;
            self.head = head.at(place);
        }
        Ok(appended)
    }

    /// Returns the place of the oldest record that must exist at this time. [`HERE`] means that all
    /// present records are too old.
    ///
    /// The brokers are asked 24 times in the time that a message is kept. A message that they do
    /// not find is deleted later.
    fn oldest_at(&mut self, now_ns: u64) -> u64 {
        let age = self.delete_after_ns;
        if self.searched_ns == 0 {
            // A take-over is no time for a search.
            self.searched_ns = now_ns;
        }
        if age == 0 || self.last == 0 || now_ns < self.searched_ns.saturating_add(age / 24) {
            return self.head.oldest;
        }
        self.searched_ns = now_ns;
        let found = runs::first_since(self, now_ns.saturating_sub(age));
        found.map_or(self.head.oldest, |place| place.unwrap_or(HERE))
    }

    /// Returns the head of the record that completes a batch.
    fn head_after(&self, batch: &Batch) -> Head {
        let inbound = || {
            let range = (Direction::Inbound, 0)..=(Direction::Inbound, u64::MAX);
            batch.messages.range(range).map(|((_, seq), _)| *seq)
        };
        let time_ns = batch.time_ns.max(self.head.time_ns);
        let numbers = batch.numbers;
        let mut head = Head { reason: Reason::Commit, numbers, time_ns, ..self.head };
        let begins_run = batch.undoes() || inbound().any(|seq| seq < head.in_end);
        if begins_run {
            head.run = HERE;
            head.in_end = 0;
            head.run_out = match (batch.resets, batch.hides_from) {
                (true, _) => 0,
                (false, 0) => self.head.numbers.next_out,
                (false, from) => from,
            };
        }
        head.in_end = inbound().fold(head.in_end, |end, seq| end.max(seq + 1));
        head
    }
}

impl Server for Session {
    const PATIENCE: Duration = brokers::PATIENCE;

    /// The leader answers before the other replicas do. So a record that the leader has lost is
    /// noticed, whenever it was appended. If the leader does not answer and the replicas are
    /// behind, the leader refuses the record of the take-over.
    fn take(&mut self, taking: Taking) -> Result<Numbers, StoreError> {
        let mut known = self.last;
        for _ in 0..ATTEMPTS {
            let read = self.read_last(known);
            // The owner remains the owner meanwhile, so no other gateway takes its session.
            let is_own = self.last > 0 && self.head.owner == self.owner;
            if !is_own {
                self.owns_since.store(0, Ordering::Release);
            }
            read?;
            if taking == Taking::Again && !is_own {
                return Ok(self.head.numbers);
            }
            #[cfg(feature = "fleet")]
            if let Some(gateway) = &self.gateway {
                let owner = if self.last > 0 { self.head.owner } else { 0 };
                gateway.may_take(owner, &self.name)?;
            }
            known = self.brokers.newest(&self.subject)?;
            if known > self.last {
                continue;
            }
            let head = Head {
                reason: Reason::TakenOver,
                owner: self.owner,
                previous: self.last,
                parts: 0,
                ..self.head
            };
            #[cfg(feature = "fleet")]
            let previous = self.head.owner;
            if let Appended::At(place) = self.append(head, &Changes::default())? {
                self.owns_since.store(place, Ordering::Release);
                #[cfg(feature = "fleet")]
                if let Some(gateway) = &self.gateway {
                    gateway.tell_taken(previous, &self.name, place);
                }
                return Ok(self.head.numbers);
            }
        }
        let why = format!("{}: other processes take this session over again and again", self.name);
        Err(StoreError::Own(std::io::Error::other(why)))
    }

    fn write(&mut self, batch: &Batch) -> Result<Written, StoreError> {
        if !self.is_owner() {
            return Ok(Written::Nothing);
        }
        let before = self.head.oldest;
        let mut complete = self.head_after(batch);
        let parts = Changes::of(batch, self.brokers.bytes_max());
        let mut queued = self.queued.clone();
        queued.retain(|ticket, _| *ticket > batch.unqueued);
        let mut first = HERE;
        let oldest = self.oldest_at(complete.time_ns);
        for (at, changes) in parts.iter().enumerate() {
            let head = if at + 1 == parts.len() {
                let here = if changes.queued.is_empty() { None } else { Some(first) };
                complete.queue = queued.values().copied().min().or(here).unwrap_or(0);
                // Messages that are still queued survive a reset, and have no age.
                let queue = if complete.queue == 0 { HERE } else { complete.queue };
                let oldest = if batch.resets { HERE } else { oldest };
                complete.oldest = first.min(queue).min(oldest);
                Head { previous: self.last, parts: at as u32, ..complete }
            } else {
                let time_ns = complete.time_ns;
                let reason = Reason::Part;
                Head { reason, time_ns, previous: self.last, parts: 0, ..self.head }
            };
            match self.append(head, changes)? {
                Appended::At(place) => {
                    first = first.min(place);
                    queued.extend(changes.queued.keys().map(|ticket| (*ticket, first)));
                }
                Appended::Refused => {
                    self.owns_since.store(0, Ordering::Release);
                    return Ok(Written::Nothing);
                }
            }
        }
        self.queued = queued;
        if self.head.run == self.last {
            self.places = Places::default();
        }
        self.places.add(self.head.numbers.next_out, self.last);
        if self.head.oldest > before {
            // A failure leaves messages that nothing reads; the next deletion includes them.
            let _ = self.brokers.purge(&self.subject, self.head.oldest);
        }
        Ok(Written::Whole)
    }

    fn read_queue(&mut self, ticket: u64) -> Result<Vec<(u64, Kept)>, StoreError> {
        let queue = runs::queue(self)?.into_iter();
        Ok(queue.filter(|(at, ..)| *at >= ticket).map(|(at, _, kept)| (at, kept)).collect())
    }

    fn read(
        &mut self,
        direction: Direction,
        (begin, end): (u64, u64),
        limit: usize,
    ) -> Result<Vec<(u64, Kept)>, StoreError> {
        match direction {
            Direction::Outbound => runs::outbound(self, (begin, end), limit),
            Direction::Inbound => runs::inbound(self, begin),
        }
    }
}
