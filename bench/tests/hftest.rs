//! Tests `transfix bench hftest` over real sockets: unattended, with keys, through a broken
//! connection, and with a server that dies or drops a report.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Termios, tcgetattr};
use serde_json::Value;
use transfix_testkit::temp::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

/// A running client or server, or an unattended run of both.
struct Side {
    child: Child,
    lines: Receiver<String>,
}

/// The exit code and the output of an ended process.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Side {
    fn start(dir: &Path, args: &str, input: Stdio) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_transfix-bench"))
            .arg("hftest")
            .args(args.split(' '))
            .current_dir(dir)
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (said, lines) = channel();
        std::thread::spawn(move || {
            // The test may have dropped the receiver of the lines; the thread then ends.
            stdout.lines().map_while(Result::ok).all(|line| said.send(line).is_ok())
        });
        Self { child, lines }
    }

    /// Starts a server at a port that the system chooses; also returns the address.
    fn server(dir: &Path, args: &str) -> (Self, SocketAddr) {
        let args = format!("server --address 127.0.0.1:0{args}");
        let server = Self::start(dir, &args, Stdio::piped());
        let line = server.wait_for("listening at ");
        let address = line.strip_prefix("listening at ").unwrap().parse().unwrap();
        (server, address)
    }

    /// Starts a client, and passes `keys` to its standard input.
    fn client(dir: &Path, address: SocketAddr, args: &str, keys: &str) -> Self {
        let args = format!("client --address {address}{args}");
        let mut client = Self::start(dir, &args, Stdio::piped());
        client.child.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
        client
    }

    /// Waits for the first line that contains `text`, and returns the line.
    fn wait_for(&self, text: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("no '{text}'"));
            if line.contains(text) {
                return line;
            }
        }
    }

    fn ended(mut self) -> Ended {
        let mut out = String::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => out += &(line + "\n"),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end: {out}"),
            }
        }
        let mut err = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Ended { code: self.child.wait().unwrap().code(), out, err }
    }

    /// Ends a server by its key `x`, and returns the figures from its last line.
    fn figures(mut self) -> Value {
        // The write may fail, because the server may have ended after the logout of its client.
        let _ = self.child.stdin.take().unwrap().write_all(b"x\n");
        let ended = self.ended();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        serde_json::from_str(ended.out.lines().last().unwrap()).unwrap()
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // The process has ended already, unless a test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs client and server unattended (`--self`).
fn both(dir: &Path, args: &str) -> Ended {
    Side::start(dir, &format!("--self {args}"), Stdio::null()).ended()
}

#[test]
fn an_unattended_run_sends_all_and_passes_its_check() {
    for form in ["", " --valid"] {
        let dir = TempDir::new();
        let run = both(dir.path(), &format!("--orders 2000 --rounds 2 --histogram{form}"));
        assert_eq!((run.code, &*run.err), (Some(0), ""), "{run:?}");
        for text in [
            "\n0 NewOrderSingle msgs currently preloaded. loading...\n",
            "\n2000 NewOrderSingle msgs preloaded.\n",
            "\n2000 NewOrderSingle msgs sent\n0 NewOrderSingle msgs remaining.\n",
            " ExecutionReport msgs received\n",
            "an order, 3.9295 expected: ",
            "\nSelf-check: passed, each order has all its reports, in order\n",
            "\nclient:Encode: ",
            "\nclient:Decode: ",
            "\nserver:Encode: ",
            "\nserver:Decode: ",
            "\nserver:encoded ",
            "\nSums of medians: encode ",
            "\nclient:Memory: ",
            "\nOf 2 rounds the middle one by its orders a second:\n",
            "\nOrders a second: ",
            ") those of bare sockets (",
            "\ntransfix, encode in the engine, ",
            "\ntransfix, decode and validate, the codec alone, ",
            ") the floor\n",
            "\n2 rounds in which all took turns; ",
        ] {
            assert!(run.out.contains(text), "{text}: {}", run.out);
        }
        assert_eq!(run.out.contains("LastCapacity(29)=5"), form.is_empty(), "{}", run.out);
        for (side, encoded) in [("client", Some(" secs, 2000 msgs, ")), ("server", None)] {
            let text = fs::read_to_string(dir.path().join(side)).unwrap();
            let lines: Vec<_> = text.lines().collect();
            assert_eq!(lines.len(), 2, "{text}");
            assert!(lines[0].starts_with("Encode: ") && lines[1].starts_with("Decode: "), "{text}");
            assert!(encoded.is_none_or(|encoded| lines[0].contains(encoded)), "{text}");
        }
    }
}

#[test]
fn an_unattended_run_prints_one_json_object() {
    let dir = TempDir::new();
    let run = both(dir.path(), "--orders 300 --rounds 1 --seed 7 --json");
    assert_eq!(run.code, Some(0), "{run:?}");
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&report["scenario"], &report["passed"]), (&"S2b".into(), &true.into()));
    let check = &report["check"];
    assert_eq!((&check["orders"], &check["open"]), (&300.into(), &0.into()), "{report}");
    assert_eq!(report["client"]["encode"]["msgs"], 300, "{report}");
    assert_eq!(report["server"]["encode"]["msgs"], check["reports"], "{report}");
    for side in ["client", "server"] {
        for time in ["encode", "decode"] {
            assert!(report[side][time]["secs"].as_f64().unwrap() > 0.0, "{report}");
        }
    }
    let all = &report["all"];
    for ratio in [&all["orders_ratio"], &all["rows"][0]["floor_ratio"]] {
        let [low, median, high] = ["low", "median", "high"].map(|part| ratio[part].as_f64());
        assert!(low.is_some() && low <= median && median <= high, "{report}");
    }
    let saved = fs::read_to_string(dir.path().join("bench-out/hftest.json")).unwrap();
    assert_eq!(saved, run.out.trim_end());
    // The same seed gives the same orders and reports.
    let again = both(dir.path(), "--orders 300 --rounds 1 --seed 7 --json");
    let again: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!(again["check"], *check);
}

