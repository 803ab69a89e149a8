//! The way of an initiator to its acceptor: its addresses, one after the other, and how long it
//! waits before it tries again.
//!
//! Each refused Logon(A) has used a number at this end: whoever is refused again and again waits
//! twice as long each time.

use std::io;
use std::net::SocketAddr;

use transfix_transport::{Interest, Registry, SocketOptions, Stream, Token};

use crate::drive::tls::{Shaking, Way};
use crate::io::{Connecting, Io};
use crate::link::INTEREST;

const MS: u64 = 1_000_000;
/// How long a connection may take to be established.
const CONNECT_TIMEOUT_NS: u64 = 10_000 * MS;

/// Of one session. Moments are those of the monotonic clock, in nanoseconds.
pub(crate) struct Connector {
    addresses: Vec<SocketAddr>,
    options: SocketOptions,
    tls: Option<Way>,
    interval_ns: u64,
    interval_max_ns: u64,
    /// Connections in a row whose Logon(A) was not accepted.
    refusals: u32,
    next: usize,
    state: State,
}

enum State {
    /// Try again at this moment.
    At(u64),
    /// Until this moment.
    Connecting(Box<dyn Connecting>, u64),
    /// Connected, and shaking hands until this moment.
    Securing(Box<Shaking>, u64),
    Connected,
}

/// How a connection, or an attempt at one, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Nobody was there, and no number was used.
    Unconnected,
    /// The Logon(A) was not accepted.
    Refused,
    /// The session had been logged on.
    AfterLogon,
}

impl Connector {
    /// `tls`: around each connection.
    pub(crate) const fn new(
        addresses: Vec<SocketAddr>,
        options: SocketOptions,
        tls: Option<Way>,
        (interval_ms, interval_max_ms): (u32, u32),
    ) -> Self {
        let (interval_ns, interval_max_ns) = (interval_ms as u64 * MS, interval_max_ms as u64 * MS);
        let state = State::At(0);
        Self { addresses, options, tls, interval_ns, interval_max_ns, refusals: 0, next: 0, state }
    }

    /// Moves on: begins to connect if it is time to and `may_begin`, or finds the connection
    /// established and returns it, registered nowhere.
    ///
    /// # Errors
    /// If the attempt has failed; [`Connector::down`] plans the next one.
    pub(crate) fn advance(
        &mut self,
        now_ns: u64,
        io: &dyn Io,
        may_begin: bool,
        (registry, token): (Registry<'_>, Token),
    ) -> io::Result<Option<Box<dyn Stream>>> {
        match &mut self.state {
            State::At(at) if may_begin && now_ns >= *at => {
                let address = self.addresses[self.next % self.addresses.len()];
                self.next += 1;
                let mut connecting = io.connect(address, &self.options)?;
                connecting.register(registry, token, Interest::WRITABLE)?;
                self.state = State::Connecting(connecting, now_ns + CONNECT_TIMEOUT_NS);
                Ok(None)
            }
            State::Connecting(connecting, until) => match connecting.finish()? {
                Some(mut stream) => {
                    let Some(tls) = &self.tls else {
                        return self.connected(stream, registry).map(Some);
                    };
                    stream.reregister(registry, token, INTEREST)?;
                    self.state = State::Securing(Box::new(tls.connect(stream)?), *until);
                    self.advance(now_ns, io, may_begin, (registry, token))
                }
                None if now_ns >= *until => Err(io::ErrorKind::TimedOut.into()),
                None => Ok(None),
            },
            // No Logon(A) uses a number before it is known who is there.
            State::Securing(shaking, until) => match shaking.advance()? {
                true => match std::mem::replace(&mut self.state, State::Connected) {
                    State::Securing(shaking, _) => {
                        self.connected(shaking.finish(), registry).map(Some)
                    }
                    _ => Ok(None),
                },
                false if now_ns >= *until => Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the counterparty has not ended the TLS handshake in time: it may expect plain \
                     text",
                )),
                false => Ok(None),
            },
            State::At(_) | State::Connected => Ok(None),
        }
    }

    /// From here on the link registers it, if it is to wait at all.
    fn connected(
        &mut self,
        mut stream: Box<dyn Stream>,
        registry: Registry<'_>,
    ) -> io::Result<Box<dyn Stream>> {
        self.state = State::Connected;
        stream.deregister(registry)?;
        Ok(stream)
    }

    /// When it has something to do; `may_begin` as for [`Connector::advance`].
    pub(crate) const fn deadline(&self, may_begin: bool) -> Option<u64> {
        match &self.state {
            State::At(at) if may_begin => Some(*at),
            State::Connecting(_, until) | State::Securing(_, until) => Some(*until),
            State::At(_) | State::Connected => None,
        }
    }

    /// An operator wants the connection now.
    pub(crate) const fn hurry(&mut self, now_ns: u64) {
        if let State::At(at) = &mut self.state {
            (*at, self.refusals) = (now_ns, 0);
        }
    }

    /// An attempt that is due waits until the schedule is looked at again.
    pub(crate) const fn put_off(&mut self, now_ns: u64, look_at: Option<u64>) {
        match (&mut self.state, look_at) {
            (State::At(at), Some(later)) if now_ns >= *at => *at = later,
            _ => {}
        }
    }

    /// The connection was not wanted any more.
    pub(crate) fn again(&mut self, now_ns: u64) {
        self.state = State::At(now_ns + self.interval_ns);
    }

    /// The connection, or the attempt, has ended: plans the next one.
    pub(crate) fn down(&mut self, now_ns: u64, ended: Ended) {
        match ended {
            Ended::Refused => self.refusals = self.refusals.saturating_add(1),
            Ended::AfterLogon => self.refusals = 0,
            Ended::Unconnected => {}
        }
        self.state = State::At(now_ns + self.wait_ns());
    }

    /// Time before the next attempt.
    fn wait_ns(&self) -> u64 {
        let doubled = self.interval_ns.saturating_mul(1 << self.refusals.min(32));
        doubled.min(self.interval_max_ns.max(self.interval_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds to the next attempt after each of so many refusals.
    fn waits(connector: &mut Connector, refusals: usize) -> Vec<u64> {
        let wait = |connector: &mut Connector| {
            connector.down(7, Ended::Refused);
            (connector.deadline(true).unwrap() - 7) / MS
        };
        (0..refusals).map(|_| wait(connector)).collect()
    }

    #[test]
    fn a_refused_logon_slows_the_next_try_down() {
        let connector =
            |intervals| Connector::new(Vec::new(), SocketOptions::default(), None, intervals);
        let mut doubling = connector((500, 3_000));
        assert_eq!(waits(&mut doubling, 6), [1_000, 2_000, 3_000, 3_000, 3_000, 3_000]);
        doubling.refusals = u32::MAX;
        assert_eq!(waits(&mut doubling, 1), [3_000]);
        doubling.down(7, Ended::Unconnected);
        assert_eq!(doubling.deadline(true), Some(7 + 3_000 * MS), "nothing was refused, nor taken");
        doubling.down(7, Ended::AfterLogon);
        assert_eq!(doubling.deadline(true), Some(7 + 500 * MS));
        assert_eq!(doubling.deadline(false), None, "an operator has logged it out");
        let never_faster = waits(&mut connector((500, 1)), 9);
        assert_eq!(never_faster, [500; 9]);
    }
}
