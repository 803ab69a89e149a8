//! External programs that tests start, such as haproxy.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use crate::proxy::Header;
use crate::temp::TempDir;

/// A child process that is killed when dropped.
#[derive(Debug)]
pub struct Program(Child);

impl Program {
    /// Starts the program `name` and discards its output. `package` is the Debian package that
    /// contains the program, for the error message.
    ///
    /// # Panics
    /// If the program is missing.
    #[must_use]
    pub fn start(name: &str, package: &str, args: &[&str]) -> Self {
        let mut command = Command::new(name);
        let started = command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(started.unwrap_or_else(|error| {
            panic!("{name}: {error}; it is in Debian's package {package}: apt-get install it")
        }))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running haproxy that forwards all bytes and first sends a PROXY protocol header to its server.
#[derive(Debug)]
pub struct Haproxy {
    address: SocketAddr,
    _program: Program,
    _dir: TempDir,
}

impl Haproxy {
    /// Starts an haproxy that listens on `ip` and connects to `to` from the same address. Returns
    /// as soon as haproxy listens.
    ///
    /// # Panics
    /// If the program is missing.
    #[must_use]
    pub fn start(ip: Ipv4Addr, to: SocketAddr, header: Header) -> Self {
        let free = TcpListener::bind((ip, 0)).expect("a free port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let sends = match header {
            Header::V1 => "send-proxy",
            Header::V2 => "send-proxy-v2",
        };
        let dir = TempDir::new();
        let file = dir.path().join("haproxy.cfg");
        let config = format!(
            "defaults\n mode tcp\n timeout connect 1m\n timeout client 1m\n timeout server 1m\n\
             frontend in\n bind {address}\n default_backend out\n\
             backend out\n source {ip}\n server venue {to} {sends}\n"
        );
        fs::write(&file, config).expect("a file");
        let file = file.display().to_string();
        let program = Program::start("haproxy", "haproxy", &["-db", "-f", &file]);
        while TcpStream::connect(address).is_err() {
            std::thread::yield_now();
        }
        Self { address, _program: program, _dir: dir }
    }

    /// Returns the address on which haproxy listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}
