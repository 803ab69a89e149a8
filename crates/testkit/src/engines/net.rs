//! The simulated network: listeners, connections, and bytes in transit.
//!
//! The network reports readiness like edge-triggered epoll: once for each change, and at
//! registration if the end is ready already. Invariant: the bytes of one direction arrive in order
//! and without loss until the connection ends.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::io;
use std::net::SocketAddr;

use transfix::simulated::io::Ready;
use transfix_transport::{Interest, Token};

use super::machine::MS;
use crate::random::Random;

/// An item in transit to the reader of a connection.
#[derive(Debug)]
enum Packet {
    Bytes(Vec<u8>),
    /// The sender has shut down its direction.
    Fin,
    /// The connection is reset; unread bytes are lost.
    Reset,
}

#[derive(Debug)]
enum Event {
    Arrives,
    /// A connection attempt reaches this listening address.
    Connects(SocketAddr),
}

/// The state of a connection attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Connecting,
    Up,
    Refused,
}

/// An end of a connection; the two ends of a connection have adjacent indexes.
struct End {
    process: usize,
    phase: Phase,
    flight: VecDeque<(u64, Packet)>,
    inbox: VecDeque<u8>,
    has_fin: bool,
    is_reset: bool,
    /// True while the process has not closed this end.
    is_open: bool,
    has_shut_down: bool,
    wants_room: bool,
    registered: Option<(usize, Token, Interest)>,
}

/// A listening socket and its unaccepted connections.
struct Listening {
    process: usize,
    waiting: VecDeque<usize>,
    registered: Option<(usize, Token)>,
}

/// The delays, buffer sizes and short reads of the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct NetworkConditions {
    pub(super) delay_ms_max: usize,
    pub(super) capacity: usize,
    /// The odds of a short read or write: one in `short_one_in`.
    pub(super) short_one_in: usize,
}

/// The network.
pub(super) struct Net {
    random: Random,
    pub(super) weather: NetworkConditions,
    /// True if the connections carry records, as in TLS.
    pub(super) has_records: bool,
    ends: Vec<End>,
    listeners: BTreeMap<SocketAddr, Listening>,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    what: BTreeMap<u64, (usize, Event)>,
    next_event: u64,
    /// Connections that silently deliver nothing any more.
    dead: Vec<usize>,
    /// The readiness events that the next call of `advance` returns.
    told: Told,
}

/// Readiness events, each with the index of the connection's end.
type Told = Vec<(usize, Ready)>;

impl Net {
    pub(super) fn new(random: Random) -> Self {
        let weather = NetworkConditions { delay_ms_max: 1, capacity: 1 << 16, short_one_in: 0 };
        Self {
            random,
            weather,
            has_records: false,
            ends: Vec::new(),
            listeners: BTreeMap::new(),
            events: BinaryHeap::new(),
            what: BTreeMap::new(),
            next_event: 0,
            dead: Vec::new(),
            told: Vec::new(),
        }
    }

    fn after(&mut self, at_ns: u64, end: usize, event: Event) {
        self.next_event += 1;
        self.events.push(Reverse((at_ns, self.next_event)));
        self.what.insert(self.next_event, (end, event));
    }

    fn delay_ns(&mut self) -> u64 {
        MS / 20 + self.random.below(self.weather.delay_ms_max.max(1) * 100) as u64 * MS / 100
    }

    pub(super) fn next_ns(&self) -> Option<u64> {
        self.events.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    /// Handles all events up to `now_ns`. Returns the ready events, each with the index of its
    /// poller.
    pub(super) fn advance(&mut self, now_ns: u64) -> Vec<(usize, Ready)> {
        let mut told = std::mem::take(&mut self.told);
        while self.next_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            let Some(Reverse((_, number))) = self.events.pop() else { break };
            let Some((end, event)) = self.what.remove(&number) else { continue };
            match event {
                Event::Arrives => self.arrives(end, now_ns, &mut told),
                Event::Connects(address) => self.connects(end, address, &mut told),
            }
        }
        told
    }

    fn arrives(&mut self, end: usize, now_ns: u64, told: &mut Told) {
        let end = &mut self.ends[end];
        while end.flight.front().is_some_and(|(at_ns, _)| *at_ns <= now_ns) {
            match end.flight.pop_front().map(|(_, packet)| packet) {
                Some(Packet::Bytes(bytes)) => end.inbox.extend(bytes),
                Some(Packet::Fin) => end.has_fin = true,
                Some(Packet::Reset) => {
                    end.is_reset = true;
                    end.inbox.clear();
                }
                None => break,
            }
        }
        let is_reset = end.is_reset;
        told.extend(end.ready(|interest| interest.is_readable() || is_reset));
    }

