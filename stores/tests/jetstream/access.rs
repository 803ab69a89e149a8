//! Access to a broker by each kind of login and of TLS. A wrong one is refused at once, with the
//! reason, and without a secret in the error.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::channel;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use transfix::{Engine, Settings, clock};
use transfix_store::{Store, StoreError};
use transfix_stores::{Fleet, FleetOperator};
use transfix_testkit::certificates::{Authority, Signed, Valid};
use transfix_testkit::laws::Patient;
use transfix_testkit::temp::TempDir;

use crate::server::{free_addresses, run_broker};
use crate::{Echo, LONG, commit, order};

/// Maximum time until a wrong access is refused. The client gives the broker 5 s.
const LIMIT: Duration = Duration::from_secs(7);
const HOST: &str = "127.0.0.1";
/// A part of each password and seed file that no error may contain.
const SECRET: &str = "sesame";
/// An account that may ask brokers for their state.
const ACCOUNTS: &str = "accounts {
            SYS: { exports: [ { service: '$SYS.REQ.SERVER.PING.JSZ', response: stream } ] }
            FIX: {
                jetstream: enabled
                users: [ { user: desk, password: sesame } ]
                imports: [
                    { service: { account: SYS, subject: '$SYS.REQ.SERVER.PING.JSZ' } }
                ]
            }
        }
        system_account: SYS";

/// One broker with a configuration of its own, killed when dropped.
struct Broker {
    dir: TempDir,
    process: Child,
    address: String,
}

impl Broker {
    fn start(config: &str) -> Self {
        Self::with_sync("n1", "always", config)
    }

    fn with_sync(name: &str, sync_interval: &str, config: &str) -> Self {
        let (dir, [address, ..]) = (TempDir::new(), free_addresses());
        let config = format!(
            "server_name: {name}
            listen: {address:?}
            jetstream {{ store_dir: {:?}, sync_interval: {sync_interval} }}
            {config}",
            dir.path().join("n1"),
        );
        fs::write(dir.path().join("n1.conf"), config).unwrap();
        let mut broker = Self { process: run_broker(dir.path(), 1), dir, address };
        while TcpStream::connect(&broker.address).is_err() {
            let log = broker.dir.path().join("n1.log");
            let end = broker.process.try_wait().unwrap();
            assert!(end.is_none(), "{}", fs::read_to_string(log).unwrap());
            std::thread::yield_now();
        }
        broker
    }

