//! Real database servers, one for each test: each in a directory of its own with its own socket,
//! and stopped when the value is dropped.

mod postgres;

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

pub use postgres::{Pair, Postgres, config};
use transfix_store::{Store, StoreError};
use transfix_stores::{ConnectOptions, JetStream, JetStreamStore, PostgresStore, RedisStore};
use transfix_testkit::temp::TempDir;

/// A database server that contains the stores of sessions.
pub trait Server: Send + Sync {
    /// Opens the store of a session.
    fn open(&self, name: &str, now_ns: u64) -> Result<Box<dyn Store>, StoreError>;

    /// Returns a text with which another process finds the server by [`stand_by`].
    fn place(&self) -> String;

    /// Opens the store of a session for a standby.
    fn stand_by(&self, name: &str, now_ns: u64) -> Result<Box<dyn Store>, StoreError> {
        stand_by(&self.place(), name, now_ns)
    }

    /// Returns the process id of the server's first process.
    fn process(&self) -> u32;

    /// Suspends or resumes the server's processes.
    fn signal(&self, signal: &str) {
        for process in family(self.process()) {
            let id = process.to_string();
            let output = Command::new("kill").args(["-s", signal, &id]).output().unwrap();
            // A child may have ended.
            assert!(output.status.success() || process != self.process());
        }
    }

