//! Counterparties without an engine, for which the test writes the FIX messages: rustls, and the
//! programs `openssl` and Python's `ssl`.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use transfix::{Precision, clock, tag};
use transfix_codec::{Frame, FrameWriter, Limits, frame};
use transfix_testkit::certificates::Signed;
use transfix_testkit::tls::rustls::{ClientConfig, HandshakeKind, ServerConfig};
use transfix_testkit::tls::{
    self, ClientStream, ServerStream, TLS12, TLS12_AND_13, TLS13, Versions,
};
use transfix_transport::tls::Certificate;

use crate::{Firms, LONG};

/// The TLS implementation of the counterparty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Rustls,
    /// `openssl` as a client, and Python's `ssl` as a server.
    Programs,
}

/// A TLS version, as the only one that a client supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Tls11,
    Tls12,
    Tls13,
}

impl Version {
    fn of_rustls(self) -> Versions {
        match self {
            // rustls does not support TLS 1.1, so the test sends `HELLO_OF_TLS11` instead.
            Self::Tls11 | Self::Tls12 => TLS12,
            Self::Tls13 => TLS13,
        }
    }

    const fn option(self) -> &'static str {
        match self {
            Self::Tls11 => "-tls1_1",
            Self::Tls12 => "-tls1_2",
            Self::Tls13 => "-tls1_3",
        }
    }
}

/// A ClientHello of TLS 1.1 (RFC 4346 section 7.4.1.2), with one cipher suite, no compression and
/// no extensions.
const HELLO_OF_TLS11: &[u8] = b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x02\
    0123456789abcdef0123456789abcdef\x00\x00\x02\x00\x2f\x01\x00";

/// Opens connections of one client, each of which may resume the TLS session of the previous one.
pub(crate) struct Dialer {
    by: By,
    version: Version,
    to: SocketAddr,
    own: Signed,
    ca: PathBuf,
    rustls: Arc<ClientConfig>,
    ticket: PathBuf,
    has_ticket: Cell<bool>,
}

impl Dialer {
    pub(crate) fn new(firms: &Firms, by: By, version: Version, to: SocketAddr) -> Self {
        let ca = firms.authority.ca.clone();
        let rustls = tls::client(&ca, Some(&firms.client), version.of_rustls());
        let ticket = firms.dir.path().join(format!("ticket{version:?}"));
        let has_ticket = Cell::new(false);
        Self { by, version, to, own: firms.client.clone(), ca, rustls, ticket, has_ticket }
    }

    pub(crate) fn connect(&self) -> Client {
        let link = match (self.by, self.version) {
            (By::Programs, _) => Link::OpenSsl(self.openssl()),
            (By::Rustls, Version::Tls11) => {
                let mut socket = TcpStream::connect(self.to).unwrap();
                socket.write_all(HELLO_OF_TLS11).unwrap();
                Link::Socket(socket)
            }
            (By::Rustls, _) => {
                Link::Rustls(Box::new(tls::connect(&self.rustls, self.to, "venue.example")))
            }
        };
        Client { link, read: Vec::new(), seq: 1, printed: Vec::new() }
    }

