//! Settings of a socket, the same for connecting and accepted ones.

use std::io;
use std::time::Duration;

use socket2::{SockRef, Socket, TcpKeepalive};

/// How a socket is set up. `None` leaves the system's own setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// TCP_NODELAY: small messages leave at once. On by default.
    pub nodelay: bool,
    /// SO_SNDBUF in bytes; Linux doubles it.
    pub send_buffer_bytes: Option<usize>,
    /// SO_RCVBUF in bytes; Linux doubles it.
    pub receive_buffer_bytes: Option<usize>,
    /// TCP keepalive: idle time before the first probe.
    pub keepalive: Option<Duration>,
    /// SO_BUSY_POLL in microseconds: the kernel spins on the device queue for that long.
    pub busy_poll_us: Option<u32>,
    /// SO_LINGER: closing waits this long for unsent bytes; zero resets the connection.
    pub linger: Option<Duration>,
    /// SO_REUSEADDR on listeners: a restart need not wait for old connections. On by default.
    pub reuse_address: bool,
    /// Connections a listener lets wait to be accepted.
    pub backlog: u32,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            nodelay: true,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            keepalive: None,
            busy_poll_us: None,
            linger: None,
            reuse_address: true,
            backlog: 1024,
        }
    }
}

impl SocketOptions {
    /// Settings which the TCP handshake depends on, and so come before connect or listen.
    pub(crate) fn apply_before(&self, socket: &Socket) -> io::Result<()> {
        if let Some(bytes) = self.send_buffer_bytes {
            socket.set_send_buffer_size(bytes)?;
        }
        if let Some(bytes) = self.receive_buffer_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        Ok(())
    }

    /// Settings of one connection, connecting or accepted.
    pub(crate) fn apply(&self, socket: &SockRef<'_>) -> io::Result<()> {
        socket.set_tcp_nodelay(self.nodelay)?;
        if let Some(idle) = self.keepalive {
            socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle))?;
        }
        if self.linger.is_some() {
            socket.set_linger(self.linger)?;
        }
        #[cfg(target_os = "linux")]
        if let Some(busy_poll_us) = self.busy_poll_us {
            socket.set_busy_poll(busy_poll_us)?;
        }
        Ok(())
    }
}
