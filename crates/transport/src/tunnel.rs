//! A connection through a proxy, until the proxy has connected to the counterparty.
//!
//! Invariant: no byte after the proxy's answer is read, because it belongs to the counterparty.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::Stream;

/// Maximum length of an HTTP proxy's answer, in bytes.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// A connection to a proxy that has been requested to connect to a counterparty.
pub struct Tunnel {
    stream: Box<dyn Stream>,
    /// The bytes still to be written.
    out: Vec<u8>,
    /// The bytes of the proxy's answer in the current step.
    answer: Vec<u8>,
    step: Step,
}

enum Step {
    /// Waiting for the header of the answer to CONNECT.
    Http,
    /// Waiting for the proxy to choose the authentication method; `login` or `request` is sent
    /// next.
    Method { login: Vec<u8>, request: Vec<u8> },
    /// Waiting for the reply to username and password; `request` is sent next.
    Login { request: Vec<u8> },
    /// Waiting for the reply to the connect request.
    Reply,
}

impl Tunnel {
    /// Requests a connection to `to`, a `host:port`, from the HTTP proxy at the other end of
    /// `stream`. `login` is a username and a password.
    #[must_use]
    pub fn http(stream: Box<dyn Stream>, login: Option<(&str, &str)>, to: &str) -> Self {
        Self { stream, out: connect(to, login), answer: Vec::new(), step: Step::Http }
    }

    /// Requests a connection to `to`, a `host:port`, from the SOCKS 5 proxy at the other end of
    /// `stream`. `login` is a username and a password, of at most 255 bytes each.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if SOCKS has no form for `to`.
    pub fn socks5(
        stream: Box<dyn Stream>,
        login: Option<(&str, &str)>,
        to: &str,
    ) -> io::Result<Self> {
        let request = request(to)?;
        let out: &[u8] = if login.is_some() { &[5, 2, 0, 2] } else { &[5, 1, 0] };
        let login = login.map_or(Vec::new(), |(username, password)| {
            [&[1], &*with_length(username), &*with_length(password)].concat()
        });
        let step = Step::Method { login, request };
        Ok(Self { stream, out: out.to_vec(), answer: Vec::new(), step })
    }

