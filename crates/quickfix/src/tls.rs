//! Migrates the certificate keys of the four engines to the table `tls`.
//!
//! Invariants: a session with TLS keeps TLS, or is not migrated. A certificate that cannot be read
//! is replaced by the name of a file to be created, without which the engine does not start. No
//! check is turned off because QuickFIX checks less.

use std::path::Path;

use transfix_settings::text_file;

use crate::data_dictionary::found;
use crate::keys::{list, quoted};
use crate::session::Session;
use crate::{Dialect, Fate};

/// All keys about TLS.
const KEYS: [&str; 34] = [
    "SSLProtocol",
    "CertificationAuthoritiesFile",
    "CertificationAuthoritiesDirectory",
    "ServerCertificateFile",
    "ServerCertificateKeyFile",
    "ClientCertificateFile",
    "ClientCertificateKeyFile",
    "CertificateVerifyLevel",
    "CertificateRevocationListFile",
    "CertificateRevocationListDirectory",
    "SocketUseSSL",
    "SocketKeyStore",
    "SocketTrustStore",
    "NeedClientAuth",
    "EnabledProtocols",
    "EndpointIdentificationAlgorithm",
    "UseSNI",
    "SNIHostName",
    "SSLEnable",
    "SSLServerName",
    "SSLProtocols",
    "SSLCertificate",
    "SSLRequireClientCertificate",
    "SSLCACertificate",
    "SocketPrivateKeyFile",
    "SocketCertificateFile",
    "SocketCAFile",
    "SocketServerName",
    "SocketMinimumTLSVersion",
    "KeyStoreType",
    "TrustStoreType",
    "SocketPrivateKeyBytes",
    "SocketCertificateBytes",
    "SocketCABytes",
];

const CERTIFICATE: &str = "tls.certificate";
const KEY: &str = "tls.key";
const CA: &str = "tls.ca";
const CLIENT: &str = "tls.client_certificate";
const SERVER_NAME: &str = "tls.server_name";
/// The finding about a key that only the other role uses.
const OTHER_ROLE: &str = "only sessions of the other role (initiator or acceptor) use this key";

/// Writes the table, if the session has TLS.
pub(crate) fn carry_over(session: &mut Session<'_>) {
    if !is_on(session) {
        let (fate, says) = match session.dialect {
            Dialect::Cpp => (
                Fate::NotCarriedOver,
                "the file names no certificate for this role, so Transfix enables no TLS: if the \
                 program uses an SSL connector, write the table `tls` (see the page TLS of the \
                 book)",
            ),
            _ => (Fate::Ignored, "TLS is not enabled, so this key has no effect"),
        };
        KEYS.iter().for_each(|key| session.tell(key, fate, "", says));
        return;
    }
    session.set("tls.enabled", "true".to_owned());
    match session.dialect {
        Dialect::Cpp => cpp(session),
        Dialect::Java => java(session),
        Dialect::Net => net(session),
        Dialect::Go => go(session),
    }
    if session.is_acceptor() && session.written(CERTIFICATE).is_none() {
        session.set(CERTIFICATE, quoted("acceptor.pem"));
        session.set(KEY, quoted("acceptor.key"));
        let says = "the file names no certificate that Transfix can read, and an acceptor needs \
                    one: create these files in PEM format";
        let becomes = "tls.certificate = \"acceptor.pem\", tls.key = \"acceptor.key\"";
        session.tell_of_session(Fate::NotCarriedOver, becomes, says);
    }
}

/// Returns true if the session uses TLS. In QuickFIX C++ the program decides, so certificates in
/// the file are the best evidence.
fn is_on(session: &Session<'_>) -> bool {
    match session.dialect {
        Dialect::Cpp if session.is_acceptor() => session.has("ServerCertificateFile"),
        Dialect::Cpp => {
            let own = ["CertificationAuthoritiesFile", "CertificationAuthoritiesDirectory"];
            own.iter().chain(&["ClientCertificateFile"]).any(|key| session.has(key))
        }
        _ => session.has_tls(),
    }
}

