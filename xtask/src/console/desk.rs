//! The engines behind the console, which run in a process of the example `desk` of transfix-admin.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;

use crate::root;

/// The password of all users of the example.
pub(super) const PASSWORD: &str = "correct horse battery";

/// The running process of the example `desk`. Dropping this value ends the process.
pub(super) struct Desk {
    child: Child,
    pub(super) url: String,
    pub(super) count: usize,
}

impl Desk {
    pub(super) fn start(count: usize) -> Result<Self, String> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let mut command = Command::new(cargo);
        command.args(["run", "--quiet", "--package", "transfix-admin", "--example", "desk"]);
        command.args(["--", "--sessions", &count.to_string()]).current_dir(root());
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("cargo run --example desk: {error}"))?;
        let output = child.stdout.take().ok_or("the desk has no output")?;
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        let url = lines.find_map(|line| line.strip_prefix("console at ").map(str::to_owned));
        // The thread reads the remaining output, and ends with the process.
        thread::spawn(move || lines.for_each(drop));
        let desk = Self { child, url: url.unwrap_or_default(), count };
        if desk.url.is_empty() {
            return Err("the desk has not started: see above".to_owned());
        }
        Ok(desk)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // The process and its engines stop when their standard input ends.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
