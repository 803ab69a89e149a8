//! From a connection that is accepted to its first message.

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

/// Pause after the system refused to accept, for instance for want of open files.
const ACCEPT_PAUSE_NS: u64 = 100_000_000;
/// Connections taken in at one listener before the acceptor looks at what else there is.
const ACCEPTED_AT_ONCE: usize = 64;
/// Longest first message; a Logon(A) is far shorter.
const FIRST_MESSAGE: Limits = Limits { message_bytes_max: 16 << 10 };
/// The first byte of a connection over TLS (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 22;

impl Acceptor {
    /// Accepts what waits at this listener, up to [`ACCEPTED_AT_ONCE`]: the other listeners have
    /// their turn too.
    pub(super) fn accept(&mut self, i: usize) {
        for _ in 0..ACCEPTED_AT_ONCE {
            // It may have been closed.
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
        // There may be more of them, which no event reports again.
        self.accept_at = Some(0);
    }

    /// Somebody has come in at this listener.
    fn enter(&mut self, i: usize, stream: Box<dyn Stream>) {
        let Some(listener) = self.listeners.get(i) else { return };
        let until_ns = self.io.monotonic_ns() + listener.wait_ns;
        let (group, address) = (listener.group, stream.peer_addr().map(|peer| peer.ip()));
        let proxies = &listener.proxies;
        let is_proxy = !proxies.is_empty() && Subnet::allow(proxies, address);
        let mut waiting = NewConnection::new(stream, address, group, until_ns);
        if is_proxy {
            waiting.header = Some(ProxyHeader::default());
        } else if let Some(known) = self.let_in(waiting) {
            waiting = known;
        } else {
            return;
        }
        let token = self.next_token;
        self.next_token += 1;
        if self.listens_to(token, &mut waiting) {
            self.make_room_for(token, waiting);
            self.read(token);
        }
    }

    /// Somebody whose address is known may come, and is to speak TLS where that is spoken.
    fn let_in(&mut self, mut waiting: NewConnection) -> Option<NewConnection> {
        let (group, address) = (waiting.group, waiting.address);
        if !self.may_come(group, address) {
            let peer = address.map(display);
            tell!(self.lines, self.at(address), Refused, warn, ClosedForStranger, peer = peer);
            return None;
        }
        // The listener may have been closed while a proxy was silent.
        let mut listeners = self.listeners.iter().map(|(_, listener)| listener);
        let listener = listeners.find(|listener| listener.group == group)?;
        waiting.tls.clone_from(&listener.tls);
        waiting.is_tls = listener.tls.is_some();
        Some(waiting)
    }

    /// TLS begins, if it is to. `None` if it cannot.
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

    /// Has what comes from there reported.
    fn listens_to(&self, token: usize, waiting: &mut NewConnection) -> bool {
        let registry = self.poll.registry();
        waiting.stream.register(registry, Token(token), Interest::READABLE).is_ok()
    }

    fn make_room_for(&mut self, token: usize, waiting: NewConnection) {
        if let Some(gone) = self.room.add(token, waiting) {
            let (at, peer) = (self.at(gone.address), gone.address.map(display));
            tell!(self.lines, at, Refused, warn, ClosedForRoom, peer = peer);
        }
    }

    /// Returns true if a session or template of this group may have a counterparty with this
    /// address.
    fn may_come(&mut self, group: usize, address: Option<IpAddr>) -> bool {
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

    /// Its first message has waited for its turn.
    pub(super) fn look_again(&mut self, token: usize) {
        let Some(mut waiting) = self.room.take(token) else { return };
        waiting.in_line = false;
        if let Frame::Whole(end) = frame::split(&waiting.read, FIRST_MESSAGE) {
            self.route(token, waiting, end);
        }
    }

    /// Reads from a waiting connection until its first message is whole.
    pub(super) fn read(&mut self, token: usize) {
        let Some(waiting) = self.room.take(token) else { return };
        let Some(mut waiting) = self.hear_proxy(token, waiting) else { return };
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

    /// Reads what has come from it, and looks whether its first message is whole.
    fn read_logon(&mut self, token: usize, mut waiting: NewConnection) {
        let (mut buffer, mut ended) = ([0; 4096], false);
        loop {
            match waiting.stream.read(&mut buffer) {
                // The end does not make the bytes before it worthless.
                Ok(0) => {
                    ended = true;
                    break;
                }
                Ok(n) => waiting.read.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Not by the network: by what the counterparty says, or who it is.
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

    /// Says why a connection is closed whose first bytes are no message that is taken.
    fn refuse_first(&mut self, waiting: &NewConnection, reason: Garbled) {
        let (at, peer) = (self.at(waiting.address), waiting.address.map(display));
        if waiting.read.first() == Some(&TLS_HANDSHAKE) {
            tell!(self.lines, at, Garbled, warn, ClosedForPlainPort, peer = peer, %reason);
        } else {
            tell!(self.lines, at, Garbled, warn, ClosedForGarbage, peer = peer, %reason);
        }
    }

    /// Hears from a proxy for whom it connects, and goes on with that address. `None` if that is
    /// still to come, or nothing more is.
    fn hear_proxy(&mut self, token: usize, mut waiting: NewConnection) -> Option<NewConnection> {
        let Some(header) = &mut waiting.header else { return Some(waiting) };
        match header.advance(&mut *waiting.stream) {
            Ok(None) => {
                self.room.put_back(token, waiting);
                return None;
            }
            // It connects for itself, to see whether somebody is there, or does not know.
            Ok(Some(None)) => {}
            Ok(Some(source)) => waiting.address = source,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let (at, peer) = (self.at(waiting.address), waiting.address.map(display));
                tell!(
                    self.lines, at, Garbled, warn, ProxyHeaderMissing, peer = peer, reason = %error
                );
                return None;
            }
            // Nobody was there behind it.
            Err(_) => return None,
        }
        waiting.header = None;
        waiting.stream.deregister(self.poll.registry()).ok()?;
        let mut waiting = self.let_in(waiting)?;
        if !self.listens_to(token, &mut waiting) {
            return None;
        }
        self.make_room_for(token, waiting);
        self.room.take(token)
    }
}

/// All subnets of these lists, each once; none, which is everywhere, if one of them is empty.
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
