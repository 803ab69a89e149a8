//! PostgreSQL: one server, and a primary with a synchronous standby.

use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use transfix_store::{Store, StoreError};
use transfix_stores::PostgresStore;
use transfix_testkit::temp::TempDir;

use super::{Disconnects, Server, family};

/// PostgreSQL, as packaged by Debian or found in the search path.
pub struct Postgres {
    dir: TempDir,
    bin: PathBuf,
}

impl Postgres {
    pub fn start() -> Self {
        let server = Self::new();
        server.initialize();
        server.serve("");
        server
    }

    fn new() -> Self {
        let dir = TempDir::new();
        if let Some((user, group)) = postgres_user() {
            chown(dir.path(), Some(user), Some(group)).unwrap();
        }
        Self { dir, bin: postgres_bin() }
    }

    fn initialize(&self) {
        self.run("initdb", &["-D", &self.data(), "-U", "fix", "-A", "trust", "--no-sync"]);
    }

    /// Starts the server with these options beside those that each test needs.
    fn serve(&self, options: &str) {
        let options = format!(
            "-c listen_addresses='' -c unix_socket_directories='{}' -c fsync=off \
             -c dynamic_shared_memory_type=mmap {options}",
            self.dir.path().display()
        );
        let (data, log) = (self.data(), format!("{}/log", self.data()));
        self.run("pg_ctl", &["-D", &data, "-o", &options, "-l", &log, "-w", "start"]);
    }

    /// Starts the server as the primary of a [`Pair`].
    pub fn serve_as_primary(&self) {
        self.serve("-c synchronous_standby_names=standby");
    }

    /// Makes the standby a primary.
    pub fn promote(&self) {
        self.run("pg_ctl", &["-D", &self.data(), "-w", "promote"]);
    }

    /// Kills every process of the server, as the loss of its machine does.
    pub fn kill(&self) {
        // Stopped processes start no others.
        self.signal("STOP");
        let processes = family(self.process());
        self.signal("KILL");
        while processes.iter().any(|process| Path::new(&format!("/proc/{process}")).exists()) {}
    }

    /// Executes this for each connection that waits for a synchronous standby; returns once there
    /// is such a connection.
    pub fn for_each_waiting(&self, sql: &str) {
        let sql = format!("SELECT {sql} FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
        while self.query(&sql).is_empty() {}
    }

    fn query(&self, sql: &str) -> String {
        self.run("psql", &["-d", &config(&[self]), "-At", "-o", "answer", "-c", sql]);
        fs::read_to_string(self.dir.path().join("answer")).unwrap()
    }

    fn data(&self) -> String {
        self.dir.path().join("data").display().to_string()
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let status = self.status(program, arguments);
        let errors = fs::read_to_string(self.dir.path().join("errors")).unwrap_or_default();
        assert!(status.success(), "{program}: {errors}");
    }

    fn status(&self, program: &str, arguments: &[&str]) -> ExitStatus {
        let mut command = Command::new(self.bin.join(program));
        command.args(arguments).current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // PostgreSQL refuses to run as root.
        if let Some((user, group)) = postgres_user() {
            command.uid(user).gid(group);
        }
        command.stderr(File::create(self.dir.path().join("errors")).unwrap());
        command.status().unwrap_or_else(|error| panic!("{program}: {error}"))
    }
}

impl Server for Postgres {
    fn open(&self, name: &str, now_ns: u64) -> Result<Box<dyn Store>, StoreError> {
        Ok(Box::new(PostgresStore::open(&config(&[self]), name, now_ns)?))
    }

    fn place(&self) -> String {
        format!("postgres {}", config(&[self]))
    }

    fn process(&self) -> u32 {
        let file = fs::read_to_string(format!("{}/postmaster.pid", self.data())).unwrap();
        file.lines().next().unwrap().parse().unwrap()
    }
}

impl Disconnects for Postgres {
    fn cut(&self) {
        self.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
        );
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // A failed test may leave the server stopped or killed.
        for process in family(self.process()) {
            let _ = Command::new("kill").args(["-s", "CONT", &process.to_string()]).output();
        }
        let _ = self.status("pg_ctl", &["-D", &self.data(), "-m", "immediate", "-w", "stop"]);
    }
}

/// Returns the configuration for connecting to the one of these servers that accepts writes.
pub fn config(servers: &[&Postgres]) -> String {
    let hosts = servers.iter().map(|server| server.dir.path().display().to_string());
    let hosts: Vec<_> = hosts.collect();
    format!("host={} user=fix dbname=postgres", hosts.join(","))
}

/// A primary and its synchronous standby.
pub struct Pair {
    pub primary: Postgres,
    pub standby: Postgres,
}

impl Pair {
    pub fn start() -> Self {
        let (primary, standby) = (Postgres::new(), Postgres::new());
        primary.initialize();
        primary.serve_as_primary();
        let (data, source) = (standby.data(), config(&[&primary]));
        standby.run("pg_basebackup", &["-D", &data, "-d", &source, "-R", "-c", "fast", "-N"]);
        standby.serve("-c cluster_name=standby");
        Self { primary, standby }
    }

    fn config(&self) -> String {
        config(&[&self.primary, &self.standby])
    }
}

impl Server for Pair {
    fn open(&self, name: &str, now_ns: u64) -> Result<Box<dyn Store>, StoreError> {
        Ok(Box::new(PostgresStore::open(&self.config(), name, now_ns)?))
    }

    fn place(&self) -> String {
        format!("postgres {}", self.config())
    }

    fn process(&self) -> u32 {
        self.primary.process()
    }
}

impl Disconnects for Pair {
    fn cut(&self) {
        self.primary.cut();
    }
}

/// Debian installs the server's programs outside the search path, in a directory for each version.
fn postgres_bin() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|version| version.path().join("bin")).max();
    newest.filter(|bin| bin.join("pg_ctl").exists()).unwrap_or_default()
}

/// Returns the user and group that run the server; `None` if the test does not run as root.
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
