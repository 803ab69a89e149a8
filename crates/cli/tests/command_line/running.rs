//! `transfix serve` and `transfix connect` as running programs: how they end, and what data
//! remains.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write, sink};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use transfix::{Message, tag};
use transfix_codec::{CheckSumPolicy, FieldIndex, Frame, FrameWriter, Limits, frame};
use transfix_store::journal;
use transfix_testkit::certificates::{Authority, Valid};
use transfix_testkit::temp::TempDir;

use crate::command_line::{run_in, session};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Options with which the program prints no messages.
const QUIET: &[&str] = &["--quiet"];

/// A running `transfix` program.
pub(crate) struct Program {
    child: Child,
    pub(crate) commands: Box<dyn Write>,
    lines: Receiver<String>,
    /// Lines of standard error, received from a thread; `None` if they were not requested.
    errors: Option<Receiver<String>>,
    told: String,
}

impl Program {
    pub(crate) fn start(dir: &TempDir, args: &[&str]) -> Self {
        Self::start_at(dir, args, Stdio::piped())
    }

    /// Starts the program with `stdin` as its standard input.
    fn start_at(dir: &TempDir, args: &[&str], stdin: Stdio) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_transfix"))
            .args(args)
            .current_dir(dir.path())
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let commands: Box<dyn Write> = match child.stdin.take() {
            Some(stdin) => Box::new(stdin),
            None => Box::new(sink()),
        };
        let lines = lines_of(child.stdout.take().unwrap());
        Self { child, commands, lines, errors: None, told: String::new() }
    }

    /// Waits for a line with this text on standard error, and returns the line.
    pub(crate) fn wait_for_error(&mut self, text: &str) -> String {
        let child = &mut self.child;
        let errors = self.errors.get_or_insert_with(|| lines_of(child.stderr.take().unwrap()));
        loop {
            let line = errors.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("no '{text}': {}", self.told));
            self.told += &format!("{line}\n");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Waits for a line with this text on standard output, and returns the line.
    pub(crate) fn wait_for(&self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no '{text}'"));
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Returns the remaining lines of output, up to the program's end.
    pub(crate) fn rest(&self) -> String {
        let mut all = String::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => all += &(line + "\n"),
                Err(RecvTimeoutError::Disconnected) => return all,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end: {all}"),
            }
        }
    }

    pub(crate) fn signal(&self) {
        self.send(Signal::TERM);
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end of the program. Returns the exit code and all lines of standard error.
    pub(crate) fn ended(&mut self) -> (Option<i32>, String) {
        let mut told = std::mem::take(&mut self.told);
        match self.errors.take() {
            Some(errors) => told.extend(errors.iter().map(|line| line + "\n")),
            None => _ = self.child.stderr.take().unwrap().read_to_string(&mut told).unwrap(),
        }
        (self.child.wait().unwrap().code(), told)
    }
}

