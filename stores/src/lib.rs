//! Stores of FIX sessions in a database: [`PostgresStore`] and [`RedisStore`], each behind a cargo
//! feature. They obey the laws of every [`Store`](transfix_store::Store).
//!
//! A turn of a session is one commit and one transaction, which a thread of the store executes.
//! Turns during a transaction form the next one. The bytes of a turn are sent when its transaction
//! is done, so every answer includes the latency of the server. The server decides what a commit
//! survives: PostgreSQL with `synchronous_commit = on` survives a power cut; for Redis
//! `appendfsync` decides.
//!
//! **One writer.** Opening a session's store takes the store over. The previous process is refused
//! at its next commit, and ends its session with the counterparty. The previous process has sent
//! only saved messages. Its session becomes a standby. With `refresh_on_logon` a standby only reads
//! until a counterparty logs on to it; then it takes the store over, with the numbers of the other
//! process. Without `refresh_on_logon` each commit of the standby is refused until a restart.
//!
//! **A server that does not answer** delays its own session, not the others of the same thread.
//! Only saved messages are sent. A ResendRequest(2), or a logon with `refresh_on_logon`, waits
//! until the server has answered. After 5 s the session ends, and recovers automatically when the
//! server is back. `open` sets a timeout of 5 s for connecting and for each commit, unless its
//! first argument sets another. When the engine stops, a store waits up to 5 s for unsaved commits.
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
mod window;

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;

pub use database::DatabaseStore;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
#[cfg(feature = "redis")]
pub use redis::RedisStore;

use std::error::Error;
use std::io;
use std::time::Duration;

use transfix_store::StoreError;

/// Time limit for the server.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns a failure of the server or of the connection.
fn failed(error: impl Error + Send + Sync + 'static) -> StoreError {
    StoreError::Own(io::Error::other(error))
}

/// Returns the error for a session that another process has opened.
fn taken_over(name: &str) -> StoreError {
    let why = format!("{name}: another process has taken this store over");
    StoreError::Own(io::Error::new(io::ErrorKind::ResourceBusy, why))
}

/// Returns the error for a value that our writer never stores.
fn unreadable(name: &str, what: &str) -> StoreError {
    let why = format!("{name}: {what} is not what was written");
    StoreError::Own(io::Error::new(io::ErrorKind::InvalidData, why))
}