#[test]
fn a_report_that_is_dropped_fails_the_check() {
    for report in [1, 100, 600] {
        let dir = TempDir::new();
        let run = both(dir.path(), &format!("--orders 200 --patience 1 --drop {report} --seed 3"));
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.out.contains("Self-check: FAILED: "), "{run:?}");
    }
}

#[test]
fn each_key_does_what_it_says() {
    let dir = TempDir::new();
    let (server, address) = Side::server(dir.path(), " --figures");
    let keys = "?\na\np 300\nn\nN 5\nN\n7\na\nb 20\nl\nn\nl\nn\nx\nn\n";
    let client = Side::client(dir.path(), address, "", keys).ended();
    assert_eq!((client.code, &*client.err), (Some(0), ""), "{client:?}");
    let told = |line: &&str| {
        let others = ["FIX.4.2:", "Reports are "];
        !line.is_empty()
            && !line.contains("ExecutionReport")
            && !others.iter().any(|other| line.starts_with(other))
    };
    let lines: Vec<_> = client.out.lines().filter(told).collect();
    let help = lines.iter().position(|line| line.starts_with("Key ")).unwrap();
    assert!(lines[help..][..10].contains(&"a       Send all Preloaded NewOrderSingle msgs"));
    let expected = [
        "0 NewOrderSingle msgs currently preloaded; p preloads some",
        "300 NewOrderSingle msgs preloaded.",
        "1 NewOrderSingle msgs sent",
        "300 NewOrderSingle msgs remaining.",
        "5 NewOrderSingle msgs sent",
        "300 NewOrderSingle msgs remaining.",
        "7 NewOrderSingle msgs sent",
        "300 NewOrderSingle msgs remaining.",
        "300 NewOrderSingle msgs sent",
        "0 NewOrderSingle msgs remaining.",
        "20 NewOrderSingle msgs sent",
        "0 NewOrderSingle msgs remaining.",
        "Logged out",
    ];
    assert_eq!(lines[help + 10..][..expected.len()], expected, "{}", client.out);
    let rest = &lines[help + 10 + expected.len()..];
    assert!(rest[0].starts_with("Encode: ") && rest[0].contains(" 333 msgs, "), "{rest:?}");
    let at = rest.iter().position(|line| *line == "not logged on; l logs on again").unwrap();
    assert_eq!(rest[at + 1], "1 NewOrderSingle msgs sent", "{rest:?}");
    assert_eq!(client.out.matches(" logged on at ").count(), 2, "{}", client.out);
    assert_eq!(client.out.matches("Logged out\n").count(), 2, "{}", client.out);
    assert!(client.out.ends_with("Self-check: passed, each order has all its reports, in order\n"));
    let text = fs::read_to_string(dir.path().join("client")).unwrap();
    assert!(text.contains(" secs, 334 msgs, "), "{text}");
    assert_eq!(server.figures()["orders"], 334);
}

