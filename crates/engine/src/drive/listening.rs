//! The addresses at which acceptors listen: resolved once, with their listeners and the sessions at
//! each address.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use transfix_session::{Millis, Secs, SessionId, nanos};
use transfix_settings::{SessionSettings, TlsSettings};
use transfix_transport::SocketOptions;

use crate::drive::certificates::OwnCertificates;
use crate::drive::destination::{Destination, Key, ListenSocket};
use crate::drive::tls::TlsListener;
use crate::error::{EngineError, io_error};
use crate::io::Io;

/// The settings that all sessions at one address must have in common, because the session of a
/// connection is unknown before its first message.
struct Common {
    tls: Option<TlsSettings>,
    proxies: Vec<String>,
}

impl Common {
    fn of(settings: &SessionSettings) -> Self {
        let proxies = settings.proxy_protocol_from.clone();
        Self { tls: enabled_tls(settings).cloned(), proxies }
    }

    /// Checks that the session has the same settings, so that it may share the address.
    fn check(&self, settings: &SessionSettings) -> Result<(), EngineError> {
        let (id, address) = (settings.id(), &settings.address);
        let is_same = match (&self.tls, enabled_tls(settings)) {
            (Some(first), Some(own)) => first.is_same_listener(own),
            (first, own) => first.is_none() == own.is_none(),
        };
        if !is_same {
            let place = settings.place("tls");
            return Err(EngineError::Settings(format!(
                "{place}{id}: another session at {address} has other settings of tls; only \
                 tls.peer may differ, because encryption starts before the Logon(A) names the \
                 session"
            )));
        }
        if self.proxies != settings.proxy_protocol_from {
            let place = settings.place("proxy_protocol_from");
            return Err(EngineError::Settings(format!(
                "{place}{id}: another session at {address} has another proxy_protocol_from; both \
                 must be equal, because the proxy sends its header before the Logon(A) names \
                 the session"
            )));
        }
        Ok(())
    }
}

/// The listeners of an engine, shared by sessions with the same address.
#[derive(Default)]
pub(crate) struct Listening {
    /// The addresses as in the settings; the index is the group of the listeners.
    addresses: Vec<String>,
    /// The shared settings of each address, from its first session.
    firsts: Vec<Common>,
    pub(crate) listeners: Vec<ListenSocket>,
    group_of: HashMap<SessionId, usize>,
}

impl Listening {
    /// Listens at an acceptor's address, unless another session already does. Returns the group of
    /// its listeners.
    pub(crate) fn add(
        &mut self,
        settings: &SessionSettings,
        io: &dyn Io,
        own: &Arc<OwnCertificates>,
    ) -> Result<usize, EngineError> {
        let known = self.addresses.iter().position(|address| *address == settings.address);
        let group = known.unwrap_or(self.addresses.len());
        let wait_ns = nanos(settings.protocol.logon_timeout);
        if let Some(at) = known {
            self.firsts[at].check(settings)?;
            // Applies the longest of the sessions' timeouts, because the session of a connection is
            // unknown before its Logon(A).
            for listener in self.listeners.iter_mut().filter(|listener| listener.group == group) {
                listener.wait_ns = listener.wait_ns.max(wait_ns);
            }
            self.group_of.insert(settings.id(), group);
            return Ok(group);
        }
        let (tls, proxies) =
            (TlsListener::of(settings, own)?.map(Arc::new), settings.proxies().into());
        let place = settings.place("address");
        let what = format!("{place}{}: listening at {}", settings.id(), settings.address);
        // A name such as localhost has several addresses. The system would choose a different port
        // for each if the port is 0, so only the first address is bound.
        let mut found = resolve(settings)?;
        let options = socket_options(settings, found[0], None)?;
        if found.iter().any(|address| address.port() == 0) {
            found.truncate(1);
        }
        let bound: io::Result<Vec<_>> =
            found.into_iter().map(|address| io.listen(address, &options)).collect();
        for listener in bound.map_err(io_error(what))? {
            let (tls, proxies) = (tls.clone(), Arc::clone(&proxies));
            self.listeners.push(ListenSocket { group, listener, wait_ns, tls, proxies });
        }
        self.firsts.push(Common::of(settings));
        self.addresses.push(settings.address.clone());
        self.group_of.insert(settings.id(), group);
        Ok(group)
    }

