//! The certificates that a server presents, with their faults.

use super::certificate::Certificate;

/// The findings of a client that inspects a server's certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// Protocol and cipher suite, such as `TLS 1.3, TLS13_AES_256_GCM_SHA384`.
    pub protocol: String,
    /// The server's own certificate, followed by the other certificates that it sent.
    pub chain: Vec<Certificate>,
    /// The reason why a session would refuse these certificates; `None` if it would accept them.
    pub fault: Option<String>,
}
