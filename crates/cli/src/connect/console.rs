//! The commands of `connect`: orders, messages of any type, scripts, logon and logout.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustyline::Editor;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use transfix::{BeginString, Body, Decimal, SendError, SessionHandle, Tag, clock, tag};

use super::commands::{COMMANDS, Command};
use super::completion::{Help, Situation};
use super::heard::{Fields, Heard};
use super::kept::Kept;
use super::making::{NOTHING, Pace};
use super::message::Typed;
use super::placed::Placed;
use super::vocabulary::Vocabulary;
use crate::show::say;

/// Files of commands that may run each other.
const FILES_MAX: usize = 10;
/// The editor of the line.
pub(super) type LineEditor = Editor<Help, DefaultHistory>;

/// Commands from a terminal or a pipe.
pub(super) struct Console {
    pub(super) handle: SessionHandle,
    pub(super) begin_string: BeginString,
    pub(super) orders: HashMap<u64, Placed>,
    pub(super) next_order: u64,
    pub(super) logged_on: Receiver<()>,
    /// By `logout`: no logon comes before `logon`.
    pub(super) logged_out: bool,
    pub(super) words: Arc<Vocabulary>,
    pub(super) kept: Kept,
    pub(super) heard: Heard,
    pub(super) situation: Arc<Mutex<Situation>>,
    /// The message that is being made.
    pub(super) typed: Option<Typed>,
    /// What `expect` has found last.
    pub(super) last: Fields,
    /// Files of commands that are being read.
    pub(super) depth: usize,
    /// Nobody sends: a wait on it ends with its time.
    pub(super) pause: (Sender<()>, Receiver<()>),
}

/// Longest wait for a logon before the user is told.
const LOGON_WAIT: Duration = Duration::from_secs(30);

