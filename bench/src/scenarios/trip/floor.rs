//! The floor of a round trip: the same bytes over a raw socket, with the same pace, and the same
//! way of waiting.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use transfix::clock::monotonic_ns;

use super::ours::Times;
use super::pace::Pace;
use super::process::Task;

/// How a side waits for bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// Reads in a spin loop until bytes arrive.
    Spin,
    /// Sleeps in the kernel until bytes arrive.
    Kernel,
}

/// Answers each `order_len` bytes with `report` until the other side disconnects.
pub(super) fn answer(
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

/// Parameters of the floor's initiator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    pub(super) wait: Wait,
    /// CPU of the thread that receives answers; `None` if the sending thread also receives.
    pub(super) receiver_cpu: Option<usize>,
    /// Orders per second; without a rate, each order follows the answer to the previous order.
    pub(super) rate: Option<u64>,
}

/// Sends `order` repeatedly, and measures each time until `answer_len` bytes have arrived.
pub(super) fn ask(
    address: &str,
    asking: Asking,
    (order, answer_len): (&[u8], usize),
    task: Task,
) -> io::Result<Times> {
    let mut stream = TcpStream::connect(address)?;
    prepare(&stream)?;
    let mut buffer = vec![0; answer_len];
    let mut run = |n| match (asking.rate, asking.wait) {
        (None, Wait::Spin) => in_turn(&mut stream, order, &mut buffer, n),
        (None, Wait::Kernel) => in_turn_waiting(&mut stream, asking, order, &mut buffer, n),
        (Some(rate), Wait::Spin) => spinning(&mut stream, rate, order, &mut buffer, n),
        (Some(rate), Wait::Kernel) => waiting(&mut stream, (rate, asking), order, &mut buffer, n),
    };
    run(task.warm_up)?;
    run(task.orders)
}

/// Sends each order after the answer to the previous order, in one thread.
fn in_turn(stream: &mut TcpStream, order: &[u8], buffer: &mut [u8], n: usize) -> io::Result<Times> {
    let mut times = Times::default();
    for _ in 0..n {
        let sent = monotonic_ns();
        write_whole(stream, order)?;
        if !read_whole(stream, buffer, Wait::Spin)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        times.ns.push(monotonic_ns().saturating_sub(sent));
    }
    Ok(times)
}

/// Sends each order after the answer to the previous order, with two threads as in the engine. One
/// thread sends and waits until the other thread has read the answer.
fn in_turn_waiting(
    stream: &mut TcpStream,
    asking: Asking,
    order: &[u8],
    buffer: &mut [u8],
    n: usize,
) -> io::Result<Times> {
    let got_at: Vec<AtomicU64> = (0..n).map(|_| AtomicU64::new(0)).collect();
    let mut times = Times::default();
    let mut reader = stream.try_clone()?;
    std::thread::scope(|scope| -> io::Result<()> {
        let places = &got_at;
        let receiver = scope.spawn(move || -> io::Result<()> {
            if let Some(cpu) = asking.receiver_cpu {
                transfix::pin_to_cpu(cpu)?;
            }
            for at in places {
                if !read_whole(&mut reader, buffer, asking.wait)? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                at.store(monotonic_ns(), Ordering::Release);
            }
            Ok(())
        });
        for at in &got_at {
            let sent = monotonic_ns();
            write_whole(stream, order)?;
            while at.load(Ordering::Acquire) == 0 && !receiver.is_finished() {
                std::hint::spin_loop();
            }
            times.ns.push(at.load(Ordering::Acquire).saturating_sub(sent));
        }
        receiver.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    })?;
    Ok(times)
}

/// Uses one thread, as the engine does, which sends due orders and reads answers.
fn spinning(
    stream: &mut TcpStream,
    rate: u64,
    order: &[u8],
    buffer: &mut [u8],
    n: usize,
) -> io::Result<Times> {
    let (mut sent_at, mut times) = (Vec::with_capacity(n), Times::default());
    let pace = Pace::start(rate);
    let mut read = 0;
    while times.ns.len() < n {
        if sent_at.len() < n && pace.is_due(sent_at.len()) {
            times.late_ns.push(pace.late_ns(sent_at.len()));
            sent_at.push(monotonic_ns());
            write_whole(stream, order)?;
        }
        read += read_some(stream, &mut buffer[read..])?;
        if read == buffer.len() {
            times.ns.push(monotonic_ns().saturating_sub(sent_at[times.ns.len()]));
            read = 0;
        }
    }
    Ok(times)
}

/// Uses two threads, as the engine does: one sends orders at their times, the other waits for the
/// answers.
fn waiting(
    stream: &mut TcpStream,
    (rate, asking): (u64, Asking),
    order: &[u8],
    buffer: &mut [u8],
    n: usize,
) -> io::Result<Times> {
    let (mut sent_at, mut got_at) = (vec![0; n], vec![0; n]);
    let mut times = Times::default();
    let mut reader = stream.try_clone()?;
    let places = &mut got_at;
    std::thread::scope(|scope| -> io::Result<()> {
        let receiver = scope.spawn(move || -> io::Result<()> {
            if let Some(cpu) = asking.receiver_cpu {
                transfix::pin_to_cpu(cpu)?;
            }
            for at in places.iter_mut() {
                if !read_whole(&mut reader, buffer, asking.wait)? {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                *at = monotonic_ns();
            }
            Ok(())
        });
        let pace = Pace::start(rate);
        for (i, at) in sent_at.iter_mut().enumerate() {
            pace.wait(i);
            times.late_ns.push(pace.late_ns(i));
            *at = monotonic_ns();
            write_whole(stream, order)?;
        }
        receiver.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    })?;
    times.ns = sent_at.iter().zip(&got_at).map(|(sent, got)| got.saturating_sub(*sent)).collect();
    Ok(times)
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)
}

/// Reads the available bytes, without waiting.
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

/// Fills the buffer. Returns false if the other side disconnected.
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
