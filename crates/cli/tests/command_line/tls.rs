//! `transfix tls check` against servers that use rustls and `openssl s_server`.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use transfix_testkit::certificates::{Authority, Signed, Valid};
use transfix_testkit::temp::TempDir;
use transfix_testkit::tls::{self, TLS12, TLS12_AND_13, Versions};

/// The behavior of a test server in addition to presenting its certificate.
#[derive(Clone, Copy)]
enum Does<'a> {
    Nothing,
    /// The server requires a client certificate that the authority in this file has signed.
    Ask(&'a str),
    /// The server supports no version later than TLS 1.2.
    Tls12,
}

/// A function that starts a server for one connection. Returns the address, and a guard that keeps
/// the server running.
type Start = fn(&Signed, Does<'_>) -> (String, Option<OpenSsl>);

fn rustls(own: &Signed, does: Does<'_>) -> (String, Option<OpenSsl>) {
    let (ca, versions): (Option<&Path>, Versions) = match does {
        Does::Nothing => (None, TLS12_AND_13),
        Does::Ask(ca) => (Some(ca.as_ref()), TLS12_AND_13),
        Does::Tls12 => (None, TLS12),
    };
    let config = tls::server(own, ca, versions);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let mut stream = tls::accept(&config, listener.accept().unwrap().0);
        // The read may fail, because the client may refuse the certificate.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    (address, None)
}

fn openssl(own: &Signed, does: Does<'_>) -> (String, Option<OpenSsl>) {
    let more = match does {
        Does::Nothing => vec![],
        Does::Ask(ca) => vec!["-Verify", "1", "-verify_return_error", "-CAfile", ca],
        Does::Tls12 => vec!["-tls1_2"],
    };
    let mut command = Command::new("openssl");
    command.args(["s_server", "-accept", "127.0.0.1:0", "-naccept", "1", "-cert"]);
    command.arg(&own.certificate).arg("-key").arg(&own.key).args(more);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = loop {
        let line = lines.next().unwrap().unwrap();
        if let Some(address) = line.strip_prefix("ACCEPT ") {
            break address.to_owned();
        }
    };
    thread::spawn(move || lines.for_each(drop));
    (address, Some(OpenSsl(child)))
}

struct OpenSsl(Child);

impl Drop for OpenSsl {
    fn drop(&mut self) {
        // The signal may fail, because the server may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Creates a self-signed CA certificate, like `openssl req -x509` does for a server.
fn self_signed(dir: &Path) -> (PathBuf, PathBuf) {
    let (certificate, key) = (dir.join("self.pem"), dir.join("self.key"));
    let mut made = Command::new("openssl");
    made.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=venue.example"]);
    made.args(["-addext", "subjectAltName=DNS:venue.example"]).stderr(Stdio::null());
    let status = made.arg("-keyout").arg(&key).arg("-out").arg(&certificate).status().unwrap();
    assert!(status.success());
    (certificate, key)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Runs `transfix tls check` against the server. Returns the exit code, standard output and
/// standard error.
fn check((address, _server): (String, Option<OpenSsl>), args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transfix"));
    command.args(["tls", "check", &address, "--timeout", "30"]).args(args);
    let output = command.output().unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_chain_is_explained_and_so_is_what_is_wrong() {
    let dir = TempDir::new();
    let authority = Authority::new(dir.path(), "authority");
    explains_what_is_wrong(rustls, &authority, &authority.itself());
}

#[test]
#[ignore = "needs openssl: cargo xtask peers programs"]
fn a_chain_of_openssl_is_explained() {
    let dir = TempDir::new();
    let authority = Authority::new(dir.path(), "authority");
    let (certificate, key) = self_signed(dir.path());
    let itself = authority.itself().with(&certificate, &key);
    explains_what_is_wrong(openssl, &authority, &itself);
}

/// Checks that each TLS failure is explained. `itself` is a self-signed certificate that may sign
/// other certificates.
fn explains_what_is_wrong(start: Start, authority: &Authority, itself: &Signed) {
    let ca = authority.ca.to_str().unwrap().to_owned();
    let own = authority.sign(&["venue.example"], 1, Valid::Now);
    let trusted = ["--ca", &ca, "--server-name", "venue.example"];

    let (code, out, why) = check(start(&own, Does::Nothing), &trusted);
    assert_eq!(code, 0, "{out}{why}");
    for line in [
        "TLS 1.3, TLS13_",
        "1. CN=venue.example",
        "signed by    CN=authority",
        "The connection of a session would",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert!(out.contains("valid        20200101-00:00:00 to a time after 2262 ("), "{out}");

    let (code, out, why) = check(start(&own, Does::Nothing), &["--ca", &ca]);
    assert_eq!(code, 1);
    assert!(out.contains("1. CN=venue.example"), "the chain is shown all the same: {out}");
    assert!(why.contains("is for another host: expected 127.0.0.1"), "{why}");
    assert!(why.ends_with("found venue.example\n"), "{why}");

    let old = authority.sign(&["venue.example"], 2, Valid::Before);
    let (code, out, why) = check(start(&old, Does::Nothing), &trusted);
    assert_eq!(code, 1);
    assert!(out.contains("(expired)"), "{out}");
    assert!(why.contains("has expired"), "{why}");

    let trusts_it =
        ["--ca", itself.certificate.to_str().unwrap(), "--server-name", "venue.example"];
    let (code, _, why) = check(start(itself, Does::Nothing), &trusts_it);
    assert_eq!(code, 1);
    assert!(
        why.contains("belongs to an authority (CA:TRUE), such as `openssl req -x509`"),
        "{why}"
    );

    let (code, _, why) = check(start(&own, Does::Ask(&ca)), &trusted);
    assert_eq!(code, 1, "{why}");
    assert!(
        why.contains("we presented no certificate, but the counterparty requires one"),
        "{why}"
    );

    let newer = [&trusted[..], &["--min-version", "1.3"]].concat();
    let (code, _, why) = check(start(&own, Does::Tls12), &newer);
    assert_eq!(code, 1, "{why}");
    assert!(why.contains("the counterparty allows no TLS version that we offer"), "{why}");
}

#[test]
fn an_address_is_host_and_port() {
    for (address, expected) in [
        ("venue.example", "the address has no port; write host:port, such as venue.example:4001"),
        (":4001", "the address has no host; write host:port, such as localhost:4001"),
        ("venue.example:", "the port must be 1 to 65535, not ``"),
        ("venue.example:70000", "the port must be 1 to 65535, not `70000`"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transfix"));
        let output = command.args(["tls", "check", address]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{address}");
        let why = text(output.stderr);
        assert!(why.contains(expected), "{address}: {why}");
    }
}

#[test]
fn a_host_that_cannot_be_reached_is_named() {
    let dir = TempDir::new();
    let ca = Authority::new(dir.path(), "authority").ca;
    for (address, expected) in [
        ("nohost.invalid:1", "nohost.invalid:1: failed to look"),
        ("127.0.0.1:1", "127.0.0.1:1: Connection refused"),
        ("localhost:1", "localhost:1 ("),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transfix"));
        let output = command.args(["tls", "check", address, "--ca"]).arg(&ca).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{address}");
        let why = text(output.stderr);
        assert!(why.starts_with(&format!("transfix: {expected}")), "{address}: {why}");
    }
}

#[test]
fn a_port_without_tls_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answering = thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        stream.write_all(b"8=FIX.4.4\x019=5\x0135=5\x0110=175\x01").unwrap();
    });
    let dir = TempDir::new();
    let ca = Authority::new(dir.path(), "authority").ca;
    let mut command = Command::new(env!("CARGO_BIN_EXE_transfix"));
    command.args(["tls", "check", &address, "--ca"]).arg(&ca);
    let output = command.output().unwrap();
    answering.join().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let why = text(output.stderr);
    assert!(why.contains("the counterparty sends plain text instead of TLS"), "{why}");
}
