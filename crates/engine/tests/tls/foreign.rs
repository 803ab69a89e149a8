//! Counterparties that are no part of this project: `openssl` and Python's `ssl`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use transfix::codec::{Frame, FrameWriter, Limits, frame};
use transfix::{Precision, clock, tag};
use transfix_testkit::certificates::Signed;

use crate::Firms;

/// What `openssl` prints about a certificate.
pub(crate) fn openssl(args: &[&str], of: &Signed) -> String {
    let printed = Command::new("openssl").args(args).arg(&of.certificate).output().unwrap();
    assert!(printed.status.success(), "{printed:?}");
    String::from_utf8(printed.stdout).unwrap()
}

/// `openssl s_client`, to which FIX is dictated.
pub(crate) struct Client {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    read: Vec<u8>,
    seq: u64,
    /// What has come before a message.
    printed: Vec<u8>,
}

impl Client {
    pub(crate) fn start(firms: &Firms, to: SocketAddr, version: &str) -> Self {
        Self::start_with(firms, to, version, &["-quiet"])
    }

    /// With further options; without `-quiet` it prints what it thinks of the connection.
    pub(crate) fn start_with(firms: &Firms, to: SocketAddr, version: &str, more: &[&str]) -> Self {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-verify_return_error", "-nocommands", "-ign_eof"]).args(more);
        command.args([version, "-connect"]);
        command.arg(to.to_string()).arg("-CAfile").arg(&firms.authority.ca);
        command.arg("-cert").arg(&firms.client.certificate).arg("-key").arg(&firms.client.key);
        // By itself it speaks no version any more that is too old for us.
        command.args(["-cipher", "ALL:@SECLEVEL=0"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output, read: Vec::new(), seq: 1, printed: Vec::new() }
    }

    pub(crate) fn log_on(&mut self) {
        // The numbers begin again: the session goes on from earlier connections of the test.
        self.say("A", "98=0\x01108=30\x01141=Y\x01");
    }

    pub(crate) fn log_out(&mut self) {
        self.say("5", "");
    }

    fn say(&mut self, msg_type: &str, rest: &str) {
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type.as_bytes());
        frame.raw(b"49=CLIENT\x0156=VENUE\x01");
        frame.header_uint(tag::MSG_SEQ_NUM, self.seq);
        frame.header_timestamp(tag::SENDING_TIME, clock::now().utc, Precision::Millis);
        frame.raw(rest.as_bytes());
        frame.finish().unwrap();
        self.seq += 1;
        self.input.write_all(&out).unwrap();
        self.input.flush().unwrap();
    }

    /// What it has printed of the connection, at its end.
    pub(crate) fn printed(mut self) -> String {
        while !self.next().is_empty() {}
        self.printed.append(&mut self.read);
        String::from_utf8_lossy(&self.printed).into_owned()
    }

    /// The next message; empty at the end.
    pub(crate) fn next(&mut self) -> String {
        loop {
            let begin = self.read.windows(5).position(|five| five == b"8=FIX");
            self.printed.extend(self.read.drain(..begin.unwrap_or(0)));
            if let Frame::Whole(end) = frame::split(&self.read, Limits::default()) {
                return String::from_utf8(self.read.drain(..end).collect()).unwrap();
            }
            let mut buf = [0; 1024];
            match self.output.read(&mut buf).unwrap() {
                0 => return String::new(),
                n => self.read.extend_from_slice(&buf[..n]),
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server of Python's that takes one connection after the other, and answers each Logon(A).
pub(crate) struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
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
    pub(crate) fn start(firms: &Firms) -> Self {
        Self::start_with(firms, &[])
    }

    /// It goes on until the other side ends a connection, where otherwise it ends it itself.
    pub(crate) fn start_patient(firms: &Firms) -> Self {
        Self::start_with(firms, &["patient"])
    }

    fn start_with(firms: &Firms, more: &[&str]) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", SERVER]).arg(&firms.venue.certificate).arg(&firms.venue.key);
        command.arg(&firms.authority.ca).args(more).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self { child, output, address };
        let port = server.line().parse().unwrap();
        server.address.set_port(port);
        server
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
