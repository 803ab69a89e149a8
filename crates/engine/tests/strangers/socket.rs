//! A plain socket that can write any bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use transfix::{Precision, clock, tag};
use transfix_codec::{Frame, FrameWriter, Limits, frame};

/// A time limit that suffices on the slowest machine.
const LONG: Duration = Duration::from_secs(300);

pub(crate) struct Socket {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Socket {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        Self::of(TcpStream::connect(to).unwrap())
    }

    /// Connects from another address of this machine.
    pub(crate) fn connect_from(from: &str, to: SocketAddr) -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        let from: SocketAddr = format!("{from}:0").parse().unwrap();
        socket.bind(&from.into()).unwrap();
        socket.connect(&to.into()).unwrap();
        Self::of(socket.into())
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, read: Vec::new() }
    }

    /// Returns a valid message from `client` to the venue, with the additional fields `rest`.
    pub(crate) fn frame(&self, client: &str, msg_type: &str, seq: u64, rest: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type.as_bytes());
        frame.raw(format!("49={client}\x0156=VENUE\x01").as_bytes());
        frame.header_uint(tag::MSG_SEQ_NUM, seq);
        frame.header_timestamp(tag::SENDING_TIME, clock::now().utc, Precision::Millis);
        frame.raw(rest.as_bytes());
        frame.finish().unwrap();
        out
    }

    pub(crate) fn log_on(&mut self, client: &str) {
        let logon = self.logon(client);
        self.write(&logon);
    }

    pub(crate) fn logon(&self, client: &str) -> Vec<u8> {
        // The Logon(A) resets the numbers, because earlier connections of the test have used the
        // session.
        self.frame(client, "A", 1, "98=0\x01108=30\x01141=Y\x01")
    }

    /// Logs out and waits for the end of the connection.
    pub(crate) fn log_out(self, client: &str) {
        self.log_out_at(client, 2);
    }

    /// Logs out with the number `seq`, and waits for the end of the connection.
    pub(crate) fn log_out_at(mut self, client: &str, seq: u64) {
        let logout = self.frame(client, "5", seq, "");
        self.write(&logout);
        while !self.next().is_empty() {}
    }

    /// Sends these bytes unchanged. Has no effect on a closed connection.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if let Err(error) = self.stream.write_all(bytes) {
            let closed = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
            assert!(closed.contains(&error.kind()), "not sent: {error}");
        }
    }

    /// Returns the next message, or an empty string at the end of the stream.
    pub(crate) fn next(&mut self) -> String {
        loop {
            if let Frame::Whole(end) = frame::split(&self.read, Limits::default()) {
                let bytes: Vec<u8> = self.read.drain(..end).collect();
                return String::from_utf8_lossy(&bytes).into_owned();
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return String::new(),
                Ok(n) => self.read.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return String::new(),
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    /// Reads and discards all available bytes.
    pub(crate) fn skim(&mut self) {
        self.stream.set_nonblocking(true).unwrap();
        let mut buffer = [0; 65_536];
        while matches!(self.stream.read(&mut buffer), Ok(1..)) {}
        self.stream.set_nonblocking(false).unwrap();
    }

    /// Closes the sending direction, and reads until the engine closes the connection.
    pub(crate) fn end(&mut self) {
        // An error is ignored, because the connection may already be closed.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        while !self.next().is_empty() {}
    }
}
