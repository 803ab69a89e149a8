//! TLS of a session's connections: its certificates are loaded, reloaded, and checked for expiry.
//!
//! Invariant: without the cargo feature `tls` these types cannot be constructed, because settings
//! with TLS are refused.

#[cfg(not(feature = "tls"))]
mod off;
#[cfg(feature = "tls")]
mod on;

#[cfg(not(feature = "tls"))]
pub(crate) use off::{PeerCertificate, Shaking, TlsListener, Way, certificate_of, review};
#[cfg(feature = "tls")]
pub(crate) use on::{PeerCertificate, Shaking, TlsListener, Way, certificate_of, inspect, review};

/// A warning about one of the engine's certificates.
// No warning exists without the feature `tls`.
#[cfg_attr(not(feature = "tls"), expect(dead_code))]
pub(crate) enum Doubt {
    /// Counterparties refuse it.
    Error(String),
    /// Some counterparties may refuse it, now or soon.
    Warning(String),
}
