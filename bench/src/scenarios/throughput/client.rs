//! The client: one thread with many sessions over plain sockets, which sends the same bytes to each
//! side under test.
//!
//! The client reads [`Task`]s from standard input, one per line, and prints one [`Load`] for each
//! task.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};
use transfix::clock::{self, monotonic_ns};

use super::orders::{self, Frames, Orders};

/// Time limit for an answer, in nanoseconds.
const PATIENCE_NS: u64 = 60_000_000_000;
/// Maximum number of overdue orders that are sent before reports are read again.
const SENT_AT_ONCE: u64 = 64;
/// Size of the read buffer in bytes.
const READ_BYTES: usize = 256 << 10;

/// A slice to measure, as requested by the parent process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum Task {
    /// Full speed: each session keeps `window` orders unanswered.
    Full { window: usize, ns: u64 },
    /// A fixed pace of `rate` orders per second over all sessions, which send in turn.
    Paced { rate: u64, ns: u64 },
}

/// The measurements of one slice.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Load {
    /// Number of answered orders, including those answered after the end of the measured time.
    pub(super) answered: u64,
    /// Number of orders answered within the measured time.
    pub(super) orders: u64,
    /// Length of the measured time in nanoseconds.
    pub(super) ns: u64,
    /// Times from order to report in nanoseconds, rounded to three digits, with their counts.
    pub(super) times: Vec<(u64, u64)>,
}

/// Connects, logs on all sessions, prints a line, and executes tasks until the input ends.
pub(super) fn run(address: &str, sessions: usize) -> Result<(), String> {
    let mut client = Client::log_on(address, sessions).map_err(|error| error.to_string())?;
    println!("{sessions} sessions are logged on");
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let task = serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
        let load = client.slice(task).map_err(|error| error.to_string())?;
        println!("{}", serde_json::to_string(&load).map_err(|error| error.to_string())?);
    }
    Ok(())
}

/// A session.
struct Session {
    stream: TcpStream,
    orders: Orders,
    answers: Frames,
    /// Planned sending times of the unanswered orders, oldest first.
    under_way: VecDeque<u64>,
}

