//! Destinations that receive each event as a datagram: syslog, over a local socket or UDP, and
//! journald.
//!
//! Invariant: after a failed send, the next attempt connects to the receiver again.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

use transfix_admin::ShownEvent;

use super::encoded::missing;
use super::queue::Destination;

/// Maximum time for a receiver to accept a datagram.
const WRITE_MAX: Duration = Duration::from_secs(1);

/// Address of the receiver.
pub(super) enum Receiver {
    /// Path of a local (Unix domain) socket.
    Path(PathBuf),
    /// `host:port` of a UDP receiver.
    Udp(String),
}

enum Socket {
    Local(UnixDatagram),
    Udp(UdpSocket),
}

impl Socket {
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Local(socket) => socket.send(bytes),
            Self::Udp(socket) => socket.send(bytes),
        }
    }
}

/// A destination that sends one datagram for each event.
pub(super) struct Datagrams {
    to: Receiver,
    encode: fn(&super::Sender, &ShownEvent) -> Vec<u8>,
    sender: super::Sender,
    socket: Option<Socket>,
}

impl Datagrams {
    pub(super) const fn new(
        to: Receiver,
        sender: super::Sender,
        encode: fn(&super::Sender, &ShownEvent) -> Vec<u8>,
    ) -> Self {
        Self { to, encode, sender, socket: None }
    }

    fn connected(&self) -> io::Result<Socket> {
        match &self.to {
            Receiver::Path(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.set_write_timeout(Some(WRITE_MAX))?;
                socket.connect(path)?;
                Ok(Socket::Local(socket))
            }
            Receiver::Udp(address) => {
                let to = address.to_socket_addrs()?.next();
                let to = to.ok_or_else(|| io::Error::other("the name resolves to no address"))?;
                let own: SocketAddr = match to {
                    SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
                    SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
                };
                let socket = UdpSocket::bind(own)?;
                socket.set_write_timeout(Some(WRITE_MAX))?;
                socket.connect(to)?;
                Ok(Socket::Udp(socket))
            }
        }
    }
}

impl Destination for Datagrams {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if let Some(socket) = self.socket.take()
            && socket.send(line).is_ok()
        {
            self.socket = Some(socket);
            return Ok(());
        }
        // The next attempt uses a new socket, because a restarted receiver has a new one.
        let socket = self.connected()?;
        socket.send(line)?;
        self.socket = Some(socket);
        Ok(())
    }

    fn missing(&self, lines: u64) -> Vec<u8> {
        (self.encode)(&self.sender, &missing(lines))
    }
}