/// Starts a thread that sends the lines of `output` as they arrive.
fn lines_of(output: impl Read + Send + 'static) -> Receiver<String> {
    let (said, lines) = channel();
    let output = BufReader::new(output);
    std::thread::spawn(move || {
        // Sending fails if the test has dropped the receiver.
        output.lines().map_while(Result::ok).all(|line| said.send(line).is_ok())
    });
    lines
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program has exited already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a venue with the additional settings `keys`, and writes the settings of a client.
pub(crate) fn venue(dir: &TempDir, keys: &str, options: &[&str]) -> Program {
    let settings = session("acceptor", "127.0.0.1:0") + "store_dir = 'venue'\n" + keys;
    fs::write(dir.path().join("venue.toml"), settings).unwrap();
    let venue = Program::start(dir, &[&["serve", "venue.toml"], options].concat());
    let line = venue.wait_for("listening at ");
    let address = line.rsplit(' ').next().unwrap();
    write_client(dir, address, "");
    venue
}

pub(crate) fn write_client(dir: &TempDir, address: &str, keys: &str) {
    let settings = format!(
        "[[session]]\nrole = 'initiator'\naddress = '{address}'\nbegin_string = 'FIX.4.4'\n\
         sender_comp_id = 'CLIENT'\ntarget_comp_id = 'VENUE'\nstore_dir = 'client'\n{keys}"
    );
    fs::write(dir.path().join("client.toml"), settings).unwrap();
}

fn trade(dir: &TempDir, commands: &str) {
    let input = format!("wait\n{commands}quit\n");
    let run = run_in(dir.path(), &["connect", "client.toml", "--quiet"], input.as_bytes());
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn a_logon_is_told_with_the_destination() {
    let dir = TempDir::new();
    let text = session("acceptor", "127.0.0.1:0") + "store_dir = 'venue'\n";
    fs::write(dir.path().join("venue.toml"), text).unwrap();
    let mut venue = Program::start(&dir, &["serve", "venue.toml"]);
    let line = venue.wait_for("listening at ");
    let address = line.rsplit(' ').next().unwrap();
    let fast = "reconnect_interval_ms = 10\n";
    let backup = format!("{fast}[session.failover]\nattempts = 1\naddresses = ['{address}']\n");
    for (to, keys, at) in [
        (address, fast, format!("at {address}")),
        ("127.0.0.1:1", &*backup, format!("at {address} (backup 1 of 1)")),
    ] {
        write_client(&dir, to, keys);
        let commands = b"wait\nquit\n";
        let run = run_in(dir.path(), &["connect", "client.toml", "--verbose"], commands);
        assert_eq!(run.code, 0, "{run:?}");
        let logged_on = format!("FIX.4.4:CLIENT->VENUE logged on {at}");
        assert!(run.out.lines().any(|line| line == logged_on), "{run:?}");
        let event = run.err.lines().find(|line| line.contains(" logged on ")).unwrap();
        let which = if to == address { "" } else { " (backup)" };
        let fields = format!("peer={address} destination=\"{address}{which}\"");
        assert!(event.contains(&fields), "{event}");
        let failed = "connection failed session=FIX.4.4:CLIENT->VENUE \
                      destination=\"127.0.0.1:1 (primary)\" error=Connection refused";
        assert_eq!(run.err.contains(failed), to != address, "{run:?}");
        venue.wait_for("FIX.4.4:VENUE->CLIENT logged on from 127.0.0.1:");
    }
    venue.signal();
    assert_eq!(venue.ended().0, Some(0));
}

#[test]
fn a_client_that_never_logged_on_says_why_at_each_destination() {
    let dir = TempDir::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let hangs_up = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // The server reads the Logon(A), because closing with unread bytes would reset the
        // connection.
        let _ = stream.read(&mut [0; 4_096]);
    });
    let keys = format!(
        "reconnect_interval_ms = 10\n[session.failover]\nattempts = 1\n\
         addresses = ['{hangs_up}', '127.0.0.1:2']\n"
    );
    write_client(&dir, "127.0.0.1:1", &keys);
    let mut client = Program::start(&dir, &["connect", "client.toml"]);
    client.wait_for(&format!("connecting to 127.0.0.1:1 or {hangs_up} or 127.0.0.1:2;"));
    client.wait_for(" ended: ");
    writeln!(client.commands, "quit").unwrap();
    let (code, errors) = client.ended();
    assert_eq!(code, Some(1));
    // Events on standard error may be interleaved with it, so the test searches for the program's
    // own line.
    let last = errors.lines().find(|line| line.starts_with("transfix connect:")).unwrap();
    let expected = "transfix connect: never logged on to 127.0.0.1:1: Connection refused (os error \
                    111); nor to ";
    let rest = last.strip_prefix(expected).unwrap_or_else(|| panic!("{last}"));
    let closed = format!("{hangs_up}: the counterparty closed the connection before");
    assert!(rest.starts_with(&closed), "{last}");
    assert!(rest.contains("; nor to 127.0.0.1:2: "), "{last}");
}

