//! The client of the router: one thread with plain sockets that sends and receives. The client
//! measures, and checks that each message arrives once and in order.

use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};
use transfix::clock::{self, monotonic_ns};
use transfix::{Message, Tag, tag};
use transfix_codec::{CheckSumPolicy, FieldIndex};

use super::super::throughput::{Orders, frame_length};

/// SenderCompID(49) of the router.
pub(super) const ROUTER: &str = "ROUTER";
/// ClientID(109), which contains the number of the sender.
const CLIENT_ID: Tag = Tag(109);
/// Time limit in nanoseconds for messages in transit after the last message was sent.
const PATIENCE_NS: u64 = 5_000_000_000;
/// A median transit time above this limit, in nanoseconds, shows that messages wait in a queue.
const QUEUED_NS: u64 = 1_000_000;

/// Returns the SenderCompID(49) of sending session `n`.
pub(super) fn sender(n: usize) -> String {
    format!("S{n}")
}

/// Returns the SenderCompID(49) of receiving session `n`.
pub(super) fn receiver(n: usize) -> String {
    format!("R{n}")
}

/// A slice to measure, as requested by the parent process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) senders: usize,
    pub(super) receivers: usize,
    /// Messages per second of each sender; all senders send at the same time.
    pub(super) rate: u64,
    pub(super) ns: u64,
    /// True if the slice ends early when the queue grows.
    pub(super) gives_up: bool,
}

/// The measurements.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Load {
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Number of messages that arrived twice or were never sent.
    pub(super) wrong: u64,
    pub(super) out_of_order: u64,
    /// Number of received messages, by receiver.
    pub(super) shares: Vec<u64>,
    /// True if the router sustained the rate without a growing queue.
    pub(super) kept_up: bool,
    /// Half of the time from write to arrival in nanoseconds, rounded to three digits, with the
    /// counts.
    pub(super) half_trips: Vec<(u64, u64)>,
}

/// Logs on all sessions, prints a line, and executes tasks until the input ends.
pub(super) fn run(address: &str, senders: usize, receivers: usize) -> Result<(), String> {
    let client = Client::log_on(address, senders, receivers);
    let mut client = client.map_err(|error| format!("logon at {address}: {error}"))?;
    println!("logged on");
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let task = serde_json::from_str(&line).map_err(|error| format!("{line}: {error}"))?;
        let load = client.slice(task).map_err(|error| error.to_string())?;
        println!("{}", serde_json::to_string(&load).map_err(|error| error.to_string())?);
    }
    Ok(())
}

/// A sending session.
struct Sender {
    stream: TcpStream,
    orders: Orders,
    /// ClOrdID(11) of the sender's first message in the slice.
    first: u64,
    /// Write time of each message in the slice; 0 after the message has arrived.
    sent_at: Vec<u64>,
}

/// A receiving session.
struct Receiver {
    stream: TcpStream,
    input: Vec<u8>,
    /// ClOrdID(11) of the latest received message, by sender.
    last: Vec<u64>,
}

struct Client {
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    poll: OwnedFd,
    ready: Vec<epoll::Event>,
    index: FieldIndex,
    output: Vec<u8>,
}

