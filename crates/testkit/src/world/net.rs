//! The simulated connection: the bytes in transit in both directions, and the state of each end.
//!
//! Invariant: the bytes of a connection arrive in the order of writing and not before their arrival
//! time, or not at all. The bytes of one connection never reach another connection.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transfix_transport::{Interest, Registry, Stream, Token};

use super::observer::Observer;
use crate::random::Random;

pub(super) const MS: u64 = 1_000_000;
/// The minimum distance of two flipped bits, in bytes. Two flipped bits in one message can leave
/// CheckSum(10) valid, which no session can detect, so the distance exceeds the longest message.
const SOUND_BYTES_MIN: usize = 1_500;

/// The simulated network's delays, fragmentation, damage and buffer sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct NetworkConditions {
    /// The maximum delay of a piece without a stall, in milliseconds. The minimum is 1 ms.
    pub(super) delay_ms_max: usize,
    /// The maximum duration of a stall, in milliseconds. One piece in a hundred stalls.
    pub(super) stall_ms_max: usize,
    /// The odds of fragmentation: one piece in `fragment_one_in`, or never for 0.
    pub(super) fragment_one_in: usize,
    /// The maximum length of a fragment, in bytes.
    pub(super) fragment_bytes_max: usize,
    /// The odds of damage: one piece in `damage_one_in` arrives with a flipped bit, or never for 0.
    pub(super) damage_one_in: usize,
    /// The number of unread bytes that each direction of the connection can buffer.
    pub(super) capacity: usize,
}

impl NetworkConditions {
    /// The conditions of a connection without faults.
    pub(super) const FAIR: Self = Self {
        delay_ms_max: 5,
        stall_ms_max: 0,
        fragment_one_in: 0,
        fragment_bytes_max: 1,
        damage_one_in: 0,
        capacity: 1 << 20,
    };
}

/// A direction of the connection.
#[derive(Default)]
struct Way {
    /// The pieces in transit with their arrival times. An empty piece marks the end of the stream.
    pieces: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    last_at: u64,
    /// The number of bytes since the last flipped bit.
    sound_bytes: usize,
}

impl Way {
    fn clear(&mut self) {
        self.pieces.clear();
        self.bytes = 0;
        self.last_at = 0;
    }
}

/// The state of one end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// No connection.
    Closed,
    /// The end is connected to the other side.
    Open,
    /// The connection is broken. The side notices the break at `notices_at`.
    Cut { notices_at: u64 },
    /// The other side has refused the connection. The connecting side notices the refusal at
    /// `notices_at`.
    Refused { notices_at: u64 },
    /// The process of this side has ended, so its further writes have no effect.
    Dead,
}

/// The network between the two sides.
pub(super) struct Net {
    pub(super) now: u64,
    pub(super) weather: NetworkConditions,
    pub(super) observer: Observer,
    random: Random,
    ways: [Way; 2],
    ends: [End; 2],
    generations: [u64; 2],
    /// The number of bytes that each side has written into an end without a peer.
    swallowed: [usize; 2],
}

/// The network, which both sides and the world share.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Net>>);

impl Shared {
    pub(super) fn new(random: Random, weather: NetworkConditions, observer: Observer) -> Self {
        Self(Arc::new(Mutex::new(Net {
            now: 0,
            weather,
            observer,
            random,
            ways: [Way::default(), Way::default()],
            ends: [End::Closed; 2],
            generations: [0; 2],
            swallowed: [0; 2],
        })))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Net> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the stream for the end that a side has just opened.
    pub(super) fn stream(&self, side: usize) -> Box<dyn Stream> {
        let generation = self.lock().generations[side];
        Box::new(SimStream { net: self.clone(), side, generation })
    }
}

impl Net {
    /// Establishes a connection between both sides.
    pub(super) fn join(&mut self) {
        for side in [0, 1] {
            self.open(side, End::Open);
        }
    }

    /// Gives a side a connection that the other side refuses: the side notices the refusal at
    /// `notices_at`.
    pub(super) fn refuse(&mut self, side: usize, notices_at: u64) {
        self.open(side, End::Refused { notices_at });
    }