#[test]
fn a_server_serves_one_client_after_another_until_its_key() {
    let dir = TempDir::new();
    let (mut server, address) = Side::server(dir.path(), "");
    for n in 1..3 {
        let client = Side::client(dir.path(), address, "", "b 50\n").ended();
        assert_eq!(client.code, Some(0), "{client:?}");
        server.wait_for(&format!("Session({n}) finished."));
        server.wait_for(&format!("{} NewOrderSingle msgs received", 50 * n));
    }
    server.child.stdin.take().unwrap().write_all(b"?\nz\nx\n").unwrap();
    let ended = server.ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("\nx       Exit\n"), "{ended:?}");
    assert!(ended.err.contains("no key `z`; ? shows all"), "{ended:?}");
}

#[test]
fn what_cannot_be_is_said_in_plain_words() {
    let dir = TempDir::new();
    // The socket is bound without listening, so that no other process gets the port.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let server = Side::start(dir.path(), &format!("server --address {address}"), Stdio::null());
    let ended = server.ended();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains(&address.to_string()) && ended.err.contains("in use"), "{ended:?}");
    drop(taken);
    let client = Side::client(dir.path(), address, "", "").ended();
    assert_eq!(client.code, Some(1), "{client:?}");
    assert!(client.err.contains(&format!("no server at {address}: ")), "{client:?}");
    assert!(client.err.contains("transfix bench hftest server"), "{client:?}");
    let (server, address) = Side::server(dir.path(), "");
    let client = Side::client(dir.path(), address, "", "p many\n").ended();
    assert_eq!(client.code, Some(1), "{client:?}");
    assert!(client.err.ends_with("`many` is no number from 1 to 10000000\n"), "{client:?}");
    drop(server);
    // This listener accepts connections but never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let client = Side::client(dir.path(), address, " --patience 1", "a\n").ended();
    assert_eq!(client.code, Some(1), "{client:?}");
    assert!(client.err.contains("no logon for 1 s; "), "{client:?}");
}

/// A relay between client and server that closes one connection in mid-stream, and passes all later
/// ones.
struct Between {
    address: SocketAddr,
    /// Receives a message when the relay has passed its limit of report bytes. The relay then waits
    /// for `go_on` before it closes the connection.
    stopped: Receiver<()>,
    go_on: Sender<()>,
}

impl Between {
    fn start(server: SocketAddr, bytes: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ((tell, stopped), (go_on, told)) = (channel(), channel());
        std::thread::spawn(move || {
            let mut left = Some(bytes);
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(server) else { return };
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || {
                    // The copy may fail, because either end may be closed.
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                // The client first tests for a listener with a connection that ends before the
                // limit is reached; the limit applies to its next connection.
                let passed = copy(&server, &client, left.unwrap_or(usize::MAX));
                if left.is_some_and(|left| passed >= left) {
                    left = None;
                    let _ = tell.send(());
                    let _ = told.recv();
                }
                for stream in [&server, &client] {
                    let _ = stream.shutdown(Shutdown::Both);
                }
            }
        });
        Self { address, stopped, go_on }
    }
}

