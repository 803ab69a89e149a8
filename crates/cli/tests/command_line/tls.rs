//! `transfix tls check`, against `openssl s_server`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use transfix_testkit::certificates::{Authority, Signed, Valid};
use transfix_testkit::temp::TempDir;

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(own: &Signed, more: &[&str]) -> Self {
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
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Exit code and output of a look at a server.
fn check(server: &Server, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transfix"));
    command.args(["tls", "check", &server.address, "--timeout", "30"]).args(args);
    let output = command.output().unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_chain_is_explained_and_so_is_what_is_wrong() {
    let dir = TempDir::new();
    let authority = Authority::new(dir.path(), "authority");
    let ca = authority.ca.to_str().unwrap().to_owned();
    let own = authority.sign(&["venue.example"], 1, Valid::Now);
    let trusted = ["--ca", &ca, "--server-name", "venue.example"];

    let (code, out, why) = check(&Server::start(&own, &[]), &trusted);
    assert_eq!(code, 0, "{out}{why}");
    for line in
        ["TLS 1.3, TLS13_", "1. CN=venue.example", "signed by    CN=authority", "A session would"]
    {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert!(out.contains("valid        20200101-00:00:00 to a time after 2262 ("), "{out}");

    let (code, out, why) = check(&Server::start(&own, &[]), &["--ca", &ca]);
    assert_eq!(code, 1);
    assert!(out.contains("1. CN=venue.example"), "the chain is shown all the same: {out}");
    assert!(why.contains("is for another host: 127.0.0.1 is wanted"), "{why}");
    assert!(why.ends_with("and it has venue.example\n"), "{why}");

    let old = authority.sign(&["venue.example"], 2, Valid::Before);
    let (code, out, why) = check(&Server::start(&old, &[]), &trusted);
    assert_eq!(code, 1);
    assert!(out.contains("(expired)"), "{out}");
    assert!(why.contains("has expired"), "{why}");

    let (certificate, key) = (dir.path().join("self.pem"), dir.path().join("self.key"));
    let mut made = Command::new("openssl");
    made.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=venue.example"]);
    made.args(["-addext", "subjectAltName=DNS:venue.example"]).stderr(Stdio::null());
    assert!(
        made.arg("-keyout").arg(&key).arg("-out").arg(&certificate).status().unwrap().success()
    );
    let itself = ["--ca", certificate.to_str().unwrap(), "--server-name", "venue.example"];
    let own_authority = own.with(&certificate, &key);
    let (code, _, why) = check(&Server::start(&own_authority, &[]), &itself);
    assert_eq!(code, 1);
    assert!(
        why.contains("is that of an authority (CA:TRUE), such as `openssl req -x509`"),
        "{why}"
    );

    let asks = ["-Verify", "1", "-verify_return_error", "-CAfile", &ca];
    let (code, _, why) = check(&Server::start(&own, &asks), &trusted);
    assert_eq!(code, 1, "{why}");
    assert!(why.contains("it requires a certificate, and none is shown"), "{why}");

    let (code, _, why) = check(
        &Server::start(&own, &["-tls1_2"]),
        &[&trusted[..], &["--min-version", "1.3"]].concat(),
    );
    assert_eq!(code, 1, "{why}");
    assert!(why.contains("it allows no version of TLS that is offered here"), "{why}");
}

#[test]
fn an_address_is_host_and_port() {
    for (address, expected) in [
        ("venue.example", "it has no port; write host:port, such as venue.example:4001"),
        (":4001", "it has no host; write host:port, such as localhost:4001"),
        ("venue.example:", "a port is 1 to 65535, not ``"),
        ("venue.example:70000", "a port is 1 to 65535, not `70000`"),
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
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
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
    assert!(why.contains("the counterparty speaks plain text where TLS is expected"), "{why}");
}
