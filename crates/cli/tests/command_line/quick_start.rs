//! Runs the code blocks of the pages "Quick start" and "Backup" in shells, in the order of the
//! page.
//!
//! The text of a page names the terminal of each block ("terminal 2"). The test types `sh` and
//! `client` blocks into that terminal. A `text` block is the expected output; `…` in it matches any
//! text. Invariant: the test runs the commands of the pages, with free ports instead of the fixed
//! ports.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Pid, Signal, kill_process_group};
use transfix_testkit::temp::TempDir;

use crate::command_line::running::PATIENCE;

/// Environment variable that names another build of the program, such as a release build.
const PROGRAM: &str = "TRANSFIX_PROGRAM";

/// The command that installs the program; the test skips it, because it takes minutes.
const INSTALL: &str = "cargo install --path crates/cli\n";

/// The use of a code block.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// Commands to type into the shell.
    Shell,
    /// Commands to type into the program that runs in the shell.
    Client,
    /// Output that the terminal must show.
    Shown,
}

#[derive(Debug)]
struct Block {
    terminal: usize,
    kind: Kind,
    text: String,
    /// The page name and the line number of the block.
    place: String,
}

/// Returns the blocks of a page, each with the terminal that the page named last.
fn blocks(name: &str, page: &str) -> Vec<Block> {
    let (mut found, mut terminal): (Vec<Block>, usize) = (Vec::new(), 0);
    let mut open: Option<Block> = None;
    for (line, text) in (1..).zip(page.lines()) {
        match (&mut open, text.strip_prefix("```")) {
            (None, Some(kind)) => {
                let kind = match kind {
                    "sh" => Kind::Shell,
                    "client" => Kind::Client,
                    "text" => Kind::Shown,
                    _ => panic!("{name}:{line}: a block of kind '{kind}' is not run by the test"),
                };
                let place = format!("{name}:{line}");
                open = Some(Block { terminal, kind, text: String::new(), place });
            }
            (Some(_), Some("")) => found.extend(open.take()),
            (Some(block), _) => block.text += &format!("{text}\n"),
            (None, None) => {
                for (_, rest) in text.match_indices("erminal ").map(|(at, _)| text.split_at(at)) {
                    let number = rest.trim_start_matches(|c: char| !c.is_ascii_digit());
                    let digits = number.split(|c: char| !c.is_ascii_digit()).next();
                    terminal = digits.and_then(|digits| digits.parse().ok()).unwrap_or(terminal);
                }
            }
        }
    }
    found
}

/// A shell that plays a terminal, and its output lines.
struct Terminal {
    shell: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    shown: String,
}

impl Terminal {
    fn open(dir: &Path, program: &Path, url: &str) -> Self {
        let beside = program.parent().unwrap().display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh")
            // The shell exits at the first failing command, which fails the test.
            .arg("-e")
            .process_group(0)
            .current_dir(dir)
            .env("PATH", format!("{beside}:{path}"))
            .env("TRANSFIX_ADMIN_URL", url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = shell.stdin.take().unwrap();
        input.write_all(b"exec 2>&1\n").unwrap();
        let output = BufReader::new(shell.stdout.take().unwrap());
        let (said, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).all(|line| said.send(line).is_ok())
        });
        Self { shell, input, lines, shown: String::new() }
    }

    fn enter(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).unwrap();
    }

    /// Waits for an output line that contains the pieces of `wanted`, in this order.
    fn wait_for(&mut self, place: &str, wanted: &str) {
        loop {
            let Ok(shown) = self.lines.recv_timeout(PATIENCE) else {
                panic!("{place}: no '{wanted}':\n{}", self.shown)
            };
            self.shown += &format!("{shown}\n");
            let mut rest = &*shown;
            let is_there = wanted.split('…').all(|piece| {
                let found = rest.split_once(piece.trim());
                rest = found.map_or(rest, |(_, after)| after);
                found.is_some()
            });
            if is_there {
                return;
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // After a failed test, programs may still run in the shell's process group.
        let _ = kill_process_group(Pid::from_child(&self.shell), Signal::KILL);
        let _ = self.shell.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn the_quick_start_and_the_backup_run_as_they_are_pasted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (session, admin) = (free_port(), free_port());
    let read = |name: &str| {
        let page = fs::read_to_string(root.join("book/src").join(name)).unwrap();
        let page = page.replace(":9880", &format!(":{session}"));
        blocks(name, &page.replace(":9890", &format!(":{admin}")))
    };
    let mut all = read("quick-start.md");
    assert_eq!(all.remove(0).text, INSTALL, "the page begins by installing the program");
    assert!(root.join("crates/cli/Cargo.toml").is_file());
    all.extend(read("backup.md"));

    let program = std::env::var_os(PROGRAM).map(|path| root.join(path));
    let program = program.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_transfix")));
    assert!(program.is_file(), "there is no {}", program.display());
    let url = format!("http://127.0.0.1:{admin}");
    let dir = TempDir::new();
    let mut terminals = BTreeMap::new();
    for (at, block) in all.iter().enumerate() {
        let terminal = terminals
            .entry(block.terminal)
            .or_insert_with(|| Terminal::open(dir.path(), &program, &url));
        if block.kind == Kind::Shown {
            block.text.lines().for_each(|line| terminal.wait_for(&block.place, line));
            continue;
        }
        terminal.enter(&block.text);
        // If no output is expected, the test waits until the command has ended before it types the
        // next block.
        let is_shown = all.get(at + 1).is_some_and(|next| next.kind == Kind::Shown);
        if !is_shown {
            assert_eq!(block.kind, Kind::Shell, "{}: say what it shows", block.place);
            let done = format!("done with {}", block.place);
            terminal.enter(&format!("echo {done}\n"));
            terminal.wait_for(&block.place, &done);
        }
    }
    assert_eq!(terminals.len(), 3);
}

#[test]
fn a_block_belongs_to_the_terminal_that_was_named_last() {
    let page = "In terminal 1:\n```sh\na\n```\nshown:\n```text\nb\n```\nTerminal 3, terminal 2:\n\
        ```client\nc\nd\n```\n";
    let found: Vec<_> = blocks("p.md", page)
        .into_iter()
        .map(|one| (one.terminal, one.kind, one.text, one.place))
        .collect();
    let wanted = [
        (1, Kind::Shell, "a\n", "p.md:2"),
        (1, Kind::Shown, "b\n", "p.md:6"),
        (2, Kind::Client, "c\nd\n", "p.md:10"),
    ];
    assert_eq!(found, wanted.map(|(at, kind, text, place)| (at, kind, text.into(), place.into())));
}
