//! Tests of TLS: the test suite for every stream, and the error messages of refused connections.

#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};
use transfix_testkit::certificates::{Authority, Signed, Valid};
use transfix_testkit::laws::stream_laws;
use transfix_testkit::temp::TempDir;
use transfix_transport::tls::{
    Client, ClientOptions, Clients, Clock, Server, ServerOptions, TlsFiles, TlsStream,
};
use transfix_transport::{Stream, memory};

/// The files of a test, and the options for a client and a server that accept each other.
pub(crate) struct Firm {
    dir: TempDir,
    authority: Authority,
    pub(crate) server: ServerOptions,
    pub(crate) client: ClientOptions,
}

impl Firm {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new();
        let authority = Authority::new(dir.path(), "authority");
        let venue = authority.sign(&["venue.example", "10.0.0.1"], 1, Valid::Now);
        let mut firm = Self {
            dir,
            authority,
            server: ServerOptions::default(),
            client: ClientOptions {
                server_name: "venue.example".to_owned(),
                checks_name: true,
                ..ClientOptions::default()
            },
        };
        firm.server.files.certificates = vec![pair(&venue)];
        firm.client.files.ca = vec![firm.authority.ca.clone()];
        firm
    }

    fn knows_clients(&mut self, wanted: Clients) {
        self.server.clients = wanted;
        self.server.files.ca = vec![self.authority.ca.clone()];
    }

    fn meet(&self) -> (io::Result<TlsStream>, io::Result<TlsStream>) {
        let (ours, theirs) = memory::pipe(1 << 16);
        let server = Server::new(self.server.clone()).unwrap();
        let client = Client::new(self.client.clone()).unwrap();
        shake_hands(
            client.connect(Box::new(ours)).unwrap(),
            server.accept(Box::new(theirs)).unwrap(),
        )
    }

    /// Returns the error of each side after an attempt to connect; an empty text means no error.
    fn fails(&self) -> [String; 2] {
        let (client, server) = self.meet();
        [client, server].map(|side| side.err().map_or_else(String::new, |e| e.to_string()))
    }

    #[track_caller]
    fn assert_fails(&self, client: &str, server: &str) {
        let [of_client, of_server] = self.fails();
        assert!(of_client.contains(client), "{of_client}");
        assert!(of_server.contains(server), "{of_server}");
        assert!(!(of_client.is_empty() && of_server.is_empty()), "it was accepted");
    }
}

fn pair(signed: &Signed) -> (std::path::PathBuf, std::path::PathBuf) {
    (signed.certificate.clone(), signed.key.clone())
}

