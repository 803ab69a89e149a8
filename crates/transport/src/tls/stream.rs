//! A TLS connection as a stream.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;

use mio::{Interest, Token};
use rustls::{CertificateError, Connection, HandshakeKind, ProtocolVersion};

use super::certificate::Certificate;
use super::clock::Clock;
use super::explain::explain;
use crate::{Registry, Stream};

/// Maximum number of bytes that one write encrypts.
const CHUNK: usize = 64 << 10;
/// Maximum number of consecutive socket reads without application data, which is more than the
/// longest handshake needs. A peer that exceeds it is treated as hostile.
const EMPTY_READS: usize = 64;
/// Maximum number of socket reads, within one read of the stream, that take all available bytes but
/// yield no application data. The second read finds an end of the connection that arrived together
/// with the bytes of the first, because no further event reports that end. Bytes that arrive later
/// cause an event of their own.
const SHORT_READS: usize = 2;

const ENDLESS: &str = "the counterparty sends only empty TLS records";

/// A stream that encrypts its bytes and sends them over another stream.
pub struct TlsStream {
    inner: Box<dyn Stream>,
    tls: Connection,
    clock: Clock,
    /// Number of bytes that are encrypted but not yet reported as written, because the socket has
    /// not accepted all of them. The caller passes these bytes again.
    unreported_bytes: usize,
    /// The first byte received, which shows whether the peer speaks TLS.
    first: Option<u8>,
    /// True if the counterparty has ended its side and sends nothing more.
    is_read_closed: bool,
    /// True if the last read found the end of the connection or an error after the bytes that it
    /// returned.
    has_more: bool,
    is_shut: bool,
    /// The error with which the stream ended, if any.
    fault: Option<String>,
}

impl std::fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsStream").field("peer", &self.inner.peer_addr()).finish_non_exhaustive()
    }
}

impl TlsStream {
    pub(super) fn new(inner: Box<dyn Stream>, mut tls: Connection, clock: Clock) -> Self {
        // The buffer needs no limit, because `CHUNK` limits the bytes that are buffered.
        tls.set_buffer_limit(None);
        Self {
            inner,
            tls,
            clock,
            unreported_bytes: 0,
            first: None,
            is_read_closed: false,
            has_more: false,
            is_shut: false,
            fault: None,
        }
    }

    /// Returns true if the handshake is in progress.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Advances the handshake; returns `Ok` when it is complete.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] while the counterparty's reply is missing. Any other error
    /// ends the stream.
    pub fn shake_hands(&mut self) -> io::Result<()> {
        self.check()?;
        for _ in 0..EMPTY_READS {
            self.flush()?;
            if !self.tls.is_handshaking() {
                return Ok(());
            }
            self.take()?;
        }
        Err(self.fail(ENDLESS.to_owned()))
    }

    /// Returns the protocol and the cipher suite, such as `TLS 1.3, TLS13_AES_256_GCM_SHA384`;
    /// `None` before the handshake is complete.
    #[must_use]
    pub fn protocol(&self) -> Option<String> {
        let (version, suite) = (self.tls.protocol_version()?, self.tls.negotiated_cipher_suite()?);
        let version = match version {
            ProtocolVersion::TLSv1_3 => "TLS 1.3",
            ProtocolVersion::TLSv1_2 => "TLS 1.2",
            other => other.as_str()?,
        };
        Some(format!("{version}, {}", suite.suite().as_str()?))
    }

    /// Returns true if this connection resumes an earlier TLS session, whose certificates apply
    /// (RFC 8446 section 2.2).
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Checks that a certificate that was verified in an earlier connection has not expired since.
    fn check_resumed(&mut self) -> io::Result<()> {
        if !self.is_resumed() {
            return Ok(());
        }
        let Some(shown) = self.peer_certificate() else { return Ok(()) };
        let now_s = i64::try_from(self.clock.now().as_secs()).unwrap_or(i64::MAX);
        if now_s <= shown.not_after_s {
            return Ok(());
        }
        let error = CertificateError::Expired.into();
        Err(self.fail(explain(&error, None, true)))
    }

    /// Sends encrypted bytes until none are left or the socket accepts no more.
    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            let mut wire = Wire { inner: &mut *self.inner, short: false, first: &mut self.first };
            if self.tls.write_tls(&mut wire)? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Reads once from the socket and decrypts the bytes. Returns true if the socket may have more
    /// bytes.
    fn take(&mut self) -> io::Result<bool> {
        let was_handshaking = self.tls.is_handshaking();
        let mut wire = Wire { inner: &mut *self.inner, short: false, first: &mut self.first };
        let read = self.tls.read_tls(&mut wire)?;
        let is_short = wire.short;
        self.is_read_closed |= read == 0;
        if let Err(error) = self.tls.process_new_packets() {
            let text = explain(&error, self.first, self.tls.is_handshaking());
            // The alert that is sent here tells the counterparty the reason. If the counterparty
            // has disconnected, a failure does not matter.
            let _ = self.flush();
            return Err(self.fail(text));
        }
        if self.is_read_closed && self.tls.is_handshaking() {
            let text = "the counterparty closed the connection during the TLS handshake: the \
                        counterparty may expect plain text, or may have refused the connection";
            return Err(self.fail(text.to_owned()));
        }
        if was_handshaking && !self.tls.is_handshaking() {
            self.check_resumed()?;
        }
        Ok(!is_short && !self.is_read_closed)
    }