fn cpp(session: &mut Session<'_>) {
    let says = "in QuickFIX C++ the program enables TLS through its connector: if this program \
                does not, remove the table `tls`";
    session.tell_of_session(Fate::Mapped, "tls.enabled = true", says);
    let (own, other) = match session.is_acceptor() {
        true => ("ServerCertificate", "ClientCertificate"),
        false => ("ClientCertificate", "ServerCertificate"),
    };
    for end in ["File", "KeyFile"] {
        session.tell(&format!("{other}{end}"), Fate::Ignored, "", OTHER_ROLE);
    }
    let (certificate, key) = (format!("{own}File"), format!("{own}KeyFile"));
    file(session, &certificate, CERTIFICATE, Form::Certificate);
    if session.has(&key) {
        file(session, &key, KEY, Form::Key);
    } else if let Some(path) = session.value(&certificate) {
        session.set(KEY, quoted(path));
    }
    let asks = cpp_verify_level(session);
    for (one, many, ours) in [
        ("CertificationAuthoritiesFile", "CertificationAuthoritiesDirectory", CA),
        ("CertificateRevocationListFile", "CertificateRevocationListDirectory", "tls.crl"),
    ] {
        if asks {
            file(session, one, ours, Form::List);
            directory(session, many, ours);
            continue;
        }
        let says = "CertificateVerifyLevel is 0 (the default): QuickFIX never asked \
                    counterparties for a certificate, and Transfix does not either; with 1 this \
                    key would apply";
        for key in [one, many] {
            session.tell(key, Fate::Dangerous, "", says);
        }
    }
    if session.value("SSLProtocol").is_some() {
        versions(session, "SSLProtocol", &["+", " "]);
    }
    tell_of_names(session);
}

/// Migrates the key of QuickFIX C++ about verification. Returns true if the counterparty's
/// certificate is verified.
fn cpp_verify_level(session: &mut Session<'_>) -> bool {
    const LEVEL: &str = "CertificateVerifyLevel";
    let level = session.value(LEVEL);
    if !session.is_acceptor() {
        let says = "with 0 a QuickFIX initiator accepts any certificate; Transfix always verifies \
                    the certificate";
        match level {
            Some("0") => session.tell(LEVEL, Fate::Dangerous, "", says),
            _ => session.tell(LEVEL, Fate::Honoured, "", ""),
        }
        return true;
    }
    let word = match level {
        Some("1") => "required",
        Some("2") => "optional",
        _ => {
            let says = "counterparties are not asked for a certificate";
            session.tell(LEVEL, Fate::Dangerous, "", says);
            return false;
        }
    };
    session.becomes(LEVEL, CLIENT, quoted(word));
    let files = ["CertificationAuthoritiesFile", "CertificationAuthoritiesDirectory"];
    if !files.iter().any(|key| session.has(key)) {
        needs_ca(session);
    }
    true
}

