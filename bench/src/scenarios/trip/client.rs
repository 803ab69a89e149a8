//! The common client: one thread with a plain socket that measures the acceptors of all engines, so
//! that only the acceptor differs. The client spins, so that no wake-up of its thread is measured.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use transfix::clock::{self, monotonic_ns};

use super::super::throughput::{Orders, frame_length};
use super::ours::{Times, obey};
use super::pace::Pace;
use super::process::Task;

/// Time limit for an answer, in nanoseconds.
const PATIENCE_NS: u64 = 30_000_000_000;

/// Logs on, prints a line, and executes tasks until standard input ends.
pub(super) fn run(
    address: &str,
    orders: Orders,
    answer_type: &str,
    rate: Option<u64>,
) -> Result<(), String> {
    let client = Client::log_on(address, orders, answer_type, rate);
    let mut client = client.map_err(|error| format!("logon at {address}: {error}"))?;
    println!("logged on");
    obey(|task| client.slice(task).map_err(|error| error.to_string()))
}

struct Client {
    stream: TcpStream,
    orders: Orders,
    /// The start of an answer after its BodyLength(9), such as `35=8|`.
    answer_type: Vec<u8>,
    rate: Option<u64>,
    /// Received bytes, and the number of processed bytes.
    input: Vec<u8>,
    taken: usize,
    order: Vec<u8>,
}

impl Client {
    fn log_on(
        address: &str,
        mut orders: Orders,
        answer_type: &str,
        rate: Option<u64>,
    ) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_nanos(PATIENCE_NS)))?;
        stream.write_all(&orders.logon(clock::now().utc))?;
        let answer_type = format!("35={answer_type}\x01").into_bytes();
        let (input, order) = (Vec::with_capacity(1 << 16), Vec::new());
        let mut client = Self { stream, orders, answer_type, rate, input, taken: 0, order };
        client.answer(b"35=A\x01")?;
        client.stream.set_nonblocking(true)?;
        Ok(client)
    }

    fn slice(&mut self, task: Task) -> io::Result<Times> {
        self.orders.stamp(clock::now().utc);
        self.round_trips(task.warm_up)?;
        self.round_trips(task.orders)
    }

    fn round_trips(&mut self, n: usize) -> io::Result<Times> {
        let (mut sent_at, mut times) = (Vec::with_capacity(n), Times::default());
        let answer_type = self.answer_type.clone();
        let pace = self.rate.map(Pace::start);
        while times.ns.len() < n {
            let sent = sent_at.len();
            let is_due = match pace {
                Some(pace) => sent < n && pace.is_due(sent),
                None => sent == times.ns.len(),
            };
            if is_due {
                if let Some(pace) = pace {
                    times.late_ns.push(pace.late_ns(sent));
                }
                sent_at.push(monotonic_ns());
                self.send()?;
            }
            if self.read()? {
                while self.next(&answer_type)? {
                    let begun = sent_at[times.ns.len()];
                    times.ns.push(monotonic_ns().saturating_sub(begun));
                }
            } else if let Some(last) = sent_at.last()
                && monotonic_ns().saturating_sub(*last) > PATIENCE_NS
            {
                let text = format!("{} of {sent} answers came", times.ns.len());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
        }
        Ok(times)
    }

    fn send(&mut self) -> io::Result<()> {
        self.order.clear();
        self.orders.next(&mut self.order);
        let mut rest = &self.order[..];
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(n) => rest = &rest[n..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads received bytes. Returns false if none had arrived.
    fn read(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the session was closed")),
            Ok(n) => {
                self.input.extend_from_slice(&bytes[..n]);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Processes the next complete message. Skips a Heartbeat(0); any other type than `msg_type` is
    /// an error. Returns false if no message is complete.
    fn next(&mut self, msg_type: &[u8]) -> io::Result<bool> {
        loop {
            let rest = &self.input[self.taken..];
            let Some(length) = frame_length(rest)?.filter(|length| *length <= rest.len()) else {
                if rest.is_empty() {
                    self.input.clear();
                    self.taken = 0;
                }
                return Ok(false);
            };
            let frame = &rest[..length];
            self.taken += length;
            // MsgType(35) is the third field.
            let third = frame.splitn(3, |byte| *byte == 1).nth(2).unwrap_or_default();
            if third.starts_with(msg_type) {
                return Ok(true);
            }
            if !third.starts_with(b"35=0\x01") {
                let text =
                    format!("it sent {}", String::from_utf8_lossy(frame).replace('\x01', "|"));
                return Err(io::Error::other(text));
            }
        }
    }

    /// Waits for a message of type `msg_type`.
    fn answer(&mut self, msg_type: &[u8]) -> io::Result<()> {
        while !self.next(msg_type)? {
            if !self.read()? {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer"));
            }
        }
        Ok(())
    }
}
