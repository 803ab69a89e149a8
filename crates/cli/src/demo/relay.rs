//! A TCP relay between client and venue that can interrupt the connection after a number of bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A TCP relay that forwards one connection at a time.
pub(crate) struct Relay {
    address: SocketAddr,
    line: Arc<Line>,
}

struct Line {
    /// Bytes that the client may still send before the interruption; `usize::MAX` means no
    /// interruption.
    left: AtomicUsize,
    cuts: AtomicU64,
}

impl Relay {
    /// Listens on a free port, and forwards connections to `to` until the program ends.
    pub(crate) fn start(to: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let line = Line { left: AtomicUsize::new(usize::MAX), cuts: AtomicU64::new(0) };
        let line = Arc::new(line);
        let shared = Arc::clone(&line);
        std::thread::Builder::new().name("relay".to_owned()).spawn(move || {
            for client in listener.incoming().flatten() {
                // If the venue is unreachable, the relay closes the client's connection.
                if let Ok(venue) = TcpStream::connect(to) {
                    let _ = pass_on(&client, &venue, &shared);
                }
            }
        })?;
        Ok(Self { address, line })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Interrupts both directions after the client has sent `bytes` more bytes.
    pub(crate) fn cut_after(&self, bytes: usize) {
        self.line.left.store(bytes, Ordering::Release);
    }

    /// Returns the number of interruptions.
    pub(crate) fn cuts(&self) -> u64 {
        self.line.cuts.load(Ordering::Acquire)
    }
}

/// Forwards one connection in both directions until it ends.
fn pass_on(client: &TcpStream, venue: &TcpStream, line: &Line) -> std::io::Result<()> {
    for end in [client, venue] {
        end.set_nodelay(true)?;
    }
    let (mut back_from, mut back_to) = (venue.try_clone()?, client.try_clone()?);
    let back = std::thread::Builder::new().name("relay-back".to_owned()).spawn(move || {
        let _ = std::io::copy(&mut back_from, &mut back_to);
        let _ = back_to.shutdown(Shutdown::Both);
    })?;
    let (mut from, mut to) = (client, venue);
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let left = line.left.load(Ordering::Acquire);
        if n >= left {
            // The bytes before the interruption arrive; the rest of the message is lost.
            let _ = to.write_all(&buffer[..left]);
            line.left.store(usize::MAX, Ordering::Release);
            line.cuts.fetch_add(1, Ordering::AcqRel);
            break;
        }
        if left != usize::MAX {
            line.left.store(left - n, Ordering::Release);
        }
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    for end in [client, venue] {
        let _ = end.shutdown(Shutdown::Both);
    }
    let _ = back.join();
    Ok(())
}
