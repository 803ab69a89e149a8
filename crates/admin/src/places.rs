//! Limits the concurrent connections to the administration.
//!
//! Invariants: a new connection always receives a permit. An authenticated connection keeps its
//! permit until it ends. An unauthenticated connection can lose its permit to a new connection. Its
//! source then has too many connections, or all permits are in use and its source has the most.
//! Permits are reserved for local connections.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::throttle::network;

/// Maximum number of unauthenticated connections from other machines, together.
const STRANGERS_MAX: usize = 128;
/// Maximum number of unauthenticated connections of one source: an IPv4 address or a /64 network of
/// IPv6.
const PER_SOURCE_MAX: usize = 32;
/// Maximum number of unauthenticated connections from this machine.
const LOCAL_MAX: usize = 32;
/// Maximum number of authenticated connections (by token or login cookie).
const KNOWN_MAX: usize = 96;
/// Maximum number of authenticated connections of one user or token.
const PER_NAME_MAX: usize = 32;

/// An open connection.
struct Open {
    source: IpAddr,
    is_local: bool,
    /// User or token of an authenticated connection; `None` if unauthenticated or if the limits of
    /// authenticated connections were reached.
    name: Option<String>,
    /// Sender that is only held; dropping it ends the connection.
    _cut: oneshot::Sender<()>,
}

/// All open connections to one administration.
#[derive(Default)]
struct Table {
    /// Open connections by number, oldest first.
    open: BTreeMap<u64, Open>,
    next: u64,
}

/// The permits for connections to one administration.
#[derive(Default)]
pub(crate) struct Places(Mutex<Table>);

/// The permit of one open connection, released on drop.
pub(crate) struct ConnectionPermit {
    places: Arc<Places>,
    number: u64,
}

