//! Plays scenarios with QuickFIX C++ as the session under test, in real time.
//!
//! A single process of `qf_scenario` serves all plays with the same settings, one after the other.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use transfix::{Timestamp, clock};
use transfix_testkit::scenario::{Answer, Operation, Scenario, Side, Version, World};
use transfix_testkit::temp::TempDir;

use crate::loopback::Wire;

/// The time limit for an expected event.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// The time limit for an answer of the program.
const ANSWER: Duration = Duration::from_secs(30);
/// The number of failed starts after which the program counts as broken.
const STARTS_MAX: usize = 5;
/// The time limit for a reconnect; QuickFIX reconnects after a second or two.
const CONNECT_NS_MAX: u64 = 5_000_000_000;
/// The time without input after which QuickFIX counts as silent.
const SILENCE: Duration = Duration::from_millis(10);

/// The running processes of `qf_scenario`, by their settings.
pub(crate) struct QuickFixes {
    program: PathBuf,
    running: HashMap<String, Process>,
}

impl QuickFixes {
    pub(crate) fn new(program: &Path) -> Self {
        Self { program: program.to_owned(), running: HashMap::new() }
    }

    /// Returns a session of QuickFIX whose numbers begin at 1.
    pub(crate) fn world(&mut self, scenario: &Scenario, version: Version) -> QuickFix<'_> {
        let lines = setting_lines(scenario, version).unwrap();
        let running = self.running.entry(lines.clone());
        let process = running.or_insert_with(|| Process::start(&self.program, scenario, &lines));
        process.ask("reset");
        if let Some(listener) = &process.listener {
            while listener.accept().is_ok() {}
        }
        process.delivered.clear();
        QuickFix { process, wire: Wire::default() }
    }
}

/// Returns the reason why QuickFIX cannot play the scenario in this version, or `None`.
pub(crate) fn excuse(scenario: &Scenario, version: Version) -> Option<String> {
    setting_lines(scenario, version).err()
}

/// Translates the scenario's settings to QuickFIX, without the port.
fn setting_lines(scenario: &Scenario, version: Version) -> Result<String, String> {
    let begin_string = version.begin_string();
    let role = if scenario.side == Side::Acceptor { "acceptor" } else { "initiator" };
    let dictionaries = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dictionaries");
    let file = |name: &str| dictionaries.join(format!("{name}.xml")).display().to_string();
    // The session day began twelve hours ago, so that no reset at midnight disturbs the play.
    let hour = (clock::now().utc.time_of_day().since_midnight_ns() / 3_600_000_000_000 + 12) % 24;
    let mut text = format!(
        "[DEFAULT]\nConnectionType={role}\nStartTime={hour:02}:00:00\nEndTime={hour:02}:00:00\n\
         ReconnectInterval=1\nSocketNodelay=Y\nSocketReuseAddress=Y\n[SESSION]\n\
         BeginString={begin_string}\nSenderCompID=US\nTargetCompID=THEM\nUseDataDictionary=Y\n"
    );
    match version.appl_ver_id() {
        None => text += &format!("DataDictionary={}\n", file(&begin_string.replace('.', ""))),
        Some(id) => {
            let application = ["FIX50", "FIX50SP1", "FIX50SP2"].get(usize::from(id) - 7);
            let application = application.ok_or("it knows no FIX Latest")?;
            text += &format!(
                "DefaultApplVerID={id}\nTransportDataDictionary={}\nAppDataDictionary={}\n",
                file("FIXT11"),
                file(application)
            );
        }
    }
    let mut heartbeat = "30";
    for line in scenario.settings.lines() {
        let (key, value) = line.split_once('=').ok_or("no key")?;
        let seconds = || value.trim().parse::<u64>().map_or(0, |ms| ms.div_ceil(1_000));
        text += &match (key.trim(), value.trim()) {
            ("heart_bt_int_s", value) => {
                heartbeat = value;
                String::new()
            }
            ("check_comp_ids", "false") => "CheckCompID=N\n".to_owned(),
            ("sending_time_tolerance_s", "0") => "CheckLatency=N\n".to_owned(),
            ("sending_time_tolerance_s", value) => format!("MaxLatency={value}\n"),
            ("validate", "false") => "UseDataDictionary=N\n".to_owned(),
            ("reset_on", "[\"logon\"]") => "ResetOnLogon=Y\n".to_owned(),
            ("reset_on", "[\"disconnect\"]") => "ResetOnLogout=Y\nResetOnDisconnect=Y\n".to_owned(),
            ("reset_on", "[\"logout\"]") => "ResetOnLogout=Y\n".to_owned(),
            ("resend", "{ redundant_requests = true }") => {
                "SendRedundantResendRequests=Y\n".to_owned()
            }
            ("keep_outbound", "false") => "PersistMessages=N\n".to_owned(),
            ("keep_outbound", "true") => "PersistMessages=Y\n".to_owned(),
            ("precision", "\"nanos\"") => "TimestampPrecision=9\n".to_owned(),
            ("logon_timeout_ms", _) => format!("LogonTimeout={}\n", seconds()),
            ("logout_timeout_ms", _) => format!("LogoutTimeout={}\n", seconds()),
            ("checks", "{ section_order = false }") => "ValidateFieldsOutOfOrder=N\n".to_owned(),
            ("checks", "{ empty_values = false }") => "ValidateFieldsHaveValues=N\n".to_owned(),
            ("checks", "{ user_defined_tags = false }") => {
                "ValidateUserDefinedFields=N\n".to_owned()
            }
            ("checks", "{ tags_of_message = false }") => "AllowUnknownMsgFields=Y\n".to_owned(),
            _ => return Err(format!("it has no setting for {line}")),
        };
    }
    if scenario.restarts() {
        return Err("its store is in memory".to_owned());
    }
    Ok(text + &format!("HeartBtInt={heartbeat}\n"))
}

