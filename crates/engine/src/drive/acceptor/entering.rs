//! Handles an accepted connection until its first message is complete: the proxy header, TLS, and
//! the Logon(A).

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;

use tracing::field::display;
use transfix_codec::{Frame, Garbled, Limits, frame};
use transfix_observe::tell;
use transfix_settings::Subnet;
use transfix_transport::proxy_header::ProxyHeader;
use transfix_transport::{Interest, Stream, Token};

use super::{Acceptor, NOBODY};
use crate::drive::new_connections::NewConnection;

/// The pause, in nanoseconds, after a failure to accept, for instance because the process has too
/// many open files.
const ACCEPT_PAUSE_NS: u64 = 100_000_000;
/// The maximum number of connections accepted at one listener before the acceptor continues with
/// other work.
const ACCEPTED_AT_ONCE: usize = 64;
/// The size limit of a first message, which must be a Logon(A); usual Logon(A)s are far shorter.
const FIRST_MESSAGE: Limits = Limits { message_bytes_max: 16 << 10 };
/// The first byte that a TLS client sends (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 22;

impl Acceptor {
    /// Accepts the connections that wait at this listener, but at most [`ACCEPTED_AT_ONCE`], so
    /// that the other listeners are served too.
    pub(super) fn accept(&mut self, i: usize) {
        for _ in 0..ACCEPTED_AT_ONCE {
            // A change may have closed the listener after its event was reported.
            let Some(listener) = self.listeners.get(i) else { return };
            match listener.listener.accept() {
                Ok(Some(stream)) => self.enter(i, stream),
                Ok(None) => return,
                Err(error) => {
                    self.tell_not_accepted(&error);
                    self.accept_at = Some(self.io.monotonic_ns() + ACCEPT_PAUSE_NS);
                    return;
                }
            }
        }
        // More connections may wait, for which no further event arrives.
        self.accept_at = Some(0);
    }

    /// Takes over a connection accepted at this listener: waits for the proxy header, or checks the
    /// address at once.
    fn enter(&mut self, i: usize, stream: Box<dyn Stream>) {
        let Some(listener) = self.listeners.get(i) else { return };
        let until_ns = self.io.monotonic_ns() + listener.wait_ns;
        let (group, address) = (listener.group, stream.peer_addr().map(|peer| peer.ip()));
        let proxies = &listener.proxies;
        let is_proxy = !proxies.is_empty() && Subnet::allow(proxies, address);
        let mut waiting = NewConnection::new(stream, address, group, until_ns);
        if is_proxy {
            waiting.header = Some(ProxyHeader::default());
        } else if let Some(known) = self.admit_address(waiting) {
            waiting = known;
        } else {
            return;
        }
        let token = self.next_token;
        self.next_token += 1;
        if self.register(token, &mut waiting) {
            self.make_room_for(token, waiting);
            self.read(token);
        }
    }

    /// Checks the address of a connection, and notes whether its listener requires TLS. Returns
    /// `None` if the address is refused.
    fn admit_address(&mut self, mut waiting: NewConnection) -> Option<NewConnection> {
        let (group, address) = (waiting.group, waiting.address);
        if !self.is_allowed(group, address) {
            let peer = address.map(display);
            tell!(self.lines, self.at(address), Refused, warn, ClosedForStranger, peer = peer);
            return None;
        }
        // The listener may have been closed while the acceptor waited for the proxy header.
        let mut listeners = self.listeners.iter().map(|(_, listener)| listener);
        let listener = listeners.find(|listener| listener.group == group)?;
        waiting.tls.clone_from(&listener.tls);
        waiting.is_tls = listener.tls.is_some();
        Some(waiting)
    }

    /// Begins TLS if the listener requires it. Returns `None` on failure.
    fn secure(&mut self, mut waiting: NewConnection) -> Option<NewConnection> {
        let Some(tls) = waiting.tls.take() else { return Some(waiting) };
        waiting.stream = match tls.accept(waiting.stream) {
            Ok(stream) => stream,
            Err(error) => {
                self.tell_not_accepted(&error);
                return None;
            }
        };
        Some(waiting)
    }

    fn tell_not_accepted(&mut self, error: &io::Error) {
        tell!(self.lines, self.at(None), Ended, error, NotAccepted, peer = NOBODY, %error);
    }

    /// Registers a connection with the poll, to be reported when bytes arrive. Returns true on
    /// success.
    fn register(&self, token: usize, waiting: &mut NewConnection) -> bool {
        let registry = self.poll.registry();
        waiting.stream.register(registry, Token(token), Interest::READABLE).is_ok()
    }

    fn make_room_for(&mut self, token: usize, waiting: NewConnection) {
        if let Some(gone) = self.room.add(token, waiting) {
            let (at, peer) = (self.at(gone.address), gone.address.map(display));
            tell!(self.lines, at, Refused, warn, ClosedForRoom, peer = peer);
        }
    }

