//! Tests reloads of each key, in settings that use every feature: no session is lost, whether the
//! new value is valid or not.
//!
//! Invariant: the keys come from the tables that read settings files, so a new key is tested too.

use std::iter;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use toml::{Table, Value};
use transfix::{
    Changes, Durability, Engine, OperateError, Reloaded, Role, SessionId, SessionSettings, Settings,
};
use transfix_testkit::certificates::{Authority, Signed, Valid};
use transfix_testkit::temp::TempDir;

use crate::settings_page::PARTS;
use crate::switches::dynamic::{day, until};
use crate::switches::{echo, venue};

/// The addresses at which the acceptors of these settings listen.
const PLAIN: &str = "127.77.3.1:4100";
const SECURE: &str = "127.77.3.1:4101";
const TEMPLATE: &str = "127.77.3.1:4102";

/// The keys that this test cannot set, because they need a cargo feature or a scenario file, or
/// because `user` excludes them.
const NOT_TRIED: [&str; 4] = ["compress", "scenario", "credentials", "nkey"];

/// Returns valid values for a key whose values do not follow from its form.
fn examples(key: &str, files: &Files) -> Vec<Value> {
    let text = match key {
        "address" => "'127.77.3.1:4109'",
        "allow_from" | "proxy_protocol_from" => "['127.0.0.0/8']",
        "addresses" => "['127.77.3.1:9']",
        "local_address" => "'127.0.0.1'",
        "header_fields" => "['115=X']",
        "body_fields" => "['58=x']",
        "fields" => "['58=x']",
        "reset_at" => "'17:00:00'",
        "throttles" => {
            "[{ msg_type = 'F', messages_max = 9, interval_ms = 9, action = 'disconnect' }]"
        }
        "msg_type" => "'G'",
        "checks" => "{ codes = false }",
        "dictionary" => "'FIX44'",
        "session_dictionary" => "'FIXT11'",
        "appl_versions" => "{ 4 = 'FIX42' }",
        "default_appl_ver_id" => "9",
        "begin_string" => "'FIX.4.3'",
        "base" => "'FIX43'",
        "cpu" | "log_cpu" => "0",
        "cpus" | "helper_cpus" => "[0]",
        "dscp" => "10",
        "reset_at_zone" => "'Europe/London'",
        "zone" => "'Europe/London'",
        "days" => "'mon-sun'",
        "from" => "'00:02'",
        "to" => "'23:59'",
        "open" => "'2 0 * * SUN'",
        "close" => "'59 23 * * SAT'",
        "windows" => "[{ days = 'mon-sun', from = '00:03', to = '23:53' }]",
        "outside" => "{ reject = 'closed' }",
        "syslog" => "'/dev/log'",
        "journald" => "'/run/systemd/journal/socket'",
        "holidays" => "['2031-01-01']",
        "levels" => "'debug'",
        "brokers" => "['127.0.0.1:4223']",
        "logon" => "{ quiet = true }",
        "numbers" => "{ next_expected = true }",
        "resend" => "{ request_max = 7 }",
        "timing" => "{ margin_ms = 7 }",
        "unavailable" => "{ retries = 7 }",
        "application" => "{ messages_max = 7 }",
        "retention" => "{ rotate_every_h = 7 }",
        "fix" => "{ sessions_max = 7 }",
        "expected_password_hash" => HASH,
        "store_dir" | "dir" | "archive_dir" => {
            return vec![Value::from(shown(&files.dir.path().join("elsewhere")))];
        }
        "overlays" => return vec![Value::from(vec![files.overlay.clone()])],
        "ca" => return vec![Value::from(vec![files.other_ca.clone()])],
        "crl" => return vec![Value::from(vec![files.crl.clone()])],
        "certificate" => return vec![Value::from(shown(&files.copied.certificate))],
        "key" => return vec![Value::from(shown(&files.copied.key))],
        "more_certificates" => {
            let mut more = Table::new();
            more.insert("certificate".into(), shown(&files.other.certificate).into());
            more.insert("key".into(), shown(&files.other.key).into());
            return vec![Value::from(vec![more])];
        }
        "peer" => return vec![Value::from(vec!["ab".repeat(32)])],
        _ => return Vec::new(),
    };
    let table: Table = toml::from_str(&format!("value = {text}")).unwrap();
    vec![table["value"].clone()]
}