/// A running process of `qf_scenario`, which ends when this value is dropped.
struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    port: u16,
    /// The listener to which an initiator under test connects.
    listener: Option<TcpListener>,
    delivered: Vec<Vec<u8>>,
    _folder: TempDir,
}

impl Process {
    /// Starts the program, several times if needed: another program may take the port, and QuickFIX
    /// sometimes hangs at its start.
    fn start(program: &Path, scenario: &Scenario, lines: &str) -> Self {
        for _ in 1..STARTS_MAX {
            match Self::try_start(program, scenario, lines) {
                Ok(process) => return process,
                Err(error) => println!("QuickFIX is started again: {error}"),
            }
        }
        let last = Self::try_start(program, scenario, lines);
        last.unwrap_or_else(|error| panic!("{} does not start: {error}", program.display()))
    }

    fn try_start(program: &Path, scenario: &Scenario, lines: &str) -> Result<Self, String> {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let (listener, where_to) = match scenario.side {
            // Chooses a port that is free now; other programs are unlikely to take it.
            Side::Acceptor => {
                drop(socket);
                (None, format!("SocketAcceptPort={port}\n"))
            }
            Side::Initiator => {
                socket.set_nonblocking(true).unwrap();
                let text = format!("SocketConnectHost=127.0.0.1\nSocketConnectPort={port}\n");
                (Some(socket), text)
            }
        };
        let folder = TempDir::new();
        let file = folder.path().join("settings");
        fs::write(&file, lines.to_owned() + &where_to).unwrap();
        let mut child = Command::new(program)
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let stdin = child.stdin.take().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (sender, received) = channel();
        // The thread ends with the process, which closes its output.
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
        });
        let delivered = Vec::new();
        let mut process =
            Self { child, stdin, lines: received, port, listener, delivered, _folder: folder };
        process.answer()?;
        Ok(process)
    }

    /// Sends a line. Returns the program's output up to `done`.
    fn ask(&mut self, line: &str) -> String {
        writeln!(self.stdin, "{line}").unwrap();
        self.answer().unwrap_or_else(|error| panic!("after {line}: {error}"))
    }

    fn answer(&mut self) -> Result<String, String> {
        let mut said = String::new();
        loop {
            let line = match self.lines.recv_timeout(ANSWER) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => return Err("QuickFIX says nothing".to_owned()),
                Err(RecvTimeoutError::Disconnected) => return Err("QuickFIX has ended".to_owned()),
            };
            match line.split_once(' ').unwrap_or((&line, "")) {
                ("done", _) => return Ok(said),
                ("refused", _) => return Ok(line),
                ("app", message) => self.delivered.push(message.replace('|', "\x01").into()),
                _ => said = line,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // `kill` fails only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct QuickFix<'p> {
    process: &'p mut Process,
    wire: Wire,
}

impl World for QuickFix<'_> {
    fn now(&self) -> Timestamp {
        clock::now().utc
    }

    fn connect(&mut self) -> Result<(), String> {
        self.process.ask("logon");
        let Some(listener) = &self.process.listener else {
            let stream = TcpStream::connect(("127.0.0.1", self.process.port));
            self.wire = Wire::of(stream.map_err(|error| error.to_string())?);
            return Ok(());
        };
        let until = clock::monotonic_ns() + CONNECT_NS_MAX;
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).unwrap();
                    self.wire = Wire::of(stream);
                    return Ok(());
                }
                Err(error) if error.kind() != ErrorKind::WouldBlock => {
                    return Err(error.to_string());
                }
                Err(_) if clock::monotonic_ns() > until => {
                    return Err("it did not connect".to_owned());
                }
                Err(_) => self.wire.wait(Duration::from_millis(5)),
            }
        }
    }

    fn close(&mut self) {
        self.wire.stream = None;
        self.process.ask("numbers");
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.wire.send(bytes)
    }

    fn intrude(&mut self, bytes: &[u8]) -> Result<Answer, String> {
        let stream = TcpStream::connect(("127.0.0.1", self.process.port));
        let mut wire = Wire::of(stream.map_err(|error| error.to_string())?);
        wire.send(bytes)?;
        Ok(wire.next(PATIENCE))
    }

    fn next(&mut self, hopes: bool) -> Answer {
        if !hopes {
            self.process.ask("numbers");
        }
        self.wire.next(if hopes { PATIENCE } else { SILENCE })
    }

    fn wait(&mut self, time: Duration) {
        self.wire.wait(time);
    }

    fn order(&mut self, fields: &str) -> Result<(), String> {
        let answer = self.process.ask(&format!("send {fields}"));
        if answer.is_empty() { Ok(()) } else { Err(answer) }
    }

    fn operate(&mut self, operation: &Operation) -> Result<(), String> {
        let line = match operation {
            Operation::Logout(text) => format!("logout {text}"),
            Operation::Disconnect => "disconnect".to_owned(),
            Operation::NextIn(next) => format!("next-in {next}"),
            Operation::NextOut(next) => format!("next-out {next}"),
            Operation::TestRequest(id) => format!("send 35=1|112={id}"),
            Operation::ResendRequest(begin, end) => format!("send 35=2|7={begin}|16={end}"),
            other => return Err(format!("QuickFIX cannot: {other:?}")),
        };
        let answer = self.process.ask(&line);
        if answer.is_empty() { Ok(()) } else { Err(answer) }
    }

    fn delivered(&mut self, hopes: bool) -> Option<Vec<u8>> {
        let until = clock::monotonic_ns() + PATIENCE.as_nanos() as u64;
        loop {
            self.process.ask("numbers");
            if !self.process.delivered.is_empty() {
                return Some(self.process.delivered.remove(0));
            }
            if !hopes || clock::monotonic_ns() > until {
                return None;
            }
        }
    }

    fn returned(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn reason(&mut self) -> Option<String> {
        None
    }

    fn numbers(&mut self) -> Option<(u64, u64)> {
        let answer = self.process.ask("numbers");
        let mut numbers = answer.split(' ').skip(1).map(|number| number.parse().unwrap());
        Some((numbers.next()?, numbers.next()?))
    }
}
