//! Two streams connected in memory, for tests, for simulation and for counting instructions.
//!
//! **Invariant:** nothing is allocated after [`pipe`] returns. As long as each end is used by one
//! thread at a time, no system call is made.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mio::{Interest, Token};

use crate::{Registry, Stream};

/// The bytes in transit in one direction.
#[derive(Debug)]
struct Ring {
    bytes: Box<[u8]>,
    start: usize,
    len: usize,
    closed: bool,
}

impl Ring {
    fn new(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity].into_boxed_slice(), start: 0, len: 0, closed: false }
    }

    fn push(&mut self, bytes: &[u8]) -> usize {
        let capacity = self.bytes.len();
        let count = bytes.len().min(capacity - self.len);
        let end = (self.start + self.len) % capacity;
        let first = count.min(capacity - end);
        self.bytes[end..end + first].copy_from_slice(&bytes[..first]);
        self.bytes[..count - first].copy_from_slice(&bytes[first..count]);
        self.len += count;
        count
    }

    fn pop(&mut self, buf: &mut [u8]) -> usize {
        let capacity = self.bytes.len();
        let count = buf.len().min(self.len);
        let first = count.min(capacity - self.start);
        buf[..first].copy_from_slice(&self.bytes[self.start..self.start + first]);
        buf[first..count].copy_from_slice(&self.bytes[..count - first]);
        self.start = (self.start + count) % capacity;
        self.len -= count;
        count
    }
}

/// An end of a [`pipe`]. Registering has no effect, and readiness is never reported, so read and
/// write both ends alternately.
#[derive(Debug)]
pub struct MemoryStream {
    inbound: Arc<Mutex<Ring>>,
    outbound: Arc<Mutex<Ring>>,
}

/// Creates two connected ends: bytes written to one end are read from the other. Up to
/// `capacity_bytes` bytes can be in transit in each direction.
///
/// # Panics
/// If `capacity_bytes` is 0.
#[must_use]
pub fn pipe(capacity_bytes: usize) -> (MemoryStream, MemoryStream) {
    assert!(capacity_bytes > 0, "capacity_bytes of a pipe must be at least 1");
    let there = Arc::new(Mutex::new(Ring::new(capacity_bytes)));
    let back = Arc::new(Mutex::new(Ring::new(capacity_bytes)));
    let first = MemoryStream { inbound: Arc::clone(&back), outbound: Arc::clone(&there) };
    (first, MemoryStream { inbound: there, outbound: back })
}

fn lock(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream for MemoryStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut ring = lock(&self.inbound);
        if ring.len == 0 && !ring.closed && !buf.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(ring.pop(buf))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut ring = lock(&self.outbound);
        if ring.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if ring.len == ring.bytes.len() && !bytes.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(ring.push(bytes))
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
        lock(&self.outbound).closed = true;
        Ok(())
    }
}

impl Drop for MemoryStream {
    fn drop(&mut self) {
        lock(&self.outbound).closed = true;
        // Nobody will read the bytes that the other end still writes, so this direction is closed
        // too.
        lock(&self.inbound).closed = true;
    }
}
