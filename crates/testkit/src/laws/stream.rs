//! The laws of [`Stream`].

use std::io;

use transfix_transport::Stream;

use crate::random::Random;

type Pair = (Box<dyn Stream>, Box<dyn Stream>);

/// Checks every law. `connect` gives the two ends of a new connection.
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

/// Reads until something comes; loopback delivers in the kernel, without a network to wait for.
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
    // The first write may still find room; the refusal comes back at once on loopback.
    let error = loop {
        match a.write(b"more") {
            Ok(_) => std::thread::yield_now(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => break error.kind(),
        }
    };
    assert!(matches!(error, io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset));
}
