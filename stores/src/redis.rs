//! Redis: a few keys for each session, written by one script.

use std::fmt;

use redis::{Client, Commands, Connection, Script};
use transfix_store::{Kind, Numbers, Record, Store, StoreError, Stored};

use crate::batch::{Batch, Direction, Kept};
use crate::window::{AHEAD, Window};
use crate::{PATIENCE, failed, taken_over, unreadable};

const COMMIT: &str = include_str!("commit.lua");
/// Makes the session if it is missing, and takes it over if ARGV[2] says so.
const OPEN: &str = "\
    if redis.call('EXISTS', KEYS[1]) == 0 then
        redis.call('HSET', KEYS[1], 'writer', 0, 'next_in', 1, 'next_out', 1, 'created_ns', ARGV[1])
    end
    if ARGV[2] == '1' then
        redis.call('HINCRBY', KEYS[1], 'writer', 1)
    end
    return redis.call('HMGET', KEYS[1], 'writer', 'next_in', 'next_out', 'created_ns')";

/// Kind and time before a message's bytes.
const HEAD: usize = 17;
/// Numbers are scores of sorted sets, which are exact up to here.
const NUMBER_MAX: u64 = 1 << 53;

/// Keeps a session in Redis, version 5 or later.
///
/// The keys are `transfix:{NAME}`, a hash with the next numbers, and the same with `:out`, `:in`
/// and `:queue`, sorted sets of messages by number, and `:notes`, a list. The braces keep them
/// together in a cluster. A reset deletes the messages before it. MsgSeqNum(34) is at most 2^53
/// here.
///
/// How much a commit outlives is up to the server: with `appendfsync always` a power cut, else its
/// last second may be lost, and with no append-only file all since the last snapshot.
pub struct RedisStore {
    /// Where to connect again.
    client: Option<Client>,
    connection: Connection,
    commit: Script,
    open: Script,
    name: String,
    keys: [String; 5],
    writer: String,
    numbers: Numbers,
    batch: Batch,
    window: Window,
    /// What was read last, where it is not in the window.
    found: Option<(u64, Kept)>,
    poisoned: bool,
}

impl RedisStore {
    /// Opens the store of the session with this name; `url` as in `redis://host:6379/0` or
    /// `unix:///run/redis.sock`. `now_ns`, in UTC nanoseconds since 1970, becomes `created_ns` of a
    /// new store.
    ///
    /// # Errors
    /// [`StoreError::Own`] with what the server says.
    pub fn open(url: &str, name: &str, now_ns: u64) -> Result<Self, StoreError> {
        let client = Client::open(url).map_err(failed)?;
        let mut store = Self::over(connect(&client)?, name, now_ns)?;
        store.client = Some(client);
        Ok(store)
    }

    /// The same over a connection of your own, with TLS for instance; it serves this store alone.
    ///
    /// # Errors
    /// As [`RedisStore::open`].
    pub fn over(connection: Connection, name: &str, now_ns: u64) -> Result<Self, StoreError> {
        let key = |part: &str| format!("transfix:{{{name}}}{part}");
        let numbers = Numbers::fresh(now_ns);
        let mut store = Self {
            client: None,
            connection,
            commit: Script::new(COMMIT),
            open: Script::new(OPEN),
            name: name.to_owned(),
            keys: ["", ":out", ":in", ":queue", ":notes"].map(key),
            writer: String::new(),
            numbers,
            batch: Batch::new(numbers),
            window: Window::default(),
            found: None,
            poisoned: false,
        };
        store.take(Taking::Over, now_ns)?;
        Ok(store)
    }

