//! What went wrong, in words that tell what to do.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

/// Why TLS cannot be used: a file that is missing or damaged, or settings that do not fit.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsError(pub(super) String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// As its `Display`: what `main` returns is printed so.
impl fmt::Debug for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for TlsError {}

/// Of a connection. `first`: the first byte that came, which belongs to TLS if it is the type of a
/// record (RFC 8446 section 5.1).
pub(super) fn explain(error: &Error, first: Option<u8>, is_handshaking: bool) -> String {
    if let (true, Some(byte), Error::InvalidMessage(_)) = (is_handshaking, first, error)
        && !(20..=24).contains(&byte)
    {
        return "the counterparty speaks plain text where TLS is expected".to_owned();
    }
    let text = match error {
        Error::InvalidCertificate(why) => return certificate(why),
        Error::AlertReceived(alert) => return told(*alert),
        Error::NoCertificatesPresented => {
            "the counterparty shows no certificate, and one is required (tls.client_certificate)"
        }
        Error::PeerIncompatible(
            PeerIncompatible::SupportedVersionsExtensionRequired
            // TLS 1.2 has it, and what is older has not.
            | PeerIncompatible::SignatureAlgorithmsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::Tls13RequiredForQuic
            | PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        ) => "the counterparty offers no version of TLS that is allowed here (tls.min_version)",
        Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon) => {
            "the counterparty offers no cipher suite that is known here"
        }
        Error::InvalidMessage(InvalidMessage::MessageTooLarge) => {
            "a TLS record is longer than any may be"
        }
        Error::DecryptError => "a TLS record is damaged: its bytes were changed on the way",
        other => return format!("TLS: {other}"),
    };
    text.to_owned()
}

/// Of the counterparty's certificate.
fn certificate(why: &CertificateError) -> String {
    let text = match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "has expired, or the clock here is wrong"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet, or the clock here is wrong"
        }
        CertificateError::UnknownIssuer => {
            "was signed by nobody who is trusted here (tls.ca), or its chain lacks one in between"
        }
        CertificateError::Revoked => "was revoked",
        CertificateError::UnknownRevocationStatus => {
            "cannot be checked: no revocation list of its issuer is among tls.crl"
        }
        CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. } => {
            "cannot be checked: the revocation list (tls.crl) of its issuer is out of date"
        }
        CertificateError::NotValidForName => "is for another host name",
        CertificateError::NotValidForNameContext { expected, presented } => {
            let (expected, names) = (expected.to_str(), presented.join(", "));
            return format!(
                "the counterparty's certificate is for another host: {expected} is wanted \
                 (tls.server_name, or the host of the address), and it has {names}"
            );
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "may not be used for this side of a connection (its extended key usage)"
        }
        CertificateError::ApplicationVerificationFailure => {
            "is none of those that are wanted (tls.peer)"
        }
        CertificateError::BadSignature => "has a wrong signature",
        // webpki has no further word for it.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "is that of an authority (CA:TRUE), such as `openssl req -x509` makes: it may sign the \
             certificate of a host, and not be one"
        }
        other => return format!("the counterparty's certificate is not accepted: {other}"),
    };
    format!("the counterparty's certificate {text}")
}

/// Of an alert that the counterparty has sent (RFC 8446 section 6.2).
fn told(alert: AlertDescription) -> String {
    let text = match alert {
        AlertDescription::CertificateRequired => "it requires a certificate, and none is shown",
        // Java says the second.
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
            "it does not accept our certificate"
        }
        AlertDescription::CertificateExpired => "our certificate has expired",
        AlertDescription::CertificateRevoked => "our certificate was revoked",
        AlertDescription::UnknownCA => "it does not trust who has signed our certificate",
        AlertDescription::ProtocolVersion => "it allows no version of TLS that is offered here",
        AlertDescription::HandshakeFailure => "nothing that both sides know was found",
        AlertDescription::AccessDenied => "our certificate is none of those it wants",
        AlertDescription::UnrecognisedName => "it has no certificate for the name we asked for",
        other => return format!("the counterparty ended the connection: TLS alert {other:?}"),
    };
    format!("the counterparty refused the connection: {text}")
}
