//! The certificates that a server presents, and their faults.

use super::certificate::Certificate;

/// The certificates that a server presented to an inspecting client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// Protocol and cipher, such as `TLS 1.3, TLS13_AES_256_GCM_SHA384`.
    pub protocol: String,
    /// The server's certificate, followed by the others that it sent.
    pub chain: Vec<Certificate>,
    /// The reason why a session would refuse the chain, if any.
    pub fault: Option<String>,
}