    /// Removes a session. Returns its listener group if no other session uses it, so that its
    /// listeners must be closed.
    pub(crate) fn remove(&mut self, id: &SessionId) -> Option<usize> {
        let group = self.group_of.remove(id)?;
        if self.group_of.values().any(|other| *other == group) {
            return None;
        }
        // The entry stays in the list, because the other groups keep their numbers.
        self.addresses[group].clear();
        Some(group)
    }

    /// Gives a session the settings that are in force at its address. After a failed reload, other
    /// sessions may have new ones.
    pub(crate) fn adopt_listener(&self, settings: &mut SessionSettings) {
        let known = self.addresses.iter().position(|address| *address == settings.address);
        let Some(first) = known.map(|at| &self.firsts[at]) else { return };
        if first.check(settings).is_ok() {
            return;
        }
        let peer = settings.tls.take().map(|tls| tls.peer).unwrap_or_default();
        settings.tls = first.tls.clone().map(|tls| TlsSettings { peer, ..tls });
        settings.proxy_protocol_from.clone_from(&first.proxies);
    }

    /// Returns true if there is a listener at this address, as written in the settings.
    pub(crate) fn listens_at(&self, address: &str) -> bool {
        self.addresses.iter().any(|known| known == address)
    }

    /// Returns true if connections at this group of listeners are encrypted.
    pub(crate) fn has_tls(&self, group: usize) -> bool {
        self.firsts.get(group).is_some_and(|first| first.tls.is_some())
    }

    /// Returns true if this session or template listens at any address here.
    pub(crate) fn has(&self, id: &SessionId) -> bool {
        self.group_of.contains_key(id)
    }

    /// Returns the key under which the acceptor finds this session: its listener group and the
    /// values of its Logon(A).
    pub(crate) fn key(&self, id: &SessionId) -> Option<Key> {
        let (ours, theirs) = (id.sender_comp_id.to_string(), id.target_comp_id.to_string());
        Some((*self.group_of.get(id)?, id.begin_string, ours, theirs))
    }

    /// Returns the keys under which the acceptor finds these sessions, with their destinations.
    pub(crate) fn keys(
        &self,
        destinations: Vec<(SessionId, Destination)>,
    ) -> HashMap<Key, Vec<Destination>> {
        let mut keys: HashMap<Key, Vec<Destination>> = HashMap::new();
        for (id, to) in destinations {
            // An initiator has no key, because it accepts no connections.
            if let Some(key) = self.key(&id) {
                keys.entry(key).or_default().push(to);
            }
        }
        keys
    }
}

/// Returns the session's TLS settings, if enabled.
fn enabled_tls(settings: &SessionSettings) -> Option<&TlsSettings> {
    settings.tls.as_ref().filter(|tls| tls.enabled)
}

/// Checks that two sessions may use the same listener.
pub(crate) fn check_same_listener(
    first: &SessionSettings,
    settings: &SessionSettings,
) -> Result<(), EngineError> {
    Common::of(first).check(settings)
}

/// Returns the addresses at which an acceptor would listen.
///
/// # Errors
/// If its name has no address, or the system refuses its socket options.
pub(crate) fn check_address(settings: &SessionSettings) -> Result<Vec<SocketAddr>, EngineError> {
    let found = resolve(settings)?;
    socket_options(settings, found[0], None)?;
    Ok(found)
}

