//! Listening sockets, and the sessions that receive their connections.

use std::sync::Arc;

use transfix_codec::{CheckSumPolicy, Message, tag};
use transfix_observe::published::Published;
use transfix_session::{BeginString, Secret, SubIds};
use transfix_settings::Subnet;

use crate::drive::session_waker::SessionWaker;
use crate::drive::shared::Shared;
use crate::drive::tls::TlsListener;
use crate::io::Listener;
use crate::link::failed_logons::LogonRecord;

/// The group of the listener, and BeginString(8), TargetCompID(56) and SenderCompID(49) of the
/// Logon(A).
pub(crate) type Key = (usize, BeginString, String, String);

/// An acceptor session, as a destination of connections.
pub(crate) struct Destination {
    /// The waker through which the session's worker receives a connection.
    pub(crate) session_waker: Arc<SessionWaker>,
    /// The session's SubIDs and LocationIDs.
    pub(crate) sub_ids: Arc<SubIds>,
    /// The policy for CheckSum(10) in the session's messages, including the Logon(A).
    pub(crate) check_sum: CheckSumPolicy,
    /// The certificates that the counterparty may present; an empty list accepts any.
    pub(crate) tls_peers: Arc<[String]>,
    /// The addresses from which the counterparty may connect; an empty list allows all.
    pub(crate) allowed: Arc<[Subnet]>,
    /// The hash of the counterparty's password, if configured.
    pub(crate) password_hash: Option<Secret>,
    /// The session's failed logons.
    pub(crate) record: Arc<LogonRecord>,
    /// The session's published counters, which also count refused connections.
    pub(crate) published: Arc<Published>,
}

impl Destination {
    pub(crate) fn of(shared: &Shared) -> Self {
        let (session_waker, sub_ids) =
            (Arc::clone(&shared.session_waker), Arc::clone(&shared.id.sub_ids));
        let (tls_peers, allowed) = (Arc::clone(&shared.tls_peers), Arc::clone(&shared.allowed));
        let record = Arc::clone(&shared.record);
        let password_hash = shared.password_hash.clone();
        let (check_sum, published) = (shared.check_sum(), Arc::clone(&shared.published));
        Self {
            session_waker,
            sub_ids,
            check_sum,
            tls_peers,
            allowed,
            password_hash,
            record,
            published,
        }
    }

    /// Returns how well a Logon(A) fits the session's SubIDs and LocationIDs: the number of equal
    /// values, or `None` if one differs. A value that is missing on either side always fits.
    pub(crate) fn fit(&self, message: &Message<'_>) -> Option<usize> {
        let ids = &self.sub_ids;
        let pairs = [
            (tag::TARGET_SUB_ID, &ids.sender_sub_id),
            (tag::TARGET_LOCATION_ID, &ids.sender_location_id),
            (tag::SENDER_SUB_ID, &ids.target_sub_id),
            (tag::SENDER_LOCATION_ID, &ids.target_location_id),
        ];
        let mut fit = 0;
        for (tag, ours) in pairs {
            match message.raw(tag) {
                Some(named) if !ours.is_empty() && named != ours.as_bytes() => return None,
                Some(_) if !ours.is_empty() => fit += 1,
                _ => {}
            }
        }
        Some(fit)
    }
}

/// A listening socket, with the settings that its sessions share. An address may need several
/// sockets.
pub(crate) struct ListenSocket {
    pub(crate) group: usize,
    pub(crate) listener: Box<dyn Listener>,
    /// The maximum time that a connection waits for its first message.
    pub(crate) wait_ns: u64,
    /// The TLS settings, if the socket accepts encrypted connections.
    pub(crate) tls: Option<Arc<TlsListener>>,
    /// The addresses of proxies, which announce the client's address in a PROXY header.
    pub(crate) proxies: Arc<[Subnet]>,
}
