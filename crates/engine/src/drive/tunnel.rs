//! A connection through a proxy, until the proxy has put it through.
//!
//! Invariant: no byte is read that comes behind the proxy's answer.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use transfix_codec::shown::Shown;
use transfix_session::Secret;
use transfix_settings::{ProxyKind, ProxySettings};
use transfix_transport::Stream;

/// Longest answer of an HTTP proxy.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// A connection to a proxy that is asked for one to a counterparty.
pub(crate) struct Tunnel {
    stream: Box<dyn Stream>,
    /// The bytes still to be written.
    out: Vec<u8>,
    /// The bytes of the proxy since the last step.
    answer: Vec<u8>,
    step: Step,
}

enum Step {
    /// The head of the answer to CONNECT.
    Http,
    /// Which way of authentication the proxy wants, of those offered; then `Login` or `Request`.
    Method { login: Vec<u8>, request: Vec<u8> },
    /// The reply to the password.
    Login { request: Vec<u8> },
    /// The reply to the request to connect.
    Reply,
}

impl Tunnel {
    /// Asks the proxy at the other end of `stream` for a connection to `to`, a `host:port`.
    ///
    /// # Errors
    /// If SOCKS has no form for the name.
    pub(crate) fn open(
        stream: Box<dyn Stream>,
        proxy: &ProxySettings,
        to: &str,
    ) -> io::Result<Self> {
        let login = proxy
            .username
            .as_deref()
            .map(|username| (username, proxy.password.as_ref().map_or("", Secret::reveal)));
        let (out, step) = match proxy.kind {
            ProxyKind::Http => (connect(to, login), Step::Http),
            ProxyKind::Socks5 => {
                let request = request(to)?;
                let methods: &[u8] = if login.is_some() { &[5, 2, 0, 2] } else { &[5, 1, 0] };
                let login = login.map_or(Vec::new(), |(username, password)| {
                    [&[1], &*with_length(username), &*with_length(password)].concat()
                });
                (methods.to_vec(), Step::Method { login, request })
            }
        };
        Ok(Self { stream, out, answer: Vec::new(), step })
    }

    /// Goes on. Returns whether the counterparty is at the other end now.
    ///
    /// # Errors
    /// If the proxy refuses, says what is no answer, or is gone.
    pub(crate) fn advance(&mut self) -> io::Result<bool> {
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
                    let why = "the proxy has closed the connection";
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
                }
                Ok(read) => self.answer.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn finish(self) -> Box<dyn Stream> {
        self.stream
    }

    /// How many bytes the answer lacks at least; 0 if it is whole.
    fn missing(&self) -> usize {
        let length = match &self.step {
            // One at a time: what follows may be the counterparty's.
            Step::Http if self.answer.ends_with(b"\r\n\r\n") => return 0,
            Step::Http => return 1,
            Step::Method { .. } | Step::Login { .. } => 2,
            // Version, reply, a zero, and the address where the proxy has connected from.
            Step::Reply => match self.answer.get(3) {
                Some(1) => 10,
                Some(3) => self.answer.get(4).map_or(5, |length| 7 + usize::from(*length)),
                Some(4) => 22,
                Some(_) => 4,
                // A refusal may end after it.
                None if self.answer.get(1).is_some_and(|reply| *reply != 0) => 2,
                None => 4,
            },
        };
        length.saturating_sub(self.answer.len())
    }

    /// Looks at a whole answer. Returns whether it was the last.
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
                    return Err(refused("it wants a username and a password, or other ones"));
                }
                _ => return Err(no_answer("SOCKS 5")),
            },
            Step::Login { request } => match answer[..] {
                [1, 0] => self.out = request,
                [1, _] => return Err(refused("it does not take the username and the password")),
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

/// RFC 9110, section 9.3.6.
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
        Some(_) if is_http => Err(refused(&Shown::new(&line[9..]).to_string())),
        _ => Err(no_answer("HTTP")),
    }
}

/// RFC 1928, section 4.
fn request(to: &str) -> io::Result<Vec<u8>> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, format!("{to} is no host:port"));
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

