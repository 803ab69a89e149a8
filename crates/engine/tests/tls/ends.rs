//! Tests that the engine closes a TLS connection at once that ends within a record, after tickets,
//! with an alert, or by a reset. In each mode and role this happens without a timer.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use socket2::SockRef;
use transfix::{Precision, clock};
use transfix_codec::{Frame, FrameWriter, Limits, frame};
use transfix_transport::Stream as _;
use transfix_transport::memory::{MemoryStream, pipe};
use transfix_transport::tls::{
    Client, ClientOptions, Clients, Server, ServerOptions, TlsFiles, TlsStream,
};

use super::*;

const MODES: [Mode; 4] = [Mode::Pool, Mode::Dedicated, Mode::Spin, Mode::Polled];
/// An interval so long that no session timer ends a connection during a test.
const NEVER: Duration = Duration::from_hours(1);

/// The way in which the counterparty ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Sends a half of the remaining bytes and the end of the TCP stream, in one packet.
    Half,
    /// Sends all remaining bytes and the end of the TCP stream, in one packet.
    Whole,
    /// Sends all remaining bytes and `close_notify`, and leaves TCP open.
    CloseNotify,
    /// All remaining bytes and a fatal alert; TCP stays open.
    Alert,
    /// Sends all remaining bytes, then resets the TCP connection.
    Reset,
}

/// The order matters: a reset hides whether the engine closes its end, so only the next connection
/// shows that the engine still works. Therefore a reset must not be last.
const ENDS: [End; 5] = [End::Half, End::Reset, End::Whole, End::CloseNotify, End::Alert];

/// A counterparty that handles TLS apart from the socket, so that the test decides which bytes are
/// sent, and when.
struct Far {
    tls: TlsStream,
    tap: MemoryStream,
    socket: TcpStream,
    read: Vec<u8>,
    seq: u64,
    ids: &'static str,
    is_closed: bool,
}

impl Far {
    fn connect(firms: &Firms, to: SocketAddr) -> Self {
        let options = ClientOptions {
            files: files(firms, &firms.client),
            server_name: "venue.example".to_owned(),
            checks_name: true,
            ..ClientOptions::default()
        };
        let (near, tap) = pipe(1 << 16);
        let tls = Client::new(options).unwrap().connect(Box::new(near)).unwrap();
        Self::new((tls, tap), TcpStream::connect(to).unwrap(), "49=CLIENT\x0156=VENUE\x01")
    }

    fn accept(firms: &Firms, listener: &TcpListener, engine: &mut Engine) -> Self {
        let options = ServerOptions {
            files: files(firms, &firms.venue),
            clients: Clients::MustShow,
            ..ServerOptions::default()
        };
        let (near, tap) = pipe(1 << 16);
        let tls = Server::new(options).unwrap().accept(Box::new(near)).unwrap();
        let socket = until(engine, |_| listener.accept().ok().map(|(socket, _)| socket));
        Self::new((tls, tap), socket, "49=VENUE\x0156=CLIENT\x01")
    }

    fn new((tls, tap): (TlsStream, MemoryStream), socket: TcpStream, ids: &'static str) -> Self {
        socket.set_nonblocking(true).unwrap();
        Self { tls, tap, socket, read: Vec::new(), seq: 1, ids, is_closed: false }
    }

    /// Reads the bytes that the engine has sent, and passes them to the counterparty's TLS.
    fn take(&mut self) {
        let mut bytes = [0; 4096];
        match self.socket.read(&mut bytes) {
            Ok(0) => self.is_closed = true,
            Ok(n) => assert_eq!(self.tap.write(&bytes[..n]).unwrap(), n),
            Err(error) => self.is_closed |= error.kind() != std::io::ErrorKind::WouldBlock,
        }
        if let Ok(n) = self.tls.read(&mut bytes) {
            self.read.extend_from_slice(&bytes[..n]);
        }
    }