    fn open(&mut self, side: usize, end: End) {
        self.ends[side] = end;
        self.generations[side] += 1;
        self.swallowed[side] = 0;
        if end == End::Open {
            self.ways[side].clear();
        }
        self.observer.connected(side);
    }

    /// Breaks the connection: each byte in transit is lost or still arrives. Each side notices the
    /// break at its time in `notices_at`.
    pub(super) fn cut(&mut self, notices_at: [u64; 2]) {
        let lost = self.chance(2);
        for side in [0, 1] {
            if lost {
                self.ways[side].clear();
            }
            if self.ends[side] == End::Open {
                self.ends[side] = End::Cut { notices_at: notices_at[side] };
            }
        }
    }

    /// Ends the process of a side, whose connection the operating system then closes.
    pub(super) fn die(&mut self, side: usize) {
        if self.ends[side] == End::Open {
            self.close(side);
        }
        self.ends[side] = End::Dead;
    }

    /// Returns true if both ends are open and connected to each other.
    pub(super) fn is_joined(&self) -> bool {
        self.ends == [End::Open; 2]
    }

    /// Returns true if the bytes that `side` has written end with a whole message and can reach the
    /// other side.
    pub(super) fn is_between_messages(&self, side: usize) -> bool {
        self.is_joined() && self.observer.sides[side].is_between_messages()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.ways.iter().all(|way| way.pieces.is_empty())
    }

    /// Returns the time at which a side can read bytes or the end of the stream; `None` if nothing
    /// is in transit.
    pub(super) fn readable_at(&self, side: usize) -> Option<u64> {
        match self.ends[side] {
            End::Open => self.arrives_at(side),
            End::Cut { notices_at } => {
                Some(self.arrives_at(side).map_or(notices_at, |at| at.min(notices_at)))
            }
            End::Refused { notices_at } => Some(notices_at),
            End::Closed | End::Dead => None,
        }
    }

    /// Returns the arrival time of the next piece for a side.
    fn arrives_at(&self, side: usize) -> Option<u64> {
        self.ways[1 - side].pieces.front().map(|(at, _)| *at)
    }

    /// Returns the number of bytes that a side may write before the connection's buffer is full.
    pub(super) fn room(&self, side: usize) -> usize {
        let taken = match self.ends[side] {
            End::Open => self.ways[side].bytes,
            _ => self.swallowed[side],
        };
        self.weather.capacity.saturating_sub(taken)
    }

    /// Inserts bytes into the direction from `side`, as if `side` had written them.
    pub(super) fn inject(&mut self, side: usize, bytes: &[u8]) {
        if self.ends[1 - side] == End::Open {
            self.send(side, bytes);
        }
    }

    /// Discards the bytes that `side` has written, as if the other side had read them.
    pub(super) fn drain(&mut self, side: usize) {
        self.ways[side].clear();
    }

    fn chance(&mut self, one_in: usize) -> bool {
        one_in > 0 && self.random.below(one_in) == 0
    }

    fn send(&mut self, side: usize, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let short = self.chance(self.weather.fragment_one_in);
            let longest = match short {
                true => 1 + self.random.below(self.weather.fragment_bytes_max),
                false => rest.len(),
            };
            let (piece, later) = rest.split_at(longest.min(rest.len()));
            let mut piece = piece.to_vec();
            self.ways[side].sound_bytes += piece.len();
            if self.ways[side].sound_bytes >= SOUND_BYTES_MIN
                && self.chance(self.weather.damage_one_in)
            {
                self.ways[side].sound_bytes = 0;
                let at = self.random.below(piece.len());
                // Damage only adds to a byte, so that two damaged bytes in one message never give a
                // valid CheckSum(10).
                piece[at] = piece[at].wrapping_add(1 << self.random.below(7));
            }
            self.push(side, piece);
            rest = later;
        }
    }

