//! The certificates that a server shows, and their faults.

use super::certificate::Certificate;

/// The certificates that a server has shown to a client that only looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// Protocol and cipher, such as `TLS 1.3, TLS13_AES_256_GCM_SHA384`.
    pub protocol: String,
    /// Its certificate, and those that it sends along.
    pub chain: Vec<Certificate>,
    /// Why a session would refuse it; none if it would not.
    pub fault: Option<String>,
}
