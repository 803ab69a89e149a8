//! Tests the administration over HTTPS.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use transfix_testkit::certificates::{Authority, Valid};
use transfix_testkit::tls::{TLS12_AND_13, client, connect};

use crate::http;
use crate::market::Market;

/// Requests a page of `https://localhost` with a token. Returns `None` if the authority `ca` has
/// not signed the server's certificate.
type Get = fn(market: &Market, ca: &Path, path: &str) -> Option<String>;

fn by_rustls(market: &Market, ca: &Path, path: &str) -> Option<String> {
    let client = client(ca, None, TLS12_AND_13);
    let mut stream = connect(&client, market.server.address(), "localhost");
    let request = market.viewer().request("GET", path, "");
    stream.write_all(request.as_bytes()).ok()?;
    let answer = http::answer(&mut stream);
    (answer.status == 200).then_some(answer.body)
}

fn by_curl(market: &Market, ca: &Path, path: &str) -> Option<String> {
    let port = market.server.address().port();
    let out = Command::new("curl")
        .args(["--silent", "--fail", "--cacert"])
        .arg(ca)
        .args(["--resolve", &format!("localhost:{port}:127.0.0.1")])
        .args(["--header", &format!("Authorization: Bearer {}", market.tokens[0])])
        .arg(format!("https://localhost:{port}{path}"))
        .stdin(Stdio::null())
        .output()
        .expect("curl; Debian's package curl has it");
    out.status.success().then(|| String::from_utf8(out.stdout).unwrap())
}

#[test]
fn a_browser_is_served_by_tls() {
    is_served_by_tls(by_rustls);
}

#[test]
#[ignore = "needs curl: cargo xtask peers programs"]
fn curl_is_served_by_tls() {
    is_served_by_tls(by_curl);
}

fn is_served_by_tls(get: Get) {
    let mut authority = None;
    let market = Market::with(|admin, dir| {
        let made = Authority::new(dir, "authority");
        let signed = made.sign(&["localhost"], 1, Valid::Now);
        admin.certificate = signed.certificate.clone();
        admin.key = signed.key.clone();
        authority = Some(made);
    });
    assert!(market.server.url().starts_with("https://127.0.0.1:"));
    let text = get(&market, &authority.unwrap().ca, "/api/me").expect("an answer");
    assert!(text.contains("\"name\":\"viewer-program\""), "{text}");
    // A request without TLS receives no answer and does not disturb other clients.
    let mut plain = TcpStream::connect(market.server.address()).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

/// Returns true if a client that trusts only the authority `ca` can connect.
fn is_trusted(market: &Market, ca: &Path) -> bool {
    by_rustls(market, ca, "/health/live").is_some()
}

#[test]
fn a_new_certificate_is_shown_when_it_is_read_again() {
    let (mut ca, mut shown) = (None, None);
    let market = Market::with(|admin, dir| {
        let made = Authority::new(dir, "authority");
        let signed = made.sign(&["localhost"], 1, Valid::Now);
        admin.certificate = dir.join("shown.pem");
        admin.key = dir.join("shown.key");
        fs::copy(&signed.certificate, &admin.certificate).unwrap();
        fs::copy(&signed.key, &admin.key).unwrap();
        (ca, shown) = (Some(made.ca), Some((admin.certificate.clone(), admin.key.clone())));
    });
    let (ca, (certificate, key)) = (ca.unwrap(), shown.unwrap());
    assert!(market.server.read_certificate().unwrap().is_none(), "it is the same");
    assert!(is_trusted(&market, &ca));
    let dir = market.dir.path().join("other");
    fs::create_dir(&dir).unwrap();
    let other = Authority::new(&dir, "other");
    let signed = other.sign(&["localhost"], 2, Valid::Now);
    // The key file still belongs to the old certificate, so the new pair is refused.
    fs::copy(&signed.certificate, &certificate).unwrap();
    let why = market.server.read_certificate().unwrap_err().to_string();
    assert!(
        why.starts_with("administration: the administration keeps its old certificate: "),
        "{why}"
    );
    assert!(why.contains("shown.pem"), "{why}");
    fs::write(&certificate, "no certificate").unwrap();
    market.server.read_certificate().unwrap_err();
    assert!(is_trusted(&market, &ca) && !is_trusted(&market, &other.ca), "the old one is shown");
    fs::copy(&signed.certificate, &certificate).unwrap();
    fs::copy(&signed.key, &key).unwrap();
    let fresh = market.server.read_certificate().unwrap().expect("it is another");
    assert!(is_trusted(&market, &ca), "it was only read");
    market.server.show(fresh);
    assert!(is_trusted(&market, &other.ca) && !is_trusted(&market, &ca), "the new one is shown");
}
