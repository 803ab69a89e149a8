//! Stores of FIX sessions in a database or in a replicated stream: [`PostgresStore`],
//! [`RedisStore`] and [`JetStreamStore`], each behind a Cargo feature. They behave like every other
//! [`Store`](transfix_store::Store).
//!
//! Each turn of a session makes one commit, which a thread of the store executes as one
//! transaction. Turns during a transaction are combined into the next one. The bytes of a turn are
//! sent when its transaction is complete, so every answer includes the latency of the server. The
//! server determines which failures a commit survives. PostgreSQL with `synchronous_commit = on`
//! survives a power failure, and with a synchronous standby the loss of a machine. In Redis,
//! `appendfsync` determines this; NATS needs `sync_interval: always`.
//!
//! **One writer.** Opening a session's store takes the store over from the process that used it.
//! That process is refused at its next commit, and ends its session with the counterparty; it has
//! sent only stored messages. Its session becomes a standby. With `refresh_on_logon`, a standby
//! only reads until a counterparty logs on to it; then it takes the store over, with the numbers of
//! the other process. Without `refresh_on_logon`, each commit of the standby is refused until a
//! restart.
//!
//! **A server that does not answer** delays only its own session, not other sessions of the same
//! thread. Messages are sent only after they are stored. A ResendRequest(2), or a logon with
//! `refresh_on_logon`, waits for the server's answer. After 5 s the session ends, and it recovers
//! automatically when the server is back. `open` sets a timeout of 5 s for connecting and for each
//! commit, unless its first argument sets another. NATS may take 12 s for a commit or a read,
//! because the brokers may have to elect a leader. PostgreSQL waits for a missing synchronous
//! standby without a limit. When the engine stops, a store waits up to 5 s (NATS: 12 s) until its
//! commits are stored.
//!
//! ```no_run
//! # use transfix::{Application, Engine, Settings, SessionId};
//! # fn application(_: &SessionId) -> Box<dyn Application> { unimplemented!() }
//! use transfix_stores::PostgresStore;
//!
//! let settings = Settings::load("venue.toml")?;
//! let engine = Engine::builder(&settings)
//!     .stores(|session, now_ns| {
//!         let name = session.id().to_string();
//!         let store = PostgresStore::open("host=db user=fix dbname=fix", &name, now_ns)?;
//!         Ok(Some(Box::new(store)))
//!     })
//!     .start(application)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod behind;
mod database;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod tokens;
mod window;

#[cfg(feature = "fleet")]
mod fleet;
#[cfg(feature = "jetstream")]
mod jetstream;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;

pub use database::DatabaseStore;
#[cfg(feature = "fleet")]
pub use fleet::{Fleet, FleetOperator, GatewayStatus, SessionInFleet};
#[cfg(feature = "jetstream")]
pub use jetstream::{ConnectOptions, JetStream, JetStreamStore};
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
#[cfg(feature = "redis")]
pub use redis::RedisStore;

use std::error::Error;
use std::io;
use std::time::Duration;

use transfix_store::StoreError;

/// Maximum time to wait for a server, unless it has another one.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the error for a failure of the server or of the connection.
fn failed(error: impl Error + Send + Sync + 'static) -> StoreError {
    StoreError::Own(io::Error::other(error))
}

/// Returns the error for a stored value that this crate never writes.
#[cfg(any(feature = "postgres", feature = "redis"))]
fn unreadable(name: &str, what: &str) -> StoreError {
    let why = format!("{name}: {what} is not what was written");
    StoreError::Own(io::Error::new(io::ErrorKind::InvalidData, why))
}

/// Pages of the book, included so that their snippets are compiled.
#[cfg(all(doctest, feature = "fleet"))]
mod book {
    #[doc = include_str!("../../book/src/active-passive.md")]
    pub struct Fleets;
}
