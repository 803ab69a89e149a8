//! A counterparty over a plain socket, which sends only what the test tells it to send.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use transfix::{BeginString, Body, Message, Precision, clock, tag};
use transfix_codec::{CheckSumPolicy, FieldIndex, Frame, FrameWriter, Limits, frame};

use crate::stop::LONG;

/// A connection to the engine under test.
pub(crate) struct Counterparty {
    socket: TcpStream,
    begin_string: BeginString,
    name: String,
    next_num_out: u64,
    read: Vec<u8>,
}

impl Counterparty {
    /// Connects without sending anything.
    pub(crate) fn connect(to: SocketAddr, begin_string: BeginString, name: &str) -> Self {
        let socket = TcpStream::connect(to).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        Self { socket, begin_string, name: name.to_owned(), next_num_out: 1, read: Vec::new() }
    }

    /// Connects and logs on.
    pub(crate) fn log_on(to: SocketAddr, begin_string: BeginString, name: &str) -> Self {
        Self::log_on_at(to, begin_string, name, 1)
    }

    /// Connects and logs on with the MsgSeqNum(34) `seq`.
    pub(crate) fn log_on_at(
        to: SocketAddr,
        begin_string: BeginString,
        name: &str,
        seq: u64,
    ) -> Self {
        let mut party = Self::connect(to, begin_string, name);
        party.next_num_out = seq;
        party.logon();
        party.expect("A");
        party
    }

    /// Sends a Logon(A).
    pub(crate) fn logon(&mut self) {
        let fixt = self.begin_string == BeginString::Fixt11;
        self.send("A", |logon| {
            logon.uint(tag::ENCRYPT_METHOD, 0).uint(tag::HEART_BT_INT, 30);
            if fixt {
                logon.uint(tag::DEFAULT_APPL_VER_ID, 9);
            }
        });
    }

    /// Sends a message with the next number.
    pub(crate) fn send(&mut self, msg_type: &str, fill: impl FnOnce(&mut Body<'_>)) {
        let mut bytes = Vec::new();
        let begin_string = self.begin_string.as_str().as_bytes();
        let mut writer = FrameWriter::new(&mut bytes, begin_string, msg_type.as_bytes());
        writer.raw(format!("49={}\x0156=VENUE\x01", self.name).as_bytes());
        writer.header_uint(tag::MSG_SEQ_NUM, self.next_num_out);
        let precision = Precision::Seconds;
        writer.header_timestamp(tag::SENDING_TIME, clock::now().utc, precision);
        fill(writer.body(precision));
        writer.finish().unwrap();
        self.next_num_out += 1;
        self.write(&bytes);
    }

    /// Sends an order.
    pub(crate) fn order(&mut self, id: &str) {
        self.send("D", |order| _ = order.str(tag::CL_ORD_ID, id));
    }

    /// Sends these bytes unchanged.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// Reads the next message and checks its type. Returns its ClOrdID(11), or an empty string.
    pub(crate) fn expect(&mut self, msg_type: &str) -> String {
        let limits = Limits { message_bytes_max: 1 << 20 };
        loop {
            if let Frame::Whole(end) = frame::split(&self.read, limits) {
                let mut index = FieldIndex::default();
                let bytes: Vec<u8> = self.read.drain(..end).collect();
                let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Verify).unwrap();
                let text = bytes.escape_ascii();
                assert_eq!(message.msg_type(), msg_type, "{}: {text}", self.name);
                return message.text(tag::CL_ORD_ID).unwrap_or_default().to_owned();
            }
            let mut buffer = [0; 4096];
            let n = self.socket.read(&mut buffer).unwrap();
            assert!(n > 0, "{}: closed before {msg_type}", self.name);
            self.read.extend_from_slice(&buffer[..n]);
        }
    }

    /// Sends orders and receives a report for each.
    pub(crate) fn trade(&mut self, orders: usize) {
        for n in 0..orders {
            let id = format!("{}-{n}", self.name);
            self.order(&id);
            assert_eq!(self.expect("8"), id);
        }
    }

    /// Waits until the engine closes the connection.
    pub(crate) fn expect_close(&mut self) {
        match self.socket.read(&mut [0; 4096]) {
            Ok(0) => {}
            Ok(n) => panic!("{}: {n} bytes instead of the end", self.name),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{}", self.name),
        }
    }

    /// Closes the sending direction of the connection.
    pub(crate) fn end(&self) {
        self.socket.shutdown(Shutdown::Write).unwrap();
    }
}
