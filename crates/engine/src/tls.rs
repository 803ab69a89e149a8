//! Inspects a counterparty's TLS without a session.

use std::time::Duration;

pub use transfix_transport::tls::{Certificate, Inspection};

use transfix_settings::TlsSettings;

/// Connects to `host:port`, performs the initiator's TLS handshake with these settings, and closes
/// the connection without sending FIX. Waits at most `time` for each address of the name.
///
/// # Errors
/// The reason why TLS failed, with what was received before. A certificate that a session would
/// refuse is not an error: [`Inspection::fault`] describes its fault.
pub fn inspect(
    address: &str,
    settings: &TlsSettings,
    time: Duration,
) -> Result<Inspection, (Inspection, String)> {
    crate::drive::tls::inspect(address, settings, time)
}
