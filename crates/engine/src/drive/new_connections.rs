//! Connections that have not sent a complete message yet.
//!
//! Invariants: the number of waiting connections is limited, in total and per source. A source is
//! an address, or the /64 network of an IPv6 address. A new connection always finds room: the
//! oldest connection of the source with the most is removed, whatever it has sent. A source
//! therefore displaces only its own connections while another source has fewer.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use transfix_transport::Stream;
use transfix_transport::proxy_header::ProxyHeader;

use crate::drive::tls::TlsListener;
use crate::link::failed_logons::Source;

/// An accepted connection that has not logged on yet.
pub(crate) struct NewConnection {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) address: Option<IpAddr>,
    /// The group of the listener that accepted the connection.
    pub(crate) group: usize,
    pub(crate) read: Vec<u8>,
    pub(crate) until_ns: u64,
    /// The parser of the PROXY header, until the proxy has sent the client's address.
    pub(crate) header: Option<ProxyHeader>,
    /// For a held first message, the time since which it is held, and the time of the next check.
    pub(crate) held: Option<(u64, u64)>,
    /// `Some(true)` if the password matches the hash in the settings; `None` while unchecked.
    pub(crate) password_proof: Option<bool>,
    /// True while the connection waits because the password of another connection from its source
    /// is being checked.
    pub(crate) in_line: bool,
    /// The TLS settings, until the TLS handshake begins.
    pub(crate) tls: Option<Arc<TlsListener>>,
    /// True if the listener requires TLS.
    pub(crate) is_tls: bool,
    /// The time until which the connection rests, because its source has used its share of
    /// handshake time.
    pub(crate) rests_until: Option<u64>,
}

impl NewConnection {
    pub(crate) fn new(
        stream: Box<dyn Stream>,
        address: Option<IpAddr>,
        group: usize,
        until_ns: u64,
    ) -> Self {
        let (read, header, held) = (Vec::new(), None, None);
        let (password_proof, in_line) = (None, false);
        let (tls, is_tls, rests_until) = (None, false, None);
        Self {
            stream,
            address,
            group,
            read,
            until_ns,
            header,
            held,
            password_proof,
            in_line,
            tls,
            is_tls,
            rests_until,
        }
    }

    /// Returns true if the next bytes belong to a handshake.
    pub(crate) fn shakes_hands(&self) -> bool {
        self.is_tls && self.read.is_empty()
    }

    /// Cancels the next check, because the connection waits for an event.
    pub(crate) fn no_more_looks(&mut self) {
        self.held = self.held.map(|(since_ns, _)| (since_ns, u64::MAX));
    }

    pub(crate) fn source(&self) -> Source {
        self.address.map(source)
    }
}

/// The maximum numbers of waiting connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoomLimits {
    pub(crate) max: usize,
    pub(crate) per_address_max: usize,
}

/// Returns the source to which an address counts. An IPv6 address counts as its /64 network,
/// because a host usually has a whole one.
pub(crate) fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address => address,
    }
}

/// All waiting connections, the oldest first.
pub(crate) struct NewConnections {
    waiting: BTreeMap<usize, NewConnection>,
    /// The number of connections of each source.
    from: HashMap<Option<IpAddr>, usize>,
    limits: RoomLimits,
}

impl NewConnections {
    pub(crate) fn new(limits: RoomLimits) -> Self {
        Self { waiting: BTreeMap::new(), from: HashMap::new(), limits }
    }

    /// Adds a connection. Returns the connection removed to make room, if any.
    pub(crate) fn add(&mut self, token: usize, waiting: NewConnection) -> Option<NewConnection> {
        let source = waiting.source();
        let crowded = self.from.get(&source).is_some_and(|n| *n >= self.limits.per_address_max);
        let gone = match (crowded, self.waiting.len() >= self.limits.max) {
            (true, _) => self.oldest_of(source),
            (false, true) => self.victim(),
            (false, false) => None,
        };
        let gone = gone.and_then(|token| self.take(token));
        self.put_back(token, waiting);
        gone
    }

    /// Puts a connection back that was taken out to be checked, and must wait further.
    pub(crate) fn put_back(&mut self, token: usize, waiting: NewConnection) {
        *self.from.entry(waiting.source()).or_default() += 1;
        self.waiting.insert(token, waiting);
    }

