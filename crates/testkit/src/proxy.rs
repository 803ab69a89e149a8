//! Proxies for tests: HTTP CONNECT, SOCKS5, and a proxy that announces its client with the PROXY
//! protocol.
//!
//! The proxies refuse everything that the standards forbid, so that Transfix cannot pass the tests
//! with requests that real proxies reject.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use socket2::{Domain, Socket, Type};

/// A user name and a password.
pub type Login = (String, String);

/// The version of the PROXY protocol header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Version 1: the header is a line of text.
    V1,
    /// Version 2: the header is binary.
    V2,
}

/// The protocol that a proxy speaks.
#[derive(Clone, Debug)]
pub enum Kind {
    /// HTTP CONNECT (RFC 9110 section 9.3.6), with Basic credentials if a login is set.
    Http(Option<Login>),
    /// SOCKS5 (RFC 1928), with the credentials of RFC 1929 if a login is set.
    Socks5(Option<Login>),
    /// A proxy that connects to `to` from the address `from`, and first sends a PROXY protocol
    /// header.
    Announcing {
        /// The address from which the proxy connects.
        from: Ipv4Addr,
        /// The address of the server to which the proxy connects.
        to: SocketAddr,
        /// The version of the PROXY header.
        header: Header,
    },
}

/// A running proxy, stopped on drop. Established connections last until one side closes.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts a proxy that listens at the address `at`.
    ///
    /// # Panics
    /// If the address is in use.
    #[must_use]
    pub fn start(at: SocketAddr, kind: Kind) -> Self {
        let listener = TcpListener::bind(at).expect("a free address");
        let address = listener.local_addr().expect("an address");
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if over.load(Ordering::Acquire) {
                    break;
                }
                let kind = kind.clone();
                // The proxy disconnects a client that violates the protocol, so that the test of
                // the client fails.
                thread::spawn(move || kind.serve(client));
            }
        });
        Self { address, is_over }
    }

    /// Returns the address on which the proxy listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // A connection to itself wakes the proxy's listening thread, which then ends.
        drop(TcpStream::connect(self.address));
    }
}

impl Kind {
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let far = match self {
            Self::Http(login) => http(&mut client, login.as_ref())?,
            Self::Socks5(login) => socks5(&mut client, login.as_ref())?,
            Self::Announcing { from, to, header } => {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
                socket.bind(&SocketAddr::from((*from, 0)).into())?;
                socket.connect(&(*to).into())?;
                let mut far = TcpStream::from(socket);
                far.write_all(&header.encode(client.peer_addr()?, client.local_addr()?)?)?;
                far
            }
        };
        far.set_nodelay(true)?;
        let (from, to) = (client.try_clone()?, far.try_clone()?);
        thread::spawn(move || pass_on(&from, &to));
        pass_on(&far, &client);
        Ok(())
    }
}

/// Copies all bytes until `from` ends, and then shuts down the write direction of `to`.
fn pass_on(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

impl Header {
    fn encode(self, from: SocketAddr, to: SocketAddr) -> io::Result<Vec<u8>> {
        let (IpAddr::V4(from_ip), IpAddr::V4(to_ip)) = (from.ip(), to.ip()) else {
            return Err(refused("an address of IPv6"));
        };
        let (from, to) = (from.port(), to.port());
        Ok(match self {
            Self::V1 => format!("PROXY TCP4 {from_ip} {to_ip} {from} {to}\r\n").into_bytes(),
            Self::V2 => {
                // The signature, then version 2 with the command PROXY, TCP over IPv4, and a length
                // of 12 bytes for the addresses.
                let mut bytes = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c".to_vec();
                bytes.extend([from_ip.octets(), to_ip.octets()].concat());
                bytes.extend([from.to_be_bytes(), to.to_be_bytes()].concat());
                bytes
            }
        })
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::other(why.to_owned())
}

fn http(client: &mut TcpStream, login: Option<&Login>) -> io::Result<TcpStream> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(read::<1>(client)?);
    }
    let head = String::from_utf8(head).map_err(io::Error::other)?;
    let mut lines = head.split("\r\n");
    let request: Vec<_> = lines.next().unwrap_or_default().split(' ').collect();
    let ["CONNECT", target, "HTTP/1.1"] = request[..] else {
        client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")?;
        return Err(refused("no CONNECT"));
    };
    let headers: Vec<_> = lines.filter_map(|line| line.split_once(": ")).collect();
    let header = |name: &str| {
        let mut found = headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| *value)
    };
    let wanted = login.map(|(user, password)| {
        format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
    });
    if wanted.is_some() && header("Proxy-Authorization") != wanted.as_deref() {
        client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")?;
        return Err(refused("not its credentials"));
    }
    if header("Host") != Some(target) {
        client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")?;
        return Err(refused("Host is not the target"));
    }
    let far = TcpStream::connect(target)?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\nVia: 1.1 test\r\n\r\n")?;
    Ok(far)
}

fn socks5(client: &mut TcpStream, login: Option<&Login>) -> io::Result<TcpStream> {
    let [5, count] = read(client)? else { return Err(refused("no SOCKS5")) };
    let methods = read_some(client, count)?;
    let method = if login.is_some() { 2 } else { 0 };
    if !methods.contains(&method) {
        client.write_all(&[5, 0xff])?;
        return Err(refused("no method of ours"));
    }
    client.write_all(&[5, method])?;
    if let Some((user, password)) = login {
        let [1, length] = read(client)? else { return Err(refused("no RFC 1929")) };
        let is_user = read_some(client, length)? == user.as_bytes();
        let [length] = read(client)?;
        let is_it = is_user & (read_some(client, length)? == password.as_bytes());
        client.write_all(&[1, u8::from(!is_it)])?;
        if !is_it {
            return Err(refused("not its credentials"));
        }
    }
    let [5, 1, 0, address_type] = read(client)? else { return Err(refused("no CONNECT")) };
    let host = match address_type {
        1 => Ipv4Addr::from(read::<4>(client)?).to_string(),
        3 => {
            let [length] = read(client)?;
            String::from_utf8(read_some(client, length)?).map_err(io::Error::other)?
        }
        _ => {
            client.write_all(&[5, 8, 0, 1, 0, 0, 0, 0, 0, 0])?;
            return Err(refused("another type of address"));
        }
    };
    let far = TcpStream::connect((host, u16::from_be_bytes(read(client)?)))?;
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    Ok(far)
}

fn read<const N: usize>(from: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).map(|()| bytes)
}

fn read_some(from: &mut TcpStream, count: u8) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; count.into()];
    from.read_exact(&mut bytes).map(|()| bytes)
}
