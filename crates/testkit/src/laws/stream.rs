//! The laws of [`Stream`], which every byte stream of an engine fulfills.

use std::io;

use transfix_transport::Stream;
use transfix_transport::memory::MemoryStream;

use crate::random::Random;

type Pair = (Box<dyn Stream>, Box<dyn Stream>);

/// Checks every law of [`Stream`] except the laws of [`stream_end_laws`]. `connect` returns the two
/// ends of a new connection.
///
/// # Panics
/// If a law is broken.
pub fn stream_laws(mut connect: impl FnMut() -> Pair) {
    nothing_to_read_would_block(connect());
    bytes_arrive_in_order(connect());
    a_full_stream_would_block(connect());
    shutdown_ends_one_direction(connect());
    dropping_ends_both_directions(connect());
}

/// A connection whose other end has sent its last bytes, which have not arrived yet.
pub struct EndingConnection {
    /// The stream under test.
    pub stream: Box<dyn Stream>,
    /// The far end of the raw connection: bytes written to `wire` arrive below the stream, as if
    /// from the network.
    pub wire: MemoryStream,
    /// The last raw bytes of the connection, which have not arrived yet.
    pub raw: Vec<u8>,
    /// The application bytes that a reader of the stream receives from `raw`.
    pub text: Vec<u8>,
    /// True if `raw` ends the connection by itself, as a TLS alert does.
    pub are_end: bool,
}

/// The kind of a readiness report: bytes are available, or the connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Report {
    Bytes,
    Closed,
}

/// Checks that a reader detects every end of a connection if the reader acts once on each readiness
/// report. The last bytes arrive in two parts, split at every position. Either part may report the
/// end, or the bytes themselves mark it.
///
/// # Panics
/// If the reader misses an end of a connection, or a byte before the end.
pub fn stream_end_laws(mut connect: impl FnMut() -> EndingConnection) {
    let mut cut = 0;
    loop {
        let EndingConnection { mut stream, mut wire, raw, text, .. } = connect();
        let at = cut.min(raw.len());
        write_all(&mut wire, &raw[..at]);
        wire.shutdown().expect("shutdown");
        let (got, ended) = act_on(&mut *stream, Report::Closed);
        assert!(ended, "{at} of {} bytes and the end in one report: the end is missed", raw.len());
        assert!(text.starts_with(&got), "{at} of {} bytes", raw.len());

        let EndingConnection { mut stream, mut wire, raw, text, are_end } = connect();
        let at = cut.min(raw.len());
        write_all(&mut wire, &raw[..at]);
        let (mut got, mut ended) = act_on(&mut *stream, Report::Bytes);
        write_all(&mut wire, &raw[at..]);
        let report = if are_end { Report::Bytes } else { Report::Closed };
        if report == Report::Closed {
            wire.shutdown().expect("shutdown");
        }
        if !ended {
            let (more, is_over) = act_on(&mut *stream, report);
            got.extend(more);
            ended = is_over;
        }
        assert!(ended, "cut at {at} of {}: the end is missed ({report:?})", raw.len());
        assert_eq!(got, text, "cut at {at} of {}", raw.len());
        if cut >= raw.len() {
            return;
        }
        cut += 1;
    }
}

/// Acts on one readiness report as an engine's worker does. Returns the bytes read, and true if the
/// connection has ended.
fn act_on(stream: &mut dyn Stream, report: Report) -> (Vec<u8>, bool) {
    let (mut got, mut buf) = (Vec::new(), [0; 64]);
    loop {
        match stream.read(&mut buf) {
            Ok(0) => return (got, true),
            Ok(n) => {
                got.extend_from_slice(&buf[..n]);
                if n < buf.len() && !stream.has_more() && report == Report::Bytes {
                    return (got, false);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (got, error.kind() != io::ErrorKind::WouldBlock),
        }
    }
}

fn write_all(wire: &mut MemoryStream, bytes: &[u8]) {
    if !bytes.is_empty() {
        assert_eq!(wire.write(bytes).expect("write"), bytes.len(), "the wire has room");
    }
}

/// Reads until bytes arrive. The loop is short, because loopback delivers inside the kernel.
fn read(stream: &mut dyn Stream, buf: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buf) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            result => return result,
        }
    }
}

fn read_exactly(stream: &mut dyn Stream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let mut done = 0;
    while done < count {
        let more = read(stream, &mut bytes[done..]).expect("read");
        assert_ne!(more, 0, "closed after {done} of {count} bytes");
        done += more;
    }
    bytes
}

fn assert_would_block(result: io::Result<usize>) {
    assert_eq!(result.map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));
}

fn nothing_to_read_would_block((mut a, mut b): Pair) {
    assert_would_block(a.read(&mut [0; 8]));
    assert_would_block(b.read(&mut [0; 8]));
    assert_eq!(a.write(b"ab").expect("write"), 2);
    assert_eq!(read_exactly(&mut *b, 2), b"ab");
    assert_would_block(b.read(&mut [0; 8]));
    assert_would_block(a.read(&mut [0; 8]));
}

fn bytes_arrive_in_order((mut a, mut b): Pair) {
    let mut random = Random::new(1);
    let sent: Vec<u8> = (0..100_000).map(|_| random.next() as u8).collect();
    let (mut written, mut received) = (0, Vec::new());
    let mut buf = [0; 1500];
    while received.len() < sent.len() {
        let end = sent.len().min(written + 1 + random.below(2000));
        match a.write(&sent[written..end]) {
            Ok(count) => written += count,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        let room = 1 + random.below(buf.len());
        match b.read(&mut buf[..room]) {
            Ok(count) => received.extend_from_slice(&buf[..count]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    assert!(received == sent);
}

fn a_full_stream_would_block((mut a, mut b): Pair) {
    let chunk = [7; 4096];
    let mut written = 0;
    loop {
        match a.write(&chunk) {
            Ok(count) => {
                assert_ne!(count, 0, "a write of nothing is WouldBlock");
                written += count;
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                break;
            }
        }
    }
    assert!(read_exactly(&mut *b, written).iter().all(|&byte| byte == 7));
}

fn shutdown_ends_one_direction((mut a, mut b): Pair) {
    assert_eq!(a.write(b"last").expect("write"), 4);
    a.shutdown().expect("shutdown");
    assert!(a.write(b"more").is_err());
    assert_eq!(read_exactly(&mut *b, 4), b"last");
    assert_eq!(read(&mut *b, &mut [0; 8]).expect("closed"), 0);
    assert_eq!(b.write(b"answer").expect("write"), 6);
    assert_eq!(read_exactly(&mut *a, 6), b"answer");
}

fn dropping_ends_both_directions((mut a, b): Pair) {
    drop(b);
    assert_eq!(read(&mut *a, &mut [0; 8]).expect("closed"), 0);
    // The first writes may still fit into the socket buffer; on loopback, the error follows at
    // once.
    let error = loop {
        match a.write(b"more") {
            Ok(_) => std::thread::yield_now(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => break error.kind(),
        }
    };
    assert!(matches!(error, io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset));
}
