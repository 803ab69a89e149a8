//! A stream of records over a simulated connection, like TLS over a socket. A read may return part
//! of a record, a record without application bytes, or a record that ends the connection.
//!
//! Invariant: the stream fulfills the laws of [`Stream`]. Records are not encrypted, so that the
//! same seed always gives the same world.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use transfix_transport::{Interest, Registry, Stream, Token};

/// The number of bytes in a record's header: kind and length.
const HEAD: usize = 3;
const BYTES: u8 = 1;
/// The kind of a record without application bytes, like a TLS session ticket.
const TICKET: u8 = 2;
/// The kind of the record that ends the sender's direction.
const END: u8 = 3;
/// The maximum number of application bytes in one record.
const RECORD_BYTES: usize = 120;
/// The number of consecutive short reads after which the socket counts as empty, as in `TlsStream`.
const SHORT_READS: usize = 2;

/// A stream that carries records over another stream.
pub(super) struct Records<S> {
    inner: S,
    /// Received bytes that do not form a whole record yet.
    raw: VecDeque<u8>,
    /// Application bytes that the reader has not yet read.
    plain: VecDeque<u8>,
    /// Encoded bytes that the inner stream has not yet accepted.
    out: Vec<u8>,
    /// The number of application bytes in unsent records that were not yet reported to the caller
    /// as written.
    owed: usize,
    has_ended: bool,
    has_more: bool,
    is_shut: bool,
}

impl<S: Stream> Records<S> {
    /// Creates the stream, whose first record is a ticket.
    pub(super) fn new(inner: S) -> Self {
        let mut stream = Self {
            inner,
            raw: VecDeque::new(),
            plain: VecDeque::new(),
            out: Vec::new(),
            owed: 0,
            has_ended: false,
            has_more: false,
            is_shut: false,
        };
        stream.record(TICKET, &[0; 40]);
        // An incomplete flush continues at the first read or write.
        let _ = stream.flush();
        stream
    }

    fn record(&mut self, kind: u8, bytes: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        self.out.extend_from_slice(bytes);
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            let written = self.inner.write(&self.out)?;
            self.out.drain(..written);
        }
        Ok(())
    }

    /// Reads once from the inner stream. Returns true if more bytes may be available.
    fn take(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 512];
        let read = self.inner.read(&mut bytes)?;
        self.raw.extend(&bytes[..read]);
        self.has_ended |= read == 0;
        while let Some(&kind) = self.raw.front()
            && let (Some(&high), Some(&low)) = (self.raw.get(1), self.raw.get(2))
        {
            let end = HEAD + usize::from(u16::from_be_bytes([high, low]));
            if !(BYTES..=END).contains(&kind) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "no record"));
            }
            if self.raw.len() < end {
                break;
            }
            let record = self.raw.drain(..end).skip(HEAD);
            match kind {
                BYTES => self.plain.extend(record),
                _ => drop(record),
            }
            self.has_ended |= kind == END;
        }
        Ok(read == bytes.len())
    }
}

impl<S: Stream> Stream for Records<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let (mut done, mut short) = (0, 0);
        self.has_more = false;
        let _ = self.flush();
        while done < buf.len() {
            if let Some(byte) = self.plain.pop_front() {
                buf[done] = byte;
                done += 1;
            } else if self.has_ended {
                self.has_more = done > 0;
                return Ok(done);
            } else if short == SHORT_READS || (short > 0 && done > 0) {
                break;
            } else {
                match self.take() {
                    Ok(more) => short += usize::from(!more),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if done == 0 => return Err(error),
                    Err(_) => {
                        self.has_more = true;
                        break;
                    }
                }
            }
        }
        match done {
            0 if !buf.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(done),
        }
    }

    fn has_more(&self) -> bool {
        self.has_more
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_shut {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.flush()?;
        if self.owed == 0 {
            self.owed = bytes.len().min(RECORD_BYTES);
            self.record(BYTES, &bytes[..self.owed]);
            self.flush()?;
        }
        let written = self.owed.min(bytes.len());
        self.owed -= written;
        Ok(written)
    }

    fn register(
        &mut self,
        registry: Registry<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.inner.register(registry, token, interest)
    }

    fn reregister(
        &mut self,
        registry: Registry<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.inner.reregister(registry, token, interest)
    }

    fn deregister(&mut self, registry: Registry<'_>) -> io::Result<()> {
        self.inner.deregister(registry)
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.inner.peer_addr()
    }

    fn shutdown(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_shut, true) {
            self.record(END, &[]);
            // If the inner stream does not accept the end record, only the end of the connection
            // marks the end.
            let _ = self.flush();
        }
        self.inner.shutdown()
    }
}

#[cfg(test)]
mod tests {
    use transfix_transport::memory::pipe;

    use super::*;
    use crate::laws::{EndingConnection, stream_end_laws, stream_laws};

    #[test]
    fn laws() {
        for capacity in [64, 1_000, 1 << 16] {
            stream_laws(|| {
                let (a, b) = pipe(capacity);
                (Box::new(Records::new(a)), Box::new(Records::new(b)))
            });
        }
    }

    #[test]
    fn ends() {
        for are_end in [false, true] {
            stream_end_laws(|| {
                let (near, wire) = pipe(1 << 12);
                let (far, mut tap) = pipe(1 << 12);
                let mut far = Records::new(far);
                far.write(b"8=FIX.4.4\x019=5\x0135=5\x0110=160\x01").expect("room");
                if are_end {
                    far.shutdown().expect("open");
                }
                let mut raw = vec![0; 1 << 12];
                let n = tap.read(&mut raw).expect("the last words");
                raw.truncate(n);
                let text = b"8=FIX.4.4\x019=5\x0135=5\x0110=160\x01".to_vec();
                EndingConnection { stream: Box::new(Records::new(near)), wire, raw, text, are_end }
            });
        }
    }
}
