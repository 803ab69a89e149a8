//! HTTPS.

use std::process::{Command, Stdio};

use transfix_testkit::certificates::{Authority, Valid};

use crate::market::Market;

#[test]
fn a_browser_is_served_by_tls() {
    let mut authority = None;
    let market = Market::with(|admin, dir| {
        let made = Authority::new(dir, "authority");
        let signed = made.sign(&["localhost"], 1, Valid::Now);
        admin.certificate = signed.certificate.clone();
        admin.key = signed.key.clone();
        authority = Some(made);
    });
    assert!(market.server.url().starts_with("https://127.0.0.1:"));
    let authority = authority.unwrap();
    let port = market.server.address().port();
    let out = Command::new("curl")
        .args(["--silent", "--show-error", "--cacert"])
        .arg(&authority.ca)
        .args(["--resolve", &format!("localhost:{port}:127.0.0.1")])
        .args(["--header", &format!("Authorization: Bearer {}", market.tokens[0])])
        .arg(format!("https://localhost:{port}/api/me"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("\"name\":\"viewer-program\""), "{text} {out:?}");
    // Without TLS there is no answer, and the others go on.
    let mut plain = std::net::TcpStream::connect(market.server.address()).unwrap();
    std::io::Write::write_all(&mut plain, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = std::io::Read::read_to_end(&mut plain, &mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}
