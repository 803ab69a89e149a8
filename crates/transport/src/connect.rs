//! Connecting without blocking: start a connection, then poll until it is established.

use std::io;
use std::net::SocketAddr;

use mio::event::Source;
use mio::{Interest, Token};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::{Registry, SocketOptions, TcpStream};

/// Starts a connection to `remote`, without waiting until it is established.
///
/// # Errors
/// If the operating system refuses at once. [`Connecting::finish`] returns a refusal by the peer.
pub fn connect(remote: SocketAddr, options: &SocketOptions) -> io::Result<Connecting> {
    let socket = Socket::new(Domain::for_address(remote), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    options.apply_before(&socket)?;
    options.apply(&SockRef::from(&socket))?;
    if let Some(local) = options.local {
        socket.set_reuse_address(options.reuse_address)?;
        socket.bind(&local.into())?;
    }
    match socket.connect(&remote.into()) {
        Ok(()) => {}
        Err(error) if is_in_progress(&error) => {}
        Err(error) => return Err(error),
    }
    let socket = mio::net::TcpStream::from_std(socket.into());
    Ok(Connecting { stream: Some(TcpStream { socket, quick_ack: options.quick_ack }) })
}

fn is_in_progress(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
        || (cfg!(unix) && error.raw_os_error() == Some(libc::EINPROGRESS))
}

/// A connection that is being established. Dropping this value abandons the attempt.
#[derive(Debug)]
pub struct Connecting {
    stream: Option<TcpStream>,
}

impl Connecting {
    /// Returns the stream if the connection is established, or `None` if it is not yet. Call this
    /// method after a writable event, or at any time. A registered stream stays registered.
    ///
    /// # Errors
    /// If the connection failed; then drop this value. [`io::ErrorKind::NotConnected`] after the
    /// stream was returned.
    pub fn finish(&mut self) -> io::Result<Option<TcpStream>> {
        let Some(stream) = &self.stream else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        if let Some(error) = stream.socket.take_error()? {
            return Err(error);
        }
        match stream.socket.peer_addr() {
            Ok(_) => Ok(self.stream.take()),
            // Some operating systems return EINVAL for a socket that is still connecting.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotConnected | io::ErrorKind::InvalidInput
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Registers with `registry`, which then reports an event with `token` when
    /// [`Connecting::finish`] has a result.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn register(
        &mut self,
        registry: Registry<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        match &mut self.stream {
            Some(stream) => stream.socket.register(registry.system()?, token, interest),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Removes the registration. Required before a registered connection is dropped.
    ///
    /// # Errors
    /// If the connection is not registered with `registry`.
    pub fn deregister(&mut self, registry: Registry<'_>) -> io::Result<()> {
        match &mut self.stream {
            Some(stream) => stream.socket.deregister(registry.system()?),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}
