//! PostgreSQL: the tables and a function, which are created if they are missing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postgres::config::TargetSessionAttrs;
use postgres::types::ToSql;
use postgres::{Client, Config, Error, NoTls, Row, Statement};
use transfix_store::{Kind, Numbers, StoreError};

use crate::batch::{Batch, Direction, Kept};
use crate::database::{DatabaseStore, Server, Taking, Written};
use crate::tokens::Tokens;
use crate::{PATIENCE, failed, unreadable};

const SCHEMA: &str = include_str!("schema.sql");
/// The number of the advisory lock under which one process at a time creates the tables.
const SCHEMA_LOCK: i64 = 0x0054_5241_4E53_4658;

const FIND: &str = "SELECT id FROM transfix_session WHERE name = $1";
/// Creates a session that no process owns: no token is 0.
const CREATE: &str = "\
    INSERT INTO transfix_session (name, writer, next_in, next_out, created_ns)
    VALUES ($1, 0, 1, 1, $2) ON CONFLICT (name) DO NOTHING";
const TAKE_OVER: &str = "\
    UPDATE transfix_session SET writer = $2 WHERE id = $1
    RETURNING generation, next_in, next_out, created_ns";
const TAKE_AGAIN: &str = "\
    UPDATE transfix_session SET writer = $2 WHERE id = $1 AND writer IN ($2, $3)
    RETURNING generation, next_in, next_out, created_ns";
const READ_SESSION: &str = "\
    SELECT generation, next_in, next_out, created_ns FROM transfix_session WHERE id = $1";
/// Reads whether the connection demands a synchronous standby, and the settings of the server that
/// make a commit wait for one.
const STANDBY: &str = "\
    SELECT coalesce(nullif(current_setting('transfix.require_standby', true), ''), 'off')::boolean,
    current_setting('synchronous_standby_names'), current_setting('synchronous_commit')";
/// The function of PostgreSQL that waits for a synchronous standby.
const WAIT_FOR_STANDBY: &str = "SyncRepWaitForLSN";
/// The value of `keepalives_idle` in a configuration that does not set it.
const KEEPALIVES_IDLE_DEFAULT: Duration = Duration::from_secs(2 * 60 * 60);
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
///
/// **A synchronous standby.** `host=a,b` names a primary and its standby; the store connects to the
/// host that accepts writes. If `synchronous_standby_names` of the server names the standby, a
/// commit is acknowledged when both servers have it. If the server stops waiting for the standby,
/// the commit fails. With `options='-c transfix.require_standby=on'`, a server is refused whose
/// settings do not make commits wait for a standby.
pub type PostgresStore = DatabaseStore<Postgres>;

/// The connection of a [`PostgresStore`] to its server.
pub struct Postgres {
    connection: Connection,
    name: String,
    id: i64,
    tokens: Tokens,
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
        Self::open_with(config, without_tls, name, now_ns)
    }

    /// Opens the store for reading, and leaves the session to the process that has it. The session
    /// is taken over by [`Store::refresh`](transfix_store::Store::refresh), which an engine calls
    /// at each logon of a session with `refresh_on_logon`. Before it, every commit is refused.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    pub fn stand_by(config: &str, name: &str, now_ns: u64) -> Result<Self, StoreError> {
        Self::stand_by_with(config, without_tls, name, now_ns)
    }

    /// Opens the store as [`PostgresStore::open`] does, over connections that `connect` makes, for
    /// instance with TLS.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    ///
    /// ```no_run
    /// # use {postgres::NoTls as Tls, transfix_stores::PostgresStore};
    /// # let tls = Tls;
    /// // `tls` is a connector of `postgres-native-tls` or `tokio-postgres-rustls`.
    /// let connect = move |config: &postgres::Config| config.connect(tls.clone());
    /// let store = PostgresStore::open_with("host=a,b user=fix", connect, "VENUE", 0)?;
    /// # Ok::<(), transfix_store::StoreError>(())
    /// ```
    pub fn open_with(
        config: &str,
        connect: impl Fn(&Config) -> Result<Client, Error> + Send + 'static,
        name: &str,
        now_ns: u64,
    ) -> Result<Self, StoreError> {
        let server = Postgres::new(Connection::open(config, connect)?, name, now_ns)?;
        Self::opened(server, name, Taking::Over)
    }

    /// Opens the store as [`PostgresStore::stand_by`] does, over connections that `connect` makes.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    pub fn stand_by_with(
        config: &str,
        connect: impl Fn(&Config) -> Result<Client, Error> + Send + 'static,
        name: &str,
        now_ns: u64,
    ) -> Result<Self, StoreError> {
        let server = Postgres::new(Connection::open(config, connect)?, name, now_ns)?;
        Self::opened(server, name, Taking::Again)
    }
}