#[test]
fn a_proxy_that_is_not_there_is_not_taken_for_the_counterparty() {
    let dir = TempDir::new();
    let keys = "[session.proxy]\nkind = 'http'\naddress = '127.0.0.1:1'\n";
    write_client(&dir, "fix.broker.example:4001", keys);
    let run = run_in(dir.path(), &["connect", "client.toml"], b"wait\nquit\n");
    let expected = "never logged on to fix.broker.example:4001: proxy 127.0.0.1:1: Connection";
    assert!(run.code == 1 && run.err.contains(expected), "{run:?}");
    let event = "destination=\"fix.broker.example:4001\" error=proxy 127.0.0.1:1: Connection";
    assert!(run.err.contains(event), "{run:?}");
}

#[test]
fn the_venue_gives_no_id_out_twice() {
    for keep_inbound in [true, false] {
        let dir = TempDir::new();
        for commands in [
            "buy 5 EU 30\nbuy 5 US 31\nsell 2 EU 30\n",
            "sell 3 EU 30\nsell 1 US 99999999999999\n",
            "cancel 2\nbuy 1 EU 9223372036854775807\n",
        ] {
            let mut venue = venue(&dir, &format!("keep_inbound = {keep_inbound}\n"), QUIET);
            trade(&dir, commands);
            venue.signal();
            assert_eq!(venue.ended(), (Some(0), String::new()));
        }
        let (mut orders, mut reports) = (HashMap::new(), HashSet::new());
        let (mut fills, mut index) = (0, FieldIndex::default());
        for entry in journal::read(&dir.path().join("venue/FIX.4.4-VENUE-CLIENT")).unwrap() {
            let entry = entry.unwrap();
            let Some((journal::Direction::Outbound, stored)) = entry.message() else { continue };
            let report = Message::parse(&stored.bytes, &mut index, CheckSumPolicy::Verify).unwrap();
            if report.msg_type() != b"8" {
                continue;
            }
            let text = |tag| report.text(tag).unwrap().to_owned();
            // A cancel request has a ClOrdID(11) of its own, and refers to its order by
            // OrigClOrdID(41).
            if let Ok(orig) = report.text(tag::ORIG_CL_ORD_ID) {
                assert_eq!(orders.get(&text(tag::ORDER_ID)).map(String::as_str), Some(orig));
            } else {
                let id = orders.entry(text(tag::ORDER_ID)).or_insert_with(|| text(tag::CL_ORD_ID));
                assert_eq!(*id, text(tag::CL_ORD_ID), "OrderID(37) of two orders");
            }
            assert!(reports.insert(text(tag::EXEC_ID)), "ExecID(17) twice");
            fills += u32::from(text(tag::EXEC_TYPE) == "F");
        }
        // Each order keeps its OrderID(37), even if it trades only after a restart.
        assert_eq!(orders.len(), 6, "{orders:?}");
        assert_eq!(fills, if keep_inbound { 4 } else { 2 });
    }
}

#[test]
fn one_damaged_store_keeps_no_other_session_from_starting() {
    let dir = TempDir::new();
    let keys = "keep_inbound = true\n";
    let mut first = venue(&dir, keys, QUIET);
    trade(&dir, "buy 5 EU 30\n");
    first.signal();
    assert_eq!(first.ended(), (Some(0), String::new()));
    let segment = dir.path().join("venue/FIX.4.4-VENUE-CLIENT/00000000.seg");
    let sound = fs::read(&segment).unwrap();
    let mut damaged = sound.clone();
    // The first received message is damaged, so the order book cannot be rebuilt completely.
    damaged[400] ^= 1;
    fs::write(&segment, damaged).unwrap();
    let other = session("acceptor", "127.0.0.1:0").replace("'CLIENT'", "'OTHER'");
    let both = venue(&dir, &format!("{keys}{other}store_dir = 'venue'\n{keys}"), QUIET);
    let told = dir.path().join("client.toml");
    let client = fs::read_to_string(&told).unwrap();
    fs::write(&told, client.replace("'CLIENT'", "'OTHER'").replace("'client'", "'other'")).unwrap();
    trade(&dir, "buy 1 EU 30\n");
    fs::write(&segment, sound).unwrap();
    fs::write(&told, client).unwrap();
    trade(&dir, "sell 5 EU 30\n");
    both.wait_for("VENUE->CLIENT: 1 orders recovered from the journal");
}

