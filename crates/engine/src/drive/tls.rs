//! TLS around a session's connections: certificates are read here, renewed, and watched until they
//! expire.
//!
//! Invariant: without the cargo feature `tls` nothing of this can be made, as settings that want it
//! are refused.

#[cfg(not(feature = "tls"))]
mod off;
#[cfg(feature = "tls")]
mod on;

#[cfg(not(feature = "tls"))]
pub(crate) use off::{PeerCertificate, Shaking, TlsListener, Way, certificate_of, review};
#[cfg(feature = "tls")]
pub(crate) use on::{PeerCertificate, Shaking, TlsListener, Way, certificate_of, inspect, review};

/// The warnings about a certificate of ours.
// Without the feature `tls` there is none.
#[cfg_attr(not(feature = "tls"), expect(dead_code))]
pub(crate) enum Doubt {
    /// No counterparty takes it.
    Error(String),
    /// Some may not, or soon.
    Warning(String),
}
