//! A look at the TLS of a counterparty, before any session is opened there.

use std::time::Duration;

pub use transfix_transport::tls::{Certificate, Inspection};

use transfix_settings::TlsSettings;

/// Connects to `host:port`, shakes hands as an initiator with these settings would, and ends the
/// connection without a byte of FIX. Waits for `time` at most, and as long for each of the
/// addresses that the name stands for.
///
/// # Errors
/// Why no TLS came about, in words, with what was seen before. A certificate that a session would
/// refuse is no error here: [`Inspection::fault`] says what is wrong with it.
pub fn inspect(
    address: &str,
    settings: &TlsSettings,
    time: Duration,
) -> Result<Inspection, (Inspection, String)> {
    crate::drive::tls::inspect(address, settings, time)
}