    /// Returns the bytes that the counterparty's TLS has to send.
    fn unsent(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 16];
        let n = self.tap.read(&mut bytes).unwrap_or(0);
        bytes.truncate(n);
        bytes
    }

    /// Returns the next message of the engine. Meanwhile, sends all bytes that the counterparty's
    /// TLS produces.
    fn next(&mut self, engine: &mut Engine) -> String {
        until(engine, |_| {
            self.take();
            let bytes = self.unsent();
            self.socket.write_all(&bytes).unwrap();
            self.whole()
        })
    }

    /// Returns the next message of the engine, without sending the bytes that the counterparty's
    /// TLS produces.
    fn next_alone(&mut self, engine: &mut Engine) -> String {
        until(engine, |_| {
            if self.tls.is_handshaking() {
                let bytes = self.unsent();
                self.socket.write_all(&bytes).unwrap();
            }
            self.take();
            self.whole()
        })
    }

    fn whole(&mut self) -> Option<String> {
        match frame::split(&self.read, Limits::default()) {
            Frame::Whole(end) => Some(String::from_utf8(self.read.drain(..end).collect()).unwrap()),
            _ => None,
        }
    }

    fn say(&mut self, msg_type: &str, rest: &str) {
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type.as_bytes());
        frame.raw(self.ids.as_bytes());
        frame.header_uint(tag::MSG_SEQ_NUM, self.seq);
        frame.header_timestamp(tag::SENDING_TIME, clock::now().utc, Precision::Millis);
        frame.raw(rest.as_bytes());
        frame.finish().unwrap();
        self.seq += 1;
        assert_eq!(self.tls.write(&out).unwrap(), out.len());
    }

    /// Sends the remaining bytes, ends the connection in this way, and waits until the engine has
    /// closed its end.
    fn end(mut self, engine: &mut Engine, how: End) {
        match how {
            End::CloseNotify => self.tls.shutdown().unwrap(),
            End::Alert => {
                // Sends bytes that are no TLS record.
                self.tap.write(b"8=FIX.4.4\x01").unwrap();
                self.tls.read(&mut [0; 1]).unwrap_err();
            }
            End::Half | End::Whole | End::Reset => {}
        }
        let mut bytes = self.unsent();
        assert!(!bytes.is_empty(), "this side has something to say");
        if how == End::Half {
            bytes.truncate(bytes.len() / 2);
        }
        if how == End::Reset {
            self.socket.write_all(&bytes).unwrap();
            return SockRef::from(&self.socket).set_linger(Some(Duration::ZERO)).unwrap();
        }
        // Delays sending, so that the end is in the same packet as the last bytes and one event
        // reports both.
        SockRef::from(&self.socket).set_tcp_cork(true).unwrap();
        self.socket.write_all(&bytes).unwrap();
        match how {
            End::Half | End::Whole => self.socket.shutdown(Shutdown::Write).unwrap(),
            _ => {
                SockRef::from(&self.socket).set_tcp_cork(false).unwrap();
            }
        }
        until(engine, |_| {
            self.take();
            self.is_closed.then_some(())
        });
    }
}

fn files(firms: &Firms, own: &Signed) -> TlsFiles {
    TlsFiles {
        certificates: vec![(own.certificate.clone(), own.key.clone())],
        ca: vec![firms.authority.ca.clone()],
        crl: Vec::new(),
    }
}

/// Waits until `look` returns a value. Meanwhile, polls the engine's sessions of mode `polled`.
fn until<T>(engine: &mut Engine, mut look: impl FnMut(&mut Engine) -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        engine.poll();
        if let Some(found) = look(engine) {
            return found;
        }
        assert!(begin.elapsed() < LONG, "it did not come");
        std::thread::yield_now();
    }
}

fn patient(mut settings: SessionSettings, mode: Mode) -> SessionSettings {
    settings.threads.mode = mode;
    settings.protocol.logon_timeout = NEVER;
    settings.protocol.heart_bt_int = Duration::from_secs(3_600);
    settings.protocol.reset_on.logon = true;
    settings
}

#[test]
fn of_an_acceptor_before_and_after_the_logon() {
    let _alone = alone();
    let firms = Firms::new();
    for mode in MODES {
        let mut venue = Side::start(patient(firms.acceptor("CLIENT"), mode));
        let to = venue.address();
        for end in ENDS {
            println!("{mode:?} {end:?}");
            let logon = "98=0\x01108=3600\x01141=Y\x01";
            // Half of a Logon(A): the connection does not belong to a session yet.
            let mut far = Far::connect(&firms, to);
            while far.tls.is_handshaking() {
                far.take();
                let bytes = far.unsent();
                far.socket.write_all(&bytes).unwrap();
            }
            if end == End::Half {
                far.say("A", logon);
                far.end(&mut venue.engine, end);
                far = Far::connect(&firms, to);
                while far.tls.is_handshaking() {
                    far.take();
                    let bytes = far.unsent();
                    far.socket.write_all(&bytes).unwrap();
                }
            }
            far.say("A", logon);
            // The previous connection has ended, so it does not prevent this logon.
            assert!(far.next(&mut venue.engine).contains("\x0135=A\x01"), "{mode:?} {end:?}");
            far.say("0", "");
            far.end(&mut venue.engine, end);
        }
    }
}

#[test]
fn of_an_initiator_before_and_after_the_logon() {
    let _alone = alone();
    let firms = Firms::new();
    for mode in MODES {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut settings = patient(firms.initiator(listener.local_addr().unwrap()), mode);
        settings.socket.reconnect_interval_max = Duration::from_millis(10);
        let mut client = Side::start(settings);
        for end in ENDS {
            println!("{mode:?} {end:?}");
            // After the handshake, the engine receives only session tickets.
            let mut far = Far::accept(&firms, &listener, &mut client.engine);
            assert!(far.next_alone(&mut client.engine).contains("\x0135=A\x01"));
            events::take();
            far.end(&mut client.engine, end);
            let mut far = Far::accept(&firms, &listener, &mut client.engine);
            let lines = events::take().join("\n");
            assert!(!lines.contains("in time"), "{mode:?} {end:?}: {lines}");

            assert!(far.next(&mut client.engine).contains("\x0135=A\x01"));
            far.say("A", "98=0\x01108=3600\x01141=Y\x01");
            far.say("1", "112=are you there\x01");
            assert!(far.next(&mut client.engine).contains("\x0135=0\x01"));
            far.say("0", "");
            far.end(&mut client.engine, end);
        }
    }
}
