//! Non-blocking I/O for a FIX engine: streams, listeners, connecting, and readiness events.
//!
//! A [`Stream`] can be read and written at any time, registered or not. A spinning thread never
//! calls epoll; a pool of threads registers its streams with a [`Poll`]. The crate uses only plain
//! sockets and epoll, so a preloaded kernel-bypass library works.
//!
//! **Invariant:** this crate knows nothing of FIX, starts no thread, reads no clock, and waits only
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

/// The receiver of readiness events.
#[derive(Clone, Copy, Debug)]
pub enum Registry<'p> {
    /// The operating system, polled through [`Poll`].
    System(&'p mio::Registry),
    /// A simulation; the number identifies the waiting thread.
    Simulated(u64),
}

impl<'p> Registry<'p> {
    /// Returns the operating system's registry.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] in a simulated world, which has no sockets.
    pub fn system(self) -> io::Result<&'p mio::Registry> {
        match self {
            Self::System(registry) => Ok(registry),
            Self::Simulated(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// A connection to one counterparty, for reading and writing bytes. No call blocks; an operation
/// that would have to wait returns [`io::ErrorKind::WouldBlock`].
pub trait Stream: Send {
    /// Reads the bytes that have arrived, at most `buf.len()`, and returns their number. A smaller
    /// number than `buf.len()` means that no more bytes were available; bytes that arrive later
    /// cause a readiness event. The end of the connection may have been reported together with the
    /// returned bytes. Returns 0 for a nonempty `buf` if the counterparty has closed its side.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if neither bytes nor the end of the connection have arrived.
    /// Any other error ends the stream.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;

    /// Returns true if the next read has a result without a readiness event. The last read then
    /// found the end of the connection, or an error, after the bytes that it returned.
    fn has_more(&self) -> bool {
        false
    }

    /// Writes as many of `bytes` as the connection can accept now, and returns their number.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is no room. The next write must offer the same bytes
    /// again, and may append more. Any other error ends the stream. [`io::ErrorKind::InvalidData`]
    /// if the counterparty breaks the stream's protocol, or is not the expected one.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Registers with `registry`, which then reports readiness events with `token`. Events are
    /// edge-triggered, reported once per change: read or write until `WouldBlock`.
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

    /// Removes the registration.
    ///
    /// # Errors
    /// If the stream is not registered with `registry`.
    fn deregister(&mut self, registry: Registry<'_>) -> io::Result<()>;

    /// Returns the address of the counterparty; `None` if it has none or has disconnected.
    fn peer_addr(&self) -> Option<SocketAddr>;

    /// Returns the certificate that the counterparty presented. Returns `None` without TLS, before
    /// the end of the handshake, or if the counterparty presented none.
    #[cfg(feature = "tls")]
    fn peer_certificate(&self) -> Option<tls::Certificate> {
        None
    }

    /// Closes the stream for writing. Bytes already written still arrive, and reading remains
    /// possible. Dropping the stream closes both directions.
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