fn without_tls(config: &Config) -> Result<Client, Error> {
    config.connect(NoTls)
}

impl Postgres {
    fn new(mut connection: Connection, name: &str, now_ns: u64) -> Result<Self, StoreError> {
        let found = connection.ask(|client, _| client.query_opt(FIND, &[&name]))?;
        let row = match found {
            Some(row) => row,
            None => {
                let created_ns = signed(now_ns)?;
                connection.ask(|client, _| client.execute(CREATE, &[&name, &created_ns]))?;
                connection.ask(|client, _| client.query_one(FIND, &[&name]))?
            }
        };
        let (name, tokens) = (name.to_owned(), Tokens::new()?);
        Ok(Self { connection, name, id: row.get(0), tokens, generation: 0 })
    }

    fn try_take(&mut self, taking: Taking) -> Result<Numbers, StoreError> {
        let (id, Tokens { own, next }) = (self.id, self.tokens);
        let taken = self.connection.ask(|client, _| match taking {
            Taking::Over => client.query_opt(TAKE_OVER, &[&id, &next]),
            Taking::Again => client.query_opt(TAKE_AGAIN, &[&id, &next, &own]),
        })?;
        let is_ours = taken.is_some();
        let row = match taken {
            Some(row) => row,
            None => self.connection.ask(|client, _| client.query_one(READ_SESSION, &[&id]))?,
        };
        if is_ours {
            self.tokens = self.tokens.taken()?;
        }
        self.generation = row.get(0);
        let number = |at| {
            let number = u64::try_from(row.get::<_, i64>(at));
            number.map_err(|_| unreadable(&self.name, "transfix_session"))
        };
        Ok(Numbers { next_in: number(1)?, next_out: number(2)?, created_ns: number(3)? })
    }
}

impl Server for Postgres {
    fn take(&mut self, taking: Taking) -> Result<Numbers, StoreError> {
        // A broken connection may be noticed only when it is next used.
        if !self.connection.is_cut
            && let Ok(numbers) = self.try_take(taking)
        {
            return Ok(numbers);
        }
        self.connection.connect()?;
        self.try_take(taking)
    }