/// The hash of password `x`.
const HASH: &str = "'$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzYWx0$\
    5pFn3rJTFfcFmuBTEyFTqRJ2nMUFXMmjTLxkBUPxqfs'";

/// Returns values that follow from the form of a key in the reference.
fn guesses(part: &str, key: &str) -> Vec<Value> {
    let name = if part.is_empty() { key.to_owned() } else { format!("{part}.{key}") };
    let reference = Settings::reference(Some(&name)).or_else(|_| Settings::reference(Some(key)));
    let reference = reference.unwrap();
    let line = reference.lines().find(|line| line.starts_with(&format!("  {key} ("))).unwrap();
    let form = line.split_once('(').unwrap().1;
    let (list, form) = match form.strip_prefix("list of: ") {
        Some(form) => (true, form),
        None => (false, form),
    };
    let mut values: Vec<Value> = if form.starts_with("true | false") {
        vec![true.into(), false.into()]
    } else if form.starts_with("whole number") {
        let bounds = form.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
        let near = bounds.flat_map(|bound: i64| [bound + 1, bound * 2, bound - 1]);
        near.filter(|n| *n >= 0).chain([1, 2, 100, 5_000]).map(Value::from).collect()
    } else if form.starts_with('"') {
        let words = form.split(';').next().unwrap().split('"').skip(1).step_by(2);
        words.map(Value::from).collect()
    } else {
        vec!["x".into(), "12".into()]
    };
    if list {
        values = values.into_iter().map(|value| Value::from(vec![value])).collect();
        values.push(Value::Array(Vec::new()));
    }
    values
}

/// Files that the settings name.
struct Files {
    dir: TempDir,
    own: Signed,
    /// The same certificate in another file.
    copied: Signed,
    other: Signed,
    ca: String,
    other_ca: String,
    crl: String,
    overlay: String,
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

impl Files {
    fn new() -> Self {
        let dir = TempDir::new();
        let authority = Authority::new(dir.path(), "authority");
        let other_ca = Authority::new(dir.path(), "another");
        let own = authority.sign(&["localhost"], 2, Valid::Now);
        let copied = own.with(&dir.path().join("copy.pem"), &dir.path().join("copy.key"));
        std::fs::copy(&own.certificate, &copied.certificate).unwrap();
        std::fs::copy(&own.key, &copied.key).unwrap();
        let other = authority.sign(&["other"], 3, Valid::Now);
        let overlay = dir.path().join("overlay.xml");
        let text = "<fix><fields><field number='9001' name='Own' type='INT'/></fields></fix>";
        std::fs::write(&overlay, text).unwrap();
        let crl = shown(&authority.revoke(&[]));
        let (ca, other_ca) = (shown(&authority.ca), shown(&other_ca.ca));
        Self { own, copied, other, ca, other_ca, crl, overlay: shown(&overlay), dir }
    }

    /// Returns settings with every feature switched on.
    fn base(&self) -> Table {
        let dir = shown(self.dir.path());
        let Signed { certificate, key, .. } = &self.own;
        let (certificate, key) = (shown(certificate), shown(key));
        let text = format!(
            r#"
            [engine]
            application_threads = 1
            workers = 1
            audit_file = "{dir}/audit"
            [admin]
            certificate = "{certificate}"
            key = "{key}"
            [admin.fix]
            [events]
            [fleet]
            gateway = "a"
            brokers = ["127.0.0.1:4222"]
            user = "desk"
            certificate = "{certificate}"
            key = "{key}"
            [defaults]
            begin_string = "FIX.4.4"
            sender_comp_id = "VENUE"
            store_dir = "{dir}/store"
            durability = "process"
            keep_inbound = true
            offline = "queue"
            validate = false
            reset_on = ["logon"]
            dictionary = {{ base = "FIX44" }}
            header_fields = ["116=X"]
            tcp_keepalive_s = 60
            throttles = [
                {{ msg_type = "F", messages_max = 1, interval_ms = 1, action = "reject" }}
            ]
            log = {{ dir = "{dir}/log", mask = [58], write_every_ms = 60000 }}
            retention = {{ archive_dir = "{dir}/archive", rotate_every_h = 1 }}
            "#
        );
        let mut base: Table = toml::from_str(&(text + &self.sessions())).unwrap();
        // Copies the defaults into each session, because a default table would be merged with a
        // changed one.
        let defaults = base.remove("defaults").unwrap();
        for session in base["session"].as_array_mut().unwrap() {
            let session = session.as_table_mut().unwrap();
            for (key, value) in defaults.as_table().unwrap() {
                session.entry(key.clone()).or_insert(value.clone());
            }
        }
        base
    }

