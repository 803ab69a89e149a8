//! One connection.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;

use mio::{Interest, Token};
use rustls::{CertificateError, Connection, HandshakeKind, ProtocolVersion};

use super::certificate::Certificate;
use super::clock::Clock;
use super::explain::explain;
use crate::{Registry, Stream};

/// Bytes that one write encrypts at most.
const CHUNK: usize = 64 << 10;
/// Reads of the socket in a row that bring no byte of the application: as many as the longest
/// handshake has, and then some. A sender of more of them is no counterparty.
const EMPTY_READS: usize = 64;
/// Reads of the socket that bring all there is and no byte of the application, in one read of the
/// stream. The second one finds an end of the connection that came with the bytes of the first one:
/// no further event reports that end. Anything else came later, with an event of its own.
const SHORT_READS: usize = 2;

const ENDLESS: &str = "TLS records without a byte in them, one after the other";

/// A stream over another one, whose bytes are encrypted there.
pub struct TlsStream {
    inner: Box<dyn Stream>,
    tls: Connection,
    clock: Clock,
    /// Bytes that are encrypted and that the caller was not told of: the socket has not taken all
    /// of them. The caller offers them again.
    owed: usize,
    /// The first byte that came, which tells TLS from plain text.
    first: Option<u8>,
    /// The counterparty sends nothing more.
    is_read_closed: bool,
    /// The last read has found an end or an error behind what it returned.
    has_more: bool,
    is_shut: bool,
    /// The cause of its end.
    fault: Option<String>,
}

impl std::fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsStream").field("peer", &self.inner.peer_addr()).finish_non_exhaustive()
    }
}

impl TlsStream {
    pub(super) fn new(inner: Box<dyn Stream>, mut tls: Connection, clock: Clock) -> Self {
        // `CHUNK` bounds the bytes that wait here.
        tls.set_buffer_limit(None);
        Self {
            inner,
            tls,
            clock,
            owed: 0,
            first: None,
            is_read_closed: false,
            has_more: false,
            is_shut: false,
            fault: None,
        }
    }

    /// Returns true if the handshake is under way.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Goes on with the handshake, and returns once it is done.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the counterparty is waited for; any other ends the stream.
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

    /// Protocol and cipher, such as `TLS 1.3, TLS13_AES_256_GCM_SHA384`; none before the handshake
    /// is done.
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

    /// Returns true if it goes on from an earlier connection, whose certificates count (RFC 8446
    /// section 2.2).
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// A certificate that was looked at in an earlier connection may have ended since.
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

    /// Sends what is encrypted, as far as the socket takes it.
    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            let mut wire = Wire { inner: &mut *self.inner, short: false, first: &mut self.first };
            if self.tls.write_tls(&mut wire)? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Reads once from the socket and decrypts. Returns whether there may be more in it.
    fn take(&mut self) -> io::Result<bool> {
        let was_handshaking = self.tls.is_handshaking();
        let mut wire = Wire { inner: &mut *self.inner, short: false, first: &mut self.first };
        let read = self.tls.read_tls(&mut wire)?;
        let is_short = wire.short;
        self.is_read_closed |= read == 0;
        if let Err(error) = self.tls.process_new_packets() {
            let text = explain(&error, self.first, self.tls.is_handshaking());
            // The alert says why; a counterparty that has gone needs none.
            let _ = self.flush();
            return Err(self.fail(text));
        }
        if self.is_read_closed && self.tls.is_handshaking() {
            let text = "the counterparty closed the connection during the TLS handshake: it may \
                        expect plain text, or have refused";
            return Err(self.fail(text.to_owned()));
        }
        if was_handshaking && !self.tls.is_handshaking() {
            self.check_resumed()?;
        }
        Ok(!is_short && !self.is_read_closed)
    }

    /// Ends it for both sides (RFC 8446 section 6.2). An error behind good bytes is returned by the
    /// next read.
    fn fail(&mut self, text: String) -> io::Error {
        // One that has gone needs no end.
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

    /// Takes bytes that are decrypted already, and returns their number. `None` if the counterparty
    /// has said that it sends nothing more.
    fn decrypted(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        match self.tls.reader().read(buf) {
            Ok(0) => Ok(None),
            Ok(n) => Ok(Some(n)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(0)),
            // The end of the connection without the end of TLS: a message says itself where it
            // ends, so that nothing is taken for whole that is not.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Bytes of the records that came before the one which has ended the stream.
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
        // A handshake goes on from here, and so does what the socket had no room for. Where nothing
        // can be sent any more, what has come is read all the same; a write says why.
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
                        // Bytes before it count; the next read returns the error again.
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

    /// After [`io::ErrorKind::WouldBlock`] the same bytes must be offered again, more may follow
    /// them: they are encrypted already.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        if self.is_shut {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.flush()?;
        if self.owed == 0 {
            if self.tls.is_handshaking() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.owed = self.tls.writer().write(&bytes[..bytes.len().min(CHUNK)])?;
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

    fn peer_certificate(&self) -> Option<Certificate> {
        Certificate::parse(self.tls.peer_certificates()?.first()?)
    }

    fn shutdown(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_shut, true) {
            self.tls.send_close_notify();
            // Where the socket is full, the end of the connection says it alone.
            let _ = self.flush();
        }
        self.inner.shutdown()
    }
}

/// The stream below, as rustls asks for it.
struct Wire<'s> {
    inner: &'s mut dyn Stream,
    /// The last read brought less than was asked for: there is no more.
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
