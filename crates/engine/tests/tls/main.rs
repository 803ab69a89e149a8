//! Tests sessions over TLS: two engines, counterparties that are not this engine, and each kind of
//! certificate error.
//!
//! The tests run one after the other, because they read the log events of the whole process.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]
#![allow(clippy::disallowed_methods, reason = "a wait that fails ends")]

mod ends;
#[allow(dead_code, reason = "a listener that panics is of no use here")]
#[path = "../strangers/events.rs"]
mod events;
mod expiry;
mod floods;
mod foreign;
mod planted;
mod resumption;

use std::any::Any;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use transfix::{
    Application, BeginString, ClientCertificate, Durability, Engine, EngineError, Mode, Role,
    SessionEvent, SessionId, SessionSettings, Settings, TlsSettings, tag,
};
use transfix_testkit::app::App;
use transfix_testkit::certificates::{Authority, Signed, Valid};
use transfix_testkit::program::Haproxy;
use transfix_testkit::proxy::{self, Header, Proxy};
use transfix_testkit::temp::TempDir;
use transfix_testkit::tls::rustls::pki_types::CertificateDer;
use transfix_testkit::tls::rustls::pki_types::pem::PemObject;

use foreign::{By, Dialer, Ends, Server, Version};

/// A time limit that suffices on the slowest machine; only a failing test waits this long.
const LONG: Duration = Duration::from_secs(60);

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    events::listen();
    events::take();
    alone
}

/// Returns an application that answers each order with the order's text, and reports logons and
/// messages.
fn recorder(sender: Sender<String>) -> App {
    let sender_on_message = sender.clone();
    App::new(move |message, session| {
        let text = message.text(tag::TEXT)?.to_owned();
        if message.msg_type() == b"D" {
            session.send("8", |report| _ = report.str(tag::TEXT, &text)).unwrap();
        }
        // The send fails only if the test no longer listens.
        let _ = sender_on_message.send(text);
        Ok(())
    })
    .on_event(move |event, _| {
        if let SessionEvent::LoggedOn = event {
            let _ = sender.send("logon".to_owned());
        }
    })
}

struct Side {
    engine: Engine,
    id: SessionId,
    seen: Receiver<String>,
}

impl Side {
    fn start(settings: SessionSettings) -> Self {
        let id = settings.id();
        Self { id, ..Self::start_all(Settings::of(settings)) }
    }

    fn start_all(settings: Settings) -> Self {
        let (sender, seen) = channel();
        let id = settings.sessions[0].id();
        let engine = Engine::start(&settings, |_| Box::new(recorder(sender.clone())));
        Self { engine: engine.unwrap(), id, seen }
    }

    fn next(&self) -> String {
        self.seen.recv_timeout(LONG).unwrap()
    }

    fn send(&self, text: &str) {
        let handle = self.engine.session(&self.id).unwrap();
        handle.send("D", |order| _ = order.str(tag::TEXT, text)).unwrap();
    }

    fn address(&self) -> SocketAddr {
        self.engine.listening()[0]
    }
}

/// Waits until an event that contains this text is logged, and returns it.
fn told(text: &str) -> String {
    let [line] = all_told([text]);
    line
}

/// Waits until events that contain these texts are logged, in any order, and returns them.
fn all_told<const N: usize>(texts: [&str; N]) -> [String; N] {
    let (begin, mut lines) = (Instant::now(), Vec::<String>::new());
    while begin.elapsed() < LONG {
        lines.extend(events::take());
        let found = texts.map(|text| lines.iter().find(|line| line.contains(text)).cloned());
        if found.iter().all(Option::is_some) {
            return found.map(Option::unwrap);
        }
        std::thread::yield_now();
    }
    panic!("not all of {texts:#?} are told: {lines:#?}");
}

/// A certificate authority, and two firms with certificates that it has signed.
struct Firms {
    dir: TempDir,
    authority: Authority,
    venue: Signed,
    client: Signed,
}

impl Firms {
    fn new() -> Self {
        let dir = TempDir::new();
        let authority = Authority::new(dir.path(), "authority");
        let venue = authority.sign(&["venue.example", "127.0.0.1"], 1, Valid::Now);
        let client = authority.sign(&["client.example"], 2, Valid::Now);
        Self { dir, authority, venue, client }
    }

