//! The way of an initiator to its acceptor. A name is looked up, its addresses are tried one after
//! the other, a proxy puts the connection through, TLS goes around it. And how long it waits before
//! it tries again, there or elsewhere.
//!
//! Each refused Logon(A) has used a number at this end: whoever is refused again and again waits
//! twice as long each time.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use transfix_session::{Secret, nanos};
use transfix_settings::{Backoff, ProxyKind, SocketSettings};
use transfix_transport::tunnel::Tunnel;
use transfix_transport::{Interest, Registry, Stream, Token};

use crate::drive::resolver::Lookup;
use crate::drive::routes::Routes;
use crate::drive::shared::Shared;
use crate::drive::tls::Shaking;
use crate::io::Connecting;
use crate::link::INTEREST;

/// When an initiator tries again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pauses {
    interval_ns: u64,
    interval_max_ns: u64,
    backoff: Backoff,
    jitter_percent: u32,
    /// Attempts in a row without a logon; 0 for any number.
    attempts_max: u32,
    /// How long one attempt may take.
    timeout_ns: u64,
}

impl Pauses {
    pub(crate) fn of(socket: &SocketSettings) -> Self {
        Self {
            interval_ns: nanos(socket.reconnect_interval),
            interval_max_ns: nanos(socket.reconnect_interval_max),
            backoff: socket.reconnect_backoff,
            jitter_percent: socket.reconnect_jitter_percent,
            attempts_max: socket.reconnect_attempts_max,
            timeout_ns: nanos(socket.connect_timeout),
        }
    }
}

/// The way out of one session. Moments are those of the monotonic clock, in nanoseconds.
pub(crate) struct Connector {
    pub(crate) routes: Routes,
    pauses: Pauses,
    /// Connections in a row whose Logon(A) was not accepted.
    refusals: u32,
    /// Attempts in a row that have found nobody.
    unconnected: u32,
    /// Further addresses of the name that is tried.
    addresses: VecDeque<SocketAddr>,
    state: State,
}

enum State {
    /// Try again at this moment.
    At(u64),
    /// It was tried often enough: [`Connector::hurry`] begins anew.
    GivenUp,
    /// The name is looked up, until this moment.
    Resolving(Arc<Lookup>, u64),
    /// Until this moment.
    Connecting(Box<dyn Connecting>, u64),
    /// Connected to a proxy, which is to put the connection through until this moment.
    Tunnelling(Tunnel, u64),
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
    pub(crate) fn new(routes: Routes, pauses: Pauses) -> Self {
        let (refusals, unconnected, addresses) = (0, 0, VecDeque::new());
        Self { routes, pauses, refusals, unconnected, addresses, state: State::At(0) }
    }

