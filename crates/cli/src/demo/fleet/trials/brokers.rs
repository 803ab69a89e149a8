//! Three NATS servers as one cluster, which can be killed, restarted and damaged.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use transfix::clock::monotonic_ns;

/// Number of NATS servers, and of gateways.
pub(super) const COUNT: usize = 3;
/// Name of the stream.
pub(super) const STREAM: &str = "FIX";
/// Maximum time for a cluster to become complete.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval at which the state of the cluster is read.
const LOOK: Duration = Duration::from_millis(20);

pub(super) struct Brokers {
    program: PathBuf,
    dir: PathBuf,
    servers: [Option<Child>; COUNT],
    clients: [String; COUNT],
}

/// Returns addresses that no program uses now.
fn free_addresses() -> std::io::Result<[String; COUNT]> {
    // All listeners are open at the same time, so the addresses differ.
    let listeners = [(); COUNT].map(|()| TcpListener::bind("127.0.0.1:0"));
    let mut addresses = [const { String::new() }; COUNT];
    for (address, listener) in addresses.iter_mut().zip(listeners) {
        *address = listener?.local_addr()?.to_string();
    }
    Ok(addresses)
}

impl Brokers {
    pub(super) fn start(program: &Path, dir: &Path) -> Result<Self, String> {
        let addresses = || free_addresses().map_err(|error| format!("no free port: {error}"));
        let (clients, routes) = (addresses()?, addresses()?);
        let all = routes.each_ref().map(|route| format!("\"nats://{route}\"")).join(", ");
        for n in 0..COUNT {
            let config = format!(
                "server_name: n{n}\nlisten: {:?}\n\
                 jetstream {{ store_dir: {:?}, sync_interval: always }}\n\
                 cluster {{ name: demo, listen: {:?}, no_advertise: true, routes: [{all}] }}\n",
                clients[n],
                dir.join(format!("n{n}")),
                routes[n],
            );
            let path = dir.join(format!("n{n}.conf"));
            fs::write(&path, config).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let (program, dir) = (program.to_owned(), dir.to_owned());
        let mut brokers = Self { program, dir, servers: Default::default(), clients };
        (0..COUNT).try_for_each(|n| brokers.run(n))?;
        Ok(brokers)
    }

    /// Starts a server.
    pub(super) fn run(&mut self, n: usize) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        command.arg("-c").arg(self.dir.join(format!("n{n}.conf"))).current_dir(&self.dir);
        let log = self.dir.join(format!("n{n}.log"));
        let log = File::options().create(true).append(true).open(log);
        let log = log.map_err(|error| format!("n{n}.log: {error}"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let server = command.spawn();
        let server = server.map_err(|error| format!("{}: {error}", self.program.display()))?;
        self.servers[n] = Some(server);
        Ok(())
    }

    /// Kills a server, as `kill -9` does.
    pub(super) fn kill(&mut self, n: usize) {
        if let Some(mut server) = self.servers[n].take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    pub(super) fn process(&self, n: usize) -> Option<u32> {
        self.servers[n].as_ref().map(Child::id)
    }

    pub(super) const fn addresses(&self) -> &[String; COUNT] {
        &self.clients
    }

    /// Returns the files that contain the messages of the stream at a server.
    pub(super) fn message_files(&self, n: usize) -> Vec<PathBuf> {
        let dir = self.dir.join(format!("n{n}/jetstream/$G/streams/{STREAM}/msgs"));
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "blk")).collect()
    }

    /// Deletes the files of a stopped server.
    pub(super) fn forget_all(&self, n: usize) -> Result<(), String> {
        let dir = self.dir.join(format!("n{n}"));
        fs::remove_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))
    }

    /// Returns the server that leads the stream, as the servers report it.
    pub(super) fn leader(&self) -> Option<usize> {
        self.stream_info().and_then(|(leader, _)| leader)
    }

    /// Waits until the stream has a leader, and all servers have the whole stream.
    pub(super) fn settle(&self) -> Result<(), String> {
        let until = monotonic_ns() + PATIENCE.as_nanos() as u64;
        loop {
            if let Some((Some(_), COUNT)) = self.stream_info() {
                return Ok(());
            }
            if monotonic_ns() > until {
                return Err("the NATS servers have not become one complete cluster".to_owned());
            }
            super::pause(LOOK);
        }
    }

    /// Returns the leader of the stream, and the number of servers that have the whole stream.
    fn stream_info(&self) -> Option<(Option<usize>, usize)> {
        let running = (0..COUNT).filter(|n| self.servers[*n].is_some());
        running.filter_map(|n| self.info_of(n)).max_by_key(|(_, complete)| *complete)
    }

    /// Returns what one server knows; only the leader knows the state of the others.
    fn info_of(&self, n: usize) -> Option<(Option<usize>, usize)> {
        let text = self.request(n, &format!("$JS.API.STREAM.INFO.{STREAM}"), "")?;
        let answer: serde_json::Value = serde_json::from_str(&text).ok()?;
        let cluster = answer.get("cluster")?;
        let leader = cluster.get("leader").and_then(|name| name.as_str());
        let leader = leader.and_then(|name| name.strip_prefix('n')?.parse().ok());
        let replicas = cluster.get("replicas").and_then(|all| all.as_array());
        let is_complete = |replica: &&serde_json::Value| {
            let is = |key: &str| replica.get(key).and_then(serde_json::Value::as_bool);
            is("current") == Some(true) && is("offline") != Some(true)
        };
        let complete = replicas.into_iter().flatten().filter(is_complete).count();
        Some((leader, complete + usize::from(leader.is_some())))
    }

    /// Makes a server the leader of the stream.
    pub(super) fn lead(&self, n: usize) -> Result<(), String> {
        let until = monotonic_ns() + PATIENCE.as_nanos() as u64;
        while self.leader() != Some(n) {
            let wish = format!("{{\"placement\":{{\"preferred\":\"n{n}\"}}}}");
            self.request(n, &format!("$JS.API.STREAM.LEADER.STEPDOWN.{STREAM}"), &wish);
            if monotonic_ns() > until {
                return Err(format!("the NATS server n{n} has not become the leader"));
            }
            super::pause(10 * LOOK);
        }
        Ok(())
    }

    /// Sends a request through a server, by the text protocol of NATS. Returns the answer.
    fn request(&self, n: usize, subject: &str, text: &str) -> Option<String> {
        let stream = TcpStream::connect(&self.clients[n]).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
        let mut to = &stream;
        let begin = "CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB answer 1\r\n";
        let length = text.len();
        write!(to, "{begin}PUB {subject} answer {length}\r\n{text}\r\n").ok()?;
        let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
        lines.by_ref().find(|line| line.starts_with("MSG answer") || line.starts_with("HMSG"))?;
        lines.next()
    }

    /// Lets writes to the files of a server fail, as a full disk does, or succeed again.
    pub(super) fn fill_disk(&self, n: usize, is_full: bool) -> Result<(), String> {
        let Some(process) = self.process(n) else { return Ok(()) };
        let limit = if is_full { "--fsize=0:unlimited" } else { "--fsize=unlimited" };
        let done = Command::new("prlimit").args(["--pid", &process.to_string(), limit]).status();
        match done {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("prlimit: {status}")),
            Err(error) => Err(format!("prlimit: {error}")),
        }
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        (0..COUNT).for_each(|n| self.kill(n));
    }
}
