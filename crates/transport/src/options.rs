//! The settings of a socket, which apply to outgoing and accepted connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

/// The settings of a socket. `None` keeps the default of the operating system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// TCP_NODELAY: small messages are sent at once. On by default.
    pub nodelay: bool,
    /// SO_SNDBUF in bytes; Linux doubles the value.
    pub send_buffer_bytes: Option<usize>,
    /// SO_RCVBUF in bytes; Linux doubles the value.
    pub receive_buffer_bytes: Option<usize>,
    /// TCP keepalive: the idle time before the first probe.
    pub keepalive: Option<Duration>,
    /// TCP keepalive: the time between two probes.
    pub keepalive_interval: Option<Duration>,
    /// TCP keepalive: the number of unanswered probes after which the connection is lost.
    pub keepalive_probes: Option<u32>,
    /// TCP_USER_TIMEOUT: the maximum time for which sent bytes may remain unacknowledged. Linux
    /// only.
    pub user_timeout: Option<Duration>,
    /// TCP_QUICKACK: received bytes are acknowledged at once. Linux resets this option by itself,
    /// so it is set again after each read, at the cost of a system call. Linux only.
    pub quick_ack: bool,
    /// SO_BUSY_POLL: the time for which the kernel spins on the device queue, in whole
    /// microseconds. Linux only; raising it needs a privilege.
    pub busy_poll: Option<Duration>,
    /// The differentiated services code point (RFC 2474) of all packets, 0 to 63.
    pub dscp: Option<u8>,
    /// SO_LINGER: closing waits this long for unsent bytes to be sent; zero resets the connection.
    pub linger: Option<Duration>,
    /// The local address of outgoing connections. Port 0 selects a free port.
    pub local: Option<SocketAddr>,
    /// SO_REUSEADDR on listeners: after a restart, the address can be bound although old
    /// connections still exist. On by default.
    pub reuse_address: bool,
    /// SO_REUSEPORT on listeners: several listeners, even in several processes, may share an
    /// address. The operating system distributes connections among them. Unix only.
    pub reuse_port: bool,
    /// Maximum number of connections that wait to be accepted.
    pub backlog: u32,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            nodelay: true,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            keepalive: None,
            keepalive_interval: None,
            keepalive_probes: None,
            user_timeout: None,
            quick_ack: false,
            busy_poll: None,
            dscp: None,
            linger: None,
            local: None,
            reuse_address: true,
            reuse_port: false,
            backlog: 1024,
        }
    }
}

impl SocketOptions {
    /// Applies the settings that affect the TCP handshake, which must be set before connecting or
    /// listening.
    pub(crate) fn apply_before(&self, socket: &Socket) -> io::Result<()> {
        if let Some(bytes) = self.send_buffer_bytes {
            socket.set_send_buffer_size(bytes)?;
        }
        if let Some(bytes) = self.receive_buffer_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        Ok(())
    }

    /// Applies the settings that concern a single connection, outgoing or accepted.
    pub(crate) fn apply(&self, socket: &SockRef<'_>) -> io::Result<()> {
        socket.set_tcp_nodelay(self.nodelay)?;
        if let Some(idle) = self.keepalive {
            let mut keepalive = TcpKeepalive::new().with_time(idle);
            if let Some(interval) = self.keepalive_interval {
                keepalive = keepalive.with_interval(interval);
            }
            if let Some(probes) = self.keepalive_probes {
                keepalive = keepalive.with_retries(probes);
            }
            socket.set_tcp_keepalive(&keepalive)?;
        }
        if self.linger.is_some() {
            socket.set_linger(self.linger)?;
        }
        if let Some(dscp) = self.dscp {
            // The lowest two bits of the byte are reserved for congestion notification.
            let octet = u32::from(dscp) << 2;
            match socket.local_addr()?.is_ipv6() {
                true => socket.set_tclass_v6(octet)?,
                false => socket.set_tos_v4(octet)?,
            }
        }
        #[cfg(target_os = "linux")]
        {
            if self.user_timeout.is_some() {
                socket.set_tcp_user_timeout(self.user_timeout)?;
            }
            if let Some(busy_poll) = self.busy_poll {
                let us = busy_poll.as_nanos().div_ceil(1_000);
                socket.set_busy_poll(u32::try_from(us).unwrap_or(u32::MAX))?;
            }
            if self.quick_ack {
                socket.set_tcp_quickack(true)?;
            }
        }
        Ok(())
    }

    /// Checks that the operating system accepts these options for a socket of the family of
    /// `address`; also binds `local`.
    ///
    /// # Errors
    /// Options that the system refuses, such as [`SocketOptions::busy_poll`] without the privilege.
    pub fn check(&self, address: SocketAddr) -> io::Result<()> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        self.apply_before(&socket)?;
        self.apply(&SockRef::from(&socket))?;
        if let Some(mut local) = self.local {
            // Port 0 is used, because an earlier connection may still occupy the port.
            local.set_port(0);
            socket.bind(&local.into())?;
        }
        Ok(())
    }
}
