//! The floor: a router without a FIX engine. One thread polls all sockets, splits messages by
//! BodyLength(9), and writes each message unchanged to a random receiver.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use transfix::clock::monotonic_ns;

use super::super::throughput::frame_length;
use super::figures::Points;
use super::venue::{Choice, obey};

/// A shared histogram of write times in nanoseconds.
type Writes = Arc<Mutex<Histogram<u64>>>;

/// Prints the listening address, and routes until standard input ends. The first `receivers`
/// connections receive, the next `senders` connections send.
pub(super) fn run(address: &str, senders: usize, receivers: usize) -> Result<(), String> {
    let listener = TcpListener::bind(address).map_err(|error| error.to_string())?;
    println!("{}", listener.local_addr().map_err(|error| error.to_string())?);
    let chosen = Arc::new(AtomicUsize::new(receivers));
    let writes = Histogram::new_with_bounds(1, 1_000_000_000, 3).map_err(|e| e.to_string())?;
    let writes: Writes = Arc::new(Mutex::new(writes));
    let (among, taken) = (Arc::clone(&chosen), Arc::clone(&writes));
    std::thread::spawn(move || {
        let done = route(&listener, (senders, receivers), &among, &taken);
        eprintln!("transfix bench router: the floor: {:?}", done.err());
        std::process::exit(1);
    });
    obey(&chosen, || {
        let mut writes = writes.lock().unwrap_or_else(PoisonError::into_inner);
        let put_to_socket_ns = (!writes.is_empty()).then(|| writes.value_at_quantile(0.5));
        writes.reset();
        Points { socket_to_callback_ns: None, put_to_socket_ns }
    })
}

fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    // The floor echoes the Logon(A), because the client waits only for any complete message.
    let (mut logon, mut bytes) = (Vec::new(), [0; 512]);
    while frame_length(&logon)?.is_none_or(|length| logon.len() < length) {
        let n = stream.read(&mut bytes)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        logon.extend_from_slice(&bytes[..n]);
    }
    stream.write_all(&logon)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn route(
    listener: &TcpListener,
    (senders, receivers): (usize, usize),
    among: &AtomicUsize,
    writes: &Writes,
) -> io::Result<()> {
    let out = (0..receivers).map(|_| accept(listener)).collect::<io::Result<Vec<_>>>()?;
    let mut sources: Vec<(TcpStream, Vec<u8>)> = Vec::new();
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for n in 0..senders {
        let stream = accept(listener)?;
        let data = epoll::EventData::new_u64(n as u64);
        epoll::add(&poll, &stream, data, epoll::EventFlags::IN)?;
        sources.push((stream, Vec::new()));
    }
    let mut choice = Choice::default();
    let (mut ready, mut times) = (Vec::with_capacity(64), Vec::new());
    let mut bytes = vec![0; 64 << 10];
    loop {
        ready.clear();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&poll, spare_capacity(&mut ready), Some(&at_once))?;
        for event in &ready {
            let (stream, rest) = &mut sources[event.data.u64() as usize];
            let n = match stream.read(&mut bytes) {
                Ok(0) => std::process::exit(0),
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            rest.extend_from_slice(&bytes[..n]);
            let mut taken = 0;
            while let Some(length) = frame_length(&rest[taken..])?
                && rest.len() - taken >= length
            {
                let to = choice.next(among.load(Ordering::Relaxed));
                let begun = monotonic_ns();
                write(&out[to], &rest[taken..taken + length])?;
                times.push(monotonic_ns() - begun);
                taken += length;
            }
            rest.drain(..taken);
        }
        if !times.is_empty()
            && let Ok(mut writes) = writes.try_lock()
        {
            times.drain(..).for_each(|ns| writes.saturating_record(ns));
        }
    }
}

fn write(mut stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