    /// Moves on: begins to connect if it is time to and `may_begin`, or finds the connection
    /// established and returns it, registered nowhere.
    ///
    /// # Errors
    /// If the attempt has failed; [`Connector::down`] plans the next one.
    pub(crate) fn advance(
        &mut self,
        now_ns: u64,
        shared: &Shared,
        may_begin: bool,
        at: (Registry<'_>, Token),
    ) -> io::Result<Option<Box<dyn Stream>>> {
        // A failure on the way to a proxy is no fault of the destination.
        let is_before_proxy =
            matches!(self.state, State::At(_) | State::Resolving(..) | State::Connecting(..));
        let advanced = self.step(now_ns, shared, may_begin, at);
        match (&self.routes.proxy, advanced) {
            (Some((_, proxy)), Err(error)) if is_before_proxy => {
                Err(io::Error::new(error.kind(), format!("proxy {proxy}: {error}")))
            }
            (_, advanced) => advanced,
        }
    }

    fn step(
        &mut self,
        now_ns: u64,
        shared: &Shared,
        may_begin: bool,
        at: (Registry<'_>, Token),
    ) -> io::Result<Option<Box<dyn Stream>>> {
        loop {
            match &mut self.state {
                State::At(time) if may_begin && now_ns >= *time => {
                    return self.begin(now_ns, shared, at).map(|()| None);
                }
                State::Resolving(lookup, until) => match lookup.found() {
                    Some(found) => {
                        self.addresses = found?.into();
                        return self.dial(now_ns, shared, at).map(|()| None);
                    }
                    None if now_ns >= *until => {
                        return Err(late("no name server has answered in time"));
                    }
                    None => return Ok(None),
                },
                State::Connecting(connecting, until) => match connecting.finish() {
                    Ok(Some(stream)) => {
                        let until = *until;
                        if let Some(stream) = self.connected(stream, until, at)? {
                            return Ok(Some(stream));
                        }
                    }
                    Ok(None) if now_ns < *until => return Ok(None),
                    Ok(None) if self.addresses.is_empty() => {
                        return Err(late("nobody has answered in time"));
                    }
                    Err(error) if self.addresses.is_empty() => return Err(error),
                    // The name has further addresses.
                    Ok(None) | Err(_) => return self.dial(now_ns, shared, at).map(|()| None),
                },
                State::Tunnelling(tunnel, until) => match tunnel.advance()? {
                    true => {
                        let until = *until;
                        let State::Tunnelling(tunnel, _) = self.take() else { return Ok(None) };
                        if let Some(stream) = self.secure(tunnel.finish(), until, at)? {
                            return Ok(Some(stream));
                        }
                    }
                    false if now_ns >= *until => {
                        return Err(late("the proxy has not put the connection through in time"));
                    }
                    false => return Ok(None),
                },
                // No Logon(A) uses a number before it is known who is there.
                State::Securing(shaking, until) => match shaking.advance()? {
                    true => {
                        let State::Securing(shaking, _) = self.take() else { return Ok(None) };
                        return freed(shaking.finish(), at).map(Some);
                    }
                    false if now_ns >= *until => {
                        return Err(late(
                            "the counterparty has not ended the TLS handshake in time: it may \
                             expect plain text",
                        ));
                    }
                    false => return Ok(None),
                },
                State::At(_) | State::GivenUp | State::Connected => return Ok(None),
            }
        }
    }

    /// An attempt begins: with a name, or with an address.
    fn begin(&mut self, now_ns: u64, shared: &Shared, at: (Registry<'_>, Token)) -> io::Result<()> {
        shared.destination.store(self.routes.current(), Ordering::Release);
        let hop = self.routes.first_hop();
        if let Ok(address) = hop.parse() {
            self.addresses = [address].into();
            return self.dial(now_ns, shared, at);
        }
        let lookup = shared.registry.names.ask(hop, &shared.session_waker, &shared.io)?;
        self.state = State::Resolving(lookup, now_ns + self.pauses.timeout_ns);
        Ok(())
    }

    /// Begins to connect to the next address of the name.
    fn dial(&mut self, now_ns: u64, shared: &Shared, at: (Registry<'_>, Token)) -> io::Result<()> {
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        while let Some(address) = self.addresses.pop_front() {
            let connecting = self.routes.options(address).and_then(|options| {
                let mut connecting = shared.io.connect(address, &options)?;
                connecting.register(at.0, at.1, Interest::WRITABLE)?;
                Ok(connecting)
            });
            match connecting {
                Ok(connecting) => {
                    let until = now_ns + self.pauses.timeout_ns;
                    self.state = State::Connecting(connecting, until);
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The other end of TCP is there: the counterparty, or a proxy.
    fn connected(
        &mut self,
        mut stream: Box<dyn Stream>,
        until: u64,
        at: (Registry<'_>, Token),
    ) -> io::Result<Option<Box<dyn Stream>>> {
        let Some((proxy, _)) = &self.routes.proxy else { return self.secure(stream, until, at) };
        stream.reregister(at.0, at.1, INTEREST)?;
        let to = &*self.routes.route().address;
        let password = proxy.password.as_ref().map_or("", Secret::reveal);
        let login = proxy.username.as_deref().map(|username| (username, password));
        let tunnel = match proxy.kind {
            ProxyKind::Http => Tunnel::http(stream, login, to),
            ProxyKind::Socks5 => Tunnel::socks5(stream, login, to)?,
        };
        self.state = State::Tunnelling(tunnel, until);
        Ok(None)
    }

    /// The counterparty is there: TLS begins, if it is wanted.
    fn secure(
        &mut self,
        mut stream: Box<dyn Stream>,
        until: u64,
        at: (Registry<'_>, Token),
    ) -> io::Result<Option<Box<dyn Stream>>> {
        let Some(tls) = &self.routes.route().tls else {
            self.state = State::Connected;
            return freed(stream, at).map(Some);
        };
        stream.reregister(at.0, at.1, INTEREST)?;
        self.state = State::Securing(Box::new(tls.connect(stream)?), until);
        Ok(None)
    }

    /// The result of the attempt, which is over.
    const fn take(&mut self) -> State {
        std::mem::replace(&mut self.state, State::Connected)
    }

    /// When it has something to do; `may_begin` as for [`Connector::advance`].
    pub(crate) const fn deadline(&self, may_begin: bool) -> Option<u64> {
        match &self.state {
            State::At(at) if may_begin => Some(*at),
            State::Resolving(_, until)
            | State::Connecting(_, until)
            | State::Tunnelling(_, until)
            | State::Securing(_, until) => Some(*until),
            State::At(_) | State::GivenUp | State::Connected => None,
        }
    }

    /// Returns true if it was tried often enough.
    pub(crate) const fn has_given_up(&self) -> bool {
        matches!(self.state, State::GivenUp)
    }

    /// An operator wants the connection now, or a new window lets it begin anew.
    pub(crate) fn hurry(&mut self, now_ns: u64) {
        if matches!(self.state, State::At(_) | State::GivenUp) {
            self.state = State::At(now_ns);
            (self.refusals, self.unconnected) = (0, 0);
        }
    }

    /// An operator wants this destination, at once.
    pub(crate) fn turn_to(&mut self, now_ns: u64, route: usize) {
        self.routes.turn_to(route);
        if !matches!(self.state, State::Connected) {
            self.state = State::At(now_ns);
            (self.refusals, self.unconnected) = (0, 0);
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
        self.state = State::At(now_ns + self.pauses.interval_ns);
    }

    /// The connection, or the attempt, has ended: plans the next one. Returns after how many
    /// attempts it has given up.
    pub(crate) fn down(&mut self, now_ns: u64, ended: Ended) -> Option<u32> {
        match ended {
            Ended::Refused => self.refusals = self.refusals.saturating_add(1),
            Ended::AfterLogon => (self.refusals, self.unconnected) = (0, 0),
            Ended::Unconnected => self.unconnected = self.unconnected.saturating_add(1),
        }
        self.addresses.clear();
        self.routes.ended(ended);
        let attempts = self.refusals.saturating_add(self.unconnected);
        if self.pauses.attempts_max > 0 && attempts >= self.pauses.attempts_max {
            self.state = State::GivenUp;
            return Some(attempts);
        }
        self.state = State::At(now_ns + self.wait_ns());
        None
    }

    /// Time before the next attempt.
    fn wait_ns(&mut self) -> u64 {
        let rounds = match self.pauses.backoff {
            Backoff::Constant => 0,
            // The first round of all destinations has the first interval.
            Backoff::Exponential => self.unconnected / self.routes.count() as u32,
        };
        let doublings = self.refusals.saturating_add(rounds).min(32);
        let doubled = self.pauses.interval_ns.saturating_mul(1 << doublings);
        let wait = doubled.min(self.pauses.interval_max_ns.max(self.pauses.interval_ns));
        match self.pauses.jitter_percent {
            0 => wait,
            percent => {
                // In thousandths of what may be left to chance.
                let less = u64::from(percent) * self.routes.any(1_001) as u64;
                wait - (u128::from(wait) * u128::from(less) / 100_000) as u64
            }
        }
    }
}

/// From here on the link registers it, if it is to wait at all.
fn freed(mut stream: Box<dyn Stream>, at: (Registry<'_>, Token)) -> io::Result<Box<dyn Stream>> {
    stream.deregister(at.0)?;
    Ok(stream)
}

fn late(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why)
}

#[cfg(test)]
mod tests;