struct Client {
    sessions: Vec<Session>,
    poll: OwnedFd,
    ready: Vec<epoll::Event>,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Client {
    fn log_on(address: &str, sessions: usize) -> io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut input = vec![0; READ_BYTES];
        let mut all = Vec::with_capacity(sessions);
        for n in 0..sessions {
            let mut stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(Duration::from_nanos(PATIENCE_NS)))?;
            let mut orders = Orders::between(&orders::client(n), orders::VENUE, None);
            stream.write_all(&orders.logon(clock::now().utc))?;
            let mut answers = Frames::default();
            while answers.count(read(&mut stream, &mut input)?)? == 0 {}
            stream.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(n as u64);
            epoll::add(&poll, &stream, data, epoll::EventFlags::IN)?;
            all.push(Session { stream, orders, answers, under_way: VecDeque::new() });
        }
        let ready = Vec::with_capacity(1_024);
        Ok(Self { sessions: all, poll, ready, input, output: Vec::new() })
    }

    fn slice(&mut self, task: Task) -> io::Result<Load> {
        let now = clock::now().utc;
        self.sessions.iter_mut().for_each(|session| session.orders.stamp(now));
        let mut times = Histogram::new_with_bounds(1, PATIENCE_NS, 3).map_err(io::Error::other)?;
        let (orders, answered, ns) = match task {
            Task::Full { window, ns } => self.full(window, ns, &mut times)?,
            Task::Paced { rate, ns } => self.paced(rate, ns, &mut times)?,
        };
        let seen = times.iter_recorded();
        let times = seen.map(|time| (time.value_iterated_to(), time.count_at_value())).collect();
        Ok(Load { answered, orders, ns, times })
    }

    fn full(
        &mut self,
        window: usize,
        ns: u64,
        times: &mut Histogram<u64>,
    ) -> io::Result<(u64, u64, u64)> {
        let begun = monotonic_ns();
        for n in 0..self.sessions.len() {
            self.send(n, window, monotonic_ns())?;
        }
        let (mut in_time, mut answered) = (0, 0);
        let mut under_way = window * self.sessions.len();
        let mut took = None;
        while under_way > 0 {
            let mut got = 0;
            for n in self.wait(true)? {
                let reports = self.receive(n, times)?;
                got += reports;
                if took.is_none() {
                    self.send(n, reports, monotonic_ns())?;
                    under_way += reports;
                }
            }
            under_way -= got;
            answered += got as u64;
            if took.is_none() {
                in_time = answered;
                took = Some(monotonic_ns() - begun).filter(|took| *took >= ns);
            }
        }
        Ok((in_time, answered, took.unwrap_or(ns)))
    }

    fn paced(
        &mut self,
        rate: u64,
        ns: u64,
        times: &mut Histogram<u64>,
    ) -> io::Result<(u64, u64, u64)> {
        let orders = (u128::from(rate) * u128::from(ns) / 1_000_000_000) as u64;
        let begun = monotonic_ns();
        let (mut sent, mut answered) = (0, 0);
        while answered < orders {
            let due = |i| begun + (u128::from(i) * 1_000_000_000 / u128::from(rate)) as u64;
            // Reports are read after `SENT_AT_ONCE` orders, even if more orders are overdue.
            let most = sent + SENT_AT_ONCE;
            while sent < orders.min(most) && due(sent) <= monotonic_ns() {
                self.send(sent as usize % self.sessions.len(), 1, due(sent))?;
                sent += 1;
            }
            for n in self.wait(sent == orders)? {
                answered += self.receive(n, times)? as u64;
            }
        }
        Ok((orders, orders, monotonic_ns() - begun))
    }

    /// Returns the sessions whose reports have arrived; waits for at least one if `patiently`.
    fn wait(&mut self, patiently: bool) -> io::Result<Vec<usize>> {
        let ns = if patiently { PATIENCE_NS } else { 0 };
        let time = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: 0 };
        self.ready.clear();
        epoll::wait(&self.poll, spare_capacity(&mut self.ready), Some(&time))?;
        if self.ready.is_empty() && patiently {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no report has come"));
        }
        Ok(self.ready.iter().map(|event| event.data.u64() as usize).collect())
    }

    /// Sends `orders` orders in session `n` whose planned sending time is `due_ns`.
    fn send(&mut self, n: usize, orders: usize, due_ns: u64) -> io::Result<()> {
        let session = &mut self.sessions[n];
        self.output.clear();
        for _ in 0..orders {
            session.orders.next(&mut self.output);
            session.under_way.push_back(due_ns);
        }
        let mut rest = &self.output[..];
        let give_up = monotonic_ns() + PATIENCE_NS;
        while !rest.is_empty() {
            if monotonic_ns() > give_up {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody reads the orders"));
            }
            match session.stream.write(rest) {
                Ok(n) => rest = &rest[n..],
                // The write is tried again soon: the unanswered orders of a session fit into the
                // socket buffers.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads the received bytes of session `n`. Returns the number of reports.
    fn receive(&mut self, n: usize, times: &mut Histogram<u64>) -> io::Result<usize> {
        let session = &mut self.sessions[n];
        let bytes = match read(&mut session.stream, &mut self.input) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            bytes => bytes?,
        };
        let now = monotonic_ns();
        let reports = session.answers.count(bytes)?;
        for _ in 0..reports {
            let Some(due) = session.under_way.pop_front() else {
                return Err(io::Error::other("a message without an order; see its protocol log"));
            };
            times.saturating_record(now.saturating_sub(due));
        }
        Ok(reports)
    }
}

fn read<'a>(stream: &mut TcpStream, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let n = stream.read(buffer)?;
    if n == 0 {
        let text = "the other side has closed a session";
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
    }
    Ok(&buffer[..n])
}