fn java(session: &mut Session<'_>) {
    session.tell("SocketUseSSL", Fate::Honoured, "tls.enabled = true", "");
    if let Some(path) = session.value("SocketKeyStore") {
        let kind = session.value("KeyStoreType").unwrap_or("JKS");
        let (becomes, says) = own_store(session, path, kind);
        session.tell("SocketKeyStore", Fate::NotCarriedOver, &becomes, &says);
    } else if session.is_acceptor() {
        let says = "SocketKeyStore is missing: QuickFIX/J then uses the key in its own archive, a \
                    key that everybody can download";
        session.tell_of_session(Fate::Dangerous, "", says);
    }
    let asks = java_client_auth(session);
    if let Some(path) = session.value("SocketTrustStore").filter(|_| asks) {
        let kind = session.value("TrustStoreType").unwrap_or("JKS");
        let (becomes, says) = trust_store(session, path, kind);
        session.tell("SocketTrustStore", Fate::NotCarriedOver, &becomes, &says);
    } else if !session.is_acceptor() {
        let says = "SocketTrustStore is missing: QuickFIX/J trusts the authorities of Java, \
                    Transfix those of the system";
        session.tell_of_session(Fate::Mapped, "tls.ca = []", says);
    } else if session.has("SocketTrustStore") {
        let says = "NeedClientAuth is not Y: counterparties are not asked for a certificate";
        session.tell("SocketTrustStore", Fate::Ignored, "", says);
    }
    for key in ["KeyStoreType", "TrustStoreType"] {
        session.tell(key, Fate::Ignored, "", "Transfix reads PEM files only");
    }
    versions(session, "EnabledProtocols", &[","]);
    for key in ["UseSNI", "SNIHostName", "EndpointIdentificationAlgorithm"] {
        if session.is_acceptor() {
            session.tell(key, Fate::Ignored, "", OTHER_ROLE);
        }
    }
    if session.is_acceptor() {
        return;
    }
    match session.value("SNIHostName").filter(|_| session.is_yes("UseSNI")) {
        Some(name) => {
            let value = quoted(name);
            session.set(SERVER_NAME, value.clone());
            let says = "the acceptor's certificate must be valid for this name too";
            session.tell("SNIHostName", Fate::Mapped, &format!("{SERVER_NAME} = {value}"), says);
        }
        None => session.tell(
            "SNIHostName",
            Fate::Ignored,
            "",
            "this key has an effect only with \
            UseSNI=Y",
        ),
    }
    match session.is_yes("UseSNI") {
        true => session.tell("UseSNI", Fate::Honoured, "", ""),
        false => session.tell(
            "UseSNI",
            Fate::Mapped,
            "",
            "Transfix sends the server name in any \
            case",
        ),
    }
    match session.value("EndpointIdentificationAlgorithm") {
        Some(_) => session.tell("EndpointIdentificationAlgorithm", Fate::Honoured, "", ""),
        None => tell_of_names(session),
    }
}

/// Migrates the keys of QuickFIX/J about verification. Returns true if the counterparty's
/// certificate is verified.
fn java_client_auth(session: &mut Session<'_>) -> bool {
    if !session.is_acceptor() {
        session.tell("NeedClientAuth", Fate::Ignored, "", OTHER_ROLE);
        return true;
    }
    if !session.is_yes("NeedClientAuth") {
        session.tell("NeedClientAuth", Fate::Honoured, "", "");
        return false;
    }
    session.becomes("NeedClientAuth", CLIENT, quoted("required"));
    if !session.has("SocketTrustStore") {
        needs_ca(session);
    }
    true
}

fn net(session: &mut Session<'_>) {
    session.tell("SSLEnable", Fate::Honoured, "tls.enabled = true", "");
    if let Some(path) = session.value("SSLCertificate") {
        let is_file = [".pfx", ".p12"].iter().any(|end| path.to_ascii_lowercase().ends_with(end));
        let (becomes, says) = match is_file {
            true => own_store(session, path, "PKCS12"),
            false => {
                let (becomes, says) = own_store(session, "certificate.pfx", "PKCS12");
                let store = format!(
                    "the certificate is in the Windows certificate store: export certificate and \
                     key as certificate.pfx, then {says}"
                );
                (becomes, store)
            }
        };
        session.tell("SSLCertificate", Fate::NotCarriedOver, &becomes, &says);
    }
    let asks = net_client_certificate(session);
    match asks {
        true => file(session, "SSLCACertificate", CA, Form::List),
        false => {
            let says = "counterparties are not asked for a certificate";
            session.tell("SSLCACertificate", Fate::Ignored, "", says);
        }
    }
    versions(session, "SSLProtocols", &[",", "|"]);
    server_name(session, "SSLServerName");
}

