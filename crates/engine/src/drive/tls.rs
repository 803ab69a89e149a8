//! TLS for a session's connections: loads and reloads certificates, and checks their expiry.
//!
//! Invariant: without the cargo feature `tls`, values of these types cannot exist, because settings
//! with TLS are refused.

#[cfg(not(feature = "tls"))]
mod off;
#[cfg(feature = "tls")]
mod on;

#[cfg(not(feature = "tls"))]
pub(crate) use off::{Handshake, PeerCertificate, TlsListener, Way, certificate_of, review};
#[cfg(feature = "tls")]
pub(crate) use on::{
    Handshake, PeerCertificate, TlsListener, Way, certificate_of, inspect, review,
};

/// A warning about one of the engine's certificates.
// Without the feature `tls` no such warning is constructed.
#[cfg_attr(not(feature = "tls"), expect(dead_code))]
pub(crate) enum Doubt {
    /// The certificate is invalid, so counterparties refuse it.
    Error(String),
    /// Some counterparties may refuse the certificate, now or soon.
    Warning(String),
}
