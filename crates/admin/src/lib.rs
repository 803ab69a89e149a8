//! Administration of a FIX engine over HTTP and over FIX, from a browser, a program or a monitoring
//! system.
//!
//! An [`AdminServer`] listens at its own address, in its own thread (`tfx-admin`), until it is
//! dropped. [`transfix::Admin`] performs each action, and records the action in the audit. Reading
//! takes no lock of a session, except to read the error text of a failed store.
//!
//! ```no_run
//! use transfix_admin::{AdminServer, EventRing, Extras};
//! # use transfix::{Engine, Settings};
//! # use transfix_admin::AdminServerError;
//! // `events.layer()` belongs to the program's subscriber of `tracing`.
//! fn administer(
//!     settings: &Settings,
//!     engine: &Engine,
//!     events: EventRing,
//! ) -> Result<Option<AdminServer>, AdminServerError> {
//!     let Some(admin) = &settings.admin else { return Ok(None) };
//!     AdminServer::start(admin, &engine.admin(), Extras::new(events)).map(Some)
//! }
//! ```
//!
//! With `[admin.fix]` in the settings, administrators can also log on by FIX and send commands as
//! XML. [`OwnCommands`] adds the program's own commands.
//!
//! The pages "Console" and "FIX administration" of the book describe both interfaces.
#![forbid(unsafe_code)]

mod access;
mod adding;
mod answer;
mod app;
pub mod client;
mod connection;
mod events;
mod filter;
mod fix;
mod fleet;
mod health;
mod journals;
mod logins;
mod metrics;
mod order;
mod page;
mod places;
mod refusals;
#[cfg(feature = "rig")]
pub mod rig;
mod routes;
mod seldom;
mod server;
mod shown;
mod throttle;
mod tls;
mod turns;
pub mod users;

pub use events::{EventLayer, EventRing, ShownEvent};
pub use filter::EventFilter;
pub use fix::answer::{CommandResult, Refused, ResultCode};
pub use fix::own::{OwnCommand, OwnCommands, OwnRequest};
pub use fleet::FleetStatus;
pub use server::{AdminServer, AdminServerError, Extras};
pub use tls::FreshCertificate;

/// Pages of the book, included so that their snippets are compiled.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../book/src/async.md")]
    pub struct AsyncPrograms;
    #[doc = include_str!("../../../book/src/console.md")]
    pub struct Console;
    #[doc = include_str!("../../../book/src/fix-administration.md")]
    pub struct OverFix;
}