    /// Ends the stream for both sides (RFC 8446 section 6.2). If valid bytes precede the error, the
    /// error is returned by the next read.
    fn fail(&mut self, text: String) -> io::Error {
        // If the counterparty has disconnected already, a failure of the shutdown does not matter.
        let _ = self.inner.shutdown();
        let error = io::Error::new(io::ErrorKind::InvalidData, text.clone());
        self.fault = Some(text);
        error
    }

    fn check(&self) -> io::Result<()> {
        match &self.fault {
            Some(text) => Err(io::Error::new(io::ErrorKind::InvalidData, text.clone())),
            None => Ok(()),
        }
    }

    /// Copies decrypted bytes to `buf`, and returns their number; `None` if the counterparty has
    /// ended its side.
    fn decrypted(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        match self.tls.reader().read(buf) {
            Ok(0) => Ok(None),
            Ok(n) => Ok(Some(n)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(0)),
            // The connection ended without close_notify. This is accepted, because a FIX message
            // contains its length, so a truncated message is never mistaken for a whole one.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Copies the bytes of the records that precede the record which ended the stream.
    fn decrypted_before_error(&mut self, buf: &mut [u8]) -> usize {
        self.decrypted(buf).ok().flatten().unwrap_or(0)
    }
}

impl Stream for TlsStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.fault.is_some() {
            let done = self.decrypted_before_error(buf);
            self.has_more = done > 0;
            return if self.has_more { Ok(done) } else { self.check().map(|()| 0) };
        }
        let (mut done, mut empty, mut short) = (0, 0, 0);
        self.has_more = false;
        // The flush advances a handshake, and sends bytes that the socket did not accept before.
        // Received bytes are read even if sending fails; the next write then returns the error.
        let _ = self.flush();
        while done < buf.len() {
            match self.decrypted(&mut buf[done..])? {
                None => {
                    self.has_more = done > 0;
                    return Ok(done);
                }
                Some(0) if short == SHORT_READS || (short > 0 && done > 0) => break,
                Some(0) if empty == EMPTY_READS => {
                    return Err(self.fail(ENDLESS.to_owned()));
                }
                Some(0) => match self.take() {
                    Ok(more) => (short, empty) = (short + usize::from(!more), empty + 1),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => {
                        // The bytes before the error are valid and returned; the next read returns
                        // the error.
                        done += self.decrypted_before_error(&mut buf[done..]);
                        self.has_more = done > 0;
                        return if self.has_more { Ok(done) } else { Err(error) };
                    }
                },
                Some(n) => (done, empty) = (done + n, 0),
            }
        }
        let _ = self.flush();
        match done {
            0 if !buf.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(done),
        }
    }

    fn has_more(&self) -> bool {
        self.has_more
    }

    /// Encrypts and sends `bytes`. After [`io::ErrorKind::WouldBlock`], the caller must pass the
    /// same bytes again, because they are already encrypted, and may append more.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        if self.is_shut {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.flush()?;
        if self.unreported_bytes == 0 {
            if self.tls.is_handshaking() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.unreported_bytes = self.tls.writer().write(&bytes[..bytes.len().min(CHUNK)])?;
            self.flush()?;
        }
        let written = self.unreported_bytes.min(bytes.len());
        self.unreported_bytes -= written;
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

    fn peer_certificate(&self) -> Option<Certificate> {
        Certificate::parse(self.tls.peer_certificates()?.first()?)
    }

    fn shutdown(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_shut, true) {
            self.tls.send_close_notify();
            // If the socket accepts no close_notify, the end of the connection alone must suffice.
            let _ = self.flush();
        }
        self.inner.shutdown()
    }
}

/// Adapts the underlying stream to the traits that rustls needs.
struct Wire<'s> {
    inner: &'s mut dyn Stream,
    /// True if the last read returned fewer bytes than requested, so that no more are available.
    short: bool,
    first: &'s mut Option<u8>,
}

impl io::Read for Wire<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.short = n < buf.len();
        if self.first.is_none() {
            *self.first = buf[..n].first().copied();
        }
        Ok(n)
    }
}

impl io::Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
