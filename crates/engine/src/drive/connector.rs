//! The outbound connection of an initiator. The connector resolves the name, tries its addresses in
//! order, passes through a proxy, and performs the TLS handshake. It also determines the next
//! destination, and the pause before the next attempt.
//!
//! Each refused Logon(A) uses up an outbound sequence number. Therefore the pause doubles with each
//! consecutive refusal.

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
use crate::drive::tls::Handshake;
use crate::io::Connecting;
use crate::link::INTEREST;

/// The settings that determine the times of connection attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pauses {
    interval_ns: u64,
    interval_max_ns: u64,
    backoff: Backoff,
    jitter_percent: u32,
    /// The maximum number of consecutive attempts without a logon; 0 for no limit.
    attempts_max: u32,
    /// The maximum duration of one attempt.
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

/// The outbound connection of one session. Times are on the monotonic clock, in nanoseconds.
pub(crate) struct Connector {
    pub(crate) routes: Routes,
    pauses: Pauses,
    /// The number of consecutive connections that ended before a logon.
    refusals: u32,
    /// The number of consecutive failed connection attempts.
    unconnected: u32,
    /// The resolved addresses that have not been tried yet.
    addresses: VecDeque<SocketAddr>,
    state: State,
}

enum State {
    /// Wait until this time, then begin an attempt.
    At(u64),
    /// The maximum number of attempts was reached. [`Connector::hurry`] begins again.
    GivenUp,
    /// A name server must resolve the name by this time.
    Resolving(Arc<Lookup>, u64),
    /// TCP must be connected by this time.
    Connecting(Box<dyn Connecting>, u64),
    /// A proxy is connected, and must connect to the counterparty by this time.
    Tunnelling(Tunnel, u64),
    /// TCP is connected, and the TLS handshake must be complete by this time.
    Securing(Box<Handshake>, u64),
    Connected,
}

/// The way in which a connection, or an attempt to connect, has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// No connection was established, and no number was used.
    Unconnected,
    /// The connection ended before a logon, so the Logon(A) used a sequence number.
    Refused,
    /// The connection ended after the session had logged on.
    AfterLogon,
}

impl Connector {
    pub(crate) fn new(routes: Routes, pauses: Pauses) -> Self {
        let (refusals, unconnected, addresses) = (0, 0, VecDeque::new());
        Self { routes, pauses, refusals, unconnected, addresses, state: State::At(0) }
    }

    /// Advances the connection attempt. If an attempt is due and `may_begin` is true, begins it.
    /// Returns the established connection, deregistered from the poll.
    ///
    /// # Errors
    /// If the attempt has failed. [`Connector::down`] plans the next one.
    pub(crate) fn advance(
        &mut self,
        now_ns: u64,
        shared: &Shared,
        may_begin: bool,
        at: (Registry<'_>, Token),
    ) -> io::Result<Option<Box<dyn Stream>>> {
        // Until TCP is connected, an error concerns the proxy, so the error names the proxy.
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
                        return Err(late("no address has answered in time"));
                    }
                    Err(error) if self.addresses.is_empty() => return Err(error),
                    // Tries the next resolved address.
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
                        return Err(late("the proxy did not connect to the counterparty in time"));
                    }
                    false => return Ok(None),
                },
                // Completes the handshake before the link sends its Logon(A), so that a failed
                // handshake uses no sequence number.
                State::Securing(shaking, until) => match shaking.advance()? {
                    true => {
                        let State::Securing(shaking, _) = self.take() else { return Ok(None) };
                        return freed(shaking.finish(), at).map(Some);
                    }
                    false if now_ns >= *until => {
                        return Err(late(
                            "the counterparty did not complete the TLS handshake in time: it may \
                             expect plain text",
                        ));
                    }
                    false => return Ok(None),
                },
                State::At(_) | State::GivenUp | State::Connected => return Ok(None),
            }
        }
    }

    /// Begins an attempt: resolves the name, or connects to the address at once.
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

    /// Continues after TCP is connected, to the counterparty or a proxy.
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

    /// Continues when the counterparty is reached: begins the TLS handshake if TLS is configured.
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

    /// Returns the state of the attempt, which ends here.
    const fn take(&mut self) -> State {
        std::mem::replace(&mut self.state, State::Connected)
    }

    /// Returns the time at which [`Connector::advance`] must be called again, for the same
    /// `may_begin`.
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

    /// Returns true if the maximum number of attempts was reached.
    pub(crate) const fn has_given_up(&self) -> bool {
        matches!(self.state, State::GivenUp)
    }

    /// Begins an attempt now, because an operator requests it or a new window has begun.
    pub(crate) fn hurry(&mut self, now_ns: u64) {
        if matches!(self.state, State::At(_) | State::GivenUp) {
            self.state = State::At(now_ns);
            (self.refusals, self.unconnected) = (0, 0);
        }
    }

    /// Begins an attempt at this destination now, because an operator requests it.
    pub(crate) fn turn_to(&mut self, now_ns: u64, route: usize) {
        self.routes.turn_to(route);
        if !matches!(self.state, State::Connected) {
            self.state = State::At(now_ns);
            (self.refusals, self.unconnected) = (0, 0);
        }
    }

    /// Postpones a due attempt to `look_at`, the next check of the schedule.
    pub(crate) const fn put_off(&mut self, now_ns: u64, look_at: Option<u64>) {
        match (&mut self.state, look_at) {
            (State::At(at), Some(later)) if now_ns >= *at => *at = later,
            _ => {}
        }
    }

    /// Plans another attempt at once, because the established connection was not used.
    pub(crate) fn again(&mut self, now_ns: u64) {
        self.state = State::At(now_ns + self.pauses.interval_ns);
    }

    /// Plans the next attempt after a connection or an attempt has ended. Returns the number of
    /// attempts if no further attempt is allowed.
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

    /// Returns the pause before the next attempt, in nanoseconds.
    fn wait_ns(&mut self) -> u64 {
        let rounds = match self.pauses.backoff {
            Backoff::Constant => 0,
            // The pause grows only after each destination was tried once more.
            Backoff::Exponential => self.unconnected / self.routes.count() as u32,
        };
        let doublings = self.refusals.saturating_add(rounds).min(32);
        let doubled = self.pauses.interval_ns.saturating_mul(1 << doublings);
        let wait = doubled.min(self.pauses.interval_max_ns.max(self.pauses.interval_ns));
        match self.pauses.jitter_percent {
            0 => wait,
            percent => {
                // The random reduction of the pause, in thousandths.
                let less = u64::from(percent) * self.routes.any(1_001) as u64;
                wait - (u128::from(wait) * u128::from(less) / 100_000) as u64
            }
        }
    }
}

/// Deregisters the stream from the poll. The link registers it again if its worker waits for
/// events.
fn freed(mut stream: Box<dyn Stream>, at: (Registry<'_>, Token)) -> io::Result<Box<dyn Stream>> {
    stream.deregister(at.0)?;
    Ok(stream)
}

fn late(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why)
}

#[cfg(test)]
mod tests;