    /// Returns one session of each kind.
    fn sessions(&self) -> String {
        let Signed { certificate, key, .. } = &self.own;
        let (certificate, key, ca) = (shown(certificate), shown(key), &self.ca);
        format!(
            r#"
            [[session]]
            role = "acceptor"
            target_comp_id = "CLIENT"
            address = "{PLAIN}"
            [[session]]
            role = "acceptor"
            validate = true
            target_comp_id = "SECURE"
            address = "{SECURE}"
            mode = "dedicated"
            [session.tls]
            certificate = "{certificate}"
            key = "{key}"
            ca = ["{ca}"]
            client_certificate = "optional"
            [session.schedule]
            zone = "UTC"
            numbers = "keep"
            windows = [{{ open = "1 0 * * SUN", close = "58 23 * * SAT" }}]
            [[session]]
            role = "initiator"
            target_comp_id = "NORTH"
            address = "127.77.3.1:1"
            tls = {{ ca = ["{ca}"], server_name = "localhost" }}
            proxy = {{ kind = "http", address = "127.77.3.1:2", username = "u", password = "p" }}
            schedule.zone = "UTC"
            schedule.windows = [{{ days = "mon-sun", from = "00:01", to = "23:57" }}]
            offline = "store"
            reset_on = []
            failover = {{ addresses = ["127.77.3.1:3"], own_store = true }}
            [[session]]
            role = "initiator"
            begin_string = "FIXT.1.1"
            default_appl_ver_id = 9
            dictionary = "FIX50SP2"
            target_comp_id = "SOUTH"
            address = "127.77.3.1:4"
            offline = "refuse"
            retention = {{ bytes_max = 20000000 }}
            failover = {{ addresses = ["127.77.3.1:5"] }}
            schedule = {{ zone = "UTC", days = "mon-sun", from = "00:00", to = "23:58" }}
            [[session]]
            role = "acceptor"
            target_comp_id = "*"
            address = "{TEMPLATE}"
            "#
        )
    }
}

/// Returns the table that contains the keys of a part.
fn table_of<'t>(root: &'t mut Table, session: usize, path: &[&str]) -> Option<&'t mut Table> {
    let section = path.first().and_then(|name| name.strip_prefix('[')?.strip_suffix(']'));
    let (mut table, path) = match section {
        Some(section) => {
            let mut table = root;
            for name in section.split('.') {
                table = table.get_mut(name)?.as_table_mut()?;
            }
            return Some(table);
        }
        None => (root.get_mut("session")?.as_array_mut()?[session].as_table_mut()?, path),
    };
    for name in path {
        let inner = table.entry((*name).to_owned()).or_insert(Value::Table(Table::new()));
        table = match inner {
            Value::Array(several) => several.first_mut()?.as_table_mut()?,
            one => one.as_table_mut()?,
        };
    }
    Some(table)
}

fn parse(root: &Table) -> Result<Settings, String> {
    let text = toml::to_string(root).unwrap();
    Settings::parse("reload.toml", &text).map_err(|error| error.to_string())
}

/// Returns the settings with another value of the key in each of these sessions that may have the
/// key. The value `None` removes the key.
fn with(
    base: &Table,
    sessions: Range<usize>,
    (path, key, value): (&[&str], &str, Option<&Value>),
) -> Result<Settings, String> {
    let from = parse(base)?;
    let changed = |root: &Table, sessions: Range<usize>| {
        let mut root = root.clone();
        for session in sessions {
            let table = table_of(&mut root, session, path).ok_or("no such table")?;
            match value {
                Some(value) => _ = table.insert(key.to_owned(), value.clone()),
                None => _ = table.remove(key),
            }
        }
        parse(&root).map(|_| root)
    };
    let mut why = "nothing changes".to_owned();
    let mut root = base.clone();
    match changed(base, sessions.clone()) {
        Ok(all) => root = all,
        Err(_) => {
            for session in sessions {
                match changed(&root, session..session + 1) {
                    Ok(more) => root = more,
                    Err(error) => why = error,
                }
            }
        }
    }
    let to = parse(&root)?;
    if Changes::between(&from, &to).is_empty() { Err(why) } else { Ok(to) }
}

