//! Waiting for connections without waiting: bind, then ask.

use std::io;
use std::net::SocketAddr;

use mio::event::Source;
use mio::{Interest, Token};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::{Registry, SocketOptions, TcpStream};

/// A bound, non-blocking TCP socket that accepts connections. For several addresses, bind several.
#[derive(Debug)]
pub struct Listener {
    socket: mio::net::TcpListener,
    options: SocketOptions,
}

impl Listener {
    /// Listens on `address`; port 0 takes any free port. An IPv6 address takes IPv6 only.
    ///
    /// # Errors
    /// If the operating system refuses, for instance because the address is in use.
    pub fn bind(address: SocketAddr, options: &SocketOptions) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        if address.is_ipv6() {
            // Else [::] and 0.0.0.0 could not be bound side by side.
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

    /// The next waiting connection, or none. The listener's options are applied to it.
    ///
    /// # Errors
    /// The error of the operating system, for instance that no more files can be opened. A
    /// connection that was given up while it waited is not an error.
    pub fn accept(&self) -> io::Result<Option<TcpStream>> {
        loop {
            match self.socket.accept() {
                Ok((socket, _)) => match self.options.apply(&SockRef::from(&socket)) {
                    Ok(()) => {
                        let quick_ack = self.options.quick_ack;
                        return Ok(Some(TcpStream { socket, quick_ack }));
                    }
                    // The counterparty may be gone already; the next one is as good.
                    Err(error) if is_gone(&error) => {}
                    Err(error) => return Err(error),
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The address listened on, with the port taken.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Asks `registry` to report waiting connections under `token`. Accept until none.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn register(&mut self, registry: Registry<'_>, token: Token) -> io::Result<()> {
        self.socket.register(registry.system()?, token, Interest::READABLE)
    }

    /// Ends the reports.
    ///
    /// # Errors
    /// If it is not registered with `registry`.
    pub fn deregister(&mut self, registry: Registry<'_>) -> io::Result<()> {
        self.socket.deregister(registry.system()?)
    }
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, NotConnected};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | NotConnected)
}
