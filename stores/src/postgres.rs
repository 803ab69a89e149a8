//! PostgreSQL: the tables and a function, which are created if they are missing.

use postgres::{Client, Config, NoTls, Row, Statement};
use transfix_store::{Kind, Numbers, StoreError};

use crate::batch::{Batch, Direction, Kept};
use crate::database::{DatabaseStore, Server, Taking, Written};
use crate::{PATIENCE, failed, unreadable};

const SCHEMA: &str = include_str!("schema.sql");
/// The number of the advisory lock under which one process at a time creates the tables.
const SCHEMA_LOCK: i64 = 0x0054_5241_4E53_4658;

const OPEN: &str = "\
    INSERT INTO transfix_session (name, next_in, next_out, created_ns) VALUES ($1, 1, 1, $2)
    ON CONFLICT (name) DO UPDATE SET writer = transfix_session.writer + 1
    RETURNING id, writer, generation, next_in, next_out, created_ns";
const TAKE_OVER: &str = "\
    UPDATE transfix_session SET writer = writer + 1 WHERE id = $1
    RETURNING id, writer, generation, next_in, next_out, created_ns";
const TAKE_AGAIN: &str = "\
    UPDATE transfix_session SET writer = writer + 1 WHERE id = $1 AND writer = $2
    RETURNING id, writer, generation, next_in, next_out, created_ns";
const READ_SESSION: &str = "\
    SELECT id, writer, generation, next_in, next_out, created_ns FROM transfix_session
    WHERE id = $1";
/// A query that tells whether the whole schema exists; if it does, the user needs no permission to
/// create it.
const IS_MADE: &str = "\
    SELECT to_regproc('transfix_commit') IS NOT NULL AND to_regclass('transfix_session') IS NOT NULL
    AND to_regclass('transfix_message') IS NOT NULL AND to_regclass('transfix_queue') IS NOT NULL
    AND to_regclass('transfix_note') IS NOT NULL";
const COMMIT: &str = "SELECT transfix_commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, \
                      $13, $14, $15, $16, $17, $18)";
const READ: &str = "\
    SELECT seq, kind, time_ns, bytes FROM transfix_message
    WHERE session = $1 AND generation = $2 AND direction = $3 AND seq >= $4 AND seq < $5
    ORDER BY seq LIMIT $6";
const READ_QUEUE: &str = "\
    SELECT ticket, 1::smallint, time_ns, bytes FROM transfix_queue
    WHERE session = $1 AND ticket >= $2 ORDER BY ticket";

/// The store of a session in a PostgreSQL database, version 11 or later.
///
/// `open` creates missing tables `transfix_session`, `transfix_message`, `transfix_queue` and
/// `transfix_note` in the connection's schema, and needs the right to do so once. Later it needs
/// SELECT, INSERT, UPDATE and DELETE on them. Messages from before a reset stay under their old
/// generation. Nothing reads these messages, so they may be deleted. MsgSeqNum(34) is at most 2^63
/// - 1 here.
pub type PostgresStore = DatabaseStore<Postgres>;

/// The connection of a [`PostgresStore`] to its server.
pub struct Postgres {
    /// The configuration for reconnecting; `None` for a connection that the caller has opened.
    config: Option<Config>,
    client: Client,
    statements: Statements,
    name: String,
    id: i64,
    writer: i64,
    generation: i64,
}

impl PostgresStore {
    /// Opens the store of the session `name` over a connection without TLS. `config` is a text such
    /// as `host=db user=fix dbname=fix` or `postgresql://fix@db/fix`. `now_ns`, in UTC nanoseconds
    /// since 1970, becomes `created_ns` of a new store.
    ///
    /// # Errors
    /// [`StoreError::Own`] with the server's message.
    pub fn open(config: &str, name: &str, now_ns: u64) -> Result<Self, StoreError> {
        let config = limited(config.parse().map_err(failed)?);
        let client = connect(&config)?;
        Self::open_over((client, Some(config)), name, now_ns)
    }