    /// Returns an acceptor that requires a certificate of its counterparties.
    fn acceptor(&self, client: &str) -> SessionSettings {
        let mut settings = session(Role::Acceptor, ("VENUE", client), "127.0.0.1:0");
        settings.tls = Some(TlsSettings {
            client_certificate: ClientCertificate::Required,
            ..self.tls(&self.venue)
        });
        settings
    }

    /// Returns an initiator that presents the client's certificate.
    fn initiator(&self, to: SocketAddr) -> SessionSettings {
        let mut settings = session(Role::Initiator, ("CLIENT", "VENUE"), &to.to_string());
        settings.tls = Some(self.tls(&self.client));
        settings
    }

    fn tls(&self, own: &Signed) -> TlsSettings {
        TlsSettings {
            certificate: Some(own.certificate.clone()),
            key: Some(own.key.clone()),
            ca: vec![self.authority.ca.clone()],
            ..TlsSettings::default()
        }
    }
}

fn session(role: Role, (ours, theirs): (&str, &str), address: &str) -> SessionSettings {
    let id = SessionId::new(BeginString::Fix44, ours, theirs);
    let mut settings = SessionSettings::new(role, &id, address);
    settings.store.durability = Durability::Memory;
    settings.validation.validate = false;
    settings.socket.reconnect_interval = Duration::from_millis(10);
    settings
}

fn tls(settings: &mut SessionSettings) -> &mut TlsSettings {
    settings.tls.as_mut().unwrap()
}

#[test]
fn each_mode_trades_and_logs_out() {
    let _alone = alone();
    let firms = Firms::new();
    for mode in [Mode::Pool, Mode::Dedicated, Mode::Spin] {
        let mut settings = firms.acceptor("CLIENT");
        settings.threads.mode = mode;
        tls(&mut settings).peer = vec!["client.example".to_owned()];
        let venue = Side::start(settings);
        let mut settings = firms.initiator(venue.address());
        settings.threads.mode = mode;
        tls(&mut settings).peer = vec!["venue.example".to_owned()];
        let client = Side::start(settings);
        assert_eq!((venue.next(), client.next()), ("logon".to_owned(), "logon".to_owned()));
        // The texts range from one byte to more than several TLS records, or one read, can contain.
        let texts: Vec<String> = (0..40).map(|n| "x".repeat(1 + n * 1_000)).collect();
        for _ in 0..5 {
            texts.iter().for_each(|text| client.send(text));
            for text in &texts {
                assert!(venue.next() == *text, "{mode:?}: an order of {} bytes", text.len());
                assert!(client.next() == *text, "{mode:?}: a report of {} bytes", text.len());
            }
        }
        for outcome in client.engine.stop(Duration::from_secs(10)) {
            assert_eq!((outcome.next_num_in, outcome.next_num_out), (203, 203), "{outcome:?}");
            assert_eq!(outcome.outcome.to_string(), "logged out", "{outcome:?}");
        }
    }
}

#[test]
fn a_certificate_is_good_for_the_sessions_of_its_firm_alone() {
    let _alone = alone();
    let firms = Firms::new();
    let session = |client: &str, peer: &str| {
        let mut settings = firms.acceptor(client);
        tls(&mut settings).peer = vec![peer.to_owned()];
        settings
    };
    let sessions = vec![session("OTHER", "other.example"), session("CLIENT", "client.example")];
    let mut template = firms.acceptor("*");
    template.sender_comp_id = "BROKER".to_owned();
    tls(&mut template).peer = vec!["other.example".to_owned()];
    let address = sessions[0].address.clone();
    assert_eq!(template.address, address);
    let settings =
        Settings { sessions: [sessions, vec![template]].concat(), ..Settings::default() };
    let (sender, _seen) = channel();
    let for_made = sender.clone();
    let builder = Engine::builder(&settings)
        .admit(move |_| Some(Box::new(recorder(for_made.clone())) as Box<dyn Application>));
    let venue = builder.start(|_| Box::new(recorder(sender.clone()))).unwrap();
    let to = venue.listening()[0];
    for (ours, theirs) in [("OTHER", "VENUE"), ("NEW", "BROKER")] {
        let mut settings = firms.initiator(to);
        (settings.sender_comp_id, settings.target_comp_id) = (ours.into(), theirs.into());
        let liar = Side::start(settings);
        let line = told("the certificate is not in `tls.peer` of the session");
        assert!(line.contains(&format!("FIX.4.4:{ours}->{theirs}")), "{line}");
        assert!(line.contains("CN=client.example (sha256:"), "{line}");
        assert!(!liar.engine.session(&liar.id).unwrap().is_logged_on());
        drop(liar);
        events::take();
    }
    let honest = Side::start(firms.initiator(to));
    assert_eq!(honest.next(), "logon");
}

