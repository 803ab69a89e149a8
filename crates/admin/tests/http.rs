//! An HTTP client over a raw socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Time limit for an answer.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// An HTTP answer: status, headers and body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks that the request succeeded; returns the JSON body.
    #[track_caller]
    pub(crate) fn good(self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// Checks that the request was refused with the status `status`; returns the reason.
    #[track_caller]
    pub(crate) fn refused(self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        self.json()["error"].as_str().expect("it says why").to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value)
    }
}

/// An HTTP client with a token, a login cookie, or no credentials.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) to: SocketAddr,
    pub(crate) headers: Vec<(String, String)>,
}

impl Client {
    pub(crate) fn new(to: SocketAddr) -> Self {
        Self { to, headers: Vec::new() }
    }

    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        other.headers.push((name.to_owned(), value.to_owned()));
        other
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, body)
    }

    pub(crate) fn put(&self, path: &str, body: &str) -> Answer {
        self.ask("PUT", path, body)
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, "")
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: &str) -> String {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.to);
        text += "Connection: close\r\nContent-Type: application/json\r\n";
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text + &format!("Content-Length: {}\r\n\r\n{body}", body.len())
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        let mut socket = TcpStream::connect(self.to).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        socket.write_all(self.request(method, path, body).as_bytes()).unwrap();
        answer(&mut socket)
    }

    /// Logs in; returns a client with the login cookie and the CSRF header.
    pub(crate) fn logged_in(&self, name: &str, password: &str) -> Self {
        let body = format!("{{\"name\":\"{name}\",\"password\":\"{password}\"}}");
        let answer = self.post("/api/login", &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        let cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let csrf = answer.json()["csrf"].as_str().unwrap().to_owned();
        self.with("Cookie", &cookie).with("X-CSRF-Token", &csrf)
    }
}

/// Reads an answer until the server closes the connection.
pub(crate) fn answer(socket: &mut impl Read) -> Answer {
    let mut bytes = Vec::new();
    // The read may fail at the end, because a server that has sent `Connection: close` may omit the
    // `close_notify` of TLS.
    let _ = socket.read_to_end(&mut bytes);
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}