    /// Opens the store over a connection of the caller, for instance with TLS. The connection must
    /// serve only this store.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    pub fn over(client: Client, name: &str, now_ns: u64) -> Result<Self, StoreError> {
        Self::open_over((client, None), name, now_ns)
    }

    fn open_over(
        (mut client, config): (Client, Option<Config>),
        name: &str,
        now_ns: u64,
    ) -> Result<Self, StoreError> {
        let is_made: bool = client.query_one(IS_MADE, &[]).map_err(failed)?.get(0);
        if !is_made {
            let mut making = client.transaction().map_err(failed)?;
            making.execute("SELECT pg_advisory_xact_lock($1)", &[&SCHEMA_LOCK]).map_err(failed)?;
            making.batch_execute(SCHEMA).map_err(failed)?;
            making.commit().map_err(failed)?;
        }
        let statements = Statements::of(&mut client)?;
        let row = client.query_one(OPEN, &[&name, &signed(now_ns)?]).map_err(failed)?;
        let session = Session::of(&row, name)?;
        let server = Postgres {
            config,
            client,
            statements,
            name: name.to_owned(),
            id: session.id,
            writer: session.writer,
            generation: session.generation,
        };
        Self::of(server, name, session.numbers)
    }
}

impl Server for Postgres {
    fn take(&mut self, taking: Taking) -> Result<Numbers, StoreError> {
        let mut was_cut = self.client.is_closed();
        let taken = loop {
            if was_cut && let Some(config) = &self.config {
                self.client = connect(config)?;
                self.statements = Statements::of(&mut self.client)?;
            }
            let taken = match taking {
                Taking::Over => self.client.query_opt(TAKE_OVER, &[&self.id]),
                Taking::Again => self.client.query_opt(TAKE_AGAIN, &[&self.id, &self.writer]),
            };
            match taken {
                // A broken connection may be noticed only when it is next used.
                Err(error) if error.code().is_none() && !was_cut && self.config.is_some() => {
                    was_cut = true;
                }
                taken => break taken.map_err(failed)?,
            }
        };
        let is_ours = taken.is_some();
        let row = match taken {
            Some(row) => row,
            None => self.client.query_one(READ_SESSION, &[&self.id]).map_err(failed)?,
        };
        let session = Session::of(&row, &self.name)?;
        if is_ours {
            self.writer = session.writer;
        }
        self.generation = session.generation;
        Ok(session.numbers)
    }

    fn read_queue(&mut self, ticket: u64) -> Result<Vec<(u64, Kept)>, StoreError> {
        let rows = self.client.query(&self.statements.read_queue, &[&self.id, &signed(ticket)?]);
        rows.map_err(failed)?.iter().map(|row| kept_of(row, &self.name)).collect()
    }

    fn write(&mut self, batch: &Batch) -> Result<Written, StoreError> {
        let Batch { numbers, messages, queued, notes, .. } = batch;
        let directions: Vec<i16> = messages.keys().map(|(way, _)| way_of(*way)).collect();
        let seqs = messages.keys().map(|(_, seq)| signed(*seq)).collect::<Result<Vec<_>, _>>()?;
        let kinds: Vec<i16> = messages.values().map(|kept| kind_of(kept.kind)).collect();
        let times = times(messages.values().map(|kept| kept.time_ns))?;
        let bytes: Vec<&[u8]> = messages.values().map(|kept| &kept.bytes[..]).collect();
        let tickets = queued.keys().map(|ticket| signed(*ticket)).collect::<Result<Vec<_>, _>>()?;
        let queued_times = self::times(queued.values().map(|kept| kept.time_ns))?;
        let queued_bytes: Vec<&[u8]> = queued.values().map(|kept| &kept.bytes[..]).collect();
        let note_times = self::times(notes.iter().map(|(time_ns, _)| *time_ns))?;
        let texts: Vec<&str> = notes.iter().map(|(_, text)| &text[..]).collect();
        let row = self.client.query_one(
            &self.statements.commit,
            &[
                &self.id,
                &self.writer,
                &signed(numbers.next_in)?,
                &signed(numbers.next_out)?,
                &signed(numbers.created_ns)?,
                &batch.resets,
                &signed(batch.hides_from)?,
                &directions,
                &seqs,
                &kinds,
                &times,
                &bytes,
                &signed(batch.unqueued)?,
                &tickets,
                &queued_times,
                &queued_bytes,
                &note_times,
                &texts,
            ],
        );
        match row.map_err(failed)?.get(0) {
            Some(generation) => {
                self.generation = generation;
                Ok(Written::Whole)
            }
            None => Ok(Written::Nothing),
        }
    }