    /// Continues the exchange with the proxy. Returns true when the counterparty is connected.
    ///
    /// # Errors
    /// If the proxy refuses, sends an invalid answer, or disconnects.
    pub fn advance(&mut self) -> io::Result<bool> {
        loop {
            while !self.out.is_empty() {
                match self.stream.write(&self.out) {
                    Ok(written) => drop(self.out.drain(..written)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
            let missing = self.missing();
            if missing == 0 {
                if self.take()? {
                    return Ok(true);
                }
                continue;
            }
            if self.answer.len() >= ANSWER_BYTES_MAX {
                return Err(no_answer("HTTP"));
            }
            let mut bytes = [0; 512];
            match self.stream.read(&mut bytes[..missing.min(512)]) {
                Ok(0) => {
                    let why = "the proxy closed the connection";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
                }
                Ok(read) => self.answer.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the stream; the next byte read comes from the counterparty.
    #[must_use]
    pub fn finish(self) -> Box<dyn Stream> {
        self.stream
    }

    /// Returns the minimum number of bytes that the answer still lacks; 0 if it is complete.
    fn missing(&self) -> usize {
        let length = match &self.step {
            // The header is read byte by byte, because bytes of the counterparty may follow.
            Step::Http if self.answer.ends_with(b"\r\n\r\n") => return 0,
            Step::Http => return 1,
            Step::Method { .. } | Step::Login { .. } => 2,
            // The reply consists of version, code, a zero, and the address from which the proxy has
            // connected.
            Step::Reply => match self.answer.get(3) {
                Some(1) => 10,
                Some(3) => self.answer.get(4).map_or(5, |length| 7 + usize::from(*length)),
                Some(4) => 22,
                Some(_) => 4,
                // A reply that refuses the connection may end after the code.
                None if self.answer.get(1).is_some_and(|reply| *reply != 0) => 2,
                None => 4,
            },
        };
        length.saturating_sub(self.answer.len())
    }

    /// Handles a complete answer. Returns true if it was the last answer.
    fn take(&mut self) -> io::Result<bool> {
        let answer = std::mem::take(&mut self.answer);
        match std::mem::replace(&mut self.step, Step::Reply) {
            Step::Http => {
                check_status(&answer)?;
                return Ok(true);
            }
            Step::Method { login, request } => match answer[..] {
                [5, 0] => self.out = request,
                [5, 2] if !login.is_empty() => {
                    (self.out, self.step) = (login, Step::Login { request });
                }
                [5, 0xff | 2] => {
                    return Err(refused(
                        "the proxy requires a username and a password, or another \
                                        login method",
                    ));
                }
                _ => return Err(no_answer("SOCKS 5")),
            },
            Step::Login { request } => match answer[..] {
                [1, 0] => self.out = request,
                [1, _] => {
                    return Err(refused(
                        "the proxy does not accept the username and the \
                    password",
                    ));
                }
                _ => return Err(no_answer("SOCKS 5")),
            },
            Step::Reply => match answer[..] {
                [5, 0, _, 1 | 3 | 4, ..] => return Ok(true),
                [5, reply, ..] if reply > 0 => return Err(refused(reply_text(reply))),
                _ => return Err(no_answer("SOCKS 5")),
            },
        }
        Ok(false)
    }
}

/// Returns an HTTP CONNECT request (RFC 9110, section 9.3.6).
fn connect(to: &str, login: Option<(&str, &str)>) -> Vec<u8> {
    let mut text = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
    if let Some((username, password)) = login {
        text += "Proxy-Authorization: Basic ";
        STANDARD.encode_string(format!("{username}:{password}"), &mut text);
        text += "\r\n";
    }
    (text + "\r\n").into_bytes()
}

fn check_status(head: &[u8]) -> io::Result<()> {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let is_http = line.starts_with(b"HTTP/1.0 ") || line.starts_with(b"HTTP/1.1 ");
    match line.get(9..12) {
        Some([b'2', ..]) if is_http => Ok(()),
        Some(_) if is_http => Err(refused(&line[9..].escape_ascii().to_string())),
        _ => Err(no_answer("HTTP")),
    }
}

/// Returns a SOCKS connect request (RFC 1928, section 4).
fn request(to: &str) -> io::Result<Vec<u8>> {
    let wrong = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{to} is not of the form \
        host:port"
            ),
        )
    };
    let (host, port) = to.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = match host.parse() {
        Ok(std::net::IpAddr::V4(address)) => [&[1], &address.octets()[..]].concat(),
        Ok(std::net::IpAddr::V6(address)) => [&[4], &address.octets()[..]].concat(),
        Err(_) if host.len() > 255 => return Err(wrong()),
        Err(_) => [&[3], &*with_length(host)].concat(),
    };
    Ok([&[5, 1, 0], &*address, &port.to_be_bytes()].concat())
}

/// Returns a text of at most 255 bytes, preceded by its length.
fn with_length(text: &str) -> Vec<u8> {
    let mut bytes = vec![text.len() as u8];
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// Returns the meaning of a SOCKS reply code (RFC 1928, section 6).
const fn reply_text(reply: u8) -> &'static str {
    match reply {
        1 => "it has failed",
        2 => "the rules of the proxy do not allow the connection",
        3 => "the proxy cannot reach the network",
        4 => "the proxy cannot reach the host",
        5 => "the counterparty refused the connection",
        6 => "the attempt to connect took too long",
        7 => "the proxy does not support the command",
        8 => "the proxy does not support this type of address",
        _ => "the proxy gave no known reason",
    }
}

fn refused(why: &str) -> io::Error {
    let why = format!("the proxy did not connect to the counterparty: {why}");
    io::Error::new(io::ErrorKind::ConnectionRefused, why)
}

fn no_answer(protocol: &str) -> io::Error {
    let why = format!("the proxy's answer is not valid {protocol}");
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use transfix_testkit::random::Random;

    use super::*;
    use crate::memory::pipe;

    const LOGIN: Option<(&str, &str)> = Some(("desk", "sesame"));

    fn http(stream: Box<dyn Stream>) -> Tunnel {
        Tunnel::http(stream, None, "b.example:9880")
    }

    fn socks5(stream: Box<dyn Stream>) -> Tunnel {
        Tunnel::socks5(stream, None, "b.example:9880").unwrap()
    }

    fn socks5_with_login(stream: Box<dyn Stream>) -> Tunnel {
        Tunnel::socks5(stream, LOGIN, "b.example:9880").unwrap()
    }

    /// Returns the result of a tunnel whose proxy sends this answer in pieces; `None` if the tunnel
    /// still waits.
    fn answered(
        open: fn(Box<dyn Stream>) -> Tunnel,
        pieces: &[&[u8]],
    ) -> Option<Result<(), String>> {
        let (near, mut far) = pipe(1 << 16);
        let mut tunnel = open(Box::new(near));
        for piece in pieces {
            match tunnel.advance() {
                Ok(true) => return Some(Ok(())),
                Ok(false) => assert_eq!(far.write(piece).unwrap(), piece.len()),
                Err(error) => return Some(Err(error.to_string())),
            }
        }
        match tunnel.advance() {
            Ok(is_done) => is_done.then_some(Ok(())),
            Err(error) => Some(Err(error.to_string())),
        }
    }

    #[test]
    fn an_answer_may_come_in_any_pieces_and_end_anywhere() {
        let bound: &[u8] = &[5, 0, 0, 4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        for (proxy, answer) in [
            (http as fn(_) -> _, &b"HTTP/1.0 200 Connection established\r\nServer: x\r\n\r\n"[..]),
            (socks5, &[&[5, 0], bound].concat()),
            (socks5_with_login, &[&[5, 2, 1, 0], bound].concat()),
            (socks5_with_login, &[&[5, 0], bound].concat()),
        ] {
            let bytes: Vec<_> = answer.chunks(1).collect();
            assert_eq!(answered(proxy, &bytes), Some(Ok(())));
            for end in 0..answer.len() {
                let (first, second) = answer.split_at(end);
                assert_eq!(answered(proxy, &[first]), None, "{end}");
                assert_eq!(answered(proxy, &[first, second]), Some(Ok(())), "{end}");
            }
        }
        let refused =
            |open: fn(_) -> _, answer: &[u8]| answered(open, &[answer]).unwrap().unwrap_err();
        assert!(refused(socks5, &[5, 0xff]).contains("requires a username"));
        assert!(refused(socks5_with_login, &[5, 2, 1, 7]).contains("does not accept the username"));
        assert!(refused(socks5, &[5, 0, 5, 5]).contains("the counterparty refused"));
        assert!(
            refused(http as fn(_) -> _, b"HTTP/1.1 407 Who?\x07\r\n\r\n").contains(": 407 Who?")
        );
        let endless = [&b"HTTP/1.1 200 OK\r\n"[..], &vec![b'x'; 1 << 15]].concat();
        assert!(refused(http as fn(_) -> _, &endless).contains("is not valid HTTP"));
    }

    #[test]
    fn no_answer_makes_it_panic() {
        let mut random = Random::new(7);
        for open in [http as fn(_) -> _, socks5, socks5_with_login] {
            for _ in 0..2_000 {
                let length = random.below(40);
                let likely = [5, 0, 1, 3, 4, 2, b'\r', b'\n', 255];
                let answer: Vec<u8> = (0..length)
                    .map(|_| match random.below(5) {
                        1.. => likely[random.below(likely.len())],
                        _ => random.below(256) as u8,
                    })
                    .collect();
                let _ = answered(open, &[&answer]);
            }
        }
    }
}
