//! Accepting connections without blocking: bind a listener, then poll.

use std::io;
use std::net::SocketAddr;

use mio::event::Source;
use mio::{Interest, Token};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::{Registry, SocketOptions, TcpStream};

/// A bound, non-blocking TCP socket that accepts connections. Each address needs a listener of its
/// own.
#[derive(Debug)]
pub struct Listener {
    socket: mio::net::TcpListener,
    options: SocketOptions,
}

impl Listener {
    /// Listens on `address`. Port 0 selects a free port. With an IPv6 address, only IPv6
    /// connections are accepted.
    ///
    /// # Errors
    /// If the operating system refuses, for instance because the address is in use.
    pub fn bind(address: SocketAddr, options: &SocketOptions) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        if address.is_ipv6() {
            // Without this option, `[::]` and `0.0.0.0` could not be bound at the same port.
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_address(options.reuse_address)?;
        #[cfg(unix)]
        if options.reuse_port {
            socket.set_reuse_port(true)?;
        }
        options.apply_before(&socket)?;
        socket.bind(&address.into())?;
        socket.listen(i32::try_from(options.backlog).unwrap_or(i32::MAX))?;
        let socket = mio::net::TcpListener::from_std(socket.into());
        Ok(Self { socket, options: options.clone() })
    }

    /// Accepts the next waiting connection; returns `None` if none is waiting. The listener's
    /// options are applied to the connection.
    ///
    /// # Errors
    /// The error of the operating system, for instance that no more files can be opened. A
    /// connection that was closed while it waited is not an error.
    pub fn accept(&self) -> io::Result<Option<TcpStream>> {
        loop {
            match self.socket.accept() {
                Ok((socket, _)) => match self.options.apply(&SockRef::from(&socket)) {
                    Ok(()) => {
                        let quick_ack = self.options.quick_ack;
                        return Ok(Some(TcpStream { socket, quick_ack }));
                    }
                    // The counterparty has disconnected already, so the next connection is tried.
                    Err(error) if is_gone(&error) => {}
                    Err(error) => return Err(error),
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the address on which this socket listens, with the actual port.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Registers with `registry`, which then reports waiting connections with `token`. After an
    /// event, call `accept` until it returns `None`.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn register(&mut self, registry: Registry<'_>, token: Token) -> io::Result<()> {
        self.socket.register(registry.system()?, token, Interest::READABLE)
    }

    /// Removes the registration.
    ///
    /// # Errors
    /// If the listener is not registered with `registry`.
    pub fn deregister(&mut self, registry: Registry<'_>) -> io::Result<()> {
        self.socket.deregister(registry.system()?)
    }
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | NotConnected)
}
