//! Texts of TLS errors, which name the remedy.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

/// The reason why TLS cannot be used: a missing or damaged file, or settings that contradict each
/// other.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsError(pub(super) String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Formats as `Display` does, so that an error returned by `main` prints as text.
impl fmt::Debug for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for TlsError {}

/// Describes the error of a connection. `first` is the first byte received: if its value is a TLS
/// record type (RFC 8446 section 5.1), the counterparty speaks TLS.
pub(super) fn explain(error: &Error, first: Option<u8>, is_handshaking: bool) -> String {
    if let (true, Some(byte), Error::InvalidMessage(_)) = (is_handshaking, first, error)
        && !(20..=24).contains(&byte)
    {
        return "the counterparty sends plain text instead of TLS".to_owned();
    }
    let text = match error {
        Error::InvalidCertificate(why) => return certificate(why),
        Error::AlertReceived(alert) => return told(*alert),
        Error::NoCertificatesPresented => {
            "the counterparty presented no certificate, but tls.client_certificate requires one"
        }
        Error::PeerIncompatible(
            PeerIncompatible::SupportedVersionsExtensionRequired
            // TLS 1.2 requires this extension, and older versions do not have it.
            | PeerIncompatible::SignatureAlgorithmsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::Tls13RequiredForQuic
            | PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        ) => "the counterparty offers no TLS version that is allowed here (tls.min_version)",
        Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon) => {
            "the counterparty offers no cipher suite that is supported here"
        }
        Error::InvalidMessage(InvalidMessage::MessageTooLarge) => {
            "the counterparty sent a TLS record above the maximum length"
        }
        Error::DecryptError => "a TLS record is damaged: its bytes were changed in transit",
        other => return in_words(other),
    };
    text.to_owned()
}

/// Describes a rare error by its rustls name, split into words.
fn in_words(error: &Error) -> String {
    match error {
        Error::PeerIncompatible(why) => {
            format!(
                "the counterparty's TLS is not compatible with ours: {}",
                spaced(&format!("{why:?}"))
            )
        }
        Error::PeerMisbehaved(why) => {
            format!("the counterparty violates the rules of TLS: {}", spaced(&format!("{why:?}")))
        }
        Error::InvalidMessage(why) => {
            format!("the counterparty sent an invalid TLS message: {}", spaced(&format!("{why:?}")))
        }
        Error::InappropriateMessage { got_type, .. } => {
            format!(
                "the counterparty sent a TLS message out of order: {}",
                spaced(&format!("{got_type:?}"))
            )
        }
        Error::InappropriateHandshakeMessage { got_type, .. } => {
            format!(
                "the counterparty sent a TLS message out of order: {}",
                spaced(&format!("{got_type:?}"))
            )
        }
        Error::InvalidCertificate(why) => format!("it {}", of_certificate(why)),
        Error::InconsistentKeys(_) => {
            "the certificate and the key do not belong together".to_owned()
        }
        Error::InvalidCertRevocationList(why) => {
            format!("a revocation list (tls.crl) is not usable: {}", spaced(&format!("{why:?}")))
        }
        other => format!("TLS: {other}"),
    }
}

/// Describes an error of files or settings, in which no counterparty is involved.
pub(super) fn refused(error: &Error) -> TlsError {
    TlsError(in_words(error))
}

/// Splits an identifier into words: `BadEncoding` becomes `bad encoding`, and
/// `MissingData("HandshakeType")` becomes `missing data (handshake type)`.
pub(super) fn spaced(name: &str) -> String {
    let (mut text, mut last) = (String::new(), ' ');
    for c in name.chars().filter(|c| *c != '"') {
        let begins = c.is_uppercase() && (last.is_lowercase() || last.is_ascii_digit());
        if begins || (c == '(' && last != ' ') {
            text.push(' ');
        }
        text.extend(c.to_lowercase());
        last = c;
    }
    text
}

/// Formats the names in a certificate, which webpki represents as `DnsName("fix.example")` or
/// `IpAddress(::1)`.
fn names(presented: &[String]) -> String {
    let name = |shown: &String| {
        let inner = shown.split_once('(').map_or(&**shown, |(_, inner)| inner);
        inner.trim_end_matches(')').trim_matches('"').to_owned()
    };
    match presented {
        [] => "no name".to_owned(),
        names => names.iter().map(name).collect::<Vec<_>>().join(", "),
    }
}

/// Describes an error of the counterparty's certificate.
fn certificate(why: &CertificateError) -> String {
    if let CertificateError::NotValidForNameContext { expected, presented } = why {
        let (expected, names) = (expected.to_str(), names(presented));
        return format!(
            "the counterparty's certificate is for another host: expected {expected} \
             (tls.server_name, or the host of the address), found {names}"
        );
    }
    format!("the counterparty's certificate {}", of_certificate(why))
}

