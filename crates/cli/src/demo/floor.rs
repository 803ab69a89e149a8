//! Lower bound ("floor") of a round trip: the time that the same bytes take over a raw socket, with
//! the same waiting mode and pace.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use transfix::clock::monotonic_ns;

/// Time between two orders, in nanoseconds.
pub(super) const INTERVAL_NS: u64 = 1_000_000;

/// How a thread waits for input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The thread sleeps in the kernel.
    Sleep,
    /// The thread spins and never sleeps.
    Spin,
}

/// Measures `count` round trips of an order and its execution report over a raw socket. Returns the
/// times in nanoseconds.
pub(super) fn slice(wait: Wait, frames: &[Vec<u8>; 2], count: usize) -> io::Result<Vec<u64>> {
    let [order, report] = frames;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let stream = prepared(TcpStream::connect(listener.local_addr()?)?, wait)?;
    let far = prepared(listener.accept()?.0, wait)?;
    thread::scope(|scope| {
        scope.spawn(move || answer(far, order.len(), report));
        let times = match wait {
            Wait::Spin => alone(&stream, order, report.len(), count),
            Wait::Sleep => beside_a_reader(&stream, order, report.len(), count),
        };
        // Closing the stream stops the thread that answers orders.
        drop(stream);
        times
    })
}

fn prepared(stream: TcpStream, wait: Wait) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(wait == Wait::Spin)?;
    Ok(stream)
}

/// Answers each order with the report until the other side closes the connection.
fn answer(mut stream: TcpStream, order_len: usize, report: &[u8]) -> io::Result<()> {
    let mut order = vec![0; order_len];
    loop {
        read(&stream, &mut order)?;
        // The report is short and the send buffer of the socket is empty, so the write does not
        // block.
        stream.write_all(report)?;
    }
}

/// Reads until `bytes` is full; a non-blocking socket is polled.
fn read(mut stream: &TcpStream, bytes: &mut [u8]) -> io::Result<()> {
    let mut read = 0;
    while read < bytes.len() {
        match stream.read(&mut bytes[read..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => read += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until `due_ns` and sends the order. Returns the time of sending.
fn send(mut stream: &TcpStream, order: &[u8], due_ns: u64) -> io::Result<u64> {
    while monotonic_ns() < due_ns {
        std::hint::spin_loop();
    }
    let sent = monotonic_ns();
    stream.write_all(order)?;
    Ok(sent)
}

/// Measures round trips with sending and receiving in the same thread.
fn alone(
    stream: &TcpStream,
    order: &[u8],
    report_len: usize,
    count: usize,
) -> io::Result<Vec<u64>> {
    let (begin, mut report) = (monotonic_ns(), vec![0; report_len]);
    let mut trip = |n: u64| {
        let sent = send(stream, order, begin + n * INTERVAL_NS)?;
        read(stream, &mut report)?;
        Ok(monotonic_ns() - sent)
    };
    (1..=count as u64).map(&mut trip).collect()
}

/// Measures round trips that are sent from this thread, while a second thread receives and sleeps
/// between reports.
fn beside_a_reader(
    stream: &TcpStream,
    order: &[u8],
    report_len: usize,
    count: usize,
) -> io::Result<Vec<u64>> {
    thread::scope(|scope| {
        let reader = scope.spawn(|| -> io::Result<Vec<u64>> {
            let mut report = vec![0; report_len];
            (0..count).map(|_| read(stream, &mut report).map(|()| monotonic_ns())).collect()
        });
        let begin = monotonic_ns();
        let sent = (1..=count as u64).map(|n| send(stream, order, begin + n * INTERVAL_NS));
        let sent: io::Result<Vec<u64>> = sent.collect();
        let got = reader.join().unwrap_or_else(|_| Err(ErrorKind::Other.into()))?;
        Ok(sent?.iter().zip(got).map(|(sent, got)| got.saturating_sub(*sent)).collect())
    })
}
