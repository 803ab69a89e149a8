//! Redis: a few keys for each session, written by one script.

use redis::{Client, Commands, Connection, Script};
use transfix_store::{Kind, Numbers, StoreError};

use crate::batch::{Batch, Direction, Kept};
use crate::database::{DatabaseStore, Server, Taking, Written};
use crate::tokens::Tokens;
use crate::{PATIENCE, failed, unreadable};

const COMMIT: &str = include_str!("commit.lua");
/// Creates a missing session, and takes the session over with the token ARGV[2]. If ARGV[3] is not
/// empty, the session is taken over only if one of these tokens owns it. The last element of the
/// result is 1 if the session was taken over.
const OPEN: &str = "\
    if redis.call('EXISTS', KEYS[1]) == 0 then
        redis.call('HSET', KEYS[1], 'writer', 0, 'next_in', 1, 'next_out', 1, 'created_ns', ARGV[1])
    end
    local writer = redis.call('HGET', KEYS[1], 'writer')
    local takes = ARGV[3] == '' or ARGV[2] == writer or ARGV[3] == writer
    if takes then
        redis.call('HSET', KEYS[1], 'writer', ARGV[2])
    end
    local row = redis.call('HMGET', KEYS[1], 'next_in', 'next_out', 'created_ns')
    row[4] = takes and 1 or 0
    return row";

/// Length in bytes of the kind and the time, which precede a message's bytes.
const HEAD: usize = 17;
/// The highest sequence number. Numbers are scores of sorted sets, which are exact only up to this
/// limit.
const NUMBER_MAX: u64 = 1 << 53;

/// The store of a session in Redis, version 5 or later.
///
/// The key `transfix:{NAME}` is a hash with the next numbers. The same key with `:out`, `:in` and
/// `:queue` appended is a sorted set of messages by number, and with `:notes` a list. The braces
/// keep the keys of a session together in a cluster. A reset deletes all earlier messages.
/// MsgSeqNum(34) is at most 2^53 here.
///
/// The server determines which failures a commit survives. With `appendfsync always`, a commit
/// survives a power failure. Otherwise the last second may be lost, and without an append-only file
/// everything since the last snapshot.
pub type RedisStore = DatabaseStore<Redis>;

/// The connection of a [`RedisStore`] to its server.
pub struct Redis {
    /// The client for reconnecting; `None` for a connection that the caller has opened.
    client: Option<Client>,
    connection: Connection,
    /// True if the answer to an interrupted request may still arrive, so that the connection cannot
    /// be used further.
    is_cut: bool,
    commit: Script,
    open: Script,
    name: String,
    keys: [String; 5],
    tokens: Tokens,
    opened_ns: u64,
}

impl RedisStore {
    /// Opens the store of the session `name`. `url` is a text such as `redis://host:6379/0` or
    /// `unix:///run/redis.sock`. `now_ns`, in UTC nanoseconds since 1970, becomes `created_ns` of a
    /// new store.
    ///
    /// # Errors
    /// [`StoreError::Own`] with the server's message.
    pub fn open(url: &str, name: &str, now_ns: u64) -> Result<Self, StoreError> {
        Self::opened(Redis::connect(url, name, now_ns)?, name, Taking::Over)
    }

    /// Opens the store for reading, and leaves the session to the process that has it. The session
    /// is taken over by [`Store::refresh`](transfix_store::Store::refresh), which an engine calls
    /// at each logon of a session with `refresh_on_logon`. Before it, every commit is refused.
    ///
    /// # Errors
    /// As [`RedisStore::open`].
    pub fn stand_by(url: &str, name: &str, now_ns: u64) -> Result<Self, StoreError> {
        Self::opened(Redis::connect(url, name, now_ns)?, name, Taking::Again)
    }

    /// Opens the store over a connection of the caller, for instance with TLS. The connection must
    /// serve only this store.
    ///
    /// # Errors
    /// As [`RedisStore::open`].
    pub fn over(connection: Connection, name: &str, now_ns: u64) -> Result<Self, StoreError> {
        Self::opened(Redis::new((connection, None), name, now_ns)?, name, Taking::Over)
    }
}