#[test]
fn a_logon_without_an_answer_is_called_so() {
    let dir = TempDir::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    write_client(&dir, &listener.local_addr().unwrap().to_string(), "");
    let mut client = Program::start(&dir, &["connect", "client.toml", "--quiet"]);
    let (mut silent, _) = listener.accept().unwrap();
    // The read has returned the client's Logon(A), which the test does not answer.
    assert!(silent.read(&mut [0; 1024]).unwrap() > 0);
    writeln!(client.commands, "quit").unwrap();
    let (code, errors) = client.ended();
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains(": the counterparty did not answer the Logon(A)"), "{errors}");
}

#[test]
fn sigterm_logs_out() {
    let dir = TempDir::new();
    let mut venue = venue(&dir, "", QUIET);
    let mut client = Program::start(&dir, &["connect", "client.toml"]);
    client.wait_for("logged on");
    client.signal();
    assert_eq!(client.ended(), (Some(0), String::new()));
    client.wait_for("ended: logged out");
    venue.wait_for("ended: logged out");
    // SIGTERM also logs out a connected client.
    let mut client = Program::start(&dir, &["connect", "client.toml", "--quiet"]);
    client.wait_for("logged on");
    venue.signal();
    client.wait_for("ended: logged out");
    assert_eq!(venue.ended(), (Some(0), String::new()));
    writeln!(client.commands, "quit").unwrap();
    assert_eq!(client.ended().0, Some(0));
}

#[test]
fn sighup_goes_over_to_what_the_file_says_then() {
    let dir = TempDir::new();
    let more = |name: &str, keys: &str| {
        let session = session("acceptor", "127.0.0.1:0").replace("'CLIENT'", name);
        format!("{session}store_dir = 'venue'\n{keys}")
    };
    let mut venue = venue(&dir, &(more("'GOES'", "") + &more("'CHANGES'", "")), QUIET);
    let file = dir.path().join("venue.toml");
    let own = session("acceptor", "127.0.0.1:0") + "store_dir = 'venue'\n";
    let mut client = Program::start(&dir, &["connect", "client.toml"]);
    writeln!(client.commands, "wait\nbuy 5 EU 30").unwrap();
    client.wait_for("<- ExecutionReport(8)");
    // Errors in the file are reported with their lines, and the reload changes nothing.
    fs::write(&file, format!("{own}heart_bt_int = 5\n{}mode = 'fast'\n", more("'NEW'", "")))
        .unwrap();
    venue.send(Signal::HUP);
    venue.wait_for_error("reload: venue.toml:8: unknown key `heart_bt_int`");
    venue.wait_for_error("reload: venue.toml:16: unknown value `fast`");
    venue.wait_for_error("reload: nothing has changed");
    fs::write(&file, own.clone() + &more("'CHANGES'", "validate = false\n") + &more("'NEW'", ""))
        .unwrap();
    venue.send(Signal::HUP);
    for line in [
        "reload: FIX.4.4:VENUE->GOES: removed",
        "reload: FIX.4.4:VENUE->CHANGES: restarts because these values changed: validate",
        "reload: FIX.4.4:VENUE->NEW: added",
    ] {
        venue.wait_for(line);
    }
    venue.send(Signal::HUP);
    venue.wait_for("reload: nothing has changed");
    // The unchanged session has continued, with the same order book and the next sequence number.
    writeln!(client.commands, "sell 5 EU 30").unwrap();
    let filled = client.wait_for("OrdStatus=FILLED");
    assert!(filled.contains("<- ExecutionReport(8) seq 4 "), "{filled}");
    // The added session accepts its counterparty, and the removed session does not.
    let told = dir.path().join("client.toml");
    let settings = fs::read_to_string(&told).unwrap();
    let other = |name: &str| settings.replace("'CLIENT'", name).replace("'client'", "'other'");
    fs::write(&told, other("'NEW'")).unwrap();
    trade(&dir, "buy 1 EU 30\n");
    let address = settings.split('\'').nth(3).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let (mut logon, time) = (Vec::new(), transfix::clock::now().utc);
    let mut frame = FrameWriter::new(&mut logon, b"FIX.4.4", b"A");
    let fields = format!("34=1|49=GOES|52={time}|56=VENUE|98=0|108=30|");
    frame.raw(fields.replace('|', "\x01").as_bytes());
    frame.finish().unwrap();
    stream.write_all(&logon).unwrap();
    assert_eq!(stream.read(&mut [0; 8]).unwrap_or(0), 0, "closed without a word");
    venue.signal();
    assert_eq!(venue.ended().0, Some(0));
    client.wait_for("ended: logged out");
}

