//! A bounded ring of lines between the session's thread, which must not wait, and the writer's
//! thread.
//!
//! Invariants: the ring has one producer and one consumer, and neither waits for the other. The
//! consumer sees only complete lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use transfix_codec::Timestamp;

/// The kind of a line in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// Received.
    Inbound,
    /// Sent.
    Outbound,
    /// Received bytes that are no valid message.
    Garbled,
}

impl LineKind {
    const ALL: [Self; 3] = [Self::Inbound, Self::Outbound, Self::Garbled];

    pub(super) const fn is_outbound(self) -> bool {
        matches!(self, Self::Outbound)
    }
}

/// The number of words before a line's bytes: one with length and kind, and one with the time.
const HEAD_WORDS: u64 = 2;
const KIND_SHIFT: u32 = 56;

/// A counter that is alone on its cache line, so that two threads do not share the line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart(AtomicU64);

/// The bytes as words, which are written and read without a lock.
#[derive(Debug)]
struct Ring {
    words: Box<[AtomicU64]>,
    /// The number of words that the producer has published; `tail` is the number that the consumer
    /// has taken.
    head: Apart,
    tail: Apart,
    /// The numbers of inbound and outbound lines that did not fit, and were not reported yet.
    lost: [Apart; 2],
    /// True if the producer pushes no more lines.
    closed: AtomicBool,
}

/// Returns the two ends of a ring of at least `bytes` bytes.
pub(super) fn ring(bytes: usize) -> (Producer, Consumer) {
    let words = bytes.div_ceil(8).next_power_of_two();
    let words = std::iter::repeat_with(AtomicU64::default).take(words).collect();
    let ring = Arc::new(Ring {
        words,
        head: Apart::default(),
        tail: Apart::default(),
        lost: Default::default(),
        closed: AtomicBool::new(false),
    });
    (Producer { ring: Arc::clone(&ring), head: 0, tail: 0 }, Consumer { ring, tail: 0 })
}

/// The end of the ring to which a session's thread adds lines.
#[derive(Debug)]
pub(super) struct Producer {
    ring: Arc<Ring>,
    head: u64,
    /// The consumer's position as last read.
    tail: u64,
}

impl Producer {
    /// Marks the ring as closed: no more lines are pushed.
    pub(super) fn close(&self) {
        self.ring.closed.store(true, Ordering::Release);
    }

    /// Copies a line into the ring. Returns 1 if the line did not fit and is lost, and 0 otherwise.
    #[inline]
    pub(super) fn push(&mut self, time: Timestamp, kind: LineKind, bytes: &[u8]) -> u64 {
        let ring = &*self.ring;
        let capacity = ring.words.len() as u64;
        let head = self.head + HEAD_WORDS + bytes.len().div_ceil(8) as u64;
        if head - self.tail > capacity {
            self.tail = ring.tail.0.load(Ordering::Acquire);
            if head - self.tail > capacity {
                ring.lost[usize::from(kind.is_outbound())].0.fetch_add(1, Ordering::Relaxed);
                return 1;
            }
        }
        let at = |word: u64| (word & (capacity - 1)) as usize;
        let size = bytes.len() as u64 | (kind as u64) << KIND_SHIFT;
        ring.words[at(self.head)].store(size, Ordering::Relaxed);
        ring.words[at(self.head + 1)].store(time.0.cast_unsigned(), Ordering::Relaxed);
        let (whole, rest) = bytes.as_chunks::<8>();
        let begin = at(self.head + HEAD_WORDS);
        // The first part ends at the end of the ring at the latest, and the second part begins at
        // the start of the ring.
        let (first, second) = whole.split_at(whole.len().min(ring.words.len() - begin));
        for (words, chunks) in [(&ring.words[begin..], first), (&ring.words[..], second)] {
            for (word, chunk) in words.iter().zip(chunks) {
                word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
            }
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            ring.words[at(head - 1)].store(u64::from_le_bytes(last), Ordering::Relaxed);
        }
        self.head = head;
        ring.head.0.store(head, Ordering::Release);
        0
    }
}

/// The end of the ring from which the log thread takes lines.
#[derive(Debug)]
pub(super) struct Consumer {
    ring: Arc<Ring>,
    tail: u64,
}

impl Consumer {
    /// Returns true if the ring was closed. All its lines are visible to the caller then.
    pub(super) fn is_closed(&self) -> bool {
        self.ring.closed.load(Ordering::Acquire)
    }