/// Copies at most `bytes_max` bytes; returns the number of copied bytes.
fn copy(mut from: &TcpStream, mut to: &TcpStream, bytes_max: usize) -> usize {
    let (mut buffer, mut copied) = (vec![0; 64 << 10], 0);
    while copied < bytes_max {
        let room = buffer.len().min(bytes_max - copied);
        match from.read(&mut buffer[..room]) {
            Ok(n) if n > 0 && to.write_all(&buffer[..n]).is_ok() => copied += n,
            _ => break,
        }
    }
    copied
}

#[test]
fn a_server_that_dies_in_the_middle_is_an_error() {
    let dir = TempDir::new();
    let (mut server, address) = Side::server(dir.path(), "");
    let between = Between::start(address, 200_000);
    let client = Side::client(dir.path(), between.address, " -p 5000", "a\n");
    between.stopped.recv_timeout(PATIENCE).unwrap();
    server.child.kill().unwrap();
    between.go_on.send(()).unwrap();
    let ended = client.ended();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let cut = format!("the connection to {} is cut: ", between.address);
    assert!(ended.err.contains(&cut), "{ended:?}");
    assert!(ended.err.ends_with(" orders sent have not all their reports\n"), "{ended:?}");
    assert!(ended.out.contains("Self-check: FAILED: "), "{ended:?}");
}

#[test]
fn a_reliable_client_goes_on_after_a_cut_connection() {
    for bytes in [300, 150_000, 1_000_000] {
        let dir = TempDir::new();
        let (server, address) = Side::server(dir.path(), " --figures");
        let between = Between::start(address, bytes);
        let client = Side::client(dir.path(), between.address, " -r -p 5000", "a\nn\n");
        between.stopped.recv_timeout(PATIENCE).unwrap();
        between.go_on.send(()).unwrap();
        let ended = client.ended();
        assert_eq!(ended.code, Some(0), "{bytes}: {ended:?}");
        assert!(ended.out.contains("The connection is cut: "), "{ended:?}");
        assert!(ended.out.contains("Self-check: passed, "), "{ended:?}");
        assert!(ended.out.contains("\n5000 NewOrderSingle msgs sent\n"), "{ended:?}");
        // No order was lost or duplicated.
        assert_eq!(server.figures()["orders"], 5_001, "{bytes}");
    }
}

/// Returns both ends of a pseudoterminal. The terminal must not become a controlling terminal,
/// because closing it would then send SIGHUP to all other tests.
fn terminal() -> (File, File) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let keyboard = openpt(flags).unwrap();
    grantpt(&keyboard).unwrap();
    unlockpt(&keyboard).unwrap();
    let terminal = ioctl_tiocgptpeer(&keyboard, flags).unwrap();
    (File::from(keyboard), File::from(terminal))
}

fn shows_keys(terminal: &File) -> bool {
    let modes: Termios = tcgetattr(terminal).unwrap();
    modes.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
}

#[test]
fn a_terminal_gives_single_keys_and_is_restored() {
    for signal in [None, Some(Signal::INT), Some(Signal::TERM)] {
        let dir = TempDir::new();
        let (_server, address) = Side::server(dir.path(), "");
        let (mut keyboard, terminal) = terminal();
        assert!(shows_keys(&terminal));
        let input = Stdio::from(terminal.try_clone().unwrap());
        let client = Side::start(dir.path(), &format!("client --address {address}"), input);
        client.wait_for("x       Exit");
        assert!(!shows_keys(&terminal));
        keyboard.write_all(b"p2x\x7f5\r").unwrap();
        client.wait_for("Enter number of NewOrderSingle msgs to preload:2");
        client.wait_for("25 NewOrderSingle msgs preloaded.");
        keyboard.write_all(b"a").unwrap();
        client.wait_for("25 NewOrderSingle msgs sent");
        client.wait_for("ExecutionReport msgs received");
        keyboard.write_all(b"z").unwrap();
        client.wait_for("no key `z`; ? shows all");
        match signal {
            Some(signal) => kill_process(Pid::from_child(&client.child), signal).unwrap(),
            None => keyboard.write_all(b"x").unwrap(),
        }
        let ended = client.ended();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.out.contains("Self-check: passed, "), "{ended:?}");
        assert!(shows_keys(&terminal));
    }
}