/// Migrates the keys of QuickFIX/n about verification. Returns true if the counterparty's
/// certificate is verified.
fn net_client_certificate(session: &mut Session<'_>) -> bool {
    const KEY: &str = "SSLRequireClientCertificate";
    if !session.is_acceptor() {
        session.tell(KEY, Fate::Ignored, "", OTHER_ROLE);
        return true;
    }
    if session.is_no(KEY) {
        session.tell(KEY, Fate::Honoured, "", "");
        return false;
    }
    let value = quoted("required");
    if session.has(KEY) {
        session.becomes(KEY, CLIENT, value);
    } else {
        let becomes = format!("{CLIENT} = {value}");
        session.set(CLIENT, value);
        let says = format!("QuickFIX uses {KEY}=Y if the key is missing");
        session.tell_of_session(Fate::Mapped, &becomes, &says);
    }
    if !session.has("SSLCACertificate") {
        needs_ca(session);
    }
    true
}

fn go(session: &mut Session<'_>) {
    session.tell("SocketUseSSL", Fate::Honoured, "tls.enabled = true", "");
    file(session, "SocketCertificateFile", CERTIFICATE, Form::Certificate);
    file(session, "SocketPrivateKeyFile", KEY, Form::Key);
    bytes(session, "SocketCertificateBytes", CERTIFICATE, (Form::Certificate, "certificate.pem"));
    bytes(session, "SocketPrivateKeyBytes", KEY, (Form::Key, "certificate.key"));
    let asks = !session.is_acceptor() || !session.is_yes("SocketUseSSL");
    if session.is_acceptor() && asks {
        let (value, becomes) = (quoted("required"), format!("{CLIENT} = \"required\""));
        session.set(CLIENT, value);
        let says = "QuickFIX/Go asks each counterparty for a certificate, unless SocketUseSSL=Y \
                    is set";
        session.tell_of_session(Fate::Mapped, &becomes, says);
        if !session.has("SocketCAFile") && !session.has("SocketCABytes") {
            needs_ca(session);
        }
    }
    match asks {
        true => {
            file(session, "SocketCAFile", CA, Form::List);
            bytes(session, "SocketCABytes", CA, (Form::List, "ca.pem"));
        }
        false => {
            let says = "with SocketUseSSL=Y counterparties are not asked for a certificate, so \
                        this key has never had an effect";
            for key in ["SocketCAFile", "SocketCABytes"] {
                session.tell(key, Fate::Dangerous, "", says);
            }
        }
    }
    versions(session, "SocketMinimumTLSVersion", &[","]);
    server_name(session, "SocketServerName");
}

fn server_name(session: &mut Session<'_>, key: &str) {
    match session.value(key) {
        Some(name) if !session.is_acceptor() => {
            session.becomes(key, SERVER_NAME, quoted(name));
        }
        _ => session.tell(key, Fate::Ignored, "", OTHER_ROLE),
    }
}

/// Writes a placeholder for the trusted authority, if the session requires certificates but names
/// no authority.
fn needs_ca(session: &mut Session<'_>) {
    let value = list(["clients-ca.pem"]);
    let becomes = format!("{CA} = {value}");
    session.set(CA, value);
    let says = "the file names no trusted authorities: QuickFIX uses those of the system or of \
                Java; here list them in a PEM file";
    session.tell_of_session(Fate::NotCarriedOver, &becomes, says);
}

/// Reports that Transfix compares the host name with the certificate, if QuickFIX does not.
fn tell_of_names(session: &mut Session<'_>) {
    if session.is_acceptor() {
        return;
    }
    let dialect = session.dialect;
    let says = format!(
        "{dialect} does not check the host name in the acceptor's certificate; Transfix requires \
         the host of `address`, or `tls.server_name`"
    );
    session.tell_of_session(Fate::Mapped, "tls.check_name = true", &says);
}