#[test]
fn what_is_wrong_stands_in_one_clear_line_on_both_sides() {
    let _alone = alone();
    let firms = Firms::new();
    let stranger = Authority::new(firms.dir.path(), "stranger").sign(&["client"], 3, Valid::Now);
    let old = firms.authority.sign(&["client.example"], 4, Valid::Before);
    let revoked = firms.authority.sign(&["client.example"], 5, Valid::Now);
    let crl = firms.authority.revoke(&[&revoked]);
    type Change<'a> = &'a dyn Fn(&mut TlsSettings);
    let shows = |own: &Signed, tls: &mut TlsSettings| {
        (tls.certificate, tls.key) = (Some(own.certificate.clone()), Some(own.key.clone()));
    };
    let cases: [(Change<'_>, &str, &str); 5] = [
        (
            &|tls| (tls.certificate, tls.key) = (None, None),
            "the counterparty presented no certificate",
            "we presented no certificate, but the counterparty requires one",
        ),
        (
            &|tls| shows(&stranger, tls),
            "was not signed by a trusted authority",
            "does not trust the authority that signed our certificate",
        ),
        (&|tls| shows(&old, tls), "certificate has expired", "our certificate has expired"),
        (&|tls| shows(&revoked, tls), "certificate was revoked", "our certificate was revoked"),
        (
            &|tls| tls.server_name = "other.example".to_owned(),
            "does not accept our certificate",
            "is for another host: expected other.example",
        ),
    ];
    let mut settings = firms.acceptor("CLIENT");
    tls(&mut settings).crl = vec![crl];
    let venue = Side::start(settings);
    for (change, at_venue, at_client) in cases {
        let mut settings = firms.initiator(venue.address());
        change(tls(&mut settings));
        let client = Side::start(settings);
        all_told([at_venue, at_client]);
        assert!(!client.engine.session(&client.id).unwrap().is_logged_on());
        drop(client);
        events::take();
    }
}

#[test]
fn tls_begins_behind_what_a_proxy_says() {
    tls_begins_behind(|to, from| {
        let kind = proxy::Kind::Announcing { from, to, header: Header::V2 };
        let proxy = Proxy::start((from, 0).into(), kind);
        (proxy.address(), Box::new(proxy))
    });
}

#[test]
#[ignore = "needs haproxy: cargo xtask peers programs"]
fn tls_begins_behind_what_haproxy_says() {
    tls_begins_behind(|to, from| {
        let haproxy = Haproxy::start(from, to, Header::V2);
        (haproxy.address(), Box::new(haproxy))
    });
}

/// A function that starts a proxy, which connects from the given address to the venue. Returns the
/// proxy's address, and a guard that keeps the proxy running.
type Starts = fn(SocketAddr, Ipv4Addr) -> (SocketAddr, Box<dyn Any>);

fn tls_begins_behind(start: Starts) {
    let _alone = alone();
    let firms = Firms::new();
    let mut settings = firms.acceptor("CLIENT");
    settings.proxy_protocol_from = vec!["127.0.0.8".to_owned()];
    settings.allow_from = vec!["127.0.0.3".to_owned()];
    tls(&mut settings).peer = vec!["client.example".to_owned()];
    let venue = Side::start(settings);
    let (place, _proxy) = start(venue.address(), Ipv4Addr::new(127, 0, 0, 8));
    let mut settings = firms.initiator(place);
    settings.socket.local_address = "127.0.0.3".to_owned();
    // Turns off the check of the name, because the certificate is the venue's and the address is
    // the proxy's.
    tls(&mut settings).check_name = false;
    let client = Side::start(settings);
    assert_eq!((venue.next(), client.next()), ("logon".to_owned(), "logon".to_owned()));
    client.send("through both");
    assert_eq!(
        (venue.next(), client.next()),
        ("through both".to_owned(), "through both".to_owned())
    );
    drop(client);
    // Another address is refused before TLS begins.
    events::take();
    let mut settings = firms.initiator(place);
    settings.socket.local_address = "127.0.0.4".to_owned();
    // Turns off the check of the name, because the certificate is the venue's and the address is
    // the proxy's.
    tls(&mut settings).check_name = false;
    let _stranger = Side::start(settings);
    let line = told("the address is not in `allow_from` of any session");
    assert!(line.contains("peer=127.0.0.4 "), "{line}");
}

#[test]
fn a_failed_handshake_uses_no_number() {
    let _alone = alone();
    let firms = Firms::new();
    let venue = Side::start(firms.acceptor("CLIENT"));
    let mut settings = firms.initiator(venue.address());
    tls(&mut settings).server_name = "other.example".to_owned();
    let client = Side::start(settings);
    for _ in 0..3 {
        told("closed: the TLS handshake failed");
    }
    let outcome = client.engine.stop(Duration::ZERO).remove(0);
    assert_eq!((outcome.next_num_in, outcome.next_num_out), (1, 1));
}

#[test]
fn who_speaks_no_tls_and_who_does_are_told_apart() {
    let _alone = alone();
    let firms = Firms::new();
    let venue = Side::start(firms.acceptor("CLIENT"));
    let mut plain = firms.initiator(venue.address());
    plain.tls = None;
    let client = Side::start(plain);
    all_told([
        "the counterparty sends plain text instead of TLS",
        "the counterparty uses TLS, but the settings of the session have no `tls`",
    ]);
    drop(client);

    let mut plain = firms.acceptor("CLIENT");
    plain.tls = None;
    let venue = Side::start(plain);
    let client = Side::start(firms.initiator(venue.address()));
    all_told([
        "closed: the counterparty uses TLS, but this port does not",
        "closed the connection during the TLS handshake: the counterparty may expect plain text",
    ]);
    drop(client);
}

#[test]
fn a_new_certificate_counts_from_the_next_connection_on() {
    let _alone = alone();
    let firms = Firms::new();
    let venue = Side::start(firms.acceptor("CLIENT"));
    let print = |own: &Signed| {
        let der = CertificateDer::from_pem_file(&own.certificate).unwrap();
        let digits =
            Sha256::digest(&der).iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>();
        format!("sha256:{}", digits.join(":"))
    };
    let next = firms.authority.sign(&["venue.example", "127.0.0.1"], 6, Valid::Now);
    let prints = [print(&firms.venue), print(&next)];
    for (n, wanted) in prints.into_iter().enumerate() {
        if n == 1 {
            fs::copy(&next.certificate, &firms.venue.certificate).unwrap();
            fs::copy(&next.key, &firms.venue.key).unwrap();
        }
        let mut settings = firms.initiator(venue.address());
        tls(&mut settings).peer = vec![wanted];
        settings.protocol.reset_on.logon = true;
        let client = Side::start(settings);
        assert_eq!(client.next(), "logon");
        drop(client.engine.stop(Duration::from_secs(10)));
    }
    told("certificates were reloaded, because a file has changed");
}

/// A reload that fails loses no session, even if the file of its old certificate is missing. The
/// new settings name another certificate, but another of their values is invalid.
#[test]
fn a_reload_that_fails_loses_no_session_whose_old_certificate_has_gone() {
    let _alone = alone();
    let firms = Firms::new();
    let venue = Side::start(firms.acceptor("CLIENT"));
    let next = firms.authority.sign(&["client.example"], 6, Valid::Now);
    let next_venue = firms.authority.sign(&["venue.example", "127.0.0.1"], 7, Valid::Now);
    let occupied = firms.dir.path().join("file");
    fs::write(&occupied, "").unwrap();
    let mut from = Settings::of(firms.initiator(venue.address()));
    let mut acceptor = firms.acceptor("OTHER");
    acceptor.address = "127.0.0.1:0".to_owned();
    acceptor.sender_comp_id = "CLIENT".to_owned();
    from.sessions.push(acceptor);
    let mut client = Side::start_all(from.clone());
    assert_eq!(client.next(), "logon");
    let mut to = from.clone();
    for (session, signed) in to.sessions.iter_mut().zip([&next, &next_venue]) {
        tls(session).certificate = Some(signed.certificate.clone());
        tls(session).key = Some(signed.key.clone());
        session.store.store_dir = occupied.clone();
        session.store.durability = Durability::Process;
    }
    for old in [&firms.client, &firms.venue] {
        fs::rename(&old.certificate, old.certificate.with_extension("away")).unwrap();
    }
    let sender = channel().0;
    let done = client
        .engine
        .reload(&from, &to, Duration::from_secs(10), |_| Box::new(recorder(sender.clone())));
    let done = done.unwrap();
    assert_eq!(done.failed.len(), 2, "{done:?}");
    for (now, (old, new)) in
        done.settings.sessions.iter().zip(from.sessions.iter().zip(&to.sessions))
    {
        assert_eq!((&now.store, &now.tls), (&old.store, &new.tls));
    }
    let handle = client.engine.session(&client.id).unwrap();
    let begin = Instant::now();
    while !handle.is_logged_on() {
        assert!(begin.elapsed() < LONG, "is missing or changed");
        std::thread::yield_now();
    }
}

#[test]
fn an_old_certificate_is_told_of_at_the_start() {
    let _alone = alone();
    let mut firms = Firms::new();
    firms.venue = firms.authority.sign(&["venue.example"], 7, Valid::Before);
    let _venue = Side::start(firms.acceptor("CLIENT"));
    let line = told("our certificate has expired");
    assert!(line.contains("CN=venue.example (sha256:"), "{line}");
}

#[test]
fn settings_that_do_not_fit_are_refused_at_the_start() {
    let _alone = alone();
    let firms = Firms::new();
    let refused = |settings: Settings| {
        let started = Engine::start(&settings, |_| Box::new(recorder(channel().0)));
        let Err(EngineError::Settings(why)) = started else { panic!("{:?}", started.err()) };
        why
    };
    let mut other = firms.acceptor("OTHER");
    tls(&mut other).crl = vec![firms.authority.revoke(&[])];
    let both = vec![firms.acceptor("CLIENT"), other];
    let why = refused(Settings { sessions: both, ..Settings::default() });
    assert!(why.contains("another session at 127.0.0.1:0 has other settings of tls"), "{why}");
    let mut wrong = firms.acceptor("CLIENT");
    tls(&mut wrong).key = Some(firms.client.key.clone());
    let why = refused(Settings::of(wrong));
    assert!(why.contains("the certificate and the key do not belong together"), "{why}");
    let mut wrong = firms.acceptor("CLIENT");
    tls(&mut wrong).ca = vec![firms.dir.path().join("nowhere.pem")];
    let why = refused(Settings::of(wrong));
    assert!(why.contains("nowhere.pem: "), "{why}");
}

#[test]
fn a_client_of_each_version_logs_on() {
    each_version_logs_on(By::Rustls);
}

#[test]
#[ignore = "needs openssl: cargo xtask peers programs"]
fn openssl_logs_on() {
    each_version_logs_on(By::Programs);
}

fn each_version_logs_on(by: By) {
    let _alone = alone();
    let firms = Firms::new();
    let venue = Side::start(firms.acceptor("CLIENT"));
    for version in [Version::Tls12, Version::Tls13] {
        let mut client = Dialer::new(&firms, by, version, venue.address()).connect();
        client.log_on();
        assert_eq!(venue.next(), "logon", "{version:?}");
        assert!(client.next().contains("\x0135=A\x01"), "{version:?}");
        client.log_out();
        assert!(client.next().contains("\x0135=5\x01"), "{version:?}");
    }
    let mut old = Dialer::new(&firms, by, Version::Tls11, venue.address()).connect();
    assert_eq!(old.next(), "");
    told("the counterparty offers no TLS version that is allowed here");
}

#[test]
fn a_server_gets_our_logon() {
    server_gets_our_logon(By::Rustls);
}

#[test]
#[ignore = "needs python3: cargo xtask peers programs"]
fn a_server_of_python_gets_our_logon() {
    server_gets_our_logon(By::Programs);
}

fn server_gets_our_logon(by: By) {
    let _alone = alone();
    let firms = Firms::new();
    let mut server = Server::start(&firms, by, Ends::Last);
    let mut settings = firms.initiator(server.address);
    settings.protocol.reset_on.logon = true;
    let client = Side::start(settings);
    assert_eq!(server.line(), "CN=client.example", "the certificate it was shown");
    assert_eq!(server.line(), "reused=False");
    assert!(server.line().contains("|35=A|"));
    assert_eq!(client.next(), "logon");
}

#[test]
fn a_settings_file_says_all_of_it() {
    let _alone = alone();
    let firms = Firms::new();
    let text = format!(
        "[defaults]\nrole = \"acceptor\"\nbegin_string = \"FIX.4.4\"\nsender_comp_id = \"VENUE\"\n\
         durability = \"memory\"\n\
         [defaults.tls]\ncertificate = {:?}\nkey = {:?}\nca = [{:?}]\n\
         client_certificate = \"required\"\nmin_version = \"1.3\"\n\
         [[session]]\ntarget_comp_id = \"CLIENT\"\naddress = \"127.0.0.1:0\"\n\
         tls.peer = [\"client.example\"]\n\
         [[session]]\ntarget_comp_id = \"PLAIN\"\naddress = \"localhost:0\"\ntls.enabled = false\n",
        firms.venue.certificate, firms.venue.key, firms.authority.ca
    );
    let venue = Side::start_all(Settings::parse("venue.toml", &text).unwrap());
    let connect = |version| Dialer::new(&firms, By::Rustls, version, venue.address()).connect();
    let mut old = connect(Version::Tls12);
    old.log_on();
    assert_eq!(old.next(), "");
    told("the counterparty offers no TLS version that is allowed here");
    let mut new = connect(Version::Tls13);
    new.log_on();
    assert_eq!(venue.next(), "logon");
    let mut plain =
        session(Role::Initiator, ("PLAIN", "VENUE"), &venue.engine.listening()[1].to_string());
    plain.tls = Some(TlsSettings { enabled: false, ..TlsSettings::default() });
    let plain = Side::start(plain);
    assert_eq!((venue.next(), plain.next()), ("logon".to_owned(), "logon".to_owned()));
}

#[test]
fn contradictions_are_refused_with_the_key() {
    let firms = Firms::new();
    let own = |what: &str| {
        format!("certificate = {:?}\nkey = {:?}\n{what}", firms.venue.certificate, firms.venue.key)
    };
    let refused = |role: &str, tls: &str, why: &str| {
        let text = format!(
            "[[session]]\nrole = \"{role}\"\nbegin_string = \"FIX.4.4\"\naddress = \"[::1]:0\"\n\
             sender_comp_id = \"A\"\ntarget_comp_id = \"B\"\n[session.tls]\n{tls}\n"
        );
        let error = Settings::parse("a.toml", &text).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert!(error.starts_with("a.toml:"), "{error}");
    };
    refused("acceptor", "", "tls.certificate and tls.key are missing");
    refused("acceptor", "key = \"k\"", "one of them is missing");
    refused("acceptor", &own("check_name = false"), "are for initiators only");
    refused("acceptor", &own("client_certificate = \"required\""), "tls.ca is missing");
    refused("acceptor", &own("peer = [\"a\"]"), "set tls.client_certificate to");
    let optional = own("ca = [\"c\"]\nclient_certificate = \"optional\"\npeer = [\"a\"]");
    refused("acceptor", &optional, "peer requires a certificate from each counterparty");
    refused("initiator", "client_certificate = \"required\"", "is for acceptors only");
    refused(
        "initiator",
        &own("more_certificates = [{ certificate = \"a\", key = \"b\" }]"),
        "is for acceptors only",
    );
    refused("initiator", "peer = [\"sha256:12\"]", "neither a name nor `sha256:`");
    refused("initiator", "min_version = \"1.1\"", "unknown value `1.1`");
    refused("initiator", "certificat = \"a\"", "certificate");
}
