//! Messages handed over to a session by other threads while it is busy, in the order of arrival.
//!
//! Invariants: bounded by bytes; no allocation once the two buffers have grown; a message that was
//! accepted stays until its session takes it; none is accepted once the queue is closed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use transfix_codec::{Body, Misuse, MsgType, Precision};
use transfix_session::SendError;

use crate::link::points::Source;

/// When it was handed over, length of the body, length of MsgType(35).
const HEAD: usize = 13;

/// A bounded queue of messages without header and trailer.
#[derive(Debug)]
pub(crate) struct SendQueue {
    bytes: Mutex<Vec<u8>>,
    /// How much there is: looked at without the lock.
    len: AtomicUsize,
    /// Bytes that the session has taken and not sent.
    taken: AtomicUsize,
    /// Nobody takes from it any more. Set under its lock and that of the link: either is enough to
    /// read it.
    is_closed: AtomicBool,
    bytes_max: usize,
    precision: Precision,
    points: Source,
}

/// What became of the queue by one more message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pushed {
    /// Bytes that wait now.
    pub(crate) bytes: usize,
    /// Bytes of the queue before it, without those that the session has taken.
    pub(crate) at: usize,
    /// Whether it was empty before: only then does the worker need to be woken.
    pub(crate) first: bool,
}

/// One message taken from a [`SendQueue`]'s buffer.
pub(crate) struct Queued<'a> {
    pub(crate) msg_type: &'a [u8],
    pub(crate) body: &'a [u8],
    /// When it was handed over, by the latency points; 0 if that is not known.
    pub(crate) put: u64,
    /// Bytes that it took in the buffer.
    pub(crate) len: usize,
}

impl SendQueue {
    pub(crate) const fn new(bytes_max: usize, precision: Precision, points: Source) -> Self {
        let bytes = Mutex::new(Vec::new());
        let (len, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let is_closed = AtomicBool::new(false);
        Self { bytes, len, taken, is_closed, bytes_max, precision, points }
    }

    /// How fine times are written.
    pub(crate) const fn precision(&self) -> Precision {
        self.precision
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.len() > 0
    }

    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Bytes that wait, with those that the session has taken and not sent.
    pub(crate) fn waiting(&self) -> usize {
        self.len() + self.taken.load(Ordering::Relaxed)
    }

    /// Half a message that a sender has left in a panic is cut off.
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(|poisoned| {
            let mut bytes = poisoned.into_inner();
            // It is set when a message is whole.
            bytes.truncate(self.len());
            self.bytes.clear_poison();
            bytes
        })
    }

    /// Gives back the memory of a burst that is over.
    pub(crate) fn trim(&self) {
        trim(&mut self.lock());
    }