/// Returns the session's socket options, after setting all of them on a trial socket to check that
/// the system accepts them.
pub(super) fn socket_options(
    settings: &SessionSettings,
    address: SocketAddr,
    local: Option<SocketAddr>,
) -> Result<SocketOptions, EngineError> {
    let socket = &settings.socket;
    let size = |bytes: usize| (bytes > 0).then_some(bytes);
    let some = |time: Duration| (!time.is_zero()).then_some(time);
    // The system accepts only whole seconds for this option.
    let seconds = |time: Duration| some(Duration::from_secs(Secs::count(time)));
    let options = SocketOptions {
        nodelay: socket.tcp_nodelay,
        send_buffer_bytes: size(socket.tcp_send_buffer_bytes),
        receive_buffer_bytes: size(socket.tcp_receive_buffer_bytes),
        keepalive: seconds(socket.tcp_keepalive),
        keepalive_interval: seconds(socket.tcp_keepalive_interval),
        keepalive_probes: Some(socket.tcp_keepalive_probes).filter(|probes| *probes > 0),
        user_timeout: some(Duration::from_millis(Millis::count(socket.tcp_user_timeout))),
        quick_ack: socket.tcp_quick_ack,
        linger: socket.tcp_reset_on_close.then_some(Duration::ZERO),
        busy_poll: some(socket.busy_poll),
        dscp: socket.dscp,
        local,
        reuse_port: socket.reuse_port,
        ..SocketOptions::default()
    };
    // Default options need no trial socket.
    if options != SocketOptions::default() {
        let what = format!("{}{}: socket options", settings.place("address"), settings.id());
        options.check(address).map_err(io_error(what))?;
    }
    Ok(options)
}

/// Resolves the address of an acceptor once, so that a worker never waits for a name server.
fn resolve(settings: &SessionSettings) -> Result<Vec<SocketAddr>, EngineError> {
    let place = settings.place("address");
    let what = || format!("{place}{}: address {}", settings.id(), settings.address);
    let found: Vec<_> = settings.address.to_socket_addrs().map_err(io_error(what()))?.collect();
    if found.is_empty() {
        return Err(io_error(what())(io::ErrorKind::AddrNotAvailable.into()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use transfix_session::{BeginString, Role, SessionId};

    use super::*;

    fn session(address: &str) -> SessionSettings {
        let id = SessionId::new(BeginString::Fix44, "A", "B");
        SessionSettings::new(Role::Initiator, &id, address)
    }

    fn of(settings: &SessionSettings) -> Result<SocketOptions, EngineError> {
        socket_options(settings, ([127, 0, 0, 1], 1).into(), None)
    }

    #[test]
    fn each_key_of_the_socket_is_an_option() {
        let mut settings = session("127.0.0.1:1");
        let options = of(&settings).unwrap();
        assert_eq!(options, SocketOptions::default());
        settings.socket.tcp_nodelay = false;
        settings.socket.tcp_send_buffer_bytes = 10_000;
        settings.socket.tcp_receive_buffer_bytes = 20_000;
        settings.socket.tcp_keepalive = Duration::from_secs(30);
        settings.socket.tcp_keepalive_interval = Duration::from_secs(7);
        settings.socket.tcp_keepalive_probes = 4;
        settings.socket.tcp_user_timeout = Duration::from_millis(1_500);
        settings.socket.tcp_quick_ack = true;
        settings.socket.tcp_reset_on_close = true;
        settings.socket.dscp = Some(46);
        settings.socket.reuse_port = true;
        let seconds = Duration::from_secs;
        let expected = SocketOptions {
            nodelay: false,
            send_buffer_bytes: Some(10_000),
            receive_buffer_bytes: Some(20_000),
            keepalive: Some(seconds(30)),
            keepalive_interval: Some(seconds(7)),
            keepalive_probes: Some(4),
            user_timeout: Some(Duration::from_millis(1_500)),
            quick_ack: true,
            linger: Some(Duration::ZERO),
            dscp: Some(46),
            reuse_port: true,
            ..SocketOptions::default()
        };
        assert_eq!(of(&settings).unwrap(), expected);
        // The operating system accepts this time only in whole seconds, and the next one in whole
        // milliseconds.
        settings.socket.tcp_keepalive = Duration::from_millis(29_001);
        settings.socket.tcp_user_timeout = Duration::from_micros(1_499_001);
        assert_eq!(of(&settings).unwrap(), expected);
        // The permission to raise this value depends on the system, and is checked at the start.
        settings.socket.busy_poll = Duration::from_micros(50);
        let of_busy_poll = of(&settings).map(|options| options.busy_poll);
        let options = SocketOptions { busy_poll: Some(Duration::from_micros(50)), ..expected };
        match options.check(([127, 0, 0, 1], 1).into()) {
            Ok(()) => assert_eq!(of_busy_poll.unwrap(), Some(Duration::from_micros(50))),
            Err(_) => assert!(of_busy_poll.unwrap_err().to_string().contains("socket options")),
        }
    }
}
