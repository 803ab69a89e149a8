//! A network path between two programs: a TCP relay that can lose one direction.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval at which a cut direction is checked again.
const LOOK: Duration = Duration::from_millis(5);

/// Forwards connections to one address.
pub(super) struct Relay {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    to: Mutex<String>,
    /// True while the bytes of this direction are held back: out, and back in.
    is_cut: [AtomicBool; 2],
}

/// A direction of a path, as the program at its beginning sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Out,
    In,
}

impl Relay {
    pub(super) fn to(to: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(State { to: Mutex::new(to.to_owned()), ..State::default() });
        let shared = Arc::clone(&state);
        std::thread::Builder::new().name("relay".to_owned()).spawn(move || {
            for from in listener.incoming().flatten() {
                let to = shared.to.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let there = to.to_socket_addrs().ok().and_then(|mut all| all.next());
                // Without its end, the relay closes the connection.
                if let Some(to) = there.and_then(|to| TcpStream::connect(to).ok()) {
                    let _ = forward(&from, &to, &shared);
                }
            }
        })?;
        Ok(Self { address, state })
    }

    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Forwards later connections to another address.
    pub(super) fn turn_to(&self, to: &str) {
        to.clone_into(&mut self.state.to.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Holds the bytes of one direction back, or passes them again, as a network does that loses
    /// packets for a while.
    pub(super) fn cut(&self, way: Direction, is_cut: bool) {
        self.state.is_cut[way as usize].store(is_cut, Ordering::Release);
    }
}

/// Forwards a connection in two threads until it ends.
fn forward(from: &TcpStream, to: &TcpStream, state: &Arc<State>) -> std::io::Result<()> {
    for (way, source, target) in [(Direction::Out, from, to), (Direction::In, to, from)] {
        let (mut source, mut target) = (source.try_clone()?, target.try_clone()?);
        target.set_nodelay(true)?;
        let state = Arc::clone(state);
        std::thread::Builder::new().name("relay-way".to_owned()).spawn(move || {
            let mut buffer = [0; 16 << 10];
            while let Ok(n @ 1..) = source.read(&mut buffer) {
                while state.is_cut[way as usize].load(Ordering::Acquire) {
                    super::pause(LOOK);
                }
                if target.write_all(&buffer[..n]).is_err() {
                    break;
                }
            }
            for end in [source, target] {
                let _ = end.shutdown(Shutdown::Both);
            }
        })?;
    }
    Ok(())
}