/// Lets both sides read until both have finished the handshake, and once more. With TLS 1.3, a
/// client finishes before the server has checked the client's certificate.
fn shake_hands(
    mut client: TlsStream,
    mut server: TlsStream,
) -> (io::Result<TlsStream>, io::Result<TlsStream>) {
    let mut ended: [Option<io::Error>; 2] = [None, None];
    for _ in 0..20 {
        for (side, ended) in [&mut client, &mut server].into_iter().zip(&mut ended) {
            match side.read(&mut [0; 1]) {
                Ok(_) => *ended = Some(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => *ended = ended.take().or(Some(error)),
            }
        }
    }
    let [of_client, of_server] = ended;
    if of_client.is_none() && of_server.is_none() {
        assert!(!client.is_handshaking() && !server.is_handshaking(), "a handshake hangs");
    }
    (of_client.map_or(Ok(client), Err), of_server.map_or(Ok(server), Err))
}

#[test]
fn laws() {
    let firm = Firm::new();
    let server = Server::new(firm.server.clone()).unwrap();
    let client = Client::new(firm.client.clone()).unwrap();
    for capacity in [64, 1_000, 1 << 16] {
        stream_laws(|| {
            let (ours, theirs) = memory::pipe(capacity);
            let (a, b) = shake_hands_of_any_length(
                client.connect(Box::new(ours)).unwrap(),
                server.accept(Box::new(theirs)).unwrap(),
            );
            (Box::new(a) as Box<dyn Stream>, Box::new(b) as Box<dyn Stream>)
        });
    }
}

/// Performs the handshake over a pipe with little room, which takes many rounds.
fn shake_hands_of_any_length(mut a: TlsStream, mut b: TlsStream) -> (TlsStream, TlsStream) {
    for _ in 0..1_000 {
        for side in [&mut a, &mut b] {
            let error = side.read(&mut [0; 1]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
        }
    }
    assert!(!a.is_handshaking() && !b.is_handshaking());
    (a, b)
}

#[test]
fn a_read_that_is_short_has_taken_all() {
    let (client, server) = Firm::new().meet();
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    // The number of bytes exceeds one TLS record, and the amount that rustls decrypts at once.
    let sent = vec![7; 50_000];
    let mut written = 0;
    let mut taken = 0;
    let mut buf = vec![0; 4_000];
    while written < sent.len() {
        written += client.write(&sent[written..]).unwrap_or(0);
        loop {
            match server.read(&mut buf) {
                Ok(n) => {
                    taken += n;
                    if n < buf.len() {
                        break;
                    }
                }
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        let error = server.read(&mut buf).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "a short read left something behind");
    }
    assert_eq!(taken, sent.len());
}

#[test]
fn both_sides_know_who_the_other_is() {
    let mut firm = Firm::new();
    firm.knows_clients(Clients::MustShow);
    let own = firm.authority.sign(&["client.example"], 2, Valid::Now);
    firm.client.files.certificates = vec![pair(&own)];
    let (client, server) = firm.meet();
    let (client, server) = (client.unwrap(), server.unwrap());
    let protocol = client.protocol().unwrap();
    assert!(protocol.starts_with("TLS 1.3, TLS13_"), "{protocol}");
    let shown = server.peer_certificate().unwrap();
    assert_eq!(
        (&*shown.subject, &shown.names[..1]),
        ("CN=client.example", &["client.example".into()][..])
    );
    assert!(shown.is("CLIENT.example") && !shown.is("client"));
    assert!(shown.is(&format!("sha256:{}", shown.sha256.to_uppercase())));
    let venue = client.peer_certificate().unwrap();
    assert_eq!(venue.names, ["venue.example", "10.0.0.1", "venue.example"]);
    // The fingerprint equals the SHA-256 of the certificate, as other tools show it.
    let der = pem_to_der(&fs::read_to_string(&own.certificate).unwrap());
    let digits: String = Sha256::digest(der).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(shown.sha256, digits);
}

fn pem_to_der(pem: &str) -> Vec<u8> {
    let digits: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let value = |c: u8| match c {
        b'A'..=b'Z' => u32::from(c - b'A'),
        b'a'..=b'z' => u32::from(c - b'a') + 26,
        b'0'..=b'9' => u32::from(c - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let bytes = digits.bytes().filter(|c| *c != b'=').collect::<Vec<_>>();
    let mut der = Vec::new();
    for four in bytes.chunks(4) {
        let bits = four.iter().fold(0, |all, c| all << 6 | value(*c)) << (6 * (4 - four.len()));
        der.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    der
}

#[test]
fn a_wrong_certificate_is_refused_in_words_on_both_sides() {
    let mut firm = Firm::new();
    firm.client.server_name = "other.example".to_owned();
    firm.assert_fails(
        "is for another host: expected other.example (tls.server_name, or the host of the \
         address), found",
        "does not accept our certificate",
    );
    firm.client.checks_name = false;
    assert_eq!(firm.fails(), ["", ""]);
    firm.client.peers = vec!["someone.example".to_owned()];
    firm.assert_fails(
        "matches none of the expected certificates (tls.peer)",
        "refused the connection",
    );
    firm.client.peers = vec!["venue.example".to_owned()];
    assert_eq!(firm.fails(), ["", ""]);

    let mut firm = Firm::new();
    let old = firm.authority.sign(&["venue.example"], 3, Valid::Before);
    firm.server.files.certificates = vec![pair(&old)];
    firm.assert_fails("has expired", "our certificate has expired");
    let later = firm.authority.sign(&["venue.example"], 4, Valid::Later);
    firm.server.files.certificates = vec![pair(&later)];
    firm.assert_fails("is not valid yet", "refused the connection");

    let mut firm = Firm::new();
    let other = Authority::new(firm.dir.path(), "other");
    firm.client.files.ca = vec![other.ca];
    firm.assert_fails(
        "not signed by a trusted authority",
        "does not trust the authority that signed",
    );
}

#[test]
fn a_client_shows_what_is_required_of_it() {
    let mut firm = Firm::new();
    firm.knows_clients(Clients::MustShow);
    firm.assert_fails(
        "the counterparty requires one",
        "the counterparty presented no certificate, but tls.client_certificate requires one",
    );
    firm.server.clients = Clients::MayShow;
    assert_eq!(firm.fails(), ["", ""]);
    let other = Authority::new(firm.dir.path(), "other").sign(&["client"], 5, Valid::Now);
    firm.client.files.certificates = vec![pair(&other)];
    firm.assert_fails("refused the connection", "not signed by a trusted authority");

    firm.server.clients = Clients::MustShow;
    let own = firm.authority.sign(&["client"], 6, Valid::Now);
    firm.client.files.certificates = vec![pair(&own)];
    assert_eq!(firm.fails(), ["", ""]);
    firm.server.files.crl = vec![firm.authority.revoke(&[&own])];
    firm.assert_fails("our certificate was revoked", "certificate was revoked");
}

#[test]
fn what_has_come_is_read_though_nothing_can_be_sent_any_more() {
    let firm = Firm::new();
    let server = Server::new(firm.server.clone()).unwrap();
    let client = Client::new(firm.client.clone()).unwrap();
    let (ours, theirs) = memory::pipe(1_000);
    let (mut client, mut server) = shake_hands_of_any_length(
        client.connect(Box::new(ours)).unwrap(),
        server.accept(Box::new(theirs)).unwrap(),
    );
    let error = server.write(&[7; 10_000]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    client.write(b"last").unwrap();
    drop(client);
    let mut buf = [0; 64];
    assert_eq!(server.read(&mut buf).unwrap(), 4);
    assert_eq!(&buf[..4], b"last");
    assert_eq!(server.read(&mut buf).unwrap(), 0);
    assert_eq!(server.write(&[7; 10_000]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn the_name_asked_for_picks_the_certificate() {
    let mut firm = Firm::new();
    let second = firm.authority.sign(&["*.second.example"], 7, Valid::Now);
    firm.server.files.certificates.push(pair(&second));
    for (name, subject) in
        [("fix.second.example", "CN=*.second.example"), ("venue.example", "CN=venue.example")]
    {
        firm.client.server_name = name.to_owned();
        let (client, server) = firm.meet();
        server.unwrap();
        assert_eq!(client.unwrap().peer_certificate().unwrap().subject, subject);
    }
}

#[test]
fn who_speaks_no_tls_is_told_from_who_does() {
    let firm = Firm::new();
    let (mut ours, theirs) = memory::pipe(1 << 16);
    let server = Server::new(firm.server.clone()).unwrap();
    let mut stream = server.accept(Box::new(theirs)).unwrap();
    ours.write(b"8=FIX.4.4\x019=5\x0135=0\x0110=000\x01").unwrap();
    let error = stream.read(&mut [0; 64]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert_eq!(error.to_string(), "the counterparty sends plain text instead of TLS");
    // The peer receives an alert (RFC 8446 section 6) and the end of the connection.
    let mut told = [0; 64];
    assert!(ours.read(&mut told).unwrap() >= 7 && told[0] == 21, "{told:?}");
    assert_eq!(ours.read(&mut told).unwrap(), 0);
    // Each further read returns the same error.
    assert_eq!(stream.read(&mut [0; 64]).unwrap_err().to_string(), error.to_string());
    assert_eq!(stream.write(b"8=FIX").unwrap_err().to_string(), error.to_string());

    // The counterparty disconnects during the handshake.
    let (ours, theirs) = memory::pipe(1 << 16);
    let mut stream = server.accept(Box::new(theirs)).unwrap();
    drop(ours);
    let error = stream.read(&mut [0; 64]).unwrap_err();
    assert!(error.to_string().contains("closed the connection during the TLS handshake"));
}

#[test]
fn records_without_end_and_without_a_byte_are_refused() {
    let firm = Firm::new();
    let (mut ours, theirs) = memory::pipe(1 << 20);
    let server = Server::new(firm.server.clone()).unwrap();
    let mut stream = server.accept(Box::new(theirs)).unwrap();
    // A TLS 1.3 client may send this dummy record, but only once (RFC 8446 appendix D.4).
    let dummy = [20, 3, 3, 0, 1, 1];
    ours.write(&dummy.repeat(100_000)).unwrap();
    let error = stream.read(&mut [0; 64]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
}

#[test]
fn changed_bytes_are_not_taken() {
    struct Flip(memory::MemoryStream, bool);
    impl Stream for Flip {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = self.0.read(buf)?;
            if self.1 && n > 0 {
                buf[n - 1] ^= 1;
            }
            Ok(n)
        }
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 |= bytes.first() == Some(&0);
            self.0.write(bytes)
        }
        fn register(
            &mut self,
            _: transfix_transport::Registry<'_>,
            _: transfix_transport::Token,
            _: transfix_transport::Interest,
        ) -> io::Result<()> {
            Ok(())
        }
        fn reregister(
            &mut self,
            _: transfix_transport::Registry<'_>,
            _: transfix_transport::Token,
            _: transfix_transport::Interest,
        ) -> io::Result<()> {
            Ok(())
        }
        fn deregister(&mut self, _: transfix_transport::Registry<'_>) -> io::Result<()> {
            Ok(())
        }
        fn peer_addr(&self) -> Option<std::net::SocketAddr> {
            None
        }
        fn shutdown(&mut self) -> io::Result<()> {
            self.0.shutdown()
        }
    }
    let firm = Firm::new();
    let (ours, theirs) = memory::pipe(1 << 16);
    let client = Client::new(firm.client.clone()).unwrap();
    let server = Server::new(firm.server.clone()).unwrap();
    let server = server.accept(Box::new(Flip(theirs, true))).unwrap();
    let (_, server) = shake_hands(client.connect(Box::new(ours)).unwrap(), server);
    assert_eq!(server.unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[test]
fn files_are_read_again_once_they_have_changed() {
    let mut firm = Firm::new();
    let server = Server::new(firm.server.clone()).unwrap();
    assert_eq!(server.renew(), None);
    let serial = |server: &Server| server.certificates()[0].1.sha256.clone();
    let before = serial(&server);
    let (certificate, key) = firm.server.files.certificates.remove(0);
    let whole = fs::read(&certificate).unwrap();
    fs::write(&certificate, b"half of a certific").unwrap();
    let error = server.renew().unwrap().unwrap_err().to_string();
    assert!(error.contains("the file contains no certificate in PEM format"), "{error}");
    assert_eq!((server.renew(), serial(&server)), (None, before.clone()), "the old one stays");
    let next = firm.authority.sign(&["venue.example"], 8, Valid::Now);
    fs::copy(&next.certificate, &certificate).unwrap();
    let error = server.renew().unwrap().unwrap_err().to_string();
    assert!(error.ends_with("the certificate and the key do not belong together"), "{error}");
    fs::copy(&next.key, &key).unwrap();
    assert_eq!(server.renew(), Some(Ok(())));
    assert_ne!(serial(&server), before);
    drop(whole);
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let firm = Firm::new();
    let refused = |change: &dyn Fn(&mut ServerOptions)| {
        let mut options = firm.server.clone();
        change(&mut options);
        Server::new(options).unwrap_err().to_string()
    };
    let error = refused(&|options| options.files = TlsFiles::default());
    assert_eq!(error, "a TLS server needs a certificate and its key");
    let error = refused(&|options| options.files.certificates[0].0 = "nowhere.pem".into());
    assert!(error.starts_with("nowhere.pem: "), "{error}");
    let empty = firm.dir.path().join("empty.pem");
    fs::write(&empty, "").unwrap();
    let error = refused(&|options| options.files.certificates[0].1.clone_from(&empty));
    assert!(error.contains("empty.pem: "), "{error}");
    let error = refused(&|options| {
        options.clients = Clients::MustShow;
        options.files.ca = vec![firm.authority.ca.clone()];
        options.files.crl = vec![empty.clone()];
    });
    assert!(error.contains("empty.pem: the file contains no revocation list"), "{error}");
    let error = Client::new(ClientOptions {
        server_name: "not a name".to_owned(),
        files: firm.client.files.clone(),
        ..ClientOptions::default()
    });
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "`not a name` is neither a host name nor an IP address");
}

#[test]
fn a_file_in_another_form_is_told_with_the_command_that_converts_it() {
    let firm = Firm::new();
    let (certificate, key) = firm.server.files.certificates[0].clone();
    let refused = |place: Place, name: &str, bytes: &[u8]| {
        let file = firm.dir.path().join(name);
        fs::write(&file, bytes).unwrap();
        let mut options = firm.server.clone();
        options.clients = Clients::MustShow;
        options.files.ca = vec![firm.authority.ca.clone()];
        match place {
            Place::Certificate => options.files.certificates[0].0.clone_from(&file),
            Place::Key => options.files.certificates[0].1.clone_from(&file),
            Place::Ca => options.files.ca = vec![file.clone()],
            Place::Crl => options.files.crl = vec![file.clone()],
        }
        let error = Server::new(options).unwrap_err().to_string();
        let told = error.strip_prefix(&format!("{}: ", file.display())).unwrap_or(&error);
        told.replace(&file.display().to_string(), "IT")
    };
    let der = pem_to_der(&fs::read_to_string(&certificate).unwrap());
    let pem = fs::read_to_string(&key).unwrap();
    let locked = pem.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let cut = &pem.as_bytes()[..pem.len() - 10];
    let junk = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let odd = b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n";
    let jks = [0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2];
    for (place, name, bytes, expected) in [
        (
            Place::Certificate,
            "own.PFX",
            &*der,
            "the file contains no certificate in PEM format; the file is a PKCS #12 key store: \
             `openssl pkcs12 -in IT -nokeys -out FILE.pem` makes a readable certificate file, \
             and `openssl pkcs12 -in IT -nocerts -nodes -out FILE.key` makes the key file",
        ),
        (
            Place::Certificate,
            "own.jks",
            &jks,
            "the file is a Java key store: run `keytool \
            -importkeys",
        ),
        (Place::Ca, "trust.jks", &der, "a PKCS #12 key store: `openssl pkcs12"),
        (Place::Key, "own.p12", &der, "PKCS #12 key store: `openssl pkcs12 -in IT -nocerts -nodes"),
        (
            Place::Ca,
            "ca.cer",
            &der,
            "seems to be in DER format: `openssl x509 -inform DER -in IT -out",
        ),
        (Place::Key, "own.der", &der, "seems to be in DER format: `openssl pkey -inform DER"),
        (Place::Crl, "a.crl", &der, "seems to be in DER format: `openssl crl -inform DER"),
        (Place::Key, "own.key", locked.as_bytes(), "the key has a password: `openssl pkey -in IT"),
        (Place::Key, "cut.key", cut, "has no end line: the file is truncated"),
        (Place::Ca, "junk.pem", junk, "its bytes are damaged"),
        (Place::Crl, "odd.crl", odd, "tls.crl: a revocation list is not usable: "),
        (
            Place::Certificate,
            "other.pem",
            b"hello",
            "the file contains no certificate in PEM \
            format",
        ),
    ] {
        let told = refused(place, name, bytes);
        assert!(told.contains(expected), "{name}: {told}");
        assert!(!told.contains('"') && !told.contains("[45"), "{name}: {told}");
    }
}

/// A file in the options of client or server.
#[derive(Clone, Copy)]
enum Place {
    Certificate,
    Key,
    Ca,
    Crl,
}

/// A client and a server that authenticate each other, for several connections.
struct Sides {
    firm: Firm,
    server: Server,
    client: Client,
    /// The time that both sides use, in seconds of Unix time.
    now_s: Arc<AtomicU64>,
}

const NOW_S: u64 = 1_800_000_000;

impl Sides {
    fn new(of_client: Valid) -> Self {
        let mut firm = Firm::new();
        firm.knows_clients(Clients::MustShow);
        let own = firm.authority.sign(&["client.example"], 2, of_client);
        firm.client.files.certificates = vec![pair(&own)];
        let now_s = Arc::new(AtomicU64::new(NOW_S));
        let server = Server::with_clock(firm.server.clone(), clock(&now_s)).unwrap();
        let client = Client::with_clock(firm.client.clone(), clock(&now_s)).unwrap();
        Self { firm, server, client, now_s }
    }

    /// Connects once. Returns true if both sides have resumed an earlier TLS session, or the error
    /// of each side.
    fn meet(&self, client: &Client) -> Result<bool, [String; 2]> {
        let (ours, theirs) = memory::pipe(1 << 16);
        let client = client.connect(Box::new(ours)).unwrap();
        let server = self.server.accept(Box::new(theirs)).unwrap();
        match shake_hands(client, server) {
            (Ok(client), Ok(server)) => {
                assert_eq!(client.is_resumed(), server.is_resumed());
                assert_eq!(server.peer_certificate().unwrap().names[0], "client.example");
                assert_eq!(client.peer_certificate().unwrap().names[0], "venue.example");
                Ok(server.is_resumed())
            }
            (client, server) => {
                let text = |result: io::Result<TlsStream>| {
                    result.err().map_or_else(String::new, |error| error.to_string())
                };
                Err([text(client), text(server)])
            }
        }
    }
}

fn clock(now_s: &Arc<AtomicU64>) -> Clock {
    let now_s = Arc::clone(now_s);
    Clock::of(move || now_s.load(Ordering::Relaxed))
}

#[test]
fn the_next_connection_resumes_and_the_counterparty_is_known_all_the_same() {
    let sides = Sides::new(Valid::Now);
    let all: Vec<_> = (0..4).map(|_| sides.meet(&sides.client)).collect();
    assert_eq!(all, [Ok(false), Ok(true), Ok(true), Ok(true)]);
    // A new client has no TLS session to resume, whether it uses the same files or others.
    let same = Client::with_clock(sides.firm.client.clone(), clock(&sides.now_s)).unwrap();
    assert_eq!(sides.meet(&same), Ok(false));
    let own = sides.firm.authority.sign(&["client.example"], 3, Valid::Now);
    let mut options = sides.firm.client.clone();
    options.files.certificates = vec![pair(&own)];
    let other = Client::with_clock(options, clock(&sides.now_s)).unwrap();
    assert_eq!(sides.meet(&other), Ok(false));
}

#[test]
fn nothing_is_resumed_once_a_file_of_either_side_has_changed() {
    let sides = Sides::new(Valid::Now);
    assert_eq!([sides.meet(&sides.client), sides.meet(&sides.client)], [Ok(false), Ok(true)]);
    for (n, files) in [&sides.firm.server.files, &sides.firm.client.files].into_iter().enumerate() {
        let (certificate, key) = &files.certificates[0];
        let name = ["venue.example", "client.example"][n];
        let next = sides.firm.authority.sign(&[name], 20 + n as u64, Valid::Now);
        fs::copy(&next.certificate, certificate).unwrap();
        fs::copy(&next.key, key).unwrap();
        let renewed = [sides.server.renew(), sides.client.renew()];
        assert_eq!(renewed[n], Some(Ok(())));
        assert_eq!([sides.meet(&sides.client), sides.meet(&sides.client)], [Ok(false), Ok(true)]);
    }
}

#[test]
fn a_file_in_the_place_of_another_is_seen_though_time_and_length_are_the_same() {
    let sides = Sides::new(Valid::Now);
    let (certificate, _) = &sides.firm.server.files.certificates[0];
    let was = fs::metadata(certificate).unwrap();
    let copy = certificate.with_extension("copy");
    fs::copy(certificate, &copy).unwrap();
    let file = fs::File::options().write(true).open(&copy).unwrap();
    file.set_modified(was.modified().unwrap()).unwrap();
    fs::rename(&copy, certificate).unwrap();
    assert_eq!(fs::metadata(certificate).unwrap().modified().unwrap(), was.modified().unwrap());
    assert_eq!(sides.server.renew(), Some(Ok(())));
    assert_eq!(sides.server.renew(), None);
}

#[test]
fn what_the_new_files_refuse_no_old_ticket_opens() {
    let mut sides = Sides::new(Valid::Now);
    assert_eq!([sides.meet(&sides.client), sides.meet(&sides.client)], [Ok(false), Ok(true)]);
    // The server no longer trusts the authority of the client's certificate.
    let other = Authority::new(sides.firm.dir.path(), "other");
    fs::copy(&other.ca, &sides.firm.server.files.ca[0]).unwrap();
    assert_eq!(sides.server.renew(), Some(Ok(())));
    let [_, at_server] = sides.meet(&sides.client).unwrap_err();
    assert!(at_server.contains("not signed by a trusted authority"), "{at_server}");

    // The client's certificate is revoked.
    sides = Sides::new(Valid::Now);
    sides.firm.server.files.crl = vec![sides.firm.authority.revoke(&[])];
    sides.server = Server::with_clock(sides.firm.server.clone(), clock(&sides.now_s)).unwrap();
    assert_eq!([sides.meet(&sides.client), sides.meet(&sides.client)], [Ok(false), Ok(true)]);
    let own = sides.firm.authority.sign(&["client.example"], 2, Valid::Now);
    let _same_file = sides.firm.authority.revoke(&[&own]);
    assert_eq!(sides.server.renew(), Some(Ok(())));
    let [_, at_server] = sides.meet(&sides.client).unwrap_err();
    assert!(at_server.contains("certificate was revoked"), "{at_server}");
}

#[test]
fn a_certificate_that_has_ended_is_resumed_no_more() {
    let sides = Sides::new(Valid::Until(NOW_S + 3_600));
    assert_eq!([sides.meet(&sides.client), sides.meet(&sides.client)], [Ok(false), Ok(true)]);
    sides.now_s.store(NOW_S + 3_600, Ordering::Relaxed);
    assert_eq!(sides.meet(&sides.client), Ok(true), "its last second");
    sides.now_s.fetch_add(1, Ordering::Relaxed);
    let [at_client, at_server] = sides.meet(&sides.client).unwrap_err();
    assert!(at_server.contains("certificate has expired"), "{at_server}");
    assert!(!at_client.is_empty());
}