impl Redis {
    fn connect(url: &str, name: &str, now_ns: u64) -> Result<Self, StoreError> {
        let client = Client::open(url).map_err(failed)?;
        Self::new((connect(&client)?, Some(client)), name, now_ns)
    }

    fn new(
        (connection, client): (Connection, Option<Client>),
        name: &str,
        now_ns: u64,
    ) -> Result<Self, StoreError> {
        let key = |part: &str| format!("transfix:{{{name}}}{part}");
        Ok(Self {
            client,
            connection,
            is_cut: false,
            commit: Script::new(COMMIT),
            open: Script::new(OPEN),
            name: name.to_owned(),
            keys: ["", ":out", ":in", ":queue", ":notes"].map(key),
            tokens: Tokens::new()?,
            opened_ns: now_ns,
        })
    }

    /// Reads the members of a sorted set whose scores are from `begin` to `end`.
    fn members(
        &mut self,
        key: usize,
        (begin, end): (u64, String),
        limit: usize,
    ) -> Result<Vec<(u64, Kept)>, StoreError> {
        let key = &self.keys[key];
        let begin = begin.min(NUMBER_MAX);
        let members = self.connection.zrangebyscore_limit(key, begin, end, 0, limit as isize);
        let members: Vec<Vec<u8>> = members.inspect_err(|_| self.is_cut = true).map_err(failed)?;
        let all = members.iter().map(|member| unpacked(member));
        all.collect::<Option<_>>().ok_or_else(|| unreadable(&self.name, "a message"))
    }
}

impl Server for Redis {
    fn take(&mut self, taking: Taking) -> Result<Numbers, StoreError> {
        if let Some(client) = self.client.as_ref().filter(|_| self.is_cut) {
            self.connection = connect(client)?;
        }
        self.is_cut = true;
        let mut call = self.open.prepare_invoke();
        call.key(&self.keys[0]).arg(self.opened_ns).arg(self.tokens.next);
        match taking {
            Taking::Over => call.arg(""),
            Taking::Again => call.arg(self.tokens.own),
        };
        let row: (u64, u64, u64, u8) = call.invoke(&mut self.connection).map_err(failed)?;
        let (next_in, next_out, created_ns, is_ours) = row;
        if is_ours == 1 {
            self.tokens = self.tokens.taken()?;
        }
        self.is_cut = false;
        Ok(Numbers { next_in, next_out, created_ns })
    }

    fn read_queue(&mut self, ticket: u64) -> Result<Vec<(u64, Kept)>, StoreError> {
        self.members(3, (ticket, "+inf".to_owned()), isize::MAX as usize)
    }

    fn read(
        &mut self,
        way: Direction,
        (begin, end): (u64, u64),
        limit: usize,
    ) -> Result<Vec<(u64, Kept)>, StoreError> {
        let key = match way {
            Direction::Outbound => 1,
            Direction::Inbound => 2,
        };
        self.members(key, (begin, format!("({}", end.min(NUMBER_MAX + 1))), limit)
    }

    fn write(&mut self, batch: &Batch) -> Result<Written, StoreError> {
        let Batch { numbers, messages, queued, notes, .. } = batch;
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
        call.arg(self.tokens.own).arg(next_in).arg(next_out).arg(created_ns);
        call.arg(u8::from(batch.resets)).arg(batch.hides_from).arg(batch.unqueued);
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
        self.is_cut = true;
        let done: u8 = call.invoke(&mut self.connection).map_err(failed)?;
        self.is_cut = false;
        Ok(if done == 1 { Written::Whole } else { Written::Nothing })
    }
}

fn connect(client: &Client) -> Result<Connection, StoreError> {
    let connection = client.get_connection_with_timeout(PATIENCE).map_err(failed)?;
    connection.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    connection.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    Ok(connection)
}

/// Returns a member for a sorted set: number, time and kind before the message's bytes, so that
/// members are unique.
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
