//! Runs the codec of another engine as a separate process, which runs operations on request.
//!
//! The only argument of the process is a folder with the messages, one per line, and the
//! dictionaries. The process checks its own results, then prints `ready NAME OPERATION…`, where
//! `-SET` among the operations names an unsupported set. The process answers each line
//! `OPERATION SET N` with the total nanoseconds of N operations, and exits at the end of its input.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::operation::{Operation, Set};
use crate::ours::Ours;
use crate::workload::S4B;

/// The process of another engine's codec, ready to run operations.
pub struct Peer {
    name: String,
    operations: Vec<Operation>,
    unknown_sets: Vec<Set>,
    child: Child,
    input: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Peer {
    fn start(name: &str, command: &mut Command) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{name}: {error}"))?;
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        let mut peer = Self {
            name: name.to_owned(),
            operations: Vec::new(),
            unknown_sets: Vec::new(),
            child,
            input,
            lines,
        };
        let line = peer.line()?;
        let mut words = line.split_whitespace();
        if words.next() != Some("ready") {
            return Err(format!("{name} said {line:?} instead of ready"));
        }
        peer.name = words.next().ok_or("gave no name")?.to_owned();
        for word in words {
            match word.strip_prefix('-') {
                Some(set) => peer.unknown_sets.extend(Set::named(set)),
                None => peer.operations.extend(Operation::named(word)),
            }
        }
        Ok(peer)
    }

    /// Returns the name and version of the engine.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if the peer supports `operation` on messages of `set`.
    #[must_use]
    pub fn knows(&self, operation: Operation, set: Set) -> bool {
        self.operations.contains(&operation) && !self.unknown_sets.contains(&set)
    }

    /// Runs `operation` `n` times. Returns the total nanoseconds.
    ///
    /// # Errors
    /// If the process ended or sent an invalid answer.
    pub fn run(&mut self, operation: Operation, set: Set, n: u64) -> Result<u64, String> {
        let input = self.input.as_mut().ok_or("no standard input")?;
        writeln!(input, "{} {} {n}", operation.name(), set.name())
            .and_then(|()| input.flush())
            .map_err(|error| format!("{}: {error}", self.name))?;
        let line = self.line()?;
        line.parse().map_err(|_| format!("{} said {line:?} to {}", self.name, operation.name()))
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => Err(format!("{} ended; its error is above", self.name)),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.input.take());
        // The process normally exits at the end of its input; killing covers a process that hangs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The started peers, and for each missing peer the reason.
#[derive(Default)]
pub struct Peers {
    /// The peers that can run operations.
    pub ready: Vec<Peer>,
    /// A line with the reason for each missing peer.
    pub missing: Vec<String>,
    folder: Option<PathBuf>,
}

/// Each engine with the files that `cargo xtask peers build` creates for it. A jar is started with
/// `java`.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("QuickFIX C++", &["qf_codec"]),
    ("QuickFIX/J", &["quickfixj.jar"]),
    ("hffix", &["hffix_codec"]),
    ("fixpp", &["fixpp_codec"]),
    ("rustyfix", &["rust_codecs", "rustyfix"]),
    ("ironfix", &["rust_codecs", "ironfix"]),
];

impl Peers {
    /// Starts all peers whose files exist in the folder `programs`.
    ///
    /// # Errors
    /// If their messages cannot be written.
    pub fn start(programs: &Path, ours: &Ours) -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("transfix-peers-{}", std::process::id()));
        write_workload(&folder, ours).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut peers = Self::default();
        peers.folder = Some(folder.clone());
        for (name, program) in PROGRAMS {
            let path = programs.join(program[0]);
            if !path.exists() {
                let path = path.display();
                peers.missing.push(format!(
                    "not run: {name}; {path} is not there, `cargo xtask peers build` makes it"
                ));
                continue;
            }
            let mut command = command_for(&path);
            command.args(&program[1..]).arg(&folder);
            match Peer::start(name, &mut command) {
                Ok(peer) => peers.ready.push(peer),
                Err(error) => peers.missing.push(format!("not run: {error}")),
            }
        }
        Ok(peers)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            // If the removal fails, the folder stays in the directory for temporary files.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn command_for(path: &Path) -> Command {
    if path.extension().is_some_and(|extension| extension == "jar") {
        let mut java = Command::new("java");
        java.arg("-jar").arg(path);
        return java;
    }
    Command::new(path)
}

fn write_workload(folder: &Path, ours: &Ours) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(folder)?;
    for set in Set::ALL {
        let mut text = Vec::new();
        for frame in ours.frames(set) {
            text.extend_from_slice(frame);
            text.push(b'\n');
        }
        std::fs::write(folder.join(set.name()), text)?;
    }
    for (name, frame) in
        [("s4b", S4B), ("heartbeat", ours.heartbeat()), ("snapshot", ours.snapshot())]
    {
        std::fs::write(folder.join(name), [frame, b"\n"].concat())?;
    }
    for name in ["FIX42", "FIX44"] {
        let (_, text) = transfix_dictionary::standard_text(name)?;
        std::fs::write(folder.join(format!("{name}.xml")), text)?;
    }
    Ok(())
}
