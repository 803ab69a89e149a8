//! Where an initiator connects to: its destinations, and which of them is tried next.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::Arc;

use transfix_settings::{FailoverOrder, ProxySettings, SessionSettings};
use transfix_transport::SocketOptions;

use crate::drive::certificates::OwnCertificates;
use crate::drive::connector::Ended;
use crate::drive::listening::socket_options;
use crate::drive::tls::Way;
use crate::error::{EngineError, io_error};

/// A destination.
pub(crate) struct Route {
    /// `host:port`.
    pub(crate) address: Arc<str>,
    /// Around each connection.
    pub(crate) tls: Option<Way>,
}

/// The destinations of one session.
pub(crate) struct Routes {
    /// The primary one first.
    all: Vec<Route>,
    order: FailoverOrder,
    /// Attempts at one destination; 0 for any number.
    attempts: u32,
    current: usize,
    /// Where the session was logged on last.
    served: Option<usize>,
    reset_on_backup: bool,
    reset_on_primary: bool,
    /// Attempts in a row at the current one that have failed.
    failed: u32,
    /// Makes choices that look like chance and are the same each time: of the session's own, and
    /// one further on each time.
    seed: u64,
    pub(crate) proxy: Option<(ProxySettings, Arc<str>)>,
    /// Where it connects from: an address of each family, or none for the system's choice.
    local: Vec<SocketAddr>,
    options: SocketOptions,
}

impl Routes {
    /// As the settings have it. Names are looked up at each attempt, but for one of our own.
    ///
    /// # Errors
    /// If the system refuses what the settings want of a socket, or a file of TLS cannot be used.
    pub(crate) fn of(
        settings: &SessionSettings,
        own: &Arc<OwnCertificates>,
    ) -> Result<Self, EngineError> {
        if settings.address.is_empty() {
            let why = "an initiator needs an address to connect to";
            return Err(EngineError::Settings(format!("{}: {why}", settings.id())));
        }
        let failover = &settings.failover;
        let to = std::iter::once(&settings.address).chain(&failover.addresses);
        let all = to.map(|address| {
            Ok(Route { address: address.as_str().into(), tls: Way::of(settings, address, own)? })
        });
        let mut seed = DefaultHasher::new();
        settings.id().hash(&mut seed);
        let local = local(settings)?;
        // A socket of either family: the system allows the same.
        let any = local.first().map_or(IpAddr::from([127, 0, 0, 1]), SocketAddr::ip);
        let options = socket_options(settings, (any, 1).into(), local.first().copied())?;
        Ok(Self {
            all: all.collect::<Result<_, EngineError>>()?,
            order: failover.order,
            attempts: failover.attempts,
            current: 0,
            served: None,
            reset_on_backup: failover.reset_on_backup,
            reset_on_primary: failover.reset_on_primary,
            failed: 0,
            seed: seed.finish(),
            proxy: settings.proxy.clone().map(|proxy| {
                let address = proxy.address.as_str().into();
                (proxy, address)
            }),
            local,
            options,
        })
    }

    /// How many there are.
    pub(crate) const fn count(&self) -> usize {
        self.all.len()
    }

    /// Which one is tried now.
    pub(crate) const fn current(&self) -> usize {
        self.current
    }

    /// Returns true if the numbers begin again with a logon at the current one.
    pub(crate) fn resets(&self) -> bool {
        let is_wanted =
            if self.current == 0 { self.reset_on_primary } else { self.reset_on_backup };
        is_wanted && self.served.is_some_and(|served| served != self.current)
    }

    pub(crate) fn route(&self) -> &Route {
        &self.all[self.current]
    }

    /// The current one in words: its address as in the settings, and which of several it is.
    pub(crate) fn name(&self) -> String {
        let address = &self.route().address;
        match (self.current, self.all.len() - 1) {
            (_, 0) => address.to_string(),
            (0, _) => format!("{address} (primary)"),
            (1, 1) => format!("{address} (backup)"),
            (n, backups) => format!("{address} (backup {n} of {backups})"),
        }
    }

    /// Whose name is looked up, and connected to: the proxy's if there is one.
    pub(crate) fn first_hop(&self) -> &Arc<str> {
        self.proxy.as_ref().map_or(&self.route().address, |(_, address)| address)
    }