    fn signal(&self, signal: &str) {
        let process = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &process]).status().unwrap().success());
    }

    /// Returns settings with this access in `[fleet]`.
    fn settings(&self, access: &str) -> Settings {
        let text = format!(
            "[fleet]
            gateway = 'a'
            brokers = ['{}']
            replicas = 1
            {access}
            [[session]]
            role = 'acceptor'
            begin_string = 'FIX.4.4'
            sender_comp_id = 'US'
            target_comp_id = 'THEM'
            address = '127.0.0.1:0'",
            self.address
        );
        Settings::parse("gateway.toml", &text).unwrap()
    }

    /// Lets a gateway commit to a store, and another one read the commit.
    fn serves(&self, access: &str) {
        let mut settings = self.settings(access);
        FleetOperator::create(settings.fleet.as_ref().unwrap()).unwrap();
        let mut next = None;
        for _ in 0..2 {
            let fleet = Fleet::join(&mut settings).unwrap();
            let engine = Engine::builder(&settings).stores(fleet.stores());
            let engine = engine.start(|_| Box::new(Echo(channel().0))).unwrap();
            fleet.begin(&engine).unwrap();
            let operator = FleetOperator::connect(settings.fleet.as_ref().unwrap()).unwrap();
            assert!(operator.gateways().unwrap().iter().any(|one| one.gateway == "a"), "{access}");
            let store = fleet.stores()(&settings.sessions[0], 1).unwrap();
            let mut store = Patient(store.unwrap());
            store.refresh().unwrap();
            let seq = store.numbers().next_out;
            assert!(next.is_none_or(|next| next == seq), "{access}");
            store.put(2, order(seq)).unwrap();
            commit(&mut store).unwrap();
            assert!((1..=seq).all(|seq| store.outbound(seq).unwrap().is_some()), "{access}");
            next = Some(seq + 1);
            engine.stop(LONG);
        }
    }

    /// Checks that a gateway and an operator are refused at once with these words.
    fn refuses(&self, access: &str, words: &[&str]) {
        let settings = self.settings(access);
        let fleet = settings.fleet.clone().unwrap();
        let join = || Fleet::join(&mut self.settings(access)).map(drop);
        let operate = || FleetOperator::connect(&fleet).map(drop);
        let both: [&dyn Fn() -> Result<(), StoreError>; 2] = [&join, &operate];
        for connect in both {
            let begin = clock::now().monotonic_ns;
            let error = connect().unwrap_err();
            let passed = Duration::from_nanos(clock::now().monotonic_ns - begin);
            assert!(passed < LIMIT, "{access}: {passed:?}");
            let shown = error.to_string();
            assert!(words.iter().all(|word| shown.contains(word)), "{access}: {shown}");
            for text in [shown, format!("{error:?}"), format!("{settings:?}")] {
                assert!(!text.contains(SECRET) && !text.contains("SUA"), "{access}: {text}");
            }
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes a file that a setting names. Returns the path.
fn file(dir: &TempDir, name: &str, text: &str) -> String {
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_user_has_a_password() {
    let broker = Broker::start("authorization { user: desk, password: sesame }");
    let password = file(&broker.dir, "password", "sesame\n");
    broker.serves("user = 'desk'\npassword = 'sesame'");
    broker.serves(&format!("user = 'desk'\npassword = {{ file = '{password}' }}"));
    let refused = ["authorization violation", &broker.address];
    broker.refuses("user = 'desk'\npassword = 'sesame2'", &[&refused[..], &["user desk"]].concat());
    broker.refuses("user = 'desk'", &refused);
    broker.refuses("", &refused);
}

/// A broker does not answer a request without a permission, so the last error takes 12 s.
#[test]
fn a_user_needs_jetstream() {
    let access = "user = 'desk'\npassword = 'sesame'";
    let user = "user: desk, password: sesame";
    let broker = Broker::start(&format!("accounts {{ FIX: {{ users: [ {{ {user} }} ] }} }}"));
    broker.refuses(access, &["JetStream not enabled for account"]);
    let may = |publish: &str, subscribe: &str| {
        let permissions = format!("{{ publish: [ {publish} ], subscribe: [ {subscribe} ] }}");
        let user = format!("{{ {user}, permissions: {permissions} }}");
        Broker::start(&format!("authorization {{ users: [ {user} ] }}"))
    };
    let publish = "'FIX.>', 'FLEET-FIX.>', '$JS.API.>', '_INBOX.>'";
    may(publish, "'FLEET-FIX.>', '_INBOX.>'").serves(access);
    let broker = may("'FIX.>'", "'FLEET-FIX.>', '_INBOX.>'");
    let refused = Fleet::join(&mut broker.settings(access)).unwrap_err().to_string();
    assert!(refused.contains("lacks the permission to publish to $JS.API.>"), "{refused}");
    // A gateway that hears no question would lose its sessions again and again.
    let broker = may(publish, "'_INBOX.>'");
    let mut settings = broker.settings(access);
    let refused = Fleet::join(&mut settings).unwrap_err().to_string();
    assert!(refused.contains("the stream FIX does not exist"), "{refused}");
    FleetOperator::create(settings.fleet.as_ref().unwrap()).unwrap();
    let fleet = Fleet::join(&mut settings).unwrap();
    let engine = Engine::builder(&settings).stores(fleet.stores());
    let engine = engine.start(|_| Box::new(Echo(channel().0))).unwrap();
    for _ in 0..2 {
        let refused = fleet.begin(&engine).unwrap_err().to_string();
        assert!(refused.contains("subscribe to FLEET-FIX.>"), "{refused}");
    }
    let store = fleet.stores()(&settings.sessions[0], 1).unwrap();
    let refused = Patient(store.unwrap()).refresh().unwrap_err();
    assert!(matches!(refused, StoreError::InUse { .. }), "{refused}");
    engine.stop(LONG);
}

#[test]
fn an_nkey_proves_itself() {
    let user = KeyPair::new_user();
    let broker =
        Broker::start(&format!("authorization {{ users: [ {{ nkey: {} }} ] }}", user.public_key()));
    let nkey = |name: &str, text: &str| format!("nkey = '{}'", file(&broker.dir, name, text));
    broker.serves(&nkey("own.nk", &format!("{}\n", user.seed().unwrap())));
    let other = KeyPair::new_user().seed().unwrap();
    broker.refuses(&nkey("other.nk", &other), &["authorization violation", "other.nk"]);
    let account = KeyPair::new_account().seed().unwrap();
    broker.refuses(&nkey("account.nk", &account), &["account.nk", "must begin with SU"]);
    let torn = &other[..40];
    broker.refuses(&nkey("torn.nk", torn), &["torn.nk", "not the seed of an NKEY"]);
    broker.refuses(&nkey("empty.nk", ""), &["empty.nk", "not the seed of an NKEY"]);
    broker.refuses("nkey = 'missing.nk'", &["missing.nk", "No such file"]);
}

/// Returns a JWT of NATS, version 2: `issuer` vouches for `subject`.
fn jwt(issuer: &KeyPair, subject: &KeyPair, claims: Value) -> String {
    let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = encode(json!({ "typ": "JWT", "alg": "ed25519-nkey" }));
    let (iss, sub) = (issuer.public_key(), subject.public_key());
    let payload = encode(json!({ "iss": iss, "sub": sub, "iat": 1, "name": "n", "nats": claims }));
    let signed = format!("{header}.{payload}");
    let signature = URL_SAFE_NO_PAD.encode(issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}

/// Returns the text of a file of credentials.
fn credentials(account: &KeyPair, user: &KeyPair) -> String {
    let claims = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 });
    format!(
        "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------",
        jwt(account, user, claims),
        user.seed().unwrap(),
    )
}

#[test]
fn credentials_are_signed_by_the_account() {
    let (operator, system) = (KeyPair::new_operator(), KeyPair::new_account());
    let (account, user) = (KeyPair::new_account(), KeyPair::new_user());
    let of_operator =
        json!({ "type": "operator", "version": 2, "system_account": system.public_key() });
    let none = json!({ "type": "account", "version": 2, "limits": { "subs": -1, "conn": -1 } });
    let limits = json!({ "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1,
        "conn": -1, "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1,
        "consumer": -1 });
    let with_jetstream = json!({ "type": "account", "version": 2, "limits": limits });
    let broker = Broker::start(&format!(
        "operator: {}\nsystem_account: {}\nresolver: MEMORY\n\
         resolver_preload: {{ {}: {}, {}: {} }}",
        jwt(&operator, &operator, of_operator),
        system.public_key(),
        system.public_key(),
        jwt(&operator, &system, none),
        account.public_key(),
        jwt(&operator, &account, with_jetstream),
    ));
    let access =
        |name: &str, text: &str| format!("credentials = '{}'", file(&broker.dir, name, text));
    let own = credentials(&account, &user);
    broker.serves(&access("own.creds", &own));
    broker.serves(&access("ended.creds", &format!("{own}\n")));
    let foreign = credentials(&KeyPair::new_account(), &user);
    broker.refuses(&access("foreign.creds", &foreign), &["violation", "foreign.creds"]);
    let (head, _) = own.split_once("-----BEGIN USER").unwrap();
    let seed = KeyPair::new_user().seed().unwrap();
    let wrong_seed =
        format!("{head}-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n");
    broker.refuses(&access("seed.creds", &wrong_seed), &["violation", "seed.creds"]);
    let malformed = "not a file of credentials";
    broker.refuses(&access("torn.creds", head), &["torn.creds", malformed]);
    broker.refuses(&access("empty.creds", ""), &["empty.creds", malformed]);
    broker.refuses("credentials = 'missing.creds'", &["missing.creds", "No such file"]);
    broker.refuses("", &["violation"]);
}

/// Returns the section `tls` of a broker.
fn tls(own: &Signed, more: &str) -> String {
    format!("tls {{ cert_file: {:?}, key_file: {:?}, {more} }}", own.certificate, own.key)
}

fn ca(authority: &Path) -> String {
    format!("ca = '{}'", authority.display())
}

fn certificate((certificate, key): (&Path, &Path)) -> String {
    format!("certificate = '{}'\nkey = '{}'", certificate.display(), key.display())
}

#[test]
fn a_private_authority_is_trusted_if_it_is_named() {
    let dir = TempDir::new();
    let (own, other) = (Authority::new(dir.path(), "own"), Authority::new(dir.path(), "other"));
    let broker = Broker::start(&tls(&own.sign(&[HOST], 1, Valid::Now), ""));
    broker.serves(&ca(&own.ca));
    broker.refuses(&ca(&other.ca), &["no trusted authority has signed", "other.pem"]);
    broker.refuses("tls = true", &["no trusted authority has signed"]);
    let empty = PathBuf::from(file(&dir, "empty.pem", ""));
    broker.refuses(&ca(&empty), &["empty.pem", "contains no certificate"]);
    broker.refuses(&ca(Path::new("missing.pem")), &["missing.pem", "No such file"]);
    let elsewhere = Broker::start(&tls(&own.sign(&["n1.example"], 2, Valid::Now), ""));
    elsewhere.refuses(&ca(&own.ca), &["not valid for name", HOST]);
    let expired = Broker::start(&tls(&own.sign(&[HOST], 3, Valid::Before), ""));
    expired.refuses(&ca(&own.ca), &["expired"]);
    let plain = Broker::start("");
    plain.refuses("tls = true", &["the broker does not use TLS"]);
}

#[test]
fn a_broker_may_require_a_certificate() {
    let dir = TempDir::new();
    let (own, other) = (Authority::new(dir.path(), "own"), Authority::new(dir.path(), "other"));
    let verify = format!("ca_file: {:?}, verify: true", own.ca);
    let broker = Broker::start(&tls(&own.sign(&[HOST], 1, Valid::Now), &verify));
    let gateway = own.sign(&["gateway"], 2, Valid::Now);
    let access = |certificate_and_key: (&Path, &Path)| {
        format!("{}\n{}", ca(&own.ca), certificate(certificate_and_key))
    };
    broker.serves(&access((&gateway.certificate, &gateway.key)));
    broker.refuses(&ca(&own.ca), &["requires a certificate; set certificate and key"]);
    let foreign = other.sign(&["gateway"], 3, Valid::Now);
    broker.refuses(
        &access((&foreign.certificate, &foreign.key)),
        &["does not trust", "gateway-3.pem"],
    );
    let mixed = access((&gateway.certificate, &foreign.key));
    broker.refuses(&mixed, &["gateway-3.key", "do not belong together"]);
    let torn = PathBuf::from(file(&dir, "torn.key", "-----BEGIN PRIVATE KEY-----\nsesame\n"));
    broker.refuses(&access((&gateway.certificate, &torn)), &["torn.key", "truncated"]);
    let missing = access((Path::new("missing.pem"), &gateway.key));
    broker.refuses(&missing, &["missing.pem", "No such file"]);
}

#[test]
fn a_broker_that_does_not_answer_is_given_up() {
    let broker = Broker::start("");
    broker.signal("STOP");
    broker.refuses("", &["timed out"]);
    broker.signal("CONT");
    broker.serves("");
}

/// Gateways with other streams have other sessions. An operator waits for answers as long as the
/// settings say.
#[test]
fn stream_and_time_are_those_of_the_settings() {
    let broker = Broker::start("");
    broker.serves("");
    let of_other = "stream = 'OTHER'\nanswer_ms = 700";
    let mut settings = broker.settings(of_other);
    FleetOperator::create(settings.fleet.as_ref().unwrap()).unwrap();
    let fleet = Fleet::join(&mut settings).unwrap();
    let store = fleet.stores()(&settings.sessions[0], 1).unwrap().unwrap();
    assert_eq!(store.numbers().next_out, 1, "the stream FIX has messages of the session");
    let operator = FleetOperator::connect(settings.fleet.as_ref().unwrap()).unwrap();
    let begin = clock::now().monotonic_ns;
    operator.gateways().unwrap();
    assert!(clock::now().monotonic_ns - begin >= 700_000_000);
    broker.serves(of_other);
}

/// Brokers report whether they sync every write, if the account may ask.
#[test]
fn brokers_that_do_not_sync_are_refused_if_they_report_it() {
    let access = "user = 'desk'\npassword = 'sesame'";
    Broker::start(ACCOUNTS).serves(access);
    let lazy = Broker::with_sync("n1", "2m", ACCOUNTS);
    FleetOperator::create(lazy.settings(access).fleet.as_ref().unwrap()).unwrap_err();
    lazy.refuses(access, &["the broker n1 may lose acknowledged commits", "sync_interval: always"]);
    // An account that may not ask.
    Broker::with_sync("n1", "2m", "").serves("");
}

#[test]
fn every_broker_of_a_stream_reports() {
    let routes = free_addresses();
    let urls = routes.each_ref().map(|route| format!("\"nats://{route}\"")).join(", ");
    let brokers: Vec<_> = [("n1", "always"), ("n2", "always"), ("n3", "2m")]
        .iter()
        .zip(&routes)
        .map(|((name, sync), route)| {
            let cluster = format!("{{ name: test, listen: {route:?}, routes: [ {urls} ] }}");
            Broker::with_sync(name, sync, &format!("cluster {cluster}\n{ACCOUNTS}"))
        })
        .collect();
    let mut settings = brokers[0].settings("user = 'desk'\npassword = 'sesame'");
    settings.fleet.as_mut().unwrap().replicas = 3;
    let begin = clock::now().monotonic_ns;
    loop {
        let fleet = settings.fleet.as_ref().unwrap();
        let refused = FleetOperator::create(fleet).unwrap_err().to_string();
        if refused.contains("the broker n3 may lose acknowledged commits") {
            break;
        }
        // The cluster needs some seconds for its first election.
        let passed = Duration::from_nanos(clock::now().monotonic_ns - begin);
        assert!(passed < 3 * LONG, "{refused}");
    }
}
