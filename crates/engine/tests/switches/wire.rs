//! A counterparty over a plain socket, which sends and receives lines such as `35=0|34=2`.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use transfix::{BeginString, Message, Precision, clock, tag};
use transfix_codec::{CheckSumPolicy, FieldIndex, Frame, FrameWriter, Limits, frame};

use crate::switches::LONG;

/// A connection to the engine under test. The engine is `VENUE`, and the counterparty is `CLIENT`.
pub(crate) struct Wire {
    socket: TcpStream,
    begin_string: BeginString,
    read: Vec<u8>,
}

impl Wire {
    pub(crate) fn connect(to: SocketAddr, begin_string: BeginString) -> Self {
        Self::of(TcpStream::connect(to).unwrap(), begin_string)
    }

    /// Returns the counterparty's end of a connection that the engine has opened.
    pub(crate) fn of(socket: TcpStream, begin_string: BeginString) -> Self {
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        Self { socket, begin_string, read: Vec::new() }
    }

    /// Sends `35=..|34=..|rest`.
    pub(crate) fn send(&mut self, line: &str) {
        let frame = self.frame(line);
        self.write(&frame);
    }

    pub(crate) fn frame(&self, line: &str) -> Vec<u8> {
        let (msg_type, rest) = line.split_once('|').unwrap();
        let mut out = Vec::new();
        let begin_string = self.begin_string.as_str().as_bytes();
        let mut frame = FrameWriter::new(&mut out, begin_string, &msg_type.as_bytes()[3..]);
        if !rest.contains("49=") {
            frame.raw(b"49=CLIENT\x01");
        }
        frame.raw(b"56=VENUE\x01");
        frame.header_timestamp(tag::SENDING_TIME, clock::now().utc, Precision::Seconds);
        for field in rest.split('|') {
            frame.raw(field.as_bytes());
            frame.raw(b"\x01");
        }
        frame.finish().unwrap();
        out
    }

    /// Sends these bytes unchanged. Has no effect on a closed connection.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        if let Err(error) = self.socket.write_all(bytes) {
            let closed = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
            assert!(closed.contains(&error.kind()), "not sent: {error}");
        }
    }

    /// Closes the sending direction.
    pub(crate) fn end(&self) {
        self.socket.shutdown(std::net::Shutdown::Write).unwrap();
    }

    /// Returns the next message without framing, CompIDs and SendingTime(52), or an empty string at
    /// the end of the stream.
    pub(crate) fn next(&mut self) -> String {
        let bytes = self.next_frame();
        if bytes.is_empty() {
            return String::new();
        }
        let mut index = FieldIndex::default();
        let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
        let shown = message.fields().filter(|f| ![8, 9, 49, 56, 52, 10].contains(&f.tag.0));
        let fields: Vec<_> =
            shown.map(|f| format!("{}={}", f.tag, f.value.escape_ascii())).collect();
        fields.join("|")
    }

    /// Returns the bytes of the next message, or none at the end of the stream.
    pub(crate) fn next_frame(&mut self) -> Vec<u8> {
        loop {
            if let Frame::Whole(end) = frame::split(&self.read, Limits::default()) {
                return self.read.drain(..end).collect();
            }
            let mut buffer = [0; 4096];
            match self.socket.read(&mut buffer) {
                Ok(0) => return Vec::new(),
                Ok(n) => self.read.extend_from_slice(&buffer[..n]),
                // The engine has closed the connection with unread bytes, which resets it.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Vec::new(),
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }
}
