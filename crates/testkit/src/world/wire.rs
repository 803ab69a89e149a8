//! One direction of a simulated connection: bytes under way, in pieces, each with its time.
//!
//! Invariant: bytes arrive in the order in which they were written, and not before their time.

use std::collections::VecDeque;
use std::fmt;

use super::Faults;
use crate::random::Random;

const MS: u64 = 1_000_000;
/// Two wrong bits in one message may leave its CheckSum(10) right, and nobody could tell: between
/// two of them lie more bytes than a message has.
const SOUND_BYTES_MIN: usize = 1_000;

/// Bytes under way.
#[derive(Default)]
pub(super) struct Wire {
    /// When a piece arrives, and the piece; an empty one is the end of the stream.
    pieces: VecDeque<(u64, Vec<u8>)>,
    last_at: u64,
    /// Bytes since the last wrong bit.
    sound_bytes: usize,
}

impl Wire {
    /// Sends `bytes` off in pieces; rarely one stalls, or arrives damaged.
    pub(super) fn write(&mut self, now: u64, bytes: &[u8], random: &mut Random, faults: &Faults) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let longest = if random.below(4) == 0 { 1 + random.below(20) } else { rest.len() };
            let (piece, later) = rest.split_at(longest.min(rest.len()));
            let mut piece = piece.to_vec();
            self.sound_bytes += piece.len();
            let damages = faults.damage_one_in > 0 && random.below(faults.damage_one_in) == 0;
            if damages && self.sound_bytes >= SOUND_BYTES_MIN {
                self.sound_bytes = 0;
                let at = random.below(piece.len());
                piece[at] ^= 1 << random.below(7);
            }
            self.push(now, piece, random, faults);
            rest = later;
        }
    }

    /// Ends the stream behind what is under way.
    pub(super) fn end(&mut self, now: u64, random: &mut Random, faults: &Faults) {
        self.push(now, Vec::new(), random, faults);
    }

    fn push(&mut self, now: u64, piece: Vec<u8>, random: &mut Random, faults: &Faults) {
        let stalls = faults.stall_ms_max > 0 && random.below(100) == 0;
        let delay_ms_max = if stalls { faults.stall_ms_max } else { 20 };
        let at = now + random.below(delay_ms_max + 1) as u64 * MS;
        self.last_at = self.last_at.max(at);
        self.pieces.push_back((self.last_at, piece));
    }

    /// The next piece that has arrived.
    pub(super) fn read(&mut self, now: u64) -> Option<Vec<u8>> {
        self.pieces.pop_front_if(|(at, _)| *at <= now).map(|(_, piece)| piece)
    }

    /// When the next piece arrives.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.pieces.front().map(|(at, _)| *at)
    }

    /// All that is under way is lost.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.last_at = 0;
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, piece) in &self.pieces {
            write!(f, "[{} ms: {}]", at / MS, piece.escape_ascii())?;
        }
        Ok(())
    }
}