    fn read_queue(&mut self, ticket: u64) -> Result<Vec<(u64, Kept)>, StoreError> {
        let ticket = signed(ticket)?;
        let rows = self
            .connection
            .ask(|client, statements| client.query(&statements.read_queue, &[&self.id, &ticket]))?;
        rows.iter().map(|row| kept_of(row, &self.name)).collect()
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
        let next_in = signed(numbers.next_in)?;
        let next_out = signed(numbers.next_out)?;
        let created_ns = signed(numbers.created_ns)?;
        let (hides_from, unqueued) = (signed(batch.hides_from)?, signed(batch.unqueued)?);
        let values: [&(dyn ToSql + Sync); 18] = [
            &self.id,
            &self.tokens.own,
            &next_in,
            &next_out,
            &created_ns,
            &batch.resets,
            &hides_from,
            &directions,
            &seqs,
            &kinds,
            &times,
            &bytes,
            &unqueued,
            &tickets,
            &queued_times,
            &queued_bytes,
            &note_times,
            &texts,
        ];
        let row = self
            .connection
            .ask(|client, statements| client.query_one(&statements.commit, &values))?;
        match row.get(0) {
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
        let rows = self.connection.ask(|client, statements| {
            let values: [&(dyn ToSql + Sync); 6] =
                [&id, &generation, &way_of(way), &begin, &end, &limit];
            client.query(&statements.read, &values)
        })?;
        rows.iter().map(|row| kept_of(row, &self.name)).collect()
    }
}

type Connect = dyn Fn(&Config) -> Result<Client, Error> + Send;

/// A connection that is made again after a failure.
struct Connection {
    config: Config,
    connect: Box<Connect>,
    client: Client,
    statements: Statements,
    /// True if the last request failed, so that the connection is not used further.
    is_cut: bool,
    /// True if the server has committed the last request, but has stopped waiting for its
    /// synchronous standby.
    is_local: Arc<AtomicBool>,
}

impl Connection {
    fn open(
        config: &str,
        connect: impl Fn(&Config) -> Result<Client, Error> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let mut config = completed(config.parse().map_err(failed)?);
        let is_local = Arc::new(AtomicBool::new(false));
        let noticed = Arc::clone(&is_local);
        // This notice comes before the answer of a commit whose wait was cancelled.
        config.notice_callback(move |notice| {
            if notice.routine() == Some(WAIT_FOR_STANDBY) {
                noticed.store(true, Ordering::Relaxed);
            }
        });
        let mut client = connect(&config).map_err(failed)?;
        let statements = prepare(&mut client)?;
        let connect = Box::new(connect);
        Ok(Self { config, connect, client, statements, is_cut: false, is_local })
    }

    fn connect(&mut self) -> Result<(), StoreError> {
        self.client = (self.connect)(&self.config).map_err(failed)?;
        self.statements = prepare(&mut self.client)?;
        self.is_cut = false;
        Ok(())
    }

    /// Sends a request and waits for the answer, which comes after the commit.
    fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut Client, &Statements) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        self.is_cut = true;
        self.is_local.store(false, Ordering::Relaxed);
        let answer = ask(&mut self.client, &self.statements).map_err(failed)?;
        if self.is_local.load(Ordering::Relaxed) {
            let why = "the wait for the synchronous standby was cancelled, so the standby may not \
                       have the commit";
            return Err(StoreError::Own(io::Error::other(why)));
        }
        self.is_cut = false;
        Ok(answer)
    }
}

/// Returns the configuration, with time limits added where it has none.
fn completed(mut config: Config) -> Config {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(PATIENCE);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(PATIENCE);
    }
    // A server that is lost while a commit waits has acknowledged all packets, so only keepalives
    // detect the loss.
    if config.get_keepalives_idle() == KEEPALIVES_IDLE_DEFAULT {
        config.keepalives_idle(PATIENCE);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(Duration::from_secs(1));
    }
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    // A later option overrides an earlier one.
    let options = config.get_options().unwrap_or_default();
    let options = format!(
        "-c statement_timeout={} {options} -c client_min_messages=warning",
        PATIENCE.as_millis()
    );
    config.options(&options);
    config
}

/// Checks the server, creates missing tables, and prepares the statements.
fn prepare(client: &mut Client) -> Result<Statements, StoreError> {
    let row = client.query_one(STANDBY, &[]).map_err(failed)?;
    let (is_required, names, commit): (bool, &str, &str) = (row.get(0), row.get(1), row.get(2));
    if is_required && (names.trim().is_empty() || !["on", "remote_apply"].contains(&commit)) {
        let why = format!(
            "transfix.require_standby is on, but commits do not wait for a standby: \
             synchronous_standby_names = '{names}' (it must name the standby), \
             synchronous_commit = '{commit}' (it must be on or remote_apply)"
        );
        return Err(StoreError::Own(io::Error::other(why)));
    }
    let is_made: bool = client.query_one(IS_MADE, &[]).map_err(failed)?.get(0);
    if !is_made {
        let mut making = client.transaction().map_err(failed)?;
        making.execute("SELECT pg_advisory_xact_lock($1)", &[&SCHEMA_LOCK]).map_err(failed)?;
        making.batch_execute(SCHEMA).map_err(failed)?;
        making.commit().map_err(failed)?;
    }
    Statements::of(client)
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
