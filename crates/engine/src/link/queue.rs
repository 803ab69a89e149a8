//! Messages that other threads send to a busy session, in the order of arrival.
//!
//! Invariants: the total size of the queue is limited, and its two buffers are reused instead of
//! allocated. An accepted message stays until its session takes it. A closed queue accepts no
//! message.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use transfix_codec::{Body, Misuse, MsgType, Precision};
use transfix_session::SendError;
use transfix_session::core::bulk;
use transfix_session::core::outgoing::record;

use crate::link::latency_probe::Source;

/// A queue, limited in bytes, of message bodies that still need a header and trailer.
#[derive(Debug)]
pub(crate) struct SendQueue {
    bytes: Mutex<Vec<u8>>,
    /// Length of the queue in bytes, readable without the lock.
    len: AtomicUsize,
    /// The size, in bytes, of messages that the session has taken but not sent yet.
    taken: AtomicUsize,
    /// True if the session no longer takes messages. Written while both the queue's and the link's
    /// lock are held, so either lock suffices to read it.
    is_closed: AtomicBool,
    bytes_max: usize,
    precision: Precision,
    probe: Source,
}

/// The state of the queue after a message was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pushed {
    /// The number of waiting bytes, including the new message.
    pub(crate) bytes: usize,
    /// The length of the queue before the new message, in bytes, without those that the session has
    /// taken.
    pub(crate) at: usize,
    /// True if the queue was empty before: only then must the worker be woken.
    pub(crate) first: bool,
}

impl SendQueue {
    pub(crate) const fn new(bytes_max: usize, precision: Precision, probe: Source) -> Self {
        let bytes = Mutex::new(Vec::new());
        let (len, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let is_closed = AtomicBool::new(false);
        Self { bytes, len, taken, is_closed, bytes_max, precision, probe }
    }

    /// Returns the precision of timestamps.
    pub(crate) const fn precision(&self) -> Precision {
        self.precision
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.len() > 0
    }

    /// Returns the length of the queue in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Returns the number of waiting bytes, including messages that the session has taken but not
    /// sent yet.
    pub(crate) fn waiting(&self) -> usize {
        self.len() + self.taken.load(Ordering::Relaxed)
    }

    /// Locks the queue, and removes an incomplete message that a sender's panic may have left.
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(|poisoned| {
            let mut bytes = poisoned.into_inner();
            // `len` is updated only after a whole message.
            bytes.truncate(self.len());
            self.bytes.clear_poison();
            bytes
        })
    }

    /// Frees the memory of a past burst.
    pub(crate) fn trim(&self) {
        bulk::trim(&mut self.lock());
    }

    /// Adds a message to send at once. The latency probe measures the time to the socket.
    pub(crate) fn push(
        &self,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Pushed, SendError> {
        self.push_at(self.probe.here(), msg_type, fill)
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
        record::add(&mut bytes, put, msg_type, |bytes| Body::detached(bytes, self.precision, fill))
            .map_err(SendError::Misuse)?;
        self.len.store(bytes.len(), Ordering::Release);
        // Computed under the lock, because the worker may have emptied the queue just before.
        Ok(Pushed { bytes: bytes.len() + taken, at: begin, first: begin == 0 })
    }

    /// Closes the queue, so that it accepts no further messages.
    pub(crate) fn close(&self) {
        let _bytes = self.lock();
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Returns true if the queue is closed, because the session has ended together with the engine.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Returns the waiting messages, oldest first: MsgType(35) and body.
    pub(crate) fn list(&self) -> Vec<(String, Vec<u8>)> {
        let bytes = self.lock().clone();
        record::list(&bytes)
    }

    /// Records the size of messages that wait in the session, which counts toward the limit.
    pub(crate) fn note_taken(&self, bytes: usize) {
        if self.taken.load(Ordering::Relaxed) != bytes {
            self.taken.store(bytes, Ordering::Relaxed);
        }
    }

    /// Appends all messages to `taken`, and keeps the memory for reuse.
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
        let one = record::first(&taken).unwrap();
        assert_eq!((one.msg_type, one.body), (&b"D"[..], &b"11=1\x01"[..]));
        let two = record::first(&taken[one.len..]).unwrap();
        assert_eq!((two.msg_type, two.body), (&b"AE"[..], &b"58=second\x01"[..]));
        assert!(record::first(&taken[one.len + two.len..]).is_none());
        assert!(queue.push(b"D", |_| ()).unwrap().first, "the worker has emptied it");
        queue.close();
        assert_eq!(queue.push(b"D", |_| ()), Err(SendError::Closed));
        assert!(queue.is_pending(), "what it took is there");
    }
}
