//! Runs one side of a benchmark in a separate process, reads its output line by line, and ends the
//! process when dropped.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// A running process of one side.
pub(super) struct Side {
    name: String,
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Side {
    /// Starts `command`; `name` identifies it in errors.
    pub(super) fn start(name: &str, command: &mut Command) -> Result<Self, String> {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{name} cannot be started: {error}"))?;
        let out = child.stdout.take().ok_or("no standard output")?;
        Ok(Self { name: name.to_owned(), child, lines: BufReader::new(out) })
    }

    /// Returns the next line of the process's output.
    pub(super) fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => Err(format!("{} ended too early; its error is above", self.name)),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the line that the process prints when ready. Waits at most 30 seconds.
    pub(super) fn first_line(&mut self) -> Result<String, String> {
        if !self.lines.buffer().is_empty() {
            return self.line();
        }
        let out = self.lines.get_ref();
        let mut ready = [PollFd::new(out, PollFlags::IN)];
        let time = Timespec { tv_sec: READY_S, tv_nsec: 0 };
        match poll(&mut ready, Some(&time)) {
            Ok(0) => Err(format!("{} is not ready after {READY_S} s", self.name)),
            Ok(_) => self.line(),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Sends a line to the process, whose standard input must be a pipe.
    pub(super) fn say(&mut self, line: &str) -> Result<(), String> {
        let input = self.child.stdin.as_mut().ok_or("no standard input")?;
        // The line and its end are written in one call, because a process may exit after the first
        // byte of its command.
        let line = format!("{line}\n");
        input.write_all(line.as_bytes()).map_err(|error| format!("{}: {error}", self.name))
    }

    /// Suspends the process until [`Side::go_on`], so that it does not disturb the measurement of
    /// others.
    pub(super) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes the suspended process.
    pub(super) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        // A signal to an ended process fails; the error appears when the next line is read.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Returns the CPU time of all live threads of the process, in nanoseconds.
    pub(super) fn cpu_ns(&self) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let of = |task: std::fs::DirEntry| {
            // In `schedstat`, the first number is the time on a CPU in nanoseconds (proc(5)).
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        };
        tasks.into_iter().flatten().flatten().filter_map(of).sum()
    }

    /// Waits for the process to exit after its last line.
    pub(super) fn finish(mut self) -> Result<(), String> {
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", self.name)) }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // At the end of its input, the process removes its files and exits.
        if self.child.stdin.take().is_some() {
            self.go_on();
            if let Ok(ended) = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()) {
                let time = Timespec { tv_sec: ENDING_S, tv_nsec: 0 };
                let _ = poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&time));
            }
        }
        // The process has exited already, unless something failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Time limit in seconds for a process to print its first line.
const READY_S: i64 = 30;
/// Time limit in seconds for a process to exit.
const ENDING_S: i64 = 3;
