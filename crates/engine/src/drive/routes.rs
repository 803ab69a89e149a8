//! The destinations of an initiator, and the selection of the next one.

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
    /// The TLS settings of its connections.
    pub(crate) tls: Option<Way>,
}

/// The destinations of one initiator session.
pub(crate) struct Routes {
    /// All destinations, the primary first.
    all: Vec<Route>,
    order: FailoverOrder,
    /// The number of failed attempts after which the next destination is tried; 0 for no limit.
    attempts: u32,
    current: usize,
    /// The destination of the last logon.
    served: Option<usize>,
    reset_on_backup: bool,
    reset_on_primary: bool,
    /// The number of consecutive failed attempts at the current destination.
    failed: u32,
    /// The state of a pseudorandom generator. Its seed depends only on the session, so its choices
    /// are reproducible.
    seed: u64,
    pub(crate) proxy: Option<(ProxySettings, Arc<str>)>,
    /// The local addresses to connect from, at most one per address family. If empty, the system
    /// chooses.
    local: Vec<SocketAddr>,
    options: SocketOptions,
}

impl Routes {
    /// Returns the destinations of the settings. The local address is resolved here; other names
    /// are resolved at each attempt.
    ///
    /// # Errors
    /// If the system refuses a socket option, or a TLS file cannot be used.
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
        // Checks the options with an address of any family, because the system allows the same
        // options for both families.
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

    /// Returns the number of destinations.
    pub(crate) const fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns the index of the current destination; 0 is the primary.
    pub(crate) const fn current(&self) -> usize {
        self.current
    }

    /// Returns true if the next logon must reset the numbers, because the last logon was at another
    /// destination.
    pub(crate) fn resets(&self) -> bool {
        let is_wanted =
            if self.current == 0 { self.reset_on_primary } else { self.reset_on_backup };
        is_wanted && self.served.is_some_and(|served| served != self.current)
    }

    pub(crate) fn route(&self) -> &Route {
        &self.all[self.current]
    }

    /// Returns a description of the current destination: its address, and its role if there are
    /// several destinations.
    pub(crate) fn name(&self) -> String {
        let address = &self.route().address;
        match (self.current, self.all.len() - 1) {
            (_, 0) => address.to_string(),
            (0, _) => format!("{address} (primary)"),
            (1, 1) => format!("{address} (backup)"),
            (n, backups) => format!("{address} (backup {n} of {backups})"),
        }
    }

    /// Returns the `host:port` to which TCP connects: the proxy, or else the destination.
    pub(crate) fn first_hop(&self) -> &Arc<str> {
        self.proxy.as_ref().map_or(&self.route().address, |(_, address)| address)
    }

    /// Returns the socket options for a connection to this address.
    ///
    /// # Errors
    /// If no local address has the same family.
    pub(crate) fn options(&self, to: SocketAddr) -> io::Result<SocketOptions> {
        let fits = |from: &&SocketAddr| from.is_ipv4() == to.is_ipv4();
        let local = self.local.iter().find(fits).copied();
        if local.is_none() && !self.local.is_empty() {
            let why = format!("local_address cannot reach {to}");
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, why));
        }
        Ok(SocketOptions { local, ..self.options.clone() })
    }

    /// Switches to another destination, because an operator requests it.
    pub(crate) const fn turn_to(&mut self, to: usize) {
        if to < self.all.len() {
            (self.current, self.failed) = (to, 0);
        }
    }

    /// Selects the next destination after the end of a connection or attempt.
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
                // Chooses at random among the other destinations.
                FailoverOrder::Random if self.all.len() > 1 => {
                    (self.current + 1 + self.any(self.all.len() - 1)) % self.all.len()
                }
                _ => next,
            };
        }
    }

    /// Returns a pseudorandom number below `below`, which is not 0.
    pub(crate) fn any(&mut self, below: usize) -> usize {
        // The generator is SplitMix64, whose period contains every number once.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % below as u64) as usize
    }
}

/// Checks that the local address and the socket options of an initiator can be used.
///
/// # Errors
/// If it cannot.
pub(crate) fn check_sockets(settings: &SessionSettings) -> Result<(), EngineError> {
    local(settings).map(drop)
}

/// Returns the local addresses from which an initiator connects.
fn local(settings: &SessionSettings) -> Result<Vec<SocketAddr>, EngineError> {
    let text = &*settings.socket.local_address;
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let place = settings.place("local_address");
    let what = || format!("{place}{}: local_address {text}", settings.id());
    let found: io::Result<Vec<_>> = match text.parse::<IpAddr>() {
        // An IPv6 address also takes this branch; the digits after its last colon are not a port.
        Ok(address) => Ok(vec![SocketAddr::new(address, 0)]),
        Err(_) => {
            text.to_socket_addrs().or_else(|_| (text, 0).to_socket_addrs()).map(Iterator::collect)
        }
    };
    let found = found.map_err(io_error(what()))?;
    // Tries to bind here, because a later error of the system would not name the key of the
    // settings.
    let bound = found.iter().map(|from| TcpListener::bind((from.ip(), 0)).map(drop));
    if let Some(refused) = bound.reduce(io::Result::or) {
        refused.map_err(io_error(what()))?;
    }
    // Fails at the start if no address of the destination has the family of the local address.
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
            // On most hosts, localhost has addresses of both families.
            let routes = routes("localhost:1", local).unwrap();
            assert_eq!(routes.options(v4).unwrap().local, expected.parse().ok());
            let error = routes.options(v6).unwrap_err().to_string();
            assert!(error.contains("local_address cannot reach"), "{error}");
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