impl Places {
    /// Adds a connection from `from` to the local address `to`. Returns its permit, a receiver that
    /// resolves when the permit is lost, and the source of the evicted connection, if any.
    pub(crate) fn enter(
        self: &Arc<Self>,
        from: SocketAddr,
        to: Option<SocketAddr>,
    ) -> (ConnectionPermit, oneshot::Receiver<()>, Option<IpAddr>) {
        let source = network(from.ip());
        let is_local = to.is_some_and(|to| is_same_machine(from.ip(), to.ip()));
        let mut table = self.table();
        let gone = table.victim(source, is_local).and_then(|number| table.open.remove(&number));
        let (cut, is_cut) = oneshot::channel();
        let number = table.next;
        table.next += 1;
        table.open.insert(number, Open { source, is_local, name: None, _cut: cut });
        drop(table);
        let seat = ConnectionPermit { places: Arc::clone(self), number };
        (seat, is_cut, gone.map(|gone| gone.source))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if a connection from `from` to `to` comes from this machine. Other addresses of the
/// same IPv6 network belong to other machines.
fn is_same_machine(from: IpAddr, to: IpAddr) -> bool {
    let (from, to) = (from.to_canonical(), to.to_canonical());
    from == to || from.is_loopback()
}

impl Table {
    /// Returns the connection to evict for a new connection from `source`, or `None` if a permit is
    /// free.
    fn victim(&self, source: IpAddr, is_local: bool) -> Option<u64> {
        let strangers = || {
            let all = self.open.iter();
            all.filter(|(_, open)| open.name.is_none() && open.is_local == is_local)
        };
        let mut counts = HashMap::new();
        for (_, open) in strangers() {
            *counts.entry(open.source).or_insert(0) += 1;
        }
        let oldest = |is_victim: &dyn Fn(IpAddr) -> bool| {
            strangers().find(|(_, open)| is_victim(open.source)).map(|(number, _)| *number)
        };
        if !is_local && counts.get(&source).is_some_and(|count| *count >= PER_SOURCE_MAX) {
            return oldest(&|other| other == source);
        }
        let most = counts.values().max().copied()?;
        let max = if is_local { LOCAL_MAX } else { STRANGERS_MAX };
        let is_full = counts.values().sum::<usize>() >= max;
        is_full.then(|| oldest(&|other| counts.get(&other) == Some(&most))).flatten()
    }
}

impl ConnectionPermit {
    /// Marks the connection as authenticated by this user or token, so that it keeps its permit.
    /// Has no effect if the limits of authenticated connections are reached.
    pub(crate) fn keep(&self, name: &str) {
        let mut table = self.places.table();
        let names = || table.open.values().filter_map(|open| open.name.as_deref());
        let has_room = names().count() < KNOWN_MAX;
        if !has_room || names().filter(|other| *other == name).count() >= PER_NAME_MAX {
            return;
        }
        if let Some(open) = table.open.get_mut(&self.number).filter(|open| open.name.is_none()) {
            open.name = Some(name.to_owned());
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.places.table().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Room {
        places: Arc<Places>,
        seats: Vec<(ConnectionPermit, oneshot::Receiver<()>)>,
    }

    impl Room {
        fn new() -> Self {
            Self { places: Arc::default(), seats: Vec::new() }
        }

        /// Opens a connection from host number `host` to host 1; returns its index in `seats`.
        fn enter(&mut self, host: u16) -> usize {
            let at = |host: u16| SocketAddr::from(([10, 0, (host >> 8) as u8, host as u8], 5));
            let (seat, is_cut, _) = self.places.enter(at(host), Some(at(1)));
            self.seats.push((seat, is_cut));
            self.seats.len() - 1
        }

        fn is_open(&mut self, n: usize) -> bool {
            self.seats[n].1.try_recv() == Err(oneshot::error::TryRecvError::Empty)
        }
    }

    #[test]
    fn a_source_makes_room_for_itself() {
        let mut room = Room::new();
        let other = room.enter(3);
        let all: Vec<_> = (0..1_000).map(|_| room.enter(2)).collect();
        assert!(room.is_open(other));
        let open: Vec<_> = all.iter().filter(|n| room.is_open(**n)).copied().collect();
        assert_eq!(open, all[1_000 - PER_SOURCE_MAX..]);
    }

    #[test]
    fn a_neighbour_is_another_machine() {
        for (from, to, is_same) in [
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.2", "10.0.0.1", false),
            ("127.0.0.1", "127.0.0.2", true),
            ("::1", "::1", true),
            ("::ffff:10.0.0.1", "10.0.0.1", true),
            ("2001:db8::1", "2001:db8::1", true),
            ("2001:db8::2", "2001:db8::1", false),
        ] {
            let [one, other] = [from, to].map(|text| text.parse::<IpAddr>().unwrap());
            assert_eq!(is_same_machine(one, other), is_same, "{from} to {to}");
        }
    }

    #[test]
    fn silent_neighbours_close_no_connection_of_the_machine_itself() {
        let (places, at) = (Arc::<Places>::default(), "[2001:db8::1]:5".parse().unwrap());
        let enter = |from: &str| places.enter(from.parse().unwrap(), Some(at));
        let (_seat, mut is_cut, _) = enter("[2001:db8::1]:6");
        let neighbours: Vec<_> = (0..1_000).map(|_| enter("[2001:db8::2]:6")).collect();
        assert_eq!(is_cut.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        assert_eq!(places.table().open.len(), 1 + PER_SOURCE_MAX);
        drop(neighbours);
    }

    #[test]
    fn many_sources_leave_room_for_a_new_one_and_for_the_machine_itself() {
        let mut room = Room::new();
        let local = room.enter(1);
        for host in 2..1_000 {
            room.enter(host);
            let newest = room.enter(host);
            assert!(room.is_open(newest));
        }
        assert!(room.is_open(local));
        assert_eq!(room.places.table().open.len(), STRANGERS_MAX + 1);
        (0..100).for_each(|_| _ = room.enter(1));
        assert_eq!(room.places.table().open.len(), STRANGERS_MAX + LOCAL_MAX);
    }

    #[test]
    fn a_connection_that_has_shown_who_it_is_stays() {
        let mut room = Room::new();
        let known: Vec<_> = (0..PER_NAME_MAX).map(|_| room.enter(2)).collect();
        known.iter().for_each(|n| room.seats[*n].0.keep("anna"));
        let beyond = room.enter(2);
        room.seats[beyond].0.keep("anna");
        (0..1_000).for_each(|_| _ = room.enter(2));
        assert!(known.iter().all(|n| room.is_open(*n)));
        assert!(!room.is_open(beyond), "one user has so many places and no more");
        for name in 0..1_000 {
            let one = room.enter(3);
            room.seats[one].0.keep(&name.to_string());
        }
        let table = room.places.table();
        assert_eq!(table.open.values().filter(|open| open.name.is_some()).count(), KNOWN_MAX);
        drop(table);
        room.seats.clear();
        assert!(room.places.table().open.is_empty());
    }
}