    fn openssl(&self) -> OpenSsl {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-verify_return_error", "-nocommands", "-ign_eof"]);
        let how = if self.has_ticket.replace(true) { "-sess_in" } else { "-sess_out" };
        command.arg(how).arg(&self.ticket).arg(self.version.option());
        command.arg("-connect").arg(self.to.to_string()).arg("-CAfile").arg(&self.ca);
        command.arg("-cert").arg(&self.own.certificate).arg("-key").arg(&self.own.key);
        // Lets `openssl` use versions that are too old for the engine, which it refuses by default.
        command.args(["-cipher", "ALL:@SECLEVEL=0"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        OpenSsl { child, input, output }
    }
}

struct OpenSsl {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        // `kill` fails only if the program has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

enum Link {
    OpenSsl(OpenSsl),
    Rustls(Box<ClientStream>),
    Socket(TcpStream),
}

/// A connection.
pub(crate) struct Client {
    link: Link,
    read: Vec<u8>,
    seq: u64,
    /// The bytes that the program has printed before a message.
    printed: Vec<u8>,
}

impl Client {
    pub(crate) fn log_on(&mut self) {
        // The Logon(A) resets the numbers, because earlier connections of the test have used the
        // session.
        self.say("A", "98=0\x01108=30\x01141=Y\x01");
    }

    pub(crate) fn log_out(&mut self) {
        self.say("5", "");
    }

    fn say(&mut self, msg_type: &str, rest: &str) {
        let bytes = message(("CLIENT", "VENUE"), msg_type, self.seq, rest);
        self.seq += 1;
        match &mut self.link {
            Link::OpenSsl(openssl) => openssl.input.write_all(&bytes).unwrap(),
            // An error is ignored, because a refused handshake shows in the next read.
            Link::Rustls(stream) => _ = stream.write_all(&bytes),
            Link::Socket(socket) => socket.write_all(&bytes).unwrap(),
        }
    }

    /// Waits for the end of the connection. Returns true if the connection resumed an earlier
    /// session.
    pub(crate) fn resumed(mut self) -> bool {
        while !self.next().is_empty() {}
        match &self.link {
            Link::OpenSsl(_) => {
                self.printed.append(&mut self.read);
                String::from_utf8_lossy(&self.printed).contains("Reused, ")
            }
            Link::Rustls(stream) => stream.conn.handshake_kind() == Some(HandshakeKind::Resumed),
            Link::Socket(_) => false,
        }
    }

    /// Returns the next message, or an empty string at the end of the stream.
    pub(crate) fn next(&mut self) -> String {
        loop {
            let begin = self.read.windows(5).position(|five| five == b"8=FIX");
            self.printed.extend(self.read.drain(..begin.unwrap_or(0)));
            if let Frame::Whole(end) = frame::split(&self.read, Limits::default()) {
                return String::from_utf8(self.read.drain(..end).collect()).unwrap();
            }
            let mut buf = [0; 1024];
            let read = match &mut self.link {
                Link::OpenSsl(openssl) => openssl.output.read(&mut buf),
                Link::Rustls(stream) => stream.read(&mut buf),
                Link::Socket(socket) => socket.read(&mut buf),
            };
            match read {
                Ok(n @ 1..) => self.read.extend_from_slice(&buf[..n]),
                Ok(0) | Err(_) => return String::new(),
            }
        }
    }
}

/// Returns a valid message with these CompIDs, this type and number, and the fields `rest`.
fn message((from, to): (&str, &str), msg_type: &str, seq: u64, rest: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type.as_bytes());
    frame.raw(format!("49={from}\x0156={to}\x01").as_bytes());
    frame.header_uint(tag::MSG_SEQ_NUM, seq);
    frame.header_timestamp(tag::SENDING_TIME, clock::now().utc, Precision::Millis);
    frame.raw(rest.as_bytes());
    frame.finish().unwrap();
    out
}

/// The moment at which a server closes a connection, after its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    AtOnce,
    /// The server closes after the other side has closed.
    Last,
}

/// A server that accepts connections one after the other, and answers each Logon(A).
pub(crate) struct Server {
    lines: Lines,
    pub(crate) address: SocketAddr,
}

/// The source of the lines that a server reports.
enum Lines {
    Python(Child, BufReader<ChildStdout>),
    Rustls(Receiver<String>),
}

const SERVER: &str = r#"
import socket, ssl, sys, time
certificate, key, ca = sys.argv[1:4]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
context.load_verify_locations(ca)
context.verify_mode = ssl.CERT_REQUIRED
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
def serve(stream):
    names = [pair[0] for pair in stream.getpeercert()["subject"]]
    logon = b""
    while b"\x0110=" not in logon or not logon.endswith(b"\x01"):
        part = stream.recv(4096)
        if not part:
            return
        logon += part
    print("CN=" + dict(names)["commonName"])
    print(f"reused={stream.session_reused}")
    print(logon.replace(b"\x01", b"|").decode(), flush=True)
    now = time.strftime("%Y%m%d-%H:%M:%S", time.gmtime())
    body = f"35=A|49=VENUE|56=CLIENT|34=1|52={now}|98=0|108=30|141=Y|".replace("|", "\x01")
    text = f"8=FIX.4.4|9={len(body)}|".replace("|", "\x01") + body
    text += f"10={sum(text.encode()) % 256:03}\x01"
    stream.sendall(text.encode())
    if len(sys.argv) > 4:
        while stream.recv(4096):
            pass
while True:
    try:
        with context.wrap_socket(listener.accept()[0], server_side=True) as stream:
            serve(stream)
    except (OSError, ssl.SSLError):
        pass
"#;

impl Server {
    pub(crate) fn start(firms: &Firms, by: By, ends: Ends) -> Self {
        match by {
            By::Programs => Self::python(firms, ends),
            By::Rustls => Self::rustls(firms, ends),
        }
    }

