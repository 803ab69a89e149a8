//! What a server shows, and what is wrong with it.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

use super::certificate::Certificate;
use super::explain::explain;

/// What a server has shown to a client that looks at it, and no more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// Protocol and cipher, such as `TLSv1_3 TLS13_AES_256_GCM_SHA384`.
    pub protocol: String,
    /// Its certificate, and those that it sends along.
    pub chain: Vec<Certificate>,
    /// Why a session would refuse it; none if it would not.
    pub fault: Option<String>,
}

/// Judges a server as `judge` does, keeps what it says, and goes on with the handshake.
#[derive(Debug)]
pub(super) struct Witness<V> {
    pub(super) judge: V,
    pub(super) seen: Arc<Mutex<Inspection>>,
}

impl<V: ServerCertVerifier> ServerCertVerifier for Witness<V> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let judged = self.judge.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        let chain = std::iter::once(end_entity).chain(intermediates);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.chain = chain.filter_map(Certificate::of).collect();
        seen.fault = judged.err().map(|error| explain(&error, None, true));
        // No byte of an application follows.
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.judge.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.judge.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.judge.supported_verify_schemes()
    }
}