    /// Adds a message that is to be sent at once: how long it takes to the socket is measured.
    pub(crate) fn push(
        &self,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Pushed, SendError> {
        self.push_at(self.points.here(), msg_type, fill)
    }

    /// Adds a message that waits for a logon.
    pub(crate) fn push_offline(
        &self,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Pushed, SendError> {
        self.push_at(0, msg_type, fill)
    }

    fn push_at(
        &self,
        put: u64,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Pushed, SendError> {
        if !MsgType::of(msg_type).is_application() {
            return Err(Misuse::MsgType.into());
        }
        let mut bytes = self.lock();
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(SendError::Closed);
        }
        let begin = bytes.len();
        let taken = self.taken.load(Ordering::Relaxed);
        if begin + taken > self.bytes_max {
            return Err(SendError::WouldBlock { queued_bytes: begin + taken });
        }
        bytes.extend_from_slice(&[0; HEAD]);
        bytes.extend_from_slice(msg_type);
        let body_begin = bytes.len();
        if let Err(misuse) = Body::detached(&mut bytes, self.precision, fill) {
            bytes.truncate(begin);
            return Err(SendError::Misuse(misuse));
        }
        let length = (bytes.len() - body_begin) as u32;
        bytes[begin..begin + 8].copy_from_slice(&put.to_le_bytes());
        bytes[begin + 8..begin + 12].copy_from_slice(&length.to_le_bytes());
        bytes[begin + 12] = msg_type.len() as u8;
        self.len.store(bytes.len(), Ordering::Release);
        // Said under the lock: the worker may have emptied the queue a moment ago.
        Ok(Pushed { bytes: bytes.len() + taken, at: begin, first: begin == 0 })
    }

    /// Takes no more messages: those that are there are the last.
    pub(crate) fn close(&self) {
        let _bytes = self.lock();
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Whether the session has ended with its engine.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Everything that waits, which goes on waiting.
    pub(crate) fn copy(&self) -> Vec<u8> {
        self.lock().clone()
    }

    /// So many bytes wait in the session, which count as well.
    pub(crate) fn note_taken(&self, bytes: usize) {
        if self.taken.load(Ordering::Relaxed) != bytes {
            self.taken.store(bytes, Ordering::Relaxed);
        }
    }

    /// Moves everything behind what is in `taken`; memory is left for reuse.
    pub(crate) fn take(&self, taken: &mut Vec<u8>) {
        let mut bytes = self.lock();
        if taken.is_empty() {
            std::mem::swap(&mut *bytes, taken);
        } else {
            taken.append(&mut bytes);
        }
        self.len.store(0, Ordering::Release);
    }
}

/// Memory above which a buffer is given back when it is hardly used.
pub(crate) const BULK: usize = 256 << 10;
/// What it keeps then.
const KEPT: usize = 64 << 10;

/// Whether a buffer has far more memory than it uses.
pub(crate) const fn is_bulky(capacity: usize, len: usize) -> bool {
    capacity > BULK && capacity / 4 > len
}

/// Gives back the memory of a burst that is over.
pub(crate) fn trim(bytes: &mut Vec<u8>) {
    if is_bulky(bytes.capacity(), bytes.len()) {
        bytes.shrink_to(KEPT.max(bytes.len()));
    }
}

/// Adds a message to a taken buffer: one that waits for a logon.
pub(crate) fn put(taken: &mut Vec<u8>, msg_type: &[u8], body: &[u8]) {
    taken.extend_from_slice(&[0; 8]);
    taken.extend_from_slice(&(body.len() as u32).to_le_bytes());
    taken.push(msg_type.len() as u8);
    taken.extend_from_slice(msg_type);
    taken.extend_from_slice(body);
}

/// The first message in a taken buffer.
pub(crate) fn first(taken: &[u8]) -> Option<Queued<'_>> {
    let (head, rest) = taken.split_first_chunk::<HEAD>()?;
    let [p0, p1, p2, p3, p4, p5, p6, p7, b0, b1, b2, b3, msg_type] = *head;
    let put = u64::from_le_bytes([p0, p1, p2, p3, p4, p5, p6, p7]);
    let body = u32::from_le_bytes([b0, b1, b2, b3]) as usize;
    let (msg_type, rest) = rest.split_at(usize::from(msg_type));
    Some(Queued { msg_type, body: &rest[..body], put, len: HEAD + msg_type.len() + body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfix_codec::tag;

    #[test]
    fn keeps_order_and_bound() {
        let queue = SendQueue::new(36, Precision::Millis, Source::Off);
        assert!(!queue.is_pending());
        assert!(queue.push(b"D", |b| _ = b.str(tag::CL_ORD_ID, "1")).unwrap().first);
        let misuse = queue.push(b"D", |b| _ = b.str(tag::CL_ORD_ID, ""));
        assert!(matches!(misuse, Err(SendError::Misuse(_))));
        assert!(!queue.push(b"AE", |b| _ = b.str(tag::TEXT, "second")).unwrap().first);
        for wrong in [&b""[..], b"0", b"A", b"D\x01", &[b'U'; 300]] {
            let refused = queue.push(wrong, |_| ());
            assert_eq!(refused.unwrap_err(), SendError::Misuse(Misuse::MsgType));
        }
        let full = queue.push(b"D", |_| ());
        assert_eq!(full, Err(SendError::WouldBlock { queued_bytes: 44 }));
        let mut taken = Vec::new();
        queue.take(&mut taken);
        assert!(!queue.is_pending());
        let one = first(&taken).unwrap();
        assert_eq!((one.msg_type, one.body), (&b"D"[..], &b"11=1\x01"[..]));
        let two = first(&taken[one.len..]).unwrap();
        assert_eq!((two.msg_type, two.body), (&b"AE"[..], &b"58=second\x01"[..]));
        assert!(first(&taken[one.len + two.len..]).is_none());
        assert!(queue.push(b"D", |_| ()).unwrap().first, "the worker has emptied it");
        queue.close();
        assert_eq!(queue.push(b"D", |_| ()), Err(SendError::Closed));
        assert!(queue.is_pending(), "what it took is there");
    }
}