    fn python(firms: &Firms, ends: Ends) -> Self {
        let more: &[&str] = if ends == Ends::Last { &["patient"] } else { &[] };
        let mut command = Command::new("python3");
        command.args(["-c", SERVER]).arg(&firms.venue.certificate).arg(&firms.venue.key);
        command.arg(&firms.authority.ca).args(more).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self { lines: Lines::Python(child, output), address };
        let port = server.line().parse().unwrap();
        server.address.set_port(port);
        server
    }

    fn rustls(firms: &Firms, ends: Ends) -> Self {
        let config = tls::server(&firms.venue, Some(&firms.authority.ca), TLS12_AND_13);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || serve(&listener, &config, ends, &sender));
        Self { lines: Lines::Rustls(lines), address }
    }

    pub(crate) fn line(&mut self) -> String {
        match &mut self.lines {
            Lines::Python(_, output) => {
                let mut line = String::new();
                output.read_line(&mut line).unwrap();
                line.trim_end().to_owned()
            }
            Lines::Rustls(lines) => lines.recv_timeout(LONG).unwrap(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Lines::Python(child, _) = &mut self.lines {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Serves connections until nothing receives the lines any more.
fn serve(listener: &TcpListener, config: &Arc<ServerConfig>, ends: Ends, lines: &Sender<String>) {
    for socket in listener.incoming() {
        let mut stream = tls::accept(config, socket.unwrap());
        let Some(logon) = first_message(&mut stream) else { continue };
        let shown = stream.conn.peer_certificates().unwrap();
        let shown = Certificate::parse(&shown[0]).unwrap().subject;
        let is_resumed = stream.conn.handshake_kind() == Some(HandshakeKind::Resumed);
        let reused = if is_resumed { "reused=True" } else { "reused=False" };
        for line in [shown, reused.to_owned(), logon.replace('\x01', "|")] {
            if lines.send(line).is_err() {
                return;
            }
        }
        let answer = message(("VENUE", "CLIENT"), "A", 1, "98=0\x01108=30\x01141=Y\x01");
        // An error is ignored, because the other side may already have closed.
        let _ = stream.write_all(&answer);
        if ends == Ends::Last {
            let _ = stream.read_to_end(&mut Vec::new());
        }
        stream.conn.send_close_notify();
        let _ = stream.flush();
    }
}

/// Returns the first message, or `None` if the connection ends first.
fn first_message(stream: &mut ServerStream) -> Option<String> {
    let (mut read, mut buf) = (Vec::new(), [0; 1024]);
    loop {
        if let Frame::Whole(end) = frame::split(&read, Limits::default()) {
            return String::from_utf8(read[..end].to_vec()).ok();
        }
        match stream.read(&mut buf) {
            Ok(n @ 1..) => read.extend_from_slice(&buf[..n]),
            Ok(0) | Err(_) => return None,
        }
    }
}