#[test]
fn what_could_not_begin_is_tried_again_at_the_next_sighup() {
    let dir = TempDir::new();
    let mut venue = venue(&dir, "", QUIET);
    let file = dir.path().join("venue.toml");
    let blocked = dir.path().join("blocked");
    fs::write(&blocked, "a file in place of a folder").unwrap();
    let new = session("acceptor", "127.0.0.1:0").replace("'CLIENT'", "'NEW'");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("[engine]\nworkers = 3\n{text}{new}store_dir = 'blocked'\n")).unwrap();
    venue.send(Signal::HUP);
    venue.wait_for_error("reload: FIX.4.4:VENUE->NEW: not added: ");
    fs::remove_file(&blocked).unwrap();
    venue.send(Signal::HUP);
    let counts_later = "reload: [engine]: workers will apply from the next start";
    // The failed first reload changed nothing else.
    let first = venue.lines.iter().find(|line| line.starts_with("reload: ")).unwrap();
    assert_eq!(first, counts_later);
    venue.wait_for("reload: FIX.4.4:VENUE->NEW: added");
    venue.wait_for(counts_later);
    assert!(blocked.join("FIX.4.4-VENUE-NEW").is_dir());
    venue.signal();
    let rest = venue.rest();
    assert!(rest.contains("FIX.4.4:VENUE->NEW: was not connected"), "{rest}");
    assert_eq!(venue.ended().0, Some(0));
}

#[test]
fn a_session_that_goes_on_as_before_has_its_book() {
    let dir = TempDir::new();
    let mut venue = venue(&dir, "keep_inbound = true\n", QUIET);
    trade(&dir, "buy 5 EU 30\n");
    let file = dir.path().join("venue.toml");
    fs::write(dir.path().join("blocked"), "a file in place of a folder").unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("'venue'", "'blocked'")).unwrap();
    venue.send(Signal::HUP);
    // The session continues with its old store, because the new store cannot be opened.
    venue.wait_for("VENUE->CLIENT: 1 orders recovered from the journal");
    venue.wait_for_error("reload: FIX.4.4:VENUE->CLIENT: continues with its old settings: ");
    venue.signal();
    assert!(!venue.rest().contains("restarts because"), "it was told as done");
    assert_eq!(venue.ended().0, Some(0));
}

/// Opens a connection for each of these CompIDs, sends a Logon(A), and sends nothing else.
fn silent_counterparty(address: &str, names: &[&str]) -> Vec<TcpStream> {
    let log_on = |name: &&str| {
        let mut stream = TcpStream::connect(address).unwrap();
        // The read limit is shorter than the engine's wait for a silent connection.
        stream.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
        let (mut logon, time) = (Vec::new(), transfix::clock::now().utc);
        let mut frame = FrameWriter::new(&mut logon, b"FIX.4.4", b"A");
        let fields = format!("34=1|49={name}|52={time}|56=VENUE|98=0|108=30|");
        frame.raw(fields.replace('|', "\x01").as_bytes());
        frame.finish().unwrap();
        stream.write_all(&logon).unwrap();
        assert!(stream.read(&mut [0; 1024]).unwrap() > 0, "its Logon(A) is answered");
        stream
    };
    names.iter().map(log_on).collect()
}