    /// Returns the number of words published and not taken, and the capacity in words.
    pub(super) fn fill(&self) -> (u64, u64) {
        let head = self.ring.head.0.load(Ordering::Acquire);
        (head - self.tail, self.ring.words.len() as u64)
    }

    /// Takes the oldest line out of the ring and copies it into `bytes`. Returns its time and kind.
    pub(super) fn pop(&mut self, bytes: &mut Vec<u8>) -> Option<(Timestamp, LineKind)> {
        if self.fill().0 == 0 {
            return None;
        }
        let ring = &*self.ring;
        let mask = ring.words.len() as u64 - 1;
        let word = |at: u64| ring.words[(at & mask) as usize].load(Ordering::Relaxed);
        let (size, time) = (word(self.tail), word(self.tail + 1));
        let len = (size & ((1 << KIND_SHIFT) - 1)) as usize;
        let kind = LineKind::ALL[(size >> KIND_SHIFT) as usize];
        let begin = self.tail + HEAD_WORDS;
        let end = begin + len.div_ceil(8) as u64;
        bytes.clear();
        bytes.extend((begin..end).flat_map(|at| word(at).to_le_bytes()));
        bytes.truncate(len);
        self.tail = end;
        ring.tail.0.store(end, Ordering::Release);
        Some((Timestamp(time.cast_signed()), kind))
    }

    /// Returns the lines lost since the last call: inbound, outbound.
    pub(super) fn take_lost(&self) -> [u64; 2] {
        [0, 1].map(|direction: usize| self.ring.lost[direction].0.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns bytes that are different for each line.
    fn line(n: u64) -> Vec<u8> {
        (0..n % 61).map(|i| (n + i) as u8).collect()
    }

    #[test]
    fn lines_come_out_as_they_went_in_and_what_does_not_fit_is_counted() {
        let (mut producer, mut consumer) = ring(512);
        let (mut bytes, mut sent, mut taken) = (Vec::new(), Vec::new(), 0);
        for n in 0..1_000 {
            let kind = LineKind::ALL[n as usize % 3];
            if producer.push(Timestamp(n as i64), kind, &line(n)) == 0 {
                sent.push(n);
            }
            if n % 20 == 19 {
                while let Some((time, kind)) = consumer.pop(&mut bytes) {
                    let expected = sent[taken];
                    assert_eq!(time, Timestamp(expected as i64));
                    assert_eq!(kind, LineKind::ALL[expected as usize % 3]);
                    assert_eq!(bytes, line(expected));
                    taken += 1;
                }
            }
        }
        assert_eq!(taken, sent.len());
        let lost = consumer.take_lost();
        assert!(lost[0] > 0 && lost[1] > 0, "{lost:?}");
        assert_eq!(lost[0] + lost[1] + taken as u64, 1_000);
        assert_eq!(consumer.take_lost(), [0, 0]);
    }

    #[test]
    fn a_line_longer_than_the_ring_is_lost_and_the_next_one_is_not() {
        let (mut producer, mut consumer) = ring(512);
        assert_eq!(producer.push(Timestamp(1), LineKind::Outbound, &[7; 497]), 1);
        assert_eq!(producer.push(Timestamp(2), LineKind::Outbound, &[8; 496]), 0);
        let mut bytes = Vec::new();
        assert_eq!(consumer.pop(&mut bytes), Some((Timestamp(2), LineKind::Outbound)));
        assert_eq!(bytes, [8; 496]);
        assert_eq!(consumer.take_lost(), [0, 1]);
    }

    #[test]
    fn two_threads() {
        const LINES: u64 = 20_000;
        let (mut producer, mut consumer) = ring(4096);
        let sender = std::thread::spawn(move || {
            for n in 0..LINES {
                while producer.push(Timestamp(n as i64), LineKind::Inbound, &line(n)) == 1 {
                    std::thread::yield_now();
                }
            }
        });
        let (mut bytes, mut next) = (Vec::new(), 0);
        while next < LINES {
            match consumer.pop(&mut bytes) {
                Some((time, _)) => {
                    assert_eq!((time, &bytes), (Timestamp(next as i64), &line(next)));
                    next += 1;
                }
                None => std::thread::yield_now(),
            }
        }
        sender.join().unwrap();
    }
}
