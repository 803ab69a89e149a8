//! Blocking TLS clients and servers that act as counterparties, with certificates from
//! [`crate::certificates`].

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

pub use rustls;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    SupportedProtocolVersion,
};

use crate::certificates::Signed;

/// The client's end of a TLS connection.
pub type ClientStream = StreamOwned<ClientConnection, TcpStream>;
/// The server's end of a TLS connection.
pub type ServerStream = StreamOwned<ServerConnection, TcpStream>;
/// A set of TLS versions that a client or server supports.
pub type Versions = &'static [&'static SupportedProtocolVersion];
/// TLS 1.2 only.
pub static TLS12: Versions = &[&rustls::version::TLS12];
/// TLS 1.3 only.
pub static TLS13: Versions = &[&rustls::version::TLS13];
/// TLS 1.2 and TLS 1.3.
pub static TLS12_AND_13: Versions = &[&rustls::version::TLS12, &rustls::version::TLS13];

fn roots(ca: &Path) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).expect("a file") {
        roots.add(certificate.expect("PEM")).expect("an authority");
    }
    roots
}

fn pair(own: &Signed) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let chain = CertificateDer::pem_file_iter(&own.certificate).expect("a file");
    let chain = chain.collect::<Result<_, _>>().expect("PEM");
    (chain, PrivateKeyDer::from_pem_file(&own.key).expect("a key"))
}

/// Returns the configuration of a client that trusts `ca` and presents `own`. Connections with the
/// same configuration can resume earlier TLS sessions.
///
/// # Panics
/// If a file is not valid PEM.
#[must_use]
pub fn client(ca: &Path, own: Option<&Signed>, versions: Versions) -> Arc<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(versions).expect("versions");
    let builder = builder.with_root_certificates(roots(ca));
    Arc::new(match own.map(pair) {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).expect("a pair"),
        None => builder.with_no_client_auth(),
    })
}

/// Connects to the host `name` at the address `to`. The TLS handshake takes place at the first read
/// or write.
///
/// # Panics
/// If no server listens, or `name` is not a valid host name.
#[must_use]
pub fn connect(client: &Arc<ClientConfig>, to: SocketAddr, name: &str) -> ClientStream {
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let tls = ClientConnection::new(Arc::clone(client), name).expect("a client");
    StreamOwned::new(tls, TcpStream::connect(to).expect("a connection"))
}

/// Returns the configuration of a server that presents `own`. If `ca` is given, each client must
/// present a certificate that `ca` has signed.
///
/// # Panics
/// If a file is not valid PEM.
#[must_use]
pub fn server(own: &Signed, ca: Option<&Path>, versions: Versions) -> Arc<ServerConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_protocol_versions(versions).expect("versions");
    let builder = match ca {
        Some(ca) => {
            let roots = Arc::new(roots(ca));
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
        }
        None => builder.with_no_client_auth(),
    };
    let (chain, key) = pair(own);
    Arc::new(builder.with_single_cert(chain, key).expect("a pair"))
}

/// Returns the TLS stream of a server for an accepted connection.
///
/// # Panics
/// If the settings are inconsistent.
#[must_use]
pub fn accept(server: &Arc<ServerConfig>, socket: TcpStream) -> ServerStream {
    let tls = ServerConnection::new(Arc::clone(server)).expect("a server");
    StreamOwned::new(tls, socket)
}