    fn read(
        &mut self,
        way: Direction,
        (begin, end): (u64, u64),
        limit: usize,
    ) -> Result<Vec<(u64, Kept)>, StoreError> {
        let (id, generation, limit) = (self.id, self.generation, limit as i64);
        let (Ok(begin), end) = (i64::try_from(begin), i64::try_from(end).unwrap_or(i64::MAX))
        else {
            return Ok(Vec::new());
        };
        let rows = self
            .client
            .query(&self.statements.read, &[&id, &generation, &way_of(way), &begin, &end, &limit])
            .map_err(failed)?;
        rows.iter().map(|row| kept_of(row, &self.name)).collect()
    }
}

/// Returns the configuration, with time limits added where it has none.
fn limited(mut config: Config) -> Config {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(PATIENCE);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(PATIENCE);
    }
    if config.get_options().is_none() {
        config.options(&format!("-c statement_timeout={}", PATIENCE.as_millis()));
    }
    config
}

fn connect(config: &Config) -> Result<Client, StoreError> {
    config.connect(NoTls).map_err(failed)
}

/// The prepared statements of a connection.
struct Statements {
    commit: Statement,
    read: Statement,
    read_queue: Statement,
}

impl Statements {
    fn of(client: &mut Client) -> Result<Self, StoreError> {
        let mut prepare = |sql| client.prepare(sql).map_err(failed);
        let (commit, read) = (prepare(COMMIT)?, prepare(READ)?);
        Ok(Self { commit, read, read_queue: prepare(READ_QUEUE)? })
    }
}

/// The row of a session in the table `transfix_session`.
struct Session {
    id: i64,
    writer: i64,
    generation: i64,
    numbers: Numbers,
}

impl Session {
    fn of(row: &Row, name: &str) -> Result<Self, StoreError> {
        let number = |at| {
            u64::try_from(row.get::<_, i64>(at)).map_err(|_| unreadable(name, "transfix_session"))
        };
        Ok(Self {
            id: row.get(0),
            writer: row.get(1),
            generation: row.get(2),
            numbers: Numbers { next_in: number(3)?, next_out: number(4)?, created_ns: number(5)? },
        })
    }
}

fn kept_of(row: &Row, name: &str) -> Result<(u64, Kept), StoreError> {
    let number =
        |at| u64::try_from(row.get::<_, i64>(at)).map_err(|_| unreadable(name, "a message"));
    let kind = match row.get::<_, i16>(1) {
        0 => Kind::Admin,
        1 => Kind::Application,
        _ => return Err(unreadable(name, "the kind of a message")),
    };
    Ok((number(0)?, Kept { kind, time_ns: number(2)?, bytes: row.get(3) }))
}

const fn way_of(direction: Direction) -> i16 {
    match direction {
        Direction::Outbound => 0,
        Direction::Inbound => 1,
    }
}

const fn kind_of(kind: Kind) -> i16 {
    match kind {
        Kind::Admin => 0,
        Kind::Application => 1,
    }
}

fn times(all: impl Iterator<Item = u64>) -> Result<Vec<i64>, StoreError> {
    all.map(signed).collect()
}

/// Returns the number as a signed integer, because the server's integers are signed.
fn signed(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(failed)
}