#[test]
fn a_stop_that_waits_for_a_reload_says_so_and_counterparties_are_waited_for_together() {
    let dir = TempDir::new();
    let own = session("acceptor", "127.0.0.1:0") + "store_dir = 'venue'\n";
    let names = ["ONE", "TWO", "THREE"];
    let silent = names.map(|name| own.replace("'CLIENT'", &format!("'{name}'"))).concat();
    fs::write(dir.path().join("venue.toml"), format!("{own}{silent}")).unwrap();
    let mut venue = Program::start(&dir, &["serve", "venue.toml", "--quiet"]);
    let line = venue.wait_for("listening at ");
    let connections = silent_counterparty(line.rsplit(' ').next().unwrap(), &names);
    fs::write(dir.path().join("venue.toml"), own).unwrap();
    venue.send(Signal::HUP);
    // The reload is in progress: each connection has received a Logout(5), and no counterparty has
    // answered.
    for mut stream in &connections {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 1024]);
        while !bytes.windows(6).any(|six| six == b"\x0135=5\x01") {
            let read = stream.read(&mut buffer).unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&bytes));
            bytes.extend_from_slice(&buffer[..read]);
        }
    }
    venue.signal();
    venue.wait_for("the program stops when the current request is finished");
    // Each counterparty now answers by closing its connection.
    drop(connections);
    for name in names {
        venue.wait_for(&format!("reload: FIX.4.4:VENUE->{name}: "));
    }
    venue.wait_for("stopping");
    assert_eq!(venue.ended().0, Some(0));
}

#[test]
fn a_port_with_tls_is_told_as_one() {
    let dir = TempDir::new();
    let authority = Authority::new(dir.path(), "ca");
    let own = authority.sign(&["localhost"], 1, Valid::Now);
    let plain = session("acceptor", "127.0.0.1:0") + "store_dir = 'venue'\n";
    let tls = session("acceptor", "127.0.0.2:0").replace("'CLIENT'", "'OTHER'");
    let keys = format!(
        "store_dir = 'venue'\ntls = {{ certificate = '{}', key = '{}' }}\n",
        own.certificate.display(),
        own.key.display()
    );
    fs::write(dir.path().join("venue.toml"), plain + &tls + &keys).unwrap();
    let mut venue = Program::start(&dir, &["serve", "venue.toml"]);
    let lines = [venue.wait_for("listening at "), venue.wait_for("listening at ")];
    assert!(lines[0].starts_with("listening at 127.0.0.1:") && !lines[0].contains("TLS"));
    assert!(lines[1].starts_with("listening at 127.0.0.2:") && lines[1].ends_with(" with TLS"));
    venue.signal();
    assert_eq!(venue.ended().0, Some(0));
}

#[test]
fn a_terminal_that_is_closed_ends_the_venue() {
    let dir = TempDir::new();
    let text = session("acceptor", "127.0.0.1:0") + "store_dir = 'venue'\n";
    fs::write(dir.path().join("venue.toml"), text).unwrap();
    // The descriptor closes on exec: a child process that inherited the master side of the terminal
    // would keep the terminal open.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let keyboard = openpt(flags).unwrap();
    grantpt(&keyboard).unwrap();
    unlockpt(&keyboard).unwrap();
    let terminal = ioctl_tiocgptpeer(&keyboard, flags).unwrap();
    let own = terminal.try_clone().unwrap();
    let mut venue = Program::start_at(&dir, &["serve", "venue.toml"], Stdio::from(terminal));
    venue.wait_for("listening at ");
    // While the terminal is open, SIGHUP reloads the settings.
    venue.send(Signal::HUP);
    venue.wait_for("reload: nothing has changed");
    drop(keyboard);
    // A process that another test starts holds the descriptor until its exec, so the terminal may
    // close later.
    let mut closed = [PollFd::new(&own, PollFlags::IN)];
    let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
    assert_eq!(poll(&mut closed, Some(&patience)), Ok(1));
    assert!(closed[0].revents().contains(PollFlags::HUP));
    venue.send(Signal::HUP);
    venue.wait_for("stopping");
    assert_eq!(venue.ended().0, Some(0));
}

