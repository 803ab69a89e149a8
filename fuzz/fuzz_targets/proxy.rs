//! Parses the header of the PROXY protocol, versions 1 and 2, from bytes in arbitrary pieces. The
//! reader never panics, reads exactly to the end of the header, and has a limit.
#![no_main]

use std::io;
use std::net::{IpAddr, SocketAddr};

use libfuzzer_sys::fuzz_target;
use transfix::simulated::rig::ProxyReader;
use transfix_transport::{Interest, Registry, Stream, Token};

/// Maximum number of bytes that the reader takes for an invalid header, or for the longest header
/// of version 2.
const READ_BYTES_MAX: usize = 4 << 10;
/// The signature at the beginning of version 2.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// A stream whose bytes arrive in pieces, and after which more bytes could follow.
struct Pieces<'b> {
    bytes: &'b [u8],
    /// The lengths of the pieces, used repeatedly in this order.
    lengths: &'b [u8],
    /// Number of pieces that have arrived.
    count: usize,
    /// Number of bytes already read; `here` is the number of bytes that may be read before the next
    /// piece.
    read: usize,
    here: usize,
}

impl<'b> Pieces<'b> {
    const fn new(bytes: &'b [u8], lengths: &'b [u8]) -> Self {
        Self { bytes, lengths, count: 0, read: 0, here: 0 }
    }

    fn next_piece(&mut self) {
        let length = self.lengths.get(self.count % self.lengths.len().max(1));
        self.count += 1;
        let end = self.here + usize::from(length.copied().unwrap_or(u8::MAX)).max(1);
        self.here = end.min(self.bytes.len());
    }
}

impl Stream for Pieces<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        assert!(!buf.is_empty(), "a read of nothing would be taken for the end");
        let there = &self.bytes[self.read..self.here];
        if there.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let n = there.len().min(buf.len());
        buf[..n].copy_from_slice(&there[..n]);
        self.read += n;
        Ok(n)
    }

    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        unreachable!("nobody is answered here")
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
        Ok(())
    }
}

/// The result of the reader, and the number of bytes that it read.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Whole(Option<IpAddr>, usize),
    Partial(usize),
    /// An invalid header; the position at which the reader detects it depends on the pieces, so it
    /// is not compared.
    None,
}

fn hear(bytes: &[u8], lengths: &[u8]) -> Heard {
    let (mut stream, mut reader) = (Pieces::new(bytes, lengths), ProxyReader::default());
    loop {
        stream.next_piece();
        let heard = reader.advance(&mut stream);
        assert!(stream.read <= READ_BYTES_MAX, "{} bytes were read", stream.read);
        match heard {
            Ok(Some(source)) => return Heard::Whole(source, stream.read),
            Ok(None) => assert_eq!(stream.read, stream.here, "it waits, and more is there"),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
                return Heard::None;
            }
        }
        if stream.here == bytes.len() {
            return Heard::Partial(stream.read);
        }
    }
}

/// Returns the end of a header at the beginning of the bytes, according to the rules of the
/// protocol.
fn end_of(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(SIGNATURE) {
        let length = bytes.get(14..16)?;
        return Some(16 + usize::from(u16::from_be_bytes([length[0], length[1]])));
    }
    bytes.windows(2).position(|two| two == b"\r\n").map(|at| at + 2)
}

fn check(bytes: &[u8], lengths: &[u8]) {
    let whole = hear(bytes, &[]);
    assert_eq!(hear(bytes, lengths), whole, "in pieces of {lengths:?}");
    assert_eq!(hear(bytes, &[1]), whole, "byte by byte");
    match whole {
        Heard::Whole(_, read) => {
            assert_eq!(Some(read), end_of(bytes), "the header has another end");
            // Bytes after the header do not change the result.
            assert_eq!(hear(&bytes[..read], lengths), whole);
            assert!(matches!(hear(&bytes[..read - 1], lengths), Heard::Partial(_)));
        }
        Heard::Partial(read) => assert_eq!(read, bytes.len()),
        Heard::None => {}
    }
}

fuzz_target!(|bytes: &[u8]| {
    // The last bytes of the input determine the lengths of the pieces.
    let (stream, lengths) = bytes.split_at(bytes.len() - bytes.len().min(3));
    check(stream, lengths);
    // The prefixes make the headers almost valid.
    check(&[b"PROXY ", stream].concat(), lengths);
    check(&[SIGNATURE, stream].concat(), lengths);
});
