//! Streams over TLS 1.2 and 1.3, by rustls.
//!
//! A [`Server`] or [`Client`] is made once from files, and wraps each new stream. It looks at its
//! files again before a connection, and takes them over if one of them has changed.
//!
//! **Invariant:** a [`TlsStream`] keeps the laws of every [`Stream`](crate::Stream). A read that
//! returns less than was asked for has taken all there is, so readiness is not missed. A write says
//! that bytes are written once the socket has taken all of them, so nothing waits unseen.

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
