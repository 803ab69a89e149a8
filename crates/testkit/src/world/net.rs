//! The simulated connection: both directions, with pieces under way, and what each end knows of it.
//!
//! Invariant: bytes of one connection arrive in the order in which they were written and not before
//! their time, or not at all; nothing of one connection reaches another.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transfix_transport::{Interest, Registry, Stream, Token};

use super::observer::Observer;
use crate::random::Random;

pub(super) const MS: u64 = 1_000_000;
/// Two wrong bits in one message may leave its CheckSum(10) right, and nobody could tell: between
/// two of them lie more bytes than a message has.
const SOUND_BYTES_MIN: usize = 1_500;

/// The effects of the connection on bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// The usual delay of a piece is up to this, and at least 1.
    pub(super) delay_ms_max: usize,
    /// One piece in a hundred stalls for up to this.
    pub(super) stall_ms_max: usize,
    /// One piece in so many is cut short; 0 for never.
    pub(super) fragment_one_in: usize,
    /// The longest piece then.
    pub(super) fragment_bytes_max: usize,
    /// One piece in so many arrives with a wrong bit; 0 for never.
    pub(super) damage_one_in: usize,
    /// Bytes that are taken before the reader has read.
    pub(super) capacity: usize,
}

impl Weather {
    /// Nothing goes wrong.
    pub(super) const FAIR: Self = Self {
        delay_ms_max: 5,
        stall_ms_max: 0,
        fragment_one_in: 0,
        fragment_bytes_max: 1,
        damage_one_in: 0,
        capacity: 1 << 20,
    };
}

/// One direction.
#[derive(Default)]
struct Way {
    /// When a piece arrives, and the piece; an empty one is the end of the stream.
    pieces: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    last_at: u64,
    /// Bytes since the last wrong bit.
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
    /// None.
    Closed,
    /// Joined to the other side.
    Open,
    /// The connection is gone; this side learns of it then.
    Cut { notices_at: u64 },
    /// The other side does not want it; this side learns of it then.
    Refused { notices_at: u64 },
    /// Its process is gone: what it still does leaves no trace.
    Dead,
}

/// All that lies between the two sides.
pub(super) struct Net {
    pub(super) now: u64,
    pub(super) weather: Weather,
    pub(super) observer: Observer,
    random: Random,
    ways: [Way; 2],
    ends: [End; 2],
    generations: [u64; 2],
    /// Bytes written into an end that leads nowhere.
    swallowed: [usize; 2],
}

/// The net as both sides and the world hold it.
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

    /// The stream of a side whose end has just been opened.
    pub(super) fn stream(&self, side: usize) -> Box<dyn Stream> {
        let generation = self.lock().generations[side];
        Box::new(SimStream { net: self.clone(), side, generation })
    }
}

impl Net {
    /// Joins both sides.
    pub(super) fn join(&mut self) {
        for side in [0, 1] {
            self.open(side, End::Open);
        }
    }

    /// Gives a side a connection that the other one closes at `notices_at`.
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

    /// The connection breaks: what is under way is lost or still arrives, and each side learns of
    /// it some time.
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

    /// The process of a side is gone. The system closes what it had open.
    pub(super) fn die(&mut self, side: usize) {
        if self.ends[side] == End::Open {
            self.close(side);
        }
        self.ends[side] = End::Dead;
    }

    /// Returns true if bytes that one side writes reach the other.
    pub(super) fn is_joined(&self) -> bool {
        self.ends == [End::Open; 2]
    }

    /// Returns true if what a side has written ends with a whole message, and reaches the other.
    pub(super) fn is_between_messages(&self, side: usize) -> bool {
        self.is_joined() && self.observer.sides[side].is_between_messages()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.ways.iter().all(|way| way.pieces.is_empty())
    }

    /// When a side has something to read, be it an end.
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

    /// When the next piece reaches a side.
    fn arrives_at(&self, side: usize) -> Option<u64> {
        self.ways[1 - side].pieces.front().map(|(at, _)| *at)
    }

    /// How many bytes a side may write.
    pub(super) fn room(&self, side: usize) -> usize {
        let taken = match self.ends[side] {
            End::Open => self.ways[side].bytes,
            _ => self.swallowed[side],
        };
        self.weather.capacity.saturating_sub(taken)
    }

    /// Puts bytes of nobody's writing on the way of `side`.
    pub(super) fn inject(&mut self, side: usize, bytes: &[u8]) {
        if self.ends[1 - side] == End::Open {
            self.send(side, bytes);
        }
    }

    /// Somebody else takes away what `side` has written.
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
                // Upwards: two wrong bytes of a message never sum up to a right CheckSum(10).
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

    /// A side closes its end: the other finds the end of the stream behind what is under way.
    fn close(&mut self, side: usize) {
        let unread = !self.ways[1 - side].pieces.is_empty();
        self.ways[1 - side].clear();
        if self.ends[1 - side] == End::Open {
            // Closing with bytes unread resets the connection, which may overtake what was sent.
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
        // The system takes what a side writes to one that has closed.
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
    /// The net, unless this connection is over.
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