    /// Returns the name of a session that was never opened.
    fn fresh_name(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        format!("FIX.4.4:VENUE->CLIENT{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Opens the store of a session for a standby, on the server at this place.
pub fn stand_by(place: &str, name: &str, now_ns: u64) -> Result<Box<dyn Store>, StoreError> {
    Ok(match place.split_once(' ').unwrap() {
        ("postgres", config) => Box::new(PostgresStore::stand_by(config, name, now_ns)?),
        ("redis", url) => Box::new(RedisStore::stand_by(url, name, now_ns)?),
        (_, urls) => {
            let brokers = JetStream::connect(urls, "FIX", ConnectOptions::new(), 3)?;
            Box::new(JetStreamStore::stand_by(&brokers, name, now_ns)?)
        }
    })
}

/// A server whose connections a test can end, and whose clients do not reconnect by themselves.
pub trait Disconnects: Server {
    /// Ends every connection.
    fn cut(&self);
}

/// Returns the process ids of a process and of its children.
fn family(first: u32) -> Vec<u32> {
    let mut all = vec![first];
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // State and parent follow the name of the process, which may contain any characters.
        let behind = stat.rsplit(')').next().unwrap_or_default();
        let parent = behind.split_whitespace().nth(1).and_then(|parent| parent.parse().ok());
        if parent == Some(first) {
            all.push(process);
        }
    }
    all
}

/// Redis, as packaged by Debian.
pub struct Redis {
    dir: TempDir,
    server: Child,
}

impl Redis {
    pub fn start() -> Self {
        let dir = TempDir::new();
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(dir.path().join("socket"));
        command.current_dir(dir.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let server = command.spawn().unwrap_or_else(|error| panic!("redis-server: {error}"));
        let redis = Self { dir, server };
        while !is_listening(&redis.dir.path().join("socket")) {
            std::thread::yield_now();
        }
        redis
    }

    pub fn url(&self) -> String {
        format!("unix://{}", self.dir.path().join("socket").display())
    }
}

fn is_listening(socket: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(socket).is_ok()
}

impl Server for Redis {
    fn open(&self, name: &str, now_ns: u64) -> Result<Box<dyn Store>, StoreError> {
        Ok(Box::new(RedisStore::open(&self.url(), name, now_ns)?))
    }

    fn place(&self) -> String {
        format!("redis {}", self.url())
    }

    fn process(&self) -> u32 {
        self.server.id()
    }
}

impl Disconnects for Redis {
    fn cut(&self) {
        let mut command = Command::new("redis-cli");
        command.arg("-s").arg(self.dir.path().join("socket"));
        let status = command.args(["client", "kill", "type", "normal"]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Three brokers of NATS with JetStream, as one cluster. Each syncs every write.
pub struct Nats {
    dir: TempDir,
    brokers: Vec<Mutex<Child>>,
    urls: String,
    connection: JetStream,
}

impl Nats {
    pub fn start() -> Self {
        let dir = TempDir::new();
        let (clients, routes) = (free_addresses(), free_addresses());
        for (number, (client, route)) in (1..).zip(clients.iter().zip(&routes)) {
            let config = format!(
                "server_name: n{number}
                listen: {client:?}
                jetstream {{ store_dir: {store:?}, sync_interval: always }}
                cluster {{ name: test, listen: {route:?}, routes: [{}] }}",
                routes.each_ref().map(|route| format!("\"nats://{route}\"")).join(", "),
                store = dir.path().join(format!("n{number}")),
            );
            fs::write(dir.path().join(format!("n{number}.conf")), config).unwrap();
        }
        let brokers = (1..=3).map(|number| Mutex::new(run_broker(dir.path(), number))).collect();
        let urls = clients.join(",");
        let connection = loop {
            // The cluster needs some seconds for its first election.
            if let Ok(connection) = JetStream::create(&urls, "FIX", ConnectOptions::new(), 3) {
                break connection;
            }
        };
        Self { dir, brokers, urls, connection }
    }

    /// Returns a connection of its own, as another process has.
    pub fn connect(&self, stream: &str, replicas: usize) -> Result<JetStream, StoreError> {
        JetStream::connect(&self.urls, stream, ConnectOptions::new(), replicas)
    }

    /// Returns the addresses of the brokers.
    pub fn urls(&self) -> &str {
        &self.urls
    }

    /// Kills a broker, 1 to 3, as `kill -9` does.
    pub fn kill(&self, number: usize) {
        let mut broker = self.brokers[number - 1].lock().unwrap();
        broker.kill().unwrap();
        broker.wait().unwrap();
    }

    /// Starts a killed broker at its former address, and waits until its copy of the stream is
    /// complete.
    pub fn restart(&self, number: usize) {
        *self.brokers[number - 1].lock().unwrap() = run_broker(self.dir.path(), number);
        loop {
            let info = self.request("$JS.API.STREAM.INFO.FIX", "");
            if info.matches("\"current\":true").count() == 2 && !info.contains("\"offline\":true") {
                break;
            }
        }
    }

    /// Publishes a message to the subject of a session, as a program that is not Transfix.
    pub fn publish(&self, session: &str, text: &str) {
        let answer = self.request(&subject(session), text);
        assert!(answer.contains("\"seq\""), "{answer}");
    }

    /// Returns the number of records of a session in the stream.
    pub fn records(&self, session: &str) -> u64 {
        let subject = subject(session);
        let filter = format!("{{\"subjects_filter\":{subject:?}}}");
        let info = self.request("$JS.API.STREAM.INFO.FIX", &filter);
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        info["state"]["subjects"][&subject].as_u64().unwrap_or_else(|| panic!("{info}"))
    }

    /// Creates a stream without replicas, with one setting as JSON.
    pub fn create_stream(&self, name: &str, setting: &str) {
        let subjects = match setting {
            subjects if subjects.contains("subjects") => String::new(),
            _ => format!(",\"subjects\":[\"{name}.>\"]"),
        };
        let discard = if setting.contains("discard") { "" } else { ",\"discard\":\"new\"" };
        let config =
            format!("{{\"name\":\"{name}\",\"allow_direct\":true,{setting}{subjects}{discard}}}");
        let answer = self.request(&format!("$JS.API.STREAM.CREATE.{name}"), &config);
        assert!(!answer.contains("\"error\""), "{answer}");
    }

    /// Sends a request to the brokers. Returns the answer, or an empty text without one.
    fn request(&self, subject: &str, text: &str) -> String {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let addresses: Vec<String> = self.urls.split(',').map(str::to_owned).collect();
            let Ok(client) = async_nats::connect(addresses).await else { return String::new() };
            let answer = client.request(subject.to_owned(), text.to_owned().into()).await;
            answer
                .map(|answer| String::from_utf8(answer.payload.to_vec()).unwrap())
                .unwrap_or_default()
        })
    }
}

fn subject(session: &str) -> String {
    let subject = session.replace('.', "%2E").replace(':', "%3A").replace('>', "%3E");
    format!("FIX.{subject}")
}

/// Returns three addresses that no process uses at present.
pub fn free_addresses() -> [String; 3] {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().to_string())
}

pub fn run_broker(dir: &Path, number: usize) -> Child {
    let mut command = Command::new("nats-server");
    command.arg("-c").arg(dir.join(format!("n{number}.conf"))).current_dir(dir);
    let log = File::create(dir.join(format!("n{number}.log"))).unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().unwrap_or_else(|error| panic!("nats-server: {error}"))
}

impl Server for Nats {
    fn open(&self, name: &str, now_ns: u64) -> Result<Box<dyn Store>, StoreError> {
        Ok(Box::new(JetStreamStore::open(&self.connection, name, now_ns)?))
    }

    fn place(&self) -> String {
        format!("nats {}", self.urls)
    }

    fn process(&self) -> u32 {
        self.brokers[0].lock().unwrap().id()
    }

    fn signal(&self, signal: &str) {
        for broker in &self.brokers {
            let broker = broker.lock().unwrap().id().to_string();
            let status = Command::new("kill").args(["-s", signal, &broker]).status().unwrap();
            assert!(status.success());
        }
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        for broker in &self.brokers {
            let mut broker = broker.lock().unwrap();
            let _ = broker.kill();
            let _ = broker.wait();
        }
    }
}
