//! A measured server program, and its resource usage as the operating system reports it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::client::Client;

/// A running venue, or the floor (a bare echo server for comparison).
pub(super) struct Server {
    child: Child,
    pub(super) address: String,
    /// Time from the start until the server listens.
    pub(super) start: Duration,
}

impl Server {
    pub(super) fn venue(program: &Path, settings: &Path) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.args(["serve", "--quiet"]).arg(settings);
        Self::start(command, "listening at ")
    }

    /// Starts the floor: a single thread that waits in epoll, splits messages by BodyLength(9), and
    /// echoes them.
    pub(super) fn floor(program: &Path) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.args(["throughput", "--part", "floor", "--echo"]);
        command.args(["--address", "127.0.0.1:0"]);
        Self::start(command, "")
    }

    /// Starts the command, and waits for the line with its address; `told` is the text before the
    /// address.
    pub(super) fn start(mut command: Command, told: &str) -> Result<Self, String> {
        let begin = Instant::now();
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("{command:?}: {error}"))?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let address = loop {
            let Some(Ok(line)) = lines.next() else {
                let _ = child.wait();
                return Err(format!("{command:?} did not start"));
            };
            if let Some(address) = line.strip_prefix(told) {
                break address.to_owned();
            }
        };
        // This thread reads the remaining output, and ends with the program.
        thread::spawn(move || lines.for_each(drop));
        Ok(Self { child, address, start: begin.elapsed() })
    }

    fn path(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.child.id())
    }

    fn read(&self, file: &str) -> Result<String, String> {
        let path = self.path(file);
        fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
    }

    /// Returns the line `name` of `/proc/PID/status`, in KiB.
    pub(super) fn memory_kib(&self, name: &str) -> Result<u64, String> {
        let status = self.read("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        kib.ok_or_else(|| format!("no {name}"))
    }

    /// Returns the resident pages of mapped segments whose path contains `path`, in KiB.
    pub(super) fn mapped_kib(&self, path: &str) -> Result<u64, String> {
        let (mut kib, mut is_store) = (0, false);
        for line in self.read("smaps")?.lines() {
            // proc(5): the first line of a mapping begins with an address range and ends with the
            // file path.
            if line.split(' ').next().is_some_and(|word| word.contains('-')) {
                let is_segment = line.ends_with(".seg") || line.ends_with(".new");
                is_store = is_segment && line.contains(path);
            } else if let Some(rss) = line.strip_prefix("Rss:").filter(|_| is_store) {
                kib += rss.trim().trim_end_matches(" kB").parse().unwrap_or(0);
            }
        }
        Ok(kib)
    }

    pub(super) fn mappings(&self) -> Result<usize, String> {
        Ok(self.read("maps")?.lines().count())
    }

    pub(super) fn descriptors(&self) -> Result<usize, String> {
        let path = self.path("fd");
        Ok(fs::read_dir(&path).map_err(|error| format!("{path}: {error}"))?.count())
    }

    /// Returns the CPU time that all live threads have used.
    pub(super) fn cpu(&self) -> Result<Duration, String> {
        let mut ns = 0;
        let path = self.path("task");
        for task in fs::read_dir(&path).map_err(|error| format!("{path}: {error}"))?.flatten() {
            // proc(5): the first number is the time on a CPU, in nanoseconds.
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            ns += text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(Duration::from_nanos(ns))
    }

    /// Stops the server while these clients answer its Logout(5). Returns the duration of the stop.
    pub(super) fn stop(&mut self, clients: &mut [Client]) -> Result<Duration, String> {
        let begin = Instant::now();
        let pid = Pid::from_raw(self.child.id() as i32).ok_or("no process")?;
        kill_process(pid, Signal::TERM).map_err(|error| error.to_string())?;
        for client in clients {
            client.answer_logout()?;
        }
        let status = self.child.wait().map_err(|error| error.to_string())?;
        match status.success() {
            true => Ok(begin.elapsed()),
            false => Err(format!("the venue ended with {status}")),
        }
    }

    /// Kills the server without an orderly stop.
    pub(super) fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After an error the server may still run; a stopped server has already ended.
        self.end();
    }
}

/// Returns the disk space used by a directory and everything below it, in KiB.
pub(super) fn disk_kib(path: &Path) -> u64 {
    // `blocks` counts units of 512 bytes on every file system.
    let own = fs::symlink_metadata(path).map_or(0, |found| found.blocks() / 2);
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    own + entries.map(|entry| disk_kib(&entry.path())).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_counts_all_that_lies_there() {
        let dir = std::env::temp_dir().join(format!("transfix-disk-{}", std::process::id()));
        fs::create_dir_all(dir.join("within")).unwrap();
        let empty = disk_kib(&dir);
        fs::write(dir.join("within/file"), [1; 100_000]).unwrap();
        assert!((98..=128).contains(&(disk_kib(&dir) - empty)));
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(disk_kib(&dir), 0);
    }
}