impl Console {
    /// Takes commands until the last one.
    pub(super) fn run(&mut self, editor: &mut LineEditor, prompt: &str) -> Result<(), String> {
        let mut begun = String::new();
        loop {
            let line = match begun.is_empty() {
                true => editor.readline(prompt),
                false => editor.readline_with_initial(prompt, (&begun, "")),
            };
            begun.clear();
            match line {
                Ok(line) if line.trim() == "quit" => return Ok(()),
                Ok(line) if line.trim() == "edit" => match &self.typed {
                    Some(typed) => begun = format!("send {} {}", typed.msg_type, typed.line()),
                    None => say(NOTHING),
                },
                Ok(line) => {
                    // History is a comfort: without it the command counts all the same.
                    let _ = editor.add_history_entry(&line);
                    if let Err(error) = self.command(&line) {
                        say(&error);
                    }
                    let mut situation =
                        self.situation.lock().unwrap_or_else(PoisonError::into_inner);
                    situation.msg_type = self.typed.as_ref().map(|typed| typed.msg_type.clone());
                    situation.kept = self.kept.names().map(str::to_owned).collect();
                }
                Err(ReadlineError::Eof | ReadlineError::Interrupted) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn command(&mut self, line: &str) -> Result<(), String> {
        let line = line.trim();
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let words: Vec<&str> = rest.split_whitespace().collect();
        match (name, &words[..]) {
            ("", _) => Ok(()),
            (comment, _) if comment.starts_with('#') => Ok(()),
            ("buy", [quantity, symbol, price]) => self.order(b'1', quantity, symbol, price),
            ("sell", [quantity, symbol, price]) => self.order(b'2', quantity, symbol, price),
            ("cancel", [number]) => self.cancel(number),
            ("burst", [n]) => self.burst(n, "0", None),
            ("burst", [n, rate]) => self.burst(n, rate, None),
            ("burst", [n, rate, kept]) => self.burst(n, rate, Some(kept)),
            ("run", [file]) => self.script(Path::new(file)),
            ("pause", [seconds]) => {
                let _ = self.pause.1.recv_timeout(span(seconds)?);
                Ok(())
            }
            ("logout", []) => {
                self.logged_out = true;
                self.handle.log_out("").map_err(|error| error.to_string())
            }
            ("logon", []) => {
                self.logged_out = false;
                self.handle.log_on().map_err(|error| error.to_string())
            }
            ("wait", []) => self.wait(),
            ("help", _) => {
                for Command { usage, does, .. } in COMMANDS {
                    say(&format!("{usage:50} {does}"));
                }
                Ok(())
            }
            _ if self.message_command(name, rest)? => Ok(()),
            _ => Err(match COMMANDS.iter().find(|command| command.name == name) {
                Some(Command { usage, does, .. }) => format!("usage: {usage}: {does}"),
                None => "not understood; `help` lists the commands".to_owned(),
            }),
        }
    }

    /// Takes the commands of a file, until one fails.
    pub(super) fn script(&mut self, path: &Path) -> Result<(), String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        if self.depth == FILES_MAX {
            return Err(format!("{}: {FILES_MAX} files run each other", path.display()));
        }
        self.depth += 1;
        let mut done = Ok(());
        for (n, line) in text.lines().enumerate() {
            if line.trim() == "quit" {
                break;
            }
            done = self.command(line);
            if let Err(error) = &mut done {
                *error = format!("{}, line {}: {error}", path.display(), n + 1);
                break;
            }
        }
        self.depth -= 1;
        done
    }

    fn wait(&self) -> Result<(), String> {
        if self.logged_out {
            return Err("logged out; `logon` first".to_owned());
        }
        while !self.handle.is_logged_on() {
            let came = self.logged_on.recv_timeout(LOGON_WAIT);
            came.map_err(|_| "no logon yet; is the acceptor running?".to_owned())?;
        }
        Ok(())
    }

    pub(super) fn send(&self, msg_type: &str, fill: impl Fn(&mut Body<'_>)) -> Result<(), String> {
        loop {
            match self.handle.send(msg_type, &fill) {
                Ok(_) => return Ok(()),
                Err(SendError::WouldBlock { .. }) => std::thread::yield_now(),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn order(&mut self, side: u8, quantity: &str, symbol: &str, price: &str) -> Result<(), String> {
        let decimal = |text: &str| {
            Decimal::parse(text.as_bytes()).ok_or_else(|| format!("{text} is no number"))
        };
        let (quantity, price) = (decimal(quantity)?, decimal(price)?);
        let (n, begin_string) = (self.next_order, self.begin_string);
        self.send("D", |body| {
            body.uint(tag::CL_ORD_ID, n);
            if begin_string < BeginString::Fix44 {
                body.char(tag::HANDL_INST, b'1');
            }
            body.str(tag::SYMBOL, symbol).char(tag::SIDE, side);
            body.timestamp(tag::TRANSACT_TIME, clock::now().utc);
            body.decimal(tag::ORDER_QTY, quantity).char(tag::ORD_TYPE, b'2');
            body.decimal(tag::PRICE, price);
        })?;
        let placed = Placed { symbol: symbol.to_owned(), side, quantity };
        self.orders.insert(n, placed);
        self.next_order += 1;
        Ok(())
    }

    /// Orders, or a saved message.
    fn burst(&mut self, n: &str, rate: &str, kept: Option<&str>) -> Result<(), String> {
        let n: u64 = n.parse().map_err(|_| format!("{n} is no number"))?;
        let mut pace = Pace::new(rate)?;
        let kept = kept.map(|name| self.kept.get(name).cloned()).transpose()?;
        for i in 0..n {
            pace.wait(&self.pause.1);
            let sent = match &kept {
                Some(typed) => self.send_typed(typed, i),
                None => {
                    // Two sides in turn: every second order trades with the one before.
                    let side = if self.next_order.is_multiple_of(2) { b'2' } else { b'1' };
                    let price = format!("{}", 30 + self.next_order / 2 % 10);
                    self.order(side, "5", "EU", &price)
                }
            };
            sent.map_err(|e| format!("{i} of {n} sent: {e}"))?;
        }
        Ok(())
    }

    fn cancel(&mut self, number: &str) -> Result<(), String> {
        let orig: u64 = number.parse().map_err(|_| format!("{number} is no order number"))?;
        let order = self.orders.get(&orig).ok_or_else(|| format!("there is no order {orig}"))?;
        let (n, begin_string) = (self.next_order, self.begin_string);
        self.send("F", |body| {
            body.uint(tag::ORIG_CL_ORD_ID, orig).uint(tag::CL_ORD_ID, n);
            if begin_string < BeginString::Fix42 {
                body.char(Tag(125), b'F');
            }
            body.str(tag::SYMBOL, &order.symbol).char(tag::SIDE, order.side);
            if begin_string >= BeginString::Fix42 {
                body.timestamp(tag::TRANSACT_TIME, clock::now().utc);
            }
            body.decimal(tag::ORDER_QTY, order.quantity);
        })?;
        self.next_order += 1;
        Ok(())
    }
}

/// A wait that nobody ends.
pub(super) fn pause() -> (Sender<()>, Receiver<()>) {
    channel()
}

/// A number of seconds.
pub(super) fn span(seconds: &str) -> Result<Duration, String> {
    let found = seconds.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    found.map(Duration::from_secs_f64).ok_or_else(|| format!("{seconds} is no number of seconds"))
}
