//! Non-blocking bytes for a FIX engine: streams, listeners, connecting, readiness.
//!
//! A [`Stream`] can be read and written at any time, registered or not: a spinning thread never
//! meets epoll, a pool registers its streams with a [`Poll`]. Only plain sockets and epoll are
//! used, so that a preloaded kernel-bypass library works.
//!
//! **Invariant:** this crate knows no FIX, starts no thread, reads no clock and never waits, except
//! in [`Poll::poll`].
//!
//! ```
//! use transfix_transport::{Listener, SocketOptions, Stream, connect};
//!
//! let options = SocketOptions::default();
//! let listener = Listener::bind("127.0.0.1:0".parse()?, &options)?;
//! let mut connecting = connect(listener.local_addr()?, &options)?;
//! let mut client = loop {
//!     if let Some(stream) = connecting.finish()? {
//!         break stream;
//!     }
//! };
//! let mut server = loop {
//!     if let Some(stream) = listener.accept()? {
//!         break stream;
//!     }
//! };
//! assert_eq!(client.write(b"8=FIX.4.4")?, 9);
//! assert_eq!(server.peer_addr(), Some(client.local_addr()?));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod connect;
mod listener;
pub mod memory;
mod options;
pub mod proxy_header;
mod sys;
mod tcp;
#[cfg(feature = "tls")]
pub mod tls;
pub mod tunnel;

use std::io;
use std::net::SocketAddr;

pub use connect::{Connecting, connect};
pub use listener::Listener;
pub use mio::event::{Event, Source};
pub use mio::{Events, Interest, Poll, Token, Waker};
pub use options::SocketOptions;
pub use sys::{prefetch, refuse_long_files_by_error};
pub use tcp::TcpStream;

/// Where readiness is reported.
#[derive(Clone, Copy, Debug)]
pub enum Registry<'p> {
    /// In the operating system, which asks through [`Poll`].
    System(&'p mio::Registry),
    /// In a simulated world, which knows the one that waits by this number.
    Simulated(u64),
}

impl<'p> Registry<'p> {
    /// That of the operating system.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] in a simulated world, which knows no sockets.
    pub fn system(self) -> io::Result<&'p mio::Registry> {
        match self {
            Self::System(registry) => Ok(registry),
            Self::Simulated(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Bytes to and from one counterparty. Nothing blocks: what can't be done now is
/// [`io::ErrorKind::WouldBlock`].
pub trait Stream: Send {
    /// Reads what has arrived, at most `buf.len()` bytes, and says how many. A smaller number means
    /// that no more bytes were there, and readiness is reported for later ones. The end of the
    /// connection may have been reported together with these bytes. 0 for a `buf` that is not
    /// empty: the counterparty closed its side.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if nothing has arrived, and no end of the connection either;
    /// any other ends the stream.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;

    /// Returns true if the next read returns something for which no readiness is reported: the
    /// stream has found an end or an error behind the bytes that it returned last.
    fn has_more(&self) -> bool {
        false
    }

    /// Writes as much of `bytes` as there is room for, and says how many bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is no room: the next write offers the same bytes
    /// again, and may add some behind them. Any other ends the stream;
    /// [`io::ErrorKind::InvalidData`] if the counterparty breaks the rules of the stream, or is not
    /// the one it should be.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Asks `registry` to report readiness under `token`. Readiness is reported once per change
    /// (edge-triggered): read or write until `WouldBlock`.
    ///
    /// # Errors
    /// If the operating system refuses, or the stream is registered elsewhere.
    fn register(
        &mut self,
        registry: Registry<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()>;

    /// Changes the token or the interest of a registered stream.
    ///
    /// # Errors
    /// If the stream is not registered with `registry`.
    fn reregister(
        &mut self,
        registry: Registry<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()>;

    /// Ends the reports.
    ///
    /// # Errors
    /// If the stream is not registered with `registry`.
    fn deregister(&mut self, registry: Registry<'_>) -> io::Result<()>;

    /// The counterparty's address; none if it has none, or is gone.
    fn peer_addr(&self) -> Option<SocketAddr>;

    /// The certificate that the counterparty has shown; none without TLS, before the end of the
    /// handshake, or if it showed none.
    #[cfg(feature = "tls")]
    fn peer_certificate(&self) -> Option<tls::Certificate> {
        None
    }

    /// Says that no more bytes will be written; what was written still arrives, and reading goes
    /// on. Dropping the stream closes both directions.
    ///
    /// # Errors
    /// If the stream is no longer connected.
    fn shutdown(&mut self) -> io::Result<()>;
}

impl<S: Stream + ?Sized> Stream for Box<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        (**self).read(buf)
    }

    fn has_more(&self) -> bool {
        (**self).has_more()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (**self).write(bytes)
    }

    fn register(
        &mut self,
        registry: Registry<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        (**self).register(registry, token, interest)
    }

    fn reregister(
        &mut self,
        registry: Registry<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        (**self).reregister(registry, token, interest)
    }

    fn deregister(&mut self, registry: Registry<'_>) -> io::Result<()> {
        (**self).deregister(registry)
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        (**self).peer_addr()
    }

    #[cfg(feature = "tls")]
    fn peer_certificate(&self) -> Option<tls::Certificate> {
        (**self).peer_certificate()
    }

    fn shutdown(&mut self) -> io::Result<()> {
        (**self).shutdown()
    }
}