impl Client {
    fn log_on(address: &str, senders: usize, receivers: usize) -> io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let log_on = |name: &str, client: Option<&str>| -> io::Result<(TcpStream, Orders)> {
            let mut stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(Duration::from_nanos(PATIENCE_NS)))?;
            let mut orders = Orders::between(name, ROUTER, client);
            stream.write_all(&orders.logon(clock::now().utc))?;
            let mut input = Vec::new();
            while frame_length(&input)?.is_none_or(|length| input.len() < length) {
                let mut bytes = [0; 512];
                let n = stream.read(&mut bytes)?;
                if n == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                input.extend_from_slice(&bytes[..n]);
            }
            stream.set_nonblocking(true)?;
            Ok((stream, orders))
        };
        let mut client = Self {
            senders: Vec::new(),
            receivers: Vec::new(),
            poll,
            ready: Vec::with_capacity(64),
            index: FieldIndex::default(),
            output: Vec::new(),
        };
        for n in 0..receivers {
            let (stream, _) = log_on(&receiver(n), None)?;
            let data = epoll::EventData::new_u64(n as u64);
            epoll::add(&client.poll, &stream, data, epoll::EventFlags::IN)?;
            let last = vec![0; senders];
            client.receivers.push(Receiver { stream, input: Vec::new(), last });
        }
        for n in 0..senders {
            let (stream, orders) = log_on(&sender(n), Some(&sender(n)))?;
            client.senders.push(Sender { stream, orders, first: 0, sent_at: Vec::new() });
        }
        Ok(client)
    }

    fn slice(&mut self, task: Task) -> io::Result<Load> {
        let now = clock::now().utc;
        for sender in &mut self.senders {
            sender.orders.stamp(now);
            sender.first = sender.orders.next_number();
            sender.sent_at.clear();
        }
        let mut load = Load { shares: vec![0; task.receivers], ..Load::default() };
        let mut times = Histogram::new_with_bounds(1, PATIENCE_NS, 3).map_err(io::Error::other)?;
        let each = (u128::from(task.rate) * u128::from(task.ns) / 1_000_000_000).max(1) as usize;
        let begun = monotonic_ns();
        let due = |i: usize| begun + i as u64 * 1_000_000_000 / task.rate;
        let (mut ticks, mut deadline) = (0, u64::MAX);
        let all = (each * task.senders) as u64;
        while load.received < all {
            let now = monotonic_ns();
            if ticks < each && due(ticks) <= now {
                // If several messages are overdue, each session sends them in one write.
                let late = (now - due(ticks)) * task.rate / 1_000_000_000;
                let n = (late as usize + 1).min(each - ticks);
                for sender in 0..task.senders {
                    self.send(sender, n, (&mut load, &mut times))?;
                    self.receive(&mut load, &mut times)?;
                }
                load.sent += (n * task.senders) as u64;
                ticks += n;
                if ticks == each {
                    deadline = monotonic_ns() + PATIENCE_NS;
                }
            }
            self.receive(&mut load, &mut times)?;
            let is_queued = load.sent.saturating_sub(load.received) > all / 4 + 1_000;
            if now > deadline || (task.gives_up && is_queued) {
                break;
            }
        }
        let took = monotonic_ns() - begun;
        if load.received < load.sent {
            self.drain(&mut load, &mut times)?;
        }
        load.kept_up = took < task.ns + task.ns / 10 + 10_000_000
            && times.value_at_quantile(0.5) < QUEUED_NS
            && ticks == each;
        load.wrong += load.sent - load.received.min(load.sent);
        let seen = times.iter_recorded();
        load.half_trips =
            seen.map(|time| (time.value_iterated_to(), time.count_at_value())).collect();
        Ok(load)
    }

    /// Reads the messages in transit, so that they do not disturb the next slice.
    fn drain(&mut self, load: &mut Load, times: &mut Histogram<u64>) -> io::Result<()> {
        let deadline = monotonic_ns() + PATIENCE_NS;
        while load.received < load.sent && monotonic_ns() < deadline {
            self.receive(load, times)?;
        }
        Ok(())
    }

    fn send(
        &mut self,
        n: usize,
        messages: usize,
        (load, times): (&mut Load, &mut Histogram<u64>),
    ) -> io::Result<()> {
        let sender = &mut self.senders[n];
        self.output.clear();
        for _ in 0..messages {
            sender.orders.next(&mut self.output);
        }
        let at = monotonic_ns();
        sender.sent_at.extend(std::iter::repeat_n(at, messages));
        let (deadline, mut written) = (at + PATIENCE_NS, 0);
        while written < self.output.len() {
            match self.senders[n].stream.write(&self.output[written..]) {
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if monotonic_ns() > deadline {
                        let text = "the router does not read what was sent";
                        return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                    }
                    // The router may not read before its own output is read, so received messages
                    // are read here.
                    self.receive(load, times)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive(&mut self, load: &mut Load, times: &mut Histogram<u64>) -> io::Result<()> {
        self.ready.clear();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&self.poll, spare_capacity(&mut self.ready), Some(&at_once))?;
        let Self { senders, receivers, ready, index, .. } = self;
        for event in ready.iter() {
            let n = event.data.u64() as usize;
            let Receiver { stream, input, last } = &mut receivers[n];
            let mut bytes = [0; 16 << 10];
            match stream.read(&mut bytes) {
                Ok(0) => return Err(io::Error::other("the router has closed a session")),
                Ok(read) => input.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
            let now = monotonic_ns();
            let mut taken = 0;
            while let Some(length) = frame_length(&input[taken..])?
                && input.len() - taken >= length
            {
                let frame = &input[taken..taken + length];
                taken += length;
                let Some((sender, seq)) = who(frame, index)? else { continue };
                // Skips a message from an earlier slice that ended early.
                let Some(place) = seq.checked_sub(senders[sender].first) else { continue };
                load.received += 1;
                if let Some(share) = load.shares.get_mut(n) {
                    *share += 1;
                }
                load.out_of_order += u64::from(seq <= last[sender]);
                last[sender] = last[sender].max(seq);
                let sender = &mut senders[sender];
                match sender.sent_at.get_mut(place as usize) {
                    Some(at) if *at > 0 => {
                        times.saturating_record(now.saturating_sub(*at) / 2);
                        *at = 0;
                    }
                    // The message arrived before, or was never sent.
                    _ => load.wrong += 1,
                }
            }
            input.drain(..taken);
        }
        Ok(())
    }
}

/// Returns the sender's number of a routed message, and its ClOrdID(11); `None` for a message of
/// the session layer.
fn who(frame: &[u8], index: &mut FieldIndex) -> io::Result<Option<(usize, u64)>> {
    let said = || io::Error::other(String::from_utf8_lossy(frame).replace('\x01', "|"));
    let message = Message::parse(frame, index, CheckSumPolicy::Verify).map_err(|_| said())?;
    match message.msg_type().as_bytes() {
        b"D" => {}
        b"0" => return Ok(None),
        _ => return Err(said()),
    }
    let sender = message.raw(CLIENT_ID).and_then(|id| std::str::from_utf8(id.get(1..)?).ok());
    let sender = sender.and_then(|n| n.parse().ok()).ok_or_else(said)?;
    let seq = message.uint(tag::CL_ORD_ID).map_err(|_| said())?;
    Ok(Some((sender, seq)))
}
