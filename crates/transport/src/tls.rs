//! Streams over TLS 1.2 and 1.3, implemented with rustls.
//!
//! A [`Server`] or a [`Client`] is created once from files, and wraps each new stream. If files
//! have changed, they are loaded again before the next connection.
//!
//! **Invariant:** a [`TlsStream`] behaves like every other [`Stream`](crate::Stream). A read that
//! returns fewer bytes than requested has taken all available bytes, so no readiness event is
//! missed. A write reports bytes as written only when the socket has accepted all of them, so no
//! bytes remain in the stream unnoticed.

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