/// Returns true for a template, which has neither a store nor a handle.
fn is_template(session: &SessionSettings) -> bool {
    session.role == Role::Acceptor && session.target_comp_id == "*"
}

/// The engine under test and its current settings.
struct Subject {
    engine: Engine,
    now: Settings,
}

impl Subject {
    fn reload(&mut self, to: &Settings) -> Result<Reloaded, String> {
        let before = self.now.clone();
        let done = self.engine.reload(&self.now, to, Duration::ZERO, |_| Box::new(echo()));
        let done = done.map_err(|error| error.to_string());
        if let Ok(done) = &done {
            self.now = done.settings.clone();
        }
        let failed = |id: &SessionId| {
            done.as_ref().is_ok_and(|done| done.failed.iter().any(|(failed, _)| failed == id))
        };
        // A session that cannot restart continues with its old settings, and the other sessions
        // stay.
        let expected = match &done {
            Err(_) => before.sessions,
            Ok(_) => {
                let old = |new: &SessionSettings| {
                    before.sessions.iter().find(|old| old.id() == new.id()).cloned()
                };
                let runs = |new: &SessionSettings| match failed(&new.id()) {
                    true => old(new),
                    false => Some(new.clone()),
                };
                to.sessions.iter().filter_map(runs).collect()
            }
        };
        for session in &expected {
            let id = session.id();
            let Some(handle) = self.engine.session(&id) else {
                let failed = done.as_ref().map(|done| &done.failed);
                assert!(is_template(session), "{id} is gone: {failed:?}");
                continue;
            };
            let runs = Settings::of(handle.settings().clone());
            let changes = Changes::between(&runs, &Settings::of(session.clone()));
            assert!(changes.is_empty(), "{id} runs with something else: {changes}");
        }
        done
    }
}

#[test]
fn a_reload_of_every_key_loses_no_session() {
    let files = Files::new();
    let base = files.base();
    let from = parse(&base).unwrap();
    // An engine without the stores of a fleet refuses to start with `[fleet]`.
    let alone = Settings { fleet: None, ..from.clone() };
    let builder = Engine::builder(&alone).admit(|_| Some(Box::new(echo())));
    let engine = builder.start(|_| Box::new(echo())).unwrap();
    let mut subject = Subject { engine, now: from.clone() };
    std::fs::write(files.dir.path().join("file"), "").unwrap();
    let [plain, template]: [SocketAddr; 2] = [PLAIN, TEMPLATE].map(|at| at.parse().unwrap());
    let mut untried = Vec::new();
    for part in PARTS {
        let table = part.path.last().map_or("", |name| name.trim_matches(['[', ']']));
        for key in part.keys {
            // The words of a list, or the keys of a table.
            let (path, name, mut values): (&[&str], _, Vec<_>) = match table {
                "reset_on" => (&[], "reset_on", vec![Some(Value::from(vec![key.name]))]),
                _ => {
                    let values = examples(key.name, &files).into_iter();
                    let values = values.chain(guesses(table, key.name));
                    (part.path, key.name, values.map(Some).collect())
                }
            };
            values.push(None);
            if NOT_TRIED.contains(&key.name) {
                continue;
            }
            let mut why = String::new();
            let count = from.sessions.len();
            let tried = values.iter().any(|value| {
                let mut ranges = iter::once(0..count).chain((0..count).map(|one| one..one + 1));
                ranges.any(|sessions| {
                    let change = (path, name, value.as_ref());
                    // A session that cannot restart with this value continues with its old
                    // settings.
                    let done = with(&base, sessions, change).and_then(|to| subject.reload(&to));
                    done.map_err(|error| why = error).is_ok()
                })
            });
            if !tried {
                untried.push(format!("{table}.{}: {why}", key.name));
                continue;
            }
            // Reloads settings with which no store can be opened; each session must continue with
            // its old settings.
            let mut broken = subject.now.clone();
            for session in &mut broken.sessions {
                session.store.store_dir = files.dir.path().join("file");
                session.store.durability = Durability::Process;
                session.timing.margin += Duration::from_millis(1);
            }
            let done = subject.reload(&broken).unwrap();
            let refused = broken.sessions.iter().filter(|session| !is_template(session)).count();
            assert_eq!(done.failed.len(), refused, "{table}.{}", key.name);
        }
        // Reloads the original settings, with which both counterparties can trade again.
        let done = subject.reload(&from).unwrap();
        assert!(done.failed.is_empty(), "{table}: {:?}", done.failed);
        for (name, at) in [("CLIENT", plain), ("MADE", template)] {
            let answer = day(at, name, 1);
            assert!(answer[1].starts_with("35=D|"), "{table}: {answer:?}");
        }
        remove(&mut subject.engine, "MADE");
    }
    assert!(untried.is_empty(), "give these keys an example: {}", untried.join("\n"));
}