/// Describes the fault of a certificate.
fn of_certificate(why: &CertificateError) -> String {
    let text = match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "has expired, or the clock of this machine is wrong"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet, or the clock of this machine is wrong"
        }
        CertificateError::UnknownIssuer => {
            "was not signed by a trusted authority (tls.ca), or an intermediate certificate is \
             missing from its chain"
        }
        CertificateError::Revoked => "was revoked",
        CertificateError::UnknownRevocationStatus => {
            "cannot be checked: tls.crl has no revocation list of its issuer"
        }
        CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. } => {
            "cannot be checked: the revocation list of its issuer (tls.crl) has expired"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "is for another host"
        }
        CertificateError::BadEncoding => "cannot be read: its bytes are damaged",
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "is signed with an algorithm that is not supported here"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is not allowed for this side of a connection (extended key usage)"
        }
        CertificateError::ApplicationVerificationFailure => {
            "matches none of the expected certificates (tls.peer)"
        }
        CertificateError::BadSignature => "has a wrong signature",
        // The error type has no variant of its own for this webpki error.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "belongs to an authority (CA:TRUE), such as `openssl req -x509` creates: this \
             certificate may sign the certificate of a host, but not serve as one"
        }
        other => return format!("is not accepted: {}", spaced(&other.to_string())),
    };
    text.to_owned()
}

/// Describes an alert that the counterparty sent (RFC 8446 section 6.2).
fn told(alert: AlertDescription) -> String {
    let text = match alert {
        AlertDescription::CertificateRequired => {
            "we presented no certificate, but the \
            counterparty requires one"
        }
        // A counterparty in Java sends the second of these alerts.
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => {
            "the counterparty does not accept our certificate"
        }
        AlertDescription::CertificateExpired => "our certificate has expired",
        AlertDescription::CertificateRevoked => "our certificate was revoked",
        AlertDescription::UnknownCA => {
            "the counterparty does not trust the authority that signed \
                                        our certificate"
        }
        AlertDescription::ProtocolVersion => "the counterparty allows no TLS version that we offer",
        AlertDescription::HandshakeFailure => {
            "both sides have no TLS version, cipher or \
            algorithm in common"
        }
        AlertDescription::AccessDenied => {
            "the counterparty does not permit access with our \
            certificate"
        }
        AlertDescription::UnrecognisedName => {
            "the counterparty has no certificate for the host \
            name that we requested"
        }
        other => {
            let number = u8::from(other);
            let name = other.as_str().map(|name| format!(" ({})", spaced(name)));
            return format!(
                "the counterparty ended the connection: TLS alert {number}{}",
                name.unwrap_or_default()
            );
        }
    };
    format!("the counterparty refused the connection: {text}")
}

#[cfg(test)]
mod tests {
    use rustls::{CertRevocationListError, InconsistentKeys, PeerMisbehaved};

    use super::*;

    #[test]
    fn names_of_errors_are_told_in_words() {
        let presented = ["DnsName(\"fix.other.example\")", "IpAddress(127.0.0.1)"];
        let presented = presented.map(str::to_owned).to_vec();
        let expected = rustls::pki_types::ServerName::try_from("fix.example").unwrap();
        for (error, expected) in [
            (
                CertificateError::NotValidForNameContext { expected, presented }.into(),
                "fix.example (tls.server_name, or the host of the address), found \
                 fix.other.example, 127.0.0.1",
            ),
            (CertificateError::BadEncoding.into(), "the counterparty's certificate cannot be read"),
            (
                CertificateError::UnhandledCriticalExtension.into(),
                "certificate is not accepted: unhandled critical extension",
            ),
            (
                Error::AlertReceived(AlertDescription::InternalError),
                "TLS alert 80 (internal error)",
            ),
            (Error::AlertReceived(AlertDescription::Unknown(200)), "TLS alert 200"),
            (
                InvalidMessage::MissingData("HandshakeType").into(),
                "invalid TLS message: missing data (handshake type)",
            ),
            (
                PeerMisbehaved::IllegalMiddleboxChangeCipherSpec.into(),
                "violates the rules of TLS: illegal middlebox change cipher spec",
            ),
            (
                PeerIncompatible::NoKxGroupsInCommon.into(),
                "is not compatible with ours: no kx groups in common",
            ),
            (CertRevocationListError::ParseError.into(), "is not usable: parse error"),
            (InconsistentKeys::KeyMismatch.into(), "do not belong together"),
        ] {
            let told = explain(&error, Some(22), true);
            assert!(told.ends_with(expected) || told.contains(expected), "{told}");
            for mark in ["(\"", "::", "{", "Name(", "Address("] {
                assert!(!told.contains(mark), "{told}");
            }
        }
    }
}