#[test]
fn connect_without_a_logon_is_a_failure() {
    let dir = TempDir::new();
    write_client(&dir, "127.0.0.1:1", "");
    let run = run_in(dir.path(), &["connect", "client.toml", "--quiet"], b"wait\nquit\n");
    let said = "transfix connect: never logged on to 127.0.0.1:1: Connection refused";
    assert!(run.code == 1 && run.err.contains(said), "{run:?}");
    for end in ["quit\n", ""] {
        let run = run_in(dir.path(), &["connect", "client.toml", "--quiet"], end.as_bytes());
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.err.contains("transfix connect: never logged on"), "{run:?}");
    }
    let mut client = Program::start(&dir, &["connect", "client.toml", "--quiet"]);
    client.wait_for("connecting to");
    writeln!(client.commands, "help").unwrap();
    client.wait_for("burst N");
    client.signal();
    let (code, errors) = client.ended();
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("never logged on"), "{errors}");
}

/// Starts a counterparty that accepts one connection and answers the n-th message with the messages
/// of the n-th entry. Returns its address.
pub(crate) fn scripted(answers: Vec<Vec<(&'static str, &'static str)>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut buffer, mut seq) = (Vec::new(), 0);
        for answers in answers {
            loop {
                match frame::split(&buffer, Limits::default()) {
                    Frame::Whole(end) => {
                        buffer.drain(..end);
                        break;
                    }
                    _ => {
                        let mut bytes = [0; 4096];
                        let read = stream.read(&mut bytes).unwrap();
                        assert!(read > 0, "it has gone");
                        buffer.extend_from_slice(&bytes[..read]);
                    }
                }
            }
            for (msg_type, fields) in answers {
                seq += 1;
                let time = transfix::clock::now().utc;
                let mut out = Vec::new();
                let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type.as_bytes());
                let head = format!("34={seq}|49=VENUE|52={time}|56=CLIENT|");
                frame.raw((head + fields).replace('|', "\x01").as_bytes());
                frame.finish().unwrap();
                stream.write_all(&out).unwrap();
            }
        }
        // The counterparty reads until the program closes the connection.
        let _ = stream.read_to_end(&mut buffer);
    });
    address
}

