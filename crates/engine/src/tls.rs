//! Inspection of a counterparty's TLS before any session connects.

use std::time::Duration;

pub use transfix_transport::tls::{Certificate, Inspection};

use transfix_settings::TlsSettings;

/// Connects to `host:port`, performs the handshake of an initiator with these settings, and closes
/// the connection without sending FIX. Waits for at most `time` per address of the name.
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
