//! A TCP connection as a [`Stream`]: one `recv` or `send` per call, registered or not.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};

use mio::event::Source;
use mio::{Interest, Token};
use socket2::SockRef;

use crate::{Registry, SocketOptions, Stream};

/// A connected, non-blocking TCP socket.
#[derive(Debug)]
pub struct TcpStream {
    pub(crate) socket: mio::net::TcpStream,
    /// True if TCP_QUICKACK is set again after each read.
    pub(crate) quick_ack: bool,
}

impl TcpStream {
    /// Makes a connected socket non-blocking, applies `options`, and returns it as a stream.
    ///
    /// # Errors
    /// If the operating system refuses one of the options.
    pub fn from_std(socket: std::net::TcpStream, options: &SocketOptions) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        options.apply(&SockRef::from(&socket))?;
        let socket = mio::net::TcpStream::from_std(socket);
        Ok(Self { socket, quick_ack: options.quick_ack })
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Returns true if TCP_NODELAY is set.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.socket.nodelay()
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for TcpStream {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Stream for TcpStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.socket.read(buf) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(n) if self.quick_ack => {
                    // If the call fails, the acknowledgement is only delayed.
                    #[cfg(target_os = "linux")]
                    let _ = SockRef::from(&self.socket).set_tcp_quickack(true);
                    return Ok(n);
                }
                result => return result,
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.socket.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn register(
        &mut self,
        registry: Registry<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.socket.register(registry.system()?, token, interest)
    }

    fn reregister(
        &mut self,
        registry: Registry<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.socket.reregister(registry.system()?, token, interest)
    }

    fn deregister(&mut self, registry: Registry<'_>) -> io::Result<()> {
        self.socket.deregister(registry.system()?)
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.socket.peer_addr().ok()
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }
}