/// Writes the oldest accepted version. `between`: the separators of the words.
fn versions(session: &mut Session<'_>, key: &str, between: &[&str]) {
    let Some(value) = session.value(key) else { return };
    let parts = between.iter().fold(vec![value], |parts, between| {
        parts.into_iter().flat_map(|part| part.split(between)).collect()
    });
    let words =
        parts.into_iter().map(|word| word.trim().to_ascii_lowercase().replace(['_', '.', 'v'], ""));
    let words: Vec<_> = words.filter(|word| !word.is_empty() && !word.starts_with('-')).collect();
    let has = |known: &str| words.iter().any(|word| word == known);
    if !words.is_empty() && words.iter().all(|word| word == "tls13") {
        return session.becomes(key, "tls.min_version", quoted("1.3"));
    }
    let says = "Transfix supports TLS 1.2 and 1.3, but no older version";
    let fate = match words.iter().all(|word| word == "tls12" || word == "tls13") && has("tls12") {
        true => Fate::Honoured,
        false => Fate::Mapped,
    };
    let becomes = "tls.min_version = \"1.2\"";
    session.set("tls.min_version", quoted("1.2"));
    session.tell(key, fate, becomes, if fate == Fate::Mapped { says } else { "" });
}

/// The contents of a PEM file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Certificate,
    Key,
    /// Certificates, or revocation lists: the Transfix key accepts several files.
    List,
}

impl Form {
    fn value(self, path: &str) -> String {
        if self == Self::List { list([path]) } else { quoted(path) }
    }
}

/// Writes the name of a PEM file. If the file has another format, reports the command that converts
/// it.
fn file(session: &mut Session<'_>, key: &str, ours: &str, form: Form) {
    let Some(path) = session.value(key) else { return };
    let made = made_of(path, if form == Form::Key { "open.key" } else { "pem" });
    let (from, to) = (shell(path), shell(&made));
    let command = match (text_of(session, path), form) {
        (Some(text), Form::Key) if text.contains("ENCRYPTED") => {
            format!(
                "the key has a password: run `openssl pkey -in {from} -out {to}`, which asks \
                     for the password"
            )
        }
        (Some(text), _) if text.contains("-----BEGIN") => {
            return session.becomes(key, ours, form.value(path));
        }
        (None, _) if !has_end(path, &["cer", "der", "p7b"]) => {
            return session.becomes(key, ours, form.value(path));
        }
        (_, Form::Key) => {
            format!(
                "the file is not PEM: `openssl pkey -inform DER -in {from} -out {to}` \
                     converts the file"
            )
        }
        (..) if ours == "tls.crl" => {
            format!(
                "the file is not PEM: `openssl crl -inform DER -in {from} -out {to}` converts \
                     the file"
            )
        }
        (..) if has_end(path, &["p7b"]) => format!(
            "the file is not PEM: `openssl pkcs7 -inform DER -print_certs -in {from} -out {to}` \
             converts the file"
        ),
        (..) => format!(
            "the file is not PEM: `openssl x509 -inform DER -in {from} -out {to}` \
                         converts the file"
        ),
    };
    let value = form.value(&made);
    let becomes = format!("{ours} = {value}");
    session.set(ours, value);
    session.tell(key, Fate::NotCarriedOver, &becomes, &command);
}

/// Migrates a certificate or key that is contained in the `.cfg` file, and must be in a file of its
/// own.
fn bytes(session: &mut Session<'_>, key: &str, ours: &str, (form, made): (Form, &str)) {
    if !session.has(key) {
        return;
    }
    let value = form.value(made);
    let becomes = format!("{ours} = {value}");
    session.set(ours, value);
    session.tell(
        key,
        Fate::NotCarriedOver,
        &becomes,
        "write the value of this key into this \
        file, in PEM format",
    );
}