/// Removes a session made from a template, so that its name and files become free.
fn remove(engine: &mut Engine, name: &str) {
    let id = SessionId::new(transfix::BeginString::Fix44, "VENUE", name);
    let removed = engine.remove(&id, "", Duration::ZERO);
    assert!(!matches!(removed, Err(OperateError::NoSession)), "{name}");
}

fn acceptor(at: &str, name: &str, dir: &TempDir) -> SessionSettings {
    venue(|session| {
        session.address = at.to_owned();
        session.target_comp_id = name.to_owned();
        session.store.store_dir = dir.path().join("store");
        session.store.durability = Durability::Process;
        session.protocol.reset_on.logon = true;
    })
}

/// Returns the settings changed so that no store can be opened.
fn broken(settings: &Settings, names: &[&str], dir: &TempDir) -> Settings {
    std::fs::write(dir.path().join("file"), "").unwrap();
    let mut broken = settings.clone();
    for session in &mut broken.sessions {
        if names.contains(&&*session.target_comp_id) {
            session.store.store_dir = dir.path().join("file");
        }
    }
    broken
}

#[test]
fn a_session_runs_as_before_where_its_log_cannot_be_opened_any_more() {
    let dir = TempDir::new();
    let log = dir.path().join("log");
    let mut session = acceptor("127.77.3.2:4100", "CLIENT", &dir);
    session.log = Some(transfix::LogSettings::in_dir(&log));
    let from = Settings::of(session);
    let mut engine = Engine::start(&from, |_| Box::new(echo())).unwrap();
    let at = engine.listening()[0];
    // A file occupies the path of the log directory.
    std::fs::rename(&log, dir.path().join("away")).unwrap();
    std::fs::write(&log, "").unwrap();
    let done = engine
        .reload(&from, &broken(&from, &["CLIENT"], &dir), Duration::ZERO, |_| Box::new(echo()));
    assert_eq!(done.unwrap().settings.sessions.len(), 1);
    assert_eq!(day(at, "CLIENT", 1)[1], "35=D|34=2|11=a");
    // The waiting lines are written as soon as the directory can be created.
    std::fs::remove_file(&log).unwrap();
    let lines = log.join("FIX.4.4-VENUE-CLIENT.in.log");
    until(|| std::fs::read_to_string(&lines).is_ok_and(|text| text.contains("\u{1}11=a")));
}

#[test]
fn a_session_comes_back_to_an_address_whose_other_sessions_have_changed() {
    let dir = TempDir::new();
    let names = ["CLIENT", "OTHER"];
    let sessions = names.map(|name| acceptor("127.77.3.2:4101", name, &dir)).to_vec();
    let from = Settings { sessions, ..Settings::default() };
    let mut engine = Engine::start(&from, |_| Box::new(echo())).unwrap();
    let at = engine.listening()[0];
    let mut to = broken(&from, &["OTHER"], &dir);
    for session in &mut to.sessions {
        session.proxy_protocol_from = vec!["192.0.2.1".to_owned()];
    }
    let done = engine.reload(&from, &to, Duration::ZERO, |_| Box::new(echo())).unwrap();
    assert_eq!((done.failed.len(), done.settings.sessions.len()), (1, 2));
    for name in names {
        assert_eq!(day(at, name, 1)[1], "35=D|34=2|11=a");
    }
}
