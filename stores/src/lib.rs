//! Stores of FIX sessions in a database: [`PostgresStore`] and [`RedisStore`], each behind a cargo
//! feature. They obey the laws of every [`Store`](transfix_store::Store).
//!
//! A turn of a session is one commit and one transaction, which a thread of the store carries out;
//! turns that come meanwhile are one transaction behind it. The bytes of a turn go to the socket
//! when its transaction is done, so the server's distance is in every answer. The server decides
//! what a commit survives: PostgreSQL with `synchronous_commit = on` survives a power cut, and
//! Redis as its `appendfsync` promises.
//!
//! **One writer.** Opening a session's store takes it over. The process that had it is refused at
//! its next commit, and ends its session with the counterparty. That process has sent nothing that
//! was not saved. Its session stays there as a standby. With `refresh_on_logon` a standby takes the
//! store over when a counterparty has logged on to it, with the numbers of the other process;
//! before that it only reads. Without, each of its commits is refused until it is started anew.
//!
//! **A server that does not answer** holds up its own session, not the others of the same thread.
//! Nothing is sent before it is saved. A ResendRequest(2), or a logon with `refresh_on_logon`,
//! waits until the server has answered. After 5 s the session ends, and goes on by itself when the
//! server is back. `open` sets 5 s for connecting and for each commit, unless its first argument
//! says otherwise. At the end of the engine a store waits 5 s for what is not saved yet.
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