/// A text of 255 bytes at most, behind its length.
fn with_length(text: &str) -> Vec<u8> {
    let mut bytes = vec![text.len() as u8];
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// RFC 1928, section 6.
const fn reply_text(reply: u8) -> &'static str {
    match reply {
        1 => "it has failed",
        2 => "its rules do not allow the connection",
        3 => "the network is not to be reached",
        4 => "the host is not to be reached",
        5 => "the counterparty has refused the connection",
        6 => "it has taken too long",
        7 => "it does not know the command",
        8 => "it does not know such addresses",
        _ => "it gives no known reason",
    }
}

fn refused(why: &str) -> io::Error {
    let why = format!("the proxy has not put the connection through: {why}");
    io::Error::new(io::ErrorKind::ConnectionRefused, why)
}

fn no_answer(protocol: &str) -> io::Error {
    let why = format!("what the proxy says is no answer of {protocol}");
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use transfix_testkit::random::Random;
    use transfix_transport::memory::pipe;

    use super::*;

    /// Returns the result for an answer in pieces; `None` if the tunnel still waits.
    fn answered(proxy: &ProxySettings, pieces: &[&[u8]]) -> Option<Result<(), String>> {
        let (near, mut far) = pipe(1 << 16);
        let mut tunnel = Tunnel::open(Box::new(near), proxy, "b.example:9880").unwrap();
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
        let mut login = ProxySettings::new(ProxyKind::Socks5, "p.example:1080");
        login.username = Some("desk".to_owned());
        login.password = Some(Secret::new("sesame".to_owned()));
        let http = ProxySettings::new(ProxyKind::Http, "p.example:3128");
        let socks = ProxySettings::new(ProxyKind::Socks5, "p.example:1080");
        let bound: &[u8] = &[5, 0, 0, 4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        for (proxy, answer) in [
            (&http, &b"HTTP/1.0 200 Connection established\r\nServer: x\r\n\r\n"[..]),
            (&socks, &[&[5, 0], bound].concat()),
            (&login, &[&[5, 2, 1, 0], bound].concat()),
            (&login, &[&[5, 0], bound].concat()),
        ] {
            let bytes: Vec<_> = answer.chunks(1).collect();
            assert_eq!(answered(proxy, &bytes), Some(Ok(())));
            for end in 0..answer.len() {
                let (first, second) = answer.split_at(end);
                assert_eq!(answered(proxy, &[first]), None, "{end}");
                assert_eq!(answered(proxy, &[first, second]), Some(Ok(())), "{end}");
            }
        }
        let refused = |proxy, answer: &[u8]| answered(proxy, &[answer]).unwrap().unwrap_err();
        assert!(refused(&socks, &[5, 0xff]).contains("wants a username"));
        assert!(refused(&login, &[5, 2, 1, 7]).contains("does not take the username"));
        assert!(refused(&socks, &[5, 0, 5, 5]).contains("the counterparty has refused"));
        assert!(refused(&http, b"HTTP/1.1 407 Who?\x07\r\n\r\n").contains(": 407 Who?"));
        let endless = [&b"HTTP/1.1 200 OK\r\n"[..], &vec![b'x'; 1 << 15]].concat();
        assert!(refused(&http, &endless).contains("no answer of HTTP"));
    }

    #[test]
    fn no_answer_makes_it_panic() {
        let mut random = Random::new(7);
        for kind in [ProxyKind::Http, ProxyKind::Socks5] {
            let mut proxy = ProxySettings::new(kind, "p.example:1");
            for _ in 0..2_000 {
                proxy.username = (random.below(2) == 0).then(|| "desk".to_owned());
                let length = random.below(40);
                let likely = [5, 0, 1, 3, 4, 2, b'\r', b'\n', 255];
                let answer: Vec<u8> = (0..length)
                    .map(|_| match random.below(5) {
                        1.. => likely[random.below(likely.len())],
                        _ => random.below(256) as u8,
                    })
                    .collect();
                let _ = answered(&proxy, &[&answer]);
            }
        }
    }
}
