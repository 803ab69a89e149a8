//! Real servers, one per test: each in its own directory with its own socket, stopped when the
//! value is dropped.

use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use transfix_store::{Store, StoreError};
use transfix_stores::{PostgresStore, RedisStore};
use transfix_testkit::temp::TempDir;

/// A database server with stores of sessions.
pub trait Server: Send + Sync {
    /// Opens the store of a session.
    fn open(&self, name: &str, now_ns: u64) -> Result<Box<dyn Store>, StoreError>;

    /// Cuts every connection.
    fn cut(&self);

    /// Returns the process id of the server's first process.
    fn process(&self) -> u32;

    /// Suspends or resumes the server's processes.
    fn signal(&self, signal: &str) {
        for process in family(self.process()) {
            let process = process.to_string();
            let status = Command::new("kill").args(["-s", signal, &process]).status().unwrap();
            assert!(status.success());
        }
    }

    /// Returns the name of a session that was never opened.
    fn fresh_name(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        format!("FIX.4.4:VENUE->CLIENT{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Returns a process and its children.
fn family(first: u32) -> Vec<u32> {
    let mut all = vec![first];
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The state and the parent follow the name, which may contain anything.
        let behind = stat.rsplit(')').next().unwrap_or_default();
        let parent = behind.split_whitespace().nth(1).and_then(|parent| parent.parse().ok());
        if parent == Some(first) {
            all.push(process);
        }
    }
    all
}

/// PostgreSQL, as Debian packages it or on the path.
pub struct Postgres {
    dir: TempDir,
    bin: PathBuf,
}

impl Postgres {
    pub fn start() -> Self {
        let dir = TempDir::new();
        let bin = postgres_bin();
        if let Some((user, group)) = postgres_user() {
            chown(dir.path(), Some(user), Some(group)).unwrap();
        }
        let server = Self { dir, bin };
        let data = server.data();
        server.run("initdb", &["-D", &data, "-U", "fix", "-A", "trust", "--no-sync"]);
        let options = format!(
            "-c listen_addresses='' -c unix_socket_directories='{}' -c fsync=off",
            server.dir.path().display()
        );
        let log = format!("{data}/log");
        server.run("pg_ctl", &["-D", &data, "-o", &options, "-l", &log, "-w", "start"]);
        server
    }

    fn data(&self) -> String {
        self.dir.path().join("data").display().to_string()
    }

    pub fn config(&self) -> String {
        format!("host={} user=fix dbname=postgres", self.dir.path().display())
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = Command::new(self.bin.join(program));
        command.args(arguments).current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // PostgreSQL refuses to run as root.
        if let Some((user, group)) = postgres_user() {
            command.uid(user).gid(group);
        }
        let errors = self.dir.path().join("errors");
        command.stderr(File::create(&errors).unwrap());
        let status = command.status().unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(status.success(), "{program}: {}", fs::read_to_string(errors).unwrap_or_default());
    }
}

impl Server for Postgres {
    fn open(&self, name: &str, now_ns: u64) -> Result<Box<dyn Store>, StoreError> {
        Ok(Box::new(PostgresStore::open(&self.config(), name, now_ns)?))
    }

    fn cut(&self) {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        let config = self.config();
        self.run("psql", &["-d", &config, "-c", sql]);
    }

    fn process(&self) -> u32 {
        let file = fs::read_to_string(format!("{}/postmaster.pid", self.data())).unwrap();
        file.lines().next().unwrap().parse().unwrap()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.run("pg_ctl", &["-D", &self.data(), "-m", "immediate", "-w", "stop"]);
    }
}

/// Debian installs the server's programs outside the path, in a directory for each version.
fn postgres_bin() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|version| version.path().join("bin")).max();
    newest.filter(|bin| bin.join("pg_ctl").exists()).unwrap_or_default()
}

/// Returns the user and group for the server, if the test runs as root.
fn postgres_user() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse::<u32>().ok()
    };
    if id(&["-u"]) != Some(0) {
        return None;
    }
    Some((id(&["-u", "postgres"])?, id(&["-g", "postgres"])?))
}

/// Redis, as Debian packages it.
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

    fn cut(&self) {
        let mut command = Command::new("redis-cli");
        command.arg("-s").arg(self.dir.path().join("socket"));
        let status = command.args(["client", "kill", "type", "normal"]).status().unwrap();
        assert!(status.success());
    }

    fn process(&self) -> u32 {
        self.server.id()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
