//! Tests that a connection resumes the TLS session of the previous one, in both roles, unless the
//! files now refuse the certificate.

use std::time::Duration;

use super::*;

#[test]
fn a_counterparty_that_comes_again_resumes_until_a_file_refuses_it() {
    resumes_until_a_file_refuses_it(By::Rustls);
}

#[test]
#[ignore = "needs openssl: cargo xtask peers programs"]
fn openssl_that_comes_again_resumes_until_a_file_refuses_it() {
    resumes_until_a_file_refuses_it(By::Programs);
}

fn resumes_until_a_file_refuses_it(by: By) {
    let _alone = alone();
    for version in [Version::Tls12, Version::Tls13] {
        let firms = Firms::new();
        let mut settings = firms.acceptor("CLIENT");
        tls(&mut settings).crl = vec![firms.authority.revoke(&[])];
        tls(&mut settings).peer = vec!["client.example".to_owned()];
        let venue = Side::start(settings);
        let dialer = Dialer::new(&firms, by, version, venue.address());
        let log_on = || {
            let mut client = dialer.connect();
            client.log_on();
            let logon = client.next();
            let is_in = logon.contains("\x0135=A\x01");
            if is_in {
                assert_eq!(venue.next(), "logon", "{version:?}");
                client.log_out();
                assert!(client.next().contains("\x0135=5\x01"), "{version:?}");
            }
            (is_in, client.resumed())
        };
        assert_eq!(log_on(), (true, false), "{version:?}");
        // `tls.peer` still matches, because the resumed session includes the certificate of the
        // first connection.
        assert_eq!(log_on(), (true, true), "{version:?}");
        // Revokes the client's certificate in the same file.
        let _same_file = firms.authority.revoke(&[&firms.client]);
        assert_eq!(log_on(), (false, false), "{version:?}");
        told("the counterparty's certificate was revoked");
    }
}

#[test]
fn an_initiator_resumes_with_the_same_files_and_begins_anew_with_others() {
    resumes_with_the_same_files(By::Rustls);
}

#[test]
#[ignore = "needs python3: cargo xtask peers programs"]
fn an_initiator_resumes_with_a_server_of_python() {
    resumes_with_the_same_files(By::Programs);
}

fn resumes_with_the_same_files(by: By) {
    let _alone = alone();
    let firms = Firms::new();
    let mut server = Server::start(&firms, by, Ends::AtOnce);
    let mut settings = firms.initiator(server.address);
    settings.protocol.reset_on.logon = true;
    let from = Settings::of(settings);
    let (sender, _seen) = channel();
    let mut engine = Engine::start(&from, |_| Box::new(recorder(sender.clone()))).unwrap();
    // The server reports three lines per connection: the name in the certificate, whether the
    // session was resumed, and the Logon(A).
    let mut next = || [server.line(), server.line(), server.line()];
    assert_eq!(next()[..2], ["CN=client.example", "reused=False"]);
    assert_eq!(next()[..2], ["CN=client.example", "reused=True"]);
    // The settings name another certificate.
    let other = firms.authority.sign(&["other.example"], 9, Valid::Now);
    let mut to = from.clone();
    (tls(&mut to.sessions[0]).certificate, tls(&mut to.sessions[0]).key) =
        (Some(other.certificate.clone()), Some(other.key.clone()));
    engine.reload(&from, &to, Duration::ZERO, |_| Box::new(recorder(sender.clone()))).unwrap();
    // A connection with the old settings may have been in progress.
    let first = loop {
        let [who, reused, _] = next();
        if who == "CN=other.example" {
            break reused;
        }
    };
    assert_eq!(first, "reused=False");
    assert_eq!(next()[..2], ["CN=other.example", "reused=True"]);
    // The same files contain another certificate.
    let third = firms.authority.sign(&["third.example"], 10, Valid::Now);
    fs::copy(&third.key, &other.key).unwrap();
    fs::copy(&third.certificate, &other.certificate).unwrap();
    let first = loop {
        let [who, reused, _] = next();
        if who == "CN=third.example" {
            break reused;
        }
    };
    assert_eq!(first, "reused=False");
}