    /// Returns true if `address` is allowed by any session or template of this listener group.
    fn is_allowed(&mut self, group: usize, address: Option<IpAddr>) -> bool {
        let (sessions, templates) = (&self.sessions, &self.creator.templates);
        let allowed = self.allowed.entry(group).or_insert_with(|| {
            let known = sessions.iter().filter(|(key, _)| key.0 == group).flat_map(|(_, all)| all);
            let known = known.map(|to| to.allowed.to_vec());
            let made = templates.iter().filter(|(at, _)| *at == group);
            let lists = known.chain(made.map(|(_, template)| template.allowed()));
            union(lists)
        });
        Subnet::allow(allowed, address)
    }

    /// Routes a connection that was held back with a complete first message.
    pub(super) fn look_again(&mut self, token: usize) {
        let Some(mut waiting) = self.room.take(token) else { return };
        waiting.in_line = false;
        if let Frame::Whole(end) = frame::split(&waiting.read, FIRST_MESSAGE) {
            self.route(token, waiting, end);
        }
    }

    /// Reads from a waiting connection until its first message is complete.
    pub(super) fn read(&mut self, token: usize) {
        let Some(waiting) = self.room.take(token) else { return };
        let Some(mut waiting) = self.read_proxy_header(token, waiting) else { return };
        if !waiting.shakes_hands() {
            return self.read_logon(token, waiting);
        }
        let (source, begun_ns) = (waiting.source(), self.io.monotonic_ns());
        waiting.rests_until = self.handshakes.rest(source, begun_ns);
        if waiting.rests_until.is_some() {
            return self.room.put_back(token, waiting);
        }
        if let Some(waiting) = self.secure(waiting) {
            self.read_logon(token, waiting);
        }
        let now_ns = self.io.monotonic_ns();
        self.handshakes.took(source, now_ns, now_ns.saturating_sub(begun_ns));
    }

    /// Reads the available bytes, and routes the connection if its first message is complete.
    fn read_logon(&mut self, token: usize, mut waiting: NewConnection) {
        let (mut buffer, mut ended) = ([0; 4096], false);
        loop {
            match waiting.stream.read(&mut buffer) {
                // At the end of the stream, the bytes read before may still be a complete message.
                Ok(0) => {
                    ended = true;
                    break;
                }
                Ok(n) => waiting.read.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // `InvalidData` reports a wrong TLS record or certificate of the counterparty, not
                // a network error.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    let (at, peer) = (self.at(waiting.address), waiting.address.map(display));
                    tell!(
                        self.lines, at, Garbled, warn, ClosedForTls, peer = peer, reason = %error
                    );
                    return;
                }
                Err(_) => return,
            }
            if waiting.read.len() > FIRST_MESSAGE.message_bytes_max {
                break;
            }
        }
        match frame::split(&waiting.read, FIRST_MESSAGE) {
            Frame::Whole(end) => self.route(token, waiting, end),
            Frame::Partial if ended => {}
            Frame::Partial => self.room.put_back(token, waiting),
            Frame::TooLong { .. } => self.refuse_first(&waiting, Garbled::TooLong),
            Frame::Garbled { reason, .. } => self.refuse_first(&waiting, reason),
        }
    }

    /// Logs why a connection is closed whose first bytes are not an acceptable message.
    fn refuse_first(&mut self, waiting: &NewConnection, reason: Garbled) {
        let (at, peer) = (self.at(waiting.address), waiting.address.map(display));
        if waiting.read.first() == Some(&TLS_HANDSHAKE) {
            tell!(self.lines, at, Garbled, warn, ClosedForPlainPort, peer = peer, %reason);
        } else {
            tell!(self.lines, at, Garbled, warn, ClosedForGarbage, peer = peer, %reason);
        }
    }

    /// Reads the PROXY header of a connection, and continues with the client address in it. Returns
    /// `None` if the header is incomplete or invalid.
    fn read_proxy_header(
        &mut self,
        token: usize,
        mut waiting: NewConnection,
    ) -> Option<NewConnection> {
        let Some(header) = &mut waiting.header else { return Some(waiting) };
        match header.advance(&mut *waiting.stream) {
            Ok(None) => {
                self.room.put_back(token, waiting);
                return None;
            }
            // The proxy connects for itself, as in a health check, or does not know the address.
            Ok(Some(None)) => {}
            Ok(Some(source)) => waiting.address = source,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let (at, peer) = (self.at(waiting.address), waiting.address.map(display));
                tell!(
                    self.lines, at, Garbled, warn, ProxyHeaderMissing, peer = peer, reason = %error
                );
                return None;
            }
            // The proxy has closed the connection without a header, so there is no client to
            // report.
            Err(_) => return None,
        }
        waiting.header = None;
        waiting.stream.deregister(self.poll.registry()).ok()?;
        let mut waiting = self.admit_address(waiting)?;
        if !self.register(token, &mut waiting) {
            return None;
        }
        self.make_room_for(token, waiting);
        self.room.take(token)
    }
}

/// Returns the subnets of all lists without duplicates. An empty list allows every address, so one
/// empty list makes the result empty.
fn union(lists: impl Iterator<Item = Vec<Subnet>>) -> Vec<Subnet> {
    let mut all = HashSet::new();
    for list in lists {
        if list.is_empty() {
            return Vec::new();
        }
        all.extend(list);
    }
    all.into_iter().collect()
}