    fn connect_again(&mut self) -> Result<(), StoreError> {
        // After an error an answer may still be under way.
        if let Some(client) = self.client.as_ref().filter(|_| self.poisoned) {
            self.connection = connect(client)?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.poisoned { Err(StoreError::Poisoned) } else { Ok(()) }
    }

    /// Goes on from what is there.
    fn take(&mut self, taking: Taking, now_ns: u64) -> Result<(), StoreError> {
        let mut call = self.open.prepare_invoke();
        call.key(&self.keys[0]).arg(now_ns).arg(u8::from(taking == Taking::Over));
        let row: (String, u64, u64, u64) = call.invoke(&mut self.connection).map_err(failed)?;
        let (writer, next_in, next_out, created_ns) = row;
        if taking == Taking::Over {
            self.writer = writer;
        }
        self.numbers = Numbers { next_in, next_out, created_ns };
        self.batch = Batch::new(self.numbers);
        self.window.forget();
        self.poisoned = false;
        Ok(())
    }

    /// Whether it was written; not if somebody else has taken the session over.
    fn write(&mut self) -> Result<bool, StoreError> {
        let Batch { numbers, messages, queued, notes, .. } = &self.batch;
        let Numbers { next_in, next_out, created_ns } = *numbers;
        let numbers_seen = messages.keys().map(|(_, seq)| *seq).chain(queued.keys().copied());
        if let Some(beyond) = numbers_seen.chain([next_in, next_out]).find(|n| *n > NUMBER_MAX) {
            let why = format!("{}: number {beyond} is above {NUMBER_MAX}", self.name);
            return Err(StoreError::Own(std::io::Error::other(why)));
        }
        let mut call = self.commit.prepare_invoke();
        for key in &self.keys {
            call.key(key);
        }
        call.arg(&self.writer).arg(next_in).arg(next_out).arg(created_ns);
        call.arg(u8::from(self.batch.resets)).arg(self.batch.hides_from).arg(self.batch.unqueued);
        for way in [Direction::Outbound, Direction::Inbound] {
            let of_way = || messages.iter().filter(|((direction, _), _)| *direction == way);
            call.arg(of_way().count());
            for ((_, seq), kept) in of_way() {
                call.arg(*seq).arg(packed(*seq, kept));
            }
        }
        call.arg(queued.len());
        for (ticket, kept) in queued {
            call.arg(*ticket).arg(packed(*ticket, kept));
        }
        call.arg(notes.len());
        for (time_ns, text) in notes {
            call.arg(format!("{time_ns} {text}"));
        }
        let done: u8 = call.invoke(&mut self.connection).map_err(failed)?;
        Ok(done == 1)
    }

    /// Messages with numbers from `begin` on, below `end`.
    fn read(
        &mut self,
        key: usize,
        (begin, end): (u64, u64),
        limit: usize,
    ) -> Result<Vec<(u64, Kept)>, StoreError> {
        let (key, limit) = (&self.keys[key], limit as isize);
        let end = if end > NUMBER_MAX { "+inf".to_owned() } else { format!("({end}") };
        let members: Vec<Vec<u8>> = self
            .connection
            .zrangebyscore_limit(key, begin.min(NUMBER_MAX), end, 0, limit)
            .map_err(failed)?;
        let all = members.iter().map(|member| unpacked(member));
        all.collect::<Option<_>>().ok_or_else(|| unreadable(&self.name, "a message"))
    }
}

impl Store for RedisStore {
    fn numbers(&self) -> Numbers {
        self.numbers
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        self.check()?;
        self.batch.add(now_ns, &record);
        Ok(())
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.check()?;
        if self.batch.is_empty() {
            return Ok(());
        }
        self.poisoned = true;
        if !self.write()? {
            return Err(taken_over(&self.name));
        }
        self.poisoned = false;
        if self.batch.undoes() {
            self.window.forget();
        }
        self.numbers = self.batch.numbers;
        self.batch = Batch::new(self.numbers);
        Ok(())
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.check()?;
        if seq >= self.numbers.next_out {
            return Ok(None);
        }
        if !self.window.covers(seq) {
            let end = self.numbers.next_out;
            let found = self.read(1, (seq, end), AHEAD)?;
            self.window.fill(seq, end, found);
        }
        Ok(self.window.find(seq).map(|kept| stored(seq, kept)))
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.check()?;
        self.found = self.read(2, (seq, seq.saturating_add(1)), 1)?.pop();
        Ok(self.found.as_ref().map(|(seq, kept)| stored(*seq, kept)))
    }

    fn queued(&mut self, ticket: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.check()?;
        self.found = self.read(3, (ticket, u64::MAX), 1)?.pop();
        Ok(self.found.as_ref().map(|(ticket, kept)| stored(*ticket, kept)))
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.connect_again()?;
        // Who has taken it over keeps it.
        self.take(Taking::Nothing, self.numbers.created_ns)
    }

    fn refresh(&mut self) -> Result<(), StoreError> {
        self.connect_again()?;
        self.take(Taking::Over, self.numbers.created_ns)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, numbers, poisoned, .. } = self;
        let mut debug = f.debug_struct("RedisStore");
        debug.field("name", name).field("numbers", numbers).field("poisoned", poisoned);
        debug.finish_non_exhaustive()
    }
}

/// Whether the session is taken from the process that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taking {
    Over,
    Nothing,
}

fn connect(client: &Client) -> Result<Connection, StoreError> {
    let connection = client.get_connection_with_timeout(PATIENCE).map_err(failed)?;
    connection.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    connection.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    Ok(connection)
}

fn stored(seq: u64, kept: &Kept) -> Stored<'_> {
    Stored { seq, kind: kept.kind, time_ns: kept.time_ns, bytes: &kept.bytes }
}

/// A member of a sorted set: number, time and kind before the bytes, so that no two are equal.
fn packed(seq: u64, kept: &Kept) -> Vec<u8> {
    let kind = match kept.kind {
        Kind::Admin => 0,
        Kind::Application => 1,
    };
    let mut member = Vec::with_capacity(HEAD + kept.bytes.len());
    member.extend_from_slice(&seq.to_be_bytes());
    member.extend_from_slice(&kept.time_ns.to_be_bytes());
    member.push(kind);
    member.extend_from_slice(&kept.bytes);
    member
}

fn unpacked(member: &[u8]) -> Option<(u64, Kept)> {
    let (seq, rest) = member.split_first_chunk()?;
    let (time_ns, rest) = rest.split_first_chunk()?;
    let (kind, bytes) = rest.split_first()?;
    let kind = match kind {
        0 => Kind::Admin,
        1 => Kind::Application,
        _ => return None,
    };
    let time_ns = u64::from_be_bytes(*time_ns);
    Some((u64::from_be_bytes(*seq), Kept { kind, time_ns, bytes: bytes.to_vec() }))
}
