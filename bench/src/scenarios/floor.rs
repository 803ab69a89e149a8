//! The floor of scenario S1: the same bytes over a raw socket, with the same wait and the same
//! pace.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use transfix::clock::monotonic_ns;

use super::pace::Pace;

/// How a side waits for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Reads again and again.
    Spin,
    /// Sleeps in the kernel until bytes come.
    Kernel,
}

/// Answers each `order_len` bytes with `report` until the peer closes.
pub(crate) fn answer(
    listener: &TcpListener,
    wait: Wait,
    order_len: usize,
    report: &[u8],
) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    prepare(&stream)?;
    let mut buffer = vec![0; order_len];
    while read_whole(&mut stream, &mut buffer, wait)? {
        write_whole(&mut stream, report)?;
    }
    Ok(())
}

/// Sends `order` at the pace and measures until `report_len` bytes have come back; nanoseconds. A
/// second thread, which waits for the answers, is pinned to `receiver_cpu`.
pub(crate) fn ask(
    address: &str,
    (wait, receiver_cpu): (Wait, Option<usize>),
    (order, report_len): (&[u8], usize),
    (n, rate): (usize, u64),
) -> io::Result<Vec<u64>> {
    let mut stream = TcpStream::connect(address)?;
    prepare(&stream)?;
    let mut sent_at = vec![0; n];
    let mut got_at = vec![0; n];
    let mut buffer = vec![0; report_len];
    match wait {
        Wait::Spin => {
            // As in the engine: one thread sends what is due and reads what has come.
            let pace = Pace::start(rate);
            let (mut sent, mut got, mut read) = (0, 0, 0);
            while got < n {
                if sent < n && pace.is_due(sent) {
                    sent_at[sent] = monotonic_ns();
                    write_whole(&mut stream, order)?;
                    sent += 1;
                }
                read += read_some(&mut stream, &mut buffer[read..])?;
                if read == report_len {
                    got_at[got] = monotonic_ns();
                    (got, read) = (got + 1, 0);
                }
            }
        }
        Wait::Kernel => {
            // As in the engine: one thread paces and sends, another waits for the answers.
            let mut reader = stream.try_clone()?;
            let got_at = &mut got_at;
            std::thread::scope(|scope| -> io::Result<()> {
                let receiver = scope.spawn(move || -> io::Result<()> {
                    if let Some(cpu) = receiver_cpu {
                        transfix::pin_to_cpu(cpu)?;
                    }
                    for at in got_at.iter_mut() {
                        if !read_whole(&mut reader, &mut buffer, wait)? {
                            return Err(io::ErrorKind::UnexpectedEof.into());
                        }
                        *at = monotonic_ns();
                    }
                    Ok(())
                });
                let pace = Pace::start(rate);
                for (i, at) in sent_at.iter_mut().enumerate() {
                    pace.wait(i);
                    *at = monotonic_ns();
                    write_whole(&mut stream, order)?;
                }
                receiver.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
            })?;
        }
    }
    Ok(sent_at.iter().zip(&got_at).map(|(sent, got)| got.saturating_sub(*sent)).collect())
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)
}

/// What has come so far, without waiting.
fn read_some(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    match stream.read(buffer) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(n) => Ok(n),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(0)
        }
        Err(e) => Err(e),
    }
}

/// False if the peer closed before the first byte.
fn read_whole(stream: &mut TcpStream, buffer: &mut [u8], wait: Wait) -> io::Result<bool> {
    let mut read = 0;
    while read < buffer.len() {
        match stream.read(&mut buffer[read..]) {
            Ok(0) => return Ok(false),
            Ok(n) => read += n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                if wait == Wait::Kernel {
                    poll(&mut [PollFd::new(&stream.as_fd(), PollFlags::IN)], None)?;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

fn write_whole(stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