#[test]
fn the_counterpartys_words_are_shown() {
    let dir = TempDir::new();
    let logon = || vec![("A", "98=0|108=30|")];
    let rejects = vec![
        ("3", "45=2|371=55|372=D|373=5|58=no such\nsymbol|"),
        ("j", "45=2|372=D|379=1|380=3|58=closed for today|"),
    ];
    let farewell = vec![("5", "58=account is blocked|")];
    let order = "buy 1 EU 3\n";
    // The counterparty rejects an order, and answers the next message with a Logout(5) that gives a
    // reason.
    let script = vec![logon(), rejects, farewell];
    write_client(&dir, &scripted(script), "reconnect_interval_ms = 60000\n");
    let mut client = Program::start(&dir, &["connect", "client.toml", "--quiet"]);
    writeln!(client.commands, "wait\n{order}").unwrap();
    let line = client.wait_for("not taken: Reject(3)");
    assert!(line.ends_with(r"RefTagID(371) 55: no such\nsymbol"), "{line}");
    let line = client.wait_for("not taken: BusinessMessageReject(j)");
    assert!(line.ends_with("closed for today"), "{line}");
    write!(client.commands, "{order}").unwrap();
    let line = client.wait_for(" ended: ");
    assert!(line.ends_with("the counterparty says: account is blocked"), "{line}");
    writeln!(client.commands, "quit").unwrap();
    let (code, errors) = client.ended();
    assert_eq!(code, Some(0), "the Logout(5) was answered");
    assert!(!errors.contains("no such") && !errors.contains("closed for today"), "{errors}");
    // While messages are shown on the terminal, a reject is not also printed as an event, except
    // with `--verbose`.
    for (options, events) in [(&[][..], 0), (&["--verbose"], 1)] {
        let rejects = vec![("3", "45=2|371=55|372=D|373=5|58=no such symbol|")];
        let script = vec![logon(), rejects, vec![("5", "58=bye|")]];
        write_client(&dir, &scripted(script), "reset_on = ['logon']\n");
        let mut client = Program::start(&dir, &[&["connect", "client.toml"], options].concat());
        write!(client.commands, "wait\n{order}").unwrap();
        let line = client.wait_for("no such symbol");
        writeln!(client.commands, "quit").unwrap();
        assert!(line.contains("<- Reject(3)"), "{line}");
        assert!(!client.rest().contains("no such symbol"), "once on the screen");
        let (_, errors) = client.ended();
        assert_eq!(errors.matches("no such symbol").count(), events, "{errors}");
    }
    // The counterparty answers the Logon(A) with a Logout(5).
    let script = vec![vec![("5", "58=wrong password|")]];
    write_client(&dir, &scripted(script), "reconnect_interval_ms = 60000\nreset_on = ['logon']\n");
    let mut client = Program::start(&dir, &["connect", "client.toml", "--quiet"]);
    client.wait_for("wrong password");
    writeln!(client.commands, "quit").unwrap();
    let (code, errors) = client.ended();
    assert_eq!(code, Some(1));
    let said = errors.lines().find(|line| line.contains("never logged on")).unwrap();
    assert!(said.contains("the counterparty says: wrong password"), "{said}");
}

#[test]
fn numbers_go_on_past_queued_and_foreign_orders() {
    let dir = TempDir::new();
    write_client(&dir, "127.0.0.1:1", "offline = 'queue'\n");
    let connect = |commands: &str| {
        run_in(dir.path(), &["connect", "client.toml", "--quiet"], commands.as_bytes()).out
    };
    assert!(connect("buy 1 EU 3\nbuy 2 EU 3\n").contains("the next order has the number 1;"));
    // The user sends an order with the highest possible number as its ClOrdID(11).
    let highest = format!("send D 11={}|55=EU|54=1|38=1|40=2|44=1\n", u64::MAX);
    assert!(connect(&highest).contains("the next order has the number 3;"));
    let out = connect("cancel 2\n");
    assert!(out.contains("the next order has the number 3;") && !out.contains("no order"), "{out}");
    assert!(connect("").contains("the next order has the number 4;"));
}

/// Connects from another loopback address, sends garbage, and waits for the end of the connection.
fn disturb(from: &str, to: &str) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let from: SocketAddr = format!("{from}:0").parse().unwrap();
    socket.bind(&from.into()).unwrap();
    let to: SocketAddr = to.parse().unwrap();
    socket.connect(&to.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // The program has closed the connection, or has reset it because of unread bytes.
    let mut buffer = [0; 16];
    assert!(!matches!(stream.read(&mut buffer), Ok(1..)), "an answer to what is no message");
}

#[test]
fn a_standard_error_that_nobody_reads_holds_up_nobody() {
    let dir = TempDir::new();
    let venue = venue(&dir, "", QUIET);
    // The pipe of standard error is reduced to one page, which a few dozen lines fill.
    let stderr = venue.child.stderr.as_ref().unwrap();
    let room = rustix::pipe::fcntl_setpipe_size(stderr, 4_096).unwrap();
    assert!(room <= 4_096, "{room}");
    let settings = fs::read_to_string(dir.path().join("client.toml")).unwrap();
    let address = settings.split("address = '").nth(1).unwrap().split('\'').next().unwrap();
    for n in 1..=20 {
        (0..10).for_each(|_| disturb(&format!("127.1.0.{n}"), address));
    }
    trade(&dir, "buy 1 EU 2\n");
}
