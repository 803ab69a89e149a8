//! The next connection resumes the TLS session of the last, in both roles, and nothing that the
//! files refuse by now.

use super::*;
use crate::foreign::{Client, Server};

#[test]
fn a_counterparty_that_comes_again_resumes_until_a_file_refuses_it() {
    let _alone = alone();
    for version in ["-tls1_2", "-tls1_3"] {
        let firms = Firms::new();
        let mut settings = firms.acceptor("CLIENT");
        tls(&mut settings).crl = vec![firms.authority.revoke(&[])];
        tls(&mut settings).peer = vec!["client.example".to_owned()];
        let venue = Side::start(settings);
        let ticket = firms.dir.path().join("ticket");
        let log_on = |how: &str| {
            let more = [how, ticket.to_str().unwrap()];
            let mut client = Client::start_with(&firms, venue.address(), version, &more);
            client.log_on();
            let logon = client.next();
            let is_in = logon.contains("\x0135=A\x01");
            if is_in {
                assert_eq!(venue.next(), "logon", "{version}");
                client.log_out();
                assert!(client.next().contains("\x0135=5\x01"), "{version}");
            }
            (is_in, client.printed())
        };
        let (is_in, printed) = log_on("-sess_out");
        assert!(is_in && printed.contains("New, "), "{version}: {printed}");
        // The certificate of the first connection is that of this one: `tls.peer` holds.
        let (is_in, printed) = log_on("-sess_in");
        assert!(is_in && printed.contains("Reused, "), "{version}: {printed}");
        // Its certificate is revoked.
        let _same_file = firms.authority.revoke(&[&firms.client]);
        let (is_in, printed) = log_on("-sess_in");
        assert!(!is_in && !printed.contains("Reused, "), "{version}: {printed}");
        told("the counterparty's certificate was revoked");
    }
}

#[test]
fn an_initiator_resumes_with_the_same_files_and_begins_anew_with_others() {
    let _alone = alone();
    let firms = Firms::new();
    let mut server = Server::start(&firms);
    let mut settings = firms.initiator(server.address);
    settings.protocol.reset_on.logon = true;
    let from = Settings::of(settings);
    let (sender, _seen) = channel();
    let mut engine = Engine::start(&from, |_| Box::new(Recorder(sender.clone()))).unwrap();
    // Who, whether it was resumed, and the Logon(A).
    let mut next = || [server.line(), server.line(), server.line()];
    assert_eq!(next()[..2], ["CN=client.example", "reused=False"]);
    assert_eq!(next()[..2], ["CN=client.example", "reused=True"]);
    // Another certificate in the settings.
    let other = firms.authority.sign(&["other.example"], 9, Valid::Now);
    let mut to = from.clone();
    (tls(&mut to.sessions[0]).certificate, tls(&mut to.sessions[0]).key) =
        (Some(other.certificate.clone()), Some(other.key.clone()));
    engine.reload(&from, &to, 0, |_| Box::new(Recorder(sender.clone()))).unwrap();
    // A connection of before may have been under way.
    let first = loop {
        let [who, reused, _] = next();
        if who == "CN=other.example" {
            break reused;
        }
    };
    assert_eq!(first, "reused=False");
    assert_eq!(next()[..2], ["CN=other.example", "reused=True"]);
    // Another one in the same file.
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
