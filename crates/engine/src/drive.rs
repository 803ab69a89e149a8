//! The drivers of links: workers run sessions, connect, accept, and reopen stores.
//!
//! Code that waits, connects or runs in a thread of its own belongs here. Code that interprets
//! messages belongs to the module `link`.

pub(crate) mod acceptor;
pub(crate) mod admission;
pub(crate) mod application_task;
pub(crate) mod balance;
pub(crate) mod certificates;
pub(crate) mod command_queue;
pub(crate) mod connector;
mod deadlines;
pub(crate) mod deferred;
pub(crate) mod descriptors;
pub(crate) mod destination;
pub(crate) mod driven;
pub(crate) mod drives;
mod handshakes;
pub(crate) mod listening;
pub(crate) mod new_connections;
pub(crate) mod outcome;
pub(crate) mod passwords;
pub(crate) mod registry;
mod reopening;
mod resolver;
pub(crate) mod routes;
pub(crate) mod run_queue;
pub(crate) mod session_waker;
pub(crate) mod shared;
pub(crate) mod stores;
mod stranger_lines;
pub(crate) mod template;
pub(crate) mod tls;
pub(crate) mod two_stores;
pub(crate) mod waiting;
pub(crate) mod watching;
pub(crate) mod worker;