    fn connects(&mut self, end: usize, address: SocketAddr, told: &mut Told) {
        let listener = self.listeners.get_mut(&address).filter(|_| self.ends[end].is_open);
        match listener {
            Some(listener) => {
                listener.waiting.push_back(end + 1);
                let ready = |(place, token)| (place, Ready { token, is_read_closed: false });
                told.extend(listener.registered.map(ready));
                self.ends[end + 1].process = listener.process;
                self.ends[end + 1].is_open = true;
                self.ends[end].phase = Phase::Up;
                self.ends[end + 1].phase = Phase::Up;
            }
            None => self.ends[end].phase = Phase::Refused,
        }
        told.extend(self.ends[end].ready(|_| true));
    }

    pub(super) fn connect(&mut self, now_ns: u64, process: usize, address: SocketAddr) -> usize {
        let end = self.ends.len();
        self.ends.extend([End::new(process, true), End::new(process, false)]);
        let at_ns = now_ns + self.delay_ns();
        self.after(at_ns, end, Event::Connects(address));
        end
    }

    /// Returns true if the connection is established, and an error if it was refused.
    pub(super) fn is_up(&self, end: usize) -> io::Result<bool> {
        match self.ends[end].phase {
            Phase::Connecting => Ok(false),
            Phase::Up => Ok(true),
            Phase::Refused => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    pub(super) fn listen(&mut self, process: usize, address: SocketAddr) -> io::Result<()> {
        if self.listeners.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let listening = Listening { process, waiting: VecDeque::new(), registered: None };
        self.listeners.insert(address, listening);
        Ok(())
    }

    pub(super) fn unlisten(&mut self, now_ns: u64, process: usize, address: SocketAddr) {
        let of_process = |listener: &Listening| listener.process == process;
        if self.listeners.get(&address).is_some_and(of_process)
            && let Some(listener) = self.listeners.remove(&address)
        {
            listener.waiting.into_iter().for_each(|end| self.close(now_ns, end));
        }
    }

    pub(super) fn register_listener(&mut self, address: SocketAddr, place: (usize, Token)) {
        let Some(listener) = self.listeners.get_mut(&address) else { return };
        listener.registered = Some(place);
        if !listener.waiting.is_empty() {
            self.told.push((place.0, Ready { token: place.1, is_read_closed: false }));
        }
    }

    pub(super) fn accept(&mut self, process: usize, address: SocketAddr) -> Option<usize> {
        let listener = self.listeners.get_mut(&address)?;
        (listener.process == process).then(|| listener.waiting.pop_front())?
    }

    pub(super) fn register(&mut self, end: usize, place: usize, token: Token, interest: Interest) {
        let end = &mut self.ends[end];
        end.registered = Some((place, token, interest));
        let is_readable = !end.inbox.is_empty() || end.has_fin || end.is_reset;
        let writes = interest.is_writable() && end.phase != Phase::Connecting;
        let ready = end.ready(|interest| writes || (is_readable && interest.is_readable()));
        self.told.extend(ready);
    }

    pub(super) fn deregister(&mut self, end: usize) {
        self.ends[end].registered = None;
    }

    pub(super) fn read(&mut self, end: usize, buf: &mut [u8]) -> io::Result<usize> {
        let is_short = self.is_short();
        let short = 1 + self.random.below(buf.len().max(1));
        let other = end ^ 1;
        let end = &mut self.ends[end];
        if end.is_reset || !end.is_open {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if end.inbox.is_empty() {
            return if end.has_fin { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        let most = if is_short { short } else { buf.len() };
        let n = most.min(buf.len()).min(end.inbox.len());
        for (to, byte) in buf.iter_mut().zip(end.inbox.drain(..n)) {
            *to = byte;
        }
        let other = &mut self.ends[other];
        if std::mem::take(&mut other.wants_room) {
            self.told.extend(other.ready(|interest| interest.is_writable()));
        }
        Ok(n)
    }

    pub(super) fn write(&mut self, now_ns: u64, end: usize, bytes: &[u8]) -> io::Result<usize> {
        let from = &self.ends[end];
        if from.is_reset || !from.is_open || from.has_shut_down {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = self.weather.capacity.saturating_sub(self.ends[end ^ 1].under_way());
        let most = if self.is_short() { 1 + self.random.below(bytes.len().max(1)) } else { room };
        let n = bytes.len().min(room).min(most);
        if n == 0 && !bytes.is_empty() {
            self.ends[end].wants_room = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.send(now_ns, end, Packet::Bytes(bytes[..n].to_vec()));
        Ok(n)
    }

    fn is_short(&mut self) -> bool {
        let one_in = self.weather.short_one_in;
        one_in > 0 && self.random.below(one_in) == 0
    }

    /// Sends a packet to the other end; the packet arrives after the bytes in transit.
    fn send(&mut self, now_ns: u64, from: usize, packet: Packet) {
        let to = from ^ 1;
        if self.dead.contains(&(to / 2)) {
            return;
        }
        if !self.ends[to].is_open {
            // TCP answers bytes for a closed socket with a reset.
            if matches!(packet, Packet::Bytes(_)) {
                self.reset(now_ns, from);
            }
            return;
        }
        let last_ns = self.ends[to].flight.back().map_or(0, |(at_ns, _)| *at_ns);
        let at_ns = (now_ns + self.delay_ns()).max(last_ns);
        self.ends[to].flight.push_back((at_ns, packet));
        self.after(at_ns, to, Event::Arrives);
    }

    /// Reports a broken connection to this end.
    fn reset(&mut self, now_ns: u64, end: usize) {
        let at_ns = now_ns + self.delay_ns();
        self.ends[end].flight.clear();
        self.ends[end].flight.push_back((at_ns, Packet::Reset));
        self.after(at_ns, end, Event::Arrives);
    }

    pub(super) fn shut_down(&mut self, now_ns: u64, end: usize) -> io::Result<()> {
        if self.ends[end].is_reset || !self.ends[end].is_open {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if !std::mem::replace(&mut self.ends[end].has_shut_down, true) {
            self.send(now_ns, end, Packet::Fin);
        }
        Ok(())
    }

    /// Closes an end of a connection. As with TCP, unread input resets the connection, and the last
    /// written bytes are lost.
    pub(super) fn close(&mut self, now_ns: u64, end: usize) {
        if !std::mem::replace(&mut self.ends[end].is_open, false) {
            return;
        }
        self.ends[end].registered = None;
        let is_unread = !self.ends[end].inbox.is_empty();
        let had_shut_down = self.ends[end].has_shut_down;
        if self.dead.contains(&(end / 2)) {
            return;
        }
        if is_unread && self.ends[end ^ 1].is_open {
            self.reset(now_ns, end ^ 1);
        } else if !had_shut_down {
            self.send(now_ns, end, Packet::Fin);
        }
    }

    /// Breaks one connection in `one_in`; if `is_silent`, the connection delivers nothing any more
    /// but reports no error. Returns the number of affected connections.
    pub(super) fn cut(&mut self, now_ns: u64, one_in: usize, is_silent: bool) -> usize {
        let mut cut = 0;
        for connection in 0..self.ends.len() / 2 {
            let ends = [2 * connection, 2 * connection + 1];
            let is_up = ends.iter().all(|end| self.ends[*end].is_open && !self.ends[*end].is_reset);
            // Connections of strangers stay intact, because the engines themselves must end them.
            let is_stranger = self.ends[ends[0]].process == 0;
            if !is_up || is_stranger || self.random.below(one_in) > 0 {
                continue;
            }
            cut += 1;
            for end in ends {
                self.ends[end].flight.clear();
                if !is_silent {
                    self.reset(now_ns, end);
                }
            }
            self.dead.push(connection);
        }
        cut
    }

    /// Ends a process: closes its listeners and breaks its connections.
    pub(super) fn kill(&mut self, now_ns: u64, process: usize) {
        self.listeners.retain(|_, listener| listener.process != process);
        for end in 0..self.ends.len() {
            if self.ends[end].process == process {
                self.close(now_ns, end);
            }
        }
    }

    /// Returns the number of connections made so far.
    pub(super) const fn connections(&self) -> u64 {
        self.ends.len() as u64 / 2
    }
}

impl End {
    const fn new(process: usize, is_open: bool) -> Self {
        Self {
            process,
            phase: Phase::Connecting,
            flight: VecDeque::new(),
            inbox: VecDeque::new(),
            has_fin: false,
            is_reset: false,
            is_open,
            has_shut_down: false,
            wants_room: false,
            registered: None,
        }
    }

    fn under_way(&self) -> usize {
        let flight = self.flight.iter().map(|(_, packet)| match packet {
            Packet::Bytes(bytes) => bytes.len(),
            _ => 0,
        });
        self.inbox.len() + flight.sum::<usize>()
    }

    /// Returns a ready event and the index of the poller for which this end is registered. The
    /// result is `None` if the registration does not want the event.
    fn ready(&self, is_wanted: impl Fn(Interest) -> bool) -> Option<(usize, Ready)> {
        let (place, token, interest) = self.registered?;
        let is_read_closed = self.has_fin || self.is_reset;
        is_wanted(interest).then_some((place, Ready { token, is_read_closed }))
    }
}
