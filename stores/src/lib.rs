//! Stores of FIX sessions in a database: [`PostgresStore`] and [`RedisStore`], each behind a cargo
//! feature. They obey the laws of every [`Store`](transfix_store::Store).
//!
//! A turn of a session is one commit, one round trip to the server, and one transaction there. The
//! session waits for it before its bytes go to the socket, so the server's distance is in every
//! answer. What a commit outlives is what the server promises: PostgreSQL with
//! `synchronous_commit = on` a power cut, Redis what its `appendfsync` says.
//!
//! **One writer.** Opening a session's store takes it over: the process that had it is refused at
//! its next commit, ends its session with the counterparty, and has sent nothing that was not
//! saved. With `refresh_on_logon` a standby process that has opened the store before takes it over
//! again before each logon, with the numbers of the other one.
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
mod window;

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;

#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
#[cfg(feature = "redis")]
pub use redis::RedisStore;

use std::error::Error;
use std::io;

use transfix_store::StoreError;

/// Whether a store may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Sound,
    /// Something failed; what the server has is not known.
    Failed,
    /// Somebody else writes this session now.
    TakenOver,
}

impl Condition {
    fn check(self) -> Result<(), StoreError> {
        if self == Self::Sound { Ok(()) } else { Err(StoreError::Poisoned) }
    }
}

/// A failure of the server, or of the way to it.
fn failed(error: impl Error + Send + Sync + 'static) -> StoreError {
    StoreError::Own(io::Error::other(error))
}

/// Somebody else has opened the session's store since.
fn taken_over(name: &str) -> StoreError {
    let why = format!("{name}: another process has taken this store over");
    StoreError::Own(io::Error::new(io::ErrorKind::ResourceBusy, why))
}

/// A value that no writer of ours has left there.
fn unreadable(name: &str, what: &str) -> StoreError {
    let why = format!("{name}: {what} is not what was written");
    StoreError::Own(io::Error::new(io::ErrorKind::InvalidData, why))
}
