//! Streams over TLS 1.2 and 1.3, by rustls.
//!
//! A [`Server`] or [`Client`] is created once from files, and wraps each new stream. Before a
//! connection, changed files are loaded again.
//!
//! **Invariant:** a [`TlsStream`] obeys the laws of every [`Stream`](crate::Stream). A read that
//! returns fewer bytes than requested has taken all available bytes, so readiness is not missed. A
//! write reports bytes as written once the socket has taken all of them, so no bytes remain in the
//! stream unnoticed.

mod certificate;
mod clock;
mod explain;
mod files;
mod inspect;
mod sides;
mod stream;

pub use certificate::Certificate;
pub use clock::Clock;
pub use explain::TlsError;
pub use files::{MinVersion, TlsFiles};
pub use inspect::Inspection;
pub use sides::{Client, ClientOptions, Clients, Server, ServerOptions};
pub use stream::TlsStream;
