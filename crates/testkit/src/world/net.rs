//! The simulated connection: both directions, pieces in transit, and the state of each end.
//!
//! Invariant: bytes of one connection arrive in written order and not before their time, or not at
//! all. Bytes of one connection never reach another connection.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transfix_transport::{Interest, Registry, Stream, Token};

use super::observer::Observer;
use crate::random::Random;

pub(super) const MS: u64 = 1_000_000;
/// Two flipped bits in one message can leave CheckSum(10) valid, which no session can detect. Flips
/// are therefore further apart than the longest message.
const SOUND_BYTES_MIN: usize = 1_500;

/// The network conditions that affect bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// The maximum usual delay of a piece in milliseconds; the minimum is 1.
    pub(super) delay_ms_max: usize,
    /// The maximum stall in milliseconds; one piece in a hundred stalls.
    pub(super) stall_ms_max: usize,
    /// One piece in `fragment_one_in` is fragmented; 0 for never.
    pub(super) fragment_one_in: usize,
    /// The longest fragment, in bytes.
    pub(super) fragment_bytes_max: usize,
    /// One piece in `damage_one_in` arrives with a flipped bit; 0 for never.
    pub(super) damage_one_in: usize,
    /// Bytes that the connection buffers before the reader reads.
    pub(super) capacity: usize,
}

impl Weather {
    /// A connection without faults.
    pub(super) const FAIR: Self = Self {
        delay_ms_max: 5,
        stall_ms_max: 0,
        fragment_one_in: 0,
        fragment_bytes_max: 1,
        damage_one_in: 0,
        capacity: 1 << 20,
    };
}

/// One direction of the connection.
#[derive(Default)]
struct Way {
    /// Pieces with their arrival times; an empty piece marks the end of the stream.
    pieces: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    last_at: u64,
    /// Bytes since the last flipped bit.
    sound_bytes: usize,
}

impl Way {
    fn clear(&mut self) {
        self.pieces.clear();
        self.bytes = 0;
        self.last_at = 0;
    }
}

/// The state of one side's end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// No connection.
    Closed,
    /// Connected to the other side.
    Open,
    /// The connection is broken; this side notices at `notices_at`.
    Cut { notices_at: u64 },
    /// The other side refuses the connection; this side notices at `notices_at`.
    Refused { notices_at: u64 },
    /// The process of this side has ended: its further writes have no effect.
    Dead,
}

/// The network between the two sides.
pub(super) struct Net {
    pub(super) now: u64,
    pub(super) weather: Weather,
    pub(super) observer: Observer,
    random: Random,
    ways: [Way; 2],
    ends: [End; 2],
    generations: [u64; 2],
    /// Bytes written into an end without a peer.
    swallowed: [usize; 2],
}

/// The network, shared by both sides and the world.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Net>>);

impl Shared {
    pub(super) fn new(random: Random, weather: Weather, observer: Observer) -> Self {
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

    /// Returns the stream of a side whose end has just been opened.
    pub(super) fn stream(&self, side: usize) -> Box<dyn Stream> {
        let generation = self.lock().generations[side];
        Box::new(SimStream { net: self.clone(), side, generation })
    }
}

impl Net {
    /// Connects both sides.
    pub(super) fn join(&mut self) {
        for side in [0, 1] {
            self.open(side, End::Open);
        }
    }

    /// Gives a side a connection that the other side closes at `notices_at`.
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

    /// Breaks the connection: bytes in transit are lost or still arrive. Each side notices at its
    /// time in `notices_at`.
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

    /// Ends the process of a side. The operating system closes its connection.
    pub(super) fn die(&mut self, side: usize) {
        if self.ends[side] == End::Open {
            self.close(side);
        }
        self.ends[side] = End::Dead;
    }

    /// Returns true if each side's bytes reach the other side.
    pub(super) fn is_joined(&self) -> bool {
        self.ends == [End::Open; 2]
    }

    /// Returns true if the bytes written by `side` end with a whole message and reach the other
    /// side.
    pub(super) fn is_between_messages(&self, side: usize) -> bool {
        self.is_joined() && self.observer.sides[side].is_between_messages()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.ways.iter().all(|way| way.pieces.is_empty())
    }

    /// Returns the time at which a side can read bytes or the end of the stream.
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

    /// Returns the time at which the next piece reaches a side.
    fn arrives_at(&self, side: usize) -> Option<u64> {
        self.ways[1 - side].pieces.front().map(|(at, _)| *at)
    }

    /// Returns the number of bytes that a side may write.
    pub(super) fn room(&self, side: usize) -> usize {
        let taken = match self.ends[side] {
            End::Open => self.ways[side].bytes,
            _ => self.swallowed[side],
        };
        self.weather.capacity.saturating_sub(taken)
    }

    /// Injects bytes in the direction from `side`.
    pub(super) fn inject(&mut self, side: usize, bytes: &[u8]) {
        if self.ends[1 - side] == End::Open {
            self.send(side, bytes);
        }
    }

    /// Removes the bytes that `side` has written.
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
                // Bits only add to a byte: two such changes in a message never give a valid
                // CheckSum(10).
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

    /// Closes a side's end: the other side finds the end of the stream after the bytes in transit.
    fn close(&mut self, side: usize) {
        let unread = !self.ways[1 - side].pieces.is_empty();
        self.ways[1 - side].clear();
        if self.ends[1 - side] == End::Open {
            // Closing with unread bytes resets the connection. The reset may overtake sent bytes.
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
        // The operating system accepts bytes written to a closed peer.
        match self.ends[side] {
            End::Open if self.ends[1 - side] == End::Open => self.send(side, bytes),
            End::Open => {}
            _ => self.swallowed[side] += n,
        }
        Ok(n)
    }
}

/// One side's end of one connection.
struct SimStream {
    net: Shared,
    side: usize,
    generation: u64,
}

impl SimStream {
    /// Returns the network, or an error if this connection is over.
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