    /// How the socket to this address is set up.
    ///
    /// # Errors
    /// If it is of a family that we do not connect from.
    pub(crate) fn options(&self, to: SocketAddr) -> io::Result<SocketOptions> {
        let fits = |from: &&SocketAddr| from.is_ipv4() == to.is_ipv4();
        let local = self.local.iter().find(fits).copied();
        if local.is_none() && !self.local.is_empty() {
            let why = format!("{to} cannot be reached from local_address");
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, why));
        }
        Ok(SocketOptions { local, ..self.options.clone() })
    }

    /// An operator wants this one.
    pub(crate) const fn turn_to(&mut self, to: usize) {
        if to < self.all.len() {
            (self.current, self.failed) = (to, 0);
        }
    }

    /// A connection, or an attempt, has ended: which one is tried next.
    pub(crate) fn ended(&mut self, ended: Ended) {
        let next = (self.current + 1) % self.all.len();
        if ended == Ended::AfterLogon {
            (self.failed, self.served) = (0, Some(self.current));
            match self.order {
                FailoverOrder::Stay => {}
                FailoverOrder::First => self.current = 0,
                FailoverOrder::Next => self.current = next,
                FailoverOrder::Random => self.current = self.any(self.all.len()),
            }
            return;
        }
        self.failed = self.failed.saturating_add(1);
        if self.attempts > 0 && self.failed >= self.attempts {
            self.failed = 0;
            self.current = match self.order {
                // Another one, if there is one.
                FailoverOrder::Random if self.all.len() > 1 => {
                    (self.current + 1 + self.any(self.all.len() - 1)) % self.all.len()
                }
                _ => next,
            };
        }
    }

    /// Any number below `below`, which is not 0.
    pub(crate) fn any(&mut self, below: usize) -> usize {
        // SplitMix64: each number once in a period.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % below as u64) as usize
    }
}

/// Checks that an initiator can connect from where its settings say.
///
/// # Errors
/// If it cannot.
pub(crate) fn check_sockets(settings: &SessionSettings) -> Result<(), EngineError> {
    local(settings).map(drop)
}

/// Where it connects from.
fn local(settings: &SessionSettings) -> Result<Vec<SocketAddr>, EngineError> {
    let text = &*settings.socket.local_address;
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let place = settings.place("local_address");
    let what = || format!("{place}{}: local_address {text}", settings.id());
    let found: io::Result<Vec<_>> = match text.parse::<IpAddr>() {
        // IPv6 too: the digits behind its last colon are no port.
        Ok(address) => Ok(vec![SocketAddr::new(address, 0)]),
        Err(_) => {
            text.to_socket_addrs().or_else(|_| (text, 0).to_socket_addrs()).map(Iterator::collect)
        }
    };
    let found = found.map_err(io_error(what()))?;
    // The system's error about the options of a socket names no key.
    let bound = found.iter().map(|from| TcpListener::bind((from.ip(), 0)).map(drop));
    if let Some(refused) = bound.reduce(io::Result::or) {
        refused.map_err(io_error(what()))?;
    }
    // If it is clear already that no destination is of that family.
    let to = settings.proxy.as_ref().map_or(&settings.address, |proxy| &proxy.address);
    let is_reached = |to: SocketAddr| found.iter().any(|from| from.is_ipv4() == to.is_ipv4());
    if found.is_empty() || to.parse().is_ok_and(|to| !is_reached(to)) {
        return Err(io_error(what())(io::ErrorKind::AddrNotAvailable.into()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use transfix_session::{BeginString, Role, SessionId};

    use super::*;

    fn routes(to: &str, local: &str) -> Result<Routes, EngineError> {
        let id = SessionId::new(BeginString::Fix44, "A", "B");
        let mut settings = SessionSettings::new(Role::Initiator, &id, to);
        settings.socket.local_address = local.to_owned();
        Routes::of(&settings, &Arc::default())
    }

    #[test]
    fn a_local_address_chooses_the_family_of_the_remote_one() {
        let v4 = ([127, 0, 0, 1], 1).into();
        let v6 = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 1));
        for (local, expected) in [("127.0.0.2", "127.0.0.2:0"), ("127.0.0.2:5", "127.0.0.2:5")] {
            // On most hosts this name has addresses of both families.
            let routes = routes("localhost:1", local).unwrap();
            assert_eq!(routes.options(v4).unwrap().local, expected.parse().ok());
            let error = routes.options(v6).unwrap_err().to_string();
            assert!(error.contains("cannot be reached from local_address"), "{error}");
        }
        assert_eq!(routes("localhost:1", "").unwrap().options(v6).unwrap().local, None);
        for (to, wrong) in [
            ("[::1]:1", "2001:db8::1:25"),
            ("127.0.0.1:1", "::1"),
            ("127.0.0.1:1", "192.0.2.1"),
            ("127.0.0.1:1", "no host"),
        ] {
            let error = routes(to, wrong).err().unwrap().to_string();
            assert!(error.starts_with("FIX.4.4:A->B: "), "{error}");
        }
    }
}