    fn push(&mut self, side: usize, piece: Vec<u8>) {
        let stalls = self.weather.stall_ms_max > 0 && self.chance(100);
        let most = if stalls { self.weather.stall_ms_max } else { self.weather.delay_ms_max };
        let at = self.now + (1 + self.random.below(most)) as u64 * MS;
        let way = &mut self.ways[side];
        way.last_at = way.last_at.max(at);
        way.bytes += piece.len();
        way.pieces.push_back((way.last_at, piece));
    }

    /// Closes a side's end. The other side receives the bytes in transit and then the end of the
    /// stream.
    fn close(&mut self, side: usize) {
        let unread = !self.ways[1 - side].pieces.is_empty();
        self.ways[1 - side].clear();
        if self.ends[1 - side] == End::Open {
            // A close with unread bytes resets the connection; the reset may overtake bytes in
            // transit.
            if unread && self.chance(2) {
                self.ways[side].clear();
            }
            self.end(side);
        }
        self.ends[side] = End::Closed;
    }

    fn end(&mut self, side: usize) {
        let ended = self.ways[side].pieces.back().is_some_and(|(_, piece)| piece.is_empty());
        if !ended {
            self.push(side, Vec::new());
        }
    }

    fn read(&mut self, side: usize, buf: &mut [u8]) -> io::Result<usize> {
        match self.ends[side] {
            End::Cut { notices_at } if notices_at <= self.now => {
                Err(io::ErrorKind::ConnectionReset.into())
            }
            End::Refused { notices_at } if notices_at <= self.now => Ok(0),
            End::Refused { .. } => Err(io::ErrorKind::WouldBlock.into()),
            End::Closed | End::Dead => Err(io::ErrorKind::ConnectionReset.into()),
            End::Open | End::Cut { .. } => {
                let now = self.now;
                let way = &mut self.ways[1 - side];
                let Some((_, mut piece)) = way.pieces.pop_front_if(|(at, _)| *at <= now) else {
                    return Err(io::ErrorKind::WouldBlock.into());
                };
                let n = piece.len().min(buf.len());
                buf[..n].copy_from_slice(&piece[..n]);
                way.bytes -= n;
                if n < piece.len() {
                    way.pieces.push_front((now, piece.split_off(n)));
                }
                Ok(n)
            }
        }
    }

    fn write(&mut self, side: usize, bytes: &[u8]) -> io::Result<usize> {
        match self.ends[side] {
            End::Dead => return Ok(bytes.len()),
            End::Closed => return Err(io::ErrorKind::BrokenPipe.into()),
            _ => {}
        }
        let n = bytes.len().min(self.room(side));
        if n == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let bytes = &bytes[..n];
        self.observer.written(self.now, side, bytes);
        // The operating system still accepts bytes for a connection that the peer has closed.
        match self.ends[side] {
            End::Open if self.ends[1 - side] == End::Open => self.send(side, bytes),
            End::Open => {}
            _ => self.swallowed[side] += n,
        }
        Ok(n)
    }
}

/// The stream of one side over one connection.
struct SimStream {
    net: Shared,
    side: usize,
    generation: u64,
}

impl SimStream {
    /// Returns the network, or an error if the stream's connection has ended.
    fn net(&self) -> io::Result<MutexGuard<'_, Net>> {
        let net = self.net.lock();
        let current = net.generations[self.side] == self.generation;
        if current { Ok(net) } else { Err(io::ErrorKind::ConnectionReset.into()) }
    }
}

impl Stream for SimStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.net()?.read(self.side, buf)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.net()?.write(self.side, bytes)
    }

    fn register(&mut self, _: Registry<'_>, _: Token, _: Interest) -> io::Result<()> {
        Ok(())
    }

    fn reregister(&mut self, _: Registry<'_>, _: Token, _: Interest) -> io::Result<()> {
        Ok(())
    }

    fn deregister(&mut self, _: Registry<'_>) -> io::Result<()> {
        Ok(())
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        None
    }

    fn shutdown(&mut self) -> io::Result<()> {
        let mut net = self.net()?;
        if net.is_joined() {
            net.end(self.side);
        }
        Ok(())
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        if let Ok(mut net) = self.net()
            && net.ends[self.side] != End::Dead
        {
            net.close(self.side);
        }
    }
}