    pub(crate) fn take(&mut self, token: usize) -> Option<NewConnection> {
        let waiting = self.waiting.remove(&token)?;
        let source = waiting.source();
        if let Some(count) = self.from.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.from.remove(&source);
            }
        }
        Some(waiting)
    }

    fn oldest_of(&self, source: Option<IpAddr>) -> Option<usize> {
        let mut all = self.waiting.iter();
        all.find(|(_, waiting)| waiting.source() == source).map(|(token, _)| *token)
    }

    /// Returns the oldest connection among the sources with the most connections.
    fn victim(&self) -> Option<usize> {
        let most = self.from.values().max()?;
        let has_most = |waiting: &NewConnection| self.from.get(&waiting.source()) == Some(most);
        self.waiting.iter().find(|(_, waiting)| has_most(waiting)).map(|(token, _)| *token)
    }

    /// Returns the oldest connection of this source that waits for the password check of another
    /// connection.
    pub(crate) fn first_in_line(&self, source: Source) -> Option<usize> {
        let is_next = |waiting: &NewConnection| waiting.in_line && waiting.source() == source;
        self.waiting.iter().find(|(_, waiting)| is_next(waiting)).map(|(token, _)| *token)
    }

    /// Returns the earliest time at which a connection must be checked or closed.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let next = |waiting: &NewConnection| {
            let looks = waiting.held.map(|(_, at_ns)| at_ns).into_iter().chain(waiting.rests_until);
            looks.fold(waiting.until_ns, u64::min)
        };
        self.waiting.values().map(next).min()
    }

    /// Returns the held connections whose next check is due, the oldest first.
    pub(crate) fn due(&self, now_ns: u64) -> Vec<usize> {
        let is_due =
            |waiting: &NewConnection| waiting.held.is_some_and(|(_, at_ns)| at_ns <= now_ns);
        let due = self.waiting.iter().filter(|(_, waiting)| is_due(waiting));
        due.map(|(token, _)| *token).collect()
    }

    /// Returns the connections whose rest has ended, the oldest first.
    pub(crate) fn rested(&self, now_ns: u64) -> Vec<usize> {
        let has_rested =
            |waiting: &NewConnection| waiting.rests_until.is_some_and(|at| at <= now_ns);
        let rested = self.waiting.iter().filter(|(_, waiting)| has_rested(waiting));
        rested.map(|(token, _)| *token).collect()
    }

    /// Removes connections that have waited too long.
    pub(crate) fn expire(&mut self, now_ns: u64) {
        let late = self.waiting.iter().filter(|(_, waiting)| waiting.until_ns <= now_ns);
        let late: Vec<usize> = late.map(|(token, _)| *token).collect();
        for token in late {
            self.take(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use transfix_transport::{Listener, SocketOptions, TcpStream};

    use super::*;

    /// A `NewConnections` for 20 connections in total and 10 per source, with a listener that fills
    /// it.
    struct Rig {
        room: NewConnections,
        listener: Listener,
        next: usize,
    }

    impl Rig {
        fn new() -> Self {
            let any = "127.0.0.1:0".parse().unwrap();
            let listener = Listener::bind(any, &SocketOptions::default()).unwrap();
            let limits = RoomLimits { max: 20, per_address_max: 10 };
            Self { room: NewConnections::new(limits), listener, next: 0 }
        }

        /// Adds a connection from this address that has sent a byte. Returns its token.
        fn comes(&mut self, from: &str) -> usize {
            let to = self.listener.local_addr().unwrap();
            let stream = std::net::TcpStream::connect(to).unwrap();
            let stream = TcpStream::from_std(stream, &SocketOptions::default()).unwrap();
            let stream = Box::new(stream);
            let address = Some(from.parse().unwrap());
            let read = b"8".to_vec();
            self.next += 1;
            let newcomer = NewConnection { read, ..NewConnection::new(stream, address, 0, 0) };
            self.room.add(self.next, newcomer);
            self.next
        }

        fn has(&self, token: usize) -> bool {
            self.room.waiting.contains_key(&token)
        }
    }

    #[test]
    fn who_has_the_most_connections_makes_room() {
        let mut rig = Rig::new();
        let first: Vec<_> = (0..20).map(|i| rig.comes(["192.0.2.1", "192.0.2.2"][i % 2])).collect();
        rig.room.take(first[0]);
        let mut honest = rig.room.take(rig.next).unwrap();
        honest.address = Some("192.0.2.3".parse().unwrap());
        honest.read.clear();
        rig.room.put_back(rig.next, honest);
        let honest = rig.next;
        for i in 0..100 {
            rig.comes(["192.0.2.1", "192.0.2.2"][i % 2]);
            assert!(rig.has(honest), "after {i} more");
            assert!(rig.room.waiting.len() <= 20, "after {i} more");
        }
        assert!(first[..19].iter().all(|token| !rig.has(*token)), "the oldest have gone");
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let mut rig = Rig::new();
        let other = rig.comes("2001:db8:0:2::1");
        let first = rig.comes("2001:db8:0:1::");
        for i in 1..=50 {
            rig.comes(&format!("2001:db8:0:1:{i:x}::1"));
        }
        assert!(rig.has(other));
        assert!(!rig.has(first));
        assert_eq!(rig.room.waiting.len(), 11);
        let mapped = source("::ffff:192.0.2.1".parse().unwrap());
        assert_eq!(mapped, "192.0.2.1".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn who_is_held_is_due_at_his_moment_and_not_while_his_password_is_checked() {
        let mut rig = Rig::new();
        let token = rig.comes("192.0.2.1");
        let mut waiting = rig.room.take(token).unwrap();
        (waiting.until_ns, waiting.held) = (1_000, Some((1, 100)));
        rig.room.put_back(token, waiting);
        assert_eq!((rig.room.deadline(), rig.room.due(99)), (Some(100), vec![]));
        assert_eq!(rig.room.due(100), [token]);
        let mut waiting = rig.room.take(token).unwrap();
        waiting.no_more_looks();
        rig.room.put_back(token, waiting);
        assert_eq!((rig.room.deadline(), rig.room.due(999)), (Some(1_000), vec![]));
    }

    #[test]
    fn as_many_sources_as_connections_leave_the_newest() {
        let mut rig = Rig::new();
        let all: Vec<_> = (0..50).map(|i| rig.comes(&format!("192.0.2.{i}"))).collect();
        assert!(all[..30].iter().all(|token| !rig.has(*token)));
        assert!(all[30..].iter().all(|token| rig.has(*token)));
    }
}