/// Migrates a directory of PEM files, which must be combined into one file.
fn directory(session: &mut Session<'_>, key: &str, ours: &str) {
    let Some(path) = session.value(key) else { return };
    let dir = path.trim_end_matches('/');
    let made = format!("{dir}.pem");
    let value = match session.written(ours) {
        // Both a file and a directory are given, so the list contains both.
        Some(known) => format!("{}, {}]", known.trim_end_matches(']'), quoted(&made)),
        None => list([&*made]),
    };
    let becomes = format!("{ours} = {value}");
    session.set(ours, value);
    let says = format!("`cat {}/* > {}` makes the file", shell(dir), shell(&made));
    session.tell(key, Fate::NotCarriedOver, &becomes, &says);
}

/// Migrates a Java or Windows store that contains a certificate and its key. Returns the names of
/// the files to create, and the commands that create them.
fn own_store(session: &mut Session<'_>, path: &str, kind: &str) -> (String, String) {
    let (certificate, key) = (made_of(path, "pem"), made_of(path, "key"));
    let (before, from) = pkcs12(path, kind);
    let becomes = format!("{CERTIFICATE} = {}, {KEY} = {}", quoted(&certificate), quoted(&key));
    session.set(CERTIFICATE, quoted(&certificate));
    session.set(KEY, quoted(&key));
    let says = format!(
        "`{before}openssl pkcs12 -in {from} -nokeys -out {} && openssl pkcs12 -in {from} -nocerts \
         -nodes -out {}` creates these files and asks for the password",
        shell(&certificate),
        shell(&key)
    );
    (becomes, says)
}

/// Migrates a Java or Windows store of trusted certificates. Returns the name of the file to
/// create, and the commands that create it.
fn trust_store(session: &mut Session<'_>, path: &str, kind: &str) -> (String, String) {
    let (before, from) = pkcs12(path, kind);
    // Uses a different file name, because the same store may also contain our own certificate.
    let made = format!("{}-ca.pem", stem_of(path));
    let value = list([&*made]);
    let becomes = format!("{CA} = {value}");
    session.set(CA, value);
    let says = format!(
        "`{before}openssl pkcs12 -in {from} -nokeys -out {}` creates the file and asks for the \
         password",
        shell(&made)
    );
    (becomes, says)
}

/// Returns the command that converts a store to PKCS #12, if necessary, and the name of the result.
fn pkcs12(path: &str, kind: &str) -> (String, String) {
    if kind.eq_ignore_ascii_case("PKCS12") || has_end(path, &["p12", "pfx"]) {
        return (String::new(), shell(path));
    }
    let made = shell(&made_of(path, "p12"));
    let command = format!(
        "keytool -importkeystore -srckeystore {} -srcstoretype {} -destkeystore {made} \
         -deststoretype PKCS12 && ",
        shell(path),
        shell(kind)
    );
    (command, made)
}

/// Returns the text of a file, or `None` if it cannot be read.
fn text_of(session: &Session<'_>, path: &str) -> Option<String> {
    let bytes = text_file::read_bytes(found(session, path)?).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn has_end(path: &str, ends: &[&str]) -> bool {
    let end = Path::new(path).extension().and_then(|end| end.to_str()).unwrap_or_default();
    ends.iter().any(|known| known.eq_ignore_ascii_case(end))
}

fn stem_of(path: &str) -> String {
    Path::new(path).with_extension("").display().to_string()
}

fn made_of(path: &str, end: &str) -> String {
    format!("{}.{end}", stem_of(path))
}

/// Returns a quoted word of a shell command.
fn shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_command_hold_together() {
        for (word, expected) in [
            ("/etc/fix/desk.jks", "/etc/fix/desk.jks"),
            ("my store.jks", "'my store.jks'"),
            ("a'b;rm -rf ~", "'a'\\''b;rm -rf ~'"),
            ("", "''"),
        ] {
            assert_eq!(shell(word), expected);
        }
        assert_eq!(made_of("a.b/desk.jks", "pem"), "a.b/desk.pem");
    }
}
