//! Addresses of sessions: resolved once, listened at, and which session listens where.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use transfix_session::SessionId;
use transfix_transport::SocketOptions;

use crate::drive::destination::{Destination, Entrance, Key};
use crate::error::{EngineError, io_error};
use crate::io::Io;
use crate::settings::SessionSettings;

/// The listeners of an engine. Sessions with the same address share them.
#[derive(Default)]
pub(crate) struct Listening {
    /// The address as the settings have it: its place is the group of the listeners.
    addresses: Vec<String>,
    pub(crate) entrances: Vec<Entrance>,
    group_of: HashMap<SessionId, usize>,
}

impl Listening {
    /// Listens at an acceptor's address, unless another session does already. Returns the group of
    /// its listeners.
    pub(crate) fn add(
        &mut self,
        settings: &SessionSettings,
        io: &dyn Io,
    ) -> Result<usize, EngineError> {
        let known = self.addresses.iter().position(|address| *address == settings.address);
        let group = known.unwrap_or(self.addresses.len());
        self.group_of.insert(settings.id(), group);
        let wait_ns = u64::from(settings.protocol.logon_timeout_ms) * 1_000_000;
        if known.is_some() {
            // Whose Logon(A) it will be nobody knows yet: the most patient session's time counts.
            for entrance in self.entrances.iter_mut().filter(|entrance| entrance.group == group) {
                entrance.wait_ns = entrance.wait_ns.max(wait_ns);
            }
            return Ok(group);
        }
        let options = socket_options(settings);
        let place = settings.place("address");
        let what = format!("{place}{}: listening at {}", settings.id(), settings.address);
        // A name such as localhost stands for several addresses. With port 0 the system picks a
        // port for each, so only the first one is bound.
        let mut found = resolve(settings)?;
        if found.iter().any(|address| address.port() == 0) {
            found.truncate(1);
        }
        let bound: io::Result<Vec<_>> =
            found.into_iter().map(|address| io.listen(address, &options)).collect();
        for listener in bound.map_err(io_error(what))? {
            self.entrances.push(Entrance { group, listener, wait_ns });
        }
        self.addresses.push(settings.address.clone());
        Ok(group)
    }

    /// Addresses listened at.
    pub(crate) fn bound(&self) -> Result<Vec<SocketAddr>, EngineError> {
        let bound: io::Result<_> = self.entrances.iter().map(|e| e.listener.local_addr()).collect();
        bound.map_err(io_error("listening address"))
    }

    /// What a Logon(A) must say, and where it must come in, to reach each session.
    pub(crate) fn keys(
        &self,
        destinations: Vec<(SessionId, Destination)>,
    ) -> HashMap<Key, Vec<Destination>> {
        let key = |id: &SessionId| {
            let (ours, theirs) = (id.sender_comp_id.to_string(), id.target_comp_id.to_string());
            Some((*self.group_of.get(id)?, id.begin_string, ours, theirs))
        };
        let mut keys: HashMap<Key, Vec<Destination>> = HashMap::new();
        for (id, to) in destinations {
            // Initiators are reached by nobody.
            if let Some(key) = key(&id) {
                keys.entry(key).or_default().push(to);
            }
        }
        keys
    }
}

pub(crate) fn socket_options(settings: &SessionSettings) -> SocketOptions {
    let size = |bytes: usize| (bytes > 0).then_some(bytes);
    SocketOptions {
        nodelay: settings.socket.tcp_nodelay,
        send_buffer_bytes: size(settings.socket.tcp_send_buffer_bytes),
        receive_buffer_bytes: size(settings.socket.tcp_receive_buffer_bytes),
        ..SocketOptions::default()
    }
}

/// Names are resolved once, here: a worker never waits for a name server.
pub(crate) fn resolve(settings: &SessionSettings) -> Result<Vec<SocketAddr>, EngineError> {
    let place = settings.place("address");
    let what = || format!("{place}{}: address {}", settings.id(), settings.address);
    let found: Vec<_> = settings.address.to_socket_addrs().map_err(io_error(what()))?.collect();
    if found.is_empty() {
        return Err(io_error(what())(io::ErrorKind::AddrNotAvailable.into()));
    }
    Ok(found)
}
